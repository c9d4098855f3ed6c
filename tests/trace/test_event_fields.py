"""The fields of an event are checked on entry: for the sender, and for the reader of a file."""

import json

import numpy as np
import pytest
from asserting import raises_message, randn, tensor
from interop.mutations import header_of, with_header

import rfnb as rf
from rfnb import Dim, load_trace
from rfnb.trace.event_fields import FIELDS
from rfnb.trace.probe import probe

UNIT, TIME = Dim(2, name="unit"), Dim(3, name="time")
WRONG = {"attention": "axis", "states": "axis", "tokens": "ids", "outputs": "axis", "beams": "blockers"}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_field_that_holds_something_else_is_refused_where_it_is_offered(kind):
    with rf.record() as trace, pytest.raises(TypeError, match=f'^probe "{kind}": {WRONG[kind]} is not '):
        probe(kind, **{WRONG[kind]: "text"})
    assert not trace.events


def test_the_message_names_the_field_what_it_holds_and_another_kind():
    message = """
        probe "attention": weights is not a Tensor with its numbers, or None.
          weights  ndarray
        What looks at a recording knows fields by their names. Name the axes of an array; other things have a kind of their own:
            rf.probe("my attention", weights=weights, ...)
        """
    with rf.record(), raises_message(TypeError, message):
        probe("attention", weights=np.zeros((2, 3)), axis=TIME)


def test_nobody_is_told_while_nobody_records():
    probe("attention", weights=3, axis="time")


def test_a_kind_of_ones_own_holds_anything():
    with rf.record() as trace:
        probe("mine", weights="text", axis=3)
    assert trace.events[0].values["weights"] == "text"


def recorded(path, change):
    """A recording whose description was changed in its file."""
    with rf.record() as trace:
        probe("attention", weights=randn(UNIT, TIME), axis=TIME, remark="words")
        probe("states", h=randn(UNIT))
    trace.save(path)
    header, arrays = header_of(path.read_bytes())
    told = json.loads(header["__metadata__"]["rfnb"])
    change(told["events"])
    path.write_bytes(with_header({**header, "__metadata__": {"rfnb": json.dumps(told)}}, arrays))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda events: events[0]["values"].update(remark=3), "remark of attention at no path is not a text, or None"),
        (lambda events: events[0]["values"].update(before=3), "before of attention at no path is not a Dim, or None"),
        (
            lambda events: events[0]["values"]["weights"]["tensor"].pop("array"),
            "weights of attention at no path is not a Tensor with its numbers, or None",
        ),
        (
            lambda events: events[1]["values"]["h"]["tensor"].pop("array"),
            "h of states at no path is not anything but a Tensor without numbers",
        ),
    ],
)
def test_a_file_with_another_field_is_refused_when_it_is_read(tmp_path, change, found):
    recorded(tmp_path / "run.rfnb", lambda events: None)
    assert len(load_trace(tmp_path / "run.rfnb").events) == 2
    recorded(tmp_path / "run.rfnb", change)
    with pytest.raises(ValueError, match="the file is damaged") as refused:
        load_trace(tmp_path / "run.rfnb")
    assert found in str(refused.value)


def test_a_step_without_the_state_of_the_others_is_named(probe_steps):
    with rf.record() as trace:
        probe_steps("states", [{"h": randn(UNIT)}, {"c": randn(UNIT)}])
    message = """
        trace.states["loop"]: step 1 has no numbers "h".
          h           nothing
          all values  c
        What was offered at a path is put together by the names of its values, in every step the same. One by one it is here:
            trace.select(kind="states", path="loop")
        """
    with raises_message(ValueError, message):
        trace.states["loop"]
    with raises_message(ValueError, message):
        trace.states.steps("loop", "h")


def test_an_attention_without_weights_is_named():
    with rf.record() as trace:
        probe("attention", weights=None, axis=TIME)
    with pytest.raises(ValueError, match=r'^trace\.attention\[""\]: this event has no numbers "weights"\.'):
        trace.attention[""]


FAULTS = {
    "parents are none of 2": lambda steps: steps[2]["parents"].fill(2),
    "parents are none of 2 ": lambda steps: steps[1]["parents"].fill(-1),
    "scores has another shape": lambda steps: steps[1].update(scores=np.zeros((2, 3), np.float32)),
    "tokens are float32": lambda steps: steps[0].update(tokens=np.zeros((2, 2), np.float32)),
    "scores are int64": lambda steps: steps[0].update(scores=np.zeros((2, 2), np.int64)),
    "tokens has another shape": lambda steps: steps[2].update({name: array[:1] for name, array in steps[2].items()}),
    "cand_parents is missing": lambda steps: steps[1].update(cand_tokens=np.zeros((2, 4), np.int64)),
    "next_log_probs is missing": lambda steps: steps[1].update(next_tokens=np.zeros((2, 2, 3), np.int64)),
    "end_part:lm is of no part": lambda steps: steps[1].update({"end_part:lm": np.zeros((2, 2), np.float32)}),
    "next_tokens has too few rows": lambda steps: steps[1].update(
        next_tokens=np.zeros((2, 0, 3), np.int64), next_log_probs=np.zeros((2, 0, 3), np.float32)
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_steps_that_are_no_search_are_named(search, probe_steps, fault):
    steps = [{name: value.numpy().copy() for name, value in fields.items()} for fields in search.values]
    FAULTS[fault](steps)
    sizes = {2: search.beam, 0: Dim(0, name="none")}

    def dims_of(name, array):
        batch = search.batch if len(array) == 2 else Dim(1, name="batch")
        return [batch, *(sizes.get(size) or Dim(size, name=f"{name}{size}") for size in array.shape[1:])]

    values = [
        {
            name: tensor(array, *dims_of(name, array), sparse_dim={"tokens": search.vocab, "parents": search.beam}.get(name))
            for name, array in fields.items()
        }
        for fields in steps
    ]  # fmt: skip
    with rf.record() as trace:
        probe_steps("beams", values, name="search")
    with pytest.raises(ValueError, match=rf"^beams, step \d: {fault.strip()}\."):
        trace.beams["search"]
