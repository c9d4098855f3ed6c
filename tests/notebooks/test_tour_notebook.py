"""The tour, run with a short training: what it says is true, and it leaves a picture of each view."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from notebooks.runner import TOUR_LIMITS, WIDGET, execute, problems

import rfnb as rf
from rfnb.models import load_g2p, pronounce
from rfnb.teaching.judge import judge
from rfnb.teaching.lesson import Lesson

TOUR = Path(__file__).parents[2] / "notebooks/00_tour.ipynb"


class Run:
    """An executed tour."""

    def __init__(self, notebook: nbformat.NotebookNode, home: Path) -> None:
        self.notebook, self.home = notebook, home

    def cell(self, text: str) -> nbformat.NotebookNode:
        """The cell of code with this text."""
        (found,) = [cell for cell in self.notebook.cells if cell.cell_type == "code" and text in cell.source]
        return found

    def printed(self, text: str) -> str:
        """The printed output of that cell."""
        return "".join(output.text for output in self.cell(text).outputs if output.output_type == "stream")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RFNB_TOUR_LIMITS", TOUR_LIMITS)
        patch.setenv("TMPDIR", str(home))  # where the tour saves its page and its recording
        return Run(execute(TOUR, home=home), home)


@pytest.mark.notebook
def test_it_has_no_errors_and_all_static_forms(run):
    assert problems(run.notebook) == []


@pytest.mark.notebook
def test_training_is_limited_to_three_minutes_unless_the_environment_says_otherwise(run):
    (limits,) = re.findall(r"^limits = (.*)$", run.cell("train_live(").source, re.M)
    assert eval(limits, {"json": json, "os": SimpleNamespace(environ={})}) == {"seconds": 180}
    assert run.printed("train_live(").startswith(f"{json.loads(TOUR_LIMITS)['steps']} steps;")


@pytest.mark.notebook
def test_padding_does_not_count(run):
    assert "unchanged: True\n" in run.printed("unchanged:")


@pytest.mark.notebook
def test_the_error_of_different_dims_is_shown(run):
    assert "two different ragged dims" in run.printed("unchanged:")


@pytest.mark.notebook
def test_scores_of_the_search_are_those_of_the_model(run):
    difference = re.search(r"largest difference: (\S+)", run.printed("largest difference:"))
    assert float(difference[1]) < 1e-4


@pytest.mark.notebook
def test_a_wider_beam_finds_nothing_worse_than_greedy_search(run):
    found = re.findall(r"beam +(\d+): +(-\d+\.\d+)  \S", run.printed("for beam_size in"))
    assert [int(size) for size, _ in found] == [1, 2, 4, 12]
    scores = [float(score) for _, score in found]
    assert max(scores) < 0 and scores[-1] >= scores[0]


@pytest.mark.notebook
def test_training_improves_the_loss_and_says_how_good_it_is(run):
    said = re.search(
        r"(\d+) steps; of 500 unseen words (\d+\.\d) % of the phonemes are wrong", run.printed("train_live(")
    )
    curves = next(o.data["text/html"] for o in run.cell("train_live(").outputs if "text/html" in o.get("data", {}))
    first, last = re.search(r"loss \(nats\): first (\S+), last (\S+?),? ", curves).groups()
    assert float(last) < float(first) - 0.3
    # on a slow machine there is a measurement in the middle too
    (errors,) = re.search(r"phoneme errors \(%\): (?:first \d+\.?\d*, last|first) (\d+\.?\d*)", curves).groups()
    assert int(said[1]) > 10 and float(said[2]) == pytest.approx(float(errors), abs=0.06)


@pytest.mark.notebook
def test_every_view_is_saved_in_its_last_state(run):
    alt = {
        "model = load_g2p(": ["Attention"],
        "dims_view = ": ["<table"],
        "calls_view = ": ["<table"],
        "beam_view = ": ["Beam search"],
        "wide_view = ": ["Beam search"],
        "states_view = ": ["Attention", "States"],
        "live_view = ": ["Attention"],
        "train_live(": ["Training", "Attention"],
        "your_view = ": ["Attention"],
    }
    for text, wanted in alt.items():
        stored = [output.data["text/html"] for output in run.cell(text).outputs if WIDGET in output.get("data", {})]
        pictures = re.findall(r'(<table)|<img alt="([^"]*)"', "".join(stored))
        seen = [table or words for table, words in pictures]
        assert all(any(one.startswith(word) for one in seen) for word in wanted), (text, seen)
        assert all("data:image/png;base64," in html or "<table" in html for html in stored)
    own = run.printed("live_view = ").split()
    (live,) = [o for o in run.cell("live_view = ").outputs if WIDGET in o.get("data", {})]
    assert f"{len(own)} " in re.search(r"1: attention: (\d+ \S+ by)", live.data["text/html"])[1]  # all of its steps


@pytest.mark.notebook
def test_the_saved_page_and_recording_are_there(run):
    printed = run.printed("rf.save_html(")
    files = dict(re.findall(r"'(\w+\.\w+)', '(\d+) kB'", printed))
    assert set(files) == {"phonetics.html", "phonetics.rfnb"}
    (folder,) = [path.parent for path in run.home.glob("*/phonetics.html")]
    for name, size in files.items():
        assert round((folder / name).stat().st_size / 1000) == int(size) > 10
    page = (folder / "phonetics.html").read_text()
    assert page.count('class="rfnb-frame"') == 2 and "http://" not in page.replace("http://www.w3.org/", "")
    counts = dict(re.findall(r"(\w+) (\d+)", printed.split("(")[1].split(")")[0]))
    assert {"attention", "beams", "states", "module"} <= counts.keys()


@pytest.mark.notebook
def test_the_branch_says_what_it_was_forced_to(run):
    said = run.printed("break_when=").splitlines()
    assert re.fullmatch(r'breakpoint label "N" was chosen at step 2 of "search", sequence 0, rank \d', said[0])
    assert (said[1], said[2]) == ("F AH N EH T IH K S", "F OW N EH T IH K S")
    (compared,) = [out for out in run.cell("compare_view = ").outputs if WIDGET in out.get("data", {})]
    assert "forced OW for hypothesis 0 of sequence 0" in compared.data["text/plain"]
    assert "1 substituted, score A -1.397, score B -1.414" in compared.data["text/plain"]


@pytest.fixture(scope="module")
def held():
    """The search of the tour at its third step."""
    model = load_g2p()
    held = rf.run(pronounce, model, "parachute", beam_size=4, paused=True, record={"model": model}, name="held")
    held.step(3)
    yield held
    held.stop()


def test_the_answer_to_its_question_is_what_the_model_writes(held):
    source = {cell.id: cell.source for cell in nbformat.read(TOUR, as_version=4).cells}
    asked: dict[str, list[str]] = {}
    lesson = SimpleNamespace(
        predict=lambda name, question, options: asked.update({name: options}) or SimpleNamespace(reveal=told)
    )
    answers: list[str] = []

    def told(truth, why):
        answers.extend([truth, why])

    space = {"rf": SimpleNamespace(lesson=lambda name: lesson, run=rf.run), "pronounce": pronounce, "model": load_g2p()}
    exec(source["tour-hold-ask"], space)
    exec(source["tour-hold-silent-reveal"], space)
    assert answers[0] == "IY" in asked["silent"] and answers[1].startswith("P IY R AH CH UW T.")


CHANGES = {
    "The P is still there.": (1, lambda at: at.attention["att"].focus(5)),
    "The P is gone, and more has changed.": (0, lambda at: at.attention["att"].focus(2)),
    "A label was forced or banned, and no weight was dragged.": (0, lambda at: at.ban("P")),
    "That is the word, but a label was forced or banned.": (0, lambda at: at.force("EH", only=True)),
}


def test_its_check_tells_what_was_kept_by_weights_from_what_was_forced(held):
    exercise = Lesson("00_tour", TOUR.parent).exercises["without_p"]
    assert judge("00_tour", exercise, held.branches or ...).status == "unsolved"
    for said, (step, change) in CHANGES.items():
        held.from_step(step, change).wait()
        found = judge("00_tour", exercise, held.branches)
        assert (found.status, found.message.splitlines()[0]) == ("wrong", said)
    held.from_step(0, lambda at: at.attention["att"].focus(1)).wait()
    assert judge("00_tour", exercise, held.branches).passed


@pytest.mark.notebook
def test_its_questions_wait_for_an_answer(run):
    (card,) = [output.data["text/plain"] for output in run.cell("without_p").outputs]
    assert card.startswith("○ without_p: not solved yet")
    assert "P IY R AH" not in str(run.cell("silent.reveal(").outputs)


@pytest.mark.notebook
def test_the_explorer_shows_its_first_word(run):
    (output,) = run.cell("explorer = rf.explore(").outputs
    assert output.data["text/plain"].startswith('explore: word = "phonetics", beam_size = 4\nF AH N EH T IH K S\n')
