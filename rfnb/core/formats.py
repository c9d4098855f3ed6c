"""The versions of the file formats that rfnb writes, in one table; docs/contracts/files.md says what may change.

problem = RECORDING.problem(head["version"], by=head.get("rfnb"))
if problem is not None:
    raise value_error("load_trace: ...", *problem)
"""

from __future__ import annotations

from typing import Any, NamedTuple

RELEASE = "0.2.0"  # that of `rfnb.__version__`

Problem = tuple[list[tuple[str, object]], str, str]


class Format(NamedTuple):
    """One format.

    Attributes:
        what: Description of the format.
        since: By version, the first release of rfnb that wrote it; the last one is written now.
        oldest: The oldest version that is still read.
    """

    what: str
    since: dict[int, str]
    oldest: int = 1

    @property
    def now(self) -> int:
        """The version that is written."""
        return max(self.since)

    def problem(self, found: Any, by: Any = None) -> Problem | None:
        """The rows, the rule and the line to type of the message for an unsupported version; None for a supported one.

        Args:
            found: The version in the file.
            by: The release of rfnb named in the file, if any.
        """
        if type(found) is int and self.oldest <= found <= self.now:
            return None
        reads = f"version {self.now}" if self.oldest == self.now else f"versions {self.oldest} to {self.now}"
        by = by if isinstance(by, str) and len(by) < 40 and by.isprintable() else None
        rows: list[tuple[str, object]] = [
            ("found", f"version {found!r:.50} of {self.what}" + (f", written by rfnb {by}" if by else "")),
            ("read here", f"{reads}, by rfnb {RELEASE}"),
        ]
        if type(found) is not int or found < 1:
            return rows, "A version is a number from 1 on: the file is damaged. Write it again.", ""
        if found > self.now:
            return (
                rows,
                "A newer rfnb wrote it.",
                f'pip install "rfnb>={by}"' if by else "pip install --upgrade rfnb",
            )
        return (
            rows,
            "An older rfnb wrote it, and can still read it.",
            f'pip install "rfnb<{self.since[found + 1]}"',
        )


RECORDING = Format("recordings", {1: "0.1.0"})  # trace.save, run.save, watch.save
FRAME = Format(
    "frames of views", {2: "0.1.0"}, oldest=2
)  # in pages, in outputs of notebooks; of widgets/src/frame.ts as well
PARAMETERS = Format("layouts of parameters", {2: "0.2.0"}, oldest=2)  # save_params; files of 0.1.0 say none
G2P_MODEL = Format("G2P models", {1: "0.1.0"})  # save_g2p
G2P_TRAINING = Format("states of G2P trainings", {1: "0.1.0"})  # Trainer.save


def numbered(text: object, prefix: str) -> int | None:
    """The version of a format whose name ends with it, such as "rfnb-g2p-1"; None for another name."""
    number = text[len(prefix) :] if isinstance(text, str) and text.startswith(prefix) else ""
    return int(number) if number.isdecimal() and len(number) < 7 else None
