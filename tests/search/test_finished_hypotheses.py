"""rf.beam_search with ended="leave": what is complete leaves the beam; against a search in plain Python."""

import numpy as np
import pytest
import torch
from asserting import raises_message
from markov import Markov
from test_beam_search import run

import rfnb as rf

STEPS = 6
RULES = [True, False, "likely", "complete"]


def leave(*args, **options):
    return run(*args, ended="leave", max_seq_len=STEPS, **options)


def plain(table, beam_size, *, exponent=0.0, rule=False, num_best=1):
    """(labels, score) of all results, best first, of one sequence, by the definition."""
    final = lambda item: item[1] / len(item[0]) ** exponent  # noqa: E731
    going, finished = [((), 0.0)], []
    for step in range(STEPS):
        candidates = sorted(
            ((*labels, label), score + float(table[step, labels[-1] if labels else 0, label]))
            for labels, score in going for label in range(table.shape[-1])
        )  # fmt: skip
        candidates.sort(key=lambda item: -item[1])
        finished += [item for item in candidates[:beam_size] if item[0][-1] == 0]
        finished.sort(key=final, reverse=True)
        going = [item for item in candidates if item[0][-1] != 0 and item[1] > -np.inf][:beam_size]
        if len(finished) >= num_best and step + 1 < STEPS:
            worst, best = final(finished[num_best - 1]), going[0][1]
            if rule == "complete" or (rule == "likely" and worst >= best / (step + 1) ** exponent):
                return finished
    return sorted(finished + going, key=final, reverse=True)


def same(got, expected):
    assert [row.tokens for row in got] == [labels for labels, _ in expected]
    np.testing.assert_allclose([row.score for row in got], [score for _, score in expected], atol=1e-5)


@pytest.mark.parametrize("kind", ["raw", "rf"])
@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
def test_complete_and_cut_hypotheses_are_those_of_a_plain_search(kind, beam_size):
    for seed in range(5):
        model = Markov(num_seqs=3, seed=seed)
        result = leave(kind, model, beam_size=beam_size, early_stopping=False)
        for seq in range(3):
            expected = plain(model.table[seq], beam_size)
            same(result.nbest(seq, unfinished=True), expected)
            complete = [item for item in expected if item[0][-1] == 0]
            same(result.nbest(seq), complete or expected)


@pytest.mark.parametrize("rule", ["likely", "complete"])
@pytest.mark.parametrize("exponent", [-0.5, 0.0, 0.7, 1.5])
def test_rules_that_stop_sooner_are_those_of_a_plain_search(rule, exponent):
    stopped = 0
    for seed in range(5):
        model = Markov(num_seqs=3, seed=seed)
        options = {"length_exponent": exponent, "num_best": 3}
        result = leave("raw", model, beam_size=3, early_stopping=rule, **options)
        stopped += sum(steps is not None and steps < STEPS for steps in result.decided)
        for seq in range(3):
            expected = plain(model.table[seq], 3, exponent=exponent, rule=rule, num_best=3)
            got = result.nbest(seq, unfinished=True)
            scored = [(labels, score / len(labels) ** exponent) for labels, score in expected]
            same(got[:3], scored[:3])
    assert stopped


@pytest.mark.parametrize("exponent", [-0.5, 0.0, 0.7, 1.5])
@pytest.mark.parametrize("num_best", [1, 3])
def test_stopping_when_it_is_sure_never_changes_the_best(exponent, num_best):
    steps = []
    for seed in range(8):
        model = Markov(num_seqs=2, seed=seed)
        options = {"beam_size": 3, "length_exponent": exponent, "num_best": num_best}
        early, late = leave("raw", model, **options), leave("raw", model, early_stopping=False, **options)
        steps.append(early.steps)
        for seq in range(2):
            wanted = late.nbest(seq, unfinished=True)[:num_best]
            assert [(row.tokens, row.score) for row in early.nbest(seq, unfinished=True)[:num_best]] == [
                (row.tokens, row.score) for row in wanted
            ]
    assert min(steps) < STEPS or exponent > 1 or num_best > 1


