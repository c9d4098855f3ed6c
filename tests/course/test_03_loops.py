"""The lesson on loops: its checks name mistakes, and what its prose says is what its cells compute."""

from __future__ import annotations

import re

import pytest
import torch
from course.harness import Course

import rfnb as rf
from rfnb.teaching.course import load

course = Course("03_loops")


def memory(gate, x, h, c, keep="forget", take="input", new=rf.tanh):
    return rf.sigmoid(gate[keep](x, h)) * c + rf.sigmoid(gate[take](x, h)) * new(gate["new"](x, h))


def shown(gate, x, h, c, of=rf.tanh):
    return rf.sigmoid(gate["output"](x, h)) * of(c), c


def gru(gate, x, h, new, old="update", swap=False):
    update = rf.sigmoid(gate[old](x, h))
    return update * new + (1 - update) * h if swap else (1 - update) * new + update * h


def reset(gate, x, h):
    return rf.sigmoid(gate["reset"](x, h))


def loop_over(step, x, time, start, result, carried=True, before=False):
    loop = rf.Loop(axis=time)
    loop.state.h = start
    for _ in loop:
        if before:
            states = loop.stack(loop.state.h)
        loop.state.h = step(loop.unstack(x), loop.state.h if carried else start)
        if not before:
            states = loop.stack(loop.state.h)
    return result(states, loop.state.h)


def recorded(step, x, time, start):
    loop = rf.Loop(axis=time)
    loop.state.h = start
    with loop:
        loop.state.h = step(loop.unstack(x), loop.state.h)
        states = loop.stack(loop.state.h)
    return states, loop.state.h


def carried(follow, start, words):
    found, state = [], start
    for word in words:
        result, state = follow(word, state)
        found.append(result)
    return found


def stepped(step, x, lengths, start, keep):
    h = start
    for position, frame in enumerate(x.unbind(1)):
        h = keep((position < lengths)[:, None], step(frame, h), h)
    return h


def until_the_shortest(step, x, lengths, start):
    return stepped(step, x[:, : int(lengths.min())], lengths, start, torch.where)


def by_rows(step, x, lengths, start):
    rows = []
    for row, length in enumerate(lengths):
        h = start[row : row + 1]
        for frame in x[row, :length]:
            h = step(frame[None], h)
        rows.append(h)
    return torch.cat(rows)


def in_an_attribute(step, x, time, start):
    loop = rf.Loop(axis=time, name="read")
    loop.h = start
    for _ in loop:
        loop.h = step(loop.unstack(x), loop.h)
        states = loop.stack(loop.h)
    return states, loop.h


def gradients(step, x, start, loss, of=slice(1, None), size=torch.Tensor.norm):
    states = [start.requires_grad_()]
    for frame in x:
        states.append(step(frame, states[-1]))
    return [size(one) for one in torch.autograd.grad(loss(states[-1]), states[of])]


def of_frames(step, x, start, loss):
    h, frames = start, [frame.requires_grad_() for frame in x.clone()]
    for frame in frames:
        h = step(frame, h)
    return [one.norm() for one in torch.autograd.grad(loss(h), frames)]


def shortened(gradients, limit, norm):
    return [one * min(1.0, limit / max(float(norm), 1e-9)) for one in gradients]


ports = course.lesson.module("data/ports.py")


def faulty(kind):
    """The port with one fault that has the weights of its original."""
    return lambda theirs: ports.with_weights_of(kind, theirs)


