"""Every error of the product, grouped by what the caller can do about it.

`CoppiceError` is the root. `InvalidInput`: mend the request. `NotFound`: the row is gone.
`Conflict`: the row has moved on; read it again. `TryLater`: the database is away.
`StaleLease`: this process no longer owns the job. `SettingsError`: mend the configuration.
"""

from __future__ import annotations


class CoppiceError(Exception):
    """The root of all errors that Coppice raises on purpose."""


class InvalidInput(CoppiceError, ValueError):
    """A value was refused; `field` names it, `index` its place in a bulk call."""

    def __init__(self, message: str, *, field: str, index: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.index = index

    def at(self, index: int) -> InvalidInput:
        """The same refusal, saying which job of a bulk call it is about."""
        return type(self)(self.message, field=self.field, index=index)

    def __str__(self) -> str:
        place = f"jobs[{self.index}]." if self.index is not None else ""
        return f"{place}{self.field}: {self.message}"


class UnknownType(InvalidInput):
    """No handler is registered for the job type."""


class DependencyCycle(InvalidInput):
    """The edges asked for would make a job wait for itself."""


class TooBroad(InvalidInput):
    """The question would read too much; narrow it. Nothing is wrong with its values."""


class NotFound(CoppiceError, LookupError):
    """There is no such row."""

    def __init__(self, what: str, key: object) -> None:
        super().__init__(f"{what} {key} does not exist")
        self.what = what
        self.key = key


class Conflict(CoppiceError):
    """The row is not in a state in which this can be done; nothing was changed."""


class StaleLease(CoppiceError):
    """The lease was lost: the job has been taken over, and this write changed nothing."""


class TryLater(CoppiceError):
    """The database could not be reached; nothing was changed."""


class SettingsError(CoppiceError):
    """A setting is wrong; the message names the key, its value, and what would be right."""


class RegistrationError(CoppiceError):
    """A handler cannot be registered as declared."""
