"""Bulk operations in the console: how far each is, and pause, resume, abort, the same again.

They are asked for on the ledger's page ("all that match"), which shows first what would change.
"""

from jobs.admin.bulk.admin import BulkOperationAdmin

__all__ = ["BulkOperationAdmin"]
