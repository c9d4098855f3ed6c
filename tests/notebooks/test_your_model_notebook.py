"""The notebook of models that are there already: what it says to look for is to be seen."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from course.harness import weights_in
from notebooks.runner import WIDGET, problems
from waiting import SLOWNESS

from rfnb.site import notebook_runs as runs

pytestmark = pytest.mark.notebook
pytest.importorskip("transformers")

NOTEBOOK = Path(__file__).parents[2] / "notebooks/your_model.ipynb"


@pytest.fixture(scope="module")
def executed() -> nbformat.NotebookNode:
    """The run that the site has its page from."""
    return runs.executed(NOTEBOOK, seconds=300 * SLOWNESS)


def cell(executed: nbformat.NotebookNode, text: str) -> nbformat.NotebookNode:
    """The cell of code with this text."""
    (found,) = [one for one in executed.cells if one.cell_type == "code" and text in one.source]
    return found


def printed(executed: nbformat.NotebookNode, text: str) -> str:
    outputs = cell(executed, text).outputs
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def shown(executed: nbformat.NotebookNode, text: str) -> str:
    """The text of the view in that cell."""
    (found,) = [output for output in cell(executed, text).outputs if WIDGET in output.get("data", {})]
    return found.data["text/plain"]


def test_it_has_no_errors_and_all_static_forms(executed):
    assert problems(executed) == []


def test_a_torch_model_has_no_weight_on_padding(executed):
    text = shown(executed, "encoder_view = ")
    rows = [re.findall(r"[·░▒▓█](\d\.\d\d)", line) for line in text.splitlines()]
    rows = [[float(number) for number in row] for row in rows if len(row) in (5, 7)][:5]  # with padding or without
    assert len(rows) == 5
    assert all(not any(row[5:]) and sum(row) == pytest.approx(1, abs=0.04) for row in rows)


def test_the_training_is_seen_and_its_example_has_a_place_for_each_epoch(executed):
    loss = float(re.search(r"loss (\d\.\d+)", printed(executed, "training_view = "))[1])
    assert loss < 0.2
    text = shown(executed, "training_view = ")
    assert "Training: update 1 to 320" in text and "gradient norm" in text
    assert "in all 9 maps" in text  # before the training, and after each of 8 epochs


def test_the_trained_model_attends_backwards(executed):
    text = printed(executed, "reverser_view = ").strip()
    assert text == "keyboard"[::-1]
    rows = weights_in(shown(executed, "reverser_view = "))
    largest = [row.index(max(row)) for row in rows if len(row) == 8]
    assert sum(place == 7 - row for row, place in enumerate(largest)) >= 6


def test_what_generate_found_is_the_winner_of_the_search_that_is_shown(executed):
    (found,) = re.findall(r"\[([\d, ]+)\]", printed(executed, "gpt_view = "))
    text = shown(executed, "gpt_view = ")
    (winner,) = re.findall(r"^1 .*winner.*?  ([\d ]+)$", text, re.MULTILINE)
    assert winner.split() == found.split(", ")
    assert "Attention: " in text


def test_the_words_are_where_the_logits_have_them(executed):
    said = printed(executed, "speech_view = ")
    assert re.search(r"HELLO +0\.12 +0\.8\d", said) and re.search(r"WORLD +1\.0\d +1\.7\d", said)
    assert "sound: log-mel spectrogram" in shown(executed, "speech_view = ")
