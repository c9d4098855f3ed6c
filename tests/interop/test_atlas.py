"""Each cell of rf.atlas equals a plain computation with that change, and the result of its branch; an atlas stops and resumes."""

import itertools

import numpy as np
import pytest
import torch
from asserting import raises_message, tensor
from matplotlib.figure import Figure
from waiting import LONG, wait_until

import rfnb as rf
from rfnb import Dim
from rfnb.control.held_step import HeldStep
from rfnb.interop.atlas import Atlas
from rfnb.interop.atlas import _there as atlases
from rfnb.interop.atlas_view import AtlasView, spec
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search
from rfnb.viz.view import View

SOURCE, VOCAB = Dim(3, name="letters", vocab=["x", "y", "z"]), Dim(4, name="vocab", vocab=["</s>", "a", "b", "c"])
BATCH, HEADS, UNITS = Dim(1, name="batch", kind="batch"), Dim(2, name="heads"), Dim(3, name="units")
STEPS = 3


def tables(seed=1):
    """Weights [step, head, source] and what is read at each position [head, source, label]."""
    draw = np.random.default_rng(seed)
    weights = np.exp(draw.standard_normal((STEPS, 2, 3)) * 1.5)
    return weights / weights.sum(-1, keepdims=True), draw.standard_normal((2, 3, 4)) * 4 - [
        4,
        0,
        0,
        0,
    ]  # seldom the end


def said(weights, values):
    """A search that looks with these weights, whatever was said; a state `h` is halved in each step, and its units are added to labels."""
    loop = rf.Loop(max_seq_len=STEPS, name="search")
    loop.state.label = rf.zeros([BATCH], dtype="int64", sparse_dim=VOCAB)
    loop.state.h = tensor(np.array([[4.0, -2.0, 1.0]], "float32"), BATCH, UNITS)
    to_labels = tensor(np.eye(3, 4, dtype="float32"), UNITS, VOCAB)
    for step in loop:
        look = tensor(weights[step][None].astype("float32"), BATCH, HEADS, SOURCE)
        read = rf.generic_attention(look, tensor(values.astype("float32"), HEADS, SOURCE, VOCAB), axis=SOURCE)
        logits = rf.reduce_sum(read, axis=HEADS) + rf.matmul(loop.state.h, to_labels, reduce=UNITS)
        loop.state.h = 0.5 * loop.state.h
        label = rf.choice(logits, axis=VOCAB, input_type="logits", beam_size=64)
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        labels = loop.stack(label)
    return labels


def exhaustive(weights, values, state=(4.0, -2.0, 1.0), zeroed=(None, None), first=None):
    """The best of all sequences, and its score, in NumPy; `first` (step, label) has to be in it."""
    h, scores = np.array(state), []
    for step in range(STEPS):
        if step == zeroed[0]:
            h[zeroed[1]] = 0
        logits = np.einsum("hs,hsv->v", weights[step], values) + np.append(h, 0)
        scores.append(logits - np.log(np.exp(logits).sum()))
        h = h / 2
    found = [
        (labels, sum(scores[step][label] for step, label in enumerate(labels)))
        for length in range(1, STEPS + 1)
        for labels in itertools.product(range(4), repeat=length)
        if 0 not in labels[:-1] and (labels[-1] == 0 or length == STEPS)
        and (first is None or (len(labels) > first[0] and labels[first[0]] == first[1]))
    ]  # fmt: skip
    return max(found, key=lambda item: item[1])


def compare(atlas, wanted):
    """The cells of an atlas with results by row and column."""
    plain, before = exhaustive(*tables())
    assert atlas.found.tokens == plain and atlas.found.score == pytest.approx(before, abs=1e-5)
    for (row, col), (labels, score) in wanted.items():
        assert atlas[row, col] == pytest.approx(score - before, abs=1e-5)
        texts = [VOCAB.vocab[label] for label in labels]
        assert atlas.said[row, col] == f"{' '.join(texts)} {score:.2f}".replace("-", "−")
        parts = [at for at in range(min(len(labels), len(plain))) if labels[at] != plain[at]]
        assert atlas.cells[row, col] == (texts[parts[0]] if parts else "")
    assert not atlas.refused.any()


