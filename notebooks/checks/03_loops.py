"""The exercises of 03_loops.ipynb."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

import rfnb as rf
from rfnb.core.tensor_text import shape_of
from rfnb.teaching import call, check_padding, check_same, exercise, is_same, kind_of, wrong
from rfnb.teaching.course import load

COUNTER = Path(__file__).parents[1] / "data/counter.json"


class Weights:
    """Two words' frames and states, and what a gate adds up. The sizes differ."""

    def __init__(self, *parts: str, size: int = 2):
        self.batch, self.feature, self.unit = (
            rf.Dim(size, name="batch"),
            rf.Dim(3, name="feature"),
            rf.Dim(4, name="unit"),
        )
        self.before = rf.Dim(4, name="before")
        self.random = np.random.default_rng(len(parts))
        self.x = self.tensor(self.batch, self.feature)
        self.h, self.c = self.tensor(self.unit, self.batch), self.tensor(self.batch, self.unit)
        self.gate = {part: self.affine() for part in parts}

    def tensor(self, *dims: rf.Dim) -> rf.Tensor:
        values = self.random.normal(size=[dim.extent for dim in dims]).astype("float32")
        return rf.convert_to_tensor(values, dims=dims)

    def affine(self):
        of_x, of_h = self.of_x(), self.of_h()
        return lambda x, h: of_x(x) + of_h(h)

    def of_x(self):
        weight, bias = self.tensor(self.unit, self.feature), self.tensor(self.unit)
        return lambda x: rf.matmul(weight, x, reduce=self.feature) + bias

    def of_h(self):
        weight = self.tensor(self.unit, self.before)
        return lambda h: rf.matmul(
            weight, rf.replace_dim(h, in_dim=self.unit, out_dim=self.before)[0], reduce=self.before
        )


def _need_states(got: object, wanted: rf.Tensor, given: list[tuple[str, object]]) -> None:
    if isinstance(got, (tuple, list)):
        wrong(f"It returns {len(got)} values; one state is wanted.", given, "return h")
    if not isinstance(got, rf.Tensor):
        wrong("This is no Tensor of rf.", [*given, ("got", kind_of(got))], "Stay with rf.tanh, rf.sigmoid, * and +.")
    if set(got.dims) != set(wanted.dims):
        wrong("The state has other dims than before.", [*given, ("got", shape_of(got)), ("wanted", shape_of(wanted))])


@exercise(
    "One step of Elman's network",
    hints=[
        "add(x, h) is everything inside of the tanh.",
        "So the next state is one call of rf.tanh, of what add makes of x and h.",
    ],
)
def rnn_step(answer):
    weights = Weights("all")
    add, x, h = weights.gate["all"], weights.x, weights.h
    given = [("x", shape_of(x)), ("h", shape_of(h))]
    got, sums = call(answer, add, x, h), add(x, h)
    _need_states(got, h, given)
    for other, what, rule in (
        (sums, "The tanh is missing: the state can grow without bound.", "It keeps every number between -1 and 1."),
        (rf.sigmoid(sums), "This is the sigmoid, which is between 0 and 1.", "A state may be negative: tanh."),
        (rf.relu(sums), "This is the ReLU.", "Elman's network has a tanh."),
        (rf.tanh(sums) + h, "The old state is added once more.", "It is in add(x, h) already, with its weights."),
    ):
        if is_same(got, other):
            wrong(what, given, rule)
    check_same(got, rf.tanh(sums), what="The next state", given=given)


