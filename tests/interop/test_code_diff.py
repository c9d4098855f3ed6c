"""diff of two models finds where a port parts from its original, and calls a cause sure only if both are equal with that changed."""

import numpy as np
import pytest
import torch
from interop import port_families as families
from interop import port_fifth_set as fifth
from interop import port_fourth_set as fourth
from interop import port_third_set as third
from seed import part_of

import rfnb as rf
from rfnb.interop import code_diff, measurement
from rfnb.interop.measurement import Measurement

pytest.importorskip("transformers")
from interop import port_second_set as second

ROTATING = [(list(families.CONFIGS)[number % 5], cause) for number, cause in enumerate(families.CAUSES)]
PAIRS = part_of([(name, cause) for name in families.CONFIGS for cause in families.CAUSES], 14)


def found(name, cause):
    theirs = families.theirs_of(name)
    return rf.diff(families.ported(theirs, cause), theirs, inputs=families.IDS)


@pytest.mark.parametrize("name", families.CONFIGS)
def test_a_sound_port_is_the_same_whatever_its_style(name):
    diff = found(name, None)
    assert diff.same and diff.apart < 1e-7 and diff.place is None


@pytest.mark.parametrize(("name", "cause"), part_of(ROTATING, 3))
def test_a_mistake_is_found_where_it_is_and_its_cause_is_sure(name, cause):
    diff = found(name, cause)
    assert (diff.place, diff.cause.name, diff.cause.sure) == (families.CAUSES[cause], cause, True)


@pytest.mark.slow
def test_causes_in_other_models():
    diffs = {each: found(*each) for each in PAIRS}
    assert [each for each, diff in diffs.items() if diff.place != families.CAUSES[each[1]]] == []
    causes = [
        each
        for each, diff in diffs.items()
        if diff.cause is not None and diff.cause.name == each[1] and diff.cause.sure
    ]
    assert len(causes) >= 0.84 * len(PAIRS)
    wrong = [each for each, diff in diffs.items() if any(cause.sure and cause.name != each[1] for cause in diff.causes)]
    assert wrong == []


@pytest.mark.parametrize("name", part_of(second.PORTS, 3))
def test_ports_of_other_code_part_where_they_do_and_no_wrong_cause_is_sure(name):
    make, port, fault, inputs, cause, place = second.PORTS[name]
    theirs = make()
    assert rf.diff(port(theirs, None).eval(), theirs, inputs=inputs).same
    diff = rf.diff(port(theirs, fault).eval(), theirs, inputs=inputs)
    assert diff.place == place
    assert [each.name for each in diff.causes if each.sure] == ([] if cause is None else [cause])


SEEN_LATE = ("offset", "groups", "gates", "activation")  # those of which the first run said nothing, or another place


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(each, marks=() if each[1] in SEEN_LATE and each[0] is not third.neo else pytest.mark.slow)
        for each in part_of(third.CASES, 3)
    ],
    ids=lambda each: f"{each[0].__name__}-{each[1]}",
)
def test_so_do_ports_by_somebody_else(case):
    make, fault, place, cause = case
    mine, theirs, inputs = third.case(make, fault)
    diff = rf.diff(mine, theirs, inputs=inputs)
    assert (diff.place, [(each.name, each.sure) for each in diff.causes]) == (place, [(cause, True)])


@pytest.mark.parametrize("make", [third.neo, third.gem, third.awd, third.patches, third.luong])
def test_their_sound_ports_are_the_same(make):
    mine, theirs, inputs = third.case(make, None)
    assert rf.diff(mine, theirs, inputs=inputs).same


@pytest.mark.parametrize("model", fourth.MODELS)
def test_pairs_written_from_the_documentation_are_the_same(model):
    mine, theirs, inputs = fourth.pair(model)
    assert rf.diff(mine, theirs, inputs=inputs).same


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(each, marks=pytest.mark.slow if each in ("logits bend", "looks back three") else ())
        for each in part_of(fourth.CAUSES, 3)
    ],
)
def test_their_mistakes_are_found_where_they_are_and_by_their_names(fault):
    model, places, cause = fourth.CAUSES[fault]
    mine, theirs, inputs = fourth.pair(model, fault)
    diff = rf.diff(mine, theirs, inputs=inputs)
    assert diff.place in places
    assert [(each.name, each.sure) for each in diff.causes] == ([] if cause is None else [(cause, True)])


