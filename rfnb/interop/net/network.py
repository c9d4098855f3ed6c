"""A network from RETURNN's dict notation, as a Module.

net = rf.net_from_dict(network, {"data": {"dim": 40}, "classes": {"dim": 100, "sparse": True}})
net.set_parameters({"output/rec/s/W": array, ...})
out = net({"data": (features, lengths), "classes": (labels, label_lengths)})
out["output"], out["output/att"], out.states["encoder"]
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import shape_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.interop.net import (  # noqa: F401  they register their classes
    attention_layers,
    choice_layers,
    feature_layers,
    history_layers,
    label_layers,
    loop_layers,
    masked_layers,
    math_layers,
    reduce_layers,
    shape_layers,
    unit_layers,
    wrapper_layers,
)
from rfnb.interop.net.call_dims import CallDims, DeclaredDims
from rfnb.interop.net.dependencies import Dependencies
from rfnb.interop.net.extern_data import bind_all, declare
from rfnb.interop.net.layer import LayerDict
from rfnb.interop.net.scope import NetCall, Scope
from rfnb.interop.net.step_network import StepNetworkLayer
from rfnb.nn.attention.encoder_decoder import last_frame
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.ops.defaults import set_default_device_ctx
from rfnb.rec.state import State
from rfnb.trace.host_copies import values_of
from rfnb.trace.probe import held_back


class NetOutputs(dict[str, Tensor]):
    """Values by layer name, "layer/x" for those in a loop body.

    Attributes:
        states: Final states by layer name.
    """

    states: dict[str, State]
    _weights: dict[str, tuple[Callable[[], Tensor], Dim]]

    def get_base_weights(self, layer: str) -> Tensor:
        """The weights of an attention layer outside of loops: {..., time of the base}; weights in loops are in a trace.

        Raises:
            ValueError: If it is not an attention layer, or was not computed.
        """
        if layer not in self._weights:
            raise value_error(
                f'get_base_weights: "{layer}" has no weights.',
                {"known": ", ".join(self._weights) or "none"},
                "Only attention layers outside loops, after they were computed, have weights. Inside loops, record them:",
                "with rf.record() as trace: net(data)",
            )
        return self._weights[layer][0]()

    def get_base_weight_last_frame(self, layer: str) -> Tensor:
        """The weight of the last frame of each sequence, 0 for an empty one: {...}."""
        return last_frame(self.get_base_weights(layer), axis=self._weights[layer][1])


class DictNetwork(Module):
    """See `net_from_dict`."""

    def __init__(
        self,
        network: Mapping[str, Any],
        extern_data: Mapping[str, Any],
        *,
        search: bool,
        loop: str,
        move_out: bool | None,
    ):
        self.search, self.loop, self.move_out = search, _face(loop), move_out
        as_dims = DeclaredDims()
        self._batch = Dim(None, name="batch", kind="batch")
        self.extern_data = declare(extern_data, as_dims, self._batch)
        entries = {name: opts for name, opts in network.items() if not name.startswith("#")}
        self.layers = LayerDict(as_dims(entries), "")
        self._declared = frozenset(as_dims.found)
        self._find_asked()
        self._make()

    def _find_asked(self) -> None:
        """Find parts of loops that layers outside read."""
        for layer in self.layers.by_name.values():
            for ref in layer.refs(self.search):
                name, _, part = ref.partition("/")
                loop = self.layers.by_name.get(name)
                if isinstance(loop, StepNetworkLayer) and part in loop.body and part != "output":
                    if part not in [*loop.stacked, *loop.asked]:
                        loop.asked.append(part)

    def _make(self) -> None:
        """Create all parameters, with a small batch of zeros: for everything the outputs need, and for the rest where possible."""
        dims = CallDims(self._declared)
        dims.batch = Dim(2, name="batch", kind="batch")
        data = {key: declared.dummy(dims) for key, declared in self.extern_data.items()}
        call = NetCall(
            data,
            search=self.search,
            face="for",
            move_out=False,
            keys={key: declared.sparse_dim for key, declared in self.extern_data.items()},
        )
        scope = Scope(self.layers, call, dims, dry=True)
        needed = self.default_outputs()
        with held_back():
            for name in needed:
                scope.get(name)
            for name in self.layers.by_name:
                if name not in needed:
                    try:
                        scope.get(name)
                    except (ValueError, TypeError, NotImplementedError, RuntimeError):
                        continue  # unused; reading it raises the error

    def default_outputs(self) -> list[str]:
        """ "output" and the layers marked `is_output_layer`."""
        marked = [name for name, layer in self.layers.by_name.items() if layer.opts.get("is_output_layer")]
        found = list(dict.fromkeys([*(["output"] if "output" in self.layers else []), *marked]))
        if not found:
            raise value_error(
                "The network has no output.",
                {"layers": ", ".join(self.layers.by_name) or "none"},
                'The outputs are the layer "output", or all layers with is_output_layer.',
                '"encoder": {..., "is_output_layer": True}',
            )
        return found

    # -- a call ------------------------------------------------------------------------------------------------------------
    def __call__(
        self,
        data: Mapping[str, Any],
        *,
        lengths: Mapping[str, Any] | None = None,
        outputs: Sequence[str] | None = None,
        search: bool | None = None,
        loop: str | None = None,
        move_out: bool | None = None,
    ) -> NetOutputs:
        """Compute the values of the outputs.

        Args:
            data: For each input a Tensor, an array with the dims of extern_data, or (array, lengths).
            lengths: Lengths of the arrays, by input.
            outputs: Names of layers, also "loop/x". Default: "output" and all layers marked `is_output_layer`.
            search, loop, move_out: As in `net_from_dict`, for this call.

        Returns:
            The values by name, with the final states.

        Raises:
            ValueError: A missing or undeclared input, an unknown layer.
            DimError, ShapeError: Inputs that do not fit.
        """
        with self._on_its_device(data):
            dims = CallDims(self._declared)
            tensors = bind_all(self.extern_data, data, lengths or {}, dims)
            call = NetCall(
                tensors,
                search=self.search if search is None else search,
                face=self.loop if loop is None else _face(loop),
                move_out=self.move_out if move_out is None else move_out,
                keys={key: declared.sparse_dim for key, declared in self.extern_data.items()},
            )
            scope = Scope(self.layers, call, dims)
            out = NetOutputs()
            for name in self.default_outputs() if outputs is None else outputs:
                out[name] = scope.get(name)
                layer = self.layers.by_name.get(name)
                if outputs is None and isinstance(layer, StepNetworkLayer):
                    out.update((f"{name}/{part}", scope.get(f"{name}/{part}")) for part in layer.stacked)
            out.states, out._weights = scope.finals, call.weights
            return out

    def _on_its_device(self, data: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Create initial states, ends and constants, which have no operands, on the device of the parameters, or else of the inputs."""
        for _, parameter in self._named_parameters():
            return set_default_device_ctx(parameter.device)
        for value in data.values():
            array = value[0] if isinstance(value, tuple) else value
            # In NumPy 2, all arrays have device "cpu", but can be moved anywhere.
            device = None if isinstance(array, np.ndarray) else getattr(array, "device", None)
            if device is not None:
                return set_default_device_ctx(str(device))
        return nullcontext()

    # -- parameters --------------------------------------------------------------------------------------------------------
    def parameters_by_path(self) -> dict[str, Parameter]:
        """The parameters by their documented paths, e.g. "output/rec/s/W"."""
        found: dict[str, Parameter] = {}
        for layer in self.layers.all_layers():
            found.update(layer.own_parameters())
        return found

    def needed_parameters(self) -> dict[str, Parameter]:
        """The parameters that the outputs need."""
        found: dict[str, Parameter] = {}
        for name in Dependencies(self.layers, self.default_outputs(), search=self.search).layers:
            layer = self.layers[name]
            inner = layer.needed(self.search) if isinstance(layer, StepNetworkLayer) else list(layer.sublayers())
            for each in [layer, *inner]:
                found.update(each.own_parameters())
        return found

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Set the parameters by path.

        Args:
            values: path -> array or Tensor; kernels are (in, out). Parameters that the outputs do not need may be
                missing. The variable of `"initial_output": "var"` may have its name in checkpoints of RETURNN,
                "init_LAYER_var" in the scope of the loop or of the layer.

        Raises:
            ValueError: If parameters are missing or unexpected; all are listed, and nothing is changed.
            ShapeError: If shapes differ; all are listed, and nothing is changed.
        """
        own, needed = self.parameters_by_path(), self.needed_parameters()
        values = {_own_path(path, own, values): value for path, value in values.items()}
        missing = [path for path in needed if path not in values]
        unexpected = [path for path in values if path not in own]
        if missing or unexpected:
            rows = [("missing", f"{path} {shape_of(own[path])}") for path in missing]
            rows += [("unexpected", _with_near(path, own)) for path in unexpected]
            raise value_error(
                "The parameters do not match the network.",
                rows,
                "Each parameter that the outputs depend on needs a value, given by its path.",
                "net.parameters_by_path()",
            )
        arrays = {path: values_of(value) for path, value in values.items()}
        wrong = [path for path, array in arrays.items() if array.shape != tuple(dim.extent for dim in own[path].dims)]
        if wrong:
            rows = [(path, f"{arrays[path].shape}, needed {shape_of(own[path])}") for path in wrong]
            raise shape_error("Parameters have the wrong shapes.", rows, "Kernels have the shape (in, out).")
        for path, array in arrays.items():
            own[path].initial = array


def _face(loop: str) -> str:
    if loop not in ("with", "for"):
        raise value_error(
            "net_from_dict: unknown value of loops.",
            {"loop": repr(loop), "known": '"with", "for"'},
            "The option loops determines how loops run.",
            'loop="for"',
        )
    return loop


_INITIAL_VARIABLE = re.compile(r"(?P<scope>(?:.*/)?)init_(?P<layer>.+)_var")


def _own_path(path: str, own: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The path of the parameter here that a checkpoint stores under this path."""
    found = _INITIAL_VARIABLE.fullmatch(path) if path not in own else None
    if found is None:
        return path
    scope, layer = found["scope"], found["layer"]
    paths = {f"{scope}{inner}initial_output" for inner in (f"{layer}/", f"rec/{layer}/")}
    if scope.endswith(f"/{layer}/") or scope == f"{layer}/":
        paths.add(f"{scope}initial_output")
    known = [each for each in paths if each in own and each not in given]
    return known[0] if len(known) == 1 else path


def _with_near(path: str, own: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(path, own, n=1)
    return f"{path}, near {near[0]}" if near else path
