"""rf.debug accuses no op of the table of the laws where inputs are right, with ragged dims and empty sequences; and wrong indices."""

import sys
from pathlib import Path

import numpy as np
import pytest
from asserting import ragged

sys.path.insert(0, str(Path(__file__).parents[1] / "laws"))
from seed import part_of
from table import CASES, read_entries
from world import LENGTHS, World
from world import world as fixed

import rfnb as rf
from rfnb import Dim

read_entries()
OPTIONS = {"indices": {"indices": True}, "padding": {"padding": "nan"}, "both": {"indices": True, "padding": "nan"}}
ACCUSED = {"last_frame_position_of_dim": "picks the padding of sequences without frames, and sets it afterwards"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", part_of(CASES, 3))
def test_right_inputs_are_not_accused(name):
    uneven = World([4, 0, 3], [0, 3, 2], [2, 3, 2, 4], 0), World([4, 2, 1], [3, 1, 2], [2, 3, 2, 4], 1)
    usual = "indices" if name in ACCUSED else "both"  # what each of two switches says they say together
    for world in (*uneven, *map(fixed, LENGTHS)):
        call, inputs = CASES[name](world)
        for option in OPTIONS if world in uneven and usual == "both" else [usual]:
            with rf.debug(**OPTIONS[option]):
                call(*inputs)


batch, classes, out = Dim(2, name="batch"), Dim(3, name="classes"), Dim(2, name="out")
time = ragged([3, 1], batch)
WRONG = rf.convert_to_tensor(np.asarray([[0, 1, 7], [2, 9, 9]], np.int32), dims=[batch, time], sparse_dim=classes)
X = rf.ones([batch, time, out])
CALLS = {
    "gather": lambda: rf.gather(rf.ones([classes]), indices=WRONG),
    "Embedding": lambda: rf.Embedding(classes, out)(WRONG),
    "embedding of a decoder": lambda: rf.TransformerEncoder(classes, Dim(4), num_layers=1, num_heads=1)(
        WRONG, spatial_dim=time
    ),
    "one_hot": lambda: rf.one_hot(WRONG),
    "scatter": lambda: rf.scatter(X, indices=WRONG, indices_dim=time),
    **{
        f"scatter_{kind}": (lambda kind=kind: getattr(rf, f"scatter_{kind}")(X, indices=WRONG, indices_dim=time))
        for kind in ("mean", "argmax", "logsumexp", "logmeanexp")
    },
    "scatter_count": lambda: rf.scatter_count(indices=WRONG, indices_dim=time),
    "cross_entropy": lambda: rf.cross_entropy(
        estimated=rf.ones([batch, time, classes]), target=WRONG, axis=classes, estimated_type="log-probs"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_index_is_accused(name):
    with (
        pytest.raises(IndexError, match=r"out of range.\n(.*\n)*  first at  batch 0, time 2\n  value     7\n"),
        rf.debug(indices=True),
    ):
        CALLS[name]()


def test_the_script_of_masked_scatter_is_not_accused():
    mask = rf.convert_to_tensor(np.asarray([[True, False, False], [False, True, True]]), dims=[batch, time])

    def go():
        packed, dim = rf.masked_select(X, mask=mask, dims=[time])
        return rf.masked_scatter(packed, X * 0.0, mask=mask, dims=[time], in_dim=dim).numpy().tolist()

    with rf.debug(indices=True):
        assert go() == [[[1, 1], [0, 0], [0, 0]], [[0, 0], [0, 0], [0, 0]]]