@pytest.mark.parametrize("name", part_of(fifth.PAIRS, 3))
def test_a_port_in_the_style_of_its_field_is_right_or_parts_by_one_cause(name):
    place, cause = fifth.PAIRS[name][3:]
    mine, theirs, inputs = fifth.pair(name, True)
    assert rf.diff(mine, theirs, inputs=inputs).same
    mine, theirs, inputs = fifth.pair(name, False)
    diff = rf.diff(mine, theirs, inputs=inputs)
    assert (diff.place, [(each.name, each.sure) for each in diff.causes]) == (place, [(cause, True)])


@pytest.mark.parametrize("name", part_of(fifth.NEAR, 3))
def test_so_does_one_by_what_is_near_to_that(name):
    make, port, inputs, place, cause, sure = fifth.NEAR[name]
    theirs = fifth.made(make)
    diff = rf.diff(port(theirs).eval(), theirs, inputs=inputs())
    assert (diff.place, [(each.name, each.sure) for each in diff.causes]) == (place, [(cause, sure)])


def test_it_is_told_in_words_page_and_numbers():
    diff = found("plain", "transposed weight")
    text = diff.text
    assert text.startswith('mine and theirs part in "layers.0.attn.wo" (Linear), in linear; the results are')
    assert "Transposed weight (with that changed both give the same): layers.0.attn.wo.weight is transposed." in text
    assert 'In theirs that is linear in "blocks.0.attention.proj".' in text
    page = diff._repr_html_()
    assert "<th scope='row'>layers.0.attn.wo</th>" in page and "Transposed weight" in page
    assert "layers.0.attn.wo" in " ".join(rf.show(diff).text().split())


class Steps(torch.nn.Module):
    """Three lines, of which the second differs in a port."""

    def __init__(self, act=torch.tanh):
        super().__init__()
        self.first, self.last, self.act = (
            torch.nn.Parameter(torch.eye(3) + 1),
            torch.nn.Parameter(torch.eye(3) - 2),
            act,
        )

    def forward(self, x):
        x = x @ self.first
        x = self.act(x)
        return x @ self.last


def test_its_view_has_the_lines_of_mine_and_an_arrow_where_they_part():
    diff = rf.diff(Steps(torch.sigmoid), Steps(), inputs=torch.randn(2, 3, generator=torch.Generator().manual_seed(1)))
    assert [(code, known, unknown) for _, code, known, unknown in diff.lines] == [
        ("x = x @ self.first", 1, 0),
        ("x = self.act(x)", 0, 1),
        ("return x @ self.last", 0, 1),
    ]
    made = code_diff.spec(diff)
    first, second, third = made.head["seqs"][0]["rows"]
    assert first.endswith(" x = x @ self.first") and second.startswith("→ ") and third.endswith("return x @ self.last")
    assert made.blocks["map0"].tolist() == [[[1, 0], [0, 1], [0, 1]]]
    assert made.head["title"] == "Two codes: they part in the line `x = self.act(x)`"
    text = rf.show(diff).text()
    assert "sum to 1" not in text and "!" not in text and "uniform" not in text


def test_its_view_has_modules_where_there_are_too_many_lines():
    diff = rf.diff(Steps(torch.sigmoid), Steps(), inputs=torch.ones(2, 3))
    diff.lines = diff.lines * 11  # 33 of them
    assert code_diff.spec(diff).head["seqs"][0]["rows"] == ["the model"]


def test_rows_that_sum_to_1_are_no_distributions_in_a_map_of_measured_numbers():
    values = np.array([[1, 0], [0.5, 0.5], [70, 65], [np.nan, 1]])
    made = measurement.spec(Measurement("counts", values, ("line", "abcd"), ("kind", "xy")))
    (entry,) = made.head["maps"]
    assert "sums" not in entry and "sum" not in str(entry.get("notes")) and "NaN" in entry["notes"]["0"]


