"""Checks of 08_errors: when decoding goes wrong."""

import math
from functools import cache
from pathlib import Path

from rfnb.models import load_g2p
from rfnb.teaching import call, exercise, truth_of, wrong
from rfnb.teaching.course import load
from rfnb.teaching.exercises import Unsolved

KINDS = ("right", "search error", "model error")


@cache
def model():
    return load_g2p()


@cache
def _searches():
    return vars(load(Path(__file__).parents[1] / "data/three_searches.py"))


# -- Whose fault --------------------------------------------------------------------------------------------------------


def _classify(output, output_score, references):
    if output in references:
        return "right"
    return "search error" if max(references.values()) > output_score else "model error"


_CASES = [
    ("S IY", -1.0, {"S IY": -1.0}),
    ("S IY", -2.0, {"S AY": -1.5}),
    ("S IY", -1.5, {"S AY": -2.0}),
    ("S IY", -1.0, {"S AY": -0.5, "S IY": -1.0}),
    ("S IY", -1.0, {"S IY": -1.0, "S AY": -0.5}),
    ("S IY", -2.0, {"S AY": -3.0, "S EY": -1.0}),
    ("S IY", -2.0, {"S EY": -1.0, "S AY": -3.0}),
    ("S IY", -2.0, {"S AY": -3.0, "S EY": -2.5}),
    ("S IY", -2.0, {"S IY Z": -3.0}),  # a part of it
    ("S IY Z", -2.0, {"S IY": -1.0}),
    ("S IY T", -2.0, {"T IY S": -1.0}),  # the same sounds
    ("S IY", -2.0, {"S EY": -2.0, "S AY": -1.0}),  # as probable as a reference that it is not
]
_SWAPPED = {"right": "right", "search error": "model error", "model error": "search error"}


@exercise(
    "Search error or model error",
    hints=[
        "First: is the output one of the references? `output in references`",
        "The model prefers what has the larger score. If it prefers a reference, the search has lost that.",
        "Several references: one that the model prefers is enough, so take the max of references.values().",
    ],
)
def classify(answer):
    got = [_kind(answer, *case) for case in _CASES]
    want = [_classify(*case) for case in _CASES]
    if got == want:
        return
    place = next(i for i, (one, other) in enumerate(zip(got, want)) if one != other)
    output, output_score, references = _CASES[place]
    rows = [("output", f"{output} ({output_score})"),
            ("references", ", ".join(f"{text} ({value})" for text, value in references.items())),
            ("got", got[place]), ("expected", want[place])]  # fmt: skip
    if got == [_SWAPPED[one] for one in want]:
        wrong("Search errors and model errors have changed places: it is a search error if the model prefers the reference, "
              "which has the larger score.", rows)  # fmt: skip
    if all(one != "right" for one in got):
        wrong("An output that is one of the references is right, whatever the scores are.", rows)
    if want[place] == "right":
        wrong(
            "One of several references is enough to be right; the others do not matter then, even if the model prefers them.",
            rows,
        )
    if got[place] == "right":
        wrong(
            "It is none of the references, and so not right.",
            rows,
            "Compare whole texts: no parts of them, no sounds in any order, no scores.",
        )
    if len(references) > 1:
        wrong(
            "There are several references, and the model prefers one of them as soon as the best of them has a larger score.",
            rows,
        )
    wrong(
        "This is of another kind.",
        rows,
        "Compare output_score with the scores of the references: the model prefers the larger one.",
    )


def _kind(answer, *case):
    got = call(answer, *case)
    if got not in KINDS:
        wrong("There are three kinds.", [("got", repr(got)), ("kinds", ", ".join(KINDS))])
    return got


# -- A reward per label -------------------------------------------------------------------------------------------------

_TEXT = "F AH N EH T IH K S <end>"


