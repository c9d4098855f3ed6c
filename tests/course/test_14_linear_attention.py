"""Notebook 14, memory as a matrix: its checks tell right from wrong, and what it says is what its cells compute."""

from __future__ import annotations

import re

import pytest
import torch
from course.harness import Course

course = Course("14_linear_attention")
right = course.solutions


def linear(state, query, key, value, *, before=False, add=True):
    _, after = right.linear_step(state if add else 0 * state, query, key, value)
    return (query[..., None, :] @ (state if before else after))[..., 0, :], after


def delta(state, query, key, value, keep, write, *, asked=None, gate=True, wanted=None, part=None):
    kept = keep[..., None, None] * state if gate else state
    known = (key[..., None, :] @ (kept if asked is None else asked(state)))[..., 0, :]
    change = (part if part is not None else write[..., None]) * (value - known if wanted is None else wanted(value))
    after = kept + key[..., :, None] * change[..., None, :]
    return (query[..., None, :] @ after)[..., 0, :], after


def scores(query, key):
    return query @ key.mT


def chunks(query, key, value, size, *, first=False, goes_on=True, masked=True):
    state, found = torch.zeros(key.shape[1], value.shape[1]), []
    for q, k, v in zip(query.split(size), key.split(size), value.split(size)):
        new = state + k.T @ v if goes_on else k.T @ v
        inside = right.all_at_once(q, k, v) if masked else q @ k.T @ v
        found.append(inside + q @ (new if first else state))
        state = new
    return torch.cat(found)


ports = course.lesson.module("data/ports.py")


def faulty(kind):
    """The port with one fault that has the weights of its original."""
    return lambda theirs: ports.with_weights_of(kind, theirs)


