"""Every layer of a step in every wrapping, with every kind of input: what the sweep of `test_net_structure.py` puts together.

A layer is a function of (its source, its own name, the prefix that leads out of the loop); all give frames of `size` features.
A wrapping puts it into others. An input says where the source of the layer comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import rfnb as rf

Layers = dict[str, dict[str, Any]]
HISTORY = "<dim history:None>"


@dataclass(frozen=True)
class Sizes:
    """Of one variant of the sweep: all different, or all the same."""

    lengths: tuple[int, ...]
    encoder: tuple[int, ...]
    size: int
    heads: int
    labels: int
    beam: int
    data: int


DIFFERENT = Sizes(lengths=(5, 3), encoder=(4, 7), size=6, heads=3, labels=8, beam=9, data=10)
SAME = Sizes(lengths=(4, 4, 2, 1), encoder=(4, 3, 4, 2), size=4, heads=4, labels=4, beam=4, data=4)
PAIRS = Sizes(lengths=(2, 1), encoder=(2, 2), size=4, heads=2, labels=2, beam=2, data=2)


def layers_of(sizes: Sizes) -> dict[str, Any]:
    """name -> function of (source, own name, prefix) that makes the layers; the one of the own name is the result."""
    n, heads = sizes.size, sizes.heads
    plain: dict[str, dict[str, Any]] = {
        "linear": {"class": "linear", "activation": "tanh", "n_out": n},
        "softmax": {"class": "softmax", "n_out": n},
        "copy": {"class": "copy"},
        "activation": {"class": "activation", "activation": "softplus"},
        "eval": {"class": "eval", "eval": "tf.exp(source(0)) * 0.5"},
        "rec lstm": {"class": "rec", "unit": "nativelstm2", "n_out": n},
        "rec from ones": {"class": "rec", "unit": "standardlstm", "n_out": n, "initial_state": "ones"},
        "rnn_cell": {"class": "rnn_cell", "unit": "gru", "n_out": n},
        "self_attention": {"class": "self_attention", "num_heads": heads, "total_key_dim": heads, "n_out": n, "attention_left_only": True},
        "positional_encoding": {"class": "positional_encoding", "add_to_input": True},
    }  # fmt: skip

    def simple(opts: dict[str, Any]) -> Any:
        return lambda source, me, out: {me: {**opts, "from": source}}

    def combine(source: str, me: str, out: str) -> Layers:
        return {
            "a": {"class": "linear", "activation": None, "n_out": n, "from": source},
            me: {"class": "combine", "kind": "mul", "from": ["a", source]},
        }

    def own_feedback(source: str, me: str, out: str) -> Layers:
        return {
            me: {
                "class": "linear",
                "activation": "tanh",
                "n_out": n,
                "from": [source, f"prev:{me}"],
                "initial_output": 1,
            }
        }

    def feedback_before(source: str, me: str, out: str) -> Layers:
        return {
            "a": {"class": "linear", "activation": "tanh", "n_out": n, "from": [source, f"prev:{me}"]},
            me: {"class": "rnn_cell", "unit": "lstmblock", "n_out": n, "from": ["a", "prev:a"]},
        }

    def split(source: str, me: str, out: str) -> Layers:
        return {
            "a": {"class": "split_dims", "axis": "F", "dims": [heads, -1], "from": source},
            "b": {"class": "reduce", "mode": "max", "axis": "F", "from": "a"},
            "c": {"class": "combine", "kind": "sub", "from": ["a", "b"]},
            me: {"class": "merge_dims", "axes": "static", "from": "c"},
        }

    def switch(source: str, me: str, out: str) -> Layers:
        return {
            "a": {"class": "compare", "kind": "greater", "value": 0.1, "from": source},
            me: {"class": "switch", "condition": "a", "true_from": source, "false_from": -0.25},
        }

    def dot_attention(source: str, me: str, out: str) -> Layers:
        return {me: {"class": "dot_attention", "base": f"{out}enc", "base_ctx": f"{out}enc", "from": source}}

    def head_attention(source: str, me: str, out: str) -> Layers:
        return {
            "k": {"class": "split_dims", "axis": "F", "dims": [heads, -1], "from": f"{out}enc"},
            "q": {"class": "split_dims", "axis": "F", "dims": [heads, -1], "from": source},
            "e": {"class": "dot", "from": ["k", "q"], "reduce": "F"},
            "w": {"class": "softmax_over_spatial", "from": "e", "axis": "T"},
            "a": {"class": "generic_attention", "weights": "w", "base": "k"},
            me: {"class": "merge_dims", "axes": "static", "from": "a"},
        }

    def accumulated_attention(source: str, me: str, out: str) -> Layers:
        one = {"class": "linear", "activation": None, "n_out": n}
        return {
            "f": {**one, "from": "prev:accum", "with_bias": False},
            "i": {"class": "combine", "kind": "add", "from": [f"{out}enc", "f", source]},
            "e0": {"class": "activation", "activation": "tanh", "from": "i"},
            "e": {"class": "linear", "activation": None, "n_out": 1, "from": "e0"},
            "w": {"class": "softmax_over_spatial", "from": "e", "axis": "T"},
            "accum": {"class": "combine", "kind": "add", "from": ["prev:accum", "w"]},
            me: {"class": "generic_attention", "weights": "w", "base": f"{out}enc"},
        }

    def gauss(source: str, me: str, out: str) -> Layers:
        return {
            "a": {"class": "reduce", "mode": "sum", "axis": "F", "from": source},
            me: {"class": "gauss_window_attention", "window_size": 3, "base": f"{out}enc", "from": "a"},
        }

    def history(source: str, me: str, out: str) -> Layers:
        keys = {"class": "cum_concat", "from": source, "out_spatial_dim": HISTORY}
        return {
            "k": keys,
            "e": {"class": "dot", "from": ["k", source], "reduce": "F"},
            "w": {"class": "softmax_over_spatial", "from": "e", "axis": HISTORY},
            me: {"class": "generic_attention", "weights": "w", "base": "k"},
        }

    def twod_lstm(source: str, me: str, out: str) -> Layers:
        return {me: {"class": "twod_lstm", "pooling": "last", "n_out": n, "from": [f"{out}enc", source]}}

    more = {f.__name__: f for f in (combine, own_feedback, feedback_before, split, switch, dot_attention, head_attention,
                                    accumulated_attention, gauss, history, twod_lstm)}  # fmt: skip
    return {**{name: simple(opts) for name, opts in plain.items()}, **more}


def _subnetwork(made: Any, source: str, me: str, out: str) -> Layers:
    inner = made("data", "output", f"base:{out}")
    return {me: {"class": "subnetwork", "from": source, "subnetwork": inner}}


def _plain(made: Any, source: str, me: str, out: str) -> Layers:
    return made(source, me, out)


def _nested(made: Any, source: str, me: str, out: str) -> Layers:
    return _subnetwork(lambda *args: _subnetwork(made, *args), source, me, out)


def _masked(mask: str, inside: Any) -> Any:
    """As the unit of a masked computation. A unit is one layer, so several are a subnetwork."""

    def wrapped(made: Any, source: str, me: str, out: str) -> Layers:
        layers = inside(made, "data", me, out)
        unit = layers[me] if len(layers) == 1 else _subnetwork(made, "data", me, out)[me]
        around = "base:" * (out.count("base:") - 1)
        return {me: {"class": "masked_computation", "mask": f"{around}{mask}", "from": source, "unit": unit}}

    return wrapped


def wrappings(mask: str) -> dict[str, Any]:
    """name -> function of (layer, source, own name, prefix); the first says what all give."""
    masked = _masked(mask, _plain)
    return {
        "masked": masked,
        "masked subnetwork": _masked(mask, _subnetwork),
        "masked nested subnetwork": _masked(mask, _nested),
        "masked masked": _masked(mask, masked),
        "masked masked subnetwork": _masked(mask, _masked(mask, _subnetwork)),
        "subnetwork with masked": lambda made, *args: _subnetwork(lambda *inner: masked(made, *inner), *args),
    }


UNMASKED = {"plain": _plain, "subnetwork": _subnetwork, "nested subnetwork": _nested}


def network(kind: str, layers: Layers, sizes: Sizes) -> dict[str, Any]:
    """A net whose loop computes `layers` ("x", from "in"), with that input."""
    n = sizes.size
    linear = {"class": "linear", "activation": "tanh", "n_out": n}
    sources = {
        "input": ["data:source"],
        "feedback": ["data:source", "prev:output"],
        "search": ["emb"],
        "search of known length": ["emb", "data:source"],
    }
    unit = {
        "in": {**linear, "from": sources[kind]},
        "s": {"class": "reduce", "mode": "sum", "axis": "F", "from": "in"},
        "some": {"class": "compare", "kind": "greater", "value": -0.2, "from": "s"},
        "zero": {"class": "eval", "eval": "source(0) * 0", "from": "s"},
        "all": {"class": "compare", "kind": "equal", "value": 0, "from": "zero"},
        **layers,
    }
    net: dict[str, Any] = {"enc": {**linear, "from": "data:encoder"}}
    if not kind.startswith("search"):
        unit["output"] = {"class": "copy", "from": "x"}
        return {**net, "output": {"class": "rec", "from": "data", "unit": unit}}
    unit |= {
        "emb": {**linear, "from": "prev:output"},
        "p": {"class": "softmax", "from": "x", "n_out": sizes.labels},
        "output": {"class": "choice", "target": "classes", "beam_size": sizes.beam, "from": "p", "initial_output": 1,
                   "length_normalization": False},
    }  # fmt: skip
    loop: dict[str, Any] = {"class": "rec", "from": "data", "target": "classes"}
    if kind == "search":
        unit["end"] = {"class": "compare", "kind": "equal", "value": 0, "from": "output"}
        loop |= {"from": [], "max_seq_len": 3}
    unit["x"] = {**unit["x"], "is_output_layer": True}
    scores = {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True}
    return {**net, "output": {**loop, "unit": unit}, "scores": scores}


def in_subnetwork(net: dict[str, Any]) -> dict[str, Any]:
    """The same loop inside of a subnetwork, with what it reads from outside."""
    inner = {name: opts for name, opts in net.items() if name != "scores"}
    inner["output"] = {**inner["output"], "from": "base:data" if inner["output"]["from"] == "data" else []}
    inner["enc"] = {**inner["enc"], "from": "base:data:encoder"}
    out = {"output": {"class": "subnetwork", "from": [], "subnetwork": inner}}
    return {**out, "scores": net["scores"]} if "scores" in net else out


def whole(made: Any, sizes: Sizes) -> dict[str, Any]:
    """The layer on all frames at once, outside of loops, where it reads the input only."""
    linear = {"class": "linear", "activation": "tanh", "n_out": sizes.size}
    layers = made("in", "x", "")
    return {
        "enc": {**linear, "from": "data:encoder"},
        "in": {**linear, "from": "data"},
        **layers,
        "output": {"class": "copy", "from": "x"},
    }


def extern(sizes: Sizes) -> dict[str, Any]:
    """The inputs."""
    return {
        "data": {"dim": sizes.data},
        "encoder": {"dim": sizes.data},
        "classes": {"dim": sizes.labels, "sparse": True},
    }


def built(net: dict[str, Any], sizes: Sizes, search: bool) -> Any:
    """The network; parameters have values by what they are, in whatever the layer is wrapped."""
    made = rf.net_from_dict(net, extern(sizes), search=search)
    values = {}
    for path, parameter in made.parameters_by_path().items():
        own = "/".join(part for part in path.split("/") if part not in ("x", "output", "rec"))
        random = np.random.default_rng(sum((i + 1) * ord(c) for i, c in enumerate(own)))
        values[path] = random.normal(size=[dim.extent for dim in parameter.dims]).astype("float32") * 0.8
    made.set_parameters(values)
    return made


def inputs(sizes: Sizes) -> dict[str, Any]:
    """The same data for all."""
    random = np.random.default_rng(7)
    batch = len(sizes.lengths)

    def dense(lengths: tuple[int, ...]) -> Any:
        return random.normal(size=(batch, max(lengths), sizes.data)).astype("float32"), np.array(lengths)

    return {"data": dense(sizes.lengths), "encoder": dense(sizes.encoder),
            "classes": (np.ones((batch, 2), "int32"), np.array([2] * batch))}  # fmt: skip


def as_arrays(out: Any) -> dict[str, np.ndarray]:
    """All outputs as arrays with zeros in the padding: dims by kind, so that nothing depends on their order."""
    found = {}
    for name, value in out.items():
        order = sorted(
            value.dims, key=lambda dim: {"batch": 0, "beam": 1}.get(str(dim.kind), 3 if dim is value.feature_dim else 2)
        )
        found[name] = value.copy_transpose(order).copy_masked(0).numpy()
    return found
