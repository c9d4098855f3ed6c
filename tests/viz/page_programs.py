"""Small programs at random for pages: lines of Python over named arrays, drawn until enough of them run.

A program is a text, so that one that fails can be read, cut to the lines that it needs, and kept as a row of a test.

    RFNB_SEED=7 pytest tests/viz/test_runnable_random.py                     # other programs
    RFNB_PAGE_PROGRAMS=3000 pytest tests/viz/test_runnable_random.py         # more of them
"""

from __future__ import annotations

import functools
import random
import re
from itertools import permutations
from typing import NamedTuple

import numpy as np

import rfnb as rf
from rfnb.core.beam_dim import is_beam

LETTERS = "abcdefgh"
letter, feat, other = rf.Dim(8, name="letter", vocab=list(LETTERS)), rf.Dim(5, name="feat"), rf.Dim(3, name="other")
two, three, six, column = (
    rf.Dim(size, name=name) for size, name in ((2, "two"), (3, "three"), (6, "six"), (5, "column"))
)
one, classes = rf.Dim(1, name="one"), rf.Dim(6, name="classes", vocab=list("_uvwxy"))
batch = rf.Dim(1, name="batch", kind="batch")
_FIXED = {
    "letter": letter,
    "feat": feat,
    "other": other,
    "two": two,
    "three": three,
    "six": six,
    "column": column,
    "one": one,
}


def table(*dims, scale=1.0, shift=0.0, seed=0):
    values = np.random.default_rng(seed).standard_normal([dim.size for dim in dims]) * scale + shift
    return rf.convert_to_tensor(values.astype(np.float32), dims=list(dims), feature_dim=dims[-1])


def whole(*dims, most=5, seed=0, sparse_dim=None):
    values = np.random.default_rng(seed).integers(-most if sparse_dim is None else 0, most, [dim.size for dim in dims])
    return rf.convert_to_tensor(values.astype(np.int64), dims=list(dims), sparse_dim=sparse_dim)


CONSTANTS = {
    "ROWS": table(letter, feat), "WIDE": table(letter, six, seed=1), "Y": table(feat, other, seed=2), "Z": table(two, three, seed=3),
    "COLUMN": table(column, seed=4), "V": table(feat, seed=5), "N": whole(letter, seed=6), "K": whole(feat, seed=7),
    "AT": whole(column, most=5, seed=8, sparse_dim=feat), "OF": whole(letter, most=3, seed=9, sparse_dim=other),
    "SQUARE": table(feat, column, seed=10), "EMBEDDING": table(classes, feat, seed=11), "OUT": table(feat, classes, scale=1.5, seed=12),
}  # fmt: skip


def _modules():
    rf.set_random_seed(5)
    return {"LINEAR": rf.Linear(feat, other), "BACK": rf.Linear(other, feat), "NORM": rf.LayerNorm(feat),
            "RMS": rf.RMSNorm(feat), "CELL": rf.LSTM(feat, three)}  # fmt: skip


MODULES = _modules()
SCOPE = {"rf": rf, "batch": batch, "classes": classes, **_FIXED, **CONSTANTS, **MODULES}
_NAME = re.compile(r"\b[vdm]\d+\b")
FEW = 300.0  # no value of a program is larger


def read(text):
    """{time, batch}: the labels of the letters."""
    time = rf.ragged_dim([len(text)], over=batch, name="time")
    ids = np.array([[LETTERS.index(each)] for each in text], np.int32)
    return time, rf.convert_to_tensor(ids, dims=[time, batch], sparse_dim=letter)


class Line(NamedTuple):
    """One line of a program.

    Attributes:
        code: One statement or a block of them, which makes the names in `makes`.
        margins: Expressions that are 0 where a rounded number may decide otherwise.
    """

    code: str
    makes: tuple[str, ...]
    margins: tuple[str, ...] = ()

    @property
    def needs(self) -> set[str]:
        return {*_NAME.findall(self.code)} - {*self.makes}


@functools.cache
def compiled(code):
    """Once for all runs of a line: what is known of a body of a loop is kept by its code."""
    return compile(code, "<string>", "exec")


class Program(NamedTuple):
    """Lines that compute, of a text `ids` {time, batch}, what they make."""

    lines: tuple[Line, ...]
    gives: tuple[str, ...]

    def run(self, text):
        """By name what the lines make of a text."""
        scope = dict(SCOPE)
        scope["time"], scope["ids"] = read(text)
        for line in self.lines:
            exec(compiled(line.code), scope)
        return scope

    def __call__(self, text):
        scope = self.run(text)
        return tuple([scope[name] for name in self.gives])

    def unsure(self, scope):
        """Names whose values rounding may change by much."""
        found: set[str] = set()
        for line in self.lines:
            if found & line.needs or any(_near(eval(margin, scope)) for margin in line.margins):
                found |= {*line.makes}
        return found

    def cut_to(self, name):
        """Only what one of the values needs."""
        wanted, lines = {name}, []
        for line in reversed(self.lines):
            if wanted & {*line.makes}:
                lines.insert(0, line)
                wanted |= line.needs
        return Program(tuple(lines), (name,))

    def __str__(self):
        return "\n".join([*(line.code for line in self.lines), f"# {', '.join(self.gives)}"])