@pytest.fixture(autouse=True)
def no_cell_is_left():
    yield
    for each in list(atlases.values()):
        each.go_on().wait(LONG)


@pytest.fixture(scope="module")
def run():
    made = rf.run(said, *tables(), record=True, name="said")
    assert made.wait(LONG)
    return made


def test_a_position_that_is_hidden_in_a_step(run):
    weights, values = tables()
    atlas, wanted = rf.atlas(run), {}
    assert atlas.shape == (len(exhaustive(weights, values)[0]), 3) and atlas.columns == ("letters", ["x", "y", "z"])
    for row, col in np.ndindex(*atlas.shape):
        changed = weights.copy()
        changed[row, :, col] = 0
        changed[row] /= changed[row].sum(-1, keepdims=True)
        wanted[row, col] = exhaustive(changed, values)
    compare(atlas, wanted)
    assert any(atlas.cells.flat)  # else nothing would be told apart


def test_a_head_that_looks_everywhere_alike(run):
    weights, values = tables()
    atlas, wanted = rf.atlas(run, "head"), {}
    for row, col in np.ndindex(*atlas.shape):
        changed = weights.copy()
        changed[row, col] = 1 / 3
        wanted[row, col] = exhaustive(changed, values)
    assert atlas.shape[1] == 2
    compare(atlas, wanted)


def test_a_label_that_is_forced_and_a_unit_that_is_0(run):
    weights, values = tables()
    plain = exhaustive(weights, values)[0]
    atlas = rf.atlas(run, "label", columns=["a", 2, "</s>"], steps=[0])
    compare(atlas, {(0, col): exhaustive(weights, values, first=(0, label)) for col, label in enumerate((1, 2, 0))})
    atlas = rf.atlas(run, "unit", columns=[0, 2])
    cells = np.ndindex(len(plain), 2)
    compare(atlas, {(r, c): exhaustive(weights, values, zeroed=(r, (0, 2)[c])) for r, c in cells})
    likely = rf.atlas(run, "label", steps=[0]).columns[1]
    assert sorted(likely) == sorted(VOCAB.vocab) and likely[0] in [VOCAB.vocab[label] for label in plain]


def test_a_planted_letter_is_all_that_matters():
    """A model that reads y alone: hiding another letter changes nothing, and hiding y takes its word away."""
    weights, values = tables()
    weights[:, :, 1], values[:, [0, 2]] = 50, 0
    weights /= weights.sum(-1, keepdims=True)
    planted = rf.run(said, weights, values, record=True)
    assert planted.wait(LONG)
    found = np.abs(np.asarray(rf.atlas(planted)))
    assert (found[:, 1] > 0.05).any() and found[:, 1].max() > 3 * found[:, [0, 2]].max()


def test_a_cell_as_a_branch_comes_to_what_it_says(run):
    atlas = rf.atlas(run)
    row, col = np.unravel_index(np.abs(np.asarray(atlas)).argmax(), atlas.shape)
    branch = atlas.branch(row, col)
    assert branch.wait(LONG) and branch.name == f"{SOURCE.vocab[col]} hidden at {row}"
    best = branch.trace.beams["search"].nbest(0)[0]
    assert best.score - atlas.found.score == pytest.approx(atlas[row, col], abs=1e-6)
    assert atlas.said[row, col].startswith(" ".join(best.labels))


def by_runs(monkeypatch, make, **how):
    """An atlas as it is made, and as runs of the function from its beginning make it."""
    run = rf.run(make, record=True)
    assert run.wait(LONG)
    found = rf.atlas(run, **how)
    assert found.wait(LONG)
    monkeypatch.setattr(Atlas, "_rewinds", False)
    wanted = rf.atlas(run, **how)
    assert wanted.wait(LONG)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    assert (found.said == wanted.said).all() and (found.refused == wanted.refused).all()
    return found


