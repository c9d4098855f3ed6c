"""Layers for choices and for reading a search: choice, decide, scores, parents and beams."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.interop.net.call_dims import frame_dims, marked
from rfnb.interop.net.feature_layers import LinearLayer
from rfnb.interop.net.layer import Layer, Unknown, computes, layer_class
from rfnb.interop.net.scope import Scope
from rfnb.ops.cast import cast
from rfnb.ops.const import zeros
from rfnb.ops.dims import replace_dim
from rfnb.ops.math import log, maximum
from rfnb.ops.softmax import log_softmax
from rfnb.search.choice import choice
from rfnb.search.decide import decide, decide_keep_beam, get_beam_scores, get_src_beams, split_batch_beam
from rfnb.search.search_state import beam_dim_of

_PASSED_ON = ("prob_scale", "base_beam_score_scale", "random_sample_scale", "length_normalization", "length_normalization_exponent",
              "keep_beams", "cheating", "source_beam_sizes", "custom_score_combine")  # fmt: skip
_CHOICE = ("beam_size", "keep_beams", "search", "add_to_beam_scores", "input_type", "prob_scale", "base_beam_score_scale",
           "random_sample_scale", "length_normalization", "length_normalization_exponent", "custom_score_combine", "source_beam_sizes",
           "scheduled_sampling", "cheating", "explicit_search_sources", "explicit_search_source")  # fmt: skip
_INPUT_TYPES = ("prob", "logits", "log_prob", "regression")


@layer_class("choice")
class ChoiceLayer(Layer):
    """The labels of the target; in a search, those of the surviving hypotheses."""

    options = _CHOICE
    own_feature = False

    def begin(self) -> None:
        target = self.opts.get("target")
        self.targets: list[Any] = list(target) if isinstance(target, (list, tuple)) else [target]
        kind = self.opts.get("input_type", "prob")
        if kind not in _INPUT_TYPES:
            raise value_error(
                f"{self.what}: unknown input_type.",
                {"input_type": repr(kind), "known": ", ".join(_INPUT_TYPES)},
                "input_type states the kind of the scores.",
            )
        if self.opts.get("cheating", False) not in (False, True, None, "exclusive"):
            raise value_error(
                f"{self.what}: unknown value of cheating.",
                {"cheating": repr(self.opts["cheating"]), "known": 'False, True, "exclusive"'},
                "cheating adds the target to the beam.",
            )
        if self.opts.get("cheating") and (len(self.sources) != 1 or self.targets[0] is None):
            raise value_error(
                f"{self.what}: cheating without a target.",
                {"from": ", ".join(self.sources), "target": repr(target)},
                "cheating adds the labels of the target to the beam, and needs a single source.",
                f'"{self.name}": {{..., "target": "classes"}}',
            )
        if kind == "regression" and self.opts.get("beam_size", 1) != 1:
            raise value_error(
                f"{self.what}: regression with a beam.",
                {"beam_size": self.opts["beam_size"]},
                "There are no labels to choose from.",
                '"beam_size": 1',
            )
        if len(self.sources) > 1 and len(self.targets) != len(self.sources):
            raise value_error(
                f"{self.what}: {len(self.sources)} sources, {len(self.targets)} targets.",
                {"from": ", ".join(self.sources), "target": repr(target)},
                "Each source needs one target.",
            )

    @property
    def _regresses(self) -> bool:
        """Whether its values are not labels."""
        return self.opts.get("input_type") == "regression"

    def searches(self, search: bool) -> bool:
        """Whether it makes a choice in such a call."""
        given = self.opts.get("search")
        if self._regresses:
            return False
        return search if given is None else bool(given)

    def refs(self, search: bool) -> list[str]:
        if self._uses_scores(search):
            return super().refs(search)
        initial = self.opts.get("initial_output")
        return [initial] if isinstance(initial, str) and ":" in initial else []

    def reads(self, env: Scope) -> list[str]:
        return self.sources if self._uses_scores(env.call.search) else []

    def _uses_scores(self, search: bool) -> bool:
        if self.searches(search):
            return True
        if not search:
            return bool(self.opts.get("scheduled_sampling")) or (self._regresses and not self.targets[0])
        return self._regresses or self.opts.get("add_to_beam_scores", True) is not False

    def infer(self, env: Scope, sources: list[Tensor]) -> Tensor:
        if self._regresses and self._uses_scores(env.call.search):
            return sources[0]
        if not self.searches(env.call.search):
            return self._targets(env)
        found = [self._labels_over(env, place, x) for place, x in enumerate(sources)]
        self._keep_parts(env, found)
        return found[0]

    def _labels(self, env: Scope, place: int, scores: Tensor) -> Dim | None:
        """The dim of the labels of a source: that of the target, for the label names; else the features of the scores.

        Raises:
            ValueError: If the number of scores differs from the number of labels.
        """
        target = self.targets[place] if place < len(self.targets) else None
        labels, feature = env.call.keys.get(target) if isinstance(target, str) else None, scores.feature_dim
        if labels is None or feature is None or labels in scores.dims:
            return feature
        if labels.extent != feature.extent:
            raise value_error(
                f"{self.what}: the labels of the scores differ from those of the target.",
                {
                    "from": f"{self.sources[place]}  {shape_of(scores)}",
                    "target": f"{target}  {labels.short_repr()}",
                },
                "The scores need one entry per label of the target.",
                f'"{self.sources[place]}": {{..., "n_out": {labels.extent}}}',
            )
        return labels

    def partial(self, env: Scope, known: list[Tensor]) -> Tensor:
        raise Unknown(self.path)

    def _labels_over(self, env: Scope, place: int, scores: Tensor) -> Tensor:
        """A template of labels, from that of their scores."""
        return zeros(frame_dims(scores), dtype="int32", sparse_dim=self._labels(env, place, scores))

    def _keep_parts(self, env: Scope, found: list[Tensor]) -> None:
        for index, labels in enumerate(found):
            env.parts[self.name, f"out_{index}"] = labels

    def _targets(self, env: Scope) -> Tensor:
        found = []
        for target in self.targets:
            if not target:
                raise value_error(
                    f"{self.what}: target is missing.",
                    {"target": repr(self.opts.get("target")), "search": False},
                    "Outside a search, a choice returns the labels of the target.",
                    f'"{self.name}": {{..., "target": "classes"}}',
                )
            found.append(env.target(target))
        self._keep_parts(env, found)
        return found[0]

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        if env.dry:
            return self.infer(env, sources)
        if self._regresses and (env.call.search or not self.targets[0]):
            return sources[0]
        if self.opts.get("scheduled_sampling") and not env.call.search:
            options = {"scheduled_sampling": self.opts["scheduled_sampling"], "target": env.target(self.targets[0])}
            return self._chosen(env, sources, search=False, **options)
        if not self.searches(env.call.search):
            return self._with_scores(env, sources) if env.call.search else self._targets(env)
        if self.opts.get("beam_size") is None:
            raise value_error(
                f"{self.what}: beam_size is missing.",
                {"search": True},
                "beam_size is the number of hypotheses that a search keeps.",
                f'"{self.name}": {{..., "beam_size": 12}}',
            )
        options = {name: self.opts[name] for name in _PASSED_ON if self.opts.get(name) is not None}
        options.setdefault("length_normalization", True)
        if "custom_score_combine" in options:
            options["custom_score_combine"] = self._combine
        if self.opts.get("cheating"):
            options["target"] = env.target(self.targets[0])
        return self._chosen(env, sources, search=True, beam_size=self.opts["beam_size"], **options)

    def _combine(self, *, scores_in: Tensor, end_flags: Tensor | None, **values: Any) -> Tensor:
        """Call the function in the option as documented: with the layer, and always with end flags."""
        if end_flags is None:
            dims = [dim for dim in scores_in.dims if dim.kind in ("batch", "beam")]
            end_flags = zeros(dims, dtype="bool", device=scores_in.device)
        return self.opts["custom_score_combine"](layer=self, scores_in=scores_in, end_flags=end_flags, **values)

    def _with_scores(self, env: Scope, sources: list[Tensor]) -> Tensor:
        """The labels of the target in a search: every hypothesis continues with them."""
        labels = self._targets(env)
        if not self.opts.get("add_to_beam_scores", True):
            return labels
        names = (
            "prob_scale",
            "base_beam_score_scale",
            "random_sample_scale",
            "length_normalization",
            "custom_score_combine",
        )
        given = {name: self.opts[name] for name in names if self.opts.get(name) is not None}
        return self._chosen(env, sources, search=False, target=labels, add_to_beam_scores=True, **given)

    def _chosen(self, env: Scope, sources: list[Tensor], **options: Any) -> Tensor:
        """The result of rf.choice on log probabilities."""
        if self._regresses:
            out: Any = choice(sources[0], input_type="regression", beam_size=1, **options)
        else:
            scores: Any = [self._log_prob(env, ref, x) for ref, x in zip(self.sources, sources, strict=True)]
            axes: Any = [self._labels(env, place, x) for place, x in enumerate(scores)]
            scores = [
                x if axis is x.feature_dim else replace_dim(x, in_dim=x.feature_dim, out_dim=axis)[0]
                for x, axis in zip(scores, axes, strict=True)
            ]
            if len(scores) == 1:
                scores, axes = scores[0], axes[0]
            # Documented: unchanged. Sums with a model over subwords may increase.
            if self.opts.get("input_type") == "log_prob":
                options["input_type"] = "score"
            out = choice(scores, axis=axes, name=self.path, **options)
        env.chosen()
        found = [x if x.sparse_dim is None else cast(x, "int32") for x in (out if isinstance(out, tuple) else (out,))]
        self._keep_parts(env, found)
        return found[0]

    def _log_prob(self, env: Scope, ref: str, x: Tensor) -> Tensor:
        kind, feature = self.opts.get("input_type", "prob"), x.feature_dim
        if feature is None:
            raise value_error(
                f"{self.what}: the scores have no label dim.",
                {"from": ref, "scores": x},
                "The scores need one entry per label.",
            )
        if kind == "log_prob":
            return x
        if kind == "logits":
            return marked(log_softmax(x, axis=feature), feature)
        layer = env.layers.by_name.get(ref)
        found = layer.log_probabilities(env) if isinstance(layer, LinearLayer) else None
        return marked(log(maximum(x, 1e-20)), feature) if found is None else found


@computes("decide", options=("length_normalization", "search_choices"))
def decide_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The best hypothesis; the source itself without a beam."""
    x = layer.concatenated(sources, env)
    return decide(x, length_normalization=bool(layer.opts.get("length_normalization")))