def _near(value):
    """True if some value is almost 0, but not 0 by right, or none."""
    far = np.abs(value.numpy().astype(float)) if isinstance(value, rf.Tensor) else np.abs(np.float64(value))
    return bool(np.any(~(far >= 1e-4) & (far != 0)))


def gap(x, axis):
    """How far the largest values along an axis are from each other."""
    at = x.dims.index(axis)
    values = np.sort(x.numpy().astype(float), axis=at)
    far = np.diff(values, axis=at).take(-1, at) if values.shape[at] > 1 else 1.0
    return np.maximum(far, 1e-9) if x.dtype.startswith("float") else far


SCOPE["gap"] = gap
ONE = (
    "abs ceil cos exp expm1 floor gelu log_sigmoid neg relu relu_square round selu sigmoid silu sin square tanh".split()
)
TAME = {"log": "rf.abs({}) + 0.2", "log1p": "rf.abs({})", "sqrt": "rf.abs({}) + 0.1", "rsqrt": "rf.abs({}) + 0.2",
        "reciprocal": "rf.abs({}) + 0.3"}  # fmt: skip
BOTH = ["+", "-", "*", "maximum", "minimum", "squared_difference", "log_add_exp", "/", "//", "%", "**"]
COMPARE = ["==", "!=", "<", "<=", ">", ">="]