@pytest.mark.parametrize("rule", RULES)
def test_a_batch_gives_what_each_sequence_alone_gives(rule):
    together = Markov(num_seqs=4, seed=5)
    options = {"beam_size": 3, "num_best": 2, "early_stopping": rule, "length_exponent": 1.0}
    result = leave("raw", together, **options)
    for seq in range(4):
        alone = Markov()
        alone.table = together.table[seq : seq + 1]
        wanted = [(row.tokens, row.score) for row in leave("raw", alone, **options).nbest()]
        got = [(row.tokens, pytest.approx(row.score, abs=1e-5)) for row in result.nbest(seq)]
        assert wanted == got


def test_a_beam_of_everything_finds_the_best():
    model = Markov(num_seqs=2, seed=1)
    result = run("raw", model, ended="leave", beam_size=400, max_seq_len=4, num_best=3)
    for seq in range(2):
        same(result.nbest(seq)[:3], [item for item in model.everything(seq) if item[0][-1] == 0][:3])


def test_as_many_unfinished_hypotheses_go_on_as_the_beam_has_places():
    history = leave("raw", Markov(num_seqs=2, seed=3), beam_size=3, early_stopping=False).history
    for fields in history.steps[1:]:
        going = (fields["scores"] > -np.inf) & ~fields["ended"]
        assert (going.sum(-1) == 3).all()
    assert any(fields["ended"].any() for fields in history.steps)


def test_the_history_tells_what_has_left():
    history = leave("raw", Markov(seed=4), beam_size=3, early_stopping=False).history
    left = [(step, slot) for step in range(STEPS) for slot in history.left(0, step)]
    assert len(left) == len(history.finished(0)) >= 2
    assert [item.path[-1] for item in history.finished(0)] == sorted(
        left, key=lambda place: -history.from_slot(0, place[1], place[0]).score
    )
    for step, slot in left:
        item = history.from_slot(0, slot, step)
        assert item.ended and item.tokens[-1] == 0 and item.tokens in [row.tokens for row in history.nbest(0)]
        assert history.fate(0, slot, step).kind == "ended and left"
        (verdict,) = (
            verdict for verdict in history.verdicts(0, step)
            if verdict.token == 0 and verdict.parent == history.steps[step]["parents"][0, slot]
        )  # fmt: skip
        assert verdict.verdict == "ended" and verdict.rank < 3
        assert history.diagnose(0, item.tokens).step is None  # it has not fallen out
    assert all(item.kept for item in history.finished(0))


@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_what_a_smaller_beam_would_have_given(beam_size):
    exact = 0
    for seed in range(12):
        model = Markov(seed=seed)
        smaller = leave("raw", model, beam_size=5, early_stopping=False).history.smaller(0, beam_size)
        if smaller.exact_until is None:
            exact += 1
            own = leave("raw", model, beam_size=beam_size, early_stopping=False).history
            assert smaller.best.tokens == own.nbest(0)[0].tokens
    assert exact


def test_a_saved_trace_keeps_what_has_left(tmp_path):
    with rf.record(kinds=["beams"]) as trace:
        result = leave("raw", Markov(seed=4), beam_size=3)
    trace.save(tmp_path / "run.rfnb")
    history = rf.load_trace(tmp_path / "run.rfnb").beams["search"]
    assert [item.tokens for item in history.finished(0)] == [item.tokens for item in result.history.finished(0)]
    assert history.finished(0)


def test_a_sequence_in_which_nothing_can_go_on_is_done_while_others_go_on():
    model = Markov(num_seqs=2, seed=1)
    model.table[0, 1:, :, 1:] = -np.inf
    result = leave("raw", model, beam_size=2, early_stopping=False)
    assert {len(row.tokens) for row in result.nbest(0)} <= {1, 2} and result.steps == STEPS
    same(result.nbest(1, unfinished=True), plain(model.table[1], 2))


