"""The clinic: a student's check is judged by what it finds, and the notebook computes what its text says."""

from __future__ import annotations

import re
import runpy
from types import SimpleNamespace

import pytest
import torch
from course.harness import Course

course = Course("12_clinic")
solution = course.solutions
clinic = SimpleNamespace(**runpy.run_path(str(course.folder / "data/clinic.py")))


def of_sequence(which):
    """A check of one sequence of the batch alone."""

    def check(model, x, lengths):
        length = int(lengths[which])
        alone = model(x[which : which + 1, :length] if which else x[:1, :length], lengths[which : which + 1 or None])
        return torch.allclose(alone[0], model(x, lengths)[which, :length], atol=1e-5)

    return check


def shuffled(model, x, lengths):
    """Another order of the sequences: it misses what is the same for every order, as a mean of the batch."""
    order = torch.arange(len(x)).flip(0)
    there, here = model(x[order], lengths[order])[order], model(x, lengths)
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return torch.allclose(there[real], here[real], atol=1e-5)


def frame_by_frame(part):
    """Compares a part of what each sequence gets alone and in the batch."""

    def check(model, x, lengths):
        for seq, length in enumerate(lengths.tolist()):
            alone = model(x[seq : seq + 1, :length], lengths[seq : seq + 1])[0]
            if not torch.allclose(part(alone), part(model(x, lengths)[seq, :length]), atol=1e-5):
                return False
        return True

    return check


def asserting(model, x, lengths):
    """Right, and says so by an assertion."""
    assert solution.alone_or_together(model, x, lengths)
    return True


def alone_by_padding(model, x, lengths):
    """Alone, in the same batch: all others are 0, and their frames are padding."""
    together = model(x, lengths)
    for seq, length in enumerate(lengths.tolist()):
        alone = model(x[seq, :length][None], torch.tensor([length]))[0]
        if (alone - together[seq, :length]).abs().max() > 1e-4:
            return False
    return True


def padding_changed_everywhere(model, x, lengths):
    return torch.allclose(model(x, lengths), model(x + 1.0, lengths))


def padding_shape_only(model, x, lengths):
    return model(x, lengths).shape == x.shape


def far_padding_only(model, x, lengths):
    """Leaves the first frame of padding as it is."""
    other, far = x.clone(), torch.arange(x.shape[1]) > lengths[:, None]
    other[far] = 100.0
    real = torch.arange(x.shape[1]) < lengths[:, None]
    return torch.allclose(model(x, lengths)[real], model(other, lengths)[real], atol=1e-5)


def last_sequence_only(model, x, lengths):
    other, length = x.clone(), int(lengths[-1])
    other[-1, length:] = 100.0
    return torch.allclose(model(x, lengths)[-1, :length], model(other, lengths)[-1, :length], atol=1e-5)


def shortest_alone(model, x, lengths):
    seq = int(lengths.argmin())
    alone = model(x[seq : seq + 1, : lengths[seq]], lengths[seq : seq + 1])[0]
    return torch.allclose(alone, model(x, lengths)[seq, : lengths[seq]], atol=1e-5)


def by_nan(model, x, lengths):
    padding = torch.arange(x.shape[1]) >= lengths[:, None]
    dirty = x.masked_fill(padding[..., None], torch.nan)
    return torch.allclose(model(dirty, lengths)[~padding], model(x, lengths)[~padding], atol=1e-5)


def steps_of(model, tokens):
    state, rows = model.start(), []
    for token in tokens:
        row, state = model.step(token, state)
        rows.append(row)
    return torch.stack(rows)


def without_cache(model, tokens):
    rows = torch.stack([model.step(token, model.start())[0] for token in tokens])
    return torch.allclose(rows, model.whole(tokens), atol=1e-5)


def last_frames(make, first, second):
    model = make()
    model(first)
    return torch.allclose(model(second)[-1], make()(second)[-1], atol=1e-5)


def one_object(make, first, second):
    model = make()
    return torch.allclose(model(second), model(second), atol=1e-5)


def encoded(x, to, back, start=0.0, axis=1):
    """A recurrent layer over an axis."""
    state, out = torch.full((x.shape[1 - axis], len(back)), start), []
    for frame in x.unbind(axis):
        state = torch.tanh(frame @ to + state @ back)
        out.append(state)
    return torch.stack(out, axis)