class Drawn:
    """Draws lines that run for a text, and keeps what they make of it."""

    def __init__(self, seed, text="abcd"):
        self.random, self.seed = random.Random(seed), seed
        self.begun = set()  # lists of which this program has had one
        self.scope = dict(SCOPE)
        self.scope["time"], self.scope["ids"] = read(text)
        self.lines: list[Line] = []
        self.values: list[str] = ["ids"]
        self.dims: dict[str, str] = {}  # names of those that lines have made
        self.count = 0
        self.step: list[str] | None = None  # what is of a step only

    # -- what there is -----------------------------------------------------------------------------------------------------

    def new(self, kind="v"):
        self.count += 1
        return f"{kind}{self.count}"

    def dim_name(self, dim):
        """The name of a dim; None if it has none here."""
        for name, value in self.scope.items():
            if value is dim and (name in (*_FIXED, "batch", "classes", "time") or name in self.dims):
                return name
        return None

    def pick(self, kind=None, having=None):
        """A value: "f", "i" or "b"; `having`: a condition of it."""
        own = [name for name in self.values if self._fits(name, kind, having)]
        names = (
            own
            if own and self.random.random() < 0.75
            else [name for name in CONSTANTS if self._fits(name, kind, having)]
        )
        names = names or own
        if not names:
            raise LookupError
        late = [name for name in names if name in self.values[-6:]]
        return self.random.choice(late if late and self.random.random() < 0.6 else names)

    def _fits(self, name, kind, having):
        value = self.scope[name]
        own = {"f": "f", "i": "i", "b": "b"}[value.dtype[0]] if value.dtype[0] in "fib" else "?"
        return (kind is None or own == kind) and (having is None or having(value))

    def one_of(self, names, of=None):
        """One of a list: in each program first another one, so that in some programs all are drawn. `of`: which list it is."""
        of = of or names[0]
        if of in self.begun or not isinstance(self.seed, int):
            return self.random.choice(names)
        self.begun.add(of)
        return names[self.seed % len(names)]

    def axis(self, name, count=1):
        """Names of dims of a value."""
        dims = [self.dim_name(dim) for dim in self.scope[name].dims]
        dims = [dim for dim in dims if dim and dim != "batch"]
        even = [dim for dim in dims if not any(map(is_beam, self.scope[dim].length_dims))]
        dims = even if self.random.random() < 0.9 else dims  # a page has no padding
        if len(dims) < count:
            raise LookupError
        return self.random.sample(dims, count)

    def number(self):
        return self.random.choice([0.5, -1.5, 2, 3, -2, 0.25, 1, -1, 0, 7.75])

    def line(self, code, *makes, margins=()):
        return Line(code, makes, tuple(margins))

    # -- lines -------------------------------------------------------------------------------------------------------------

    def draw(self, kinds=None):
        """One more line, if the one that is drawn runs."""
        make = self.random.choice(kinds or KINDS)
        before = self.count
        try:
            line = make(self)
            self.keep(line)
        except LookupError:
            self.count = before
        except Exception as error:  # of the op: this is none that rfnb has
            self.count = before
            self.refusal = error

    def keep(self, line):
        scope = dict(self.scope)
        exec(compiled(line.code), scope)
        made = [scope[name] for name in line.makes]
        for value in made:
            if isinstance(value, rf.Tensor) and not _is_tame(
                value, "rf.choice" in line.code or "beam_search" in line.code
            ):
                raise LookupError
        self.scope = scope
        self.lines.append(line)
        for name, value in zip(line.makes, made):
            if isinstance(value, rf.Tensor):
                self.values.append(name)
            elif isinstance(value, rf.Dim) and self.dim_name(value) is None:
                self.dims[name] = name

    def one(self):
        x = self.pick(self.random.choice("fffi")) if ONE[0] in self.begun else "v0"
        name = self.one_of([*ONE, *TAME])
        given, margin = TAME.get(name, "{}").format(x), []
        if name in ("floor", "ceil", "round"):
            margin = [f"{x} - rf.round({x})", f"{x} - rf.floor({x}) - 0.5"]
        return self.line(f"{(v := self.new())} = rf.{name}({given})", v, margins=margin)

    def both(self):
        kind = self.one_of(BOTH)
        a, b = self.pick(self.random.choice("fffi")), self.pick(self.random.choice("fffi"))
        if self.random.random() < 0.3:
            a, b = self.random.choice([(a, str(self.number())), (str(self.number()), b)])
        margin = []
        if kind in ("//", "%"):
            b = f"(rf.abs({b}) + 1)" if not _is_number(b) else str(self.random.choice([2, 3, -2, 0.75]))
            margin = [f"rf.combine_bc({a}, '/', {b}) - rf.round(rf.combine_bc({a}, '/', {b}))"]
        if kind == "/" and not _is_number(b):
            b = f"(rf.abs({b}) + 0.5)"
        if kind == "**":
            a, b = f"(rf.abs({a}) + 0.25)", str(self.random.choice([2, 3, 0.5, -1, 1]))
        form = self.random.choice(["rf.combine_bc({0}, {2!r}, {1})", "rf.combine({0}, {2!r}, {1})", "{0} {2} {1}"])
        if not kind.isalpha() and "_" not in kind:
            code = form.format(a, b, kind)
        elif kind in ("maximum", "minimum", "squared_difference") and form.startswith("rf.combine"):
            code = form.format(a, b, kind)
        else:
            code = f"rf.{kind}({a}, {b})"
        return self.line(f"{(v := self.new())} = {code}", v, margins=margin)

    def compared(self):
        a, b = self.pick(self.random.choice("ffi")), self.pick(self.random.choice("ffi"))
        if self.random.random() < 0.4:
            b = str(self.number())
        kind = self.one_of(COMPARE)
        code = self.random.choice([f"rf.compare_bc({a}, {kind!r}, {b})", f"{a} {kind} {b}"])
        return self.line(f"{(v := self.new())} = {code}", v, margins=[f"rf.combine_bc({a}, '-', {b})"])

    def logical(self):
        a, b = self.pick("b"), self.pick("b")
        code = self.one_of([f"rf.logical_and({a}, {b})", f"rf.logical_or({a}, {b})", f"rf.logical_not({a})"], "logical")
        return self.line(f"{(v := self.new())} = {code}", v)

    def reduced(self):
        mode = self.one_of("sum mean max min logsumexp any all argmax".split())
        kind = {"any": "b", "all": "b"}.get(mode) or self.random.choice(
            "fffib" if mode in ("sum", "max", "min") else "ffi"
        )
        x = self.pick(kind, lambda value: value.dims)
        axes = self.axis(x, 1 if mode == "argmax" else self.random.choice([1, 1, 2]))
        if self.random.random() < 0.1:
            axes = [*axes, "batch"]
        if mode == "argmax":
            axes = axes[:1]
        axis = axes[0] if len(axes) == 1 else f"[{', '.join(axes)}]"
        margin = [f"gap({x}, {axis})"] if mode == "argmax" else []
        return self.line(f"{(v := self.new())} = rf.reduce_{mode}({x}, axis={axis})", v, margins=margin)

    def soft(self):
        x = self.pick("f", lambda value: value.dims)
        (axis,) = self.axis(x)
        if self.random.random() < 0.4:
            mask = self.pick("b")
            low = self.random.choice(["-1e30", "float('-inf')", "-1e4"])
            x = f"rf.where({mask}, {x}, {low}, allow_broadcast_all_sources=True)"
            return self.line(f"{(v := self.new())} = rf.softmax({x}, axis={axis})", v)
        name = self.random.choice(["softmax", "log_softmax"])
        return self.line(f"{(v := self.new())} = rf.{name}({x}, axis={axis})", v)

    def gathered(self):
        source = self.pick(None, lambda value: value.dims)
        (axis,) = self.axis(source)
        if self.random.random() < 0.3:
            index = self.random.choice([0, 0, 1, -1, 2])
            return self.line(f"{(v := self.new())} = rf.gather({source}, indices={index}, axis={axis})", v)
        sparse = [name for name in [*self.values, *CONSTANTS] if self.scope[name].sparse_dim in self.scope[source].dims]
        if sparse and self.random.random() < 0.6:
            index = self.random.choice(sparse)
            return self.line(f"{(v := self.new())} = rf.gather({source}, indices={index})", v)
        index = self.pick("i")
        size = self.random.choice([f"{axis}.get_size_tensor().numpy().max()"]) if axis == "time" else f"{axis}.size"
        if axis == "time" or axis in self.dims or self.random.random() < 0.3:
            return self.line(
                f"{(v := self.new())} = rf.gather({source}, indices=rf.set_sparse_dim({index}, None), axis={axis}, clip_to_valid=True)",
                v,
            )
        return self.line(
            f"{(v := self.new())} = rf.gather({source}, indices=rf.set_sparse_dim({index} % {size}, None), axis={axis})",
            v,
        )

    def product(self):
        a = self.pick("f", lambda value: value.dims)
        (axis,) = self.axis(a)
        b = self.pick("f", lambda value: self.scope[axis] in value.dims)
        both = [dim for dim in self.scope[b].dims if dim in self.scope[a].dims and self.dim_name(dim)]
        axes = [self.dim_name(dim) for dim in self.random.sample(both, self.random.randint(1, len(both)))]
        return self.line(f"{(v := self.new())} = rf.matmul({a}, {b}, reduce=[{', '.join(axes)}])", v)

    def joined(self):
        a = self.pick(None, lambda value: value.dims)
        (axis,) = self.axis(a)
        kind = self.scope[a].dtype
        b = self.pick(None, lambda value: value.dims and value.dtype == kind)
        (of,) = self.axis(b)
        more = ", allow_broadcast=True" if self.random.random() < 0.4 else ""
        v, d = self.new(), self.new("d")
        return self.line(f"{v}, {d} = rf.concat(({a}, {axis}), ({b}, {of}){more})", v, d)

    def sliced(self):
        x = self.pick(None, lambda value: value.dims)
        (axis,) = self.axis(x)
        parts = self.random.choice([
            "start=1", "start=-2", "end=2", "end=-1", "start=1, end=3", "start=0, size=1", "start=-1", "start=-3, end=-1",
            "start=1, step=2", "step=2", "start=-2, size=1",
        ])  # fmt: skip
        v, d = self.new(), self.new("d")
        return self.line(f"{v}, {d} = rf.slice({x}, axis={axis}, {parts})", v, d)

    def shaped(self):
        x = self.pick(None)
        how = self.one_of("expand merge split_dims squeeze replace transpose stack unstack split pad shift".split())
        v, d = self.new(), self.new("d")
        if how == "expand":
            return self.line(
                f"{v} = rf.expand_dim({x}, {self.random.choice(['two', 'three', 'one', 'time', 'column'])})", v
            )
        if how == "merge":
            axes = self.axis(x, 2)
            return self.line(f"{v}, {d} = rf.merge_dims({x}, dims=[{', '.join(axes)}])", v, d)
        if how == "split_dims":
            dims = self.random.choice(["two, three", "three, two"])
            x = self.random.choice(["WIDE", "rf.gather(WIDE, indices=ids)"])
            return self.line(f"{v} = rf.split_dims({x}, axis=six, dims=[{dims}])", v)
        if how == "squeeze":
            x = self.pick(None, lambda value: one in value.dims or batch in value.dims)
            axis = "one" if one in self.scope[x].dims else "batch"
            return self.line(f"{v} = rf.squeeze({x}, axis={axis})", v)
        if how == "replace":
            (axis,) = self.axis(x)
            size = self.scope[axis]
            return self.line(f"{v}, {d} = rf.replace_dim({x}, in_dim={axis})", v, d) if size else None
        if how == "transpose":
            dims = [self.dim_name(dim) for dim in self.scope[x].dims]
            if len(dims) < 2 or None in dims:
                raise LookupError
            self.random.shuffle(dims)
            return self.line(f"{v} = {x}.copy_transpose([{', '.join(dims)}])", v)
        if how == "stack":
            y = self.pick(
                None, lambda value: {*value.dims} == {*self.scope[x].dims} and value.dtype == self.scope[x].dtype
            )
            return self.line(f"{v}, {d} = rf.stack([{x}, {y}])", v, d)
        if how == "unstack":
            axis = self.random.choice(["two", "three", "one"])
            x = self.pick(None, lambda value: self.scope[axis] in value.dims)
            return self.line(f"{v} = rf.unstack({x}, axis={axis})[-1]", v)
        if how == "split":
            x = self.pick(None, lambda value: feat in value.dims)
            w = self.new()
            return self.line(f"{v}, {w} = rf.split({x}, axis=feat, out_dims=[two, three])", v, w)
        (axis,) = self.axis(x)
        value = self.random.choice(["0", "1", "-2"])
        if how == "pad":
            padding = self.random.choice(["(1, 0)", "(0, 2)", "(1, 1)"])
            return self.line(f"{v}, ({d},) = rf.pad({x}, axes=[{axis}], padding=[{padding}], value={value})", v, d)
        way, amount = self.random.choice(["left", "right"]), self.random.choice([1, 2])
        return self.line(f"{v} = rf.shift_{way}({x}, axis={axis}, pad_value={value}, amount={amount})", v)

    def filled(self):
        x = self.pick(None) if "filled" in self.begun else "v0"
        dims = ", ".join(name for dim in self.scope[x].dims if (name := self.dim_name(dim)))
        dtype = self.random.choice(["'float32'", "'int32'", "'bool'"])
        code = self.one_of([
            f"rf.zeros_like({x})", f"rf.ones_like({x})", f"rf.zeros([{dims}], dtype={dtype})", f"rf.ones([{dims}], dtype={dtype})",
            f"rf.full(dims=[{dims}], fill_value={self.number()})", f"rf.full(dims=[{dims}], fill_value=3, dtype='int32')",
            "rf.range_over_dim(time)", "rf.range_over_dim(feat)", "rf.range_over_dim(time, dtype='float32')",
            f"rf.convert_to_tensor({self.number()})", f"rf.stop_gradient({x})", f"rf.identity({x})",
        ], "filled")  # fmt: skip
        return self.line(f"{(v := self.new())} = {code}", v)

    def cast(self):
        x = self.pick(None)
        dtype = self.random.choice(["float32", "int32", "int64", "bool", "float32"])
        margin = [f"{x} - rf.round({x})"] if "int" in dtype and self.scope[x].dtype.startswith("float") else []
        margin += [f"{x}"] if dtype == "bool" and self.scope[x].dtype != "bool" else []
        return self.line(f"{(v := self.new())} = rf.cast({x}, '{dtype}')", v, margins=margin)

    def chosen(self):
        cond, a = self.pick("b"), self.pick(self.random.choice("ffi"))
        b = self.pick(None, lambda value: value.dtype == self.scope[a].dtype)
        if self.random.random() < 0.3:
            b = str(self.number())
        more = ", allow_broadcast_all_sources=True" if self.random.random() < 0.7 else ""
        return self.line(f"{(v := self.new())} = rf.where({cond}, {a}, {b}{more})", v)

    def ordered(self):
        x = self.pick(None, lambda value: value.dims)
        (axis,) = self.axis(x)
        code = self.one_of([
            f"rf.cumsum({x}, spatial_dim={axis})", f"rf.reverse_sequence({x}, axis={axis})", f"rf.top_k({x}, axis={axis}, k_dim=two)[0]",
        ], "ordered")  # fmt: skip
        return self.line(f"{(v := self.new())} = {code}", v)

    def sparse(self):
        x = self.pick("i")
        return self.line(f"{(v := self.new())} = rf.set_sparse_dim({x} % 5, {self.random.choice(['feat', 'None'])})", v)

    def layer(self):
        x = self.pick("f", lambda value: feat in value.dims)
        y = self.pick("f", lambda value: other in value.dims)
        z = self.pick("f", lambda value: feat in value.dims)
        of = self.new()
        code = self.one_of([
            f"LINEAR({x})", f"BACK({y})", f"NORM({x})", f"RMS({x})", f"rf.concat_features({x}, {z})",
            "rf.dot_attention(rf.reduce_mean(v0, axis=time), v0, rf.tanh(v0) * 3, key_dim=feat, axis=time)",
            f"rf.dot_attention({x}, {x}, {z}, key_dim=feat, axis=time, causal_query_spatial_dim=time)",
            f"rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feat) + {x}",
            f"CELL({x}, state=CELL.default_initial_state(batch_dims=[batch]), spatial_dim=time)[0]",
        ], "layer")  # fmt: skip
        return self.line(f"{of} = {code}", of)

    # -- loops -------------------------------------------------------------------------------------------------------------

    def body(self, frames, states, kinds, count):
        """Lines of a step, of values that stand for what it gets."""
        own = Drawn(self.random.random())
        own.scope, own.values, own.dims, own.count = dict(self.scope), list(self.values), dict(self.dims), self.count
        own.lines = []
        own.scope |= frames | states
        own.values += [*frames, *states]
        before = {*own.values}
        for _ in range(count):
            own.draw(kinds)
        self.count = own.count
        return own, [name for name in own.values if name not in before]

    def loop(self):
        over_time = self.random.random() < 0.5
        recorded = self.random.random() < 0.3
        x = self.pick("f", lambda value: {*value.dims} >= {self.scope["time"], batch} and len(value.dims) < 5)
        at = self.pick("i", lambda value: {*value.dims} >= {self.scope["time"], batch} and len(value.dims) < 4)
        f, i, h, n = self.new("v"), self.new("v"), self.new("v"), self.new("v")
        frame = lambda name: rf.gather(self.scope[name], indices=0, axis=self.scope["time"])  # noqa: E731
        frames = (
            {f: frame(x), i: frame(at)} if over_time else {f: rf.reduce_sum(self.scope[x], axis=self.scope["time"])}
        )
        dims = [dim for dim in frames[f].dims if dim is not self.scope["time"]]
        start = self.random.choice(["zeros", "ones"])
        names = ", ".join(filter(None, map(self.dim_name, dims)))
        states = {h: getattr(rf, start)(dims), n: rf.zeros([batch], dtype="int32")}
        own, made = self.body(frames, states, STEP_KINDS, self.random.randint(2, 6))
        floats = [name for name in [*made, f] if own._fits(name, "f", lambda value: {*value.dims} <= {*dims})]
        wholes = [name for name in made if own._fits(name, "i", lambda value: {*value.dims} <= {batch})]
        bools = [name for name in made if own._fits(name, "b", None)]
        loop, axis = self.new("m"), self.new("d")
        end = ""
        if not over_time:
            cond = f"{n} >= {self.random.choice([1, 2, 4])}"
            if bools and self.random.random() < 0.7:
                b = self.random.choice(bools)
                axes = [own.dim_name(dim) for dim in own.scope[b].dims if dim is not batch]
                if None not in axes:
                    cond = (
                        f"rf.logical_or({cond}, rf.reduce_any({b}, axis=[{', '.join(axes)}]))"
                        if axes
                        else f"rf.logical_or({cond}, {b})"
                    )
            end = f"    {loop}.end({cond}, include_eos={self.random.random() < 0.5})\n"
        begin = f"axis=time, name='{loop}'" if over_time else f"max_seq_len=6, name='{loop}'"
        code = [
            f"{loop} = rf.Loop({begin})",
            f"{loop}.state.h = rf.{start}([{names}])",
            f"{loop}.state.n = rf.zeros([batch], dtype='int32')",
        ]
        code += [f"with {loop}:" if recorded else f"for _ in {loop}:"]
        code += (
            [f"    {f} = {loop}.unstack({x})", f"    {i} = {loop}.unstack({at})"]
            if over_time
            else [f"    {f} = rf.reduce_sum({x}, axis=time)"]
        )
        code += [f"    {h}, {n} = {loop}.state.h, {loop}.state.n"]
        code += ["    " + line.code for line in own.lines]
        new = self.random.choice(floats)
        code += [f"    {loop}.state.h = rf.combine_bc({h} * 0.5, '+', rf.tanh({new}))"]
        code += [
            f"    {loop}.state.n = {n} + "
            + (f"rf.cast({self.random.choice(wholes)} % 3, 'int32') + 1" if wholes and over_time else "1")
        ]
        outs = self.random.sample([*made, h], min(3, len(made) + 1))
        results = [self.new() for _ in outs]
        ways = [self.random.choice(["stack", "stack", "last"]) for _ in outs]
        if end:
            code.append(end.rstrip())
        code += [f"    {result} = {loop}.{way}({name})" for result, way, name in zip(results, ways, outs)]
        late = self.new()
        code += [f"{late} = {loop}.state.h", f"{axis} = {loop}.axis"]
        margins = [margin for line in own.lines for margin in line.margins]
        makes = (*results, late, axis)
        line = self.line("\n".join(code), *makes)
        return line._replace(margins=(f"stepped('''{_with_margins(code, margins)}''', locals())",)) if margins else line

    def search(self):
        r = self.random
        try:
            x = self.pick("f", lambda value: {*value.dims} == {batch, feat})
        except LookupError:
            x = f"rf.reduce_max({self.pick('f', lambda value: {*value.dims} == {batch, feat, self.scope['time']})}, axis=time)"
        loop, axis = self.new("m"), self.new("d")
        e, h, s, lab = (self.new() for _ in range(4))
        start = {e: rf.gather(CONSTANTS["EMBEDDING"], indices=rf.zeros([batch], dtype="int64", sparse_dim=classes)),
                 h: rf.zeros([batch, feat])}  # fmt: skip
        own, made = self.body(start, {}, STEP_KINDS, r.randint(0, 3))
        more = [name for name in made if own._fits(name, "f", lambda value: {*value.dims} <= {batch, feat})]
        kind = r.choice(["log_prob", "log_prob", "logits", "prob"])
        options = {"beam_size": r.choice([1, 2, 3, 4, 7]), "input_type": kind}
        if r.random() < 0.3:
            options |= {"length_normalization": True, "length_normalization_exponent": r.choice([1.0, 0.5, 2.0])}
        if r.random() < 0.2:
            options |= {"prob_scale": r.choice([0.5, 1.5]), "base_beam_score_scale": r.choice([1.0, 0.8])}
        if r.random() < 0.2:
            options["no_repeat_ngram"] = r.choice([1, 2, 3])
        if r.random() < 0.2:
            options["banned"] = r.choice([[1], [2, 5], [0]])
        if r.random() < 0.2:
            options["threshold"] = r.choice([1.0, 3.0])
        end_label = r.choice([0, 0, 3])
        if end_label:
            options["end_label"] = end_label
        gives = {
            "log_prob": "rf.log_softmax({}, axis=classes)",
            "logits": "{}",
            "prob": "rf.softmax({}, axis=classes)",
        }[kind]
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        most = r.choice(["5", "7", "2 * time.extent + 1"])
        code = [f"{loop} = rf.Loop(max_seq_len={most}, name='{loop}')",
                f"{loop}.state.label = rf.full(dims=[batch], fill_value={end_label}, dtype='int64', sparse_dim=classes)",
                f"{loop}.state.h = {x}", f"for _ in {loop}:", f"    {e} = rf.gather(EMBEDDING, indices={loop}.state.label)",
                f"    {h} = {loop}.state.h"]  # fmt: skip
        code += ["    " + line.code for line in own.lines]
        term = f" + 0.3 * rf.sin({r.choice(more)})" if more else ""
        code += [f"    {s} = rf.tanh({h} * 0.7 + {e}{term})",
                 f"    {lab} = rf.choice({gives.format(f'rf.matmul({s}, OUT, reduce=feat)')}, axis=classes, {given})"]  # fmt: skip
        post = []
        if r.random() < 0.5:
            post = [f"    {(p := self.new())} = {s} + rf.gather(EMBEDDING, indices={lab})", f"    {loop}.state.h = {p}"]
        else:
            post = [f"    {loop}.state.h = {s}"]
            p = s
        code += [
            *post,
            f"    {loop}.state.label = {lab}",
            f"    {loop}.end({lab} == {end_label}, include_eos={r.random() < 0.7})",
        ]
        labels, states, scores, late = (self.new() for _ in range(4))
        code += [f"    {labels} = {loop}.stack({lab})", f"    {states} = {loop}.{r.choice(['stack', 'stack', 'last'])}({p})",
                 f"{scores} = rf.get_beam_scores({labels})", f"{late} = {loop}.state.h", f"{axis} = {loop}.axis"]  # fmt: skip
        beam = self.new("d")
        code += [f"{beam} = next(dim for dim in {labels}.dims if dim not in (batch, {axis}))"]
        return self.line("\n".join(code), labels, states, scores, late, axis, beam)

    def stepping(self):
        """A search by a function of a step."""
        r = self.random
        x = self.pick("f", lambda value: {*value.dims} == {batch, feat, self.scope["time"]})
        options = {"beam_size": r.choice([1, 2, 3, 5]), "num_best": r.choice([1, 1, 2, 3]), "length_exponent": r.choice([0.0, 1.0, 0.5]),
                   "early_stopping": r.choice([True, False, "likely", "complete"])}  # fmt: skip
        if r.random() < 0.2:
            options["no_repeat_ngram"] = r.choice([1, 2])
        if r.random() < 0.2:
            options["banned"] = r.choice([[1], [2, 5]])
        if r.random() < 0.2:
            options["threshold"] = r.choice([1.0, 3.0])
        if r.random() < 0.2:
            options |= {"end_label": 3, "start_label": r.choice([0, 3])}
        given = ", ".join(f"{name}={value!r}" for name, value in options.items())
        step, out = self.new("m"), self.new("m")
        code = [f"def {step}(label, state):", "    state = rf.tanh(state * 0.7 + rf.gather(EMBEDDING, indices=label))",
                "    return rf.log_softmax(rf.matmul(state, OUT, reduce=feat), axis=classes), state",
                f"{out} = rf.beam_search({step}, batch=batch, state=rf.reduce_mean({x}, axis=time), max_seq_len={r.choice(['6', 'time.extent + 2'])}, axis=classes, {given})"]  # fmt: skip  # noqa: E501
        return self.line("\n".join(code), out)

    def aligned(self):
        r = self.random
        x = self.pick("f", lambda value: {*value.dims} == {batch, feat, self.scope["time"]})
        labels, scores, beam, axis = self.new(), self.new(), self.new("d"), self.new("d")
        normal = r.random() < 0.4
        logits = f"rf.matmul({x}, OUT, reduce=feat)"
        logits = f"rf.log_softmax({logits}, axis=classes)" if normal else logits
        given = f"blank_index={r.choice([0, -1, 3])}, beam_size={r.choice([1, 2, 4])}, logits_normalized={normal}, wb_target_dim=classes"
        return self.line(
            f"{labels}, {scores}, {beam}, {axis} = rf.ctc_prefix_beam_search({logits}, in_spatial_dim=time, {given})",
            labels, scores, beam, axis,
        )  # fmt: skip