@exercise(
    "One step of an LSTM",
    hints=[
        "Three gates with a sigmoid: forget, input, output. One value with a tanh: new.",
        "The memory first: what is kept of c, plus what is added. Both are products with a gate.",
        "Then what is shown: the output gate times the tanh of the memory that you have just made. The state is returned first.",
    ],
    points=2,
)
def lstm_step(answer):
    weights = Weights("input", "forget", "new", "output")
    x, h, c = weights.x, weights.h, weights.c
    given = [("x", shape_of(x)), ("h", shape_of(h)), ("c", shape_of(c))]
    got = call(answer, dict(weights.gate), x, h, c)
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        wrong(
            "Two values are wanted, the next state and the next memory.",
            [*given, ("got", kind_of(got))],
            "return h, c",
        )
    sums = {name: gate(x, h) for name, gate in weights.gate.items()}
    keep, take, show = (rf.sigmoid(sums[name]) for name in ("forget", "input", "output"))
    new = rf.tanh(sums["new"])
    memory = keep * c + take * new
    state = show * rf.tanh(memory)
    for each, wanted in zip(got, (h, c)):
        _need_states(each, wanted, given)
    if is_same(got[0], memory) and is_same(got[1], state):
        wrong("The state and the memory are returned the wrong way round.", given, "return h, c")
    if not is_same(got[1], memory):
        for other, what, rule in (
            (take * c + keep * new, "The forget gate and the input gate have changed places.", "c' = f c + i c~"),
            (keep * c + take * sums["new"], 'The tanh of "new" is missing.', "What is added is between -1 and 1."),
            (
                keep * c + take * rf.sigmoid(sums["new"]),
                '"new" has a sigmoid: nothing negative is ever added.',
                "Its function is tanh.",
            ),
            (keep * c + new, "The input gate is missing.", "It says how much of the new value is added."),
            (c + take * new, "The forget gate is missing.", "It says how much of the memory is kept."),
            (sums["forget"] * c + sums["input"] * new, "The sigmoids are missing.", "A gate is between 0 and 1."),
            (
                (1 - take) * c + take * new,
                "The forget gate is not used.",
                "An LSTM has two gates here; only a GRU has one.",
            ),
            (
                rf.tanh(sums["forget"]) * c + rf.tanh(sums["input"]) * new,
                "The gates have a tanh.",
                "A gate is between 0 and 1: the sigmoid.",
            ),
            (
                rf.tanh(memory),
                "The memory has a tanh of its own.",
                "The tanh is for what is shown: h' = o tanh(c'); c' stays as it is.",
            ),
            (keep * h + take * new, "The state is kept instead of the memory.", "c' = f c + i c~, with c and not h."),
        ):
            if is_same(got[1], other):
                wrong(what, given, rule)
        check_same(got[1], memory, what="The next memory", given=given)
    if not is_same(got[0], state):
        for other, what, rule in (
            (show * memory, "The memory is shown without its tanh.", "h' = o tanh(c')"),
            (
                show * rf.tanh(c),
                "This shows the old memory.",
                "h' = o tanh(c'), of the memory that you have just made.",
            ),
            (rf.tanh(memory), "The output gate is missing.", "h' = o tanh(c')"),
            (show * rf.tanh(h), "This shows the old state, not the memory.", "h' = o tanh(c')"),
            (
                rf.tanh(sums["output"]) * rf.tanh(memory),
                "The output gate has a tanh.",
                "A gate is between 0 and 1: the sigmoid.",
            ),
            (
                sums["output"] * rf.tanh(memory),
                "The sigmoid of the output gate is missing.",
                "A gate is between 0 and 1.",
            ),
        ):
            if is_same(got[0], other):
                wrong(what, given, rule)
    check_same(got[0], state, what="The next state", given=given)


