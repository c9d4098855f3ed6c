"""A training on disk while it runs: a file that grows by what has come, so that a killed process leaves all but its last moment.

    {"format": "rfnb.journal", "version": 1, "title": ...}\\n          the head
    {"curves": [["loss", [[7, 0.25]]]], "counts": {"updates": 7}}\\n     what has come since the line before
    {"example": 12345}\\n and 12345 bytes                               a recording of the example, as a trace file of its own

A line is written at once and belongs to the system then: it stays when the process is killed. The last one may be cut off. When the
training ends the file becomes one as `watch.save` writes it; `rf.load_trace` reads both.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from rfnb.core.atomic_file import write_whole
from rfnb.core.errors import message
from rfnb.core.formats import RECORDING, RELEASE
from rfnb.core.place import warn_user
from rfnb.core.strict_json import JsonObject, read_json
from rfnb.trace.file_values import of_type
from rfnb.trace.training import ExampleRecording, Training

FORMAT = "rfnb.journal"
_BEGIN = b'{"format":"rfnb.journal"'
_MOST_BYTES = 1 << 32  # of one recording; a number in a damaged file takes no more memory


class News:
    """The additions to a training since the last call.

    Args:
        finished: Whether to leave out the newest update while the training runs, since its values may still be averaged.
    """

    def __init__(self, training: Training, *, finished: bool = False):
        self._training, self._finished = training, finished
        self._known: dict[Any, tuple[int, Any]] = {}  # by a curve or a table, the last point that was taken
        self._facts, self._says, self._counts = 0, 0, dict[str, int]()
        self._example: Any = None

    def take(self) -> tuple[JsonObject, list[ExampleRecording]]:
        """Plain data by kind (empty if there is nothing new), and recordings."""
        training, news = self._training, JsonObject()
        if training.counts != self._counts:
            self._counts = news["counts"] = dict(training.counts)
        if len(training.facts) > self._facts:
            news["facts"], self._facts = training.facts[self._facts :], len(training.facts)
        if len(training.says) > self._says:
            news["says"], self._says = training.says[self._says :], len(training.says)
        if gone := [name for name in self._known if isinstance(name, str) and name not in training.curves]:
            news["gone"] = gone
            for name in gone:
                del self._known[name]
        curves: list[Any] = []
        for name, curve in training.curves.items():
            if points := self._since(name, curve.steps, curve.values):
                curves.append([name, points])
        tables: list[Any] = []
        for key, table in training.tables.items():
            if rows := self._since(key, table.steps, table.rows):
                tables.append([*key, list(table.columns), rows])
        news |= {name: found for name, found in (("curves", curves), ("tables", tables)) if found}
        known = next((at for at, each in enumerate(training.examples) if each.trace is self._example), -1)
        examples = training.examples[known + 1 :]  # of too many some go, never the last one
        if examples:
            self._example = examples[-1].trace
        return news, examples

    def _since(self, key: Any, steps: list[int], values: list[Any]) -> list[tuple[int, Any]]:
        """The new points of a curve or a table; the previous last point is repeated if it has changed."""
        count = len(steps) - (self._finished and not self._training.closed)
        if count <= 0:
            return []
        begin, known = 0, self._known.get(key)
        if known is not None:
            begin = bisect_left(steps, known[0])
            begin += begin < count and steps[begin] == known[0] and values[begin] is known[1]
        self._known[key] = steps[count - 1], values[count - 1]
        return list(zip(steps[begin:count], values[begin:count]))


class Journal:
    """The file of a running training.

    Raises:
        OSError: If it cannot be written.
    """

    def __init__(self, training: Training, path: str | PathLike[str]):
        self._training, self.path, self._news = training, fspath(path), News(training)
        head = {"format": FORMAT, "version": RECORDING.now, "rfnb": RELEASE, "title": training.title}
        head |= {"every": training.every, "types": training.types}
        write_whole(path, _line(head))  # with its errors, and over a file that is there
        self._file: Any = open(path, "ab", buffering=0)
        training.subscribe(self.write)
        training.on_close(self.close)

    def write(self, _: Any = None) -> None:
        """Append the additions. An error becomes a warning and ends the journal; the training continues."""
        if self._file is None:
            return
        with self._training.lock:
            news, examples = self._news.take()
        try:
            if news:
                self._file.write(_line(_as_json(news)))
            for each in examples:
                self._file.write(_example(each))
        except (OSError, TypeError) as error:
            self._stop()
            self._warn("continues without its file", error)

    def close(self, _: Any = None) -> None:
        """Convert the file into an ordinary one at the end of the training."""
        if self._file is None:
            return
        self.write()
        self._stop()
        try:
            self._training.save(self.path)
        except (OSError, TypeError) as error:
            self._warn("has left its file as it grew", error)

    def _stop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _warn(self, what: str, error: Exception) -> None:
        rows: list[tuple[str, object]] = [("file", self.path), ("cause", str(error).splitlines()[0])]
        rule = "The file can be read up to here. To save everything to another file:"
        warn_user(message(f"watch: the training {what}.", rows, rule, 'watch.save("/another/disk/training.rfnb")'))


def _line(record: JsonObject) -> bytes:
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _as_json(news: JsonObject) -> JsonObject:
    def number(value: float) -> float | str:
        return float(value) if math.isfinite(value) else repr(float(value))

    curves = [[name, [[step, number(value)] for step, value in points]] for name, points in news.get("curves", ())]
    tables = [
        [*key, [[step, np.asarray(row, "<f4").tobytes().hex()] for step, row in rows]] for *key, rows in news.get("tables", ())
    ]  # fmt: skip
    return news | {name: found for name, found in (("curves", curves), ("tables", tables)) if found}


def _example(example: ExampleRecording) -> bytes:
    from rfnb.trace.file import training_bytes  # which reads journals

    alone = Training()
    alone.examples = [example]
    data = training_bytes(alone)
    return _line({"example": len(data)}) + data


# -- reading ------------------------------------------------------------------------------------------------------------------------
def is_journal(path: Path) -> bool:
    """True for a file that grew with a training."""
    with open(path, "rb") as file:
        return file.read(len(_BEGIN)) == _BEGIN


def read_journal(path: Path, head: JsonObject) -> Training:
    """The training in an unfinished file, up to its last complete line.

    Args:
        head: The first line, with a checked version.

    Raises:
        TypeError, KeyError: If its head does not describe a training.
    """
    training = Training(of_type(head["title"], str), of_type(head["every"], str))
    training.types = {of_type(name, str): of_type(kind, str) for name, kind in of_type(head["types"], dict).items()}
    with open(path, "rb") as file:
        file.readline()
        while True:
            begin = file.tell()
            if not (line := file.readline()):
                break
            try:
                record = of_type(read_json(line.decode()), dict)
                if not line.endswith(b"\n"):
                    raise ValueError("a line without an end")
                if "example" in record:
                    training.examples.append(_read_example(file, of_type(record["example"], int)))
                else:
                    _take_in(training, record)
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
                left = path.stat().st_size - begin
                training.facts.append(f"the last {left} bytes of the file are cut off or damaged, and were not read")
                break
    training.facts.append("the training has not ended: its process was killed, or is running yet")
    training.closed = True
    return training


def head_of(path: Path) -> JsonObject:
    """The first line of a journal.

    Raises:
        ValueError, TypeError: If the file is not a journal.
    """
    with open(path, "rb") as file:
        return dict(of_type(read_json(file.readline().decode()), dict))


def _read_example(file: Any, size: int) -> ExampleRecording:
    from rfnb.trace.file import training_of_bytes  # which reads journals

    if not 0 < size <= _MOST_BYTES:
        raise ValueError("no size of a recording")
    data = file.read(size)
    if len(data) < size:
        raise ValueError("a recording that is cut off")
    (example,) = training_of_bytes(data).examples
    return example


def _take_in(training: Training, record: JsonObject) -> None:
    # All is read before anything is taken: a line counts as a whole.
    counts = {of_type(name, str): of_type(count, int) for name, count in record.get("counts", {}).items()}
    facts = [of_type(fact, str) for fact in record.get("facts", ())]
    says = [(of_type(step, int), of_type(sentence, str)) for step, sentence in record.get("says", ())]
    curves = [
        (of_type(name, str), [(of_type(step, int), float(of_type(value, float, str))) for step, value in points])
        for name, points in record.get("curves", ())
    ]
    tables = [
        (of_type(stat, str), of_type(optimizer, str), [of_type(each, str) for each in columns], _read_rows(rows, len(columns)))
        for stat, optimizer, columns, rows in record.get("tables", ())
    ]  # fmt: skip
    gone = [of_type(name, str) for name in record.get("gone", ())]
    training.counts |= counts
    training.facts += facts
    training.says += says
    for name in gone:
        training.curves.pop(name, None)
    for name, points in curves:
        curve = training.curve(name)
        for step, value in points:
            if curve.steps and curve.steps[-1] == step:
                curve.values[-1] = value
            else:
                curve.add(step, value)
    for stat, optimizer, columns, rows in tables:
        table = training.table(stat, optimizer, columns)
        for step, row in rows:
            table.add(step, row)


def _read_rows(rows: Any, count: int) -> list[tuple[int, np.ndarray]]:
    read = [(of_type(step, int), np.frombuffer(bytes.fromhex(of_type(row, str)), "<f4")) for step, row in rows]
    if any(row.shape != (count,) for _, row in read):
        raise ValueError("a row of another length")
    return read
