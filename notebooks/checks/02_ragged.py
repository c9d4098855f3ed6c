"""The exercises of 02_ragged.ipynb."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import torch

from rfnb.teaching import call, check_same, exercise, is_same, kind_of, wrong

LENGTHS = ([1], [4, 2], [2, 5, 3], [4, 4], [1, 2, 7, 3])
WORDS = Path(__file__).parents[1] / "data/words.txt"


def _batch(lengths: list[int], features: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(len(lengths))
    return torch.randn(len(lengths), max(lengths), features, generator=generator), torch.tensor(lengths)


def _mask(lengths: torch.Tensor, longest: int) -> torch.Tensor:
    return torch.arange(longest) < lengths[:, None]


def _shown(lengths: object) -> list[tuple[str, object]]:
    return [("lengths", lengths)]


def _check_other_padding(answer, name: str, reference) -> None:
    """The same numbers whatever stands past the ends: large numbers, then NaN."""
    for lengths in ([3, 1], [2, 5, 3]):
        x, sizes = _batch(lengths)
        right = reference(x, sizes)
        for garbage in (777.0, float("nan")):
            dirty = x.clone()
            dirty[~_mask(sizes, x.shape[1])] = garbage
            got = call(answer, dirty, sizes.clone())
            if not is_same(got, right):
                rule = (
                    "A mask of 0 does not take NaN away: 0 * NaN is NaN. Replace what is padding: torch.where, masked_fill."
                    if garbage != garbage
                    else "Only the first frames of a sequence are real, as many as its length says."
                )
                filled = "NaN" if garbage != garbage else f"{garbage:.0f}"
                wrong(f"You looked at padding: filled with {filled}, {name} is different.", _shown(lengths), rule)


@exercise(
    "A mask of lengths",
    hints=[
        "Write down the positions 0, 1, 2, ... up to the longest, and compare them with the lengths.",
        "torch.arange(longest) is (longest,), lengths[:, None] is (batch, 1): compared they are (batch, longest).",
        "A frame is real where its position is smaller than the length.",
    ],
)
def mask_of(answer):
    for lengths in LENGTHS[1:]:
        for more in (0, 2):
            longest = max(lengths) + more
            got = call(answer, torch.tensor(lengths), longest)
            right = _mask(torch.tensor(lengths), longest)
            given = [*_shown(lengths), ("longest", longest)]
            array = torch.as_tensor(np.asarray(got)) if not isinstance(got, torch.Tensor) else got
            if array.dtype != torch.bool and array.shape == right.shape and bool((array == right).all()):
                wrong(
                    "The numbers are right, but this is no mask of bool.",
                    [*given, ("dtype", array.dtype)],
                    "torch.where and masked_fill want True and False; a comparison gives them.",
                )
            if array.shape != right.shape and array.shape == right.T.shape:
                wrong(
                    "It is (longest, batch), with its axes the wrong way round.",
                    [*given, ("got", tuple(array.shape)), ("wanted", tuple(right.shape))],
                    "The sequences are rows, the positions columns.",
                )
            if not is_same(array, right):
                for one, what in ((1, "many"), (-1, "few")):
                    if is_same(array, _mask(torch.tensor(lengths) + one, longest)):
                        positions = "Positions begin with 0: a sequence of length 3 has 0, 1 and 2."
                        wrong(f"Each sequence has one frame too {what}.", given, positions)
                if is_same(array, ~right):
                    wrong(
                        "It is the other way round: True at padding.",
                        given,
                        "Here a mask is True where a frame is real.",
                    )
            check_same(got, right, what="The mask", given=given)


def _mean(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.stack([row[:length].mean(0) for row, length in zip(x, lengths)])


@exercise(
    "A mean that counts with lengths",
    hints=[
        "The sum of the real frames, divided by how many there are.",
        "masked_fill puts 0 where there is padding; the mask needs one more axis: mask[..., None].",
        "The sum over axis 1 is (batch, feature), so the lengths it is divided by have to be (batch, 1).",
    ],
)
def mean_of(answer):
    for lengths in LENGTHS:
        x, sizes = _batch(lengths)
        got = call(answer, x.clone(), sizes.clone())
        right, real = _mean(x, sizes), _mask(sizes, x.shape[1])[..., None]
        if not is_same(got, right):
            if is_same(got, x.mean(1)):
                wrong(
                    "This is the mean over the whole rectangle: you looked at padding.",
                    _shown(lengths),
                    "The lengths are an argument, and nothing is done with them yet.",
                )
            if is_same(got, (x * real).mean(1)):
                wrong(
                    "Padding is left out of the sum, but counted: each sum is divided by the longest length.",
                    [*_shown(lengths), ("divided by", x.shape[1])],
                    "Each sequence is divided by its own length.",
                )
            if is_same(got, (x * real).sum(1)):
                wrong("This is the sum.", _shown(lengths), "Divide it by the lengths.")
            if is_same(got, (x * real).sum((0, 1)) / sizes.sum()):
                wrong("This is one mean for the whole batch.", _shown(lengths), "Each sequence has a mean of its own.")
        check_same(got, right, what="The mean", given=_shown(lengths))
    _check_other_padding(answer, "the mean", _mean)


def _softmax(energies: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = torch.zeros_like(energies)
    for index in np.ndindex(*energies.shape[:-1]):
        if bool(mask[index].any()):
            weights[index][mask[index]] = torch.softmax(energies[index][mask[index]], -1)
    return weights


@exercise(
    "A softmax with a mask",
    hints=[
        "exp(-inf) is 0: what is -inf before the softmax has no weight after it, and the others still sum to 1.",
        "A row of -inf only becomes NaN, as 0 / 0. Take care of such rows afterwards.",
        "So there are two masked_fill: one before the softmax, with -inf, and one after it, with 0.",
    ],
)
def masked_softmax(answer):
    generator = torch.Generator().manual_seed(1)
    cases = []
    for mask in (
        [[True, False]],
        [[True, True, False], [True, False, False]],
        [[False, True, True, False], [True, True, True, True], [True, False, True, False]],
    ):
        real = torch.tensor(mask)
        cases.append((torch.randn(real.shape, generator=generator), real))
    cases.append(
        (
            torch.randn(2, 3, 3, generator=generator),
            torch.tensor([[[True, False, True]], [[True, True, False]]]).expand(2, 3, 3),
        )
    )
    for energies, mask in cases:
        got, right = call(answer, energies.clone(), mask.clone()), _softmax(energies, mask)
        given = [("mask", mask.tolist())] if mask.numel() < 8 else [("shape", tuple(mask.shape))]
        if not is_same(got, right):
            if is_same(got, torch.softmax(energies, -1)):
                wrong(
                    "The mask is not used: padding has weight.",
                    given,
                    "Energies of padding are to be -inf before the softmax.",
                )
            if is_same(got, torch.softmax(energies, -1) * mask):
                wrong(
                    "What is real does not sum to 1: padding was counted first, and taken away then.",
                    [*given, ("sums", torch.as_tensor(got).sum(-1).flatten().tolist())],
                    "Mask the energies before the softmax, not the weights after it.",
                )
            if is_same(got, torch.softmax(energies * mask, -1)) or is_same(
                got, torch.softmax(energies.masked_fill(~mask, 0.0), -1)
            ):
                wrong(
                    "Padding has the energy 0, and so the weight exp(0) = 1 before it is divided.",
                    given,
                    "What is to have no weight has the energy -inf.",
                )
            if is_same(got, _softmax(energies, ~mask)):
                wrong(
                    "It is the other way round: only padding has weight.", given, "The mask is True where it is real."
                )
            if energies.ndim == 2 and is_same(got, _softmax(energies.T, mask.T).T):
                wrong("The columns sum to 1 instead of the rows.", given, "The weights are over the last axis.")
        check_same(got, right, what="The softmax", given=given)
    energies, mask = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[True, True], [False, False]])
    got = torch.as_tensor(call(answer, energies, mask))
    if not bool(torch.isfinite(got).all()):
        wrong(
            "A row without anything real becomes NaN.",
            [("mask", mask.tolist()), ("got", got.tolist())],
            "Its weights are all 0: nobody is looked at. Fill them afterwards.",
        )
    check_same(
        got,
        _softmax(energies, mask),
        what="The softmax of a row without anything real",
        given=[("mask", mask.tolist())],
    )
    large = torch.tensor([[1000.0, 999.0, 0.0]])
    real = torch.tensor([[True, True, False]])
    got = torch.as_tensor(call(answer, large, real))
    if not bool(torch.isfinite(got).all()):
        wrong(
            "With energies near 1000 it is NaN: exp of them is infinite.",
            [("energies", large.tolist()), ("got", got.tolist())],
            "torch.softmax subtracts the largest first; so has to do who writes exp by hand.",
        )
    check_same(
        got, _softmax(large, real), what="The softmax of energies near 1000", given=[("energies", large.tolist())]
    )
    for garbage in (1e6, float("nan"), float("inf")):
        dirty = torch.where(cases[1][1], cases[1][0], garbage)
        got = call(answer, dirty, cases[1][1].clone())
        if not is_same(got, _softmax(*cases[1])):
            wrong(
                f"You looked at padding: filled with {garbage:g}, the weights are other ones.",
                [("mask", cases[1][1].tolist())],
                "Replace the energies of padding before anything else is computed from them.",
            )


def _last(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    return torch.stack([row[length - 1] for row, length in zip(x, lengths)])


@exercise(
    "The last real frame",
    hints=[
        "x[:, -1] is the last of the rectangle. Which position is the last real one of a sequence of length 3?",
        "One index for each sequence: x[torch.arange(len(x)), positions]",
        "Positions count from 0: the last one of a length of 3 is 2.",
    ],
)
def last_frame(answer):
    for lengths in LENGTHS:
        x, sizes = _batch(lengths)
        given = _shown(lengths)
        try:
            got = call(answer, x.clone(), sizes.clone())
        except IndexError as error:
            wrong(
                "It looks past the end of the array.",
                [*given, ("error", str(error))],
                "Positions begin with 0: the last real one of length 3 is 2.",
            )
        right = _last(x, sizes)
        if not is_same(got, right):
            if is_same(got, x[:, -1]):
                wrong(
                    "This is the last frame of the rectangle: padding, for all but the longest.",
                    given,
                    "The lengths say where each sequence ends.",
                )
            if is_same(got, x[:, 0]):
                wrong("This is the first frame.", given)
            if is_same(got, x[torch.arange(len(x)), sizes.clamp(max=x.shape[1] - 1)]):
                wrong("One frame too far.", given, "Positions begin with 0: the last real one of length 3 is 2.")
            if is_same(got, x[torch.arange(len(x)), sizes.min() - 1]):
                wrong("The same position for all.", given, "Each sequence ends at a place of its own.")
        check_same(got, right, what="The last frame", given=given)
    _check_other_padding(answer, "the last frame", _last)


def _waste(batches: list[list[int]], lengths: list[int]) -> float:
    letters = sum(lengths[number] for batch in batches for number in batch)
    return 1 - letters / sum(len(batch) * max(lengths[number] for number in batch) for batch in batches)


@exercise(
    "The share of padding",
    hints=[
        "Count two things: the letters, and the cells of all rectangles.",
        "A batch has as many rows as words, and each row is as long as the longest of them.",
        "Both are sums over all batches. The share is of all cells, not the mean of the shares.",
    ],
)
def waste(answer):
    calls = [
        ([[0]], [3]),
        ([[0, 1]], [3, 1]),
        ([[1], [0, 2]], [3, 1, 1]),
        ([[0, 3, 1], [2]], [7, 2, 4, 3]),
        ([[1, 0], [3, 2, 4]], [5, 2, 3, 1, 4]),
        ([[4, 1], [0]], [2, 3, 9, 8, 1]),
    ]
    for batches, lengths in calls:
        got = call(answer, [list(batch) for batch in batches], list(lengths))
        given = [("batches", batches), ("lengths", lengths)]
        right = _waste(batches, lengths)
        if not is_same(got, right):
            if right and is_same(got, 100 * right):
                wrong("This is in percent.", given, "A share is between 0 and 1.")
            if is_same(got, 1 - right):
                wrong("This is the share of what is real.", given, "Padding is the rest: 1 minus it.")
            if is_same(got, right / (1 - right)):
                wrong("Padding is divided by the letters.", given, "The share is of all cells, letters and padding.")
            if is_same(got, float(np.mean([_waste([batch], lengths) for batch in batches]))):
                wrong(
                    "This is the mean of the shares of the batches; a small batch counts as much as a large one.",
                    given,
                    "Count letters and cells of all batches first, divide once.",
                )
            cells = sum(len(batch) * max(lengths[number] for number in batch) for batch in batches)
            if is_same(got, 1 - sum(lengths) / cells):
                wrong(
                    "Letters of all words are counted, also of those in no batch.",
                    given,
                    "Count what is in the batches.",
                )
            whole = len(lengths) * max(lengths)
            if is_same(got, 1 - sum(lengths) / whole):
                wrong(
                    "Each batch is filled up to the longest word of all.",
                    given,
                    "A batch is as long as the longest word in it.",
                )
        check_same(got, right, what="The share", given=given)


def lengths_of_words() -> list[int]:
    return [len(line.split("\t")[0]) for line in WORDS.read_text("utf-8").splitlines()]


def _pairs(batches: list[list[int]]) -> set[tuple[int, int]]:
    return {(a, b) for batch in batches for a in batch for b in batch if a < b}


@exercise(
    "Batches with less than 10 % padding",
    hints=[
        "Between at_random and sorted_once there is something: sort, but not all words at once.",
        "Shuffle the words, cut them into windows of some hundred, sort inside of each window, cut it into batches.",
        "A window of 16 batches has 5 to 6 % padding. In the end shuffle the batches, with the same generator random.Random(seed).",
    ],
    points=2,
)
def make_batches(answer):
    few = [3, 1, 9, 2, 2, 5, 7, 1, 4, 4, 6, 3, 8, 2, 5, 1, 3, 2, 6]
    lengths = lengths_of_words()
    for each, size in ((few, 4), (lengths, 32)):
        made = _made(answer, each, size, 1)
        counts = Counter(number for batch in made for number in batch)
        given = [("words", len(each)), ("size", size), ("seed", 1)]
        missing = sorted(set(range(len(each))) - set(counts))
        if missing:
            wrong(
                f"{len(missing)} of the words are in no batch.",
                [*given, ("missing", f"{str(missing[:5])[1:-1]}{', ...' if len(missing) > 5 else ''}")],
                "Every word comes once; the last batch may be smaller.",
            )
        twice = [number for number, count in counts.items() if count > 1]
        unknown = sorted(set(counts) - set(range(len(each))))
        if twice or unknown:
            wrong(
                f"Word {twice[0]} is there more than once." if twice else f"There is no word {unknown[0]}.",
                given,
                "Every word comes once.",
            )
        largest = max(map(len, made))
        if largest > size or min(map(len, made)) == 0:
            wrong(
                f"A batch has {largest} words." if largest > size else "A batch is empty.",
                given,
                f"At most {size} words are in a batch, and at least one.",
            )
        count = -(-len(each) // size)
        if len(made) > 2 * count:
            wrong(
                f"These are {len(made)} batches, where {count} are enough.",
                given,
                "Small batches have no padding, but a machine is not busy with them: fill at least half of them on the average.",
            )
    made = [_made(answer, lengths, 32, seed) for seed in (1, 2)]
    percent = 100 * _waste(made[0], lengths)
    if percent >= 10:
        wrong(
            f"{percent:.1f} % of the cells are padding; less than 10 % are wanted.",
            [("batches", len(made[0])), ("words", len(lengths))],
            "Words of about the same length belong together: sort more words at once.",
        )
    if _made(answer, lengths, 32, 1) != made[0]:
        wrong(
            "The same seed gives other batches the second time.",
            [("seed", 1)],
            "Draw from random.Random(seed), nothing else.",
        )
    again = _pairs(made[0]) & _pairs(made[1])
    share = len(again) / max(1, len(_pairs(made[0])))
    if share > 0.5:
        wrong(
            f"{100 * share:.0f} % of the pairs of words that share a batch with seed 1 do so with seed 2, too.",
            [("padding", f"{percent:.1f} %")],
            "Let chance decide who is sorted together with whom: shuffle before you sort.",
        )
    longest = [max(lengths[number] for number in batch) for batch in made[0]]
    if abs(np.corrcoef(range(len(longest)), longest)[0, 1]) > 0.5:
        wrong(
            "The batches come in the order of their lengths.",
            [
                ("longest words", f"{str(longest[:4])[1:-1]}, ... {str(longest[-4:])[1:-1]}"),
                ("padding", f"{percent:.1f} %"),
            ],
            "Shuffle the batches in the end.",
        )


def _made(answer, lengths: list[int], size: int, seed: int) -> list[list[int]]:
    got = call(answer, list(lengths), size, seed)
    try:
        return [[int(number) for number in batch] for batch in got]
    except (TypeError, ValueError):
        wrong("It is no list of lists of numbers.", [("got", kind_of(got))], "[[3, 17, 4], [0, 8], ...]")


_OPS = (
    "Embedding", "embedding", "Linear", "LSTM", "lstm", "attention", "output", "reduce_mean", "softmax", "matmul", "squeeze", "abs",
    "sub", "true_divide",
)  # fmt: skip


@exercise(
    "The op that looks at padding",
    hints=[
        "The first line of the error names the op, and the line of code in which it is.",
        "It is a reduction over the letters that takes all of the rectangle.",
        "One call of the model says that it uses no mask.",
    ],
)
def culprit(answer):
    name = getattr(answer, "__name__", answer)
    if not isinstance(name, str):
        wrong("The name of an op is wanted, as a text.", [("got", answer)], 'culprit = "softmax"')
    name = name.strip().removeprefix("rf.").split("(")[0]
    if name in ("reduce_mean", "softmax", "matmul"):
        wrong(
            f"{name} is told the dim, knows its lengths, and leaves padding out.",
            [("got", answer)],
            "Which op is named in the first line of the error?",
        )
    if name in ("LSTM", "lstm", "x / scale", "true_divide"):
        wrong(
            f"{name} only got a number that was wrong already.",
            [("got", answer)],
            "The error names the op that made the first wrong number.",
        )
    if name != "reduce_max":
        known = "is in the model, but does not mix letters" if name in _OPS else "is no op of this model"
        wrong(f"{name} {known}.", [("got", answer)], "Which op is named in the first line of the error?")


class _Rater(torch.nn.Module):
    """The model of the notebook, which checks do not take from there: it may have been changed."""

    def __init__(self, letters: int = 28, size: int = 8):
        super().__init__()
        self.embedding = torch.nn.Embedding(letters, size)
        self.conv = torch.nn.Conv1d(size, size, 3, padding=1)
        self.gru = torch.nn.GRU(size, size, batch_first=True)
        self.norm = torch.nn.LayerNorm(size)
        self.output = torch.nn.Linear(size, 1)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return _rated(self, ids, lengths)


def _rated(model, ids, lengths, before=None, divide=True) -> torch.Tensor:
    """The model's own way, with another mask before the convolution, or none."""
    real = _mask(lengths, ids.shape[1])[..., None]
    x = model.embedding(ids)
    x = x if before is None else x * before[..., None]
    h = model.norm(model.gru(torch.tanh(model.conv(x.mT).mT))[0])
    total = (h * real).sum(1)
    return model.output(total / lengths[:, None] if divide else total / ids.shape[1])[:, 0]


