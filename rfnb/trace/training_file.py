"""A training in the description of a trace file, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.trace.file_values import Reader, Writer, of_type
from rfnb.trace.training import ExampleRecording, Training, TrainingCurve, TrainingTable


def written(training: Training, writer: Writer, described: Any) -> dict[str, Any]:
    """The training as JSON.

    Args:
        described: Returns the JSON of a trace.
    """

    def array(values: Any, dtype: str) -> Any:
        return writer.value(np.asarray(values, dtype), "a curve")

    return {
        "title": training.title,
        "every": training.every,
        "counts": dict(training.counts),
        "facts": list(training.facts),
        "types": dict(training.types),
        "says": [[step, sentence] for step, sentence in training.says],
        "curves": [
            [name, array(curve.steps, "int64"), array(curve.values, "float64")]
            for name, curve in training.curves.items()
        ],
        "tables": [
            [*key, list(table.columns), array(table.steps, "int64"), array(table.array(), "float32")]
            for key, table in training.tables.items()
        ],
        "examples": [[one.label, one.step, described(one.trace)] for one in training.examples],
    }


def read(given: dict[str, Any], reader: Reader, made: Any) -> Training:
    """The training that `written` has described.

    Args:
        made: Makes a trace from its JSON.
    """
    training = Training(of_type(given["title"], str), of_type(given["every"], str))
    training.counts = {of_type(name, str): of_type(count, int) for name, count in given["counts"].items()}
    training.facts = [of_type(fact, str) for fact in given["facts"]]
    types = of_type(given.get("types", {}), dict)  # a file of 0.1 has none
    training.types = {of_type(path, str): of_type(name, str) for path, name in types.items()}
    training.says = [(of_type(step, int), of_type(sentence, str)) for step, sentence in given["says"]]

    def array(value: Any, *shape: int) -> np.ndarray:
        return np.asarray(of_type(reader.value(value), np.ndarray).reshape(shape))

    for name, steps, values in given["curves"]:
        curve = training.curves[of_type(name, str)] = TrainingCurve()
        curve.steps = array(steps, -1).tolist()
        curve.values = array(values, len(curve.steps)).tolist()
    for stat, optimizer, columns, steps, rows in given["tables"]:
        table = TrainingTable([of_type(each, str) for each in columns])
        training.tables[of_type(stat, str), of_type(optimizer, str)] = table
        table.steps = array(steps, -1).tolist()
        table.rows = list(array(rows, len(table.steps), len(table.columns)))
    for label, step, trace in given["examples"]:
        training.examples.append(ExampleRecording(of_type(label, str), of_type(step, int), made(trace)))
    training.closed = True
    return training
