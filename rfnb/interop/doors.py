"""The doors to what others have made: a Module as torch.nn.Module and back, networks in RETURNN's dict notation (`rfnb/interop/net/`), and
the search behind what `generate` of transformers gives. What they are made of, and torch, is loaded by the first call.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module, adopts
from rfnb.trace.beams import BeamHistory

if TYPE_CHECKING:
    import torch

    from rfnb.interop.net.network import DictNetwork

Axes = str | Sequence["Dim | str"] | Tensor
"""The axes of a raw array in their order: "batch time in_dim", or a list of names and Dims, or a template Tensor (which may have a
sparse_dim). A name that is a Dim of the module by attribute is this Dim; other names, and Dims without a size, are dims that each
call makes anew."""


def as_torch(
    module: Module,
    inputs: Axes | Mapping[str, Axes] | None = None,
    *,
    outputs: Axes | None = None,
    dims: Mapping[str, str | Dim] | None = None,
) -> torch.nn.Module:
    """A torch.nn.Module with the very parameters of a Module, under the same names, for code that knows torch only.

        net = rf.as_torch(encoder, inputs="batch time in_dim")
        net(x, lengths)                                     # a torch tensor (batch, time, out)

    Optimizers, `state_dict`, `to`, hooks (also of parts: they see raw arrays), `deepcopy`, pickle, `torch.func.functional_call`,
    `torch.nn.utils.parametrize` and DistributedDataParallel work as with any other. `train()` and `eval()` say whether it trains,
    as a whole and by parts; a running step (`rf.init_train_step_run_ctx`) that says otherwise is an error.

    Args:
        inputs: What the axes of the arrays are that it gets; a dict by argument if there are several. Default: it is called like the
            module, with Tensors. After the arrays it gets the lengths of the axis that is neither the first nor of a fixed size
            (`lengths`; `NAME_lengths` if there are several such axes). Sequences end there, also in an array that is longer.
        outputs: The order of the axes of the (first) result. Default: those of the first input, as far as they are there, then others.
            Padding is 0, as long as in the input. A Dim in the result becomes the lengths along it, a State a dict.
        dims: For arguments of the module that are Dims, which axis they are, by name: {"spatial_dim": "time"}. Default: the argument
            that has the name of an axis is that axis, and the only axis that may have lengths is all others. An argument `state` that
            has no default gets `default_initial_state`.

    Raises:
        TypeError: If it is no Module, or has parameters that are no torch parameters.
        ValueError: If the module has arguments that nothing is known of.
    """
    from rfnb.interop.torch_module import RFModuleAsPTModule, to_torch

    arrays = None
    if inputs is not None:
        from rfnb.interop.torch_arrays import Arrays

        arrays = Arrays(module, inputs, outputs, dims or {})
    out = to_torch(module)
    if arrays is None:
        return out
    assert isinstance(out, RFModuleAsPTModule)
    out._rfnb.arrays = arrays
    return out


def from_torch(
    module: torch.nn.Module,
    in_dim: Dim | None = None,
    out_dim: Dim | None = None,
    *,
    inputs: Sequence[Dim | str | EllipsisType] | None = None,
    outputs: Sequence[Dim | str | EllipsisType] | None = None,
) -> Module:
    """A Module with the very parameters of a torch.nn.Module, under the same names, that takes and gives Tensors.

        self.lstm = rf.from_torch(torch.nn.LSTM(3, 5), in_dim=feat)
        out, state = self.lstm(x, spatial_dim=time)         # {batch, time, lstm.out_dim}, and State(h, c)

    What the axes are is clear for layers that go through frames one by one (Linear, LayerNorm, RMSNorm, activations, Dropout), Embedding,
    LSTM, GRU and RNN (`spatial_dim=`, `state=`; each sequence ends where it ends), TransformerEncoder and its layer (`spatial_dim=`;
    padding is masked), and Sequential of these. Raw arrays go to the torch module as they are. It trains where the run context says so,
    and its own `train()`; what is in `eval()` stays so. A torch module that is set as attribute of a Module becomes one of these.

    Args:
        in_dim, out_dim: The features of what goes in and comes out, where the type of the module is known. Default: the feature_dim of
            the Tensor; a dim of its own, `out_dim` of the result.
        inputs: Of other modules: the axes of the Tensor in their order, Dims or names of dims, `...` for all others.
        outputs: The same of the result; new dims are Dims. Default: as the input.

    Raises:
        TypeError: For a scripted, compiled or quantised module, or one that is not initialised; when called, if nothing tells what the
            axes are.
        DimError: If a dim has another size than the module.
    """
    from rfnb.interop.torch_layers import TorchModule
    from rfnb.interop.torch_module import as_rf

    out = as_rf(module, TorchModule)
    if isinstance(out, TorchModule):
        out.say(in_dim, out_dim, inputs, outputs)
    return out


@adopts
def _torch_module(value: Any) -> Module | None:
    """The Module for a torch.nn.Module that is set as an attribute; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.nn.Module):
        return None
    return from_torch(value)


