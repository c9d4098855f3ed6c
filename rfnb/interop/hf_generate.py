"""The search behind what `generate` of transformers gives; torch and what reads it are loaded by the first that is looked at."""

from __future__ import annotations

from typing import Any

from rfnb.trace.beams import BeamHistory


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
