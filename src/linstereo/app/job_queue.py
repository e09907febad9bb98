"""One job after the other: a bounded queue in front of a single worker thread."""

import asyncio
import contextlib
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from linstereo.app.failures import CancelledJobError, RefusedError

Result = TypeVar("Result")
Event = dict[str, Any]
_REMEMBERED = 16


class Job(Generic[Result]):
    """Work that waits, runs, or is done.

    Args:
        work: called in the worker thread with this job; it calls `check` from time to time and may `tell`.
        seconds: that it may run.
        loop: of whoever waits for it.
    """

    def __init__(
        self, work: "Callable[[Job[Result]], Result]", *, seconds: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._work = work
        self._seconds = seconds
        self._loop = loop
        self._gone = threading.Event()
        self._deadline = math.inf
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.result: asyncio.Future[Result] = loop.create_future()

    def tell(self, event: Event) -> None:
        """Report progress, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended with the server
            self._loop.call_soon_threadsafe(self.events.put_nowait, event)

    def cancel(self) -> None:
        """Say that nobody waits for the result any more; harmless at any time."""
        self._gone.set()
        self.result.cancel()

    @property
    def gone(self) -> bool:
        """Whether it was cancelled."""
        return self._gone.is_set()

    def check(self) -> None:
        """End the work, by an exception, if nobody waits for it or its time is over."""
        if self.gone:
            raise CancelledJobError
        if time.monotonic() > self._deadline:
            raise RefusedError(
                504,
                f"The pair took longer than {self._seconds:g} s, the limit of this server; use fewer iterations or "
                "smaller images",
            )

    def run(self) -> Result:
        """Do the work, in the worker thread."""
        self._deadline = time.monotonic() + self._seconds
        self.check()
        return self._work(self)


class JobQueue:
    """Runs jobs in the order in which they came, one at a time.

    Args:
        length: jobs that may wait besides the one that runs.
    """

    def __init__(self, *, length: int) -> None:
        self._length = length
        self._waiting: deque[Job[Any]] = deque()
        self._running: Job[Any] | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="linstereo-job")
        self._durations: deque[float] = deque(maxlen=_REMEMBERED)  # s
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Jobs that wait."""
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether a job runs."""
        return self._running is not None

    def check_room(self) -> None:
        """Refuse, with the time after which to try again, if one more job has no place."""
        if self.busy and self.waiting >= self._length:
            raise RefusedError(
                503,
                f"The server is busy: {1 + self.waiting} pairs are being worked on or waiting; try again later",
                retry_after=self.wait_for(self.waiting + 1),
            )

    def wait_for(self, jobs: int) -> int:
        """Seconds, >= 1, that so many jobs are likely to take."""
        mean = sum(self._durations) / len(self._durations) if self._durations else 1.0
        return max(1, math.ceil(mean * jobs))

    def add(self, job: Job[Any]) -> None:
        """Give a job its place; a `RefusedError` if there is none. A cancelled job frees its place at once."""
        self.check_room()
        self._waiting.append(job)
        job.result.add_done_callback(lambda _: self._forget(job))
        self._tell_places()
        self._start_next()

    def close(self) -> None:
        """Cancel all jobs; returns when the last one has ended."""
        for job in [*self._waiting, *([self._running] if self._running else [])]:
            job.cancel()
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _forget(self, job: Job[Any]) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
            self._tell_places()

    def _tell_places(self) -> None:
        for place, job in enumerate(self._waiting, start=1 if self.busy else 0):
            if place:
                seconds = self.wait_for(place)
                job.events.put_nowait({"event": "waiting", "place": place, "seconds": seconds})

    def _start_next(self) -> None:
        if self.busy or not self._waiting:
            return
        self._running = self._waiting.popleft()
        task = asyncio.get_running_loop().create_task(self._run(self._running))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, job: Job[Any]) -> None:
        started = time.monotonic()
        job.events.put_nowait({"event": "started"})
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._worker, job.run)
        except BaseException as error:
            if not isinstance(error, RefusedError | CancelledJobError | asyncio.CancelledError):
                traceback.print_exception(error)
                error = RefusedError(500, "The server failed on this pair; what it printed says why")
            if not job.result.done():
                job.result.set_exception(error)
        else:
            self._durations.append(time.monotonic() - started)
            if not job.result.done():
                job.result.set_result(result)
        self._running = None
        self._tell_places()
        self._start_next()
