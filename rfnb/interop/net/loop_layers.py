"""Layers that belong to loops: rec, what reads from a loop, choices, and the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.core.errors import DimError, message
from rfnb.core.tensor import Tensor, shape_of
from rfnb.interop.net.dims import axis_of, marked
from rfnb.interop.net.layer import Layer, layer_class
from rfnb.interop.net.loop import StepNetworkLayer
from rfnb.interop.net.scope import Scope
from rfnb.interop.net.step_scope import BodyScope
from rfnb.interop.net.unit_layers import UnitLayer
from rfnb.search.decide import decide


@layer_class("rec_last_output")
class RecLastOutputLayer(Layer):
    """The last real frame of a value of a loop body, which has `need_last`."""

    options = ("sub_layer_name",)
    references = ("rec_layer",)
    needs_source = False

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        rec, name = self.opts["rec_layer"], self.opts["sub_layer_name"]
        env.get(rec)
        layer, scope = env.layer_of(rec)
        found = scope.last.get((layer.name, name))
        if found is None:
            kept = [part for of, part in scope.last if of == layer.name]
            raise ValueError(
                message(f'{self.what}: the last frame of "{rec}/{name}" is not kept.', [("kept", ", ".join(kept) or "none")],
                        "A loop keeps the last frame of what needs it.", f'"{name}": {{..., "need_last": True}}')
            )  # fmt: skip
        return found


@layer_class("get_rec_accumulated")
class GetRecAccumulatedOutputLayer(Layer):
    """The value "sub_layer" of a loop body, of all steps: as from "layer/sub_layer"."""

    options = ("sub_layer",)

    def refs(self, search: bool) -> list[str]:
        return [f"{self.sources[0]}/{self.opts['sub_layer']}"]

    def template(self, env: Scope) -> Tensor:
        return self.compute(env, [])

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        return env.get(f"{self.sources[0]}/{self.opts['sub_layer']}")


@layer_class("rec_unstack")
class RecUnstackLayer(Layer):
    """The frame of this step of a layer outside of the loop."""

    options = ("axis", "declare_rec_time")

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x = self.concatenated(sources, env)
        if not isinstance(env, BodyScope):
            raise ValueError(
                message(f"{self.what}: outside of a loop.", [("source", shape_of(x))], "It gives the frame of a step.")
            )
        given = self.opts.get("axis")
        axis = env.axis if given is None else axis_of(x, given, env.dims, self.what)
        if axis is None:
            raise ValueError(
                message(
                    f"{self.what}: the dim of the loop is not known.",
                    [("source", shape_of(x)), ("axis", "none")],
                    "A loop without a dim takes that of an unstack which declares it.",
                    f'"{self.name}": {{..., "axis": time, "declare_rec_time": True}}',
                )
            )
        if axis is not env.axis:
            raise DimError(
                message(
                    f"{self.what}: another dim than that of the loop.",
                    [
                        ("axis", axis.short_repr()),
                        ("loop", env.axis.short_repr() if env.axis else "not known before it is done"),
                    ],
                    "All inputs of a loop share its dim.",
                )
            )
        if axis not in x.dims:
            x = env.aligned(self.sources[0], x)
            if axis not in x.dims:
                raise DimError(
                    message(
                        f"{self.what}: the source has no {axis.short_repr()}.",
                        [("source", shape_of(x))],
                        "It has the dim of the loop.",
                    )
                )
        out = env.frame(x)
        if x.sparse_dim is not None:
            out.sparse_dim = x.sparse_dim
        return marked(out, x.feature_dim)


@layer_class("rec_step_info")
class RecStepInfoLayer(Layer):
    """The index of the step, as ":i"."""

    needs_source = False

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        return env.step_index()


_CHOICE = ("beam_size", "keep_beams", "search", "add_to_beam_scores", "input_type", "prob_scale", "base_beam_score_scale",
           "random_sample_scale", "length_normalization", "length_normalization_exponent", "custom_score_combine", "source_beam_sizes",
           "scheduled_sampling", "cheating", "explicit_search_sources", "explicit_search_source")  # fmt: skip
_INPUT_TYPES = ("prob", "logits", "log_prob", "regression")


@layer_class("choice")
class ChoiceLayer(Layer):
    """The labels of the target; in a search, those of the hypotheses that go on."""

    options = _CHOICE
    own_feature = False

    def __init__(self, name: str, path: str, opts: Mapping[str, Any]):
        super().__init__(name, path, opts)
        target = opts.get("target")
        self.targets: list[Any] = list(target) if isinstance(target, (list, tuple)) else [target]
        kind = opts.get("input_type", "prob")
        if kind not in _INPUT_TYPES:
            raise ValueError(
                message(
                    f"{self.what}: unknown input_type.",
                    [("input_type", repr(kind)), ("known", ", ".join(_INPUT_TYPES))],
                    "It says what the scores are.",
                )
            )
        if opts.get("cheating", False) not in (False, True, None, "exclusive"):
            raise ValueError(
                message(
                    f"{self.what}: unknown cheating.",
                    [("cheating", repr(opts["cheating"])), ("known", 'False, True, "exclusive"')],
                    "It puts the target into the beam.",
                )
            )
        if kind == "regression" and opts.get("beam_size", 1) != 1:
            raise ValueError(
                message(
                    f"{self.what}: regression with a beam.",
                    [("beam_size", opts["beam_size"])],
                    "There are no labels to choose from.",
                    '"beam_size": 1',
                )
            )
        if len(self.sources) > 1 and len(self.targets) != len(self.sources):
            raise ValueError(
                message(
                    f"{self.what}: {len(self.sources)} sources, {len(self.targets)} targets.",
                    [("from", ", ".join(self.sources)), ("target", repr(target))],
                    "Each source has a target.",
                )
            )

    def searches(self, search: bool) -> bool:
        """Whether it makes a choice in such a call."""
        return search and self.opts.get("search", True) is not False

    def refs(self, search: bool) -> list[str]:
        if self.searches(search) or self.opts.get("input_type") == "regression":
            return super().refs(search)
        initial = self.opts.get("initial_output")
        return [initial] if isinstance(initial, str) and ":" in initial else []

    def reads(self, env: Scope) -> list[str]:
        return self.sources if self.searches(env.call.search) else []

    def template(self, env: Scope) -> Tensor:
        if self.searches(env.call.search):
            return super().template(env)
        return self._targets(env)

    def _targets(self, env: Scope) -> Tensor:
        if self.opts.get("input_type") == "regression":
            return env.get(self.sources[0])
        found = []
        for target in self.targets:
            if not target:
                raise ValueError(
                    message(f"{self.what}: no target.", [("target", repr(self.opts.get("target"))), ("search", False)],
                            "Outside of a search a choice gives the reference labels.", f'"{self.name}": {{..., "target": "classes"}}')
                )  # fmt: skip
            found.append(env.target(target))
        for index, labels in enumerate(found):
            env.parts[self.name, f"out_{index}"] = labels
        return found[0]

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        if self.searches(env.call.search):
            raise NotImplementedError(
                message(
                    f"{self.what}: a search.",
                    [("search", True)],
                    "A network in the dict notation runs without a search so far.",
                    "net(data, search=False)",
                )
            )
        return self._targets(env)


@layer_class("decide")
class DecideLayer(Layer):
    """The best hypothesis; without a beam its source."""

    options = ("length_normalization", "search_choices")

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        x = self.concatenated(sources, env)
        return decide(x) if any(dim.kind == "beam" for dim in x.dims) else x


class _BeamReader(Layer):
    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        raise ValueError(
            message(
                f"{self.what}: no search choices.",
                [("from", ", ".join(self.sources))],
                "Only what comes from the choices of a search has a beam.",
                "net(data, search=True)",
            )
        )


@layer_class("choice_get_beam_scores")
class ChoiceGetBeamScoresLayer(_BeamReader):
    """The scores of the hypotheses of a search."""


@layer_class("choice_get_src_beams")
class ChoiceGetSrcBeamsLayer(_BeamReader):
    """The parents of the hypotheses of a search."""


@layer_class("split_batch_beam")
class SplitBatchBeamLayer(_BeamReader):
    """The hypotheses of a search as a dim of their own."""

    options = ("beam_dim",)


@layer_class("decide_keep_beam")
class DecideKeepBeamLayer(Layer):
    """Its source, not traced back in a search."""

    options = ("search_choices",)

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        return self.concatenated(sources, env)


def _rec(name: str, path: str, opts: Mapping[str, Any]) -> Layer:
    unit = opts.get("unit", "lstm")
    if isinstance(unit, Mapping):
        return StepNetworkLayer(name, path, opts)
    return UnitLayer(name, path, opts)


layer_class("rec")(_rec)