@exercise(
    "One step of a GRU",
    hints=[
        "Two gates with a sigmoid: reset and update. Then the new value, then a mixture of new and old.",
        "The reset gate stands outside of new_of_h: it scales w, not h.",
        "update says how much of h stays; what is left of 1 is for the new value.",
    ],
    points=2,
)
def gru_step(answer):
    weights = Weights("reset", "update")
    x, h = weights.x, weights.h
    of_x, of_h = weights.of_x(), weights.of_h()
    given = [("x", shape_of(x)), ("h", shape_of(h))]
    got = call(answer, dict(weights.gate), of_x, of_h, x, h)
    _need_states(got, h, given)
    sums = [weights.gate[name](x, h) for name in ("reset", "update")]
    reset, update = map(rf.sigmoid, sums)
    new = rf.tanh(of_x(x) + reset * of_h(h))
    state = (1 - update) * new + update * h
    if not is_same(got, state):
        inside = rf.tanh(of_x(x) + of_h(reset * h))
        whole = rf.tanh(of_x(x) + of_h(h))
        for other, what, rule in (
            (
                update * new + (1 - update) * h,
                "New and old have changed places: the update gate says how much of the old state stays.",
                "h' = (1 - z) n + z h",
            ),
            (
                (1 - update) * inside + update * h,
                "The reset gate is inside of new_of_h: that is the GRU of the paper.",
                "torch multiplies afterwards, so that the product with h can be computed with the others: n = tanh(u + r w)",
            ),
            ((1 - update) * whole + update * h, "The reset gate is missing.", "n = tanh(u + r w)"),
            (
                (1 - sums[1]) * rf.tanh(of_x(x) + sums[0] * of_h(h)) + sums[1] * h,
                "The sigmoids of the gates are missing.",
                "A gate is between 0 and 1.",
            ),
            (new, "The update gate is missing: nothing of the old state stays.", "h' = (1 - z) n + z h"),
            (
                reset * h + (1 - reset) * rf.tanh(of_x(x) + update * of_h(h)),
                "The two gates have changed places.",
                "n = tanh(u + r w), h' = (1 - z) n + z h",
            ),
            (
                (1 - update) * (of_x(x) + reset * of_h(h)) + update * h,
                "The tanh of the new value is missing.",
                "n = tanh(u + r w)",
            ),
        ):
            if is_same(got, other):
                wrong(what, given, rule)
    check_same(got, state, what="The next state", given=given)


def _read(step, x: rf.Tensor, time: rf.Dim, start: rf.Tensor) -> tuple[rf.Tensor, rf.Tensor]:
    loop = rf.Loop(axis=time)
    loop.state.h = start
    for _ in loop:
        loop.state.h = step(loop.unstack(x), loop.state.h)
        states = loop.stack(loop.state.h)
    return states, loop.state.h


@exercise(
    "A loop over time",
    hints=[
        "Three things come before the body: the loop over time, the state that begins with start, and the line that runs it.",
        "In the body, step gets the frame of this step and the state before it; what it gives is the next state.",
        "loop.stack collects the state as the last line of the body. After the loop, what it has given and loop.state.h are returned.",
    ],
    points=2,
)
def read(answer):
    weights = Weights("all", size=3)
    time = rf.ragged_dim([2, 5, 3], over=weights.batch, name="time")
    add = weights.gate["all"]

    def step(frame, h):
        return rf.tanh(add(frame, h))

    given = [("x", "[batch=3, time<=5, feature=3], lengths 2, 5, 3")]
    for order in ([weights.batch, time, weights.feature], [weights.feature, time, weights.batch]):
        x = weights.tensor(*order)
        got = call(answer, step, x, time, weights.c)
        if not isinstance(got, (tuple, list)) or len(got) != 2:
            wrong(
                "Two values are wanted: the states of all steps, and the last one.",
                [*given, ("got", kind_of(got))],
                "return states, loop.state.h",
            )
        states, last = _read(step, x, time, weights.c)
        if all(isinstance(each, rf.Tensor) for each in got):
            if time in got[1].dims and time not in got[0].dims:
                wrong("The last state comes first.", given, "return states, loop.state.h")
            if time not in got[0].dims:
                wrong(
                    "The first value has no time: these are not the states of all steps.",
                    [*given, ("got", shape_of(got[0]))],
                    "loop.stack(loop.state.h) in the loop collects them.",
                )
            for begin, what, rule in (
                (weights.c * 0, "It starts from 0 instead of from `start`.", "loop.state.h = start"),
                (weights.h, "It starts from another state.", "loop.state.h = start"),
            ):
                if is_same(got[0], _read(step, x, time, begin)[0]):
                    wrong(what, given, rule)
            if is_same(got[0], _read(lambda frame, h: step(frame, weights.c), x, time, weights.c)[0]):
                wrong(
                    "Each step begins with `start`: nothing is carried.",
                    given,
                    "loop.state.h is the state before this step; assign the next one to it.",
                )
            before = rf.shift_right(states, axis=time, pad_value=0.0)
            if is_same(got[0].copy_masked(0.0), before.copy_masked(0.0)) or is_same(
                got[0], _before(step, x, time, weights.c)
            ):
                wrong(
                    "These are the states before each step.",
                    given,
                    "Stack what you have assigned: the state after the step.",
                )
            if time in got[1].dims:
                wrong(
                    "The second value has all steps; the last state is wanted.",
                    [*given, ("got", shape_of(got[1]))],
                    "loop.state.h after the loop",
                )
        check_same(got[0], states, what="The tensor of states", given=given)
        if isinstance(got[1], rf.Tensor) and set(got[1].dims) == set(last.dims):
            both = [each.copy_transpose([weights.batch, weights.unit]).numpy() for each in (got[1], last)]
            if [np.allclose(*rows, atol=1e-4) for rows in zip(*both)] == [False, True, False]:  # the longest is right
                wrong(
                    "The last state is right of the longest sequence alone: the others went on after their end.",
                    given,
                    "Only loop.state keeps what has ended: assign to loop.state.h, not to a variable, and not to loop.h.",
                )
        check_same(got[1], last, what="The last state", given=given)
    check_padding(lambda frames: answer(step, frames, time, weights.c), x, nan=True)


