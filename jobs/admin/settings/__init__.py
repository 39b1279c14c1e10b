"""The settings page: what is in force and where it comes from, how much is stored, how things are."""

from jobs.admin.settings import showing  # noqa: F401  the page registers itself
