"""Every case of the table with dims of size 0 (features, classes, batch, frames): raw shapes fit the dims, or the op refuses."""

import pytest
from all_dtypes import is_ours
from asserting import on_selected_backend, using_backend
from laws import parts_in
from table import CASES, read_entries
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

read_entries()
# Cases that pick an entry of what is empty themselves, each with the reason.
PICKS = {
    "Parameter assign_key": "writes to entry 0 of what is empty",
    "beam_search_step": "divides by the hypotheses, of which there are none",
}


def worlds():
    for place in range(4):
        sizes = [2, 3, 2, 4]
        sizes[place] = 0
        yield World([4, 2, 1], [3, 1, 2], sizes, place)
    yield World([], [], [2, 3, 2, 4], 0)
    yield World([0, 0], [0, 0], [2, 3, 2, 4], 1)
    yield World([0, 0], [0, 0], [0, 0, 0, 0], 0)


def misfits(name, call, inputs):
    """The problems of a call's results."""
    for backend in ("torch", "numpy"):
        try:
            with using_backend(backend):
                out = call(*map(on_selected_backend, inputs)) if backend == "numpy" else call(*inputs)
        except Exception as error:
            if not is_ours(error):
                yield f"{name}, {backend}: raw {type(error).__name__}: {error}"
            continue
        for x in parts_in(out, Tensor):
            shape, dims = tuple(x.raw_tensor.shape), tuple(dim.extent for dim in x.dims)
            if shape != dims:
                yield f"{name}, {backend}: raw shape {shape}, dims {dims}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in CASES if name not in PICKS])
def test_shapes_fit_the_dims(name):
    tried = 0
    for world in worlds():
        try:
            call, inputs = CASES[name](world)
        except Exception:  # there are no such inputs: no entry to draw, no block to make
            continue
        tried += 1
        assert list(misfits(name, call, inputs)) == []
    assert tried


def test_a_shape_that_does_not_fit_is_seen():
    none = Dim(0, name="none")
    broken = lambda x: Tensor._like(x, x.raw_tensor.sum(), x.dims)  # noqa: E731
    assert len(list(misfits("broken", broken, [rf.ones([none])]))) == 2


def test_the_list_of_exceptions_has_only_cases_with_a_reason():
    assert [name for name, reason in PICKS.items() if name not in CASES or not reason] == []
