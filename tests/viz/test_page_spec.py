"""The spec of a page is small enough; the reduction loses no peak and no NaN, and is stated."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import rfnb as rf
from rfnb.viz import exact_values
from rfnb.viz.beams.tree import grow, rank_of
from rfnb.viz.code import LEVELS, decode
from rfnb.viz.exact_values import Source
from rfnb.viz.group.spec import parts_of
from rfnb.viz.group.spec import spec as group
from rfnb.viz.page.budget import LIVE, Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.pool import extreme, largest, pooled
from rfnb.viz.spec import Spec, pack, unpack
from rfnb.viz.view import View


def room(size: int) -> Room:
    return Room(size, size)


def softmax(*shape: int, seed: int = 0) -> np.ndarray:
    energies = np.exp(3 * np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))
    return energies / energies.sum(-1, keepdims=True)


def attention(*shape: int, **options) -> Spec:
    options = {"dims": ["layer", "head", "target", "source"]} | options if len(shape) == 4 else options
    return rf.viz.attention(softmax(*shape), **options).spec


def values(page: Spec, name: str) -> np.ndarray:
    """The values that the page has of a block, in the shape of the exact one."""
    return decode(page.blocks[name], page.codes[name]) if name in page.codes else page.blocks[name]


def test_a_small_view_is_exact_in_the_page():
    spec = attention(2, 8, 9)
    assert page_spec(spec, room(100_000)) is spec


def search(steps: int, lanes: int, candidates: int) -> Spec:
    """A beam search over random scores; the candidates beyond the lanes are cut."""
    random = np.random.default_rng(0)
    scores = -np.sort(10 * random.random((steps, candidates)), axis=1) - np.arange(steps)[:, None]
    tokens, parents = (random.integers(0, most, (steps, candidates)) for most in (5000, lanes))
    parents[0] = 0
    fields = {"tokens": tokens, "parents": parents, "scores": scores}
    kept = {name: list(field[:, :lanes]) for name, field in fields.items()}
    kept |= {f"cand_{name}": list(field) for name, field in fields.items()}
    return rf.viz.beams(**kept, cand_kept=list(np.arange(candidates)[None].repeat(steps, 0) < lanes)).spec


SPECS = {
    "search": lambda: search(120, 40, 60),
    "attention": lambda: attention(3, 4, 40, 50),
    "one map": lambda: attention(300, 200),
    "one row": lambda: attention(1, 20_000),
    "energies": lambda: rf.viz.attention(np.random.default_rng(0).standard_normal((4, 50, 60))).spec,
    "states": lambda: rf.viz.states({name: np.random.default_rng(0).standard_normal((90, 70)) for name in "hc"}).spec,
    "curves": lambda: rf.viz.curves({"loss": np.random.default_rng(0).standard_normal(50_000).tolist()}).spec,
    "group": lambda: group([attention(4, 50, 50), SPECS["states"](), attention(2, 2), SPECS["curves"]()], link="x"),
    "tokens": lambda: attention(2, 3000, target=["ä" * 90, "b"], source=[f"token {n}" * 30 for n in range(3000)]),
}


@pytest.mark.parametrize("size", [12_000, 30_000, 80_000])
@pytest.mark.parametrize("name", SPECS)
def test_a_page_never_has_more_than_its_room(name, size):
    spec = SPECS[name]()
    page = page_spec(spec, room(size))
    assert len(pack(page)) <= size
    assert page.kind == spec.kind and unpack(pack(page)).head == page.head
    assert (page is spec) == (len(pack(spec)) <= size)
    if page is not spec and page.kind != "group":
        assert page.head["thinned"]


@pytest.mark.parametrize("size", [9_000, 40_000])
def test_a_page_uses_the_room_that_it_has(size):
    for name in ("attention", "one map", "states"):
        assert len(pack(page_spec(SPECS[name](), room(size)))) > size / 4, name


def test_a_small_view_is_exact_beside_a_picture_and_script_that_are_enough_for_a_glance():
    """Of 112 kB that are enough for a glance, the script of a group of views takes nearly all."""
    weights = np.random.default_rng(0).random((8, 9), dtype=np.float32)
    parts = [
        rf.viz.attention(weights).spec,
        rf.viz.states({"h": weights}).spec,
        rf.viz.distribution(weights, estimated_type="logits").spec,
    ]
    for spec in [*parts, group(parts, title="a recording")]:
        made = page_spec(spec, Room(60_000, 0))
        assert {name: block.dtype for name, block in made.blocks.items()} == {
            name: block.dtype for name, block in spec.blocks.items()
        }
        assert not made.head.get("thinned")


def test_the_largest_weight_of_each_block_is_seen():
    spec = attention(2, 100, 90)
    page = page_spec(spec, room(4000))
    code = page.codes["map1"]
    assert max(code.pool) > 1
    _, down, across = code.pool
    for block in ("map0", "map1"):
        shown, true = values(page, block)[0], spec.blocks[block][0]
        code = page.codes[block]
        _, down, across = code.pool
        for row in range(0, 100, down):
            for col in range(0, 90, across):
                most = true[row : row + down, col : col + across].max()
                assert abs(np.sqrt(shown[row, col]) - np.sqrt(most)) <= 3.01 / LEVELS * np.sqrt(code.high)


def test_padding_has_no_part_in_the_cells_beside_it():
    weights = np.random.default_rng(0).random((1, 40, 40), dtype=np.float32) * 1e-3
    weights[0, 33:, :] = weights[0, :, 29:] = 1
    spec = rf.viz.attention(weights, dims=["batch", "target", "source"], target_lengths=[33], source_lengths=[29]).spec
    page = page_spec(spec, room(1000))
    assert max(page.codes["map0"].pool) > 1
    assert (values(page, "map0")[0, :33, :29] < 0.01).all() and page.codes["map0"].high == weights[0, :33, :29].max()


@given(
    arrays.arrays(
        np.float32, st.tuples(st.just(2), st.integers(1, 9), st.integers(1, 9)), elements=st.floats(width=32)
    ),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
@settings(max_examples=200, deadline=None)
def test_neither_a_peak_nor_a_nan_of_a_state_is_lost(array, factors, length):
    """Block by block, against the plain definition."""
    lengths = [(min(length[0], array.shape[1]), min(length[1], array.shape[2])), array.shape[1:]]
    for merge in (extreme, largest):
        made = pooled(array, factors, lengths, merge)
        for seq, row, col in np.ndindex(made.shape):
            rows, cols = lengths[seq]
            down, across = factors
            first = row * down, col * across
            whole = array[seq, first[0] : first[0] + down, first[1] : first[1] + across]
            inside = whole[: max(0, rows - first[0]), : max(0, cols - first[1])]
            block = inside if inside.size else whole
            if merge is largest:
                wanted = np.nan if np.isnan(block).all() else np.nanmax(block)
                np.testing.assert_array_equal(made[seq, row, col], wanted)
            elif np.isnan(block).any():
                assert np.isnan(made[seq, row, col])
            else:
                assert abs(made[seq, row, col]) == np.abs(block).max() and made[seq, row, col] in block


def test_a_nan_and_a_spike_of_a_state_are_in_the_page():
    h = np.tanh(np.random.default_rng(0).standard_normal((300, 200))).astype(np.float32) / 2
    h[111, 77], h[222, 33] = np.nan, -1
    page = page_spec(rf.viz.states({"h": h}).spec, room(6000))
    shown = values(page, "track0")[0]
    assert max(page.codes["track0"].pool) > 1
    assert np.isnan(shown[111, 77]) and shown[222, 33] == -1
    np.testing.assert_array_equal(
        page.blocks["track0/line"][0], np.sqrt(np.square(h.astype(np.float64)).sum(1)).astype(np.float32)
    )


def test_curves_keep_the_ends_the_peaks_and_the_gaps_as_they_were():
    y = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
    y[12_345], y[23_456], y[30_001] = 99, -99, np.nan
    spec = rf.viz.curves({"loss": (np.arange(len(y)), y)}).spec
    page = page_spec(spec, room(20_000))
    x, shown = page.blocks["x0"], page.blocks["y0"]
    assert len(x) < 5000 and {0, 12_345, 23_456, 30_001, 39_999} <= set(x.tolist())
    np.testing.assert_array_equal(shown, y[x])
    assert "has the first, the least, the largest and the last" in page.head["thinned"]


def test_the_map_that_is_seen_first_has_more_than_the_others():
    page = page_spec(attention(6, 6, 64, 64), room(30_000))
    assert np.prod(page.codes["map0"].pool) < np.prod(page.codes["map1"].pool)
    assert {page.codes[f"map{n}"].pool for n in range(1, 36)} == {page.codes["map1"].pool}


def test_less_is_enough_where_it_shows_all_that_a_glance_can_take_in():
    spec = attention(6, 8, 64, 64)
    assert len(pack(page_spec(spec, Room(120_000, 45_000)))) <= 45_000
    assert len(pack(page_spec(attention(1000, 1000), Room(120_000, 45_000)))) > 45_000, "too coarse for a whole screen"


def test_the_budget_of_a_view_holds_before_the_one_of_all(monkeypatch):
    spec = attention(6, 8, 64, 64)
    sizes = {}
    monkeypatch.setattr(rf.viz.options, "_budget", None)
    for name, of_all, own in (("usual", None, None), ("all", 600_000, None), ("own", 600_000, 150_000)):
        rf.viz.options.budget = of_all
        sizes[name] = len(View(spec, budget=own)._page()[1])
    assert sizes["own"] <= 150_000 * 3 // 4 < sizes["all"] <= 600_000 * 3 // 4 and sizes["usual"] < sizes["all"]
    assert rf.viz.attention(np.eye(2), budget=300_000).budget == 300_000


def test_a_live_frame_is_small():
    spec = attention(6, 8, 128, 128)
    assert len(View(Spec("attention", {**spec.head, "live": True}, spec.blocks), budget=2_000_000)._page()[1]) <= LIVE


@pytest.mark.parametrize("budget", [0, -1, 2_000_001, 1e5, "1 MB"])
def test_what_is_no_budget_is_refused(budget):
    wanted = (
        "viz: this is not a budget of a view.\n"
        f"  budget  {budget}\n"
        "  most    2000000\n"
        "A budget is the number of bytes that a view may take in a saved notebook.\n"
        "    rf.viz.options.budget = 2_000_000"
    )
    for give in (
        lambda: setattr(rf.viz.options, "budget", budget),
        lambda: View(attention(2, 2), budget=budget),
        lambda: rf.show(View(attention(2, 2)), budget=budget),
    ):
        with pytest.raises(ValueError) as caught:
            give()
        assert str(caught.value) == wanted
    assert rf.viz.options.budget is None


def ask(source: Source, **asked) -> np.ndarray | None:
    message, buffers = source.answer({"rfnb": "exact", "id": 7, **asked})
    assert message == {"rfnb": "exact", "id": 7}
    return np.frombuffer(buffers[0], np.float32).reshape(asked["size"]) if buffers else None


def test_a_page_gets_the_exact_values_of_its_spec():
    spec, source = attention(2, 30, 40), Source()
    number = source.publish(spec)
    got = ask(source, version=number, block="map1", start=[0, 3, 5], size=[1, 7, 11])
    np.testing.assert_array_equal(got, spec.blocks["map1"][:1, 3:10, 5:16])
    assert source.publish(spec) == number, "the same spec has the same number"
    assert source.publish(attention(2, 30, 40)) > number
    assert ask(source, version=number, block="map1", start=[0, 3, 5], size=[1, 7, 11]) is None, (
        "the values are of another spec"
    )


def test_a_page_gets_the_rows_of_a_hypothesis_by_its_slot_in_each_step():
    slots = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    source = Source()
    good = {
        "version": source.publish(Spec("states", {}, {"slots0": slots})), "block": "slots0", "start": [1, 0, 0, 0],
        "size": [1, 3, 1, 5], "pick": [2, 0, 3],
    }  # fmt: skip
    np.testing.assert_array_equal(ask(source, **good)[0, :, 0], slots[1, [0, 1, 2], [2, 0, 3]])
    for wrong in ([2, 0, 4], [2, -1, 3], [0] * 4, 3, [0.0, 0, 0], [2, 0]):
        assert source.answer({"rfnb": "exact", "id": 7, **good, "pick": wrong})[1] == []


@pytest.mark.parametrize(
    "asked",
    [
        {"block": "map9"}, {"block": None}, {"start": [0, 29, 0]}, {"start": [0, -1, 0]}, {"start": [0, 0]}, {"size": [1, 1]},
        {"size": [1, 1, 41]}, {"size": [1, -1, 4]}, {"size": "1"}, {"size": [1, 1.0, 1]}, {"start": None}, {"version": 0},
    ],
)  # fmt: skip
def test_a_question_that_has_no_answer_gets_none(asked):
    source = Source()
    good = {"version": source.publish(attention(1, 30, 40)), "block": "map0", "start": [0, 0, 0], "size": [1, 2, 3]}
    assert ask(source, **good) is not None
    assert source.answer({"rfnb": "exact", "id": 7, **good, **asked}) == ({"rfnb": "exact", "id": 7}, [])


def test_old_specs_are_forgotten_when_all_of_them_are_too_large(monkeypatch):
    kept = exact_values._Sources(3 * sum(block.nbytes for block in attention(30, 30).blocks.values()))
    monkeypatch.setattr(exact_values, "_kept", kept)
    sources = [Source() for _ in range(4)]
    for source in sources:
        source.publish(attention(30, 30))
    sources[1].publish(attention(30, 30))
    wanted = {"block": "map0", "start": [0, 0, 0], "size": [1, 1, 1]}
    there = [ask(source, version=version, **wanted) is not None for source, version in zip(sources, (1, 2, 1, 1))]
    assert there == [False, True, True, True]
    version = sources[0].publish(attention(30, 30))
    assert version == 2, "a page that has the frame of the first spec gets nothing of this one"
    assert ask(sources[0], version=1, **wanted) is None and ask(sources[0], version=2, **wanted) is not None


def test_the_widget_answers_its_page(monkeypatch):
    view = View(attention(6, 8, 64, 64))
    view._repr_mimebundle_()
    head = unpack(view._widget.frame).head
    sent = []
    monkeypatch.setattr(
        type(view._widget._channel), "send", lambda self, message, buffers: sent.append((message, buffers))
    )
    asked = {
        "rfnb": "exact",
        "id": 1,
        "version": head["version"],
        "block": "map5",
        "start": [0, 1, 0],
        "size": [1, 1, 64],
    }
    view._widget._channel._handle_custom_msg(asked, [])
    [(message, [values])] = sent
    assert message["id"] == 1 and values == view.spec.blocks["map5"][0, 1].tobytes()
    assert view.spec.head.get("thinned") is None and not view.spec.codes, "what a view holds is exact"


def test_parts_of_a_group_keep_their_codes():
    page = page_spec(SPECS["group"](), room(40_000))
    parts = parts_of(page)
    assert "map0" in parts[0].codes and not parts[2].codes
    assert base64.b64encode(pack(page)) == base64.b64encode(pack(group(parts, link="x")))


def test_a_search_keeps_its_best_and_all_that_leads_to_them_as_they_were():
    spec = search(60, 24, 40)
    page = page_spec(spec, room(12_000))
    [full], [seq] = spec.head["seqs"], page.head["seqs"]
    tree = grow(full)
    assert seq["best"] == full["best"] and "of 24 hypotheses and those that lead to them" in page.head["thinned"]
    kept = [{slot for slot, score in enumerate(step["scores"]) if score is not None} for step in seq["steps"]]
    assert 1 <= min(map(len, kept)) and max(map(len, kept)) < 24
    for index, (step, whole) in enumerate(zip(seq["steps"], full["steps"])):
        assert set(step) == {*whole, "ranks", "lasts", "of", "top"} and len(step["scores"]) == 24
        assert (step["of"], step["top"]) == (24, max(whole["scores"]))
        for slot in kept[index]:  # what is said of each is as it was, though others are not there
            node = tree.nodes[index][slot]
            assert (step["ranks"][slot], step["lasts"][slot]) == (rank_of(tree, node), node.last)
        best = min(range(24), key=lambda slot: -whole["scores"][slot])
        assert {best} | {slot for at, slot in full["best"] if at == index} <= kept[index]
        for name in whole.keys() & {"tokens", "parents", "scores", "ended", "states"}:
            assert all(step[name][slot] == whole[name][slot] for slot in kept[index])
        if index:
            assert {step["parents"][slot] for slot in kept[index]} <= kept[index - 1]
            assert {cut["parent"] for cut in step["cuts"]} <= kept[index - 1]
        assert all(cut in whole["cuts"] for cut in step["cuts"])


def test_what_is_enough_for_a_frame_is_enough_beside_a_larger_script():
    room = Room(250_000, 20_000)
    assert [room.frame_beside(size) for size in (0, 85_000, 86_000, 230_000, 300_000)] == [
        Room(187_500, 20_000),
        Room(123_750, 20_000),
        Room(123_000, 20_000),
        Room(15_000, 15_000),
        Room(0, 0),
    ]
