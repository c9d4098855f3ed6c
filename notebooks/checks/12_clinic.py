"""Checks of 12_clinic: a student's check is tried on healthy models, on the patient, and on models that are broken in another way.

A patient that is mended gives what its sound twin gives; if it does not, it is examined: is it ill as before, ill otherwise, or healthy
and another model?
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

import rfnb as rf
from rfnb.teaching import call as called
from rfnb.teaching import check_same, exercise, is_same, kind_of, truth_of, wrong
from rfnb.teaching.course import load

clinic = vars(load(Path(__file__).parents[1] / "data/clinic.py"))


def tried(number, cases, ask):
    """Says which model a student's check judges wrongly.

    Args:
        number: Of the patient.
        cases: (what it is about, data) for each try; the check has to be right in each.
        ask: Of a model and data, what the check says.
    """
    veiled = clinic["Veiled"]
    healthy = {"the healthy model": clinic["HEALTHY"][number], **clinic["OTHERS"][number]}
    ill = {"the patient": clinic["PATIENTS"][number], **clinic["VARIANTS"][number]}
    accused, missed = [], []
    for about, data in cases:
        accused += [(name, about) for name, model in healthy.items() if not ask(veiled(model), data)]
        missed += [(name, about) for name, model in ill.items() if ask(veiled(model), data)]
    if not accused and len(missed) == len(ill) * len(cases):
        wrong(
            "Your check passes every model, the patient too.",
            [("tried on", cases[0][0])],
            "It is to be False where something is wrong.",
        )
    if len(accused) == len(healthy) * len(cases) and not missed:
        wrong(
            "Your check fails every model, the healthy one too.",
            [("tried on", cases[0][0])],
            "It is to be True where nothing is wrong.",
        )
    for name, about in accused:
        wrong(
            "Your check fails a healthy model.",
            [("which one", name), ("tried on", about)],
            "Compare only what has to be the same, up to rounding.",
        )
    for name, about in missed:
        if name == "the patient":
            wrong(
                "Your check passes the patient.",
                [("tried on", about)],
                "Look again at where it differs: is that place compared?",
            )
    for name, about in missed:
        wrong(
            "Your check finds the patient, but passes another model with the same disease.",
            [("what is wrong with it", name), ("tried on", about)],
            "A check is for the rule that is broken, not for one way of breaking it.",
        )


def call(answer, *given):
    """Calls a check; one that stops by an assertion has found something."""
    try:
        return truth_of(answer, *given)
    except AssertionError:
        return False


@exercise(
    "Alone or in a batch",
    hints=[
        "One call with the batch, then one for each sequence alone: cut to its length, with an axis for a batch of one.",
        "Compare alone[0] with together[seq, : lengths[seq]], for every seq: the first one may be right by luck.",
    ],
    points=2,
)
def alone_or_together(answer):
    cases = [
        (f"sequences of {', '.join(map(str, lengths))} frames", clinic["batch"](lengths, seed))
        for seed, lengths in enumerate(((6, 4, 3), (5, 5, 4), (2, 7, 1)))
    ]
    tried(1, cases, lambda model, data: call(answer, model, *(part.clone() for part in data)))


@exercise(
    "Blind to padding",
    hints=[
        "Put other numbers into the padding of a copy, x.clone(): it begins at the length of each sequence.",
        "Compare what the model makes of both: only real frames, and those of all sequences.",
    ],
    points=2,
)
def blind_to_padding(answer):
    cases = [
        (f"sequences of {', '.join(map(str, lengths))} frames", clinic["batch"](lengths, seed))
        for seed, lengths in enumerate(((6, 4, 3), (2, 7), (3, 5, 5)))
    ]
    tried(2, cases, lambda model, data: call(answer, model, *(part.clone() for part in data)))


@exercise(
    "Whole and step by step",
    hints=[
        "Go through the tokens with model.step, hand the cache on, and compare each row with that of model.whole(tokens).",
        "Logits are compared, not the best labels: these may be the same by luck. torch.allclose(logits, whole[place], atol=1e-5)",
    ],
    points=2,
)
def steps_agree(answer):
    texts = ([1, 4, 2, 5, 3, 1, 2], [0, 0, 0, 0, 0, 0], [5, 1, 5, 1, 5, 1, 5, 1])
    cases = [(f"the text {' '.join(map(str, text))}", torch.tensor(text)) for text in texts]
    tried(3, cases, lambda model, data: call(answer, model, data.clone()))


@exercise(
    "Nothing is left of the last call",
    hints=[
        "Two models: used = make(), which has heard `first`; and a new one, make().",
        "used(first), and then used(second) has to be make()(second).",
    ],
    points=2,
)
def forgets(answer):
    made = clinic["made"]
    cases = [
        (f"two sequences of {size} frames", (made((size, 3), 2 * size), made((size, 3), 2 * size + 1)))
        for size in (5, 2, 60)  # in the long one nothing of it is left at the end
    ]
    tried(4, cases, lambda make, data: call(answer, make, *(part.clone() for part in data)))


@exercise(
    "Scores are true",
    hints=[
        "For each pair (labels, score) of search(model, 4, 6) compare the score with model.score(labels).",
        "Each hypothesis counts, not only the best one, and up to rounding: two sums of the same numbers may differ by 1e-6.",
    ],
    points=2,
)
def scores_are_true(answer):
    cases = [(f"the model clinic.Speller({seed})", clinic["Speller"](seed)) for seed in (0, 1, 5)]
    tried(5, cases, lambda search, model: call(answer, search, model))


# The patients, mended


def examined(got, wanted, given, what, *, real=None, as_before=None, ill=None, mistakes=(), rule=""):
    """Says what is wrong with a patient that was mended, if something is.

    Args:
        got, wanted: What it gives, and what its sound twin gives.
        given: Lines to show.
        what: The subject of a sentence on what differs.
        real: Where both count, over their first axes. Default: everywhere.
        as_before: What the patient gives, where it gives something else.
        ill: Calls `wrong` if it is ill by the rule of its check.
        mistakes: (what it gives, a sentence, a rule) of usual ones.
    """
    here = (lambda each: each) if real is None else (lambda each: each[real])
    if is_same(here(got), here(wanted)):
        return
    if as_before is not None and is_same(here(got), here(as_before)):
        wrong("The patient is as ill as before.", given, rule)
    for other, said, why in mistakes:
        if is_same(here(got), here(other)):
            wrong(said, given, why)
    if ill is not None:
        ill()
        what = f"It is healthy now, but another model: {what[0].lower()}{what[1:]}"
    only = got if real is None else torch.where(real[..., None], got, wanted.to(got.dtype))
    check_same(only, wanted, what=what, given=given)


def random(seed):
    generator = torch.Generator().manual_seed(seed)
    return lambda *sizes: torch.randn(sizes, generator=generator)


def real_of(lengths, size):
    return torch.arange(size) < torch.as_tensor(lengths)[:, None]


def array_of(got, shape, given, what="The result"):
    """What an answer gives as a tensor of torch of this shape."""
    if isinstance(got, rf.Tensor):
        wrong(f"{what} is an rf.Tensor.", given, "Its caller is torch: copy_compatible_to_dims_raw gives the array.")
    if not isinstance(got, (torch.Tensor, np.ndarray)):
        wrong(f"{what} is no tensor.", [*given, ("got", kind_of(got))])
    got = torch.as_tensor(got).detach()
    if tuple(got.shape) != tuple(shape):
        rows = [("got", tuple(got.shape)), ("expected", tuple(shape))]
        wrong(f"{what} has another shape:", [*given, *rows])
    return got


def encoded(x, to, back, start=0.0):
    """A recurrent network over the frames of each sequence."""
    state, out = torch.full((len(x), len(back)), start), []
    for frame in x.unbind(1):
        state = torch.tanh(frame @ to + state @ back)
        out.append(state)
    return torch.stack(out, 1)


@exercise(
    "Patient 1, mended",
    hints=[
        "x is (batch, time, feature). What does `for frame in x` go over?",
        "Three places depend on which axis is time: the loop, the number of states at its beginning, and the stack at its end.",
    ],
)
def mended_encoder(answer):
    for lengths, features, units in (((6, 4, 3), 3, 4), ((2, 5), 4, 3), ((3,), 2, 5), ((4, 4, 4, 4), 3, 3)):
        draw, size = random(features), max(lengths)
        x, to, back = draw(len(lengths), size, features), draw(features, units), draw(units, units) / 2
        given = [("lengths", lengths), ("features", features), ("units", units)]
        got = called(answer, x.clone(), torch.tensor(lengths), to.clone(), back.clone())
        got, right = array_of(got, (len(lengths), size, units), given), encoded(x, to, back)
        real = real_of(lengths, size)

        def ill(x=x, to=to, back=back, lengths=lengths, given=given, got=got):
            for seq, length in enumerate(lengths):
                alone = called(
                    answer, x[seq : seq + 1, :length].clone(), torch.tensor([length]), to.clone(), back.clone()
                )
                alone = array_of(alone, (1, length, len(back)), [("lengths", (length,)), *given[1:]])
                if not is_same(alone[0], got[seq, :length]):
                    at = next(at for at in range(length) if not is_same(alone[0, at], got[seq, at]))
                    rows = [("sequence, frame", (seq, at)), ("alone", alone[0, at]), ("in the batch", got[seq, at])]
                    wrong("It is still ill: a sequence gets other numbers alone than in the batch.", [*given, *rows])

        # fmt: off
        mistakes = [
            (encoded(x, to, back, 1.0), "The state begins with ones.", "Before the first frame it is 0."),
            (encoded(x.flip(1), to, back).flip(1), "It reads from the right.", "The first frame comes first."),
            (encoded(x.flip(1), to, back), "It reads from the right.", "The first frame comes first."),
            (encoded(x, to, back * 0), "The state is not used.", "tanh(frame @ to + state @ back)"),
        ]
        # fmt: on
        before = clinic["patient_encoder"](x, None, to, back)
        examined(got, right, given, "What it gives for real frames", real=real, as_before=before, ill=ill, mistakes=mistakes,
                 rule="The loop goes over the first axis, which is the batch.")  # fmt: skip


@exercise(
    "Patient 2, mended",
    hints=[
        "Which positions get -1e30 now, those that are real or those that are padding?",
        "A source is real where its position is below the length of its sequence; rf.where(condition, a, b) is a where that is so.",
    ],
)
def mended_attention(answer):
    for lengths, features in (((6, 4, 3), 3), ((2, 5), 4), ((3,), 2), ((1, 4), 3)):
        size, x, counts = max(lengths), random(features)(len(lengths), max(lengths), features), torch.tensor(lengths)
        given, real = [("lengths", lengths), ("features", features)], real_of(lengths, max(lengths))
        got = array_of(called(answer, x.clone(), counts.clone()), x.shape, given)

        def ill(x=x, counts=counts, real=real, given=given, got=got):
            other = torch.where(real[..., None], x, 100.0)
            again = array_of(called(answer, other, counts.clone()), x.shape, given)
            if not is_same(again[real], got[real]):
                at = next(at for at in real.nonzero().tolist() if not is_same(again[*at], got[*at]))
                rows = [("sequence, frame", tuple(at)), ("before", got[*at]), ("with 100 in the padding", again[*at])]
                wrong(
                    "It is still ill: with 100 in the padding, real frames get other numbers.",
                    [*given, *rows],
                    "No real frame looks at padding: the positions from the length of a sequence on.",
                )

        energy = x @ x.mT
        masked = lambda rule, energy=energy, x=x: energy.masked_fill(~rule[:, None], -1e30).softmax(-1) @ x  # noqa: E731
        one_less = masked(torch.arange(size) < (counts[:, None] - 1).clamp(min=1))
        # fmt: off
        mistakes = [
            (energy.softmax(-1) @ x, "Nothing is masked: real frames look at padding.", "Padding gets -1e30."),
            (masked(torch.arange(size) <= counts[:, None]), "One frame of padding is still seen.", "Positions begin with 0."),
            (one_less, "The last real frame is masked, too.", "Positions begin with 0: a length of 3 has 0, 1 and 2."),
            (energy.masked_fill(~real[:, None], 0.0).softmax(-1) @ x, "Padding gets the energy 0, and so a weight.",
             "Only -inf, or a number as far below, gives a weight of 0."),
            (torch.where(real[:, None], energy.softmax(-1), 0.0) @ x, "The weights of real frames do not sum to 1.",
             "Mask before the softmax."),
        ]
        # fmt: on
        before = clinic["patient_attention"](x, counts)
        examined(got, masked(real), given, "What it gives for real frames", real=real, as_before=before, ill=ill,
                 mistakes=mistakes, rule="Those that are below the length are the real ones.")  # fmt: skip


def spoken(step, model, tokens):
    """The logits of a text, step by step, and the caches on the way."""
    cache, rows, caches = torch.zeros(0, model.letters.shape[1]), [], []
    for token in tokens:
        caches.append(cache)
        both = called(step, model, token, cache)
        if not isinstance(both, (tuple, list)) or len(both) != 2:
            wrong(
                "Two values are wanted: the logits, and the next cache.",
                [("got", kind_of(both))],
                "return logits, cache",
            )
        logits, cache = both
        rows.append(array_of(logits, (model.out.shape[1],), [("token", int(token))], "The first value, the logits,"))
    return torch.stack(rows), caches


def as_language(draw, labels, size):
    model = clinic["Language"]()
    model.letters, model.positions, model.out = draw(labels, size), draw(40, size), draw(size, labels)
    return model


@exercise(
    "Patient 3, mended",
    hints=[
        "How many letters are in the cache when the first letter comes, and which position has that letter?",
        "The position of a letter is the number of letters before it.",
    ],
)
def mended_step(answer):
    for tokens, labels, size in (([1, 0, 2], 3, 2), ([1, 4, 2, 5, 3, 1, 2], 6, 4), ([0, 0, 0, 0, 0], 4, 3)):
        model = as_language(random(labels), labels, size)
        text, given = torch.tensor(tokens), [("text", tokens)]
        right = model.whole(text)
        got, caches = spoken(answer, model, text)
        whole = lambda shift, model=model, text=text: shifted(model, text, shift)  # noqa: E731

        def ill(got=got, right=right, given=given):
            at = next(at for at in range(len(right)) if not is_same(got[at], right[at]))
            rows = [("letter", at), ("step by step", got[at]), ("whole", right[at])]
            wrong("It is still ill: step by step a letter gets other logits than in the whole text.", [*given, *rows])

        # fmt: off
        mistakes = [
            (whole(-1), "Now every letter stands one too far left.", "The first letter has position 0."),
            (whole(None), "No letter has a position.", "To the letter its position is added."),
            (torch.stack([model.positions[0] + model.letters[token] for token in text]) @ model.out,
             "Each letter sees itself alone.", "The cache goes on from step to step."),
        ]
        # fmt: on
        examined(
            got,
            right,
            given,
            "What it says",
            as_before=whole(1),
            ill=ill,
            mistakes=mistakes,
            rule="The number of letters in the cache is the position of the next one.",
        )  # fmt: skip
        again = called(answer, model, text[1], caches[1])[0]
        if not is_same(torch.as_tensor(again).detach(), right[1]):
            wrong("The cache that it gets is changed.", given, "Two texts with one beginning share it: make a new one.")


def shifted(model, text, by):
    """The logits of a text whose positions are too large by a number; None: without positions."""
    places = (torch.arange(len(text)) + (by or 0)) % len(model.positions)
    x = model.letters[text] + (0.0 if by is None else model.positions[places])
    energy = (x @ x.T).masked_fill(torch.ones(len(x), len(x)).triu(1) > 0, -torch.inf)
    return (energy.softmax(-1) @ x) @ model.out


@exercise(
    "Patient 4, mended",
    hints=[
        "Where does the first frame of a call get the state from that it goes on with?",
        "Each call begins with zeros, as many as the model has units: len(model.back).",
    ],
)
def mended_call(answer):
    for frames, features, units in ((3, 3, 4), (1, 2, 3), (6, 4, 2)):
        draw = random(frames)
        to, back = draw(features, units), draw(units, units) / 2
        model = SimpleNamespace(to=to, back=back, state=torch.zeros(units))
        ill_one = SimpleNamespace(to=to, back=back, state=torch.zeros(units))
        for number in range(3):
            x = draw(frames, features)
            given = [("frames", frames), ("units", units), ("call", number + 1)]
            got = array_of(called(answer, model, x.clone()), (frames, units), given)
            right, before = encoded(x[None], to, back)[0], clinic["patient_call"](ill_one, x)
            # fmt: off
            mistakes = [
                (encoded(x[None], to, back, 1.0)[0], "The state begins with ones.", "Before the first frame it is 0."),
                (encoded(x[None], to, back * 0)[0], "The state is not used.", "tanh(frame @ model.to + state @ model.back)"),
                (encoded(x[None].flip(1), to, back)[0].flip(0), "It reads from the right.", "The first frame comes first."),
            ]
            # fmt: on
            examined(
                got,
                right,
                given,
                "What it gives",
                as_before=before if number else None,
                mistakes=mistakes,
                rule="Its first frame still goes on with the state of the call before.",
            )  # fmt: skip


def hypotheses_of(found, given):
    """What a search gives, as pairs of a tuple of labels and a score."""
    try:
        return [(tuple(int(one) for one in labels), float(score)) for labels, score in found]
    except (TypeError, ValueError):
        wrong("A list of pairs is wanted: labels, and their score.", [*given, ("got", kind_of(found))])


@exercise(
    "Patient 5, mended",
    hints=[
        "After a step the hypothesis in slot 0 may go on with what was in slot 2. Which state does it need?",
        "Whatever belongs to a hypothesis follows its parent: texts do. What else is there that belongs to one?",
    ],
)
def mended_search(answer):
    for seed, beam_size, steps in ((0, 4, 6), (1, 3, 5), (5, 4, 2), (2, 1, 6), (3, 5, 7)):
        model = clinic["Speller"](seed)
        given = [("model", f"clinic.Speller({seed})"), ("beam", beam_size), ("steps", steps)]
        got = hypotheses_of(called(answer, model, beam_size, steps), given)
        right = clinic["beam"](model, beam_size, steps)
        if [text for text, _ in got] == [text for text, _ in right] and is_same(
            *([s for _, s in each] for each in (got, right))
        ):
            continue
        before = clinic["patient_search"](model, beam_size, steps)
        if got and len(got) == len(before) and all(a == c and abs(b - d) < 1e-6 for (a, b), (c, d) in zip(got, before)):
            wrong("The patient is as ill as before.", given, "States do not follow their hypotheses.")
        for labels, score in got:
            if abs(score - (own := model.score(labels))) > 1e-6:
                rows = [("labels", labels), ("the search says", round(score, 4)), ("the model says", round(own, 4))]
                wrong("It is still ill: a hypothesis has a score that the model does not give to its labels.", [*given, *rows],
                      "Whatever belongs to a hypothesis follows its parent.")  # fmt: skip
        if sorted(got) == sorted(right):
            wrong("The hypotheses stand in another order.", given, "The best comes first, as before.")
        if len(got) != len(right):
            wrong("It gives another number of hypotheses.", [*given, ("got", len(got)), ("expected", len(right))])
        at = next((at for at, (one, other) in enumerate(zip(got, right)) if one[0] != other[0]), 0)
        rows = [("place", at), ("got", got[at][0]), ("expected", right[at][0])]
        wrong("Its scores are true, but it keeps others than the best.", [*given, *rows])


@exercise(
    "Patient 6, mended",
    hints=[
        "Which position has the first real label of a text whose first three are padding?",
        "The number of real labels before it. attention_mask is 1 where a label is real.",
        "A running sum of the mask counts the real labels up to each one. What padding gets does not matter, but it is no negative number.",
    ],
)
def mended_scores(answer):
    if (model := clinic["reader"]()) is None:
        wrong(
            "This cannot be checked here: transformers is not installed.",
            rule="In a terminal: pip install transformers. Then restart the kernel.",
        )
    # fmt: off
    cases = (((6, 4, 3), "left"), ((2, 5), "left"), ((3, 6, 1), "right"), ((4, 4), "left"))
    # fmt: on
    for lengths, side in cases:
        ids, mask = clinic["texts"](lengths, len(lengths), side)
        given, real = [("lengths", lengths), ("padding", side)], mask.bool()
        got = called(answer, model, ids.clone(), mask.clone())
        got = array_of(getattr(got, "logits", got), (*ids.shape, model.config.vocab_size), given)
        right, before = (clinic[name](model, ids, mask) for name in ("scores", "patient_scores"))

        def ill(ids=ids, mask=mask, given=given):
            check = rf.check_batch(clinic["ScoringModel"](model, answer), {"input_ids": ids, "attention_mask": mask})
            if check.ok:
                return
            leak = check.first
            rows = [("it begins in", str(leak)), *([("it comes from", str(leak.source))] if leak.source else [])]
            wrong("It is still ill: rf.check_batch finds that texts change with the batch.", [*given, *rows])

        # fmt: off
        mistakes = [
            (model(ids, attention_mask=mask, position_ids=mask.cumsum(1)).logits, "All positions are one too large.",
             "The first real label has position 0."),
            (model(ids, attention_mask=mask, position_ids=mask * 0).logits, "All labels have the same position.",
             "They count up: 0, 1, 2."),
        ]
        # fmt: on
        examined(
            got,
            right,
            given,
            "What it gives for real labels",
            real=real,
            as_before=before,
            ill=ill,
            mistakes=mistakes,
            rule="A text has other positions when there is padding before it.",
        )  # fmt: skip