def _before(step, x: rf.Tensor, time: rf.Dim, start: rf.Tensor) -> rf.Tensor:
    loop = rf.Loop(axis=time)
    loop.state.h = start
    for _ in loop:
        states = loop.stack(loop.state.h)
        loop.state.h = step(loop.unstack(x), loop.state.h)
    return states


def memories(count: int) -> np.ndarray:
    """(1 + 2 * count, units): the memory of the shipped model after each letter of #aaabbb."""
    numbers = json.loads(COUNTER.read_text("utf-8"))
    weights = {name: {key: np.array(value) for key, value in part.items()} for name, part in numbers.items()}
    h = c = np.zeros(4)
    found = []
    for letter in [0] + [1] * count + [2] * count:
        sums = {
            name: weights[name]["letter"][:, letter] + weights[name]["state"] @ h + weights[name]["bias"]
            for name in ("input", "forget", "new", "output")
        }
        take, keep, show = (1 / (1 + np.exp(-sums[name])) for name in ("input", "forget", "output"))
        c = keep * c + take * np.tanh(sums["new"])
        h = show * np.tanh(c)
        found.append(c)
    return np.array(found)


@exercise(
    "The unit that counts",
    hints=[
        "Look at c, not at h: h is squeezed by a tanh.",
        "Which row goes up by the same amount with each a, and down again with each b?",
        "Rows count from 0, from above.",
    ],
)
def counting_unit(answer):
    try:
        unit = int(answer)
        whole = unit == float(answer)
    except (TypeError, ValueError):
        unit, whole = -1, False
    if not whole or not 0 <= unit < 4:
        wrong("The number of a unit is wanted: 0, 1, 2 or 3.", [("got", answer)], "It stands at the left of its row.")
    of_unit = memories(10)[:, unit]
    ups, downs = np.diff(of_unit[1:11]), np.diff(of_unit[11:])
    if ups.min() > 0.5 and downs.max() < -0.5:
        return
    shown = [(f"after {count} a's", f"{of_unit[count]:+.2f}") for count in (1, 5, 10)]
    shown += [(f"after {count} b's", f"{of_unit[10 + count]:+.2f}") for count in (1, 5, 10)]
    wrong(
        f"Unit {unit} does not count.",
        shown,
        "The one that counts goes up by about 1 with each a, and down by about 1 with each b.",
    )