def _is_number(text):
    return re.fullmatch(r"-?[\d.]+", text) is not None


def _is_tame(value, scores=False):
    array = value.numpy()
    if array.dtype.kind == "f":
        array = array[array != -np.inf] if scores else array
        return (
            bool(np.isfinite(array).all())
            and (not array.size or float(np.abs(array).max()) < FEW)
            and array.size < 5000
        )
    return array.size < 5000 and (array.dtype.kind == "b" or not array.size or int(np.abs(array).max()) < FEW)


def _with_margins(code, margins):
    """The loop, with what is near to 0 in each step noted."""
    at = next(number for number, line in enumerate(code) if line.startswith(("with ", "for ")))
    last = max(number for number, line in enumerate(code) if line.startswith("    "))
    head, body = code[:at], [line for line in code[at + 1 : last + 1] if line.startswith("    ")]
    loop = code[at].replace("with ", "for _ in ") if code[at].startswith("with ") else code[at]
    return "\n".join([*head, loop, *body, *(f"    noted_({margin})" for margin in margins)])


def stepped(code, scope):
    """The smallest margin of the steps of a loop."""
    found = [1.0]
    own = {**SCOPE, **scope, "noted_": lambda value: found.append(_least(value))}
    exec(code, own)
    return np.float64(min(found))