class Gate(torch.nn.Module):
    """A recurrence whose gate is written in one line, which every turn of the loop runs."""

    def __init__(self, gate, begin=0.0):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.x, self.h = (torch.nn.Parameter(torch.randn(4, 4, generator=generator)) for _ in range(2))
        self.gate, self.begin = gate, begin

    def forward(self, x):
        h, out = torch.full_like(x[:, 0], self.begin), []
        for frame in x.unbind(1):
            gate = self.gate(frame @ self.x + h @ self.h)
            h = gate * h + (1 - gate) * frame
            out.append(h)
        return torch.stack(out, 1)


@pytest.mark.parametrize(
    ("gate", "cause"), [(lambda x: 1 - torch.sigmoid(x), "gate complement"), (torch.tanh, "activation")]
)
def test_a_fault_in_a_loop_is_changed_in_all_of_its_turns_and_has_a_line(gate, cause):
    x = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(4))
    diff = rf.diff(Gate(torch.sigmoid), Gate(gate), inputs=x)
    assert [(each.name, each.sure) for each in diff.causes] == [(cause, True)]
    assert diff.line.startswith("test_code_diff.py:") and "gate" in diff.code
    assert f"The line is {diff.line}: `{diff.code}`." in diff.text
    assert rf.diff(Gate(gate), Gate(gate), inputs=x).line == ""


def test_a_weight_that_is_cut_is_not_where_two_codes_part():
    class Cut(Gate):
        def forward(self, x):
            one, other = self.x.chunk(2, 1)  # theirs has not these
            return torch.cat([x @ one, x @ other], -1).tanh()

    class Whole(Gate):
        def forward(self, x):
            return torch.sigmoid(x @ self.x)

    diff = rf.diff(Cut(None), Whole(None), inputs=torch.randn(2, 4, generator=torch.Generator().manual_seed(4)))
    assert (diff.call, diff.cause.name, diff.cause.sure) == ("tanh", "activation", True)


class Turned(torch.nn.Module):
    """Rotary positions by complex numbers, as in the first code of Llama."""

    def __init__(self, base=10000.0):
        super().__init__()
        torch.manual_seed(0)
        self.q = torch.nn.Linear(8, 8)
        angles = torch.outer(torch.arange(16.0), base ** -(torch.arange(4) / 4))
        self.register_buffer("turn", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        pairs = torch.view_as_complex(self.q(x).unflatten(-1, (4, 2)))
        return torch.view_as_real(pairs * self.turn[: x.shape[1]]).flatten(-2)


class TurnedByParts(Turned):
    def forward(self, x):
        (even, odd), turn = self.q(x).unflatten(-1, (4, 2)).unbind(-1), self.turn[: x.shape[1]]
        return torch.stack([even * turn.real - odd * turn.imag, even * turn.imag + odd * turn.real], -1).flatten(-2)


def test_complex_tables_stay_complex():
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(2))
    assert rf.diff(Turned(), TurnedByParts(), inputs=x).same
    diff = rf.diff(Turned(500.0), Turned(), inputs=x)
    assert (diff.cause.name, diff.cause.sure) == ("rotary base", True)
    assert "In theirs that is mul in the model itself." in diff.text


def test_models_are_as_they_were():
    theirs = families.theirs_of("plain")
    mine = families.ported(theirs, "norm offset")
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    rf.diff(mine, theirs, inputs=families.IDS)
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())
    assert all(value.dtype == torch.float32 for value in mine.state_dict().values())
    assert not any("forward" in vars(module) for module in mine.modules())


def test_models_without_inputs_are_refused():
    theirs = families.theirs_of("plain")
    with pytest.raises(ValueError) as error:
        rf.diff(families.ported(theirs), theirs)
    assert str(error.value) == (
        "diff: two models are compared by running them.\n  mine    Mine\n  theirs  Theirs\n"
        "Pass their inputs: a tensor, a tuple of arguments, or a dict of named ones.\n    rf.diff(mine, theirs, inputs=ids)"
    )


def test_theirs_that_draws_is_refused():
    theirs = families.theirs_of("plain").train()
    with pytest.raises(RuntimeError) as error:
        rf.diff(families.ported(theirs), theirs, inputs=families.IDS)
    assert str(error.value) == (
        "diff: theirs is not deterministic.\n  theirs  Theirs, two passes of it differ\n"
        "The reference must be deterministic:\n    theirs.eval()"
    )
