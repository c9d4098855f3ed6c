"""Notebook 8, when decoding goes wrong: its checks tell right from wrong, and what it says is what its cells compute."""

import re

import pytest
from course.harness import Course

course = Course("08_errors")
FAULTS = {"END": "the end label is not final", "LENGTH": "the length is off by one", "STATES": "states do not follow"}


def right(output, output_score, references):
    return course.solutions.classify(output, output_score, references)


def swapped(output, output_score, references):
    said = right(output, output_score, references)
    return {"search error": "model error", "model error": "search error"}.get(said, said)


def never_right(output, output_score, references):
    return "search error" if max(references.values()) > output_score else "model error"


def first_reference(output, output_score, references):
    if output in references:
        return "right"
    return "search error" if next(iter(references.values())) > output_score else "model error"


def scores_first(output, output_score, references):
    if max(references.values()) > output_score:
        return "search error"
    return "right" if output in references else "model error"


def sorted_references(output, output_score, references):
    """Right, and another way."""
    if any(text == output for text in references):
        return "right"
    return "model error" if all(score <= output_score for score in references.values()) else "search error"


def same_label(labels, times=4):
    return len(labels) >= times and len(set(labels[-times:])) == 1


def anywhere(labels, times=4):
    return any(
        labels[at : at + size * times] == labels[at : at + size] * times
        for size in range(1, len(labels) // times + 1)
        for at in range(len(labels) - size * times + 1)
    )


def always_four(labels, times=4):
    return course.solutions.ends_in_loop(labels)


def counted(labels, times=4):
    return bool(labels) and labels.count(labels[-1]) >= times


def by_text(labels, times=4):
    """Right, and another way: a regular expression over the text."""
    return re.search(rf"(?:^| )(\S+(?: \S+)*)(?: \1){{{times - 1}}}$", " ".join(labels)) is not None


def up_to_four_labels(labels, times=4):
    return any(labels[-size * times :] == labels[-size:] * times for size in range(1, min(4, len(labels) // times) + 1))


def by_letters(labels, times=4):
    return re.search(rf"(.+)\1{{{times - 1}}}$", "".join(labels)) is not None


def inside_of_labels(labels, times=4):
    return re.search(rf"((?:\S+ )+)\1{{{times - 1}}}$", " ".join([*labels, ""])) is not None


def model_score(word, phonemes):
    from rfnb.models import score

    return float(score(course.solutions.model, [word], [phonemes])[0])


def easy_words(search):
    found = search("cat")
    assert abs(found.score - model_score("cat", found.phonemes)) < 1e-3


def same_output(search):
    from rfnb.models import pronounce

    for word in ("parachute", "cat"):
        assert search(word).phonemes == pronounce(course.solutions.model, word, beam_size=4)[0].phonemes


def exact(search):
    found = search("parachute")
    assert found.score == model_score("parachute", found.phonemes)


def too_strict(search):
    found = search("parachute")
    assert abs(found.score - model_score("parachute", found.phonemes)) < 1e-5


def returns_false(search):
    found = search("vertebrae")
    return abs(found.score - model_score("vertebrae", found.phonemes)) < 1e-3


def never_asks(search):
    assert model_score("cat", ["K", "AE", "T"]) < 0


def by_the_search_of_the_model(search):
    """Right, and another way: text and score are those that the model's own search finds."""
    from rfnb.models import pronounce

    for word in ("cat", "vertebrae"):
        best, found = pronounce(course.solutions.model, word, beam_size=4)[0], search(word, 4)
        assert best.phonemes == found.phonemes and abs(best.score - found.score) < 1e-2, word


WRONG = {
    "classify": {
        "have changed places": swapped,
        "One of several references is enough": scores_first,
        "There are several references": first_reference,
        "An output that is one of the references is right": never_right,
        "There are three kinds": lambda output, output_score, references: True,
        "This is of another kind": lambda *given: "search error" if right(*given) == "model error" else right(*given),
    },
    "gamma": {
        "nothing still wins": 0.5,
        "With γ = 0.672 nothing still wins": 0.672,
        "with a smaller γ, too": 1.0,
        "divided by all 9 labels": 0.6,
        "A reward is positive": -0.68,
        "This is no number": "two",
    },
    "ends_in_loop": {
        "A piece may be long": up_to_four_labels,
        "AA is one label": by_letters,
        "NG is another label than G": inside_of_labels,
        "A piece may have": same_label,
        "The loop is not at the end": anywhere,
        "`times` is an argument": always_four,
        "A label that comes back is no loop": counted,
        "One label, four times in a row": lambda labels, times=4: False,
        "Nothing is no loop": lambda labels, times=4: not labels or course.solutions.ends_in_loop(labels, times),
    },
    "culprits": {
        "A and C are mixed up": {"A": FAULTS["STATES"], "B": FAULTS["LENGTH"], "C": FAULTS["END"]},
        "A, B and C are mixed up. Look at A": {"A": FAULTS["STATES"], "B": FAULTS["END"], "C": FAULTS["LENGTH"]},
        "B and C are mixed up. Look at B": {"A": FAULTS["END"], "B": FAULTS["STATES"], "C": FAULTS["LENGTH"]},
        "Each of the three has a fault of its own": dict.fromkeys("ABC", FAULTS["END"]),
        "END, LENGTH and STATES": {"A": "end", "B": "length", "C": "states"},
        "a dict with A, B and C": FAULTS["END"],
    },
    "check_search": {
        "It does not notice: states do not follow": easy_words,
        "the end label is not final, states do not follow": same_output,
        "Are floats compared with a tolerance?": exact,
        "off by rounding, 0.00002": too_strict,
        "returning False says nothing": returns_false,
        "It never calls the search": never_asks,
    },
}
RIGHT = {
    "classify": {"another way": sorted_references},
    "gamma": {"exact": 0.6736},
    "ends_in_loop": {"a regular expression": by_text},
    "check_search": {"the search of the model": by_the_search_of_the_model},
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


@pytest.mark.notebook
def test_it_runs_and_every_prediction_has_its_truth(ran):
    ran.assert_truths(course.solutions.PREDICTIONS)


@pytest.mark.notebook
def test_greedy_search_loses_what_the_model_prefers(ran):
    (view,) = ran.shown("fallen_view = ")
    assert "fell out of the beam" in view
    assert "The model prefers the reference: a search error" in ran.printed("history.diagnose(")


@pytest.mark.notebook
def test_most_errors_are_the_models_and_a_beam_of_two_mends_the_others(ran):
    said = "".join(ran.shown("faults_view = "))
    found, wrong, left = map(int, re.search(r"(\d+) of (\d+)\. With a beam of 2 there are (\d+) left", said).groups())
    assert 0 < found < 0.1 * wrong and left == 0
    assert 250 < wrong < 320  # about 28 of 100


@pytest.mark.notebook
def test_the_empty_output_has_a_better_score_than_the_pronunciation(ran):
    said = "".join(ran.shown("wide_view = "))
    empty, full = map(float, re.search(r"Scores: (-\S+) for nothing, (-\S+) for the pronunciation", said).groups())
    assert empty > full + 1


@pytest.mark.notebook
def test_greedy_search_loops_on_tomatoes_and_on_q(ran):
    assert ran.truth("loops") == "q"
    (view,) = [text for text in ran.shown("loop_view = ") if "Attention" in text]
    assert view.count("\nT │") > 10


@pytest.mark.notebook
def test_half_a_word_has_a_far_better_score_than_the_whole_one(ran):
    said = "".join(ran.shown("looked_at = "))
    cut, whole = map(float, re.search(r"the score is (-\S+), that of the whole word (-\d+\.\d+)\.", said).groups())
    assert cut > whole + 50


@pytest.mark.notebook
def test_the_three_searches_are_caught(ran):
    said = ran.printed("check_search = lesson.use").splitlines()
    assert [line[:2] for line in said[1:]] == ["A:", "B:", "C:"] and not any("nothing found" in line for line in said)


@pytest.mark.notebook
def test_each_broken_search_shows_its_fault(ran):
    a, b, c = (text for text in ran.shown("broken_views = ") if "Beam search" in text or "Search " in text)
    assert re.search(r"<end> -1\.772 .*\n.*0><end> -1\.861", a)  # goes on after its end, and pays
    assert "Search B says: P EH R AH SH UW (" in " ".join(b.split()) and "P EH R AH SH UW T" in b
    assert "-1.794" in c  # the model says -1.772


@pytest.mark.notebook
def test_checks_are_unsolved(ran):
    checks = {data["exercise"]: data["status"] for data in ran.records("check")}
    assert checks == dict.fromkeys(course.exercises, "unsolved")
