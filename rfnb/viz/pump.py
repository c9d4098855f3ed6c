"""Pump: moves drawing off the model's thread, and runs only the newest job, at a limited rate.

    pump.put(view, make_and_send)     # the cost for the model's loop: one dict entry
    pump.finish(view, send_last)      # the last state always arrives, after all others

Sending from the loop itself made a 1.35 ms step 3.4 times as long, and above 1000 messages a second the server drops the last ones.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from rfnb.core.place import warn_user


class Pump:
    """A mailbox per key in which the newest job wins; emptied by one thread that ends when it is idle.

    Args:
        rate: Maximal rate per second.
        share: Maximal fraction of time that it works. Drawing is Python code, and while it holds the GIL the model's loop does not advance.
    """

    def __init__(self, rate: float = 10.0, share: float = 0.04):
        self._interval, self._times = 1 / rate, 1 / share - 1
        self._free: dict[Any, Callable[[], bool]] = {}
        self._box: dict[Any, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._working = threading.RLock()  # one job at a time: jobs of one view must not overtake each other
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._idle = False  # it waits for a job rather than for its time
        self._ending: list[Any] = []  # keys whose last job waits
        self._warned = False
        self._is_over = False
        _pumps.add(self)

    def put(self, key: Any, job: Callable[[], None], free: Callable[[], bool] | None = None) -> None:
        """Run `job` soon, at once after a time without jobs; a waiting job of the same key is dropped.

        Args:
            free: Returns whether it delays nothing at the moment; the job then runs even beyond the time share.
        """
        with self._lock:
            if key not in self._ending:
                if free is not None:
                    self._free[key] = free
                self._put(key, job)

    def _put(self, key: Any, job: Callable[[], None]) -> None:
        self._box[key] = job
        if self._idle:
            self._wake.set()
        if self._thread is None and not self._is_over:
            self._thread = threading.Thread(target=self._main, daemon=True, name="rfnb-pump")
            self._thread.start()

    def drop(self, key: Any) -> None:
        """Drop the job of a key; on return none of its jobs is running."""
        with self._working, self._lock:
            self._box.pop(key, None)
            self._free.pop(key, None)

    def finish(self, key: Any, job: Callable[[], None], *, wait: bool = True) -> None:
        """Run `job` now, as the last one of a key, and return when it is done.

        It runs in the thread of the pump: messages from two threads may arrive in another order, with an older state last.

        Args:
            wait: False: return at once.
        """
        if threading.current_thread() is self._thread:
            job()
            return
        done, failed = threading.Event(), []

        def work() -> None:
            try:
                job()
            except BaseException as error:  # raised in the thread that waits
                if not wait:
                    raise
                failed.append(error)
            finally:
                with self._lock:
                    self._ending.remove(key)
                done.set()

        with self._lock:
            self._ending.append(key)  # it cannot be replaced
            self._put(key, work)
        self._wake.set()
        if wait and not self._is_over:
            done.wait()
        if failed:
            raise failed[0]

    def flush(self, key: Any) -> None:
        """Run the waiting job of a key now, in this thread."""
        with self._working:
            with self._lock:
                job = self._box.pop(key, None)
                self._free.pop(key, None)
            if job is not None:
                job()

    def _main(self) -> None:
        while True:
            with self._lock:
                keys = list(self._box)
                self._idle = not keys
            if not keys and not self._wake.wait(2.0):
                with self._lock:
                    if not self._box:
                        self._thread = None
                        return
            if self._is_over:
                return
            if not keys:
                self._wake.clear()
                continue
            began, work = time.perf_counter(), time.thread_time()
            self._do(keys)
            keys.clear()  # a deleted view is not kept alive until the next job
            work = time.thread_time() - work  # excludes time spent waiting for others and for the GIL
            self._rest(max(began + self._interval - time.perf_counter(), self._times * work, 0.01))

    def _do(self, keys: list[Any]) -> None:
        for key in keys:
            try:
                self.flush(key)
            except Exception as e:  # a view must never end a run: report it once, continue with the next state
                if not self._warned:
                    self._warned = True
                    warn_user(f"rfnb: a live view could not be drawn: {type(e).__name__}: {e}")

    def _rest(self, seconds: float) -> None:
        """Sleep this long, or until woken, or until a job delays nothing."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0 and not self._wake.is_set():
            self._wake.wait(min(left, self._interval))
            with self._lock:
                free = list(self._free.values())
            if any(each() for each in free):
                break
        self._wake.clear()

    def end(self, seconds: float) -> None:
        """Accept no more jobs, and wait at most this long for the running one."""
        self._is_over = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)


_pumps: weakref.WeakSet[Pump] = weakref.WeakSet()


@atexit.register
def end_all() -> None:
    """Stop the drawing threads before the interpreter exits: a thread that is killed inside torch crashes the process."""
    for each in list(_pumps):
        each.end(2.0)


pump = Pump()
