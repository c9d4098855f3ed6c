"""The entries of the table for softmax, matmul and losses."""

from __future__ import annotations

from typing import Any

from table import case
from world import World, some_axes

import rfnb as rf
from rfnb import Dim, Tensor

for _name in ("softmax", "log_softmax"):

    @case(_name)
    def _softmax(w: World, name: str = _name) -> Any:
        dims = w.dims(at_least=1)
        axis = some_axes(w, dims, 1)[0]
        return lambda x: getattr(rf, name)(x, axis=axis), [w.floats(*dims)]


for _name in ("matmul", "dot"):

    @case(_name)
    def _matmul(w: World, name: str = _name) -> Any:
        a, b, reduce = [
            ((w.batch, w.time, w.feat), (w.feat, w.out), w.feat),
            ((w.batch, w.time, w.feat), (w.batch, w.time, w.out), w.time),
            ((w.batch, w.time, w.feat), (w.batch, w.time, w.feat), (w.time, w.feat)),
            ((w.batch, w.heads, w.time, w.feat), (w.batch, w.heads, w.source, w.feat), w.feat),
            ((w.batch, w.time, w.char), (w.batch, w.time, w.char, w.out), w.char),
            ((w.feat,), (w.feat,), w.feat),
            ((w.feat, w.heads, w.out), (w.heads, w.out), (w.out,)),
            ((w.batch, w.time), (w.batch, w.time), (w.batch, w.time)),
        ][w.rng.integers(8)]
        return lambda x, y: getattr(rf, name)(x, y, reduce=reduce), [w.floats(*a), w.floats(*b)]


for _name in ("logits", "log-probs", "probs"):

    def _estimated(x: Tensor, axis: Dim, kind: str = _name) -> Tensor:
        return {
            "logits": lambda: x,
            "log-probs": lambda: rf.log_softmax(x, axis=axis),
            "probs": lambda: rf.softmax(x, axis=axis),
        }[kind]()

    @case("cross_entropy", f"of {_name}")
    def _cross_entropy(w: World, kind: str = _name, estimated: Any = _estimated) -> Any:
        smoothing = float(w.rng.choice([0.0, 0.1]))

        def call(x: Tensor, target: Tensor) -> Tensor:
            return rf.cross_entropy(
                estimated=estimated(x, w.classes),
                target=target,
                axis=w.classes,
                estimated_type=kind,
                label_smoothing=smoothing,
            )

        return call, [w.floats(w.batch, w.time, w.classes), w.ints(w.batch, w.time, sparse_dim=w.classes)]

    @case("cross_entropy", f"of {_name} with dense targets")
    def _cross_entropy_dense(w: World, kind: str = _name, estimated: Any = _estimated) -> Any:
        def call(x: Tensor, target: Tensor) -> Tensor:
            target = rf.softmax(target, axis=w.classes)
            return rf.cross_entropy(
                estimated=estimated(x, w.classes), target=target, axis=w.classes, estimated_type=kind
            )

        return call, [w.floats(w.batch, w.time, w.classes), w.floats(w.batch, w.time, w.classes)]


@case("label_smoothing")
def _label_smoothing(w: World) -> Any:
    classes = Dim(w.classes.extent + 1, name="classes")
    if w.rng.random() < 0.5:
        return lambda x: rf.label_smoothing(x, 0.1), [w.ints(w.batch, w.time, sparse_dim=classes)]
    return lambda x: rf.label_smoothing(x, 0.1, axis=classes), [w.floats(w.batch, w.time, classes, low=0)]