def attended(x, seen):
    return (x @ x.mT).masked_fill(~seen, -torch.inf).softmax(-1) @ x


def said(model, token, cache, place):
    x = model.letters[token] + model.positions[place]
    cache = torch.cat([cache, x[None]])
    return ((cache @ x).softmax(0) @ cache) @ model.out, cache


def best_texts(model, beam_size, steps):
    texts = [()]
    for _ in range(steps):
        grown = [text for text in texts if text[-1:] == (0,)]
        grown += [(*text, label) for text in texts if text[-1:] != (0,) for label in range(clinic.LABELS)]
        texts = sorted(grown, key=model.score, reverse=True)[:beam_size]
    return texts


WRONG = {
    "alone_or_together": {
        "passes every model": lambda model, x, lengths: model(x, lengths).shape[:2] == x.shape[:2],
        "fails every model": lambda model, x, lengths: torch.equal(model(x, lengths), torch.zeros(1)),
        "passes the patient": of_sequence(0),
        "Your check fails a healthy model": lambda model, x, lengths: torch.allclose(
            model(x[:1], lengths[:1])[0], model(x, lengths)[0], atol=1e-5
        ),  # compared with its padding
        "wrong from the second frame on": frame_by_frame(lambda values: values[:1]),
        "the right numbers in the wrong places": frame_by_frame(lambda values: values.sum(0)),
        "another healthy encoder": lambda model, x, lengths: torch.allclose(
            model(x, lengths), clinic.HEALTHY[1](x, lengths), atol=1e-5
        ),
        "Your check fails every model": lambda model, x, lengths: getattr(model, "__name__", "") == "encoder",
        "It gives many answers": lambda model, x, lengths: model(x, lengths) == model(x, lengths),
    },
    "blind_to_padding": {
        "passes every model": padding_shape_only,
        "fails every model": lambda model, x, lengths: torch.equal(model(x, lengths), x[:0]),
        "Your check fails a healthy model": padding_changed_everywhere,
        "passes another model with the same disease": far_padding_only,
        "passes the patient": last_sequence_only,
        "another healthy attention": shortest_alone,
    },
    "steps_agree": {
        "passes every model": lambda model, tokens: len(steps_of(model, tokens)) == len(tokens),
        "fails every model": without_cache,
        "passes another model with the same disease": lambda model, tokens: torch.allclose(
            steps_of(model, tokens)[:2], model.whole(tokens)[:2], atol=1e-5
        ),
        "passes the patient": lambda model, tokens: torch.equal(
            steps_of(model, tokens)[-1:].argmax(-1), model.whole(tokens)[-1:].argmax(-1)
        ),
        "the second letter does not see itself": lambda model, tokens: torch.allclose(
            steps_of(model, tokens)[-1], model.whole(tokens)[-1], atol=1e-5
        ),
    },
    "forgets": {
        "passes every model": lambda make, first, second: torch.equal(make()(second), make()(second)),
        "fails every model": lambda make, first, second: torch.allclose(make()(first), make()(second)),
        "passes another model with the same disease": one_object,
        "Your check passes the patient": last_frames,
        "Your check fails a healthy model": lambda make, first, second: (
            solution.forgets(make, first, second) and len(first) > 2
        ),
    },
    "scores_are_true": {
        "passes every model": lambda search, model: (
            sorted(search(model, 4, 6), key=lambda one: -one[1]) == search(model, 4, 6)
        ),
        "fails every model": lambda search, model: all(score == 0 for _, score in search(model, 4, 6)),
        "passes the patient": lambda search, model: (
            abs(search(model, 4, 6)[0][1] - model.score(search(model, 4, 6)[0][0])) < 1e-6
        ),
        "passes another model with the same disease": lambda search, model: (
            search(model, 4, 6) != clinic.PATIENTS[5](model, 4, 6)
        ),
    },
    "mended_encoder": {
        "as ill as before": clinic.patient_encoder,
        "gets other numbers alone": lambda x, lengths, to, back: encoded(x - x.mean(0), to, back),
        "begins with ones": lambda x, lengths, to, back: encoded(x, to, back, 1.0),
        "healthy now, but another model": lambda x, lengths, to, back: encoded(x, to, back.T),
        "has another shape": lambda x, lengths, to, back: encoded(x, to, back)[:, -1],
    },
    "mended_attention": {
        "as ill as before": clinic.patient_attention,
        "Nothing is masked": lambda x, lengths: (x @ x.mT).softmax(-1) @ x,
        "One frame of padding": lambda x, lengths: attended(x, torch.arange(x.shape[1]) <= lengths[:, None, None]),
        "healthy now, but another model": lambda x, lengths: (
            attended(x, torch.arange(x.shape[1]) < lengths[:, None, None]) * 2
        ),
    },
    "mended_step": {
        "as ill as before": clinic.patient_step,
        "too far left": lambda model, token, cache: said(model, token, cache, len(cache) - 1),
        "gets other logits than in the whole": lambda model, token, cache: said(
            model, token, cache, min(len(cache), 3)
        ),
        "Two values are wanted": lambda model, token, cache: said(model, token, cache, len(cache))[0],
    },
    "mended_call": {
        "as ill as before": clinic.patient_call,
        "begins with ones": lambda model, x: encoded(x[None], model.to, model.back, 1.0)[0],
        "The state is not used": lambda model, x: torch.tanh(x @ model.to),
        "has another shape": lambda model, x: encoded(x[None], model.to, model.back)[0, -1],
    },
    "mended_search": {
        "as ill as before": clinic.patient_search,
        "a score that the model does not give": lambda model, beam_size, steps: [
            (text, model.score(text) - 0.1) for text in best_texts(model, beam_size, steps)
        ],
        "in another order": lambda model, beam_size, steps: [
            (text, model.score(text)) for text in best_texts(model, beam_size, steps)[::-1]
        ],
        "keeps others than the best": lambda model, beam_size, steps: [
            (text, model.score(text)) for text, _ in clinic.patient_search(model, beam_size, steps)
        ],
        "another number of hypotheses": lambda model, beam_size, steps: clinic.beam(model, beam_size, steps)[:1],
    },
    "mended_scores": {
        "as ill as before": clinic.patient_scores,
        "in scaled_dot_product_attention": clinic.scores_without_mask,
        "one too large": lambda model, ids, mask: model(ids, attention_mask=mask, position_ids=mask.cumsum(1)).logits,
        "healthy now, but another model": lambda model, ids, mask: clinic.scores(model, ids, mask) / 2,
    },
}

