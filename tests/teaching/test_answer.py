"""Questions that are answered before the truth is shown: by code, in text, and in the outputs of a notebook."""

import json

import nbformat
import pytest
from asserting import raises_message
from notebooks.runner import WIDGET
from teaching.conftest import write_course
from teaching.kernels import kernel_in

import rfnb as rf
from rfnb.teaching.answer import Answer
from rfnb.teaching.card import MIME


@pytest.fixture
def winner(lesson):
    return lesson.predict("winner", "Which one wins?", options=["A", "B"])


def test_a_question_is_asked_in_text(winner, capsys):
    assert repr(winner) == "○ Which one wins?\n  ○ A\n  ○ B\nChoose one and commit it."
    winner.show()
    assert capsys.readouterr().out.endswith(repr(winner) + "\n")


def test_without_an_answer_the_truth_is_not_told(winner):
    def truth():
        raise AssertionError("nobody asked for it")

    said = winner.reveal(truth)
    assert repr(said) == ("○ winner: no answer yet\nWhich one wins?\nAnswer it first, above; then run this cell again.")
    assert said.data["truth"] is None and not winner.revealed and winner.passed is None
    winner.answer = "A"
    assert winner.passed is None and "It is" not in repr(winner)


def test_what_explains_the_truth_is_not_to_be_seen_before_an_answer(winner, capsys):
    why = (rf.viz.curves({"score of A": [0.0, 1.0]}), "Its score is higher.")
    assert "score" not in repr(winner.reveal("A", why=why)) + capsys.readouterr().out
    winner.answer = "A"
    said = winner.reveal("A", why=why)
    assert repr(said).endswith("It is: A\nIts score is higher.")
    assert "score of A" in capsys.readouterr().out


def test_the_prediction_stands_beside_the_truth(winner):
    winner.answer = "B"
    assert winner.passed is None and winner.data()["committed"] and winner.data()["passed"] is None
    winner.answer = "A"  # until it is revealed
    said = winner.reveal(lambda: "A", why="Its score is higher.")
    assert repr(said) == (
        "✓ winner: your answer was right\nWhich one wins?\nYour answer: A\nIt is: A\nIts score is higher."
    )
    assert winner.passed is True
    assert winner.data() == {
        "kind": "predict", "lesson": "99_small", "exercise": "winner", "question": "Which one wins?", "answer": "A",
        "committed": True, "revealed": True, "passed": True, "truth": "A", "options": ["A", "B"],
    }  # fmt: skip
    assert said.data == {**winner.data(), "kind": "reveal"}


def test_a_wrong_prediction_is_said_and_stays(winner):
    winner.answer = "B"
    assert repr(winner.reveal("A")).startswith("✗ winner: your answer was wrong\n")
    with raises_message(
        RuntimeError,
        """
        The question "winner" is answered: its truth was revealed.
          answer  B
        A prediction is made before.
        """,
    ):
        winner.answer = "A"
    assert winner.answer == "B" and winner.passed is False


def test_what_is_no_option_is_refused(winner):
    with raises_message(ValueError, "C is none of the options: A, B"):
        winner.answer = "C"
    assert winner.answer is None


def test_a_truth_that_is_no_option_is_said(winner):
    winner.answer = "B"
    said = winner.reveal("C")
    assert winner.passed is False and "It is: C\nNone of the options is right." in repr(said)


def test_options_may_be_numbers(lesson):
    size = lesson.predict("size", "How large?", options=[1, 8])
    size.answer = 8
    size.reveal(8)
    assert size.passed


def test_everything_is_revealed_where_the_environment_says_so(winner, monkeypatch):
    monkeypatch.setenv("RFNB_LESSON", "reveal")
    said = winner.reveal("A")
    assert repr(said) == "● winner: revealed\nWhich one wins?\nIt is: A"
    assert said.data["truth"] == "A" and not winner.revealed


NUMBERS = [
    (3, 3, True), (4, 3, False), ("3", 3, True), ("0,5", 0.5, True), (0.51, 0.5, True), (0.53, 0.5, False), (-1.25, -1.3, True),
    (1e-9, 0.0, False), (0, 0.0, True), (float("inf"), 3, False), ("-inf", float("-inf"), True), (3, float("inf"), False),
]  # fmt: skip


