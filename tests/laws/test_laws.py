"""The laws that need a CPU only, for every public op. The worlds of an op are built once, and all laws look at them.

`pytest tests/laws -k "softmax"` has all of one op; a failure names the law and the world. The worlds that are empty, or of one frame,
take turns from op to op: RFNB_SEED=1 turns them, RFNB_ALL=1 has them all, and with RFNB_WORLDS=100 each op has as many random ones.
"""

import functools

import pytest
from all_dtypes import DTYPES, check_dtype
from alone import MIXES_SEQUENCES, compare_alone
from asserting import public
from closed import check_closed
from dtypes import LARGE, NOT_COMPARED, NOT_LARGE, TOLERANCE, check_half, check_large
from gradients import GRADIENT_LAWS, doubles
from laws import LAWS, Run
from marks import MARKS, check_marks
from recording import compare_faces
from second_batch import NOT_AGAIN, check_plans_are_of_one_batch, check_second_batch
from seed import part_of
from table import CASES, EXEMPT, read_entries
from world import MORE, World, in_world, seeds_for, world, worlds_for

import rfnb as rf

read_entries()


def has_frames(run):
    return run.world.time.extent > 1


# Name of a law -> what checks it in one world of an op, and which worlds it is for.
VALUES = {
    **{law: (check, None) for law, check in LAWS.items()},
    "closed backend": (check_closed, None),
    **{law: (functools.partial(check_marks, mark=law), has_frames) for law in MARKS},
}
NUMBERS = {
    **{law: (functools.partial(check_half, dtype=law), has_frames) for law in TOLERANCE},
    **{law: (functools.partial(check_large, change=change), has_frames) for law, change in LARGE.items()},
}
GRADIENTS = {law: (check, None) for law, check in GRADIENT_LAWS.items()}


NUMBER = {name: number for number, name in enumerate(CASES)}


def some_worlds(name, most=None):
    """The world of a case that is full, and the ragged ones, or so many of these; of those that are empty or of one frame, one."""
    every = worlds_for(CASES[name])
    return [*every[3:][:most], *part_of(every[:3], 3, NUMBER[name])]


# One case after the other, so that what is made for a case is made once.
of_each_case = pytest.mark.parametrize("name", CASES, scope="module")


def check_all(laws, runs, subtests):
    for law, (check, is_for) in laws.items():
        with subtests.test(law):
            for run in runs:
                if is_for is None or is_for(run):
                    with in_world(run.world):
                        check(run)


@of_each_case
def test_values(name, subtests):
    """Order, padding, backends, marks, and a sequence alone."""
    case = CASES[name]
    runs = [Run(name, case, make) for make in some_worlds(name)]
    check_all(VALUES, runs, subtests)
    if name in MIXES_SEQUENCES:
        return
    with subtests.test("alone"):
        compared = 0
        for run in runs:
            with in_world(run.world):
                compared += compare_alone(run)
        assert compared, f"{name}: no result has a batch dim; let the case draw one, or list it with a reason"
    if name not in NOT_COMPARED:
        with subtests.test("alone in float16"), rf.set_default_float_dtype_ctx("float16"):
            for change in (None, *(() if name in NOT_LARGE else part_of(LARGE.values(), 3, NUMBER[name]))):
                for run in runs[:2]:
                    with in_world(run.world):
                        compare_alone(run, functools.partial(as_float16, change=change))


def three_full():
    return World([4, 2, 3], [3, 4, 2], [2, 3, 2, 4], 0)


def as_float16(x, change):
    return rf.cast(x if change is None else change(x), "float16")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", part_of(CASES, 2, 1), scope="module")  # test_again has the others
def test_numbers(name, subtests):
    """Gradients, and every dtype."""
    case = CASES[name]
    worlds = some_worlds(name, 2)
    runs = [Run(name, case, make) for make in worlds]
    check_all(NUMBERS, runs, subtests)
    with subtests.test("every dtype"):
        for dtype in DTYPES:
            check_dtype(Run(name, case, three_full), dtype)
    with doubles():
        check_all(GRADIENTS, [Run(name, case, make) for make in worlds], subtests)


@pytest.mark.parametrize("name", part_of(CASES, 2), scope="module")
def test_again(name, subtests):
    """Both faces of a loop, and what is computed by plans that are there."""
    case = CASES[name]
    seeds = seeds_for(case)
    with subtests.test("faces of a loop"):
        compare_faces(name, case, world("full", seeds[0]))
        compare_faces(name, case, world(seed=seeds[-1]), over_batch=True)
    if name not in NOT_AGAIN:
        with subtests.test("second batch"):
            for seed in (*part_of(seeds[:2], 2, NUMBER[name]), *range(MORE)):
                check_second_batch(name, case, seed)
    with subtests.test("a plan is of one batch"):
        check_plans_are_of_one_batch(case)


def names_without_case(public):
    """The public names that are neither in the table nor in the list of exempt names."""
    return sorted(set(public) - {name.split()[0] for name in CASES} - set(EXEMPT))


def public_names():
    return [name for name in public() if not name.startswith("_") and not isinstance(getattr(rf, name), type(rf))]


def test_every_public_op_is_in_the_table():
    assert names_without_case(public_names()) == []


def test_a_new_public_op_without_case_is_seen():
    assert names_without_case([*public_names(), "new_op"]) == ["new_op"]


def test_the_list_of_exempt_names_has_only_public_names_with_a_reason():
    assert [name for name in EXEMPT if not hasattr(rf, name) or not EXEMPT[name]] == []
    assert [name for name in CASES if not hasattr(rf, name.split()[0])] == []
