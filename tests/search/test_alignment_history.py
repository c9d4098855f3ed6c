"""The history of searches over alignments: the same record as of a choice, against plain Python and against searches run again."""

import itertools
import math

import numpy as np
import pytest
from ngram_models import random_arpa, score
from test_ctc_prefix import Run as CTCRun
from test_ctc_prefix import log_probs, sums
from test_transducer import Model, encoder
from test_transducer import Run as TransducerRun

import rfnb as rf

NEVER = -math.inf
WORDS = ["<unk>", "<s>", "</s>", "a", "b"]
BLANK = 2


class Searched:
    """A search of two sequences of lengths 4 and 3, labels 0 and 1, recorded."""

    def __init__(self, kind, *, seed=0, beam_size=3, **options):
        lengths = [4, 3]
        with rf.record(kinds=["beams"]) as trace:
            if kind == "ctc":
                self.frames = log_probs(2, 4, 3, seed=seed, sharp=1.0)
                run = CTCRun(self.frames, lengths=lengths, beam_size=beam_size, **options)
            else:
                self.frames, self.model = encoder(2, 4, seed), Model(3, BLANK, seed=seed, sharp=0.7)
                run = TransducerRun(
                    self.model, self.frames, lengths=lengths, beam_size=beam_size, max_labels=2, **options
                )
        self.kind, self.lengths, self.found, self.trace = kind, lengths, run.found, trace
        self.history = trace.beams["ctc" if kind == "ctc" else "transducer"]

    def sum(self, seq, labels):
        """Log of the sum over all alignments, by definition."""
        frames = self.frames[seq, : self.lengths[seq]]
        return sums(frames, BLANK)[labels] if self.kind == "ctc" else self.model.sum(frames, labels)

    def all_labels(self, seq):
        most = self.lengths[seq] if self.kind == "ctc" else 2
        found = [row for count in range(most + 1) for row in itertools.product((0, 1), repeat=count)]
        return [row for row in found if self.kind != "ctc" or row in sums(self.frames[seq, : self.lengths[seq]], BLANK)]

    def kept(self, seq, step):
        """{labels: score} after a step."""
        scores = self.history.steps[step]["scores"][seq]
        return {self.history.prefix(seq, k, step): float(s) for k, s in enumerate(scores) if s > NEVER}


KINDS = pytest.mark.parametrize("kind", ["ctc", "transducer"])


def fused(tmp_path, seed=1, scale=0.6):
    path = tmp_path / "lm.arpa"
    random_arpa(path, WORDS, order=2, seed=seed)
    return {"lm": rf.NGramLM(path, ["a", "b"]), "lm_scale": scale, "label_bonus": 0.3}


@KINDS
@pytest.mark.parametrize("beam_size", [1, 3, 40])
@pytest.mark.parametrize("lm", [False, True])
def test_the_history_has_the_result_in_its_order(kind, beam_size, lm, tmp_path):
    for seed in range(4):
        run = Searched(kind, seed=seed, beam_size=beam_size, **(fused(tmp_path) if lm else {}))
        for seq in range(2):
            items = run.history.nbest(seq)
            assert [item.tokens for item in items] == list(run.found[seq])
            np.testing.assert_allclose([item.score for item in items], list(run.found[seq].values()), atol=1e-4)
            finished = {item.tokens: item.score for item in run.history.finished(seq)}
            for labels, value in run.found[seq].items():
                assert finished[labels] == pytest.approx(value, abs=1e-4)


@KINDS
def test_the_parts_of_a_score_are_the_sum_over_alignments_the_language_model_and_the_number_of_labels(kind, tmp_path):
    options = fused(tmp_path)
    listed = random_arpa(tmp_path / "lm.arpa", WORDS, order=2, seed=1)
    run = Searched(kind, beam_size=60, **options)
    for seq in range(2):
        for item in run.history.nbest(seq):
            spoken = ["<s>", *("ab"[label] for label in item.tokens), "</s>"]
            own = sum(score(listed, word, spoken[: index + 1], 2) for index, word in enumerate(spoken[1:]))
            assert item.parts["log_prob"] == pytest.approx(run.sum(seq, item.tokens), abs=1e-4)
            assert item.parts["lm"] == pytest.approx(own, abs=1e-4) and item.parts["labels"] == len(item.tokens)
            whole = item.parts["log_prob"] + 0.6 * item.parts["lm"] + 0.3 * item.parts["labels"]
            assert item.score == pytest.approx(whole, abs=1e-4)