@exercise(
    "A state that is reset",
    hints=[
        "What is `state` when the second word begins?",
        "Each word begins with `start`.",
        "follow gives a result and a state. Where may the state of one word go?",
    ],
)
def results_of(answer):
    def follow(word, state):
        if not isinstance(state, tuple) or len(state) != 1:
            wrong(
                "follow gets something else than a state.",
                [("got", repr(state))],
                "It is called with a word and a state.",
            )
        return word + state[0], (word + state[0],)

    for words in ([3], [3, 3], [1, 5, 2], [4, 0, 7, 1]):
        got = call(answer, follow, (10,), list(words))
        if isinstance(got, dict):
            wrong(
                "This is a dict, and a list is wanted.",
                [("words", words), ("got", got)],
                "[result of the first word, of the second, ...]",
            )
        if not isinstance(got, list) and hasattr(got, "__iter__"):
            got = list(got)
        right = [word + 10 for word in words]
        given = [("words", words), ("start", 10), ("got", got), ("wanted", right)]
        carried, state = [], 10
        for word in words:
            state += word
            carried.append(state)
        if got != right:
            if got == carried:
                wrong("The second word begins where the first ended.", given, "Each word begins with `start`.")
            if got == right[-1]:
                wrong("This is the result of the last word only.", given, "A list with one result for each word.")
            if isinstance(got, list) and got == [(one, (one,)) for one in right]:
                wrong("Results and states are in the list.", given, "follow returns both; the results are wanted.")
            if isinstance(got, list) and got == [(one,) for one in right]:
                wrong(
                    "These are the states, not the results.",
                    given,
                    "follow returns a result and a state: follow(...)[0]",
                )
            if got == list(words):
                wrong("It begins with 0, not with `start`.", given, "What a word begins with is given.")
        check_same(got, right, what="The list", given=given[:2])


