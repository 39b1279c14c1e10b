"""Who runs the lanes of a run in memory: threads, or the tasks of one event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ranges.leaf_range import LeafRange, result_of
from ranges.memory_context import MemoryContext
from ranges.memory_lane import Ask, MemoryLane, Wait

if TYPE_CHECKING:
    from ranges.memory import MemoryRun


class Threads:
    """A thread for each lane."""

    def __init__(self, run: MemoryRun) -> None:
        self._run = run

    def start(self, missing: Sequence[int]) -> None:
        """Start these lanes in the background."""
        for index in missing:
            threading.Thread(
                target=self._in_background, args=(index,), name=f"range-lane-{index}", daemon=True
            ).start()

    def here(self, missing: Sequence[int]) -> None:
        """Run the first of these lanes in this thread, and the others beside it."""
        self.start(missing[1:])
        if missing:
            self._drive(missing[0])

    def ring(self) -> None:
        """Threads wait for the run's condition."""

    def _in_background(self, index: int) -> None:
        with suppress(Exception):  # `wait` raises it
            self._drive(index)
        _close_connections()

    def _drive(self, index: int) -> None:
        process = self._process()
        clock = time.perf_counter
        steps = MemoryLane(self._run, index).steps()
        send = steps.send
        answer: Any = None
        try:
            while True:
                try:
                    wish = send(answer)
                except StopIteration:
                    break
                if type(wish) is MemoryContext:
                    began = clock()
                    try:
                        result = process(wish.leaf, wish)
                        if result is not None:
                            result = result_of(result)
                    except Exception as error:  # noqa: BLE001 - whatever it is, the leaf failed
                        answer = (error, None, clock() - began)
                    else:
                        answer = (None, result, clock() - began)
                else:
                    assert isinstance(wish, Wait)
                    answer = None
                    self._sleep(wish)
        except BaseException as error:
            steps.close()
            self._run.broken(error)
            raise
        finally:
            self._run.leave(index)

    def _process(self) -> Callable[[LeafRange, Any], Any]:
        run = self._run
        if not (run.source.counts_rows and run.options.atomic):
            return run.job.process
        from django.db import transaction

        from ranges import hooks

        alias = getattr(run.source, "alias", None)

        def process(leaf: LeafRange, context: Any) -> Any:
            answer, is_done = None, False
            try:
                with transaction.atomic(using=alias):
                    answer = result_of(run.job.process(leaf, context))
                    # Django would roll it back now without a word, and it would count as done.
                    transaction.get_connection(alias).validate_no_broken_transaction()
                    is_done = True
            except Exception as error:
                if not is_done or not hooks.came_after_commit(error):
                    raise
                hooks.tell(context.log, error)
            return answer

        return process

    def _sleep(self, wish: Wait) -> None:
        run = self._run
        with run.changed:
            if run.version == wish.seen:
                run.changed.wait(wish.seconds)


class Tasks:
    """A task for each lane, in the caller's event loop or in one of a thread of its own."""

    def __init__(self, run: MemoryRun) -> None:
        self._run = run
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_hosted(self) -> bool:
        with self._run.lock:
            return self._loop is not None

    def start(self, missing: Sequence[int]) -> None:
        """Start these lanes in the background."""
        if not missing:
            return
        with self._run.lock:
            loop = self._loop
            if loop is not None:
                loop.call_soon_threadsafe(self._start_tasks, missing)
        if loop is None:
            threading.Thread(
                target=lambda: asyncio.run(self.host(missing)), name="range-run", daemon=True
            ).start()

    def ring(self) -> None:
        """Under the run's lock."""
        if self._loop is not None and self._bell is not None:
            self._loop.call_soon_threadsafe(self._bell.set)

    async def host(self, missing: Sequence[int]) -> None:
        """Run lanes as tasks of this loop until the last one has left."""
        run = self._run
        with run.lock:
            self._loop = asyncio.get_running_loop()
            self._bell = bell = asyncio.Event()
        self._start_tasks(missing)
        try:
            while True:
                with run.lock:
                    if not run.live:
                        self._loop = self._bell = None
                        break
                    bell.clear()
                await bell.wait()
        except BaseException as error:
            run.broken(error)
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            with run.lock:
                self._loop = self._bell = None
            raise

    def _start_tasks(self, missing: Sequence[int]) -> None:
        for index in missing:
            task = asyncio.ensure_future(self._drive(index))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _drive(self, index: int) -> None:
        run = self._run
        clock = time.perf_counter
        steps = MemoryLane(run, index).steps()
        answer: Any = None
        failure: Exception | None = None
        try:
            while True:
                try:
                    wish = steps.send(answer) if failure is None else steps.throw(failure)
                except StopIteration:
                    break
                answer = failure = None
                if isinstance(wish, MemoryContext):
                    began = clock()
                    try:
                        result = await run.job.process(wish.leaf, wish)
                    except Exception as error:  # noqa: BLE001 - whatever it is, the leaf failed
                        answer = (error, None, clock() - began)
                    else:
                        answer = (None, result, clock() - began)
                elif isinstance(wish, Ask):
                    try:
                        answer = await asyncio.to_thread(wish.call)
                    except Exception as error:  # noqa: BLE001 - thrown into the lane
                        failure = error
                else:
                    await self._doze(wish)
        except BaseException as error:
            steps.close()
            run.broken(error)
            if not isinstance(error, Exception):
                raise
        finally:
            run.leave(index)

    async def _doze(self, wish: Wait) -> None:
        run, bell = self._run, self._bell
        if bell is None:
            return
        with run.lock:
            if run.version != wish.seen:
                return
            bell.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(bell.wait(), wish.seconds)


def _close_connections() -> None:
    """A lane's thread ends, and with it whatever connections it opened."""
    if "django.db" in sys.modules:
        from django.conf import settings
        from django.db import connections

        if settings.configured:
            connections.close_all()
