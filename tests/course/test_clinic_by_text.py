"""The faults of the clinic are found with llms.txt and texts alone: one call each, the one that its table names for the complaint."""

import sys
from functools import cache
from pathlib import Path

import pytest
import torch

import rfnb as rf
from rfnb.viz.terminal import tokens_of

sys.path.append(str(Path(__file__).parents[2] / "notebooks/data"))
import clinic

X, LENGTHS = clinic.batch()
TEXT = torch.tensor([1, 4, 2, 5, 3, 1])
FIRST, SECOND = clinic.made((5, 3), 8), clinic.made((5, 3), 9)


def seen(values, dims):
    with rf.record() as trace:
        rf.probe("output", dims=dims, values=values)
    return trace


def in_the_batch(model):
    return repr(rf.check_batch(model, (X, LENGTHS), dtype=torch.float32))


def in_steps(model):
    state, rows = model.start(), []
    for token in TEXT:
        logits, state = model.step(token, state)
        rows.append(logits)
    return differ(model.whole(TEXT), torch.stack(rows), "time label", ("whole", "steps"))


def used(make):
    model = make()
    model(FIRST)
    return differ(make()(SECOND), model(SECOND), "time unit", ("new", "used"))


def scored(search):
    speller = clinic.Speller(0)
    found = search(speller, 4, 6)
    says, scores = [score for _, score in found], [speller.score(labels) for labels, _ in found]
    return differ(torch.tensor(says), torch.tensor(scores), "hypothesis", ("says", "is"))


def differ(a, b, dims, names):
    return rf.viz.diff(seen(a, dims), seen(b, dims), names=names).text(short=True)


def asked(ask):
    pytest.importorskip("transformers")
    ids, mask = clinic.texts()
    return repr(rf.check_batch(clinic.ScoringModel(clinic.reader(), ask), {"input_ids": ids, "attention_mask": mask}))


WAYS = {1: in_the_batch, 2: in_the_batch, 3: in_steps, 4: used, 5: scored, 6: asked}
HEALTHY = [(1, "encoder"), (2, "attention"), (3, "language"), (4, "recogniser"), (5, "beam"), (6, "scores")]
# What is said of them beside that there is a fault: where it is, or what it comes from.
SAID = {
    clinic.DIAGNOSES[1]: "from another sequence [batch=0, time=0]", "minus the mean over the batch": "in mean",
    "a reshape where a transpose was meant": "in reshape", "wrong in first frames alone": "at [batch=0, time=0,",
    "wrong from the second frame on": "at [batch=1, time=1,", "wrong in the last sequence alone": "0.0e+00 0.0e+00 3.3e-01",
    "wrong in the first sequence alone": "3.3e-01 0.0e+00 0.0e+00", clinic.DIAGNOSES[2]: "in softmax",
    "the mean is over padding, too": "in mean", "one frame of padding is seen": "It comes from padding",
    "padding changes all frames by less than 0.05": "in sum", clinic.DIAGNOSES[3]: "36 of 36 cells differ",
    "the position stays at 3": "only in time 4 to 5", "the position stays at 4": "only in time 5",
    "the cache keeps four letters": "only in time 4 to 5", "the second letter does not see itself": "only in time 1",
    "in steps all logits are too large by 0.02": "steps is whole + 0.02 in all cells", clinic.DIAGNOSES[4]: "at time 0",
    "a fiftieth of the last state is left": "only in time 0 to 3", clinic.DIAGNOSES[5]: "only in hypothesis 1 to 3",
    "the last state comes back behind the first frame": "at time 1", clinic.DIAGNOSES[6]: "in arange",
    "the mask is not passed on": "in scaled_dot_product_attention", "positions count the padding, wherever it is": "in sum",
    "scores are too small by 0.02": "is is says + 0.02 in all cells", "the score of the best alone is too large": "only in hypothesis 0",
}  # fmt: skip


@cache
def faults():
    found = [(kind, clinic.DIAGNOSES[kind], patient) for kind, patient in clinic.PATIENTS.items()]
    return found + [(kind, name, ill) for kind, others in clinic.VARIANTS.items() for name, ill in others.items()]


def test_each_fault_is_found_in_one_call_by_a_text_that_is_short():
    assert len(faults()) == 40 and {*SAID} <= {name for _, name, _ in faults()}
    for kind, name, patient in faults():
        text = WAYS[kind](patient)
        assert tokens_of(text) < 500, name
        assert ("A leak:" if kind in (1, 2, 6) else "First difference:") in text, name
        assert SAID.get(name, "") in " ".join(text.split()), (name, text)


@pytest.mark.parametrize(("kind", "name"), HEALTHY)
def test_no_healthy_model_is_called_ill(kind, name):
    others = {} if kind == 2 else clinic.OTHERS.get(kind, {})  # the other attention takes away a mean over the batch
    for model in (clinic.HEALTHY[kind], *others.values()):
        text = " ".join(WAYS[kind](model).split())
        assert any(each in text for each in ("The same alone", "are the same", "Rounding:")), (name, text)
