"""A page that runs its model draws what a kernel would draw, and refuses in words."""

from __future__ import annotations

import re

import numpy as np
import pytest
from viz.runnable import program_in, told_in_node, views_in_node
from viz.test_runnable import X, feat, of_steps, other, read, three
from waiting import LONG, wait_until

import rfnb as rf
from rfnb.control.ghosts import Ghost
from rfnb.core.errors import parts_of as parts_of_error
from rfnb.models import load_g2p, pronounce
from rfnb.models.g2p_search import search
from rfnb.viz import trace_page
from rfnb.viz.branches.spec import beside_each_other
from rfnb.viz.control.run_view import edit_handles_of, in_order
from rfnb.viz.group.spec import parts_of
from rfnb.viz.runnable.page import page_of
from rfnb.viz.runnable.weights import CodedWeights

ASKED = [("parachute", 5), ("a", 5), ("mississippi", 3), ("onomatopoeia", 12), ("queue", 1), ("zzz", 7)]
OF_STEPS = ("tokens", "parents", "ended", "states", "ids")


@pytest.fixture(scope="module")
def spell():
    model = load_g2p()
    return lambda word, beam_size=5: search(model, [word], beam_size=beam_size)


@pytest.fixture(scope="module")
def page(spell):
    return page_of(spell, ("word", "parachute"), {"beam_size": (5, (1, 12, 1))}, {}, weights="float32")


@pytest.fixture(scope="module")
def drawn(page, tmp_path_factory):
    """By what is typed the parts in the page."""
    asked = [(word, {"beam_size": size}) for word, size in ASKED]
    return dict(zip(ASKED, map(parts_of, views_in_node(page[0], asked, tmp_path_factory.mktemp("page")))))


def here(spell, word, beam_size):
    """The same parts in Python."""
    run = rf.run(spell, word=word, beam_size=beam_size)
    run.wait()
    return in_order(parts_of(trace_page.spec(run.trace, handles=edit_handles_of(run))))


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_a_page_draws_what_python_draws(spell, drawn, asked):
    for got, wanted in zip(drawn[asked], here(spell, *asked), strict=True):
        assert (got.kind, got.head["title"], got.head["key"]) == (wanted.kind, wanted.head["title"], wanted.head["key"])
        (seq,), (own,) = got.head["seqs"], wanted.head["seqs"]
        assert seq["label"] == own["label"]
        if got.kind == "beams":
            same_search(seq, own)
            continue
        names = [name for name in ("rows", "cols", "steps", "len", "row_len", "col_len") if name in own]
        assert {name: seq[name] for name in names} == {name: own[name] for name in names}
        assert got.head.get("slots_of_best") == wanted.head.get("slots_of_best")
        for entry, of in zip(*(part.head["maps" if got.kind == "attention" else "tracks"] for part in (got, wanted))):
            for block in filter(None, (of["block"], of.get("slots"))):
                assert block in (entry["block"], entry.get("slots"))
                np.testing.assert_allclose(got.blocks[block], wanted.blocks[block], atol=1e-4)
            if got.kind == "states":
                assert entry["range"] == pytest.approx(of["range"], abs=1e-4)
                assert (entry["label"], entry["gate"]) == (of["label"], of["gate"])


class Reader(rf.Module):
    """A unit in each direction over the letters, and weights that a probe shows: before they are read, or too late to change anything."""

    def __init__(self, late=False):
        self.late = late
        self.forwards, self.backwards = rf.GRUCell(feat, other), rf.GRUCell(feat, other)

    def __call__(self, text):
        time, ids = read(text)
        x, loop = rf.gather(X, indices=ids), rf.Loop(axis=three, name="looks")
        ahead, last = self.forwards(x, spatial_dim=time)
        back, _ = self.backwards(x, spatial_dim=time, direction=-1)
        loop.state.h = last.h
        for _ in loop:
            weights = rf.softmax(rf.reduce_sum((ahead + loop.state.h) * back, axis=other), axis=time)
            if not self.late:
                rf.probe("attention", weights=weights, axis=time)
            loop.state.h = rf.reduce_sum(weights * ahead, axis=time)
            if self.late:
                rf.probe("attention", weights=weights, axis=time)
        return loop.state.h