RIGHT = {
    "alone_or_together": {"one by one": alone_by_padding, "asserting": asserting},
    "blind_to_padding": {"with NaN": by_nan},
    "steps_agree": {
        "all at once": lambda model, tokens: torch.allclose(steps_of(model, tokens), model.whole(tokens), atol=1e-4)
    },
    "mended_encoder": {"in a function": lambda x, lengths, to, back: encoded(x, to, back)},
    "mended_attention": {"in torch": lambda x, lengths: attended(x, torch.arange(x.shape[1]) < lengths[:, None, None])},
    "mended_search": {
        "without states": lambda model, *sizes: [(text, model.score(text)) for text in best_texts(model, *sizes)]
    },
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    if exercise == "mended_scores":
        pytest.importorskip("transformers")
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


def test_a_check_that_is_right_for_one_patient_only_is_told_what_it_misses():
    said = course.judged("alone_or_together", shuffled).message
    assert "passes another model with the same disease" in said and "minus the mean over the batch" in said


def test_each_disease_has_two_variants_and_no_model_changes_its_shape():
    assert set(clinic.HEALTHY) == set(clinic.PATIENTS) == set(clinic.VARIANTS) == set(clinic.DIAGNOSES)
    assert all(len(variants) >= 2 for variants in clinic.VARIANTS.values())
    x, lengths = clinic.batch()
    for number, size in ((1, clinic.SIZE), (2, clinic.FEATURES)):
        for model in (clinic.HEALTHY[number], clinic.PATIENTS[number], *clinic.VARIANTS[number].values()):
            assert model(x, lengths).shape == (3, 6, size)


def first_frames(model, x, lengths):
    return all(
        torch.allclose(model(x[seq : seq + 1, :n], lengths[seq : seq + 1])[0, 0], model(x, lengths)[seq, 0], atol=1e-5)
        for seq, n in enumerate(lengths.tolist())
    )


def first_frames_with_other_padding(model, x, lengths):
    other = x.masked_fill((torch.arange(x.shape[1]) >= lengths[:, None])[..., None], 100.0)
    return torch.allclose(model(x, lengths)[:, 0], model(other, lengths)[:, 0], atol=1e-5)


def first_frame_after(make, first, second):
    used = make()
    used(first)
    return torch.allclose(used(second)[0], make()(second)[0], atol=1e-5)


# Each looks at what comes first alone, and the patient differs there.
FIRST_ALONE = {
    "alone_or_together": first_frames,
    "blind_to_padding": first_frames_with_other_padding,
    "steps_agree": lambda model, tokens: torch.allclose(steps_of(model, tokens)[0], model.whole(tokens)[0], atol=1e-5),
    "forgets": first_frame_after,
    "scores_are_true": lambda search, model: all(
        abs(score - model.score(labels)) < 1e-6 for labels, score in search(model, 4, 2)
    ),
}


@pytest.mark.parametrize("exercise", FIRST_ALONE)
def test_a_check_of_the_first_frame_alone_misses_a_variant(exercise):
    said = course.judged(exercise, FIRST_ALONE[exercise])
    assert not said.passed and "passes" in said.message, said


def test_the_code_of_a_patient_can_be_pasted_and_is_as_ill_as_before():
    for number, exercise in enumerate(course.exercises[5:], 1):
        space = {}
        exec(clinic.code_of(number), space)
        if number < 6:
            assert "as ill as before" in course.judged(exercise, space[exercise]).message
    assert course.exercises[5:] == [f"mended_{name}" for name in clinic._CODE.values()]


def test_without_transformers_the_check_says_so_and_blames_nobody(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = course.judged("mended_scores", solution.mended_scores)
    assert not said.passed and "transformers is not installed" in said.message


@pytest.mark.notebook
def test_it_has_no_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_diagnoses_are_those_of_the_solutions(ran):
    names = [f"diagnosis_{number}" for number in range(1, 7)]
    assert [ran.truth(name) for name in names] == [solution.PREDICTIONS[name] for name in names]


@pytest.mark.notebook
def test_patient_1_is_right_for_the_first_sequence_alone(ran):
    said = re.findall(r"sequence (\d) alone and in the batch: (the same|different)", ran.printed("12-patient-1-see"))
    assert said == [("0", "the same"), ("1", "different"), ("2", "different")]


@pytest.mark.notebook
def test_padding_that_is_nan_finds_the_op(ran):
    said = ran.printed("12-patient-2-see")
    assert "healthy: padding stays padding" in said
    assert "patient: softmax, called in clinic.py" in said and "the first NaN that is not in padding" in said
    assert any("1.00 of its weight on padding" in text for text in ran.shown("12-diagnosis-2-reveal"))


@pytest.mark.notebook
def test_patient_3_differs_from_the_first_letter_on(ran):
    assert "a text of one letter: different" in ran.printed("12-patient-3-see")


@pytest.mark.notebook
def test_patient_4_forgets_from_frame_to_frame(ran):
    apart = [float(number) for number in re.findall(r"\d\.\d+", ran.printed("12-patient-4-see"))]
    assert len(apart) == 5 and apart[0] == max(apart) > 0.1 and apart[-1] < 0.01


@pytest.mark.notebook
def test_the_patient_of_the_search_says_other_scores_than_the_model(ran):
    rows = re.findall(r"says +(-[\d.]+) +is +(-[\d.]+)", ran.printed("12-patient-5-see"))
    assert len(rows) == 8
    assert all(said == true for said, true in rows[:5]) and all(said != true for said, true in rows[5:])


@pytest.mark.notebook
def test_patient_6_is_found_by_check_batch_in_its_positions(ran):
    pytest.importorskip("transformers")
    said = ran.printed("12-patient-6-see")
    assert "A leak" in said and "in arange" in said and "its being there is counted" in said


@pytest.mark.notebook
def test_the_code_of_each_patient_is_shown_after_its_check(ran):
    for number in range(1, 7):
        assert "def mended_" in ran.printed(f"12-code-{number}")
