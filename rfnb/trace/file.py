"""A trace as one file: arrays as safetensors, everything else as JSON in the metadata. Nothing in it is executed.

A dim shared by several tensors is shared again after loading. Derived dims come back with their sizes, without their formula. Tensors
come back on the CPU, as arrays of the selected backend.
"""

from __future__ import annotations

import json
import tempfile
from os import PathLike
from pathlib import Path

from rfnb.core.atomic_file import whole_file
from rfnb.core.errors import file_not_found_error, os_error, parts_of, value_error
from rfnb.core.formats import RECORDING, RELEASE, Format
from rfnb.core.strict_json import JsonObject, read_json
from rfnb.trace import training_file, training_journal, tree_file
from rfnb.trace.event_fields import check_calls, misfit
from rfnb.trace.file_values import Reader, Writer, of_type
from rfnb.trace.probe import Place
from rfnb.trace.run_tree import Tree
from rfnb.trace.trace import Trace, Truncated
from rfnb.trace.training import Training

FORMAT = "rfnb.trace"
_KEY = "rfnb"
_MAKE_ONE = 'with rf.record() as trace: ...\ntrace.save("run.rfnb")'


def save_trace(trace: Trace, path: str | PathLike[str]) -> None:
    """Write a trace; an existing file is replaced only when the new one is complete.

    Raises:
        TypeError: For a value that is not a Tensor, Dim, NumPy array or plain data.
        OSError: If it cannot be written: no such folder, no permission, a full disk.
    """
    if trace.tree is not None:
        name = next(branch.name for branch in trace.tree.values() if branch.trace is trace)
        return save_tree(trace.tree, path, name)
    writer = Writer()
    _write(_described(trace, writer), writer, path)


def save_tree(tree: Tree, path: str | PathLike[str], name: str) -> None:
    """Write a tree of branches as the trace of the named branch, with the others attached; errors as in `save_trace`."""
    writer = Writer(share=True)
    head = _described(tree[name].trace, writer)
    head["tree"] = tree_file.written(tree, name, writer, lambda trace: _described(trace, writer))
    _write(head, writer, path)


def save_training(training: Training, path: str | PathLike[str]) -> None:
    """Write a training as a trace without events, with the training attached; errors as in `save_trace`."""
    _write(*_of_training(training), path)


def training_bytes(training: Training) -> bytes:
    """The bytes of such a file."""
    from safetensors.numpy import save

    head, writer = _of_training(training)
    return bytes(save(writer.arrays, metadata=_metadata(head, writer)))


def training_of_bytes(data: bytes) -> Training:
    """The training in these bytes.

    Raises:
        ValueError: If they are damaged or of an unsupported version.
    """
    with tempfile.TemporaryDirectory() as folder:  # the metadata is read of files only
        path = Path(folder) / "training.rfnb"
        path.write_bytes(data)
        training = load_trace(path).training
    if training is None:
        raise ValueError("no training")
    return training


def _of_training(training: Training) -> tuple[JsonObject, Writer]:
    writer = Writer(share=True)
    head = _described(Trace(), writer)
    head["training"] = training_file.written(training, writer, lambda trace: _described(trace, writer))
    return head, writer


def _described(trace: Trace, writer: Writer) -> JsonObject:
    """A trace as JSON."""
    events = []
    for event in list(trace.events):
        where = f"{event.kind} at {event.path or 'no path'}"
        events.append(
            {
                "kind": event.kind,
                "path": event.path,
                "step": event.step,
                "module": event.module,
                "steps": list(event.steps),
                "entry": event.entry,
                "call": event.call,
                "depth": event.depth,
                "loop_dim": writer.dim(event.loop_dim),
                "values": {name: writer.value(value, f"{where}: {name}") for name, value in event.values.items()},
            }
        )
    cut = trace.truncated
    truncated = None if cut is None else [cut.kind, cut.path, cut.step, cut.limit, cut.dropped]
    guesses = [writer.dim(dim) for dim in trace.guesses if dim.guessed]
    return {"events": events, "truncated": truncated, "model": trace.model, "guesses": guesses}


def _write(head: JsonObject, writer: Writer, path: str | PathLike[str]) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    with whole_file(path) as part:
        try:
            save_file(writer.arrays, part, metadata=_metadata(head, writer))
        except SafetensorError as error:
            raise os_error(
                "trace.save: the file cannot be written.",
                {"path": path, "cause": error},
                "A file that was there before is as it was.",
                'trace.save("/another/disk/run.rfnb")',
            ) from error


def _metadata(head: JsonObject, writer: Writer) -> dict[str, str]:
    head = {"format": FORMAT, "version": RECORDING.now, "rfnb": RELEASE, **head, "dims": writer.dims}
    return {_KEY: json.dumps(head, allow_nan=False, separators=(",", ":"))}