@KINDS
@pytest.mark.parametrize("scale", [0.6, 0.0])
def test_in_each_step_the_parts_make_the_score(kind, scale, tmp_path):
    run = Searched(kind, seed=2, **fused(tmp_path, scale=scale))
    last = np.zeros((2, 1))
    for fields in run.history.steps:
        real = fields["scores"] > NEVER
        whole = fields["base"] + fields["log_probs"] + scale * fields["part:lm"] + 0.3 * fields["part:labels"]
        np.testing.assert_allclose(whole[real], fields["scores"][real], atol=1e-4)
        real = fields["cand_scores"] > NEVER
        before = np.take_along_axis(np.broadcast_to(last, (2, 3)), fields["cand_parents"], 1)
        whole = before + fields["cand_log_probs"] + scale * fields["cand_part:lm"] + 0.3 * fields["cand_part:labels"]
        np.testing.assert_allclose(whole[real], fields["cand_scores"][real], atol=1e-4)
        last = fields["scores"]


def ctc_step(state, frame):
    """{labels: (sum that ends in a blank, in a label)} after a frame, and {(begin, label): what it brought to one that stays}."""
    out, brought = {}, {}

    def add(labels, place, value):
        pair = list(out.get(labels, (NEVER, NEVER)))
        pair[place] = float(np.logaddexp(pair[place], value))
        out[labels] = tuple(pair)

    for labels, (in_blank, in_label) in state.items():
        total = float(np.logaddexp(in_blank, in_label))
        add(labels, 0, total + float(frame[BLANK]))
        if labels:
            add(labels, 1, in_label + float(frame[labels[-1]]))
        for label in (0, 1):
            grown = (*labels, label)
            value = (in_blank if labels and labels[-1] == label else total) + float(frame[label])
            add(grown, 1, value)
            if grown in state:
                brought[labels, label] = value
    return out, brought


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5, 30])
def test_each_candidate_of_a_frame_has_the_right_verdict(beam_size):
    merges = 0
    for seed in range(6):
        run = Searched("ctc", seed=seed, beam_size=beam_size, keep_candidates=200)
        for seq in range(2):
            state, before = {(): (0.0, NEVER)}, None
            for step in range(run.lengths[seq]):
                found, brought = ctc_step(state, run.frames[seq, step])
                whole = {labels: float(np.logaddexp(*pair)) for labels, pair in found.items()}
                kept = sorted((item for item in whole.items() if item[1] > NEVER), key=lambda item: -item[1])[
                    :beam_size
                ]
                mine = run.kept(seq, step)
                assert list(mine) == [labels for labels, _ in kept]
                np.testing.assert_allclose(list(mine.values()), [score for _, score in kept], atol=1e-4)
                verdicts = {}
                for item in run.history.verdicts(seq, step):
                    parent = () if before is None else before[item.parent]
                    verdicts[parent, item.token] = item
                for (parent, token), item in verdicts.items():
                    labels = parent if token == BLANK else (*parent, token)
                    if (parent, token) in brought:
                        merges += 1
                        assert item.verdict == "merged" and item.score == pytest.approx(
                            brought[parent, token], abs=1e-4
                        )
                    else:
                        last = step == run.lengths[seq] - 1
                        assert item.verdict == (("ended" if last else "kept") if labels in mine else "cut by rank")
                        assert item.score == pytest.approx(whole[labels], abs=1e-4)
                real = {key for key, value in brought.items() if value > NEVER}
                assert {
                    (parent, token) for (parent, token), item in verdicts.items() if item.verdict == "merged"
                } == real
                fields = run.history.steps[step]
                for k, labels in enumerate(mine):
                    stays = fields["tokens"][seq, k] == BLANK
                    assert bool(fields["merged"][seq, k]) == (
                        stays and labels[:-1] in state and (labels[:-1], labels[-1]) in real if labels else False
                    )
                state = {labels: found[labels] for labels in mine}
                before = [run.history.prefix(seq, k, step) for k in range(len(mine))]
    assert merges or beam_size == 1


