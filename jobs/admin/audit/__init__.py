"""The audit in the console: who did what, to how much, and why. Nothing of it can be changed here."""

from jobs.admin.audit.showing import AuditEntryAdmin

__all__ = ["AuditEntryAdmin"]
