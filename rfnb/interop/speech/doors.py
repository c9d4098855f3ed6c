"""CTC and transducer models of others into search, alignment and views.

    ctc = rf.ctc_output(model(**inputs).logits, vocab=processor, config=model.config)
    rf.show(ctc.align(["HELLO WORLD"]))

What needs torch is loaded by the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rfnb.interop.speech.ctc import CtcOutput


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