def net_from_dict(
    network: Mapping[str, Any],
    extern_data: Mapping[str, Any],
    *,
    search: bool = False,
    loop: str = "with",
    optimize_move_layers_out: bool | None = None,
) -> DictNetwork:
    """A network that is described as a dict of layers, as a Module: {layer name: {"class": ..., "from": ..., options}}.

    Loops ("class": "rec" with a network as unit) run on `rf.Loop`, units by name on `rf.Rec`.

    Args:
        network: The layers. Dims are Dim objects, or texts "<dim NAME:SIZE>", of which equal ones are the same dim.
        extern_data: The inputs: {key: {"dim": 40}}, {"dim": 100, "sparse": True}, {"shape": (None, 3), "dim": 3}, or {"dim_tags":
            [...]}. Dims of two inputs are different ones unless they are declared as one, whatever their lengths.
        search: Whether choices search; else they give out the labels of their targets.
        loop: "with": the body of a loop is recorded once, and what does not need the state runs for all steps at once; "for":
            each step runs in Python. Both give the same numbers.
        optimize_move_layers_out: Whether recorded loops move anything out. Default: as the dict says, else yes.

    Returns:
        The network; `set_parameters` sets its parameters by path, a call gives the outputs by layer name.

    Raises:
        ValueError: An unknown layer class, option, activation or layer name; the message lists what is near.

    Source: the documentation of RETURNN, "Network", and that of its layer classes.
    """
    from rfnb.interop.net.network import DictNetwork  # with all classes of layers: too much for `import rfnb`

    return DictNetwork(network, extern_data, search=search, loop=loop, move_out=optimize_move_layers_out)


def beams_of(out: Any, **options: Any) -> BeamHistory:
    """The search behind an output of `generate` of transformers: every candidate of each step, as far as the output has it.

        out = model.generate(ids, num_beams=4, return_dict_in_generate=True, output_scores=True)
        history = rf.beams_of(out, model=model, tokenizer=tokenizer)        # rf.show(out, tokenizer=tokenizer) shows it

    What an output does not have is in a recording: `with rf.record(model=model) as trace: model.generate(...)`.

    Args:
        out: With `sequences` and `scores`; of a beam search also `beam_indices`. With `logits` also the model's own log probabilities.
        tokenizer: For the text of the labels; or a list of texts.
        model, eos_token_id: For the labels that end a hypothesis. Default: those of the tokenizer, else what results of a beam search
            end with.
        num_beams, num_return_sequences: Of the call. Default: of a beam search as its results came from; else 1.

    Returns:
        Scores are natural-log probabilities summed over steps, as `generate` chose by them; results are ranked by score / length **
        length_penalty. Slots are those of `beam_indices`; what is complete has slots behind these. `remark` says what is not known.

    Raises:
        TypeError: If it is no output of `generate`.
        ValueError: If something lacks, with the argument of `generate` that gives it, or does not fit.
    """
    from rfnb.interop.seen import generate_output

    return generate_output.beams_of(out, **options)
