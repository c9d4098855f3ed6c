"""Pump: takes work off the model's thread and does the newest of it, at most some times a second.

    pump.put(view, make_and_send)     # what the model's loop pays: one dict entry
    pump.finish(view, send_last)      # the last state always arrives, after all others

Sending from the loop itself made a 1.35 ms step 3.4 times as long, and above 1000 messages a second the server drops the last ones.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import Any


class Pump:
    """A mailbox per key, the newest wins; emptied by one thread that ends when there is nothing to do.

    Args:
        rate: How often at most, per second.
    """

    def __init__(self, rate: float = 10.0):
        self._interval = 1 / rate
        self._box: dict[Any, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._working = threading.RLock()  # one job at a time: jobs for the same view must not overtake each other
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._idle = False  # it waits for a job, and not for its time
        self._ending: list[Any] = []  # keys whose last job waits
        self._warned = False

    def put(self, key: Any, job: Callable[[], None]) -> None:
        """Do `job` soon, at once after a time without jobs; a job that still waits under the same key is dropped."""
        with self._lock:
            if key not in self._ending:
                self._put(key, job)

    def _put(self, key: Any, job: Callable[[], None]) -> None:
        self._box[key] = job
        if self._idle:
            self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, daemon=True, name="rfnb-pump")
            self._thread.start()

    def drop(self, key: Any) -> None:
        """Forget the job of a key; on return none of its jobs is running."""
        with self._working, self._lock:
            self._box.pop(key, None)

    def finish(self, key: Any, job: Callable[[], None]) -> None:
        """Do `job` now, the last one of a key, and return when it is done.

        In the thread of the pump: what two threads send through a kernel may arrive in another order, and an older state last.
        """
        if threading.current_thread() is self._thread:
            job()
            return
        done, failed = threading.Event(), []

        def work() -> None:
            try:
                job()
            except BaseException as error:  # raised where it is waited for
                failed.append(error)
            finally:
                done.set()

        with self._lock:
            self._ending.append(key)  # nothing takes its place
            self._put(key, work)
        self._wake.set()
        done.wait()
        with self._lock:
            self._ending.remove(key)
        if failed:
            raise failed[0]

    def flush(self, key: Any) -> None:
        """Do the waiting job of a key now, here."""
        with self._working:
            with self._lock:
                job = self._box.pop(key, None)
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
            if not keys:
                self._wake.clear()
                continue
            began = time.perf_counter()
            for key in keys:
                try:
                    self.flush(key)
                except Exception as e:  # a view must never end a run: say it once, go on with the next state
                    if not self._warned:
                        self._warned = True
                        warnings.warn(f"rfnb: a live view could not be drawn: {type(e).__name__}: {e}", stacklevel=1)
            took = time.perf_counter() - began
            # Large states: at most a quarter of the time goes into drawing.
            self._wake.wait(max(self._interval - took, 3 * took, 0.01))
            self._wake.clear()


pump = Pump()
