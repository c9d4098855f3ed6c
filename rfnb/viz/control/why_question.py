"""A page's question why a run did not produce an expected output, answered in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rfnb.control.commands import said
from rfnb.control.run import Run
from rfnb.control.why_not import Tries, WhyNot, answer


class WhyQuestion:
    """A question why a run did not produce an expected output, as in `rf.why_not`, with its answer; then the attribution of the margin.

    Args:
        changed: Called, in any thread, when the answer grows.
    """

    def __init__(self, run: Run, expected: str, seq: int, changed: Callable[[], None]):
        self.run, self.expected, self.seq = run, expected, seq
        self.why: WhyNot | None = None
        self.going, self.stopped = True, False
        self._tries: Tries | None = None
        self._refused: str | None = None
        self._causes = ""
        self._changed = changed
        threading.Thread(target=self._find, name="rfnb why", daemon=True).start()

    def _find(self) -> None:
        try:
            self.why = answer(self.run, self.expected, self.seq, self._begun)
        except Exception as error:
            self._refused = said(error)
        self._changed()
        try:
            if self.why is not None and not self.stopped:
                self._causes = self.why.parts.words()
        except Exception:  # it has none, or was stopped
            pass
        self.going = False
        self._changed()

    def _begun(self, tries: Tries) -> None:
        self._tries = tries
        if self.stopped:
            tries.stop()

    def stop(self) -> None:
        """Stop the search for an answer."""
        self.stopped = True
        if self._tries is not None:
            self._tries.stop()

    def told(self) -> dict[str, Any]:
        """The answer so far, for a page: a sentence, the attribution of the margin, and each repair with whether it can become a branch."""
        why = self.why
        text = self._refused or ("" if why is None else why.text)
        repairs = [] if why is None else [[each.words, each.step is not None and each.tried] for each in why.repairs]
        return {
            "expected": self.expected, "text": text, "wrong": self._refused is not None, "causes": self._causes,
            "repairs": repairs,
        }  # fmt: skip