def _final(step, x: torch.Tensor, lengths: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    rows = []
    for row, length in enumerate(lengths):
        h = start[row : row + 1]
        for frame in x[row, :length]:
            h = step(frame[None], h)
        rows.append(h)
    return torch.cat(rows)


def _masked(step, x, lengths, start, keep) -> torch.Tensor:
    h = start
    for position, frame in enumerate(x.unbind(1)):
        h = keep((position < lengths)[:, None], step(frame, h), h)
    return h


@exercise(
    "A state that stops at the end",
    hints=[
        "In each step ask which sequences are still running: position < lengths.",
        "torch.where(condition, a, b) is a where the condition is true; here it is (batch,), and a state is (batch, units).",
        "enumerate gives the position of each frame. A condition fits a state with one more axis: [:, None].",
    ],
    points=2,
)
def final_state(answer):
    generator = torch.Generator().manual_seed(1)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    of_frame, of_state = random(3, 4), random(4, 4)

    def step(frame, h):
        return torch.tanh(frame @ of_frame + h @ of_state)

    for lengths in ([2], [4, 2], [2, 5, 3], [4, 4]):
        sizes, x, start = torch.tensor(lengths), random(len(lengths), max(lengths), 3), random(len(lengths), 4)
        given = [("lengths", lengths)]
        got = call(answer, step, x.clone(), sizes.clone(), start.clone())
        right = _final(step, x, sizes, start)
        if not is_same(got, right):
            shortest = _final(step, x, sizes.clamp(max=int(sizes.min())), start)
            longer = _masked(step, x, sizes + 1, start, torch.where)
            for other, what, rule in (
                (
                    _masked(step, x, sizes, start, lambda running, new, old: new),
                    "Sequences that have ended go on: their padding is read.",
                    "What has ended keeps its state: torch.where(running, new, old)",
                ),
                (
                    _masked(step, x, sizes, start, lambda running, new, old: new * running),
                    "What has ended becomes 0 instead of keeping its state.",
                    "torch.where(running, new, old), not new * running",
                ),
                (shortest, "All stop with the shortest.", "Each sequence has an end of its own."),
                (
                    longer,
                    "Each reads one frame too many.",
                    "Positions begin with 0: a sequence of length 3 has 0, 1 and 2.",
                ),
                (_final(step, x, sizes, start * 0), "It starts from 0 instead of from `start`.", "h = start"),
            ):
                if is_same(got, other):
                    wrong(what, given, rule)
        check_same(got, right, what="The final state", given=given)
        if len(set(lengths)) > 1:
            dirty = x.clone()
            dirty[torch.arange(x.shape[1]) >= sizes[:, None]] = float("nan")
            if not is_same(call(answer, step, dirty, sizes.clone(), start.clone()), right):
                wrong(
                    "You looked at padding: filled with NaN, the final state is different.",
                    given,
                    "A product with 0 does not take NaN away: 0 * NaN is NaN. torch.where picks.",
                )


def _states(step, x: torch.Tensor, start: torch.Tensor) -> list[torch.Tensor]:
    """The state before the first step, and that after each."""
    found = [start.clone().requires_grad_()]
    for frame in x:
        found.append(step(frame, found[-1]))
    return found


def _norms(loss: torch.Tensor, of: list[torch.Tensor], size=torch.Tensor.norm) -> torch.Tensor:
    return torch.stack([size(one).detach() for one in torch.autograd.grad(loss, of, retain_graph=True)])


@exercise(
    "How far a gradient reaches",
    hints=[
        "Run the loop over the frames and keep every state: the gradient is asked for with respect to each of them.",
        "The loss is made of the last state alone. torch has a function for the gradients of a number with respect to a list of tensors.",
        "torch.autograd.grad(number, tensors) gives them in that order; each has a norm. Or retain_grad() and backward().",
    ],
    points=2,
)
def reach(answer):
    generator = torch.Generator().manual_seed(2)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    for steps, count, features, units in ((3, 2, 3, 4), (1, 1, 2, 3), (6, 3, 2, 5)):
        of_frame, of_state = (torch.nn.Parameter(random(size, units)) for size in (features, units))
        x, start, weight = random(steps, count, features), random(count, units), random(count, units)

        def step(frame, h, of_frame=of_frame, of_state=of_state):
            return torch.tanh(frame @ of_frame + h @ of_state)

        def loss(h, weight=weight):
            return ((h * weight).sum(1) ** 2).mean()

        given = [("steps", steps), ("units", units)]
        got = call(answer, step, x.clone(), start.clone(), loss)
        try:
            got = torch.tensor([float(one) for one in got])
        except (TypeError, ValueError, RuntimeError):
            wrong(
                "For each step one number is wanted.",
                [*given, ("got", kind_of(got))],
                "A list with the norm of each gradient: over all sequences and units.",
            )
        states = _states(step, x, start)
        right = _norms(loss(states[-1]), states[1:])
        if not is_same(got, right):
            frames = x.clone().requires_grad_()
            of_frames = _norms(loss(_states(step, frames, start)[-1]), [frames])
            each = torch.stack([_norms(loss(one), [one])[0] for one in states[1:]])
            everywhere = _norms(sum(loss(one) for one in states[1:]), states[1:])
            (by_frame,) = torch.autograd.grad(loss(_states(step, frames, start)[-1]), frames)
            for other, what, rule in (
                (right.flip(0), "The steps stand in the wrong order.", "The first number is of the first step."),
                (
                    _norms(loss(states[-1]), states[:-1]),
                    "These are the states before each step.",
                    "`start` comes before the first step; the state after the last step belongs to them.",
                ),
                (
                    _norms(loss(states[-1]), states),
                    "There is one number too many: the first is of `start`.",
                    "One for the state after each step.",
                ),
                (right**2, "These are the squares of the norms.", "The norm is the root of the sum of squares."),
                (
                    _norms(loss(states[-1]), states[1:], lambda one: one.abs().sum()),
                    "These are sums of absolute values.",
                    "The norm is the root of the sum of squares.",
                ),
                (
                    _norms(loss(states[-1]), states[1:], lambda one: one.abs().max()),
                    "This is the largest cell of each gradient.",
                    "The norm is the root of the sum of squares.",
                ),
                (
                    _norms(loss(states[-1]), states[1:], torch.sum),
                    "These are sums, in which signs cancel.",
                    "The norm is the root of the sum of squares.",
                ),
                (
                    by_frame.norm(dim=(1, 2)),
                    "These are gradients with respect to the frames.",
                    "d loss / d h, of the states.",
                ),
                (of_frames, "This is one gradient with respect to all frames.", "d loss / d h, for each state."),
                (
                    torch.stack([one.norm() for one in states[1:]]),
                    "These are the norms of the states.",
                    "The gradient of the loss with respect to each is asked for.",
                ),
                (each, "Each step has a loss of its own here.", "The one loss is made of the last state."),
                (
                    right * torch.eye(steps)[-1],
                    "No gradient passes from one step to the one before it.",
                    "No detach() in the loop: each state is computed from the one before it.",
                ),
                (everywhere, "The losses of all steps are added up.", "The one loss is made of the last state."),
            ):
                if is_same(got, other):
                    wrong(what, given, rule)
        check_same(got, right, what="The list of norms", given=given)


_GRADIENTS = [
    ([[3.0, -4.0], [[12.0]]], 1.0),
    ([[0.3, -0.4], [[0.0, 0.0, 1.2]]], 2.0),
    ([[2.0, -1.0], [[2.0, 4.0], [-1.0, 3.0]], 5.0], 3.0),
    ([[0.0, 0.0], [[0.0]]], 0.5),
    ([[0.8, 0.0], [0.0, 0.8], [0.8], [-0.8]], 1.2),
    ([[300.0, -400.0, 1200.0]], 0.25),
]


@exercise(
    "Clipping by the norm",
    hints=[
        "All gradients together are one vector. What is its norm?",
        "The square of that norm is the sum of the squares of all cells of all tensors.",
        "If the norm is above the limit, every tensor is multiplied by the same number: which one makes the norm the limit?",
    ],
)
def clipped(answer):
    for values, limit in _GRADIENTS:
        gradients = [torch.tensor(value) for value in values]
        norm = torch.cat([one.flatten() for one in gradients]).norm()
        given = [("gradients", values), ("norm", round(float(norm), 4)), ("limit", limit)]
        got = call(answer, [one.clone() for one in gradients], limit)
        if isinstance(got, torch.Tensor) or not hasattr(got, "__iter__"):
            wrong(
                "A list of tensors is wanted.",
                [*given, ("got", kind_of(got))],
                "One for each gradient, as large as it.",
            )
        got, right = list(got), [one * min(1.0, limit / max(float(norm), 1e-9)) for one in gradients]
        if len(got) != len(right):
            wrong("One tensor for each gradient is wanted.", [*given, ("got", len(got)), ("wanted", len(right))])
        if not is_same(got, right):
            tiny = 1e-9
            by_sum = sum(float(one.norm()) for one in gradients)
            for other, what, rule in (
                (
                    [one * min(1.0, limit / max(float(one.norm()), tiny)) for one in gradients],
                    "Each tensor is clipped by its own norm: that turns the direction.",
                    "All of them are one vector: one norm, and one factor.",
                ),
                (
                    [one.clamp(-limit, limit) for one in gradients],
                    "Each number is clipped on its own: that turns the direction.",
                    "All of them are one vector: one norm, and one factor.",
                ),
                (
                    [one * limit / max(float(norm), tiny) for one in gradients],
                    "Gradients below the limit are made longer.",
                    "Those stay as they are: the factor is at most 1.",
                ),
                (
                    [one * min(1.0, limit / max(by_sum, tiny)) for one in gradients],
                    "The norms of the tensors are added up.",
                    "The squares are added up, and the root is taken at the end.",
                ),
                (
                    [one * min(1.0, limit / max(float(norm) ** 2, tiny)) for one in gradients],
                    "The root is missing.",
                    "The norm is the root of the sum of squares.",
                ),
                (
                    [one / float(norm) if norm > limit else one for one in gradients],
                    "What is above the limit gets the norm 1.",
                    "It gets the norm of the limit.",
                ),
                (gradients, "Nothing is clipped.", "The norm is above the limit here."),
            ):
                if is_same(got, other):
                    wrong(what, given, rule)
        check_same(got, right, what="The list of gradients", given=given)


ports = load(Path(__file__).parents[1] / "data/ports.py")


@exercise(
    "A port of a GRU",
    hints=[
        "One loop over the frames of x, which are along its second axis; each step needs the state of the one before.",
        "Both stacked products, of the frame and of the state, are cut into three equal parts: chunk(3, -1).",
        "Reset multiplies the third part of the state's product, with its bias; the third part of the frame's product is added to that.",
    ],
    points=2,
)
def PortedGRU(answer):
    sizes = ((3, 4, 2, 5), (2, 2, 1, 1), (1, 3, 3, 2), (4, 3, 2, 7))
    cases = [
        (ports.drawn(ports.Gru(features, units), seed), ports.inputs(count, time, features, seed=seed))
        for seed, (features, units, count, time) in enumerate(sizes)
    ]
    ports.judge(answer, cases, forbidden=("gru", "gru_cell"))
