"""Checks of 15_pretraining: letters hidden, the loss of hidden letters, spans cut out, modules frozen, a pull to the start."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch import nn

from rfnb.teaching import call, check_same, exercise, is_same, kind_of, wrong

_PADDING, _HIDDEN, _FIRST, _LAST = 0, 1, 2, 28
_SURE = 5.0  # standard deviations that a share is off by chance in one of a million trials


def _pair(got: object, what: str, rule: str) -> tuple[Any, Any]:
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        wrong(f"Two values are wanted: {what}.", [("got", kind_of(got))], rule)
    return got[0], got[1]


def _share(name: str, found: int, of: int, expected: float, rule: str, sure: float = _SURE) -> None:
    """Refuses a share that chance does not explain."""
    if abs(found - of * expected) > sure * math.sqrt(of * expected * (1 - expected)):
        wrong(
            f"{name} with another probability than the exercise says.",
            [("expected", f"{expected:.1%}"), ("got", f"{found / of:.1%}")],
            rule,
        )


def _together(flag: torch.Tensor, among: torch.Tensor, axis: int) -> float:
    """How much more the counts of a flag in lines along an axis spread than those of independent draws: 1 if these are."""
    counts, sizes = flag.sum(axis).double(), among.sum(axis).double()
    share = counts.sum() / sizes.sum()
    if share in (0, 1):
        return 1.0
    some = sizes > 0
    return float((((counts - sizes * share) ** 2)[some] / (sizes * share * (1 - share))[some]).mean())


def _judge_independent(flag: torch.Tensor, among: torch.Tensor, what: str) -> None:
    if _together(flag, among, 0) > 6:
        wrong(
            f"{what} are in the same places in all words of a batch.",
            rule="Each letter has its own draw: as many random numbers as letters.",
        )
    rows = _together(flag, among, 1)
    if rows < 0.8:
        wrong(
            f"{what} are nearly as many in each word: the draws are not independent.",
            rule="Each letter has its own draw; a word may have none, or several.",
        )
    if rows > 1.2:
        wrong(
            f"{what} are drawn for a word as a whole.",
            rule="Each letter has its own draw: as many random numbers as letters.",
        )


def _judge_masking(letters: torch.Tensor, shown: torch.Tensor, chosen: torch.Tensor) -> None:
    """Judges what was chosen, and what is shown in its place, by the shares in many letters."""
    real = letters != _PADDING
    if not chosen.any():
        wrong("Nothing is chosen.", rule="Each real letter with 15 %.")
    if torch.equal(shown == _HIDDEN, chosen):
        wrong(
            "Every chosen letter is hidden.",
            [("expected", "80.0%"), ("got", "100.0%")],
            "10 % become a random letter, and 10 % stay.",
        )
    other = ~chosen & (shown != letters)
    if other.any():
        wrong(
            "What is shown differs in places that were not chosen.",
            [("such places", int(other.sum()))],
            "The loss asks for the chosen places only: the two have to agree.",
        )
    if (chosen & ~real).any():
        wrong("Padding is chosen, too.", [("such places", int((chosen & ~real).sum()))], "There is no letter to guess.")
    _judge_independent(chosen, real, "The chosen letters")
    _share("Letters are chosen", int(chosen.sum()), int(real.sum()), 0.15, "15 % of the real letters.")
    there, asked = (torch.bincount(letters[where], minlength=_LAST + 1).tolist() for where in (real, chosen))
    for letter in range(_FIRST, _LAST + 1):
        _share(f"Letter {letter} is chosen", asked[letter], there[letter], 0.15, "All letters alike.")
    hidden, drawn = chosen & (shown == _HIDDEN), chosen & (shown != _HIDDEN) & (shown != letters)
    count = int(chosen.sum())
    _judge_independent(hidden, chosen, "The hidden letters")
    to_hide = ("Chosen letters are hidden", int(hidden.sum()), count, 0.8, "80 % of the chosen ones.")
    _share(*to_hide, sure=4 * _SURE)  # a few more are those that were drawn from too many, which is said below
    _judge_drawn_alone(shown, drawn)
    if not drawn.any():
        wrong("No chosen letter becomes another one.", rule="10 % of the chosen ones become a random letter.")
    values = torch.bincount(shown[drawn], minlength=_LAST + 1)
    if values[_PADDING]:
        wrong("A letter becomes padding.", rule="A letter is drawn from the 27 real ones, 2 to 28.")
    if len(values) > _LAST + 1:
        wrong(
            "A letter becomes a number that stands for none.",
            [("largest", len(values) - 1)],
            "A letter is drawn from the 27 real ones, 2 to 28: torch.randint leaves out its end.",
        )
    missing = [letter for letter in range(_FIRST, _LAST + 1) if not values[letter]]
    if missing:
        wrong(
            f"Letter {missing[0]} is never drawn.",
            [("never drawn", missing)],
            "All of 2 to 28: torch.randint leaves out the number that it is given as the end.",
        )
    different, left = 26 / 27 * 0.1, count - int(hidden.sum())
    if abs(int(drawn.sum()) - 0.1 * count) <= _SURE * math.sqrt(0.09 * count):
        rule = "It is drawn from all 27 and may be the one that stood there; padding and hidden are no letters."
    else:
        rule = "10 % of the chosen ones become a random letter."
    _share("Chosen letters become another one", int(drawn.sum()), count, different, rule)
    _share("Chosen letters that are not hidden become another one", int(drawn.sum()), left, different / 0.2, rule)
    _share(*to_hide)
    for letter in range(_FIRST, _LAST + 1):
        rule = "Each of the 27 is equally probable."
        _share(f"Letter {letter} is drawn", int(values[letter]), count - asked[letter], 0.1 / 27, rule)
    _judge_independent(drawn, chosen, "The letters that become another one")


def _judge_drawn_alone(shown: torch.Tensor, drawn: torch.Tensor) -> None:
    """One letter that serves for a word, a place or the batch is refused: neighbours among the drawn are mostly different."""
    for words_first, what in ((True, "word"), (False, "place")):
        table, where = (shown, drawn) if words_first else (shown.T, drawn.T)
        rows, columns = where.nonzero(as_tuple=True)
        neighbours = rows[1:] == rows[:-1]
        values = table[rows, columns]
        equal = int((values[1:] == values[:-1])[neighbours].sum())
        if equal > 0.2 * int(neighbours.sum()):
            wrong(
                f"The random letters of a {what} are mostly the same one.", rule="A letter is drawn for each of them."
            )


@functools.cache
def _batch(words: int, longest: int, seed: int) -> torch.Tensor:
    """Letters, more and less frequent ones, behind them padding."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(_FIRST, _LAST + 1, (words, longest), generator=generator)
    letters = torch.where(torch.rand(letters.shape, generator=generator) < 0.2, 6, letters)
    lengths = torch.randint(longest // 2, longest + 1, (words, 1), generator=generator)
    return torch.where(torch.arange(longest) < lengths, letters, _PADDING)


def _masked(answer: Any, letters: torch.Tensor, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What an answer gives, with the form that is wanted, and its argument left as it was."""
    mine = letters.clone()
    got = call(answer, mine, torch.Generator().manual_seed(seed))
    shown, chosen = _pair(got, "what the model is shown, and which places were chosen", "return shown, chosen")
    given = [("letters", tuple(letters.shape))]
    for name, each in (("What is shown", shown), ("What was chosen", chosen)):
        if not isinstance(each, torch.Tensor) or each.shape != letters.shape:
            shape = tuple(each.shape) if isinstance(each, torch.Tensor) else kind_of(each)
            wrong(
                f"{name} has another form than the letters.",
                [*given, ("got", shape)],
                "Both are tensors (batch, time).",
            )
    if shown.dtype == torch.bool and chosen.dtype == letters.dtype:
        wrong("The two are returned the wrong way round.", given, "return shown, chosen")
    if chosen.dtype != torch.bool:
        wrong(
            "What was chosen is not True and False.",
            [*given, ("got", chosen.dtype)],
            "A comparison gives that: ... < 0.15.",
        )
    if shown.dtype != letters.dtype:
        wrong(
            "What is shown has another dtype than the letters.",
            [*given, ("got", shown.dtype)],
            "They are entries of a table.",
        )
    if not torch.equal(mine, letters):
        wrong(
            "The letters that it was given have changed.",
            given,
            "They are what the model has to guess: build what is shown in a new tensor, with torch.where or clone().",
        )
    return shown, chosen


@exercise(
    "Letters hidden as in BERT",
    hints=[
        "One random number for each letter says whether it is chosen; a second one says what becomes of it.",
        "torch.rand gives numbers that are equally probable between 0 and 1, so a share of 80 % of them is below 0.8.",
        "Draw a random letter for every place with torch.randint, and take it only where it is wanted; torch.where(condition, one, other).",
    ],
    points=3,
)
def mask_letters(answer):
    for letters in (torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([[9]])):
        _masked(answer, letters, 1)
    letters = _batch(100, 40, seed=2)
    shown, chosen = _masked(answer, letters, 3)
    again = _masked(answer, letters, 3)
    if not (torch.equal(shown, again[0]) and torch.equal(chosen, again[1])):
        wrong(
            "The same generator with the same seed gives something else the second time.",
            rule="All chance comes from `generator`: torch.rand(..., generator=generator), and so with torch.randint.",
        )
    if torch.equal(chosen, _masked(answer, letters, 4)[1]):
        wrong("Another seed of the generator gives the same choice.", rule="All chance comes from `generator`.")
    letters = _batch(80_000, 40, seed=2)  # so many that one letter in 27 counts
    _judge_masking(letters, *_masked(answer, letters, 3))


def _losses() -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    for words, time, labels, share in ((2, 3, 4, 0.5), (3, 5, 29, 0.4), (1, 4, 3, 1.0), (4, 7, 6, 0.2)):
        logits = 2 * torch.randn(words, time, labels, generator=generator)
        letters = torch.randint(labels, (words, time), generator=generator)
        chosen = torch.rand(words, time, generator=generator) < share
        chosen[0, :2] = True
        yield logits, letters, chosen
    yield logits, letters, torch.arange(28).view(4, 7) == 9  # one alone


def _wrong_loss(got: object, logits: torch.Tensor, letters: torch.Tensor, chosen: torch.Tensor, given: Any) -> None:
    every = nn.functional.cross_entropy(logits.flatten(0, 1), letters.flatten(), reduction="none").view(letters.shape)
    total, words = every[chosen].sum(), chosen.any(1)
    per_word = [each[own].mean() for each, own in zip(every, chosen) if own.any()]
    picked = logits.gather(2, letters[..., None])[..., 0]
    twice = nn.functional.cross_entropy(logits[chosen].softmax(-1), letters[chosen])
    for other, what, rule in (
        (every.mean(), "It is the mean over all places.", "Only the chosen places count."),
        (every[letters != _PADDING].mean(), "It is the mean over all letters that are not padding.", "Only the chosen places count."),
        (twice, "The softmax is taken twice.", "cross_entropy takes logits, and has a softmax of its own."),
        (total / letters.numel(), "The sum is divided by the number of all places.", "Divide by how many were chosen."),
        (total, "It is a sum.", "The mean: divide by how many were chosen."),
        (every[~chosen].mean(), "It is the loss of the places that were not chosen.", "The chosen ones are True."),
        (torch.stack(per_word).mean(), "It is a mean of the means of words.", "All chosen letters of the batch count the same."),
        (total / words.sum(), "The sum is divided by the number of words.", "Divide by how many letters were chosen."),
        (-total / chosen.sum(), "It has the wrong sign.", "A loss is minus the log of a probability."),
        (-picked[chosen].mean(), "The logits are taken for log probabilities.", "nn.functional.cross_entropy, or log_softmax first."),
        (total / chosen.sum() / math.log(2), "It is in bits.", "In nats."),
    ):  # fmt: skip
        if not chosen.all() and is_same(got, other):
            wrong(what, given, rule)


@exercise(
    "The loss of the chosen letters",
    hints=[
        "A tensor of True and False is an index: it picks the places, and what is left has one axis for them.",
        "cross_entropy of nothing is NaN as a mean; as a sum it is 0.",
        'reduction="sum" gives the sum, and then you divide by a number that is never 0.',
    ],
    points=2,
)
def masked_loss(answer):
    for logits, letters, chosen in _losses():
        given = [("logits", tuple(logits.shape)), ("chosen", int(chosen.sum()))]
        right = nn.functional.cross_entropy(logits[chosen], letters[chosen])
        got = call(answer, logits.clone(), letters.clone(), chosen.clone())
        if not is_same(got, right):
            _wrong_loss(got, logits, letters, chosen, given)
        check_same(got, right, what="The loss", given=given)
    for logits, letters, chosen in _losses():
        given = [("logits", tuple(logits.shape)), ("chosen", int(chosen.sum()))]
        right = nn.functional.cross_entropy(logits[chosen], letters[chosen])
        spoiled = torch.where(chosen[..., None], logits, math.nan).requires_grad_()
        got = call(answer, spoiled, letters.clone(), chosen.clone())
        _judge_trains(got, spoiled, right, given)
    logits = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(6)).requires_grad_()
    got = call(answer, logits, torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3, dtype=torch.bool))
    given = [("logits", (2, 3, 4)), ("chosen", 0)]
    if not is_same(got, torch.tensor(0.0)):
        wrong(
            "Where nothing was chosen the loss is not 0.",
            [*given, ("got", got)],
            "A mean of nothing is NaN, and one NaN spoils all weights.",
        )
    _judge_trains(got, logits, torch.tensor(0.0), given)


def _judge_trains(got: Any, logits: torch.Tensor, right: torch.Tensor, given: Sequence[tuple[str, object]]) -> None:
    """Refuses a loss that NaN elsewhere reaches, or by which no training goes on."""
    if isinstance(got, torch.Tensor) and got.isnan().any() and not right.isnan():
        wrong(
            "What the model says in places that were not chosen reaches the loss: there it is NaN.",
            given,
            "NaN times 0 is NaN: take the chosen places out.",
        )
    check_same(got, right, what="The loss", given=given)
    if not isinstance(got, torch.Tensor) or not got.requires_grad:
        wrong(
            "Training cannot go on with this loss: it does not depend on the logits.",
            given,
            "It is a tensor of torch of which backward() can be called, also where the loss is 0.",
        )
    logits.grad = None
    got.backward()
    if logits.grad is not None and logits.grad.isnan().any():
        wrong(
            "The loss is right, and its gradient is NaN.",
            given,
            "Take the chosen places out before anything is computed.",
        )


def _cut(
    letters: Sequence[str],
    spans: Sequence[tuple[int, int]],
    *,
    kept: bool = True,
    last: bool = True,
    first: int = 0,
    inside: int = 0,
) -> tuple[list[str], list[str]]:
    source, target, at = list[str](), list[str](), 0
    for number, (start, end) in enumerate(spans, first):
        source += [*letters[at:start], f"<{number}>"]
        target += [f"<{number}>", *letters[start : end + inside]]
        at = end + inside
    source += letters[at:] if kept else []
    return source, [*target, *([f"<{len(spans) + first}>"] if last else [])]


def _shifted(letters: Sequence[str], spans: Sequence[tuple[int, int]]) -> tuple[list[str], list[str]]:
    """Spans that are looked up in what is left of the text, and so are shifted by those cut out before."""
    source, target = [*letters], list[str]()
    for number, (start, end) in enumerate(spans):
        target += [f"<{number}>", *source[start:end]]
        source[start:end] = [f"<{number}>"]
    return source, [*target, f"<{len(spans)}>"]


def _each_marked(letters: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str]:
    """A marker for each letter of a span."""
    source = [*letters]
    for number, (start, end) in enumerate(spans):
        source[start:end] = [f"<{number}>"] * (end - start)
    return source


def _letters(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if not label.startswith("<")]


@exercise(
    "Spans cut out as in T5",
    hints=[
        "Go through the spans from left to right, and keep in mind where the last one ended.",
        "In front of a span the encoder gets what is between it and the one before; behind the last span it gets the rest.",
        "Both texts have the marker of a span; behind its marker the decoder writes what stood in it.",
    ],
    points=2,
)
def cut_out(answer):
    for word, spans in (
        ("letter", [(2, 4)]),
        ("pronounce", [(1, 3), (6, 8)]),
        ("abcdefghij", [(0, 2), (4, 5), (8, 10)]),
        ("text", []),
        ("all", [(0, 3)]),
        ("abcdef", [(1, 3), (3, 5)]),
        ("aabbaabb", [(1, 2), (3, 4), (5, 6), (7, 8)]),
    ):
        letters = list(word)
        given = [("letters", word), ("spans", spans)]
        mine = list(letters)
        got = call(answer, mine, list(spans))
        if mine != letters:
            wrong(
                "The list of letters that it was given has changed.",
                given,
                "Build new lists: the text is needed again.",
            )
        source, target = _pair(got, "what the encoder gets, and what the decoder writes", "return source, target")
        if isinstance(source, str) or isinstance(target, str):
            wrong(
                "It gives texts, where lists of labels are wanted.",
                [*given, ("got", got)],
                'A marker is one label: ["p", "<0>", "n"].',
            )
        right = _cut(letters, spans)
        source, target = (list(each) if isinstance(each, tuple) else each for each in (source, target))
        if [source, target] != [*right]:
            sizes = [(start, start + end) for start, end in spans]
            for other, what, rule in (
                (right[::-1], "The two are returned the wrong way round.", "First what the encoder gets."),
                (_cut(letters, spans, last=False), "The last marker is missing.", "The decoder writes one more marker: nothing follows."),
                (_cut(letters, spans, kept=False), "What is behind the last span is missing.", "The encoder gets it."),
                (_cut(letters, spans, first=1), "The markers are counted from 1.", "From <0>."),
                (_cut(letters, spans, inside=1), "The end of a span belongs to it.", "(1, 3) holds the letters 1 and 2."),
                (_cut(letters, sizes), "A span is taken for a start and a length.", "It is a start and an end."),
                (_shifted(letters, spans), "Later spans are shifted by what was cut out before them.", "A span counts in the whole text."),
                ((_each_marked(letters, spans), right[1]), "The encoder gets a marker for each letter.", "One for the whole span."),
                ((_letters(right[0]), right[1]), "The encoder gets no markers.", "Each span leaves one behind."),
                ((right[0], _letters(right[1])), "The decoder writes no markers.", "Each is in front of what stood in its place."),
                ((right[0], [*letters]), "The decoder writes the whole text.", "Only what is missing, with markers."),
            ):  # fmt: skip
                if spans and [source, target] == [*other]:
                    wrong(what, given, rule)
        check_same(list(source), right[0], what="What the encoder gets", given=given)
        check_same(list(target), right[1], what="What the decoder writes", given=given)


class _Tied(nn.Module):
    """Modules whose names begin alike, one inside another, and an output with the table of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(5, 4)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) for _ in range(12))
        self.norm, self.say = nn.LayerNorm(4), nn.Linear(4, 3)
        self.guess = nn.Linear(4, 5, bias=False)
        self.guess.weight = self.letters.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.letters(x)
        for layer in self.layers:
            x = x + layer(x)
        x = self.norm(x)
        return self.guess(x).logsumexp(-1).sum() + self.say(x).square().sum()