def _least(value):
    far = np.abs(value.numpy().astype(float)) if isinstance(value, rf.Tensor) else np.abs(np.asarray(value, float))
    far = far[far > 0]
    return float(far.min()) if far.size else 1.0


SCOPE["stepped"] = stepped
STEP_KINDS = [Drawn.one, Drawn.both, Drawn.both, Drawn.compared, Drawn.logical, Drawn.reduced, Drawn.soft, Drawn.gathered, Drawn.product,
              Drawn.joined, Drawn.sliced, Drawn.shaped, Drawn.filled, Drawn.cast, Drawn.chosen, Drawn.ordered, Drawn.sparse]  # fmt: skip
KINDS = [
    *STEP_KINDS,
    *STEP_KINDS,
    Drawn.layer,
    Drawn.layer,
    Drawn.layer,
    Drawn.loop,
    Drawn.loop,
    Drawn.search,
    Drawn.search,
    Drawn.stepping,
    Drawn.aligned,
]


def drawn(seed, count=11):
    """A program of at most `count` lines."""
    own = Drawn(seed)
    own.keep(own.line("v0 = rf.gather(ROWS, indices=ids)", "v0"))
    for kind in (
        Drawn.one,
        Drawn.both,
        Drawn.compared,
        Drawn.logical,
        Drawn.reduced,
        Drawn.shaped,
        Drawn.layer,
        *[None] * count,
    ):
        own.draw([kind] if kind else None)
    names = [name for line in own.lines for name in line.makes if name[0] != "d"]
    return Program(tuple(own.lines), tuple(names))