def test_another_end_than_label_0_and_blocked_labels():
    model, order = Markov(seed=2), [1, 2, 3, 0]  # the end is label 3
    table = torch.from_numpy(model.table[0])

    def step(labels, past):
        before = torch.tensor([1, 2, 3, 0])[labels]
        return table[past.shape[1], before][:, order], torch.cat([past, labels[:, None]], 1)

    options = {"max_seq_len": STEPS, "beam_size": 3, "ended": "leave", "early_stopping": False, "start_label": 3}
    result = rf.beam_search(step, batch=1, state=torch.zeros(1, 0), end_label=3, **options)
    expected = [(tuple((label - 1) % 4 for label in labels), score) for labels, score in plain(model.table[0], 3)]
    same(result.nbest(unfinished=True), expected)
    blocked = rf.beam_search(step, batch=1, state=torch.zeros(1, 0), end_label=3, banned=[0], **options)
    model.table[..., 1] = -np.inf
    expected = [(tuple((label - 1) % 4 for label in labels), score) for labels, score in plain(model.table[0], 3)]
    same(blocked.nbest(unfinished=True), expected)


def test_nothing_is_left():
    model = Markov(seed=1)
    model.table[:, 2] = -np.inf
    model.table[:, :2, :, 0] = -np.inf
    with raises_message(
        ValueError,
        """
        beam_search in loop "search", step 2: no hypothesis is left.
          scores  [batch=1, beam=2, labels=4]
          first   batch 0
        All labels of all hypotheses have probability 0, or are banned. What was found so far is in a trace:
            with rf.record() as trace: ...   # the same search; then rf.show(trace)
        """,
    ):
        leave("raw", model, beam_size=2)


@pytest.mark.parametrize("label", [0, 2])
def test_a_nan_is_found_also_in_the_score_of_the_end(label):
    model = Markov(seed=1)
    model.table[:, 2, :, label] = np.nan
    with pytest.raises(ValueError, match="step 2: the scores contain NaN"):
        leave("raw", model, beam_size=2, early_stopping=False)


def test_unknown_rules():
    with raises_message(
        ValueError,
        'beam_search: ended="go".\n  known  stay, leave\nWhat has ended does one of these.\n    ended="stay"',
    ):
        run("raw", Markov(), ended="go")
    with raises_message(
        ValueError,
        'beam_search: early_stopping="never".\n  known  True, False, likely, complete\nIt is one of these.\n    early_stopping="likely"',
    ):
        run("raw", Markov(), early_stopping="never")


def test_options_that_are_for_hypotheses_that_stay():
    with raises_message(
        ValueError,
        """
        beam_search: ended="leave" with sampling.
        That is for hypotheses that stay where they are when they have ended.
            rf.beam_search(..., ended="stay", sampling=...)
        """,
    ):
        leave("raw", Markov(), sampling=True)


def test_a_view_shows_the_winner_that_has_left():
    result = leave("raw", Markov(seed=4), beam_size=2, early_stopping=False)
    lines = rf.viz.beams(result.history).text().splitlines()
    (winner,) = (line for line in lines if "  winner  " in line)
    assert winner.split() == ["1", f"{result.best().score:.3f}", "winner", result.best().text]
    assert any("</s> -0.216 *$" in line for line in lines)
    assert sum("not complete" in line for line in lines) == 2


def test_rules_that_stop_sooner_hold_for_hypotheses_that_stay():
    stopped = 0
    for seed in range(6):
        model = Markov(num_seqs=2, seed=seed)
        options = {"beam_size": 4, "num_best": 2, "max_seq_len": STEPS}
        result, late = run("raw", model, early_stopping="complete", **options), run("raw", model, **options)
        for seq, steps in enumerate(result.decided):
            ends = sorted(len(item.tokens) for item in late.history.finished(seq))
            if steps is not None and len(ends) >= 2:
                assert steps == ends[1]
                stopped += late.decided[seq] is None or steps < late.decided[seq]
            assert len(result.nbest(seq)) >= 2 or steps is None
    assert stopped
