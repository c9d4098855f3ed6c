"""The `beams` events of a search, against a beam search in plain Python; recording changes nothing."""

import numpy as np
import pytest
from markov import Markov, beam_search, hypotheses

from rfnb.trace.probe import listen


def recorded(model, beam_size, **options):
    events = []
    with listen(lambda kind, place, values: events.append((place, values)) if kind == "beams" else None):
        loop, labels = model.search(beam_size, max_seq_len=6, **options)
    return events, labels


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_the_events_are_the_steps_of_the_search(beam_size, seed):
    model = Markov(seed=seed)
    events, _ = recorded(model, beam_size)
    expected = beam_search(model.table[0], beam_size, 6)
    assert [(place.path, place.step) for place, _ in events] == [("search", step) for step in range(len(expected))]
    for (_, values), (kept, candidates, beam) in zip(events, expected):
        rows = {name: values[name].numpy()[0] for name in ("tokens", "parents", "scores", "ended")}
        assert rows["tokens"].tolist() == [label for _, _, label in kept]
        assert rows["parents"].tolist() == [parent for _, parent, _ in kept]
        np.testing.assert_allclose(rows["scores"], [score for score, _, _ in kept], atol=1e-5)
        assert rows["ended"].tolist() == [ended for *_, ended in beam]
        real = candidates[: max(2 * beam_size, 8)]
        assert values["cand_tokens"].numpy()[0, : len(real)].tolist() == [label for _, _, label in real]
        assert values["cand_parents"].numpy()[0, : len(real)].tolist() == [parent for _, parent, _ in real]
        np.testing.assert_allclose(values["cand_scores"].numpy()[0, : len(real)], [s for s, _, _ in real], atol=1e-5)
        assert np.isneginf(values["cand_scores"].numpy()[0, len(real) :]).all()
        assert values["cand_kept"].numpy()[0, : len(real)].tolist() == [rank < beam_size for rank in range(len(real))]


def test_the_dims_and_marks_of_an_event():
    model = Markov(num_seqs=2)
    events, labels = recorded(model, 3)
    (beam,) = (dim for dim in labels.dims if dim.kind == "beam")
    for _, values in events:
        for name in ("tokens", "parents", "scores", "ended"):
            assert values[name].dims == (model.batch, beam)
        assert values["tokens"].sparse_dim is model.vocab and values["cand_tokens"].sparse_dim is model.vocab
        shapes = {values[name].dims for name in ("cand_tokens", "cand_parents", "cand_scores", "cand_kept")}
        assert len(shapes) == 1
        assert values["name"] == "choice"


@pytest.mark.parametrize(("keep", "size"), [(5, 5), (1, 3), (100, 12)])
def test_keep_candidates_says_how_many(keep, size):
    events, _ = recorded(Markov(), 3, keep_candidates=keep)
    sizes = [values["cand_scores"].dims[-1].size for _, values in events]
    assert sizes[0] == min(max(keep, 3), 4)  # one hypothesis, four labels
    assert set(sizes[1:]) == {size}


def test_recording_changes_nothing():
    model = Markov(num_seqs=3, seed=7)
    _, labels = recorded(model, 3)
    assert hypotheses(labels, model.batch) == hypotheses(model.search(3, max_seq_len=6)[1], model.batch)


def test_a_beam_larger_than_what_there_is_reports_only_real_candidates_as_kept():
    model = Markov(size=2)
    events, _ = recorded(model, 5)
    first = events[0][1]
    assert first["scores"].numpy()[0, 2:].tolist() == [-np.inf] * 3
    assert first["cand_kept"].numpy().tolist() == [[True, True]]