@pytest.mark.parametrize("beam_size", [1, 2, 4, 30])
def test_each_candidate_of_a_step_of_a_transducer_has_the_right_verdict(beam_size):
    seen = set()
    for seed in range(4):
        run = Searched("transducer", seed=seed, beam_size=beam_size, keep_candidates=200)
        for seq, length in enumerate(run.lengths):
            state, before = {(): 0.0}, [()]
            for step in range(run.history.num_steps):
                whole, brought = {}, {}
                for labels, total in state.items():
                    frame = step - len(labels)  # each step is a frame or a label
                    if frame >= length:
                        whole[labels] = float(np.logaddexp(whole.get(labels, NEVER), total))
                        continue
                    row = run.model.plain(run.frames[seq, frame], labels)
                    for label in (BLANK, 0, 1)[: 1 if len(labels) == 2 else 3]:
                        grown = labels if label == BLANK else (*labels, label)
                        value = total + float(row[label])
                        whole[grown] = float(np.logaddexp(whole.get(grown, NEVER), value))
                        if grown in state and label != BLANK:
                            brought[labels, label] = value
                kept = sorted(whole.items(), key=lambda item: -item[1])[:beam_size]
                mine = run.kept(seq, step)
                assert list(mine) == [labels for labels, _ in kept]
                np.testing.assert_allclose(list(mine.values()), [score for _, score in kept], atol=1e-4)
                for item in run.history.verdicts(seq, step):
                    seen.add(item.verdict)
                    parent = before[item.parent]
                    labels = parent if item.token == BLANK else (*parent, item.token)
                    if (parent, item.token) in brought:
                        assert item.verdict == "merged"
                        assert item.score == pytest.approx(brought[parent, item.token], abs=1e-4)
                        continue
                    assert item.verdict in (("kept", "ended") if labels in mine else ("cut by rank",))
                    assert item.score == pytest.approx(whole[labels], abs=1e-4)
                found = {
                    (before[item.parent], item.token)
                    for item in run.history.verdicts(seq, step)
                    if item.verdict == "merged"
                }
                assert found == set(brought)
                state = {labels: whole[labels] for labels in mine}
                before = list(mine)
    assert (
        {"kept", "ended"} <= seen
        and ("merged" in seen or beam_size == 1)
        and ("cut by rank" in seen or beam_size == 30)
    )


@KINDS
def test_what_is_kept_is_among_the_candidates_however_many_were_merged(kind):
    for seed in range(4):
        run = Searched(kind, seed=seed, beam_size=6, keep_candidates=7)
        for fields in run.history.steps:
            assert fields["cand_kept"].sum() == (fields["scores"] > NEVER).sum()
            assert (fields["cand_scores"][:, :6] == fields["scores"]).all()


@KINDS
def test_a_smaller_beam_is_exact_where_it_says_so(kind, tmp_path):
    exact = other = 0
    for seed in range(12):
        options = fused(tmp_path, seed) if seed % 2 else {}
        large = Searched(kind, seed=seed, beam_size=6, **options)
        for beam_size in (1, 2, 3, 6):
            own = Searched(kind, seed=seed, beam_size=beam_size, **options)
            for seq in range(2):
                smaller = large.history.smaller(seq, beam_size)
                until = large.history.num_steps if smaller.exact_until is None else smaller.exact_until
                for step in range(min(until, own.history.num_steps)):
                    rows = {
                        large.history.prefix(seq, slot, step): float(large.history.steps[step]["scores"][seq, slot])
                        for slot in smaller.slots[step]
                    }
                    assert list(rows) == list(own.kept(seq, step))
                    np.testing.assert_allclose(list(rows.values()), list(own.kept(seq, step).values()), atol=1e-4)
                if smaller.exact_until is None:
                    exact += beam_size < 6
                    assert smaller.best.tokens == next(iter(own.found[seq]))
                else:
                    other += 1
                    assert beam_size < 6
    assert exact and other