# -- what a page says of them ----------------------------------------------------------------------------------------------


def differs(program, exported, text, answer, shapes):
    """The first value that a page has otherwise: (name, in words); None if there is none. Raises what Python raises for the text.

    Args:
        shapes: By name, how many dims the values have for the text of the program: a frame of one may be named as its sequence.
    """
    scope = program.run(text)
    if "error" in answer:
        return "", answer["error"]
    unsure = program.unsure(scope)
    loops = [line.makes[0] for line in program.lines if "rf.Loop(" in line.code or "rf.beam_search(" in line.code]
    arrays = iter(answer["values"])
    largest = 1.0
    for name in program.gives:
        own = scope[name]
        if not isinstance(own, rf.Tensor):
            words = _other_list(answer["nbest"][loops.index(name)], own.history.nbest(0))
        else:
            given, array = next(arrays), own.numpy().astype(float)
            largest = max(largest, np.abs(array[np.isfinite(array)]).max(initial=0))
            if len(own.dims) != shapes[name]:
                continue
            words = _other_array(exported, given, own, 1e-4 * min(largest, 1e3))
        if words and name not in unsure:
            return name, words
    return None


def _other_list(found, wanted):
    """How n-best lists differ, best first."""
    found = [each for each in found if each["score"] is not None]  # JSON has no infinity
    got = [(len(each["labels"]), each["ended"]) for each in found]
    own = [(len(each.tokens) - each.ended, each.ended) for each in wanted]
    labels = [([int(label) for label in each.tokens[: len(each.tokens) - each.ended]]) for each in wanted]
    scores = [[each["score"] for each in found], [each.score for each in wanted]]
    same = [each["labels"][: len(of)] for each, of in zip(found, labels)] == labels
    if same and len(got) == len(own) and np.allclose(*scores, atol=1e-4):
        return ""
    return f"{found} for {list(zip(labels, scores[1]))}"


