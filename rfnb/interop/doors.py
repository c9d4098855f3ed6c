"""The public functions for foreign models. Their implementations, and torch, are imported at the first call.

    model = rf.from_torch(torch_model)
    ctc = rf.ctc_output(model(**inputs).logits, vocab=processor, config=model.config)
    rf.show(ctc.align(["HELLO WORLD"]))

They convert a Module to a torch.nn.Module and back, run networks in RETURNN's dict notation (`rfnb/interop/net/`),
recover the search behind an output of `generate` of transformers, and make CTC and transducer models available for
search, alignment and views.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.kept_signature import keep_signature
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.trace.beams import BeamHistory

if TYPE_CHECKING:
    import torch

    from rfnb.interop.net.network import DictNetwork
    from rfnb.interop.speech.ctc import CtcOutput
    from rfnb.interop.speech.transducer import TransducerOutput
    from rfnb.search.label_alignment import Alignments

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
    """A torch.nn.Module that shares the parameters of a Module, with the same names, for code that only knows torch.

        net = rf.as_torch(encoder, inputs="batch time in_dim")
        net(x, lengths)                                     # a torch tensor (batch, time, out)

    Optimizers, `state_dict`, `to`, hooks (also of submodules: they see raw arrays), `deepcopy`, pickle,
    `torch.func.functional_call`, `torch.nn.utils.parametrize` and DistributedDataParallel work as usual. `train()` and
    `eval()` set the training mode, of the whole module or of parts; a conflicting run context
    (`rf.init_train_step_run_ctx`) is an error.

    Args:
        inputs: The axes of its input arrays; a dict by argument if there are several. Default: it is called like the
            module, with Tensors. After the arrays it takes the lengths of the axis that is neither the first nor of a fixed
            size (`lengths`; `NAME_lengths` if there are several such axes). Sequences end there, even if the array is
            longer.
        outputs: The order of the axes of the (first) result. Default: those of the first input that it has, then the
            others. Padding is 0, with the extent of the input. A Dim in the result becomes the lengths along it, a State a
            dict.
        dims: The axes for arguments of the module that are Dims, by name: {"spatial_dim": "time"}. Default: an argument
            with the name of an axis is that axis; all others are the only axis that may have lengths. An argument `state`
            without default gets `default_initial_state`.

    Raises:
        TypeError: If it is not a Module, or has parameters that are not torch parameters.
        ValueError: If the module has arguments that cannot be inferred.
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
    """A Module that shares the parameters of a torch.nn.Module, with the same names, and takes and returns Tensors.

        self.lstm = rf.from_torch(torch.nn.LSTM(3, 5), in_dim=feat)
        out, state = self.lstm(x, spatial_dim=time)         # {batch, time, lstm.out_dim}, and State(h, c)

    The axes are known for framewise layers (Linear, LayerNorm, RMSNorm, activations, Dropout), Embedding, LSTM, GRU and
    RNN (`spatial_dim=`, `state=`; lengths are respected), TransformerEncoder and its layer (`spatial_dim=`; padding is
    masked), and Sequential of these. Raw arrays are passed to the torch module unchanged. It trains if both the run
    context and its own `train()` say so; parts in `eval()` mode stay in it. A torch module that is set as an attribute
    of a Module is converted in this way.

    Args:
        in_dim, out_dim: The features of input and output, for known types of modules. Default: the feature_dim of the
            Tensor; a new dim, `out_dim` of the Module.
        inputs: For other modules: the axes of the Tensor in order, Dims or names of dims, `...` for all others.
        outputs: The same for the result; new dims are Dims. Default: as the input.

    Raises:
        TypeError: For a scripted, compiled, quantised or uninitialised module; when called, if the axes are unknown.
        DimError: If a dim does not have the size that the module expects.
    """
    from rfnb.interop.torch_layers import TorchModule
    from rfnb.interop.torch_module import as_rf

    out = as_rf(module, TorchModule)
    if isinstance(out, TorchModule):
        out.say(in_dim, out_dim, inputs, outputs)
    return out


