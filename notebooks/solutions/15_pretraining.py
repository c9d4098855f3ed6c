"""Solutions of 15_pretraining: letters hidden, spans cut out, modules frozen, a pull to the start."""

import torch

PREDICTIONS = {
    "doubt": "about 2.9",
    "changed": 134,
    "easier": "larger by more than 1",
    "written": 21,
    "labels": "about 1,000 or more",
    "thousand": "all trained",
    "first": "layers.1",
    "forgot": "more than 12",
    "held": "it forgets less, and phoneme errors rise by 5 points at most",
    "worth": "those from scratch",
    "wrong_line": (
        "The one that copies into `letters`: it overwrites the text itself, so the targets of the loss are the letters that are shown. "
        "The model has learned to copy its input, which needs no other letter."
    ),
    "no_perplexity": (
        "A perplexity comes from the probability of the text, a product in which each letter is given those before it. "
        "Here each letter is given letters on both sides, so the factors multiply to no probability of the word; and one in ten was shown."
    ),
    "when_frozen": (
        "Frozen with few labels, or where the old task has to stay as it is: there is less to overfit, and nothing is forgotten. "
        "Trained with many labels, and where the task needs what the pretraining did not teach; validation data decide."
    ),
}


def mask_letters(letters, generator):
    chosen = (torch.rand(letters.shape, generator=generator) < 0.15) & (letters != 0)
    fate = torch.rand(letters.shape, generator=generator)
    drawn = torch.randint(2, 29, letters.shape, generator=generator)
    shown = torch.where(chosen & (fate < 0.8), 1, letters)
    return torch.where(chosen & (fate >= 0.9), drawn, shown), chosen


def masked_loss(logits, letters, chosen):
    total = torch.nn.functional.cross_entropy(logits[chosen], letters[chosen], reduction="sum")
    return total / max(int(chosen.sum()), 1)


def cut_out(letters, spans):
    source, target, at = [], [], 0
    for number, (start, end) in enumerate(spans):
        source += [*letters[at:start], f"<{number}>"]
        target += [f"<{number}>", *letters[start:end]]
        at = end
    return [*source, *letters[at:]], [*target, f"<{len(spans)}>"]


def freeze(model, frozen):
    model.requires_grad_(True)
    for name in frozen:
        model.get_submodule(name).requires_grad_(False)
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def pull(model, start):
    moved = [values - start[name].detach() for name, values in model.named_parameters() if name in start]
    return sum((each**2).sum() for each in moved) / 2