def test_units_over_the_text_and_weights_of_a_probe_are_drawn_and_what_is_left_out_is_said(tmp_path):
    reader = Reader()
    made, about, _ = page_of(reader, ("text", "abcd"), {}, {}, record={"model": reader}, weights="float32")
    assert "recorded, but not in this page: backwards.h, forwards.reset_gate, " in about["said"]
    late = Reader(late=True)
    _, said, _ = page_of(late, ("text", "abcd"), {}, {}, record={"model": late})
    assert "recorded, but not in this page: Attention: reader.looks, " in said["said"]
    texts = ["abcd", "hgfedcbaab", "cc"]
    for text, view in zip(texts, views_in_node(made, [(text, {}) for text in texts], tmp_path)):
        with rf.record(model=reader) as trace:
            reader(text)
        wanted = {part.head["key"]: part for part in parts_of(trace_page.spec(trace))}
        seen = []
        for part in parts_of(view):
            own, entries = wanted[part.head["key"]], "maps" if part.kind == "attention" else "tracks"
            blocks = {each["label"]: own.blocks[each["block"]] for each in own.head[entries]}
            for each in part.head[entries]:
                np.testing.assert_allclose(part.blocks[each["block"]], blocks[each["label"]], atol=1e-5)
                seen.append(each["label"])
        assert sorted(seen) == ["forwards.h", "h", "weights"], seen


def same_search(got, wanted):
    assert got["best"] == wanted["best"]
    assert got["result"] == wanted["result"]
    for step, own in zip(got["steps"], wanted["steps"], strict=True):
        assert {name: step[name] for name in OF_STEPS} == {name: own[name] for name in OF_STEPS}
        assert step["scores"] == pytest.approx(own["scores"], abs=1e-4)
        for cut, of in zip(step["cuts"], own["cuts"], strict=True):
            assert (cut["token"], cut["parent"], cut["id"]) == (of["token"], of["parent"], of["id"])
            assert (cut["score"], cut["margin"]) == pytest.approx((of["score"], of["margin"]), abs=1e-4)
            assert cut["verdict"].split(",")[0] == of["verdict"].split(",")[0]
        assert list(step["next"]) == list(own["next"])
        for slot, labels in own["next"].items():
            assert [(name, at) for name, _, at in step["next"][slot]] == [(name, at) for name, _, at in labels]
            assert [one for _, one, _ in step["next"][slot]] == pytest.approx([one for _, one, _ in labels], abs=2e-4)


EY = {"do": "force", "label": 13, "hypothesis": 0, "seq": 0, "only": True}
OF_LETTERS = {"path": "decoder.att", "entries": {"batch": 0, "beam": 0}}
CHANGES = {
    "a label alone": (1, [EY]),
    "a label alone, less likely than an end that was cut for it": (1, [{**EY, "label": "AH"}]),
    "a label in the beam": (1, [{**EY, "only": False}]),
    "a label that stays": (4, [{"do": "force", "label": "CH", "hypothesis": 0, "seq": 0, "only": False}]),
    "a label banned": (4, [{"do": "ban", "label": 30, "hypothesis": 0, "seq": 0}]),
    "a label banned for all": (2, [{"do": "ban", "label": "R", "hypothesis": None, "seq": 0}]),
    "a row": (4, [{"do": "attention", **OF_LETTERS, "row": [0.0, 0, 0, 0, 0.9, 0.1, 0, 0, 0]}]),
    "a letter hidden": (4, [{"do": "attention", **OF_LETTERS, "hide": 5}]),
    "all on a letter": (4, [{"do": "attention", **OF_LETTERS, "focus": 4}]),
    "an even row": (4, [{"do": "attention", **OF_LETTERS, "uniform": True}]),
    "a sharper row": (4, [{"do": "attention", **OF_LETTERS, "sharpen": 0.5}]),
    "a state at 0": (2, [{"do": "set", "state": "decoder.h", "entries": {"batch": 0, "beam": 0}, "how": "zero"}]),
    "a larger state": (2, [{"do": "set", "state": "decoder.c", "how": "scale", "amount": 1.5}]),
    "one unit": (2, [{"do": "set", "state": "decoder.h", "entries": {"beam": 0, "decoder": 7}, "value": 0.9}]),
}  # fmt: skip


