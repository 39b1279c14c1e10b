"""Alerts and webhooks in the console: who is told about what, and whether it arrived."""

from jobs.admin.alerting.showing import WebhookAdmin

__all__ = ["WebhookAdmin"]