def with_noise():
    """Numbers are drawn in each step."""
    loop = rf.Loop(max_seq_len=4, name="search")
    loop.state.label = rf.zeros([BATCH], dtype="int64", sparse_dim=VOCAB)
    to_labels = tensor(np.eye(3, 4, dtype="float32"), UNITS, VOCAB)
    loop.state.h = rf.random_normal([BATCH, UNITS])
    for _ in loop:
        loop.state.h = 0.5 * loop.state.h + rf.random_normal([BATCH, UNITS])
        label = rf.choice(
            rf.matmul(loop.state.h, to_labels, reduce=UNITS), axis=VOCAB, input_type="logits", beam_size=3
        )
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        labels = loop.stack(label)
    return labels


def told(**options):
    """A search that ends before its loop does."""
    moves = tensor(np.random.default_rng(3).standard_normal((4, 4)).astype("float32"), Dim(4, name="before"), VOCAB)

    def step(label, state):
        logits = rf.gather(moves, indices=label, axis=moves.dims[0])
        return rf.log_softmax(logits + state["h"], axis=VOCAB), {"h": state["h"] * 0.5 + 0.1}

    state = {"h": rf.zeros([BATCH, VOCAB])}
    return rf.beam_search(
        step, batch=BATCH, max_seq_len=5, state=state, beam_size=3, axis=VOCAB, end_label=0, **options
    )


def of_arrays(in_place=False):
    """The same of a function of arrays, with coverage; what it changes in place is not known."""
    moves, more = torch.from_numpy(np.random.default_rng(3).standard_normal((5, 4)).astype("float32")).split([4, 1])

    def step(labels, state):
        looks = (moves[labels] + state).softmax(-1)
        after = state.add_(more) if in_place else state + more
        return (moves[labels] + state).log_softmax(-1), after, looks

    return rf.beam_search(
        step, batch=1, max_seq_len=5, state=torch.zeros(1, 4), beam_size=3, coverage=0.1, vocab=[*"abcd"]
    )


def counted():
    """Python counts the steps, so that no step is made twice as it was."""
    weights, values = tables()
    loop, number = rf.Loop(max_seq_len=STEPS, name="search"), 0
    loop.state.label = rf.zeros([BATCH], dtype="int64", sparse_dim=VOCAB)
    for _ in loop:
        look = tensor(weights[number % STEPS][None].astype("float32"), BATCH, HEADS, SOURCE)
        number += 1 + number // STEPS
        read = rf.generic_attention(look, tensor(values.astype("float32"), HEADS, SOURCE, VOCAB), axis=SOURCE)
        logits = rf.reduce_sum(read, axis=HEADS) + rf.zeros([BATCH, VOCAB])
        label = rf.choice(logits, axis=VOCAB, input_type="logits", beam_size=4)
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        labels = loop.stack(label)
    return labels


@pytest.mark.parametrize(
    "make, how, rewinds",
    [
        (with_noise, {"over": "label", "columns": ["a", "b", "c"]}, True),
        (told, {"over": "label", "columns": ["a", "b"]}, True),
        (lambda: told(ended="leave"), {"over": "label", "columns": ["a", "b"]}, True),
        (of_arrays, {"over": "label"}, True),
        (lambda: of_arrays(in_place=True), {"over": "label"}, False),
        (counted, {}, False),
    ],
)
def test_it_comes_to_the_same_as_runs_from_the_beginning(monkeypatch, make, how, rewinds):
    """Where only Python knows how far a search is, the function runs again for each cell."""
    assert by_runs(monkeypatch, make, **how)._rewinds is rewinds