def test_what_would_come_of_a_change_is_said_in_a_page_as_by_a_kernel(spell, page, tmp_path):
    run = rf.run(spell, word="parachute", beam_size=5)
    run.wait()
    typed = {"rfnb": "typed", "text": "parachute", "inputs": {"beam_size": 5}}
    asked = [{"rfnb": "do", "do": "ghost", "id": name, "path": "search", "nth": 0, "step": step, "then": then, "name": name}
             for name, (step, then) in CHANGES.items()]  # fmt: skip
    _, *answers = told_in_node(page[0], [typed, *asked], tmp_path)
    for (name, (step, then)), (did, got) in zip(CHANGES.items(), answers, strict=True):
        assert did == {"rfnb": "did", "id": name, "said": None}
        ghost = Ghost(run, step, "search", 0, then, name)
        wait_until(lambda ghost=ghost: ghost.is_over, LONG)
        wanted = ghost.told()
        assert wanted["refused"] is None
        assert (got["labels"], got["same"]) == (wanted["labels"], wanted["same"]), name
        assert got["score"] == pytest.approx(wanted["score"], abs=1e-4), name
        lane, own = got["lane"], wanted["lane"]
        assert (lane["row"], lane["parent"], lane["labels"], lane["ended"]) == (
            own["row"], own["parent"], own["labels"], own["ended"]), name  # fmt: skip
        assert lane["scores"] == pytest.approx(own["scores"], abs=1e-4), name
        assert (lane["fell"] or [None])[0] == (own["fell"] or [None])[0], name


def test_branches_of_a_page_are_kept_moved_followed_and_let_go(page, tmp_path):
    edit = {"do": "edit", "path": "search", "nth": 0, "step": 1, "then": [EY], "name": "EY at 1"}
    wrong = {**edit, "then": [{**EY, "label": "XYZ"}]}
    asked = [edit, wrong, {"do": "move", "number": 2, "step": 3}, {"do": "follow", "number": 2}, {"do": "let_go", "number": 2},
             {"do": "let_go", "number": 1}, {"do": "branch"}]  # fmt: skip
    typed, kept, refused, moved, followed, gone, root, branch = told_in_node(
        page[0], [TYPED, *map(do, asked)], tmp_path
    )
    assert [each["rfnb"] for each in (*typed, *kept)] == ["frame", "frame", "did"]
    assert [each["said"] for each in (*refused, *root, *branch)] == [
        "There is no label “XYZ”.",
        "parachute is the run that all others branch from.",
        "A run in a page finishes at once: change something in a view to make a branch.",
    ]
    assert [each["said"] for each in (kept[-1], moved[-1], followed[-1], gone[-1])] == [None] * 4


def test_a_repair_of_several_labels_is_moved_with_all_of_them(page, tmp_path):
    asked = [{"do": "why", "expected": "P EY R AA SH UW T"}, {"do": "repair", "number": 0},
             {"do": "move", "number": 2, "step": 0}, {"do": "follow", "number": 3}]  # fmt: skip
    told = told_in_node(page[0], [TYPED, *map(do, asked)], tmp_path, frames=True)
    control, beams, *_ = next(each["frame"]["head"]["parts"] for each in told[-1] if each["rfnb"] == "frame")
    assert [run["name"] for run in control["head"]["runs"]] == ["parachute", "EY R AA SH at 1", "EY R AA SH at 0"]
    assert [step for step, _ in beams["head"]["hands"]] == [0, 1, 2, 3]
    assert beams["head"]["seqs"][0]["result"] == "EY R AA SH UW T"


TYPED = {"rfnb": "typed", "text": "parachute", "inputs": {"beam_size": 5}}


def do(command):
    return {"rfnb": "do", "id": "a", **command}


def numbers(block):
    return np.array([float(value.replace("Infinity", "inf")) for value in block["data"]]).reshape(block["shape"])


@pytest.fixture(scope="module")
def run(spell):
    run = rf.run(spell, word="parachute", beam_size=5)
    run.wait()
    return run