def _with_beam(layer: Layer, env: Scope, sources: list[Tensor]) -> tuple[Tensor, bool]:
    """The source of a layer that reads a search, and whether it has a beam; it has none where only its dims are needed."""
    x = layer.concatenated(sources, env)
    if env.dry and (env.call.search or _searched(env)):
        return x, False
    if beam_dim_of(x) is not None:
        return x, True
    if env.call.search and any(dim.extent == 0 for dim in x.dims):  # a loop without steps
        return x, False
    raise value_error(
        f"{layer.what}: there are no search choices.",
        {"from": ", ".join(layer.sources)},
        "Only values that depend on choices of a search have a beam.",
        "net(data, search=True)",
    )


def _searched(env: Scope) -> bool:
    """Whether a choice of the network searches in every call."""
    scope: Scope | None = env
    while scope is not None:
        if any(layer.opts.get("search") and layer.kind == "choice" for layer in scope.layers.all_layers()):
            return True
        scope = scope.parent
    return False


def _of_batch(x: Tensor, dtype: str) -> Tensor:
    return zeros([dim for dim in x.dims if dim.is_batch_dim()], dtype=dtype)


@computes("choice_get_beam_scores")
def choice_get_beam_scores_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The scores of the hypotheses of a search."""
    x, has_beam = _with_beam(layer, env, sources)
    return get_beam_scores(x) if has_beam else _of_batch(x, "float32")


@computes("choice_get_src_beams")
def choice_get_src_beams_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The parents of the hypotheses of a search."""
    x, has_beam = _with_beam(layer, env, sources)
    return cast(get_src_beams(x), "int32") if has_beam else _of_batch(x, "int32")


@computes("split_batch_beam", options=("beam_dim",))
def split_batch_beam_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The hypotheses of a search as a separate dim."""
    x, has_beam = _with_beam(layer, env, sources)
    return split_batch_beam(x, beam_dim=layer.opts.get("beam_dim")) if has_beam else x


@computes("decide_keep_beam", options=("search_choices",))
def decide_keep_beam_layer(layer: Layer, env: Scope, sources: list[Tensor]) -> Tensor:
    """The source, without backtracking, in a search."""
    return decide_keep_beam(layer.concatenated(sources, env))