def test_a_cell_costs_the_steps_from_its_own_on(monkeypatch):
    """Besides, it is made once to know its states and once to begin, and gone on with from each row to see that it comes to the same."""
    units, steps, begun = Dim(9, name="units"), 6, []

    def endless():
        loop = rf.Loop(max_seq_len=steps, name="search")
        loop.state.h = tensor(np.arange(9, dtype="float32")[None], BATCH, units)
        for _ in loop:
            loop.state.h = 0.5 * loop.state.h
            logits = rf.matmul(loop.state.h, tensor(np.eye(9, 4, 1, dtype="float32"), units, VOCAB), reduce=units)
            label = rf.choice(logits, axis=VOCAB, input_type="logits", beam_size=2)
            loop.end(label == -1, include_eos=True)
            labels = loop.stack(label)
        return labels

    made = rf.run(endless)
    assert made.wait(LONG)
    begin = HeldStep.begin
    monkeypatch.setattr(HeldStep, "begin", lambda step, index: (begun.append(index), begin(step, index))[1])
    atlas = rf.atlas(made, "unit")
    assert atlas.wait(LONG) and atlas.shape == (6, 9)
    assert [begun.count(row) for row in range(steps)] == [2 + (1 + 9) * (row + 1) for row in range(steps)]
    assert len(begun) < 0.7 * steps * atlas.now.size


def test_it_stops_and_goes_on_and_what_is_left_is_nan(run):
    atlas = rf.atlas(run).stop()
    wait_until(lambda: not atlas.going)
    left = atlas.num_left
    assert np.isnan(np.asarray(atlas)).sum() == left or left == 0
    assert left == 0 or f"{left} of {atlas.now.size} were not computed" in repr(atlas)
    atlas.go_on()
    assert atlas.wait(LONG) and atlas.num_left == 0 and np.isfinite(np.asarray(atlas)).all()
    assert not run.parent and all("again" not in branch.name for branch in run.branches)


def test_of_a_held_run_steps_are_there_that_it_has_not_begun(run):
    held = rf.run(said, *tables(), record=True, paused=True)
    held.step()
    atlas = rf.atlas(held)
    assert atlas.wait(LONG) and atlas.num_left == 0 and held.state == "paused" and not held.branches
    np.testing.assert_array_equal(np.asarray(atlas), np.asarray(rf.atlas(run)))
    held.stop()


def test_no_cell_is_computed_while_no_page_shows_it(run):
    atlas = rf.atlas(run).stop()
    view, answers = AtlasView(atlas), []
    say = lambda do, page: view._hear({"rfnb": "do", "id": f"{page} 1", "do": do}, answers.append)  # noqa: E731
    say("look", "one")
    assert not atlas.going  # it was stopped by its owner
    atlas.go_on()
    say("look", "two")
    say("unlook", "one")
    say("unlook", "two")
    wait_until(lambda: not atlas.going)
    say("look", "three")
    assert atlas.wait(LONG) and atlas.num_left == 0
    assert [answer["said"] for answer in answers] == [None] * 5


def test_text_table_picture_page_and_axes(run, tmp_path):
    atlas = rf.atlas(run)
    row, col = next((r, c) for r, c in np.ndindex(*atlas.shape) if atlas.cells[r, c])
    label = atlas.cells[row, col]
    assert f"{atlas[row, col]:.2f} {label}" in repr(atlas) and repr(atlas).startswith("change of the score of ")
    view = View(spec(atlas))
    line = next(line.split() for line in view.text().splitlines() if line.split()[:1] == [atlas.rows[1][row]])
    assert line[1 + col] == label
    assert view.save(tmp_path / "atlas.svg").read_text().count(f">{label}<") >= 1
    head = view.spec.head
    [effects] = head["maps"][0]["effects"]
    assert effects["labels"][row][col] == label and effects["held"]["steps"] == list(range(atlas.shape[0]))
    companion = atlas.companion.head
    assert (head["axis"], head["col_axis"]) == (
        companion["axis"],
        companion["col_axis"],
    )  # where it looks, on the same axes
    ax = Figure().subplots()
    image = rf.plot.attention(atlas, ax=ax)
    np.testing.assert_allclose(np.asarray(image.get_array()), np.asarray(atlas), atol=1e-6)
    assert label in [text.get_text() for text in ax.texts]