def test_two_branches_of_a_page_are_compared_as_by_a_kernel(page, run, tmp_path):
    step, then = CHANGES["a label alone"]
    branch = run.from_step(step, lambda at: at.force("EY", hypothesis=0, only=True), path="search", paused=False)
    branch.wait()
    wanted = parts_of(beside_each_other(run, branch))
    edit = {"do": "edit", "path": "search", "nth": 0, "step": step, "then": then, "name": branch.name}
    *_, drawn, _ = told_in_node(page[0], [TYPED, do(edit), do({"do": "compare", "number": 2})], tmp_path, frames=True)[
        -1
    ]
    control, *found = drawn["frame"]["head"]["parts"]
    assert (control["kind"], control["head"]["beside"]) == ("control", 2)
    assert [(part["kind"], part["head"]["title"], part["head"]["folded"]) for part in found] == [
        (part.kind, part.head["title"], part.head["folded"]) for part in wanted
    ]
    for number, (part, own) in enumerate(zip(found, wanted), 1):
        head, of = part["head"], own.head
        if part["kind"] == "beams":
            (seq,), (its,) = head["seqs"], of["seqs"]
            assert {**seq["arms"], "names": 0} == {**its["arms"], "names": 0}
            assert seq["result"] == its["result"]
            for row, told in zip(seq["steps"], its["steps"], strict=True):
                assert {name: row[name] for name in OF_STEPS[:4]} == {name: told[name] for name in OF_STEPS[:4]}
                assert row["scores"] == pytest.approx(told["scores"], abs=1e-4)
                assert [(cut["token"], cut["parent"], cut.get("arm")) for cut in row["cuts"]] == [
                    (cut["token"], cut["parent"], cut.get("arm")) for cut in told["cuts"]
                ]
                assert list(row.get("next", {})) == list(told.get("next", {}))
            continue
        entries = "maps" if part["kind"] == "attention" else "tracks"
        names = ("rows", "cols", "row_len", "col_len") if entries == "maps" else ("steps", "len")
        assert [head["seqs"][0][name] for name in names] == [of["seqs"][0][name] for name in names]
        assert head["remark"].split(". ")[0] == of["remark"].split(". ")[0]
        for entry, its in zip(head[entries], of[entries], strict=True):
            block = drawn["frame"]["blocks"][f"{number}/{entry['block']}"]
            np.testing.assert_allclose(numbers(block), own.blocks[its["block"]], atol=1e-4)


EXPECTED = ["P EY R AH SH UW T", "P AE R AH SH UW T", "P EH R AH SH UW T", "P EH R AH SH", "Z Z Z"]


@pytest.mark.parametrize("expected", EXPECTED)
def test_why_not_is_answered_in_a_page_as_by_a_kernel(page, run, expected, tmp_path):
    why = rf.why_not(run, expected)
    *said, repaired = told_in_node(
        page[0], [TYPED, do({"do": "why", "expected": expected}), do({"do": "repair", "number": 0})], tmp_path
    )
    told = [each["head"]["why"] for each in said[-1] if each["rfnb"] == "run"][-1]
    numbered = lambda text: [float(each) for each in re.findall(r"-?\d+\.\d+", text.replace("−", "-"))]  # noqa: E731
    text, repairs = told["text"], told["repairs"]
    if why.fell is not None and why.rank is None:  # a recording keeps the best candidates, a page all
        text = re.sub(r" on rank \d+, .* nats behind the last hypothesis kept", "", text)
        assert text != told["text"] and repairs.pop()[0].startswith("beam_size=")
    assert re.sub(r"[-−]?\d+\.\d+", "", text) == re.sub(r"-?\d+\.\d+", "", why.text)
    assert numbered(text) == pytest.approx(numbered(why.text), abs=0.011)
    assert repairs == [[each.words, each.step is not None] for each in why.repairs]
    made = repaired[-1]["said"]
    assert made is None if repairs and repairs[0][1] else "an option of the search" in made
    if why.kind in ("found", "impossible", "not allowed"):
        assert told["causes"] == ""
        return
    parts = why.parts
    hidden = parts.occluded[:, : len("parachute")].sum(0)
    for letter, part in re.findall(r"(\w) ([+−]\d+\.\d+)", told["causes"]):
        own = float(part.replace("−", "-"))
        assert any(abs(own - value) < 0.02 for value, name in zip(hidden, "parachute") if name == letter), (
            letter,
            own,
            hidden,
        )
    assert numbered(told["causes"])[0] == pytest.approx(hidden[np.argmax(abs(hidden))], abs=0.02)


UNREADABLE = {
    "": "Type at least one letter", "mü": "“ü” is not one of the letters", "a" * 501: "This text has 501 letters",
    "<img src=x onerror=alert(1)>": "“<” is not one of the letters",
}  # fmt: skip


@pytest.fixture(scope="module")
def told_of(page, tmp_path_factory):
    """By a text that cannot be read what a page says of it."""
    typed = [{"rfnb": "typed", "text": text, "inputs": {"beam_size": 5}} for text in UNREADABLE]
    return dict(zip(UNREADABLE, told_in_node(page[0], typed, tmp_path_factory.mktemp("typed")), strict=True))


