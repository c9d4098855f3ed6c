"""A diff as text: the first place, its character, its consequences, and the next line to type."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.core.tensor_text import table_lines
from rfnb.trace.diff_searches import REAL, SearchDiff, SequenceDiff, StepOfSearch
from rfnb.trace.event import Event, named_tensors

if TYPE_CHECKING:
    from rfnb.trace.diff import Diff
    from rfnb.trace.diff_rows import Row
    from rfnb.trace.trace import Trace

_MOST_PATHS, _MOST_SEQS, _MOST_LABELS, _LONGEST = 20, 8, 12, 120


def sentence(diff: Diff) -> str:
    """One sentence with the first difference, or that there is none."""
    row = diff.first
    if row is None:
        return _same(diff)
    return f"{place(row)}: {what(diff, row)}"


def text(diff: Diff) -> str:
    """The complete text of a diff."""
    a, b = diff.names
    parts = [_heading(diff), sentence(diff) if diff.first is None else f"First difference: {sentence(diff)}."]
    if diff.first is not None:
        parts[-1] = "\n".join([parts[-1], *(f"  {line}" for line in more(diff, diff.first))])
        parts.append(table(diff))
    parts += [line for line in (searches(diff), only(diff), dtypes(diff), truncated(diff)) if line]
    following = next_line(diff)
    if following:
        parts.append(following)
    return "\n\n".join(parts)


def place(row: Row) -> str:
    """The place of a row in the run: `decoder.lstm, step 3, h`."""
    ident = row.ident
    step = ""
    if ident.steps:
        step = f", step {'.'.join(map(str, ident.steps))}"
        step += f" of run {ident.run}" if ident.run else ""
        step += f", call {ident.call}" if ident.call else ""
    elif ident.call:
        step = f", call {ident.call}"
    op = f", op {ident.op}" if ident.op else ""
    name = f", {row.name}" if row.name and row.name != "hypotheses" else ""
    return f"{cut(ident.path or ident.kind)}{op}{step}{name}"


def cut(path: str) -> str:
    """The end of a path, at most about a hundred characters."""
    return path if len(path) <= _LONGEST else f"…{path[1 - _LONGEST :]}"


def what(diff: Diff, row: Row) -> str:
    """The difference of one row, without its place."""
    numbers = row.numbers
    if row.status == "hypotheses":
        found = next((each for each in diff.steps_of(row) if each[1].verdict in REAL), None)
        return row.note if found is None else search_step(diff, *found)
    if row.status == "plain":
        one, other = (diff.value(row, side) for side in (0, 1))
        return row.note or f"{_short(one)} in {diff.names[0]}, {_short(other)} in {diff.names[1]}"
    if row.status in ("dims", "lengths"):
        return row.note
    cell = diff.cell(row)
    if cell is None:
        return "the same"
    a, b = number(cell.a), number(cell.b)
    at = f" at {cell.text}" if cell.text else ""
    count = f"{numbers.differing} of {numbers.cells} cells differ" if numbers.cells > 1 else ""
    if row.status == "labels":
        a, b = (label(diff, row, side, value) for side, value in enumerate((cell.a, cell.b)))
        return f"{a} in {diff.names[0]}, {b} in {diff.names[1]}{at}" + (f"; {count}" if count else "")
    apart = ""
    if math.isfinite(numbers.units):
        apart = (
            f", {number(abs(cell.a - cell.b))} apart, which is {numbers.units:.3g} epsilons of {row.tolerance.dtype}"
        )
    most = " where they differ most" if numbers.differing > 1 else ""
    return f"{a} in {diff.names[0]}, {b} in {diff.names[1]}{at}{most}{apart}" + (f"; {count}" if count else "")


def more(diff: Diff, row: Row) -> list[str]:
    """Sentences on one row other than its numbers: where its differences lie, and their character."""
    region = diff.region(row)
    where = [f"They differ only in {'; '.join(f'{name} {there}' for name, there in region.items())}."] if region else []
    return [*where, *diff.hints(row)]


def table(diff: Diff) -> str:
    """The paths that differ: their first step, where they differ most relative to their size, and by how much."""
    found = [each for each in diff.by_path.values() if each.first is not None]
    rows = [("path", "first", "differ", "most", "apart", "in epsilons")]
    for each in found[:_MOST_PATHS]:
        assert each.first is not None
        worst: Any = each.worst or each.first
        count = f"{sum(row.differs for row in each.rows)} of {len(each.rows)}"
        there = " ".join(filter(None, [_step(worst), worst.name]))
        rows.append((cut(each.path or each.first.ident.kind), _step(each.first), count, there, *_apart(worst)))
    lines = [line.rstrip() for line in table_lines(rows)]
    rest = len(found) - _MOST_PATHS
    if rest > 0:
        lines.append(f"and {rest} more: d.by_path")
    same = len(diff.by_path) - len(found)
    lines.append(f"{same} of {len(diff.by_path)} paths do not differ." if same else "All paths differ.")
    return "\n".join(lines)


def _apart(row: Row) -> tuple[str, str]:
    """The distance of two values, absolute and in epsilons; for values that are not numbers, that they differ."""
    units, most = row.numbers.units, row.numbers.max_abs
    if math.isfinite(units):
        return number(most), f"{units:.3g}"
    return ("other", "") if math.isfinite(most) else (number(most), "")


def searches(diff: Diff) -> str:
    """The first differences of searches and their results."""
    return "\n".join(line for search in diff.searches for line in _search(diff, search))


def search_step(diff: Diff, seq: SequenceDiff, step: StepOfSearch) -> str:
    """One step of two searches as text."""
    a, b = diff.names
    prefix = _sequence(seq)
    if step.verdict == "scores" and step.worst is not None:
        one, other = step.worst
        return f"{prefix}the same hypotheses, but {quoted(one.labels)} has {one.score:.6g} in {a}, {other.score:.6g} in {b}"
    if step.verdict == "order":
        return f"{prefix}the same hypotheses in another order, by more than a tie"
    if step.verdict == "swap":
        return f"{prefix}two hypotheses that are as good are the other way round: a tie"
    parts = []
    for name, only_one in ((a, step.only_a), (b, step.only_b)):
        if only_one:
            entry = only_one[0]
            further = f" and {len(only_one) - 1} more" if len(only_one) > 1 else ""
            parts.append(f"{quoted(entry.labels)} (rank {entry.rank + 1}, {entry.score:.6g}){further} only in {name}")
    tie = ": a tie" if step.verdict == "tie" else ""
    return f"{prefix}{', '.join(parts)}{tie}"


def only(diff: Diff) -> str:
    """The events that only one side has."""
    return "\n".join(
        f"Only in {name}: {_kinds(events)}." for name, events in zip(diff.names, (diff.only_a, diff.only_b)) if events
    )


def dtypes(diff: Diff) -> str:
    """The place from which dtypes differ."""
    row = diff.dtypes
    if row is None:
        return ""
    a, b = row.dtypes
    begin = f"From {place(row)} on dtypes differ: {a} in {diff.names[0]}, {b} in {diff.names[1]}."
    return f"{begin} From there on the tolerance is that of {row.tolerance.dtype}."


def truncated(diff: Diff) -> str:
    """The place where a recording was full."""
    lines = []
    for name, trace in zip(diff.names, (diff.a, diff.b)):
        cut = trace.truncated
        if cut is not None:
            lines.append(
                f"The recording {name} reached its limit of {cut.limit} bytes at {cut.path or cut.kind}: what follows is not compared."
            )
    return "\n".join(lines)


def next_line(diff: Diff) -> str:
    """The next line to type."""
    row = diff.first
    if row is None:
        return ""
    between = _calls_without_values(diff, row)
    if between:
        calls = ", ".join(f'"{cut(path)}"' for path in between[:4]) + (
            f" and {len(between) - 4} more" if len(between) > 4 else ""
        )
        return (
            f"Of {calls}, called before it, no values were recorded: it may have begun there.\n"
            "    with rf.record(values=True) as trace:    # in both runs"
        )
    if row.status == "hypotheses":
        return "Both searches side by side:\n    rf.show(d)"
    step = "" if row.step is None else f", step={row.step}"
    named = 0 < len(row.path) <= _LONGEST
    call = f"d.pair(d.find({row.path!r}, {row.name!r}{step}))" if named else "d.pair(d.first)"
    deeper = ""
    if row.ident.kind == "module" and named:
        deeper = f"\nThe ops in it, one by one:\n    with rf.record(path={row.path!r}, ops=True, values=True) as trace:    # in both runs"
    return f"Both values, along the same axes:\n    {call}{deeper}"


def number(value: Any, digits: int = 6) -> str:
    """A number with as few digits as distinguish it."""
    if not isinstance(value, (float, complex)):
        return str(value)
    return f"{value:.{digits}g}".replace("nan", "NaN").replace("inf", "infinity")


def label(diff: Diff, row: Row, side: int, value: Any) -> str:
    """An integer as the text of its label, if it has one. Labels of b were already mapped to the vocabulary of a."""
    tensor = diff.value(row, 0)
    dim = getattr(tensor, "sparse_dim", None)
    vocab = getattr(dim, "vocab", None)
    labels = getattr(vocab, "labels", vocab)
    if labels is not None and 0 <= int(value) < len(labels):
        return f'"{labels[int(value)]}"'
    return "a label that the other has not" if labels is not None and int(value) < 0 else str(value)


def quoted(labels: Sequence[str]) -> str:
    """Labels as one string; only the last ones if there are many."""
    shown = list(labels[-_MOST_LABELS:])
    return f'"{"... " if len(labels) > _MOST_LABELS else ""}{" ".join(shown)}"'


def edited(labels_a: Sequence[str], labels_b: Sequence[str], edits: str | None) -> tuple[str, str]:
    """Two results in two rows: equal labels are aligned, "-" marks a gap."""
    if edits is None:
        return " ".join(labels_a), " ".join(labels_b)
    a, b, one, other = [], [], iter(labels_a), iter(labels_b)
    for edit in edits:
        a.append("-" if edit == "i" else next(one))
        b.append("-" if edit == "d" else next(other))
    widths = [max(len(x), len(y)) for x, y in zip(a, b)]
    lines = [" ".join(part.ljust(width) for part, width in zip(side, widths)).rstrip() for side in (a, b)]
    return lines[0], lines[1]


def _heading(diff: Diff) -> str:
    where = [_devices_in(trace) for trace in (diff.a, diff.b)]
    there = [f" on {names}" if names and where[0] != where[1] else "" for names in where]
    sizes = (len(diff.a), len(diff.b))
    a, b = (f"{name} ({size} events{on})" for name, size, on in zip(diff.names, sizes, there, strict=True))
    seqs = (
        ""
        if None in diff.seqs
        else f", sequence {diff.seqs[0]} of {diff.names[0]} with {diff.seqs[1]} of {diff.names[1]}"
    )
    return f"{a} and {b}{seqs}. A difference is more than {diff.tolerance.text()}."


def _devices_in(trace: Trace) -> str:
    """The devices of recorded values: the CPU, as for a file, or others; lengths are always on the CPU."""
    found = (x.device for event in trace.events for _, x in named_tensors(event.values.items()))
    names = dict.fromkeys(device for device in found if device is not None)
    return ", ".join(name for name in names if name != "cpu" or len(names) == 1)


def _same(diff: Diff) -> str:
    compared = [row for row in diff.rows if row.numbers.cells]
    values = sum(row.numbers.cells for row in compared)
    count = f"{len(compared)} array{'s' * (len(compared) != 1)}, {values} value{'s' * (values != 1)}"
    if not compared:
        return "no value was recorded in both, only dims"
    worst = diff.worst
    a, b = diff.names
    begin = f"{a} and {b} are the same" if diff.same else f"what {a} and {b} both have is the same"
    if worst is None:
        return f"{begin}, bit for bit: {count}"
    most = f"the largest difference is {worst.numbers.units:.3g} epsilons of {worst.tolerance.dtype}, in {place(worst)}"
    return f"{begin} within the tolerance: of {count}, {most}"


def _search(diff: Diff, search: SearchDiff) -> list[str]:
    head = f'Search "{cut(search.path)}"' + (f", run {search.run}" if search.run else "")
    lines: list[str] = []
    sound = 0
    for seq in search.seqs:
        first, tie = seq.first, seq.tie
        result = seq.result
        if first is None and tie is None and (result is None or result.same):
            sound += 1
            continue
        if len(lines) >= 5 * _MOST_SEQS:
            continue
        if tie is not None and (first is None or tie.step < first.step):
            lines.append(f"{head}, step {tie.step}: {search_step(diff, seq, tie)}")
        if first is not None:
            lines.append(f"{head}, step {first.step}: {search_step(diff, seq, first)}")
        if result is not None and not result.same:
            lines += _result(diff, seq)
        elif first is not None or tie is not None:
            lines.append(f"  {_sequence(seq)}the result is the same")
    if sound:
        count = "all sequences" if sound == len(search.seqs) > 1 else f"{sound} of {len(search.seqs)} sequences"
        lines.append(f"{head}: the same hypotheses in each step{'' if len(search.seqs) == 1 else ', of ' + count}.")
    return lines


def _result(diff: Diff, seq: SequenceDiff) -> list[str]:
    result: Any = seq.result
    lines = edited(result.labels_a or (), result.labels_b or (), result.edits)
    width = max(map(len, diff.names))
    scores = result.score_a, result.score_b
    return [
        f"  {_sequence(seq)}the results:",
        *(f"    {name.ljust(width)}  {line}  ({score:.6g})" for name, line, score in zip(diff.names, lines, scores)),
    ]


def _sequence(seq: SequenceDiff) -> str:
    return f"sequence {seq.seq_a}: " if seq.seq_a == seq.seq_b else f"sequence {seq.seq_a} | {seq.seq_b}: "


def _calls_without_values(diff: Diff, row: Row) -> list[str]:
    """The modules whose calls end between the last equal value and the first difference; empty if their values were recorded."""
    found: dict[str, None] = {}
    for one in diff.rows:
        if one is row:
            break
        if one.status == "no values":
            if one.path:
                found[one.path] = None
        else:
            found.clear()
    return list(found)


def _kinds(events: Sequence[Event]) -> str:
    counts = Counter((event.kind, event.path) for event in events)
    steps: dict[tuple[str, str], list[int]] = {}
    for event in events:
        if event.step is not None:
            steps.setdefault((event.kind, event.path), []).append(event.step)
    parts = []
    for (kind, path), count in list(counts.items())[:6]:
        there = steps.get((kind, path), [])
        span = f", steps {min(there)} to {max(there)}" if len(set(there)) > 1 else f", step {there[0]}" if there else ""
        parts.append(f"{count} {kind}{' at ' + cut(path) if path else ''}{span}")
    rest = len(counts) - 6
    return "; ".join(parts) + (f"; and {rest} more paths" if rest > 0 else "")


def _step(row: Row) -> str:
    if row.ident.steps:
        return f"step {'.'.join(map(str, row.ident.steps))}"
    return f"call {row.ident.call}" if row.ident.call else "-"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
