"""How a range job is declared, checked and found again.

    class BackfillGeohash(RangeJob):          # in range_jobs.py of any installed app
        over = City.objects.all()
        todo = Q(geohash="")
        leaf = Leaf(max_size=1_000)

        def process(self, leaf, context): ...

Code is found by its name, "app_label.ClassName", and never stored: a run knows only the name.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, cast
from uuid import UUID

from jobs.errors import InvalidInput, NotFound, RegistrationError
from jobs.registry import QUEUE_NAME
from ranges.blocks import Pruner
from ranges.bounding import OpenSource
from ranges.leaf_range import LeafRange
from ranges.options import Options
from ranges.positions import Position, end_position, position_of
from ranges.retrying import RetryPolicy
from ranges.sizing import Leaf, LeafSizer
from ranges.sources import PlainSource, Source
from ranges.walking import Walker

if TYPE_CHECKING:
    from ranges.memory import MemoryRun
    from ranges.models import RangeRun
    from ranges.planning import Plan
    from ranges.reports import Statistics

LONGEST_VERSION = 100


class RangeJob:
    """Work over a range of keys. Subclass it, say `over` and `process`.

    `over`: a queryset, a model, `IntRange(...)` or another span, an axis of your own (then a run
    needs `start` and `end`), or a method that returns one of them.
    """

    over: Any = None
    key: ClassVar[str] = "pk"
    todo: ClassVar[Any] = None
    leaf: ClassVar[Leaf] = Leaf()
    concurrency: ClassVar[int] = 1
    retry: ClassVar[RetryPolicy] = RetryPolicy()
    failure_threshold: ClassVar[float | None] = 5.0
    max_depth: ClassVar[int | None] = None
    atomic: ClassVar[bool] = True
    nulls: ClassVar[str] = "refuse"
    queue: ClassVar[str] = "default"
    version: ClassVar[str] = ""
    """Change it when a run that is under way must not go on with the new code by itself."""

    name: ClassVar[str] = ""
    """"app_label.ClassName"; set by itself."""

    def process(self, leaf: LeafRange, context: Any) -> Any:
        """Do the leaf. May be `async def` when `atomic` is False.

        Of a queryset's leaf it may return how many rows it did.
        """
        raise NotImplementedError

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Without a choice of its own, async code is what it can only be.
        if cls.is_async() and not any("atomic" in c.__dict__ for c in _below_range_job(cls)):
            cls.atomic = False
        cls.options()
        if not isinstance(cls.key, str) or not cls.key:
            raise InvalidInput("must be the name of a field", field="key")
        if not isinstance(cls.queue, str) or not QUEUE_NAME.match(cls.queue):
            raise InvalidInput("must be 1 to 60 letters, digits or _.:-", field="queue")
        check_version(cls.version, "version")
        _check_over(cls.over, cls.todo)
        if inspect.isgeneratorfunction(cls.process) or inspect.isasyncgenfunction(cls.process):
            raise InvalidInput("must not yield, since nobody would run it", field="process")
        asked = getattr(cls, "should_process", None)
        if asked is not None and not callable(asked):
            raise InvalidInput("must be a method", field="should_process")
        if "name" not in cls.__dict__:
            cls.name = f"{_app_label(cls.__module__)}.{cls.__name__}"
        if cls.is_complete():
            _register(cls)

    # What a run does with it

    @classmethod
    def create(
        cls,
        start: Any = None,
        end: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        priority: int = 2,
        queue: str | None = None,
        scheduled_at: datetime | None = None,
        depends_on: Sequence[UUID | str] = (),
        by: str = "",
        **options: Any,
    ) -> RangeRun:
        """A run in status `created`; nothing happens before its `start()`.

        Options are those of the class (`leaf`, `concurrency`, `failure_threshold` ...), for this
        run alone; `max_range_size=n` is `leaf=Leaf(max_size=n)`.
        """
        from ranges import creating

        return creating.create(
            cls,
            cls.options(**options),
            start=start,
            end=end,
            params=params,
            metadata=metadata,
            priority=priority,
            queue=cls.queue if queue is None else queue,
            scheduled_at=scheduled_at,
            depends_on=depends_on,
            by=by,
        )

    @classmethod
    def start(cls, start: Any = None, end: Any = None, *, by: str = "", **options: Any) -> RangeRun:
        """`create` and start; what cannot be started is not created either."""
        from ranges import lifecycle

        return lifecycle.make_and_start(lambda: cls.create(start, end, by=by, **options), by=by)

    @classmethod
    def plan(cls, start: Any = None, end: Any = None, **options: Any) -> Plan:
        """What a run would do, without doing it: rows, leaves, the index it wants, seconds."""
        from ranges import planning

        return planning.plan(cls, cls.options(**options), start=start, end=end)

    @classmethod
    def in_memory(
        cls,
        start: Any = None,
        end: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> MemoryRun:
        """A run without a database of its own, to be started, paused, resumed and cancelled."""
        from ranges.memory import MemoryRun

        return MemoryRun(
            cls(),
            cls.options(**options),
            start=start,
            end=end,
            params=params,
            metadata=metadata,
        )

    @classmethod
    def run_in_memory(cls, start: Any = None, end: Any = None, **options: Any) -> Statistics:
        """Run it here and now, to its end (or until it pauses); takes what `in_memory` takes."""
        return cls.in_memory(start, end, **options).run()

    # What both engines ask

    @classmethod
    def is_async(cls) -> bool:
        return inspect.iscoroutinefunction(cls.process)

    @classmethod
    def is_complete(cls) -> bool:
        """Whether it says what to do over what; else it is a base for others."""
        return cls.over is not None and cls.process is not RangeJob.process

    @classmethod
    def options(cls, **overrides: Any) -> Options:
        """The class's options, some overridden; InvalidInput names the field that is wrong."""
        known = {each.name for each in fields(Options)}
        values = {name: getattr(cls, name) for name in known}
        given = {name: value for name, value in overrides.items() if name in known}
        values |= {name: value for name, value in given.items() if value is not None}
        for name in ("failure_threshold", "max_depth"):
            if name in given:
                values[name] = given[name]
        size = overrides.get("max_range_size")
        if size is not None:
            try:
                hard = getattr(values["leaf"], "hard_timeout", None)
                values["leaf"] = Leaf(max_size=size, hard_timeout=hard)
            except InvalidInput as error:
                raise InvalidInput(error.message, field="max_range_size") from None
        unknown = sorted(set(overrides) - known - {"max_range_size"})
        if unknown:
            raise InvalidInput("is not an option of a range run", field=unknown[0])
        options = Options(**values)
        if options.atomic and cls.is_async():
            raise InvalidInput(
                "must be False for an async process: a transaction cannot span an await",
                field="atomic",
            )
        return options

    @classmethod
    def asks(cls) -> bool:
        """Whether it has a `should_process`."""
        return getattr(cls, "should_process", None) is not None

    def source(self, options: Options | None = None) -> Source:
        """What it runs over."""
        chosen = self.options() if options is None else options
        over = self.over
        if over is None:
            raise InvalidInput("says what to run over; it is missing", field="over")
        if callable(over) and not _is_model(over):
            over = over()
        if _is_model(over):
            over = over._default_manager.all()  # noqa: SLF001 - Django's own name for it
        if over is None or callable(over):
            raise _no_over(over)
        _check_over(over, self.todo)
        source = self._source(over, chosen)
        if source.counts_rows and isinstance(chosen.leaf.max_size, timedelta):
            raise InvalidInput(
                "must be a number of rows: only without a table is it a length of time",
                field="leaf.max_size",
            )
        return source

    def _source(self, over: Any, chosen: Options) -> Source:
        if _is_span(over):
            axis = over.axis
            lo, hi = position_of(axis, over.lo), end_position(axis, over.hi)
            return PlainSource(axis, lo, hi, depth=chosen.max_depth)
        if _is_axis(over):
            return OpenSource(over, depth=chosen.max_depth)
        if _is_source(over):
            return cast(Source, over)
        from ranges.querying import QuerySource

        return QuerySource(over.all(), key=self.key, todo=self.todo, nulls=chosen.nulls)

    def walker(
        self,
        source: Source,
        bounds: tuple[Position, Position],
        sizer: LeafSizer,
        *,
        max_depth: int | None = None,
        blind: bool = False,
    ) -> Walker:
        """The walk over a run's bounds, for one strand."""
        pruner = None
        if self.asks():
            ask: Any = self.should_process  # type: ignore[attr-defined]
            pruner = Pruner(source.axis, *bounds, ask, max_depth=max_depth)
        return Walker(source, sizer, pruner, blind=blind)


