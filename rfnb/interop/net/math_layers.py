"""Elementwise layers: combine, compare, eval, switch."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import common_feature, marked, same_static_dims, with_feature
from rfnb.interop.net.layer import Layer, Unknown, layer_class
from rfnb.interop.net.named_functions import COMPARISONS, FUNCTIONS, activation, compare, either
from rfnb.interop.net.safe_eval import evaluate, shown
from rfnb.interop.net.scope import Scope
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.cast import cast
from rfnb.ops.const import zeros
from rfnb.ops.where import where

_KINDS = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "truediv", "div": "truediv", "floordiv": "floordiv", "mod": "mod",
          "pow": "pow", "maximum": "maximum", "max": "maximum", "minimum": "minimum", "min": "minimum", "logical_and": "logical_and",
          "logical_or": "logical_or", "squared_difference": "squared_difference"}  # fmt: skip


def _unknown_kind(layer: Layer, given: Any, known: Any) -> ValueError:
    near = difflib.get_close_matches(str(given), known, n=3) or sorted(known)
    return value_error(
        f"{layer.what}: unknown kind.",
        {"kind": repr(given), "known": ", ".join(near)},
        "kind determines how the sources are combined.",
    )


class _OfAll(Layer):
    """The base of elementwise layers over all sources."""

    elementwise = True

    def together(self, env: Scope, sources: list[Tensor]) -> tuple[list[Tensor], Dim | None]:
        """The sources with a common feature dim."""
        if not sources:
            self.concatenated(sources, env)  # raises if there is no source
        return common_feature(same_static_dims(sources, env.dims, self.what), self.what, self.out_dim)

    def finished(self, out: Tensor, feature: Dim | None) -> Tensor:
        """The result with its own feature dim, if any."""
        out = marked(out, feature)
        if self.out_dim is not None and feature is not None and feature.size == self.out_dim.size:
            out = with_feature(out, self.out_dim, self.what)
        return out


@layer_class("combine")
class CombineLayer(_OfAll):
    """The sum, product, ... of the sources."""

    options = ("kind", "activation", "with_bias", "eval", "eval_locals", "eval_for_output_loss", "allow_broadcast_all_sources",
               "auto_convert")  # fmt: skip

    def begin(self) -> None:
        self.combination = self.opts.get("kind")
        if self.combination not in (*_KINDS, "average", "eval"):
            raise _unknown_kind(self, self.combination, [*_KINDS, "average", "eval"])
        self.activation = activation(self.opts.get("activation"), self.what)

    def make(self, env: Scope, sources: list[Tensor]) -> None:
        if self.opts.get("with_bias"):
            feature = self.together(env, sources)[1]
            assert feature is not None
            self.b = Parameter((feature,))

    def infer(self, env: Scope, sources: list[Tensor]) -> Tensor:
        return self._combined(env, sources)

    def _combined(self, env: Scope, sources: list[Tensor]) -> Tensor:
        values, feature = self.together(env, sources)
        if self.combination == "eval":
            out = _evaluated(self, values)
        elif self.combination == "average":
            out = functools.reduce(either("add"), values) / float(len(values))
        else:
            out = functools.reduce(either(_KINDS[str(self.combination)]), values)
        return self.finished(out, feature)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        out = self._combined(env, sources)
        feature = out.feature_dim
        bias: Tensor | None = getattr(self, "b", None)
        if bias is not None and feature is not None:
            out = out + with_feature(marked(bias + 0, bias.dims[0]), feature, self.what)
        return marked(self.activation(marked(out, feature)), feature)


@layer_class("compare")
class CompareLayer(_OfAll):
    """The truth of a comparison, bool: of two sources, or of one and `value`; with more, between all neighbours."""

    options = ("kind", "value", "allow_broadcast_all_sources")

    def begin(self) -> None:
        if self.opts.get("kind", "equal") not in COMPARISONS:
            raise _unknown_kind(self, self.opts.get("kind"), COMPARISONS)

    def partial(self, env: Scope, known: list[Tensor]) -> Tensor:
        return cast(super().partial(env, known), "bool")

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        kind, value = self.opts.get("kind", "equal"), self.opts.get("value")
        values, feature = self.together(env, sources)
        if value is not None:
            values = [*values, value]
        if len(values) < 2:
            raise value_error(
                f"{self.what}: the second operand is missing.",
                {"from": ", ".join(self.sources), "value": None},
                "The layer compares two sources, or one source with a number.",
                f'"{self.name}": {{..., "value": 0}}',
            )
        found = [compare(a, kind, b) for a, b in zip(values, values[1:], strict=False)]
        out = functools.reduce(either("logical_and"), found)
        out.sparse_dim = None
        return marked(out, feature)


_IGNORED = ("auto_convert", "enforce_batch_major", "enforce_time_major", "as_data", "auto_squeeze")


def _evaluated(layer: Layer, values: list[Tensor]) -> Tensor:
    def source(index: int, **options: Any) -> Tensor:
        unknown = [name for name in options if name not in _IGNORED]
        if unknown or not isinstance(index, int) or not -len(values) <= index < len(values):
            raise value_error(
                f"{layer.what}: there is no source({index}{', ...' if options else ''}).",
                {"text": repr(layer.opts.get("eval")), "from": ", ".join(layer.sources)},
                "source(i) is the source with index i, counted from 0.",
            )
        return values[index]

    text = layer.opts.get("eval")
    if not isinstance(text, str):
        raise value_error(
            f"{layer.what}: eval is not a string.",
            {"eval": repr(text)},
            "eval is an expression of the sources.",
            '"eval": "2 * source(0)"',
        )
    names = {"source": source, "tf": FUNCTIONS, "math": FUNCTIONS, **(layer.opts.get("eval_locals") or {})}
    out = evaluate(text, names=names, what=layer.what, compare=compare)
    if not isinstance(out, Tensor):
        if not isinstance(out, (int, float)):
            raise value_error(
                f"{layer.what}: the result of the expression is neither a number nor a tensor.",
                {"text": shown(text), "value": f"of type {type(out).__name__}"},
                "eval is an expression of the sources.",
                '"eval": "2 * source(0)"',
            )
        out = zeros(()) + out
    return out


@layer_class("eval")
class EvalLayer(_OfAll):
    """An expression of the sources, as text. It is parsed, never executed."""

    options = ("eval", "eval_locals", "out_type", "kind", "with_bias", "activation")

    def partial(self, env: Scope, known: list[Tensor]) -> Tensor:
        kind = self.opts.get("out_type")
        if isinstance(kind, Mapping) and not known:
            if not env.guess:
                raise Unknown(self.path)
            shape = kind.get("shape")
            inner = [self._own(size) for size in shape or () if size is not None]
            if shape is None and kind.get("dim"):
                inner = [self._own(kind["dim"])]
            sparse = kind.get("sparse_dim")
            return zeros(
                [*env.batch_dims(), *inner],
                dtype=kind.get("dtype", "float32"),
                sparse_dim=sparse,
                feature_dim=inner[-1] if inner else None,
            )
        out = super().partial(env, known)
        return self._typed(out)

    def _own(self, size: int) -> Dim:
        if self.out_dim is None or self.out_dim.size != size:
            self.out_dim = Dim(size, name=f"{self.name}:feature", kind="feature")
        return self.out_dim

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        values, feature = self.together(env, sources)
        out = marked(_evaluated(self, values), feature)
        return self._typed(self.finished(activation(self.opts.get("activation"), self.what)(out), feature))

    def _typed(self, out: Tensor) -> Tensor:
        kind = self.opts.get("out_type")
        if isinstance(kind, Mapping):
            feature = out.feature_dim
            if kind.get("dtype") and out.dtype != kind["dtype"]:
                out = cast(out, kind["dtype"])
            if "sparse_dim" in kind:
                out.sparse_dim = kind["sparse_dim"]
            elif kind.get("sparse") is False:
                out.sparse_dim = None
            if feature is not None:
                marked(out, feature)
        if out.sparse_dim is not None and not out.dtype.startswith(("int", "uint")):
            out.sparse_dim = None
        return out


@layer_class("switch", "where")
class SwitchLayer(_OfAll):
    """true_from where the condition is true, else false_from. Both are layers or numbers."""

    required = ("condition", "true_from", "false_from")
    references = ("condition", "true_from", "false_from")
    needs_source = False

    def _branches(self) -> list[Any]:
        return [self.opts.get("true_from"), self.opts.get("false_from")]

    def template(self, env: Scope) -> Tensor:
        known, missing = [], False
        for ref in (self.opts["condition"], *self._branches()):
            if not isinstance(ref, str):
                continue
            try:
                known.append(env.get(ref))
            except Unknown:
                missing = True
        if not missing:
            return self.infer(env, [])
        values = [x for x in known if x.dtype != "bool"]
        return self._over_sources(env, known, dtype=values[0].dtype if values else None)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        condition = env.get(self.opts["condition"])
        branches = [env.get(ref) for ref in self._branches()]
        tensors, feature = self.together(env, [x for x in (condition, *branches) if isinstance(x, Tensor)])
        left = iter(tensors)
        condition = next(left)
        true, false = (next(left) if isinstance(x, Tensor) else x for x in branches)
        out = where(condition, true, false, allow_broadcast_all_sources=True)
        labels = next((x.sparse_dim for x in tensors[1:] if x.sparse_dim is not None), None)
        if labels is not None:
            out.sparse_dim = labels
        return marked(out, feature)