def _under(model: nn.Module, frozen: Sequence[str]) -> set[int]:
    return {id(parameter) for name in frozen for parameter in model.get_submodule(name).parameters()}


def _refuse(what: str, names: Sequence[str], given: Sequence[tuple[str, object]], rule: str) -> NoReturn:
    wrong(what, [*given, ("such parameters", ", ".join(names[:4]) + (" ..." if names[4:] else ""))], rule)


@exercise(
    "Modules frozen",
    hints=[
        "A module of torch has requires_grad_, which is passed on to all parameters in it.",
        "get_submodule finds a module by its name, and raises an error if there is none.",
        "What was frozen before has to be trained again: begin with that. The list holds what still requires a gradient.",
    ],
    points=2,
)
def freeze(answer):
    torch_seed = torch.Generator().manual_seed(7)
    for frozen in (["layers.1"], ["letters", "norm"], [], ["layers"], ["layers.0.2", "say"], ["guess"]):
        model = _Tied()
        for parameter in model.parameters():
            parameter.data = torch.randn(parameter.shape, generator=torch_seed) / 3
        model.layers[3].requires_grad_(False)  # by somebody before
        _judge_frozen(answer, model, frozen)
    for unknown in ("layer", "layers.12", "letter", "say.weight"):
        try:
            got = call(answer, _Tied(), ["letters", unknown])
        except (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            continue
        wrong(
            "A name that the model does not have is accepted.",
            [("frozen", ["letters", unknown]), ("got", kind_of(got))],
            "model.get_submodule raises an error for it. A parameter is no module, nor is the beginning of a name.",
        )


def _judge_frozen(answer: Any, model: nn.Module, frozen: Sequence[str]) -> None:
    given = [("frozen", frozen)]
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    before = {name: values.detach().clone() for name, values in model.named_parameters()}
    got = call(answer, model, list(frozen))
    if not isinstance(got, (list, tuple)) or not all(isinstance(each, nn.Parameter) for each in got):
        wrong(
            "A list of parameters is wanted.",
            [*given, ("got", kind_of(got))],
            "An optimizer takes it: torch.optim.AdamW(freeze(model, frozen)).",
        )
    ids, under = [id(each) for each in got], _under(model, frozen)
    shared = [
        name
        for name, each in model.named_parameters(remove_duplicate=False)
        if id(each) in under and name != names[id(each)]
    ]
    for name, values in model.named_parameters():
        if not torch.equal(values, before[name]):
            wrong("A value of the model has changed.", [*given, ("parameter", name)], "Freezing changes no number.")
    if [each for each in ids if each in under]:
        _refuse(
            "Parameters that are frozen are given to the optimizer.",
            [names[each] for each in ids if each in under],
            given,
            "Only what is left."
            if not shared
            else f"{shared[0]} is the same parameter under another name: a frozen module keeps it, whoever else has it. "
            "named_parameters() gives one name only.",
        )
    if len(ids) > len(set(ids)):
        wrong("A parameter is in the list twice.", given, "An optimizer takes each once.")
    if strange := [each for each in ids if each not in names]:
        wrong("There are parameters in the list that the model does not have.", [*given, ("such", len(strange))])
    missing = [name for each, name in names.items() if each not in under and each not in ids]
    if missing:
        _refuse(
            "Parameters that are not frozen are missing.",
            missing,
            given,
            "layers.1 is not layers.10; and what was frozen before is trained, unless it is named.",
        )
    model(torch.tensor([0, 2, 4])).backward()
    reached = [name for name, each in model.named_parameters() if id(each) in under and each.grad is not None]
    if reached:
        _refuse(
            "A gradient is computed for what is frozen.",
            reached,
            given,
            "requires_grad_(False): it is not wanted, and costs half of the time.",
        )
    lacking = [name for name, each in model.named_parameters() if id(each) not in under and each.grad is None]
    if lacking:
        _refuse(
            "What is to be trained gets no gradient.",
            lacking,
            given,
            "requires_grad_(True) for all of it: somebody may have frozen it before.",
        )


def _pulls() -> Iterator[tuple[nn.Module, dict[str, torch.Tensor]]]:
    generator = torch.Generator().manual_seed(8)
    for left_out in ((), ("2.",), ("0.weight",)):
        model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 4))
        start = {}
        for name, values in model.named_parameters():
            values.data = torch.randn(values.shape, generator=generator)
            if not name.startswith(left_out) or not left_out:
                start[name] = torch.randn(values.shape, generator=generator).requires_grad_()
        yield model, start