@pytest.mark.parametrize("text", UNREADABLE, ids=lambda text: text[:30])
def test_a_text_that_cannot_be_read_is_a_sentence(text, told_of):
    (said,) = told_of[text]
    assert said["rfnb"] == "failed"
    assert UNREADABLE[text] in said["words"]


@pytest.mark.parametrize(("coded", "within"), [("float16", 2e-3), ("int8", 0.05)])
def test_fewer_bits_change_scores_by_as_little_as_is_said(spell, coded, within, tmp_path):
    made, about, _ = page_of(spell, ("word", "parachute"), {}, {}, weights=coded)
    ((beams, *_),) = map(parts_of, views_in_node(made, [("parachute", {})], tmp_path))
    (own,) = here(spell, "parachute", 5)[0].head["seqs"]
    (seq,) = beams.head["seqs"]
    got, wanted = seq["steps"][-1]["scores"], own["steps"][-1]["scores"]
    assert got == pytest.approx(wanted, abs=within)
    said = about["said"].partition("at most ")[2]  # the model that comes with rfnb has weights of 16 bits itself
    assert max(abs(one - two) for one, two in zip(got, wanted)) <= (float(said) * 1.1 if said else 1e-4)


AT_MOST = {"int8": 1_880_000, "float16": 3_030_000, "float32": 3_251_000}  # bytes of a page of the shipped model


@pytest.mark.parametrize("coded", AT_MOST)
def test_a_page_is_no_larger_than_it_has_to_be(spell, coded, tmp_path):
    explorer = rf.explore(spell, word="parachute", beam_size=(1, 12))
    page = explorer.save(tmp_path / "page.html", runs=True, weights=coded)
    assert page.stat().st_size <= AT_MOST[coded]


RUNS = {
    "a search of a list of words": (search, ["parachute"], lambda model, word: search(model, [word], beam_size=3)),
    "one that gives text": (pronounce, "parachute", lambda model, word: pronounce(model, word, beam_size=3)),
    "a step function": (of_steps, "parachute", lambda model, word: of_steps(model, word, beam_size=3)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_saved_as_a_page_that_runs(name, tmp_path):
    fn, word, again = RUNS[name]
    model = load_g2p()
    run = rf.run(fn, model, word, beam_size=5)
    path = rf.save_html(tmp_path / "page.html", run, runs=True, fields={"beam_size": (1, 12)}, weights="float32")
    text = path.read_text(encoding="utf-8")
    held = program_in(text)
    assert "G2P object" not in text
    (views,) = views_in_node(held, [("queue", {"beam_size": 3})], tmp_path)
    beams = parts_of(views)[0]
    wanted = rf.run(again, model, "queue")
    wanted.wait()
    own = next(
        part
        for part in parts_of(trace_page.spec(wanted.trace, handles=edit_handles_of(wanted)))
        if part.kind == "beams"
    )
    assert beams.head["length_exponent"] == own.head["length_exponent"]
    same_search(beams.head["seqs"][0], own.head["seqs"][0])


def test_a_run_that_cannot_be_a_page_is_refused(tmp_path):
    def count(*words):
        return words

    runs = {
        "needs one text": rf.run(lambda: 1),
        "by position only": rf.run(count, "a"),
        "was given no beams": rf.run(lambda word: word, "a"),
        "cannot run a Trace": rf.run(lambda: 1).trace,
    }
    for words, run in runs.items():
        with pytest.raises((TypeError, KeyError), match=words) as refused:
            rf.save_html(tmp_path / "page.html", run, runs=True, fields={"beams": (1, 3)} if "beams" in words else None)
        assert parts_of_error(refused.value)[3]
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_a_page_is_refused(spell, tmp_path, capsys):
    explorer = rf.explore(spell, word="a", beam_size=(1, 3))
    with pytest.raises(ValueError, match="not stored as 'int4'") as refused:
        explorer.save(tmp_path / "page.html", runs=True, weights="int4")
    assert parts_of_error(refused.value) is not None
    with pytest.raises(TypeError, match="needs one text"):
        rf.explore(lambda size: size, size=(1, 3)).save(tmp_path / "page.html", runs=True)
    with pytest.raises(ValueError, match="would show nothing"):
        page_of(lambda word: rf.convert_to_tensor([1.0, 2.0]) + 1.0, ("word", "a"), {}, {})
    assert not list(tmp_path.iterdir())


def test_weights_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="a weight is not finite"):
        CodedWeights.of([np.float32([[1.0, float("nan")]])], "float16")