WRONG = {
    "PortedGRU": {
        "Reset and update have changed places": faulty(ports.GruOrder),
        "gate complement": faulty(ports.GruTurned),
        "inside of the product": faulty(ports.GruInside),
        "is not multiplied by the reset gate": faulty(ports.GruBias),
        "The reset gate is not used": faulty(ports.GruWithoutReset),
        "It runs the original": lambda theirs: theirs,
        "torch.nn.Module": lambda theirs: theirs.weight_ih_l0,
    },
    "rnn_step": {
        "The tanh is missing": lambda add, x, h: add(x, h),
        "This is the sigmoid": lambda add, x, h: rf.sigmoid(add(x, h)),
        "The old state is added once more": lambda add, x, h: h + rf.tanh(add(x, h)),
        "This is the ReLU": lambda add, x, h: rf.relu(add(x, h)),
        "It returns 2 values": lambda add, x, h: (rf.tanh(add(x, h)), h),
    },
    "lstm_step": {
        "the wrong way round": lambda gate, x, h, c: shown(gate, x, h, memory(gate, x, h, c))[::-1],
        "have changed places": lambda gate, x, h, c: shown(gate, x, h, memory(gate, x, h, c, "input", "forget")),
        "nothing negative is ever added": lambda gate, x, h, c: shown(
            gate, x, h, memory(gate, x, h, c, new=rf.sigmoid)
        ),
        'The tanh of "new" is missing': lambda gate, x, h, c: shown(gate, x, h, memory(gate, x, h, c, new=rf.identity)),
        "without its tanh": lambda gate, x, h, c: shown(gate, x, h, memory(gate, x, h, c), of=rf.identity),
        "This shows the old memory": lambda gate, x, h, c: (shown(gate, x, h, c)[0], memory(gate, x, h, c)),
        "The state is kept instead of the memory": lambda gate, x, h, c: shown(gate, x, h, memory(gate, x, h, h)),
        "Two values are wanted": lambda gate, x, h, c: shown(gate, x, h, memory(gate, x, h, c))[0],
    },
    "gru_step": {
        "New and old have changed places": lambda gate, of_x, of_h, x, h: gru(
            gate, x, h, rf.tanh(of_x(x) + reset(gate, x, h) * of_h(h)), swap=True
        ),
        "the GRU of the paper": lambda gate, of_x, of_h, x, h: gru(
            gate, x, h, rf.tanh(of_x(x) + of_h(reset(gate, x, h) * h))
        ),
        "The reset gate is missing": lambda gate, of_x, of_h, x, h: gru(gate, x, h, rf.tanh(of_x(x) + of_h(h))),
        "The update gate is missing": lambda gate, of_x, of_h, x, h: rf.tanh(of_x(x) + reset(gate, x, h) * of_h(h)),
        "The tanh of the new value is missing": lambda gate, of_x, of_h, x, h: gru(
            gate, x, h, of_x(x) + reset(gate, x, h) * of_h(h)
        ),
        "The two gates have changed places": lambda gate, of_x, of_h, x, h: gru(
            gate, x, h, rf.tanh(of_x(x) + rf.sigmoid(gate["update"](x, h)) * of_h(h)), old="reset"
        ),
    },
    "read": {
        "right of the longest sequence alone": in_an_attribute,
        "The last state comes first": lambda *given: loop_over(*given, lambda states, last: (last, states)),
        "Two values are wanted": lambda *given: loop_over(*given, lambda states, last: states),
        "nothing is carried": lambda *given: loop_over(*given, lambda *both: both, carried=False),
        "the states before each step": lambda *given: loop_over(*given, lambda *both: both, before=True),
        "from 0 instead of from `start`": lambda step, x, time, start: loop_over(
            step, x, time, rf.zeros_like(start), lambda *both: both
        ),
        "The second value has all steps": lambda *given: loop_over(*given, lambda states, last: (states, states)),
        "The first value has no time": lambda *given: loop_over(*given, lambda states, last: (last, last)),
    },
    "counting_unit": {
        "Unit 0 does not count": 0,
        "Unit 1 does not count": 1,
        "Unit 3 does not count": 3,
        "0, 1, 2 or 3": 4,
        "The number of a unit is wanted": "c",
    },
    "results_of": {
        "The second word begins where the first ended": carried,
        "the result of the last word only": lambda follow, start, words: follow(words[-1], start)[0],
        "Results and states are in the list": lambda follow, start, words: [follow(word, start) for word in words],
        "It begins with 0": lambda follow, start, words: [follow(word, (0,))[0] for word in words],
        "This is a dict": lambda follow, start, words: {word: follow(word, start)[0] for word in words},
        "These are the states": lambda follow, start, words: [follow(word, start)[1] for word in words],
        "something else than a state": lambda follow, start, words: [follow(word, None)[0] for word in words],
    },
    "final_state": {
        "their padding is read": lambda *given: stepped(*given, lambda running, new, old: new),
        "becomes 0 instead of keeping": lambda *given: stepped(*given, lambda running, new, old: new * running),
        "All stop with the shortest": until_the_shortest,
        "one frame too many": lambda step, x, lengths, start: stepped(step, x, lengths + 1, start, torch.where),
        "0 * NaN is NaN": lambda *given: stepped(
            *given, lambda running, new, old: running.float() * new + (1 - running.float()) * old
        ),
        "from 0 instead of from `start`": lambda step, x, lengths, start: by_rows(step, x, lengths, 0 * start),
    },
    "reach": {
        "stand in the wrong order": lambda *given: gradients(*given)[::-1],
        "the states before each step": lambda *given: gradients(*given, of=slice(0, -1)),
        "the first is of `start`": lambda *given: gradients(*given, of=slice(0, None)),
        "the squares of the norms": lambda *given: [one**2 for one in gradients(*given)],
        "sums of absolute values": lambda *given: gradients(*given, size=lambda one: one.abs().sum()),
        "the largest cell": lambda *given: gradients(*given, size=lambda one: one.abs().max()),
        "in which signs cancel": lambda *given: gradients(*given, size=torch.sum),
        "with respect to the frames": of_frames,
        "No gradient passes": lambda *given: [
            one * (at == len(given[1]) - 1) for at, one in enumerate(gradients(*given))
        ],
        "one number is wanted": lambda *given: gradients(*given, size=lambda one: one),
    },
    "clipped": {
        "by its own norm": lambda gradients, limit: [shortened([one], limit, one.norm())[0] for one in gradients],
        "Each number is clipped": lambda gradients, limit: [one.clamp(-limit, limit) for one in gradients],
        "are made longer": lambda gradients, limit: [
            one * limit / max(float(torch.cat([each.flatten() for each in gradients]).norm()), 1e-9)
            for one in gradients
        ],
        "norms of the tensors are added": lambda gradients, limit: shortened(
            gradients, limit, sum(one.norm() for one in gradients)
        ),
        "The root is missing": lambda gradients, limit: shortened(
            gradients, limit, sum((one**2).sum() for one in gradients)
        ),
        "Nothing is clipped": lambda gradients, limit: gradients,
        "A list of tensors": lambda gradients, limit: gradients[0],
        "One tensor for each": lambda gradients, limit: gradients[:1],
    },
}
RIGHT = {
    "lstm_step": {
        "a list, and the sum in another order": lambda gate, x, h, c: list(
            shown(
                gate,
                x,
                h,
                rf.tanh(gate["new"](x, h)) * rf.sigmoid(gate["input"](x, h)) + c * rf.sigmoid(gate["forget"](x, h)),
            )
        )
    },
    "gru_step": {
        "as a step from the old to the new": lambda gate, of_x, of_h, x, h: (
            h + (1 - rf.sigmoid(gate["update"](x, h))) * (rf.tanh(of_x(x) + reset(gate, x, h) * of_h(h)) - h)
        )
    },
    "read": {"a body that is recorded": recorded},
    "results_of": {
        "an array": lambda follow, start, words: torch.tensor([follow(one, start)[0] for one in words]).numpy(),
        "one after the other": lambda follow, start, words: (follow(one, start)[0] for one in words),
    },
    "counting_unit": {"a number of NumPy": torch.tensor(2).numpy()},
    "final_state": {"row by row": by_rows},
    "reach": {"floats": lambda *given: gradients(*given, size=lambda one: float(one.norm()))},
    "clipped": {
        "by the norm of norms": lambda gradients, limit: shortened(
            gradients, limit, torch.stack([one.norm() for one in gradients]).norm()
        )
    },
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    broken = "The second word begins where the first ended" if exercise == "results_of" else ""
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise), broken=broken)