WRONG = {
    "PortedDelta": {
        "Write and decay have changed places": faulty(ports.DeltaSwapped),
        "theirs has 1 - sigmoid": faulty(ports.DeltaKeeps),
        "asks the state before the gate": faulty(ports.DeltaLate),
        "adds instead of correcting": faulty(ports.DeltaLinear),
        "do not have length 1": faulty(ports.DeltaLong),
        "Nothing is forgotten": faulty(ports.DeltaForgetsNothing),
    },
    "linear_step": {
        "reads before it writes": lambda *given: linear(*given, before=True),
        "What was in the state is gone": lambda *given: linear(*given, add=False),
        "have changed places": lambda state, query, key, value: right.linear_step(state, key, query, value),
        "the wrong way round": lambda *given: right.linear_step(*given)[::-1],
        "only what this step has written": lambda state, query, key, value: (
            linear(state, query, key, value, add=False)[0],
            right.linear_step(state, query, key, value)[1],
        ),
        "It reads with the key": lambda state, query, key, value: (
            right.linear_step(state, key, key, value)[0],
            right.linear_step(state, query, key, value)[1],
        ),
        "as it was before": lambda state, *given: (right.linear_step(state, *given)[0], state),
        "Two values are wanted": lambda *given: right.linear_step(*given)[0],
    },
    "all_at_once": {
        "Each time sees all times": lambda query, key, value: scores(query, key) @ value,
        "does not see itself": lambda query, key, value: torch.tril(scores(query, key), -1) @ value,
        "sees the later ones, not the earlier": lambda query, key, value: torch.triu(scores(query, key)) @ value,
        "a softmax in it": lambda query, key, value: (
            scores(query, key).masked_fill(torch.ones_like(scores(query, key)).triu(1) > 0, float("-inf")).softmax(-1)
            @ value
        ),
        "a scale in it": lambda query, key, value: right.all_at_once(query, key, value) / key.shape[-1] ** 0.5,
        "have changed places": lambda query, key, value: right.all_at_once(key, query, value),
    },
    "delta_step": {
        "It adds the value": lambda *given: delta(*given, wanted=lambda value: value),
        "Only the value is multiplied by write": lambda state, query, key, value, keep, write: right.delta_step(
            state, query, key, write[..., None] * value, keep, torch.ones_like(write)
        ),
        "All of the difference": lambda *given: delta(*given, part=torch.ones_like(given[5])[..., None]),
        "Nothing is forgotten": lambda *given: delta(*given, gate=False),
        "from before the gate": lambda *given: delta(*given, asked=lambda state: state),
        "keep and write have changed places": lambda *given: right.delta_step(*given[:4], given[5], given[4]),
        "Key and query have changed places": lambda state, query, key, *given: right.delta_step(
            state, key, query, *given
        ),
        "the state from before this step": lambda state, query, *given: (
            (query[..., None, :] @ state)[..., 0, :],
            right.delta_step(state, query, *given)[1],
        ),
        "before the correction": lambda state, query, key, value, keep, write: (
            (query[..., None, :] @ (keep[..., None, None] * state))[..., 0, :],
            right.delta_step(state, query, key, value, keep, write)[1],
        ),
        "takes from what was just written": lambda state, query, key, value, keep, write: (
            lambda after: ((query[..., None, :] @ after)[..., 0, :], after)
        )(keep[..., None, None] * delta(state, query, key, value, keep, write, gate=False)[1]),
    },
    "response": {
        "forgets before the first output": lambda decay, write, read, n: right.response(decay, decay * write, read, n),
        "`read` is not used": lambda decay, write, read, n: right.response(decay, write, torch.ones_like(read), n),
        "`write` is not used": lambda decay, write, read, n: right.response(decay, torch.ones_like(write), read, n),
        "the response to 1, 1, 1": lambda *given: right.response(*given).cumsum(0),
        "in the wrong order": lambda *given: right.response(*given).flip(0),
        "the cells one by one": lambda decay, write, read, n: torch.stack([read * write * decay**at for at in range(n)]),
        "one output too many": lambda decay, write, read, n: right.response(decay, write, read, n + 1),
    },
    "chunked": {
        "begins with an empty state": lambda query, key, value, size: torch.cat(
            [
                right.all_at_once(*each)
                for each in zip(query.split(size), key.split(size), value.split(size))
            ]
        ),
        "knows the last chunk only": lambda *given: chunks(*given, goes_on=False),
        "are read twice": lambda *given: chunks(*given, first=True),
        "A chunk looks ahead": lambda *given: chunks(*given, masked=False),
        "which is shorter, is missing": lambda query, key, value, size: right.chunked(query, key, value, size)[
            : max(len(query) // size, 1) * size
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise])


@pytest.mark.parametrize("kind", ports.FAULTS[ports.Delta], ids=lambda kind: kind.__name__)
def test_each_fault_of_a_port_is_refused_with_a_line_and_by_its_name(kind):
    exercise = course.exercises[-1]
    said = course.judged(exercise, faulty(kind)).message
    assert ports.FAULTS[ports.Delta][kind] in said and "rf.diff: mine and theirs part in" in said
    assert re.search(r"^  line +\S", said, re.MULTILINE), said


@pytest.mark.notebook
def test_its_predictions_are_what_the_cells_compute(ran):
    ran.assert_truths(course.solutions.PREDICTIONS, but=("copying", "moved"))


@pytest.mark.notebook
def test_both_layers_show_their_matrices_and_gates(ran):
    views = [text for text in ran.shown("14-play") if "memory.matrix" in text]
    assert len(views) == 2 and all("forget_gate" in text for text in views)
    assert "key × value" in "".join(ran.shown("14-same"))


@pytest.mark.notebook
@pytest.mark.parametrize("cell", ["14-same", "14-convolution", "14-chunk-use"])
def test_all_forms_have_the_numbers_of_the_loop(ran, cell):
    (found,) = re.findall(r"largest difference from the loop.*: (\S+)\n", ran.printed(cell))
    assert float(found) < 1e-5


@pytest.mark.notebook
def test_the_delta_rule_spoils_the_oldest_pairs_and_a_sum_all_alike(ran):
    (view,) = (text for text in ran.shown("14-exact-reveal") if "Error of what is read" in text)
    first, last = ([float(number) for number in re.findall(rf"{word} ([\d.e-]+)", view)] for word in ("first", "last"))
    sums, corrections = zip(first, last)
    assert 0.5 < sums[0] / sums[1] < 2 and corrections[1] < 1e-3 < 0.5 < corrections[0]
