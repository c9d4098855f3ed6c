"""CTC and transducer models of others into search, alignment and views.

    ctc = rf.ctc_output(model(**inputs).logits, vocab=processor, config=model.config)
    rf.show(ctc.align(["HELLO WORLD"]))

What needs torch is loaded by the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rfnb.interop.speech.ctc import CtcOutput
    from rfnb.interop.speech.transducer import TransducerOutput
    from rfnb.search.label_alignment import Alignments


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
    """The output of a CTC model of torch, ready for search, alignment, loss and views. Its text says what was found, not said.

    Args:
        logits: float (batch, time, vocab), or (time, vocab) of one sequence; logits or log probabilities. Or a Tensor {batch, time, vocab}.
        lengths: Frames of each sequence. Default: all; of samples of different lengths those after the convolutions of the config.
        vocab: A list or string of labels, with the blank or without, a dict from label to index, a tokenizer or processor of
            `transformers`, a bundle of torchaudio, a processor of sentencepiece.
        blank: Index, from the end if negative, or text. Default: the pad token of a tokenizer; the last class if the vocabulary has
            one label less (NeMo); config.pad_token_id; "<blank>" or the like; "-" if that is first (torchaudio).
        layout: Names of the axes; `nn.CTCLoss` takes "time batch vocab".
        config: Of a model of `transformers`, for lengths, blank and frame shift.
        samples: The sound, (batch, samples) or a list of (samples,), for the views.
        sampling_rate: Samples per second. Default: that of the processor or bundle.
        frame_shift: Seconds from a frame to the next. Default: config.inputs_to_logits_ratio / sampling_rate, else samples / frames.
        word_delimiter: The label between words, or what begins one. Default: that of the tokenizer, "|", " ", a "▁" at the begin; "": none.

    Raises:
        ShapeError, ValueError: If axes, lengths, vocabulary, blank or samples do not fit together, or these are no logits.
        IndexError: If the blank is none of the classes.

    Source: Graves et al. 2006, "Connectionist Temporal Classification", for all that it does with them.
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
    """The encoder's frames of a transducer (RNN-T) of torch with what reads them, ready for search, alignment and views.

    With torchaudio: `encoder, lengths = rnnt.transcribe(features, lengths)`, and `predictor=rnnt`.

    Args:
        encoder: float (batch, time, feature), or (time, feature) of one sequence.
        lengths: Frames of each sequence. Default: all.
        predictor: (labels int64 (n,), state) -> (output (n, ...), next state); the state is nested tensors of a fixed size, None
            before the first label. Or a model with the methods `predict` and `join` of torchaudio's RNNT.
        joiner: (frames (n, feature), outputs (n, ...)) -> logits (n, vocab).
        state_axis: The axis of n in the tensors of the state; of `nn.LSTM` it is 1.
        initial_label: What the predictor reads before the first label. Default: the blank.
        vocab, blank, layout, samples, sampling_rate, frame_shift, word_delimiter: As of `ctc_output`.

    Raises:
        ShapeError, ValueError, TypeError: If they do not fit together.
        IndexError: If the blank is none of the classes.

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
    """The alignments of references in the lattices that a transducer's loss sees: the best one, and the sums over all of them.

    Args:
        logits: float (batch, time, labels + 1, vocab), as `rnnt_loss` of torchaudio takes them.
        reference: As of `CtcOutput.align`: texts, or an array of indices with a row for each.
        lengths: Frames of each sequence. Default: all.
        reference_lengths: Labels of each.
        vocab, blank, samples, sampling_rate, frame_shift, word_delimiter: As of `ctc_output`.

    Returns:
        An alignment per sequence; minus its `log_prob_of_all` is the loss.

    Raises:
        ShapeError, ValueError: If they do not fit together, or a reference has no alignment.
        IndexError: If an index is none of the classes.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.4.
    """
    from rfnb.interop.speech import transducer

    return transducer.lattice(
        logits, reference, lengths, reference_lengths, vocab, blank, samples, sampling_rate, frame_shift, word_delimiter
    )
