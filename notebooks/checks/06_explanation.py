"""Checks of 06_explanation: distances of distributions, moved weight, the stolen date, the monotonic head."""

import functools
import math

import numpy as np

import rfnb as rf
from rfnb.models import dates
from rfnb.teaching import call, check_same, exercise, wrong

_TEXT, _MEANT, _STOLEN = "3 march not 5 may 2021", "2021-03-03", "2021-05-03"
_MAY = 4
_SPARE = 0.02  # more mass than the least that still passes


@exercise(
    "Total variation",
    hints=[
        "Absolute differences, summed over the last axis.",
        "Half of it: else two with nothing in common were 2 apart.",
    ],
)
def total_variation(answer):
    p = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    q = np.array([[0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
    got = np.asarray(call(answer, p.copy(), q.copy()), dtype=float)
    given = [("p", p.tolist()), ("q", q.tolist()), ("got", got.tolist())]
    expected = np.array([0.25, 1.0])
    if got.shape == ():
        wrong("It gives one number for two pairs of distributions.", given, "Sum over the last axis only: axis=-1.")
    for mistake, what, rule in (
        (2 * expected, "It is twice the total variation.", "Half of the sum: 1 is for distributions with nothing in common."),
        ((p - q).sum(-1), "The differences cancel: what one has more, the other has less.", "Absolute differences."),
        (((p - q) ** 2).sum(-1) / 2, "These are squares.", "Absolute differences, not squared ones."),
        (np.abs(p - q).max(-1), "This is the largest difference.", "The sum of all of them, halved."),
        (np.abs(p - q).mean(-1), "This is the mean over the labels.", "The sum of all of them, halved."),
    ):  # fmt: skip
        if got.shape == expected.shape and np.allclose(got, mistake) and not np.allclose(mistake, expected):
            wrong(what, given, rule)
    check_same(got, expected, what="The result", given=given[:2])
    check_same(call(answer, p[0], q[0]), 0.25, what="The distance of two single distributions")
    p, q = np.random.default_rng(6).dirichlet(np.ones(5), (2, 3, 4))
    got, halves = np.asarray(call(answer, p.copy(), q.copy()), dtype=float), np.abs(p - q) / 2
    given = [("shape of p and q", p.shape)]
    if got.shape == (3, 4) and np.allclose(got, 2 * halves.max(-1)):
        wrong("This is the largest difference.", given, "The sum of all of them, halved.")
    if got.shape == (3, 4) and np.allclose(got, np.maximum(p - q, 0).max(-1)):
        wrong("This is the most that one label has more.", given, "The sum of all differences, halved.")
    check_same(got, halves.sum(-1), what="The result for five labels", given=given)


@exercise(
    "Move some weight",
    hints=[
        "Everything is scaled by 1 - mass; then there is room for mass.",
        "(1 - mass) * row makes a new array; add mass at the position.",
    ],
)
def move_mass(answer):
    row = np.array([0.5, 0.3, 0.2])
    kept = row.copy()
    for position, mass in ((2, 0.25), (0, 0.5), (1, 1.0), (1, 0.0)):
        got = np.asarray(call(answer, row, position, mass), dtype=float)
        expected = (1 - mass) * kept
        expected[position] += mass
        given = [("row", kept.tolist()), ("position", position), ("mass", mass), ("got", got.round(4).tolist())]
        if not np.array_equal(row, kept):
            wrong("The row that was given is changed.", given, "Make a new one: the next experiment needs the old one.")
        added, replaced = kept.copy(), (1 - mass) * kept
        added[position] += mass
        replaced[position] = mass
        only = np.zeros(3)
        only[position] = mass
        if got.shape == (3,) and not np.allclose(got, expected):
            if np.allclose(got, added):
                wrong(
                    "The rest is not scaled: the row sums to more than 1.", given, "Scale everything by 1 - mass first."
                )
            if np.allclose(got, added / added.sum()):
                wrong(
                    "It is divided by its sum afterwards: then less than mass is moved.",
                    given,
                    "Scale everything by 1 - mass, then add.",
                )
            if np.allclose(got, replaced):
                wrong("What was at the position before is lost.", given, "Add mass to it.")
            if np.allclose(got, only):
                wrong("All other weight is gone.", given, "The rest keeps its proportions.")
        check_same(got, expected, what="The new row", given=given[:3])
    row = np.array([0.1, 0.4, 0.2, 0.2, 0.1])
    expected = 0.75 * row + 0.25 * np.eye(5)[3]
    check_same(call(answer, row.copy(), 3, 0.25), expected, what="The new row of five", given=[("row", row.tolist())])


@functools.cache
def _rows():
    run = rf.run(dates.write, dates.trained(), [_TEXT], record={"model": dates.trained()})
    run.wait()
    return np.concatenate([step.numpy().reshape(1, -1) for step in run.trace.attention.steps("att")])


@functools.cache
def _written(step, mass):
    """The date with this edit."""
    row = (1 - mass) * _rows()[step]
    row[_MAY] += mass
    run = rf.run(dates.write, dates.trained(), [_TEXT], paused=True, record=False)
    if step:
        run.step(step)
    run.at.attention["att"][...] = row
    run.resume()
    return run.result[0]


@functools.cache
def _least():
    """The least mass that steals the date, to three places."""
    low, high = 0.0, 1.0
    while high - low > 5e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if _written(6, middle) == _STOLEN else (middle, high)
    return high


@exercise(
    "Steal the alignment",
    hints=[
        "2021-03-03 becomes 2021-05-03: which one character changes?",
        "The steps count from 0, and the dashes count too.",
        "Take the row that writes that character. Then halve: does 0.5 do? 0.25?",
    ],
    points=2,
)
def steal(answer):
    if not isinstance(answer, dict) or not {"step", "mass"} <= set(answer):
        wrong("It needs a step and a mass.", [("got", answer)], '{"step": 0, "mass": 0.5}')
    if answer["step"] is Ellipsis or answer["mass"] is Ellipsis:
        raise NotImplementedError
    step, mass = answer["step"], float(answer["mass"])
    if step not in range(10) or not 0 <= mass <= 1:
        wrong("There are the steps 0 to 9, and masses from 0 to 1.", [("step", step), ("mass", mass)])
    step = int(step)
    written = _written(step, mass)
    given = [("step", step), ("mass", mass), ("written", written)]
    if written == _STOLEN:
        if round(100 * mass) > math.ceil(100 * _least()) + 100 * _SPARE + 1e-6:  # two places are asked for
            wrong(
                "It is stolen, and less is enough.",
                given,
                "Halve the distance: try the middle between what does and what does not.",
            )
        return
    if written != _MEANT:
        wrong("Another date was written: this row decides something else.", given, f"{_STOLEN} is wanted.")
    if _written(step, 1.0) == _STOLEN:
        wrong("This is the row, and the mass is too little.", given)
    wrong(
        "Nothing changes, and more mass does not help in this step.",
        given,
        "Which character of the date has to become another one?",
    )


def _correlations(weights):
    positions = weights @ np.arange(weights.shape[2])
    rows = np.arange(weights.shape[1])
    return np.array([np.corrcoef(each, rows)[0, 1] if each.std() > 1e-6 else 0.0 for each in positions])


def _maps():
    """Heads that are told apart: sharp and backwards, forward, forward but blurred less monotonically, uniform, first column."""
    target, source = 6, 5
    forward = np.eye(source)[[0, 1, 1, 2, 3, 4]] * 0.6 + 0.4 / source
    jumping = np.eye(source)[[0, 3, 1, 4, 2, 4]]
    backward = np.eye(source)[[4, 4, 3, 2, 1, 0]]
    return np.stack([backward, np.full((target, source), 1 / source), jumping, np.eye(source)[[0] * 6], forward])


@exercise(
    "The monotonic head",
    hints=[
        "The expected positions: weights @ np.arange(source), which is (heads, target).",
        "np.corrcoef(positions[head], np.arange(target))[0, 1] is a correlation; of a constant it is NaN.",
        "The index of the largest: np.argmax, or max(range(heads), key=...).",
    ],
    points=2,
)
def most_monotonic(answer):
    maps = _maps()
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 1, 3], [1, 4, 3, 0, 2]):
        weights = maps[order]
        expected = int(_correlations(weights).argmax())
        got = call(answer, weights.copy())
        if np.ndim(got) or isinstance(got, (bool, float)) and got != int(got):
            wrong("The index of one head is wanted.", [("got", got)])
        got = int(got)
        if got != expected and 0 <= got < 5:
            kind = order[got]
            names = {
                0: ("This head goes backwards.", "The correlation has a sign: the largest one, not the largest in size."),
                1: ("This head is uniform: its expected position never moves.", "A constant has correlation 0; np.corrcoef says NaN."),
                2: ("This head is sharper, and jumps back and forth.", "Sharpness is another property than going from left to right."),
                3: ("This head always looks at the first position: it never moves.", "The position has to move with the row."),
            }  # fmt: skip
            wrong(names[kind][0], [("head", got), ("expected", expected)], names[kind][1])
        check_same(got, expected, what="The index")
    # Where means and spreads of the positions count: a head far to the right that hardly moves, and heads that all go backwards.
    still = np.eye(5)[[0, 1, 1, 2, 3, 4]] * 0.002 + np.eye(5)[[4] * 6] * 0.998
    slow = np.eye(5)[[0, 0, 1, 0, 1, 1]]
    backward = np.eye(5)[[4, 4, 3, 2, 1, 0]]
    for weights in (np.stack([slow, still]), np.stack([still, slow]), np.stack([backward, np.full((6, 5), 0.2)])):
        check_same(
            int(call(answer, weights.copy())), int(_correlations(weights).argmax()), what="Of two heads the index"
        )
    rng = np.random.default_rng(1)
    for _ in range(5):
        weights = rng.dirichlet(np.ones(7), size=(8, 6))
        check_same(int(call(answer, weights)), int(_correlations(weights).argmax()), what="Of random maps the index")