@pytest.mark.parametrize(("given", "truth", "passed"), NUMBERS)
def test_a_number_is_near_enough_or_not(lesson, given, truth, passed):
    share = lesson.predict("share", "How many?", number=True)
    share.answer = given
    json.dumps(share.data(), allow_nan=False)
    assert lesson.predict("share", "How many?", number=True).answer == share.answer  # as read again
    share.reveal(truth)
    assert share.passed is passed


def test_how_near_a_number_has_to_be_may_be_said(lesson):
    share = lesson.predict("share", "How many?", number=True, within=2)
    share.answer = 5
    said = share.reveal(8)
    assert repr(said).endswith("Your answer: 5\nIt is: 8\nThat is too small by 3.")
    other = lesson.predict("other", "How many?", number=True, within=3)
    other.answer = 5
    other.reveal(8)
    assert other.passed


@pytest.mark.parametrize("given", ["three", None, float("nan"), [1, 2]])
def test_what_is_no_number_is_refused(lesson, given):
    share = lesson.predict("share", "How many?", number=True)
    with pytest.raises(ValueError, match="is no number"):
        share.answer = given


def test_words_are_compared_without_case_and_spaces(lesson):
    word = lesson.predict("word", "Which phonemes?", text=True)
    with pytest.raises(ValueError, match="There is nothing written yet."):
        word.answer = "  "
    word.answer = " f ow  N"
    word.reveal("F OW N")
    assert word.passed


def test_an_explanation_is_judged_by_nobody(lesson):
    why = lesson.explain("why", "Why does it win?")
    why.answer = "Because of its length."
    said = why.reveal("Each step costs, and it has fewer.")
    assert why.passed is None and why.data()["kind"] == "explain"
    assert repr(said).startswith("● why: revealed\nWhy does it win?\nYour answer: Because of its length.\nIt is: Each")


@pytest.mark.parametrize(
    "kinds", [{}, {"number": True, "text": True}, {"options": ["A"]}, {"options": "AB", "text": True}]
)
def test_a_question_is_answered_in_one_way(lesson, kinds):
    with pytest.raises(ValueError, match='predict: the question "which" is answered in one way.'):
        lesson.predict("which", "Which?", **kinds)


def test_an_option_is_there_once(lesson):
    with pytest.raises(ValueError, match="has an option twice"):
        lesson.predict("which", "Which?", options=["A", "A"])


def test_the_answer_stays_when_the_cell_runs_again(lesson, winner):
    winner.answer = "B"
    again = lesson.predict("winner", "Which one wins?", options=["A", "B"])
    assert again.answer == "B" and not again.revealed
    again.reveal("B")
    assert lesson.predict("winner", "Which one wins?", options=["A", "B"]).revealed
    assert lesson.predict("winner", "Which one wins?", options=["C", "D"]).answer is None  # another question by now


class AtOnce(Answer):
    """Judged as soon as it is answered: how many there are in all."""

    def read(self, value):
        return [int(one) for one in value]

    def words(self, answer):
        return " and ".join(map(str, answer))

    def judge(self, answer, truth):
        return (True, "") if answer == truth else (False, f"{len(answer)} of {len(truth)}.")

    def asked(self):
        return "Numbers."


def test_a_question_may_be_judged_at_once(lesson):
    numbers = lesson.ask(AtOnce(lesson.name, "numbers", "Which numbers?", truth=[1, 2]))
    assert numbers.passed is False
    numbers.answer = (1,)
    assert numbers.passed is False and repr(numbers) == "✗ Which numbers?\nYour answer: 1\n1 of 2."
    numbers.answer = (1, 2)
    assert numbers.passed is True and numbers.data()["answer"] == [1, 2]
    assert "It is: 1 and 2" in repr(numbers.reveal())
    with pytest.raises(TypeError, match="needs its truth"):
        lesson.predict("which", "Which?", text=True).reveal()


# -- in a notebook -----------------------------------------------------------------------------------------------------

ASK = 'winner = lesson.predict("winner", "Which one wins?", options=["A", "B"])'
BEGIN = 'import rfnb as rf\nlesson = rf.lesson("99_small")'