@cache
def _finished():
    """Score and number of labels of what ended in the search of the notebook, by its text."""
    import rfnb as rf
    from rfnb.data import g2p
    from rfnb.models.g2p import label_dim
    from rfnb.models.g2p_search import encode_batch

    with rf.stop_gradient_scope(), rf.record(kinds="beams") as trace:
        batch, encoded = encode_batch(model(), ["phonetics"])
        loop = rf.Loop(max_seq_len=28, name="search")
        loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=label_dim)
        loop.state.decoder = encoded.start
        for _ in loop:
            logits, loop.state.decoder = model().decoder(
                loop.state.label, encoded, state=loop.state.decoder, spatial_dim=rf.single_step_dim
            )
            loop.state.label = rf.choice(logits / 2.0, axis=label_dim, input_type="logits", beam_size=12)
            loop.end(loop.state.label == g2p.END_LABEL, include_eos=True)
    found = trace.beams["search"].finished(0)
    return {" ".join(one.labels): (one.score, len(one.tokens)) for one in found}


@exercise(
    "The smallest reward",
    hints=[
        "With this γ both are worth the same: score of <end> + γ · 1 = score of the pronunciation + γ · 9.",
        "γ is the difference of their scores, divided by the difference of their labels.",
        "The scores are in the record: wide.finished(0). Round up, or the pronunciation does not win.",
    ],
)
def gamma(answer):
    try:
        value = float(answer)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        wrong("This is no number.", [("got", repr(answer))], "gamma = 0.25")
    found = _finished()
    (empty, _), (full, labels) = found["<end>"], found[_TEXT]
    exact = (empty - full) / (labels - 1)
    if exact - 5e-4 <= value <= exact + 0.012:
        return
    if abs(value - (empty - full) / labels) < 0.006:
        wrong("The difference of the scores was divided by all 9 labels. The empty output has a label, too: <end>.")
    best = max(found, key=lambda text: found[text][0] + value * found[text][1])
    rows = [
        (text, f"{score:.2f} + {value:g} · {count} = {score + value * count:.2f}")
        for text, (score, count) in found.items()
        if text in ("<end>", _TEXT)
    ]
    if value < 0:
        wrong("A reward is positive: it makes up for what each label costs.", rows)
    if best == "<end>":
        wrong(f"With γ = {value:g} nothing still wins.", rows, "The larger sum wins; try a larger γ.")
    wrong(
        f"With γ = {value:g} the pronunciation wins, and with a smaller γ, too.",
        rows,
        "The smallest one is asked for, to two decimals.",
    )


# -- Loops --------------------------------------------------------------------------------------------------------------