@KINDS
@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_every_label_sequence_as_reference_gets_the_right_diagnosis(kind, beam_size):
    seen = set()
    for seed in range(4):
        run = Searched(kind, seed=seed, beam_size=beam_size)
        for seq in range(2):
            best, best_score = next(iter(run.found[seq].items()))
            for reference in run.all_labels(seq):
                score = run.sum(seq, reference)
                said = run.history.diagnose(seq, reference, score=score)
                guess = run.history.diagnose(seq, reference)
                seen.add(said.kind)
                if reference == best:
                    assert said.kind == guess.kind == "found"
                    continue
                assert said.kind == ("search error" if score > best_score else "model error")
                assert (said.step is None) == (reference in run.found[seq])
                if said.step is None:
                    assert guess.kind in ("search error", "model error")
                    continue
                assert guess.kind == "unknown" and said.text.startswith(
                    f"The reference fell out of the beam in step {said.step}: "
                )
                begins = [reference[:count] for count in range(len(reference) + 1)]
                ended = run.history.steps[said.step]["ended"][seq]
                alive = [
                    row
                    for row, is_complete in zip(run.kept(seq, said.step), ended)
                    if row in begins and not is_complete
                ]
                assert kind == "transducer" or all(
                    len(reference) - len(row) > run.lengths[seq] - 1 - said.step for row in alive
                )
                if said.step:
                    assert any(row in begins for row in run.kept(seq, said.step - 1))
    assert {"found", "model error", "search error"} <= seen


@KINDS
def test_ranking_anew_counts_labels_and_not_steps(kind):
    run = Searched(kind, beam_size=40)
    for seq in range(2):
        ranked = run.history.rerank(seq, length_exponent=1.0)
        finals = [run.sum(seq, item.tokens) / max(len(item.tokens), 1) for item in ranked]
        assert finals == sorted(finals, reverse=True) and len(ranked) >= len(run.found[seq])


@KINDS
def test_where_each_label_was_written(kind):
    run = Searched(kind, seed=3, beam_size=4)
    for seq in range(2):
        for item in run.history.nbest(seq):
            written = [int(run.history.steps[step]["tokens"][seq, slot]) for step, slot in item.path]
            assert tuple(written) == item.tokens
            texts = run.history.labels_along(seq, item.end[1], step=item.end[0])
            assert len(texts) == run.lengths[seq] + (0 if kind == "ctc" else len(item.tokens))
            assert [text for text in texts if text] == [str(token) for token in item.tokens]


@KINDS
def test_a_view_shows_labels_without_blanks(kind, tmp_path):
    run = Searched(kind, seed=1, **fused(tmp_path))
    view = rf.viz.beams(run.history)
    for seq, one in enumerate(view.spec.head["seqs"]):
        assert one["result"] == " ".join(map(str, next(iter(run.found[seq]))))
    assert "winner" in view.text() and "·" in view.text() and "Best: " in view.html()


@KINDS
def test_a_saved_history_says_the_same(kind, tmp_path):
    run = Searched(kind, seed=1, **fused(tmp_path))
    run.trace.save(tmp_path / "run.rfnb")
    again = rf.load_trace(tmp_path / "run.rfnb").beams["ctc" if kind == "ctc" else "transducer"]
    for seq in range(2):
        assert again.nbest(seq) == run.history.nbest(seq)
        assert again.smaller(seq, 2) == run.history.smaller(seq, 2)
        assert again.nbest(seq)[0].parts == run.history.nbest(seq)[0].parts
