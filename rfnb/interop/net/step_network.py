"""A "rec" layer whose unit is a network: the body of an rf.Loop, in one of its two forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import message, value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.body_scope import StepScope, TemplateScope, like_before
from rfnb.interop.net.call_dims import marked
from rfnb.interop.net.choice_layers import ChoiceLayer
from rfnb.interop.net.dependencies import Dependencies, reads_in_step
from rfnb.interop.net.initial_output import initial_of
from rfnb.interop.net.layer import Layer, LayerDict
from rfnb.interop.net.loop_length import loop_axis, step_limit
from rfnb.interop.net.scope import Scope
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.const import zeros, zeros_like
from rfnb.ops.dims import range_over_dim, set_sparse_dim
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import minimum
from rfnb.ops.shift import reverse_sequence
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.rec.step_tensor import StepTensor
from rfnb.trace.probe import held_back

REC_OPTIONS = ("unit", "unit_opts", "direction", "axis", "initial_state", "max_seq_len", "max_seq_len_via", "include_eos",
               "optimize_move_layers_out", "cheating", "unroll", "back_prop", "debug", "use_global_rec_step_offset", "input_projection",
               "forward_weights_init", "recurrent_weights_init", "bias_init")  # fmt: skip
_OF_UNITS = ("unit_opts", "initial_state", "input_projection")


class StepNetworkLayer(Layer):
    """Runs its body once per step. Its value is the body's layer "output"."""

    options = REC_OPTIONS
    own_feature = False

    def begin(self) -> None:
        for option in _OF_UNITS:
            if self.opts.get(option) is not None:
                raise value_error(
                    f"{self.what}: {option} is not allowed with a step network.",
                    [(option, repr(self.opts[option])), ("unit", "a network")],
                    "The option is for units given by name. In a network, its layers have an initial_output.",
                )
        self.direction = self.opts.get("direction") or 1
        if self.direction not in (1, -1):
            raise value_error(
                f"{self.what}: unknown direction.",
                {"direction": repr(self.direction), "known": "None or 1 forward, -1 backward"},
                "A loop runs forward from the first frame, or backward from the last one.",
            )
        self.body = LayerDict(self.opts["unit"], f"{self.path}/rec/")
        if "output" not in self.body:
            raise value_error(
                f'{self.what}: its unit has no layer "output".',
                {"layers": ", ".join(self.body.by_name) or "none"},
                'The layer "output" provides the output of the loop.',
                '"unit": {..., "output": {"class": "copy", "from": "h"}}',
            )
        self.stacked = [
            n for n, layer in self.body.by_name.items() if n != "output" and layer.opts.get("is_output_layer")
        ]
        self.lasts = [n for n, layer in self.body.by_name.items() if layer.opts.get("need_last")]
        self.asked: list[str] = []  # parts that layers outside read without a mark

    def sublayers(self) -> Iterable[Layer]:
        return self.body.all_layers()

    def own_parameters(self) -> dict[str, Parameter]:
        return {}

    def roots(self, with_end: bool) -> list[str]:
        """The layers of the body whose values are required."""
        end = ["end"] if with_end and "end" in self.body else []
        return list(dict.fromkeys(["output", *self.stacked, *self.asked, *self.lasts, *end]))

    def refs(self, search: bool) -> list[str]:
        needs = Dependencies(self.body, self.roots(with_end=True), search=search)
        return [*self.sources, *needs.base]

    def needed(self, search: bool) -> list[Layer]:
        """The layers of the body that the required values depend on, including inner ones."""
        found = []
        for name in Dependencies(self.body, self.roots(with_end=True), search=search).layers:
            found.append(self.body[name])
            found.extend(self.body[name].sublayers())
        return found

    def has_loop_with_end(self, search: bool) -> bool:
        """Whether the body has a loop whose end or search depends on values of the step: such a step cannot be recorded."""
        inner = [layer for layer in self.body.all_layers() if isinstance(layer, StepNetworkLayer)]
        return any("end" in layer.body or (search and layer.has_choice()) for layer in inner)

    def has_choice(self) -> bool:
        return any(layer.kind == "choice" for layer in self.body.all_layers())

    # -- a call ------------------------------------------------------------------------------------------------------------
    def infer(self, env: Scope, sources: list[Tensor]) -> Tensor:
        run = _LoopCall(self, env, sources)
        try:
            run.templates(make=True, roots=list(self.body.by_name))
        except (ValueError, TypeError, NotImplementedError):  # of something unused; needed layers raise later
            run.templates(make=True)
        return run.dry()

    def compute(self, env: Scope, sources: list[Tensor]) -> Tensor:
        run = _LoopCall(self, env, sources)
        run.templates(make=False)
        return run.real()

    def sub(self, env: Scope, name: str) -> Any:
        if name in self.body:
            raise value_error(
                f'{self.what}: "{name}" is not collected.',
                {"kept": ", ".join(["output", *self.stacked])},
                "Only output layers of the unit are collected over the steps.",
                f'"{name}": {{..., "is_output_layer": True}}',
            )
        return super().sub(env, name)