def adopted_module(value: Any) -> Module | None:
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
    """A network described by a dict of layers, as a Module: {layer name: {"class": ..., "from": ..., options}}.

    Loops ("class": "rec" with a network as unit) run on `rf.Loop`, units by name on `rf.Rec`.

    Args:
        network: The layers. Dims are Dim objects, or texts "<dim NAME:SIZE>"; equal texts are the same dim.
        extern_data: The inputs: {key: {"dim": 40}}, {"dim": 100, "sparse": True}, {"shape": (None, 3), "dim": 3}, or {"dim_tags":
            [...]}. Dims of two inputs differ unless they are declared as the same, whatever their lengths.
        search: Whether choices search; else they return the labels of their targets.
        loop: "with": the body of a loop is recorded once, and ops that do not depend on the state run for all steps at
            once; "for": each step runs in Python. Both give the same numbers.
        optimize_move_layers_out: Whether recorded loops move ops out. Default: the option in the dict, else True.

    Returns:
        The network; `set_parameters` sets its parameters by path, a call gives the outputs by layer name.

    Raises:
        ValueError: An unknown layer class, option, activation or layer name; the message lists similar ones.

    Source: the documentation of RETURNN, "Network", and that of its layer classes.
    """
    from rfnb.interop.net.network import DictNetwork  # with all layer classes: too slow for `import rfnb`

    return DictNetwork(network, extern_data, search=search, loop=loop, move_out=optimize_move_layers_out)


def beams_of(out: Any, **options: Any) -> BeamHistory:
    """The search behind an output of `generate` of transformers: all candidates of each step, as far as the output has them.

        out = model.generate(ids, num_beams=4, return_dict_in_generate=True, output_scores=True)
        history = rf.beams_of(out, model=model, tokenizer=tokenizer)        # rf.show(out, tokenizer=tokenizer) shows it

    A recording has everything: `with rf.record(model=model) as trace: model.generate(...)`.

    Args:
        out: An output with `sequences` and `scores`, and for a beam search `beam_indices`. With `logits`, the model's
            own log probabilities are included.
        tokenizer: The tokenizer for the texts of labels, or a list of texts.
        model, eos_token_id: Determine the labels that end a hypothesis. Default: those of the tokenizer, else the last
            labels of the results.
        num_beams, num_return_sequences: Arguments of the call. Default: inferred from the results of a beam search; else 1.

    Returns:
        Scores are natural-log probabilities summed over steps, as used by `generate`; results are ranked by score /
        length ** length_penalty. Slots are those of `beam_indices`, followed by those of complete hypotheses. `remark`
        names missing information.

    Raises:
        TypeError: If it is not an output of `generate`.
        ValueError: If something is missing, with the argument of `generate` that adds it, or does not fit.
    """
    from rfnb.interop.seen import generate_output

    return generate_output.beams_of(out, **options)


keep_signature(beams_of, options_of=("rfnb.interop.seen.generate_output:beams_of",))


def ctc_output(
    logits: Any,
    lengths: Any = None,
    *,
    vocab: Any,
    blank: int | str | None = None,
    layout: str = "batch time vocab",
    config: Any = None,
    samples: Any = None,
    sampling_rate: float | None = None,
    frame_shift: float | None = None,
    word_delimiter: str | None = None,
) -> CtcOutput:
    """The output of a CTC model of torch, for search, alignment, loss and views. Its text lists what was inferred.

    Args:
        logits: float (batch, time, vocab), or (time, vocab) for one sequence; logits or log probabilities. Or a Tensor
            {batch, time, vocab}.
        lengths: Frames of each sequence. Default: all; for samples of different lengths, computed from the convolutions in the config.
        vocab: A list or string of labels, with or without the blank, a dict from label to index, a tokenizer or processor of
            `transformers`, a bundle of torchaudio, a processor of sentencepiece.
        blank: Index, from the end if negative, or text. Default: the pad token of a tokenizer; the last class if the
            vocabulary is one label shorter (NeMo); config.pad_token_id; "<blank>" or similar; "-" if it is first
            (torchaudio).
        layout: Names of the axes; `nn.CTCLoss` takes "time batch vocab".
        config: The config of a `transformers` model, for lengths, blank and frame shift.
        samples: The sound, (batch, samples) or a list of (samples,), for the views.
        sampling_rate: Samples per second. Default: that of the processor or bundle.
        frame_shift: Seconds between frames. Default: config.inputs_to_logits_ratio / sampling_rate, else samples / frames.
        word_delimiter: The label between words, or the prefix of a word. Default: that of the tokenizer, "|", " ", or a
            leading "▁"; "" for none.

    Raises:
        ShapeError, ValueError: If axes, lengths, vocabulary, blank or samples do not fit together, or these are not logits.
        IndexError: If the blank is not a class.

    Source: Graves et al. 2006, "Connectionist Temporal Classification".
    """
    from rfnb.interop.speech import ctc

    return ctc.make(logits, lengths, vocab, blank, layout, config, samples, sampling_rate, frame_shift, word_delimiter)