@exercise(
    "A model without the padding trap",
    hints=[
        "Everything before the convolution is the same, bit for bit. What does the convolution see past the end of a word that is alone?",
        "Alone it sees zeros: those that it adds itself. Put zeros there in a batch, too.",
        "The mask needs one more axis to scale embeddings. After that, go through the modules as forward does.",
    ],
    points=2,
)
def rate_mended(answer):
    torch.manual_seed(7)
    model = _Rater().eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for lengths in ([3], [3, 9], [2, 1, 4], [5, 5]):
            sizes = torch.tensor(lengths)
            ids = torch.randint(1, 27, (len(lengths), max(lengths)), generator=generator)
            real = _mask(sizes, ids.shape[1])
            for garbage in (0, 26):
                filled = ids.masked_fill(~real, garbage)
                got = call(answer, model, filled.clone(), sizes.clone())
                right = torch.cat(
                    [model(ids[row : row + 1, :length], sizes[row : row + 1]) for row, length in enumerate(lengths)]
                )
                given = [("lengths", lengths), ("ids of padding", garbage)]
                if tuple(getattr(got, "shape", ())) != tuple(right.shape):
                    shape = tuple(getattr(got, "shape", ()))
                    wrong(
                        "It gives another shape.",
                        [*given, ("got", shape), ("wanted", tuple(right.shape))],
                        "One number for each word.",
                    )
                if not is_same(got, right):
                    if garbage and is_same(got, _rated(model, filled, sizes, filled != 0)):
                        wrong(
                            "Only the letter 0 is left out.",
                            given,
                            "The lengths tell what is padding, not the letters that happen to stand there.",
                        )
                    if is_same(got, _rated(model, filled, sizes)):
                        wrong(
                            "A word still has another rating in a batch than alone: the convolution reads padding as before.",
                            given,
                            "Mask what goes into the convolution. After it the last letter has seen the padding already.",
                        )
                    if is_same(got, _rated(model, filled, sizes, real, divide=False)):
                        wrong("Each word is divided by the longest length.", given, "Divide by its own.")
                check_same(got, right, what="The rating", given=given)