def _as_in_step(value: Tensor, axis: Dim, like: Tensor) -> Tensor:
    """Dims in a canonical order, first the loop's, then those of a step, regardless of how it was computed: the notation counts dims."""
    if isinstance(value, StepTensor):  # a loop in a recorded step: its results are in this order
        return value
    first = [dim for dim in (axis, *like.dims) if dim in value.dims]
    return value.copy_transpose([*first, *(dim for dim in value.dims if dim not in first)])


class _LoopCall:
    """One call of a loop."""

    def __init__(self, layer: StepNetworkLayer, env: Scope, sources: list[Tensor]):
        self.layer, self.env = layer, env
        self.source = layer.concatenated(sources, env) if sources else None
        has_end = "end" in layer.body
        self.axis = loop_axis(layer, self.source, env, has_end)
        self.with_end = has_end and self.axis is None
        self.include_eos = bool(layer.opts.get("include_eos", False))
        self.needs = Dependencies(layer.body, layer.roots(self.with_end), search=env.call.search)
        self._check_choices()
        if (
            layer.direction == -1
            and self.axis is not None
            and self.source is not None
            and self.axis in self.source.dims
        ):
            self.source = self._marked(reverse_sequence(self.source, axis=self.axis), self.source)
        self.inner: TemplateScope | None = None
        self.found: dict[str, Any] = {}

    def _check_choices(self) -> None:
        """Check that the choices of a step are sequential."""
        body, search = self.layer.body, self.env.call.search
        choices = [layer for layer in map(body.__getitem__, self.needs.layers) if isinstance(layer, ChoiceLayer)]
        names = [layer.name for layer in choices if layer.searches(search)]
        for place, one in enumerate(names):
            for other in names[:place]:
                if not any(reads_in_step(body, *pair, search=search) for pair in ((one, other), (other, one))):
                    raise value_error(
                        f"{self.layer.what}: the order of two choices is undefined.",
                        [(name, f"from {', '.join(body[name].sources)}") for name in (other, one)],
                        "A choice starts from the hypotheses of the one before it in the step, so one of them has to read the other.",
                        f'"{body[one].sources[0]}": {{..., "from": ["{other}", ...]}}',
                    )

    def templates(self, *, make: bool, roots: list[str] | None = None) -> None:
        """Infer the dims of the values of the body."""
        layer, env = self.layer, self.env
        needs = self.needs if roots is None else Dependencies(layer.body, roots, search=env.call.search)
        for ref in self.needs.base:
            if env.knows(ref):
                env.get(ref)  # before the loop, not in its recorded step
        self.inner = TemplateScope(layer.body, env, source=self.source, axis=self.axis, name=layer.path, make=make)
        self.inner.past_end = env.call.search and not self.include_eos and self._reads_frames() and layer.has_choice()
        names = [name for name in layer.body.by_name if name in needs.layers]
        with held_back():  # computations on zeros must not be recorded
            self.found = self.inner.run(names, needs.previous)

    def _reads_frames(self) -> bool:
        """Whether the body reads frames of values over the dim of the loop."""
        refs = [ref for name in self.needs.layers for ref in self.layer.body[name].sources]
        return self.axis is not None and any(ref == "data" or ref.startswith("data:") for ref in refs)

    # -- without values ----------------------------------------------------------------------------------------------------
    def dry(self) -> Tensor:
        """Templates of the results."""
        layer, env = self.layer, self.env
        axis = self.axis
        if axis is None:
            batch = env.batch_dims()
            lengths = zeros(batch, dtype="int32", device="cpu") + 1
            axis = Dim(lengths, name=f"{layer.name}:time")
            self._bind_declared(axis)
        for name in self.needs.previous:
            self._initial(name)  # creates its parameter
        for name in self.needs.layers:
            layer.body[name].initial_state(self._inner())  # creates the parameters of inner layers
        for name in [*layer.stacked, *layer.asked]:
            env.parts[layer.name, name] = self._over(self.found[name], axis)
        for name in layer.lasts:
            env.last[layer.name, name] = self.found[name]
        return self._over(self.found["output"], axis)

    def _over(self, template: Tensor, axis: Dim) -> Tensor:
        return self._marked(expand_dim(template, axis), template)

    def _bind_declared(self, axis: Dim) -> None:
        declared = self.layer.opts.get("axis")
        if isinstance(declared, Dim) and not self.env.dims.is_known(declared):
            self.env.dims.bind(declared, axis)

    # -- with values -------------------------------------------------------------------------------------------------------
    def real(self) -> Tensor:
        """Run the loop."""
        layer, env = self.layer, self.env
        move_out = env.call.move_out if env.call.move_out is not None else layer.opts.get("optimize_move_layers_out")
        if self._inner().past_end:  # values moved out of a loop come back frame by frame, without frames after the end
            move_out = False
        limit = step_limit(layer, env) if self.with_end else None
        loop = Loop(
            axis=self.axis,
            max_seq_len=limit,
            include_eos=self.include_eos,
            optimize_move_layers_out=move_out,
            name=layer.path,
        )
        self._begin(loop)
        self.histories: dict[Dim, Dim] = {}
        self.most_steps = (
            self.axis.extent if self.axis is not None else int(limit.numpy()) if isinstance(limit, Tensor) else limit
        )
        self.handles: dict[str, Tensor] = {}
        if env.call.face == "for" or self.most_steps == 0 or layer.has_loop_with_end(env.call.search):
            for _ in loop:
                self._step(loop)
        else:
            with loop:
                self._step(loop)
        return self._results(loop)

    def _inner(self) -> TemplateScope:
        assert self.inner is not None
        return self.inner

    def _begin(self, loop: Loop) -> None:
        """Initial values of all states."""
        inner = self._inner()
        self.carried = list(self.needs.previous)
        for name in self.carried:
            loop.state[name] = self._initial(name)
        for name in self.layer.lasts:
            if name not in self.carried and self.found[name].sparse_dim is None:
                loop.state[name] = self._initial(name)
                self.carried.append(name)
        for name in self.needs.layers:
            state = self.layer.body[name].initial_state(inner)
            if state is not None:
                loop.state[f"{self.layer.body[name].path}:state"] = state

    def _initial(self, name: str) -> Tensor:
        """The value of "prev:name" before the first step; name may be that of a part, e.g. "output/out_1"."""
        return initial_of(self.layer.body, name, self._inner())

    def _step(self, loop: Loop) -> None:
        """The body for one step."""
        layer, step = self.layer, StepScope(self._inner(), loop)
        step.before = {name: loop.state[name] for name in self.carried}
        for root in layer.roots(self.with_end):
            step.get(root)
        if self.with_end:
            loop.end(self._end(step.get("end")), include_eos=self.include_eos)
        for name in self.carried:
            loop.state[name] = like_before(step.get(name), step.before[name])
        for name in ["output", *layer.stacked, *layer.asked]:
            self.handles[name] = loop.stack(self._of_one_size(step.get(name), step), name=name)
        for name in layer.lasts:
            if name not in self.carried:
                self.handles[f"last:{name}"] = loop.last(step.get(name), name=f"last {name}")
        self.finals = [name for name in step.finals if name in layer.body]

    def _of_one_size(self, value: Tensor, step: StepScope) -> Tensor:
        """The value padded with zeros to the largest size, if a dim grows from step to step."""
        for layer in self.layer.body.by_name.values():
            declared = layer.opts.get("out_spatial_dim")
            if layer.kind != "cum_concat" or not isinstance(declared, Dim) or step.dims(declared) not in value.dims:
                continue
            if declared not in self.histories:
                self.histories[declared] = Dim(self.most_steps, name=declared.name)
            index, history = step.step_index(), step.dims(declared)
            positions = set_sparse_dim(range_over_dim(self.histories[declared], dtype="int32"), None)
            kept = gather(value, indices=minimum(positions, index), axis=history)
            value = marked(where(positions <= index, kept, 0, allow_broadcast_all_sources=True), value.feature_dim)
        return value

    def _end(self, end: Tensor) -> Tensor:
        inner = [dim for dim in end.dims if dim.kind not in ("batch", "beam")]
        if end.dtype != "bool" or inner:
            kind = TypeError if end.dtype != "bool" else ValueError
            raise kind(
                message(
                    f'{self.layer.what}: "end" is not a condition.',
                    {
                        "end": f"{[d.short_repr() for d in end.dims]} {end.dtype}",
                        "needed": "[batch] bool, with a beam in a search",
                    },
                    '"end" states for each sequence whether it has ended.',
                    '"end": {"class": "compare", "from": "output", "kind": "equal", "value": 0}',
                )
            )
        return end

    def _results(self, loop: Loop) -> Tensor:
        layer, env = self.layer, self.env
        self._bind_declared(loop.axis)
        for name in [*layer.stacked, *layer.asked]:
            env.parts[layer.name, name] = self._stacked(name, loop)
        for name in layer.lasts:
            value = loop.state[name] if name in self.carried else self.handles[f"last:{name}"]
            env.last[layer.name, name] = self._marked(self._over_beam(value, name, loop), self.found[name])
        return self._stacked("output", loop)

    def _over_beam(self, value: Tensor, name: str, loop: Loop) -> Tensor:
        """Add the beam to a value that depends on a choice, even if all its steps are from before the first choice."""
        selection = loop.selections.last
        if selection is None or selection.carried in value.dims:
            return value
        layers = [
            self.layer.body[other]
            for other in Dependencies(self.layer.body, [name], search=self.env.call.search).layers
        ]
        if any(layer.kind in ("decide", "decide_keep_beam") for layer in layers):
            return value
        batch = {dim for dim in selection.parents.dims if dim is not selection.out_dim}
        depends = any(layer.kind == "choice" for layer in layers) and batch <= set(value.dims)
        return expand_dim(value, selection.carried) if depends else value

    def _stacked(self, name: str, loop: Loop) -> Tensor:
        like, out = self.found[name], self.handles.get(name)
        if out is None:  # there were no steps
            out = self._over(zeros_like(like), loop.axis)
        out = self._over_beam(out, name, loop)
        if self.layer.direction == -1 and loop.axis in out.dims and self.axis is not None:
            out = reverse_sequence(out, axis=loop.axis)
        return self._marked(_as_in_step(out, loop.axis, like), like)

    def _marked(self, value: Tensor, like: Tensor) -> Tensor:
        feature = like.feature_dim
        if feature is not None and feature in value.dims:
            value.feature_dim = feature
        if like.sparse_dim is not None:
            value.sparse_dim = like.sparse_dim
        return value