@pytest.mark.notebook
def test_the_answer_is_in_the_output_of_the_question(kernel):
    kernel.run(BEGIN)
    card, form = kernel.run(ASK)
    assert card["data"]["text/plain"] == "○ Which one wins?" and card["data"][MIME]["answer"] is None
    assert "○ A" in form["data"]["text/html"] and WIDGET in form["data"] and WIDGET not in card["data"]
    kernel.run('winner.answer = "B"')
    card, form = kernel.outputs(-2)
    assert card["data"][MIME]["answer"] == "B" and WIDGET in form["data"]  # the form is as it was: focus stays
    assert card["data"]["text/plain"] == (
        "● Which one wins?\nYour answer: B\nYou may change it until the truth is revealed."
    )
    (said,) = kernel.run('winner.reveal("A")')
    assert said["data"][MIME]["passed"] is False
    card, form = kernel.outputs(-3)
    assert card["data"]["text/plain"] == "✗ Which one wins?\nYour answer: B\nIt is: A"
    assert card["data"][MIME]["passed"] is False and WIDGET not in form["data"]


@pytest.mark.notebook
def test_the_answer_outlives_the_kernel_in_the_file_of_the_notebook(tmp_path, monkeypatch):
    monkeypatch.delenv("RFNB_LESSON", raising=False)
    write_course(tmp_path)
    path = tmp_path / "99_small.ipynb"
    notebook = nbformat.read(path, as_version=4)
    record = {"kind": "predict", "lesson": "99_small", "exercise": "winner", "answer": "B", "committed": True}
    asks = next(cell for cell in notebook.cells if "lesson.predict" in cell.source)
    asks.outputs = [nbformat.v4.new_output("display_data", {MIME: record, "text/plain": "x"})]
    nbformat.write(notebook, path)
    with kernel_in(tmp_path) as kernel:
        kernel.run(BEGIN)
        path.write_text(json.dumps({"cells": []}))  # the page clears outputs, and saves
        assert kernel.run(ASK)[0]["data"][MIME]["answer"] == "B"
        assert "your answer was right" in kernel.said('winner.reveal("B")')[0]


@pytest.mark.notebook
def test_check_is_displayed_once_in_a_notebook(kernel):
    kernel.run(BEGIN)
    (output,) = kernel.run('lesson.check("prime", 5)')
    assert output["output_type"] == "execute_result" and output["data"][MIME]["passed"] is False
    assert "There is a larger one." in output["data"]["text/html"]
    assert len(kernel.run('lesson.hint("add")')) == 1
    assert len(kernel.run("winner")) == 1


@pytest.mark.notebook
def test_the_first_cell_run_again_opens_nothing_that_was_revealed(kernel):
    kernel.run(BEGIN)
    kernel.run('again = lesson.predict("again", "Which one wins?", options=["A", "B"])\nagain.answer = "B"')
    kernel.run('again.reveal("A")')
    kernel.run(BEGIN)
    kernel.run('again = lesson.predict("again", "Which one wins?", options=["A", "B"])')
    kernel.run('try:\n    again.answer = "A"\nexcept RuntimeError as error:\n    print(str(error).splitlines()[0])')
    (said,) = kernel.outputs(-1)
    assert "is answered: its truth was revealed" in said["text"]


@pytest.mark.notebook
def test_answers_that_were_not_saved_outlive_a_kernel_that_is_killed(tmp_path, monkeypatch):
    monkeypatch.delenv("RFNB_LESSON", raising=False)
    write_course(tmp_path)
    with kernel_in(tmp_path) as kernel:
        kernel.run(BEGIN)
        kernel.run(ASK + '\nwinner.answer = "B"')
        kernel.run('share = lesson.predict("share", "How many?", number=True)\nshare.answer = 3\nshare.reveal(4)')
        kernel.kill()
        kernel.run(BEGIN)
        assert kernel.run(ASK)[0]["data"][MIME]["answer"] == "B"
        kernel.run('share = lesson.predict("share", "How many?", number=True)')
        assert kernel.said("share.answer = 4")[-1].startswith('RuntimeError: The question "share" is answered')


@pytest.mark.notebook
def test_an_answer_in_the_copy_of_a_cell_is_one_to_the_question(kernel):
    kernel.run(BEGIN)
    kernel.run(ASK + "\nolder = winner")
    kernel.run(ASK)
    kernel.run('older.answer = "B"')
    assert [kernel.outputs(at)[0]["data"][MIME]["answer"] for at in (-3, -2)] == ["B", "B"]
    assert "Your answer: B" in kernel.said('winner.reveal("A")')[0]