@exercise(
    "A pull to the start",
    hints=[
        "named_parameters() gives names and values; `start` is asked by name.",
        "The squares of all numbers of all parameters are added: a sum, not a mean, and half of it.",
        "So that no gradient reaches the start: detach().",
    ],
)
def pull(answer):
    for model, start in _pulls():
        named = dict(model.named_parameters())
        given = [("model", ", ".join(named)), ("start", ", ".join(start))]
        apart = {name: (named[name] - start[name]).detach() for name in start}
        right = sum((each**2).sum() for each in apart.values()) / 2
        before = {name: values.detach().clone() for name, values in start.items()}
        model_before = {name: values.detach().clone() for name, values in named.items()}
        model.zero_grad()
        got = call(answer, model, dict(start))
        if [name for name, values in named.items() if not torch.equal(values, model_before[name])]:
            wrong(
                "The parameters of the model have changed.",
                given,
                "A term of the loss computes a number; the optimizer moves the parameters.",
            )
        if not is_same(got, right):
            total, numbers = 2 * right, sum(each.numel() for each in apart.values())
            others = sum((values**2).sum() for name, values in named.items() if name not in start) / 2
            for other, what, rule in (
                (total, "It is twice as much.", "Half of the sum of squares."),
                (total / numbers, "It is a mean.", "A sum over all numbers of all parameters."),
                (right / numbers, "It is a mean.", "A sum over all numbers of all parameters."),
                (right.sqrt(), "There is a root in it.", "Half of the sum of squares."),
                (total.sqrt(), "It is the distance, not its square.", "Half of the sum of squares."),
                (sum((each**2).mean() for each in apart.values()) / 2, "It is a sum of means.", "A sum over all numbers."),
                (sum(each.abs().sum() for each in apart.values()) / 2, "It adds how far the numbers are, not the squares.", "Squares."),
                (sum((values**2).sum() for values in named.values()) / 2, "It pulls to 0.", "To the values of the start."),
                (sum((named[name] ** 2).sum() for name in start) / 2, "It pulls to 0.", "To the values of the start."),
                (sum(each.norm() for each in apart.values()) / 2, "It adds distances, not their squares.", "Half of the sum of squares."),
                (right + others, "Parameters that are not in start are pulled to 0.", "They are free."),
            ):  # fmt: skip
                if is_same(got, other):
                    wrong(what, given, rule)
        check_same(got, right, what="The pull", given=given)
        if not isinstance(got, torch.Tensor) or not got.requires_grad:
            wrong(
                "No gradient reaches the model: the pull does not pull.",
                given,
                "detach() the start, not the model; no .item(), no no_grad().",
            )
        got.backward()
        for name, values in named.items():
            expected = apart.get(name, torch.zeros_like(values))
            check_same(
                torch.zeros_like(values) if values.grad is None else values.grad,
                expected,
                what=f"The gradient of {name}",
                given=given,
            )
        if [name for name, values in start.items() if values.grad is not None]:
            wrong("A gradient reaches the start, too.", given, "The start stays where it is: detach().")
        if [name for name, values in start.items() if not torch.equal(values, before[name])]:
            wrong("The start has changed.", given, "It is only read.")