def _ends_in_loop(labels, times=4):
    return any(
        list(labels[-size * times :]) == list(labels[-size:]) * times for size in range(1, len(labels) // times + 1)
    )


_LOOPS = [
    ("K K K K", 4, "One label, four times in a row, up to the end: a loop."),
    ("T IY K K K K K", 4, "What stands before it does not matter: the end is a loop."),
    (
        "T OW M AH T OW M AH T OW M AH T OW M AH",
        4,
        "A piece may have several labels: T OW M AH stands there four times.",
    ),
    ("B AE N AE N AE N AE N", 4, "A piece may have two labels: AE N stands there four times."),
    ("M IH S IH S IH P IY", 4, "Nothing stands there four times in a row, so it is none."),
    ("K K K", 4, "Three times are fewer than four."),
    ("K K K", 3, "`times` is an argument: here three times are enough."),
    ("K K K K T", 4, "The loop is not at the end: it came out of it."),
    ("K T K P K S K", 4, "A label that comes back is no loop: the piece stands there several times in a row."),
    ("", 4, "Nothing is no loop."),
    ("T AH M EY T OW " * 4, 4, "A piece may be long: T AH M EY T OW stands there four times."),
    ("M AA AA", 4, "Labels are compared, not letters: AA is one label, and stands there twice."),
    ("NG G G G", 4, "Labels are compared, not letters: NG is another label than G, which stands there three times."),
    ("B AA N AA N AA", 4, "Neither AA nor N AA stands there four times."),
]


@exercise(
    "What ends in a loop",
    hints=[
        "Try all sizes of a piece, from 1 to len(labels) // times.",
        "The piece of a size is labels[-size:]. Is labels[-size * times:] the same as the piece * times?",
        "One size for which that is so is enough: any(...).",
    ],
)
def ends_in_loop(answer):
    for text, times, why in _LOOPS:
        labels = text.split()
        want, got = _ends_in_loop(labels, times), truth_of(answer, list(labels), times)
        if got != want:
            wrong(why, [("labels", text or "none"), ("times", times), ("got", got), ("expected", want)])


# -- Broken searches ----------------------------------------------------------------------------------------------------

_CLUES = {
    "A": "follow a hypothesis past its <end>: what comes after it, and what becomes of its score?",
    "B": "compare what it says with the winner in its own picture, label by label.",
    "C": "the result and the picture agree, and nothing comes after <end>. Is its score the model's?",
}


@exercise(
    "Three culprits",
    hints=["A search is right if what it says is what it drew, and if its scores are the model's.", *_CLUES.values()],
)
def culprits(answer):
    truth = _searches()["FAULTS"]
    if not isinstance(answer, dict) or set(answer) != set(truth):
        wrong(
            "The answer is a dict with A, B and C.",
            [("got", repr(answer)[:80])],
            'culprits = {"A": END, "B": LENGTH, "C": STATES}',
        )
    if any(value is Ellipsis for value in answer.values()):
        raise Unsolved
    unknown = [value for value in answer.values() if value not in truth.values()]
    if unknown:
        wrong("There are three faults: END, LENGTH and STATES.", [("got", repr(unknown[0])[:80])])
    if len(set(answer.values())) < len(truth):
        wrong("Each of the three has a fault of its own.", [(name, value) for name, value in answer.items()])
    missed = [name for name in truth if answer[name] != truth[name]]
    if missed:
        names = f"{', '.join(missed[:-1])} and {missed[-1]}"
        wrong(f"{names} are mixed up. Look at {missed[0]}: {_CLUES[missed[0]]}")


class _Spy:
    """A search that counts its calls, so that a check which never asks it is told."""

    def __init__(self, search):
        self.search, self.calls = search, 0

    def __call__(self, word, beam_size=4):
        self.calls += 1
        return self.search(word, beam_size)


def _off(search, much):
    """A right search whose scores are off by so much."""

    def other(word, beam_size=4):
        found = search(word, beam_size)
        return found._replace(score=found.score + much)

    return other


@exercise(
    "A check for searches",
    hints=[
        "The score of a search is a promise, and score(...) asks the model itself: lists of words and of phonemes go in, a list comes out.",
        "Floats are the same up to rounding: 1e-3 is enough. What stands behind the comma of an assert is said where it fails.",
        "Try it with more than one word: on easy ones the states hardly matter. Is parachute among them?",
    ],
    points=2,
)
def check_search(answer):
    module = _searches()
    right = _Spy(module["of"](model(), ""))
    if _raised(answer, right):
        rule = "Are floats compared with a tolerance? Scores are summed in another order: abs(a - b) < 1e-3."
        wrong("It stops a search that is right.", [("said", _raised(answer, right).splitlines()[0])], rule)
    if not right.calls:
        wrong("It never calls the search.", rule="found = search(word, beam_size=4)")
    if _raised(answer, _off(module["of"](model(), ""), 2e-5)):
        wrong(
            "It stops a right search whose scores are off by rounding, 0.00002.",
            rule="Compare floats by abs(a - b) < 1e-3.",
        )
    missed = [fault for fault in module["FAULTS"].values() if not _raised(answer, module["of"](model(), fault))]
    why = (
        "An AssertionError says that a search is broken; returning False says nothing."
        if answer(right) is not None
        else ""
    )
    hints = {
        "the end label is not final": "Its text is often right, and its score has paid for what came after the end.",
        "the length is off by one": "What it says is not what it found: its score is that of a longer output.",
        "states do not follow": "On most words nothing is to be seen, and on the others little: by its score, and on hard words.",
    }
    if missed:
        wrong(f"It does not notice: {', '.join(missed)}.", rule=why or hints[missed[-1]])
    if not _raised(answer, _off(module["of"](model(), ""), 0.02)):
        wrong(
            "It does not notice a search whose scores are too large by 0.02.",
            rule="Rounding is far below that: abs(a - b) < 1e-3.",
        )


def _raised(answer, search) -> str:
    """What the check says of a search; "": nothing."""
    try:
        answer(search)
    except AssertionError as error:
        return str(error) or "AssertionError"
    return ""