# The registry

_jobs: dict[str, type[RangeJob]] = {}


def get(name: str) -> type[RangeJob]:
    """The class of that name. Raises NotFound."""
    found = _jobs.get(name)
    if found is None:
        raise NotFound("range job", name)
    return found


def find(name: str) -> type[RangeJob] | None:
    return _jobs.get(name)


def names() -> list[str]:
    return sorted(_jobs)


def check_version(value: object, field: str) -> None:
    if not isinstance(value, str) or len(value) > LONGEST_VERSION:
        raise InvalidInput(f"must be text of at most {LONGEST_VERSION} characters", field=field)


def _register(cls: type[RangeJob]) -> None:
    known = _jobs.get(cls.name)
    if (
        known is not None
        and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__)
        and "<locals>" not in known.__qualname__  # that one is out of reach by now
    ):
        raise RegistrationError(
            f"range job {cls.name!r} is already {known.__module__}.{known.__qualname__}"
        )
    _jobs[cls.name] = cls


def _app_label(module: str) -> str:
    django_apps = sys.modules.get("django.apps")
    if django_apps is not None and django_apps.apps.apps_ready:
        config = django_apps.apps.get_containing_app_config(module)
        if config is not None:
            return str(config.label)
    parts = module.split(".")
    return parts[-2] if len(parts) > 1 else parts[0]


# What `over` may be


def _is_model(over: Any) -> bool:
    return inspect.isclass(over) and hasattr(over, "_default_manager")


def _is_span(over: Any) -> bool:
    return hasattr(over, "axis") and hasattr(over, "lo")


def _is_axis(over: Any) -> bool:
    return hasattr(over, "encode") and hasattr(over, "decode")


def _is_source(over: Any) -> bool:
    return hasattr(over, "limits") and hasattr(over, "next_leaf")


def _check_over(over: Any, todo: Any) -> None:
    """As far as can be told without asking the database."""
    if todo is not None and not hasattr(todo, "resolve_expression"):
        raise InvalidInput(f"must be a Q, not {type(todo).__name__}", field="todo")
    if over is None or callable(over):
        return
    if _is_span(over) or _is_axis(over):
        if todo is not None:
            raise InvalidInput(
                "is for the rows of a queryset: of other keys should_process tells", field="todo"
            )
    elif not _is_source(over) and not hasattr(over, "all"):
        raise _no_over(over)


def _no_over(over: Any) -> InvalidInput:
    name = type(over).__name__
    return InvalidInput(f"must be a queryset, a range or an axis, not {name}", field="over")


def _below_range_job(cls: type[RangeJob]) -> list[type[Any]]:
    return [each for each in cls.__mro__ if each not in RangeJob.__mro__]