def test_what_cannot_be_done_in_a_step_is_no(run):
    """A label that is banned for good: it is not forced."""

    def only():
        loop = rf.Loop(max_seq_len=2, name="search")
        loop.state.label = rf.zeros([BATCH], dtype="int64", sparse_dim=VOCAB)
        for _ in loop:
            scores = tensor(np.log([[0.1, 0.6, 0.3, 0.0 + 1e-30]]).astype("float32"), BATCH, VOCAB)
            label = rf.choice(scores, axis=VOCAB, beam_size=2, allowed=rf.Lexicon([[1], [1, 1]]))
            loop.state.label = label
            loop.end(label == 0, include_eos=True)
            labels = loop.stack(label)
        return labels

    limited = rf.run(only, record=True)
    assert limited.wait(LONG)
    atlas = rf.atlas(limited, "label", columns=["a", "b"], steps=[0])
    assert np.isfinite(atlas[0, 0]) and np.isnan(atlas[0, 1]) and atlas.refused.tolist() == [[False, True]]
    assert "no" in repr(atlas).split()


# -- mistakes ----------------------------------------------------------------------------------------------------------
def test_too_many_cells_are_a_sentence(run):
    with raises_message(
        ValueError,
        """
        atlas: 100,002 cells.
          steps  3
          units  33334
          most   10,000
        Each cell is a complete run of the function. Select some of them:
            rf.atlas(run, "unit", columns=range(16), steps=range(8))
        """,
    ):
        wide = Dim(33334, name="units")

        def fn():
            loop = rf.Loop(max_seq_len=STEPS, name="search")
            loop.state.h = rf.zeros([BATCH, wide])
            for _ in loop:
                loop.state.h = loop.state.h + 0.0
                scores = tensor(np.log([[0.1, 0.6, 0.2, 0.1]]).astype("float32"), BATCH, VOCAB)
                label = rf.choice(scores, axis=VOCAB, beam_size=2)
                loop.end(label == 0, include_eos=True)
                labels = loop.stack(label)
            return labels

        made = rf.run(fn, record=True)
        made.wait(LONG)
        rf.atlas(made, "unit")


@pytest.mark.parametrize(
    "how, error, says",
    [
        ({"over": "weather"}, ValueError, 'unknown value of over: "weather"'),
        ({"columns": [0, 7]}, IndexError, "no position 7"),
        ({"columns": []}, IndexError, "no positions"),
        ({"steps": [5]}, IndexError, "no step 5"),
        ({"seq": 2}, IndexError, "no sequence 2"),
        ({"over": "label", "columns": ["q"]}, ValueError, "atlas: no such label"),
        ({"path": "nowhere"}, ValueError, "no attention at 'nowhere'"),
        ({"over": "unit", "path": "c"}, ValueError, "no state of one dim at 'c'"),
    ],
)
def test_what_is_none_is_a_sentence(run, how, error, says):
    with pytest.raises(error, match=says) as found:
        rf.atlas(run, **how)
    assert str(found.value).count("\n") <= 5


def test_what_is_no_run_and_has_no_search():
    with pytest.raises(TypeError, match="atlas: not a run"):
        rf.atlas(np.zeros(3))
    plain = rf.run(lambda: 3)
    plain.wait(LONG)
    with pytest.raises(ValueError, match="atlas: there is no search"):
        rf.atlas(plain)
    atlas = rf.atlas(rf.run(said, *tables(), record=True), steps=[0])
    with pytest.raises(IndexError, match="no cell 0, 9"):
        atlas.branch(0, 9)


def test_letters_of_the_shipped_model_have_their_names():
    model = load_g2p()

    def spell():
        with rf.stop_gradient_scope():
            return search(model, ["ox"], beam_size=2)[1]

    made = rf.run(spell, record={"model": model})
    made.wait(LONG)
    atlas = rf.atlas(made)
    assert atlas.columns == ("letters", ["o", "x"]) and atlas.rows[1] == list(atlas.found_texts)
    with pytest.raises(ValueError, match="no heads"):
        rf.atlas(made, "head")
    with pytest.raises(ValueError, match="several states of one dim"):
        rf.atlas(made, "unit")
