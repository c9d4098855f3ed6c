"""Name resolution in the body of a loop: during the inference of its dims, and in its steps."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import marked, same_lengths, time_dim
from rfnb.interop.net.layer import Layer, LayerDict, Unknown, owner_in
from rfnb.interop.net.scope import Scope, frame_zeros, lengths_text, plain_index
from rfnb.ops.const import zeros
from rfnb.ops.dims import replace_dim
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import combine_bc
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.rec.selections import bring

_PASSES = 12
_BEAM_READERS = ("choice_get_beam_scores", "choice_get_src_beams", "decide_keep_beam", "split_batch_beam")


class BodyScope(Scope):
    """The scope of a loop body; the base of templates and steps.

    Attributes:
        source: The input of the loop, with all frames, or None.
        axis: The dim of the loop; None if its length is only known at the end.
    """

    in_loop = True

    def __init__(
        self, layers: LayerDict, parent: Scope, *, source: Tensor | None, axis: Dim | None, name: str, dry: bool = False
    ):
        super().__init__(layers, parent.call, parent.dims.of_loop(axis), parent=parent, dry=dry)
        self.source, self.axis, self.name = source, axis, name
        self._whole: dict[str, Tensor] = {}

    def data(self, key: str) -> Tensor:
        assert self.parent is not None
        if key == "source" or (key in ("", "data") and self.source is not None):
            if self.source is None:
                raise value_error(
                    f'Loop "{self.name}" has no input.',
                    {"asked for": "data:source"},
                    "data:source is the current frame of the input of the loop.",
                    f'"{self.name}": {{"class": "rec", "from": "data", ...}}',
                )
            return self._frame("source", self.source)
        return self._frame(f"data:{key}", self.parent.whole_data(key or "data"))

    def _frame(self, label: str, whole: Tensor) -> Tensor:
        """The frame of this step, from a value over the time of the loop."""
        whole = self.aligned(label, whole)
        if self.axis is None or self.axis not in whole.dims:
            if time_dim(whole, self.dims) is None or self.axis is not None:
                return whole
            return self._frame_by_index(whole)
        return self.frame(whole)

    def aligned(self, label: str, whole: Tensor) -> Tensor:
        """The tensor with the dim of the loop in place of its own time, which must have the same lengths."""
        if label in self._whole:
            return self._whole[label]
        time = time_dim(whole, self.dims)
        if self.axis is not None and self.axis not in whole.dims and time is not None:
            if not same_lengths(time, self.axis):
                raise value_error(
                    f'Loop "{self.name}": "{label}" and the loop have different lengths.',
                    [(label, lengths_text(time)), ("loop", lengths_text(self.axis))],
                    "A loop that reads a value frame by frame needs one frame per step. To read all frames in each step:",
                    f'"base:{label}"',
                )
            whole, _ = replace_dim(whole, in_dim=time, out_dim=self.axis)
        self._whole[label] = whole
        return whole

    def axis_of_loop(self) -> Dim | None:
        return self.axis

    def frame(self, whole: Tensor) -> Tensor:
        """The frame of this step, from a value over the dim of the loop."""
        raise NotImplementedError

    def _frame_by_index(self, whole: Tensor) -> Tensor:
        raise NotImplementedError


class TemplateScope(BodyScope):
    """Infers the dims of the values of a body: a step with zeros, repeated until the dims of the previous values are those of the new ones.

    Attributes:
        readers: choice -> the layers that read its beam.
        past_end: Whether steps after the end of a sequence also have frames.
    """

    def __init__(self, *args: Any, make: bool, **options: Any):
        super().__init__(*args, dry=True, **options)
        self.makes = make
        self._previous: dict[str, Any] = {}
        self.inner_previous = {}
        self.readers: dict[str, list[str]] = {}
        self.past_end = False

    def run(self, names: list[str], previous: list[str]) -> dict[str, Any]:
        """The template of each of these layers.

        Raises:
            ValueError: If the dims of a layer cannot be inferred.
        """
        for name in names:
            for ref in self.layers[name].sources if self.layers[name].kind in _BEAM_READERS else ():
                made_by = ref.partition("/")[0]
                if made_by in self.layers and self.layers[made_by].kind in ("choice", *_BEAM_READERS):
                    self.readers.setdefault(made_by, []).append(name)
        make, self.makes = self.makes, False
        before: dict[str, Any] | None = None
        for _ in range(_PASSES):
            self._forget()
            failed: list[str] = []
            for name in names:
                try:
                    self.get(name)
                except Unknown:
                    failed.append(name)
            found = {name: _signature(value) for name, value in (*self.values.items(), *self.inner_previous.items())}
            if not failed and found == before:
                break
            if failed and found == before:
                if self.guess:
                    raise value_error(
                        f'Loop "{self.name}": the dims of {", ".join(failed)} are unknown.',
                        {"known": ", ".join(found) or "none"},
                        "These layers depend only on their own previous values.",
                        f'"{failed[0]}": {{..., "n_out": 512}}',
                    )
                self.guess = True
            before = found
            for name in previous:
                try:
                    self._previous[name] = self.get(name)
                except Unknown:
                    continue
        if make or not all(
            layer.is_made for name in names for layer in (self.layers[name], *self.layers[name].sublayers())
        ):
            self.makes = True
            self._forget()
            for name in names:
                self.get(name)
        return self.values

    def _forget(self) -> None:
        self.values.clear()
        self._unknown_now.clear()

    def previous(self, name: str) -> Any:
        if owner_in(self.layers, name) is None:
            raise self._unknown(name)
        if name not in self._previous:
            raise Unknown(name)
        return self._previous[name]

    def step_index(self) -> Any:
        return zeros((), dtype="int32")

    def frame(self, whole: Tensor) -> Tensor:
        return frame_zeros(whole, self.axis)

    def _frame_by_index(self, whole: Tensor) -> Tensor:
        return frame_zeros(whole, time_dim(whole, self.dims))

    def state(self, layer: Layer) -> Any:
        return layer.initial_state(self)


class StepScope(BodyScope):
    """One step. It shares values that are the same in all steps (`like`)."""

    def __init__(self, like: TemplateScope, loop: Loop):
        assert like.parent is not None
        super().__init__(like.layers, like.parent, source=like.source, axis=like.axis, name=like.name)
        self._whole, self.dims, self.loop = like._whole, like.dims, loop
        self.before: dict[str, Any] = {}
        self._readers, self._past_end = like.readers, like.past_end
        self._choices = 0
        self._stage: dict[str, int] = {}

    # -- search: values computed before a choice follow the surviving hypotheses ----------------------------------------------
    def chosen(self) -> None:
        self._choices += 1

    def _value(self, name: str) -> Any:
        value = super()._value(name)
        stage = self._stage.get(name)
        if stage is None:
            stage = self._stage[name] = self._choices
            for reader in self._readers.get(name, ()):  # before the next choice, since they read the beam of this one
                self.get(reader)
            value = self.values[name]
        if stage < self._choices:
            value = self.values[name] = self._followed(value)
            self._stage[name] = self._choices
        return value

    def _followed(self, value: Any) -> Any:
        return value if self.loop is None or not self._choices else bring(self.loop.selections, value)

    def sources(self, layer: Layer) -> list[Any]:
        choices = self._choices
        for option in layer.references if self.call.search else ():
            if isinstance(layer.opts.get(option), str):
                self.get(layer.opts[option])
        sources = super().sources(layer)
        return sources if self._choices == choices else super().sources(layer)

    def previous(self, name: str) -> Any:
        if name not in self.before:
            raise self._unknown(name)
        return self._followed(self.before[name])

    def target(self, key: str) -> Tensor:
        """The frame of a target; label 0 after the end of a sequence, if the loop is longer."""
        labels = super().target(key)
        if self.axis is not None or ":" in key:
            return labels
        time = time_dim(self.whole_data(key), self.dims)
        if time is None:
            return labels
        real = combine_bc(self.step_index(), "sub", time.get_size_tensor(device=labels.device)) < 0
        out = where(real, labels, 0, allow_broadcast_all_sources=True)
        out.sparse_dim = labels.sparse_dim
        return out

    def step_index(self) -> Any:
        assert self.loop is not None
        return plain_index(self.loop.iter_idx)

    def frame(self, whole: Tensor) -> Tensor:
        assert self.loop is not None and self.axis is not None
        if not self._past_end or not whole._finite:
            return self.loop.unstack(whole)
        # A hypothesis scores one label after its length, from the values after the last frame, as long as they are finite.
        out = gather(whole, indices=self.step_index(), axis=self.axis)
        out.feature_dim = whole.feature_dim
        return out

    def _frame_by_index(self, whole: Tensor) -> Tensor:
        axis = time_dim(whole, self.dims)
        return gather(whole, indices=self.step_index(), axis=axis, clip_to_valid=True)

    def state(self, layer: Layer) -> Any:
        assert self.loop is not None
        name = f"{layer.path}:state"
        return self.loop.state[name] if name in self.loop.state.keys() else None

    def set_state(self, layer: Layer, state: Any) -> None:
        assert self.loop is not None
        self.loop.state[f"{layer.path}:state"] = state


def like_before(value: Tensor, before: Tensor) -> Tensor:
    """A new value with the dims of the previous one, which it replaces as a state."""
    for dim in before.dims:
        if dim not in value.dims and dim.kind != "beam":
            feature, labels = value.feature_dim, value.sparse_dim
            value = marked(expand_dim(value, dim), feature)
            if labels is not None:
                value.sparse_dim = labels
    return value


def _signature(value: Any) -> Any:
    if isinstance(value, Tensor):
        return set(value.dims), value.feature_dim, value.sparse_dim, value.dtype
    return type(value)