def transducer_output(
    encoder: Any,
    lengths: Any = None,
    *,
    predictor: Any,
    joiner: Any = None,
    vocab: Any,
    blank: int | str | None = None,
    layout: str = "batch time feature",
    state_axis: int = 0,
    initial_label: int | None = None,
    samples: Any = None,
    sampling_rate: float | None = None,
    frame_shift: float | None = None,
    word_delimiter: str | None = None,
) -> TransducerOutput:
    """The encoder's frames of a transducer (RNN-T) of torch, with its predictor and joiner, for search, alignment and views.

    With torchaudio: `encoder, lengths = rnnt.transcribe(features, lengths)`, and `predictor=rnnt`.

    Args:
        encoder: float (batch, time, feature), or (time, feature) for one sequence.
        lengths: Frames of each sequence. Default: all.
        predictor: (labels int64 (n,), state) -> (output (n, ...), next state); the state is nested tensors of a fixed size, None
            before the first label. Or a model with the methods `predict` and `join` of torchaudio's RNNT.
        joiner: (frames (n, feature), outputs (n, ...)) -> logits (n, vocab).
        state_axis: The axis of n in the tensors of the state; 1 for `nn.LSTM`.
        initial_label: The input of the predictor before the first label. Default: the blank.
        vocab, blank, layout, samples, sampling_rate, frame_shift, word_delimiter: See `ctc_output`.

    Raises:
        ShapeError, ValueError, TypeError: If they do not fit together.
        IndexError: If the blank is not a class.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks".
    """
    from rfnb.interop.speech import transducer

    return transducer.make(
        encoder, lengths, predictor, joiner, vocab, blank, layout, state_axis, initial_label, samples, sampling_rate,
        frame_shift, word_delimiter,
    )  # fmt: skip


def transducer_lattice(
    logits: Any,
    reference: Any,
    lengths: Any = None,
    reference_lengths: Any = None,
    *,
    vocab: Any,
    blank: int | str | None = None,
    samples: Any = None,
    sampling_rate: float | None = None,
    frame_shift: float | None = None,
    word_delimiter: str | None = None,
) -> Alignments:
    """The alignments of references in a transducer's lattices, as used by its loss: the best one, and the sum over all of them.

    Args:
        logits: float (batch, time, labels + 1, vocab), as for `rnnt_loss` of torchaudio.
        reference: As in `CtcOutput.align`: texts, or an array of indices with one row each.
        lengths: Frames of each sequence. Default: all.
        reference_lengths: Number of labels of each.
        vocab, blank, samples, sampling_rate, frame_shift, word_delimiter: See `ctc_output`.

    Returns:
        An alignment per sequence; minus its `log_prob_of_all` is the loss.

    Raises:
        ShapeError, ValueError: If they do not fit together, or a reference has no alignment.
        IndexError: If an index is not a class.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.4.
    """
    from rfnb.interop.speech import transducer

    return transducer.lattice(
        logits, reference, lengths, reference_lengths, vocab, blank, samples, sampling_rate, frame_shift, word_delimiter
    )