def test_the_counting_unit_of_the_shipped_model_goes_up_and_down_by_one():
    checks = load(course.folder / "checks/03_loops.py")
    memory = checks.memories(3)[:, course.solutions.counting_unit]
    assert [round(float(value)) for value in memory] == [-1, 0, 1, 2, 1, 0, -1]


def test_the_script_trains_a_model_that_counts():
    made = load(course.folder / "data/make_counter.py")
    model = made.trained()
    assert all(made.knows(model, count) for count in range(1, 13))
    found = made.weights(model)
    assert set(found) == {"input", "forget", "new", "output", "out"}


def test_the_gru_that_is_ported_is_that_of_torch():
    ours = ports.drawn(ports.Gru(3, 4))
    theirs = torch.nn.GRU(3, 4, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    x = ports.inputs(2, 6, 3)
    torch.testing.assert_close(ours(x), theirs(x)[0])


def test_a_port_by_torchs_own_gru_is_refused():
    class Own(torch.nn.Module):
        def __init__(self, theirs):
            super().__init__()
            self.net = torch.nn.GRU(theirs.input_size, theirs.hidden_size, batch_first=True)
            self.net.load_state_dict(theirs.state_dict())

        def forward(self, x):
            return self.net(x)[0]

    assert "torch's own gru" in course.judged("PortedGRU", Own).message


@pytest.mark.parametrize("kind", ports.FAULTS[ports.Gru], ids=lambda kind: kind.__name__)
def test_each_fault_of_a_port_is_refused_with_a_line_and_by_its_name(kind):
    exercise = course.exercises[-1]
    said = course.judged(exercise, faulty(kind)).message
    assert ports.FAULTS[ports.Gru][kind] in said and "rf.diff: mine and theirs part in" in said
    assert re.search(r"^  line +\S", said, re.MULTILINE), said


@pytest.mark.notebook
def test_it_has_no_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_predictions_of_the_solutions_are_what_the_cells_compute(ran):
    told = {name: str(answer) for name, answer in course.solutions.PREDICTIONS.items()}
    assert {name: ran.truth(name) for name in ran.asked()} == told


@pytest.mark.notebook
def test_each_step_of_the_real_model_writes_one_sound_and_then_the_end(ran):
    sounds = ran.printed("03-play").split()
    (view,) = ran.shown("03-play")
    assert sounds == ["N", "AY", "T"] and "4 steps" in view and view.splitlines()[1].split() == [*sounds, "<end>"]


@pytest.mark.notebook
def test_the_cells_have_the_numbers_of_torch(ran):
    found = dict(re.findall(r"^(\w+) +largest difference from torch\.nn\.\w+: (\S+)$", ran.printed("03-torch"), re.M))
    assert set(found) == {"RNN", "GRU", "LSTM"} and all(float(number) < 1e-6 for number in found.values())


@pytest.mark.notebook
def test_the_counter_writes_as_many_and_its_unit_goes_up_and_down(ran):
    assert ran.printed("03-counter") == "a" * 10 + "b" * 10 + "#\n"
    (view,) = ran.shown("03-counter")
    (row,) = [line for line in view[view.index("\nc: ") :].splitlines() if line.startswith("  unit 2")]
    heights = ["▁▂▃▄▅▆▇█".index(bar) for bar in row.split()[2]]
    assert heights[1:11] == sorted(heights[1:11]) and heights[11:] == sorted(heights[11:], reverse=True)


@pytest.mark.notebook
def test_three_more_in_the_counting_unit_are_three_more_bs_and_in_others_none(ran):
    assert ran.printed("03-edit-all").endswith("b's with 3 more in unit 0, 1, 2, 3: [6, 6, 9, 6]\n")


@pytest.mark.notebook
def test_it_counts_beyond_what_it_has_seen_but_not_for_ever(ran):
    assert int(ran.printed("03-lost").rsplit(":", 1)[1]) > 13


@pytest.mark.notebook
def test_the_final_states_are_those_of_the_loop(ran):
    assert ran.printed("03-final-view").endswith("yours and rf.Loop have the same final states: True\n")


@pytest.mark.notebook
def test_before_training_next_to_nothing_reaches_the_first_step_but_through_open_forget_gates(ran):
    (view,) = (text for text in ran.shown("03-reach-view") if "What reaches" in text)
    first = dict(re.findall(r"^  (\S.*?)  +[▁-█]+  first ([\d.e-]+),", view, re.M))
    assert float(first["Elman"]) < 1e-6 and float(first["LSTM"]) < 1e-6 and float(first["LSTM with the bias"]) > 0.05


@pytest.mark.notebook
def test_the_watched_gradients_are_clipped(ran):
    trainings = [text for text in ran.shown("03-clip-reveal") if "  norm before" in text]
    assert len(trainings) == 2 and "Clipped to 0.1" in trainings[1]
    largest = [float(re.search(r"  gradient norm .*?from\s+[\d.e-]+ to ([\d.]+)", text, re.S)[1]) for text in trainings]
    assert largest[0] > 10 and largest[1] <= 0.1001
