"""Properties of units (saturated, dead, unchanged) are found in states that are built to have them."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.viz.drawing.shapes import Cells
from rfnb.viz.exact_values import part
from rfnb.viz.group.spec import spec as group
from rfnb.viz.kinds import drawing_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.spec import Spec
from rfnb.viz.states.check import AFTER_END, DEAD, INFINITY, NAN, SATURATED, UNCHANGED
from rfnb.viz.states.orders import Brush, clustered, counts, derived, elsewhere, ends_of_words, order_of

WORDS = ["the cat sat", "a dog"]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32) * 0.1


def built() -> Spec:
    """Unit 1 counts, unit 2 counts down, unit 3 ends words, unit 4 knows the letter a, unit 5 keeps it from its first place on."""
    steps = [list(word) for word in WORDS]
    h = noise(2, 11, 6)
    for seq, letters in enumerate(steps):
        time = np.arange(len(letters))
        h[seq, : len(letters), 1] = time / 11
        h[seq, : len(letters), 2] = -time / 22
        h[seq, : len(letters), 3] += ends_of_words(letters)
        h[seq, : len(letters), 4] += np.array(letters) == "a"
        h[seq, : len(letters), 5] = np.cumsum(np.array(letters) == "a") > 0
        h[seq, len(letters) :] = h[seq, len(letters) - 1]
    return rf.viz.states({"h": h}, steps=steps, names=WORDS).spec


def order(spec: Spec, name: str, seq: int = 0) -> tuple[list[int], list[float]]:
    block = spec.blocks[f"track0/order/{name}"][seq]
    return block[0].astype(int).tolist(), block[1].tolist()


def test_units_that_count_are_at_the_ends_of_the_order_by_position():
    units, numbers = order(built(), "position")
    assert (units[0], units[-1]) == (1, 2)
    assert numbers[0] == pytest.approx(1) and numbers[-1] == pytest.approx(-1)


def test_the_unit_that_ends_words_and_the_one_that_knows_a_letter_come_first():
    spec = built()
    assert order(spec, "end")[0][0] == 3 and order(spec, "label a")[0][0] == 4
    assert "by correlation with end of word" in [one["label"] for one in spec.head["orders"]]


def test_correlations_are_those_of_numpy_over_all_real_steps():
    spec = built()
    h = spec.blocks["track0"]
    rows = np.concatenate([h[0, :11], h[1, :5]])
    features = {"position": [*range(11), *range(5)], "label a": [letter == "a" for word in WORDS for letter in word]}
    for name, feature in features.items():
        units, numbers = order(spec, name)
        np.testing.assert_allclose(numbers, [np.corrcoef(rows[:, unit], feature)[0, 1] for unit in units], atol=1e-6)


def test_the_share_that_labels_explain_is_one_for_a_function_of_the_label():
    letters = list("abcabcaab")
    h = np.stack([[{"a": 3.0, "b": 1.0, "c": -2.0}[letter] for letter in letters], np.arange(9.0)], -1)
    units, numbers = order(rf.viz.states({"h": h}, steps=letters).spec, "label")
    assert units == [0, 1] and numbers[0] == pytest.approx(1) and numbers[1] < 0.3


def test_units_are_sorted_by_the_step_in_which_they_get_large_in_this_sequence():
    h = np.zeros((2, 6, 4), np.float32)
    h[0, 4:, 0], h[0, 1, 1], h[0, 2:, 2] = 1, -5, 0.3
    h[1, 3, 1], h[1, 0, 2] = 1, 1
    spec = rf.viz.states({"h": h}).spec
    assert order(spec, "first", 0)[0] == [1, 2, 0, 3] and order(spec, "first", 1)[0] == [2, 1, 0, 3]
    np.testing.assert_array_equal(order(spec, "first", 0)[1], [1, 2, 4, np.nan])


def test_units_that_move_together_stand_together():
    rng = np.random.default_rng(3)
    shapes = rng.normal(size=(40, 3))
    kind = rng.integers(3, size=30)
    values = shapes[:, kind] * rng.uniform(0.5, 2, 30) + 0.05 * rng.normal(size=(40, 30))
    values[:, 7] = 4.0
    found, near = clustered(values)
    assert sorted(found) == list(range(30)) and found[-1] == 7 and np.isnan(near[[0, 29]]).all()
    kinds = [kind[unit] for unit in found[:-1]]
    assert sum(one != other for one, other in zip(kinds, kinds[1:])) == 2
    np.testing.assert_allclose(near[5], np.corrcoef(values[:, found[4]], values[:, found[5]])[0, 1])


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_those_of_joining_the_nearest_pair_again_and_again(seed):
    """Each group of the plain algorithm is a stretch of the order."""
    values = np.random.default_rng(seed).normal(size=(12, 9))
    found = clustered(values)[0].tolist()
    distances = 1 - np.corrcoef(values.T)
    groups = [[unit] for unit in range(9)]
    while len(groups) > 1:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a)]
        mean = [np.mean([distances[i, j] for i in groups[a] for j in groups[b]]) for a, b in pairs]
        a, b = pairs[int(np.argmin(mean))]
        groups = [group for index, group in enumerate(groups) if index not in (a, b)] + [groups[a] + groups[b]]
        places = sorted(found.index(unit) for unit in groups[-1])
        assert places == list(range(places[0], places[0] + len(places)))


@pytest.mark.parametrize("values", [np.zeros((0, 3)), np.zeros((4, 0)), np.zeros((4, 3)), np.ones((1, 1))])
def test_nothing_to_cluster_is_an_order_all_the_same(values):
    assert clustered(values)[0].tolist() == list(range(values.shape[1]))


@pytest.mark.parametrize(
    "labels, ends",
    [
        ("the␣cat", [0, 0, 1, 0, 0, 0, 1]),
        (["▁the", "▁c", "at", "▁s"], [1, 0, 1, 1]),
        (["th@@", "e", "cat"], [0, 1, 1]),
        (["the", "##re", "is"], [0, 1, 1]),
        ("cat", [0, 0, 1]),
        ("", []),
    ],
)
def test_words_end_where_the_labels_say_so(labels, ends):
    assert ends_of_words(list(labels)).tolist() == ends


# -- flags -------------------------------------------------------------------------------------------------------------------
def flagged(values: np.ndarray, name: str = "h", **options) -> tuple[np.ndarray, np.ndarray, str]:
    spec = rf.viz.states({name: values}, **options).spec
    none = np.zeros((values.shape[0], values.shape[2])), np.zeros(values.shape[:2])
    units, steps = (spec.blocks.get(f"track0/{what}", other) for what, other in zip(("units", "steps"), none))
    return units, steps, spec.head["tracks"][0].get("says", {}).get("0", "")


def test_units_and_steps_that_stand_out_are_flagged():
    h = noise(1, 10, 6)
    h[0, :, 0], h[0, :, 1], h[0, :, 2] = 0, 0.5, 0.99
    h[0, 3, 3], h[0, 4, 4] = np.nan, np.inf
    units, steps, says = flagged(h)
    assert units[0].tolist() == [DEAD, UNCHANGED, SATURATED | UNCHANGED, NAN, INFINITY, 0]
    assert steps[0].tolist() == [0, 0, 0, NAN, INFINITY, 0, 0, 0, 0, 0]
    assert says == "1 unit NaN, 1 infinity, 1 dead, 2 unchanged, 1 saturated; 1 step NaN, 1 infinity"


def test_a_gate_is_saturated_at_both_ends_and_a_state_without_bounds_nowhere():
    gate = 0.5 + noise(1, 20, 3)
    gate[0, :, 0], gate[0, :, 1] = 0.99, 0.01
    gate[0, ::2, :2] -= 0.005
    units, steps, _ = flagged(gate, "forget_gate")
    assert units[0].tolist() == [SATURATED, SATURATED, 0] and (steps[0] == SATURATED).all()
    assert not flagged(100 * noise(1, 20, 3), "c")[0].any()


def test_a_step_that_changes_nothing_is_flagged():
    h = noise(1, 6, 3)
    h[0, 3] = h[0, 2]
    assert flagged(h)[1][0].tolist() == [0, 0, 0, UNCHANGED, 0, 0]


def test_steps_after_the_end_that_move_are_flagged_and_those_that_keep_are_not():
    h = noise(1, 7, 3)
    h[0, 4:] = h[0, 3]
    h[0, 5] += 1
    assert flagged(h, lengths=[4])[1][0].tolist() == [0, 0, 0, 0, 0, AFTER_END, 0]


@pytest.mark.parametrize("name", ["forget_gate", "cell_input"])
def test_what_is_computed_in_a_step_may_go_on_after_the_end(name):
    gate = np.clip(0.5 + noise(1, 7, 3), 0, 1)
    assert not flagged(gate, name, lengths=[4])[1].any()
    assert "notes" not in rf.viz.states({name: gate}, lengths=[4]).spec.head["tracks"][0]


def test_steps_to_come_are_not_flagged():
    h = np.full((1, 6, 2), np.nan, np.float32)
    h[0, :3] = noise(3, 2)
    units, steps, says = flagged(h, live=True)
    assert not units.any() and not steps.any() and not says


# -- tracks --------------------------------------------------------------------------------------------------------------------
def test_the_state_comes_first_and_gates_last_on_a_scale_from_0_to_1():
    gate = np.clip(0.5 + noise(1, 5, 3), 0, 1)
    head = rf.viz.states({"input_gate": gate, "x": noise(1, 5, 3), "h": noise(1, 5, 3), "c": noise(1, 5, 3)}).spec.head
    assert [track["label"] for track in head["tracks"]] == ["h", "c", "x", "input_gate"]
    assert [track["gate"] for track in head["tracks"]] == [False, False, False, True]
    assert head["tracks"][3]["range"] == [0, 1] and head["tracks"][0]["range"][0] == -head["tracks"][0]["range"][1]


def test_what_is_called_a_gate_but_leaves_0_to_1_is_none():
    assert not rf.viz.states({"gate": noise(1, 5, 3)}).spec.head["tracks"][0]["gate"]


def test_a_gate_has_its_mean_opening_in_text_and_picture():
    view = rf.viz.states({"forget_gate": np.full((1, 4, 2), 0.25, np.float32)})
    assert "mean opening up to 0.25" in view.text()
    assert {cells.ramp for cells in drawing_of(view.spec).shapes if type(cells).__name__ == "Cells"} == {"diverging"}


def test_the_text_says_which_unit_counts_and_has_80_columns():
    text = rf.viz.states({"a long name of a state": np.stack([np.arange(30) / 30, *noise(9, 30)], -1)}).text()
    assert "* Correlation with the position: a long name of a state unit 0 (+1.00)." in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


# -- a brush, and what is made when it is asked for ------------------------------------------------------------------------------
def test_units_that_are_on_here_and_only_here_are_found_and_where_else_all_are():
    h = np.zeros((2, 5, 3), np.float32)
    h[0, 1:3, 0], h[0, [1, 2, 4], 1], h[0, 1, 2] = 1, 1, 1
    h[1, 0, :2], h[1, 3:] = 1, 9
    brush = Brush(seq=0, start=1, stop=3, threshold=0.5)
    here, outside = counts(h, [5, 3], brush)
    assert here.tolist() == [2, 2, 1] and outside.tolist() == [0, 1, 0]
    share = elsewhere(h, [5, 3], brush)
    np.testing.assert_array_equal(share, [[0, 1, 1, 0, 0.5], [1, 0, 0, np.nan, np.nan]])
    np.testing.assert_array_equal(counts(-h, [5, 3], Brush(0, 1, 3, -0.5)), [here, outside])


def test_a_threshold_is_a_number_of_the_precision_of_the_values():
    assert counts(np.full((1, 2, 1), 0.1, np.float32), [2], Brush(0, 0, 2, float(np.float32(0.1))))[0, 0] == 2


def test_a_page_asks_for_what_is_not_in_the_spec():
    spec = group([rf.viz.attention(np.ones((2, 2))).spec, built()], link="x")
    block = spec.blocks["1/track0"]
    want = {"block": "1/track0/on/1/0/2/0.25", "start": [0, 0], "size": [2, 6]}
    np.testing.assert_array_equal(part(spec, want), counts(block, [11, 5], Brush(1, 0, 2, 0.25)))
    want = {"block": "1/track0/order/cluster", "start": [0, 0, 0], "size": [1, 2, 6]}
    np.testing.assert_array_equal(part(spec, want), spec.blocks["1/track0/order/cluster"])


@pytest.mark.parametrize(
    "name",
    ["track0/order/none", "track0/order/label z", "track9/order/first", "track0/on/0/0/99/1", "track0/on/7/0/1/1",
     "track0/on/0/2/1/1", "track0/on/x", "track0/on/0/0/1/nan", "track0/what/0/0/1/1", "", "/"],
)  # fmt: skip
def test_what_there_is_not_is_no_block(name):
    assert derived(built(), name) is None


def test_of_large_states_orders_are_made_when_they_are_asked_for_and_are_the_same():
    h = noise(2, 400, 300)
    spec = rf.viz.states({"h": h}).spec
    assert spec.head["orders"] and not any("/order/" in name for name in spec.blocks)
    for name in ("first", "cluster", "position"):
        np.testing.assert_array_equal(
            derived(spec, f"track0/order/{name}"), order_of(spec.blocks["track0"], spec.head["seqs"], name)
        )


def test_orders_never_cost_a_page_its_exact_values():
    spec = rf.viz.states({name: noise(3, 20, 60) for name in "ch"}, steps=list("the cat sat on a mat")).spec
    size = sum(block.nbytes for name, block in spec.blocks.items() if "/order/" not in name)
    page = page_spec(spec, Room(size, size))
    assert not page.codes and "thinned" not in page.head
    assert any("/order/" in name for name in page.blocks) or len(page.blocks) < len(spec.blocks)


def test_a_picture_has_the_line_alone_of_many_units_of_gates_beside_their_state():
    for units, alone in ((49, True), (48, False)):
        tracks = {
            name: np.random.default_rng(0).random((5, units)) for name in ("c", "cell_input", "input_gate", "gated")
        }
        drawing = drawing_of(rf.viz.states(tracks).spec, 600)
        strips = [shape for shape in drawing.shapes if isinstance(shape, Cells) and shape.of is not None]
        assert len(strips) == (2 if alone else 4)
        assert any("the line alone" in note for note in drawing.notes) == alone
    drawing = drawing_of(rf.viz.states({"input_gate": tracks["c"].repeat(2, 1)}).spec, 600)
    assert any(isinstance(shape, Cells) and shape.of is not None for shape in drawing.shapes)


def test_of_many_units_those_that_move_early_are_first():
    from rfnb.viz.states.tracks import CHANGING, changing

    steps = np.random.default_rng(1).integers(0, 9, size=60)
    values = np.where(np.arange(9)[:, None] == steps, 0.0, 1.0)  # each is closed in one step
    rows = changing(values)
    assert len(rows) == CHANGING and (np.diff(steps[rows]) >= 0).all()
    values[2, rows[0]] = np.nan
    assert len(set(changing(values))) == CHANGING and (changing(values[:, :9]) == np.arange(9)).all()