def _other_array(exported, given, own, atol):
    """How a value differs, along its real frames."""
    got = np.array([float(each.replace("Infinity", "inf")) for each in given["values"]]).reshape(given["shape"])
    names = [exported.spec["dims"][at]["name"] if isinstance(at, int) else at for at in given["dims"]]
    wanted, axes = own.numpy().astype(float), ["beam" if is_beam(dim) else dim.name or "" for dim in own.dims]
    if "beam" in axes and "beam" not in names:  # it is the same for all hypotheses
        got, names = np.broadcast_to(got[..., None], (*got.shape, wanted.shape[axes.index("beam")])), [*names, "beam"]
    words = f"axes {names} for {axes}"
    for order in permutations(range(len(names))):
        turned = got.transpose(order)
        is_named = [names[at] for at in order] == axes or sorted(names) != sorted(axes)  # lengths may be part of a name
        if not is_named or turned.shape != wanted.shape:
            continue
        wrong = ~np.isclose(turned, wanted, rtol=1e-4, atol=atol, equal_nan=True) & _real(own)
        if not wrong.any():
            return ""
        words = f"{turned[wrong][:4]} for {wanted[wrong][:4]} at {np.argwhere(wrong)[:3].tolist()} of {axes}"
    return words


def _real(value):
    """Where a value has no padding; nowhere if that cannot be told."""
    found = np.ones([dim.extent for dim in value.dims], bool)
    for dim in value.dims:
        if not dim.need_masking():
            continue
        mask = rf.sequence_mask([dim])
        if any(each not in value.dims for each in mask.dims):
            return found & False
        order = np.argsort([value.dims.index(each) for each in mask.dims])
        shape = [each.extent if each in mask.dims else 1 for each in value.dims]
        found &= mask.numpy().transpose(order).reshape(shape)
    return found