def load_trace(path: str | PathLike[str]) -> Trace:
    """Read a trace written by `trace.save`; for a file of `watch.save` or `rf.watch(save=path)` it has the `training`.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: For another kind of file, a damaged one, or one of an unsupported version.
    """
    from safetensors import SafetensorError, safe_open

    target = Path(path)
    if not target.is_file():
        there = sorted(item.name for item in target.parent.glob("*.rfnb"))[:5] if target.parent.is_dir() else []
        raise file_not_found_error(
            "load_trace: no such file.",
            {"path": target, "there": ", ".join(there) or "no *.rfnb files"},
            "A trace file is made by trace.save.",
            _MAKE_ONE,
        )
    if training_journal.is_journal(target):
        return _of_journal(target)
    try:
        with safe_open(target, framework="numpy") as file:
            head = _head(target, file.metadata())
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise _unreadable(target, str(error)) from error
    except (TypeError, AttributeError, ValueError, OverflowError) as error:  # a dtype or a size that NumPy lacks
        if parts_of(error) is not None:
            raise
        raise _damaged(target, f"its arrays are of no type or size that a trace has ({error})") from error
    try:
        reader = Reader(head["dims"], arrays)
        trace = _trace(head, reader)
        if head.get("tree") is not None:  # a file of one run has none
            trace.tree = tree_file.read(head["tree"], trace, reader, lambda item: _trace(item, reader))
        if head.get("training") is not None:
            trace.training = training_file.read(head["training"], reader, lambda item: _trace(item, reader))
        return trace
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise _damaged(target, f"its description does not fit its arrays ({reason})") from error


def _of_journal(path: Path) -> Trace:
    """The trace of a file that grew with a training and was not finished."""
    try:
        head = training_journal.head_of(path)
        _check_version(path, RECORDING, head)
        trace = Trace()
        trace.training = training_journal.read_journal(path, head)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if parts_of(error) is not None:
            raise
        raise _damaged(path, f"its first line does not describe a training ({error})") from error
    trace.close()
    return trace


def _trace(head: JsonObject, reader: Reader) -> Trace:
    trace = Trace(model=of_type(head.get("model", ""), str))
    trace.guesses = [reader.guess(number) for number in of_type(head.get("guesses", []), list)]
    for item in head["events"]:
        values = {name: reader.value(value) for name, value in item["values"].items()}
        place = Place(
            path=of_type(item["path"], str),
            step=of_type(item["step"], int, type(None)),
            axis=reader.dim(item["loop_dim"]),
            module=of_type(item["module"], str),
            steps=tuple(of_type(step, int) for step in item["steps"]),
            entry=of_type(item["entry"], int),
            call=of_type(item.get("call", 0), int),  # older files do not know
            depth=of_type(item.get("depth", 0), int),
        )
        trace.add(of_type(item["kind"], str), place, values)
    if head["truncated"] is not None:
        kind, path, step, limit, dropped = head["truncated"]
        texts, number = (of_type(kind, str), of_type(path, str)), of_type(step, int, type(None))
        trace.truncated = Truncated(*texts, number, of_type(limit, int), of_type(dropped, int))
    trace.close()
    _check(trace)
    return trace


def _check(trace: Trace) -> None:
    """Check the values by kind on loading, before other code fails on them.

    Raises:
        TypeError, ValueError: If they are invalid.
    """
    searches = set()
    for event in trace.events:
        wrong = misfit(event.kind, event.values)
        if wrong is not None:
            raise TypeError(f"{wrong[0]} of {event.kind} at {event.path or 'no path'} is not {wrong[1].words}")
        if event.kind == "beams":
            searches.add(event.path)
        elif event.kind in ("module", "op"):
            check_calls(event.values)
    for path in searches:
        try:
            for history in trace.beams.runs(path):
                for seq in range(history.num_seqs):
                    history.nbest(seq)
        except Exception as error:
            if parts_of(error) is None:  # else it was like that when it was recorded, and is said in words
                raise ValueError(f"the search at {path or 'no path'}: {type(error).__name__}: {error}") from error


def _head(path: Path, metadata: dict[str, str] | None) -> JsonObject:
    """The description in a safetensors file, if rfnb wrote it."""
    if not metadata or _KEY not in metadata:
        found = f"a safetensors file without a trace (metadata: {', '.join(metadata or {}) or 'none'})"
        raise _foreign(path, found)
    try:
        head = read_json(metadata[_KEY])
    except ValueError as error:
        raise _damaged(path, f"its description is not JSON ({error})") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise _foreign(path, "a safetensors file of another kind of rfnb")
    _check_version(path, RECORDING, head)
    return head


def _check_version(path: Path, of: Format, head: JsonObject) -> None:
    problem = of.problem(head.get("version"), head.get("rfnb"))
    if problem is not None:
        rows, rule, fix = problem
        raise value_error(
            "load_trace: a version of the format that this rfnb does not read.", [("path", path), *rows], rule, fix
        )


def _unreadable(path: Path, reason: str) -> ValueError:
    """The error for a file that safetensors refuses: a truncated trace, or something else."""
    with open(path, "rb") as file:
        start = file.read(64)
    if not start:
        return _damaged(path, "it is empty")
    if start[8:9] == b"{":  # 8 bytes of length, then JSON
        return _damaged(path, f"it is cut off or changed ({reason})")
    kinds = {b"PK\x03\x04": "a zip file (torch.save makes such)", b"\x80": "a pickle", b"\x93NUMPY": "a NumPy array"}
    found = next(
        (kind for magic, kind in kinds.items() if start.startswith(magic)), f"a file that begins with {start[:8]!r}"
    )
    return _foreign(path, found)


def _damaged(path: Path, found: str) -> ValueError:
    return value_error(
        "load_trace: the file is damaged.",
        {"path": path, "found": found, "bytes": path.stat().st_size},
        "A trace file is read as a whole or not at all. Copy it again, or record again:",
        _MAKE_ONE,
    )


def _foreign(path: Path, found: str) -> ValueError:
    return value_error(
        "load_trace: this is not a trace file.",
        {"path": path, "found": found},
        "A trace file is made by trace.save.",
        _MAKE_ONE,
    )
