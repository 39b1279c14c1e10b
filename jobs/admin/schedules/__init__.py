"""Schedules in the console: the list, one schedule with its runs, the form, and what is done to them."""

from jobs.admin.schedules.showing import ScheduleAdmin

__all__ = ["ScheduleAdmin"]
