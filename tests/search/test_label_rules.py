"""allowed=: searches with a rule about their labels, against all sequences that the rule allows."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from asserting import raises_message, tensor
from markov import Markov
from test_beam_search import run

import rfnb as rf
from rfnb import Dim

STEPS = 4


def words_of(rng, count, size=4, most=3):
    return sorted({tuple(rng.integers(1, size, rng.integers(1, most + 1)).tolist()) for _ in range(count)})


def has(phrase):
    return lambda labels: any(labels[at : at + len(phrase)] == phrase for at in range(len(labels)))


def splits(labels, words, between):
    """Whether labels are words with a separator between, in plain Python."""
    parts, part = [], []
    for label in labels:
        if label == between:
            parts.append(tuple(part))
            part = []
        else:
            part.append(label)
    return all(each in words for each in [*parts, tuple(part)])


def rules(seed):
    """(what is given, labels without the end -> whether they are allowed)"""
    rng = np.random.default_rng(seed)
    words = words_of(rng, 4)
    two = words_of(rng, 3, size=3, most=2)
    first, second = (tuple(rng.integers(1, 4, n).tolist()) for n in (2, 1))
    odd = lambda labels: [0, 1, 2, 3] if len(labels) % 2 else [1, 2]  # noqa: E731
    mask = lambda labels: np.array([len(labels) > 1, True, False, labels[-1:] != (3,)])  # noqa: E731
    bits = lambda labels: np.array([0b1101], np.int32)  # noqa: E731
    return {
        "lexicon": (rf.Lexicon(words), lambda labels: labels in words),
        "words": (rf.Lexicon(two, between=3), lambda labels: splits(labels, two, 3)),
        "phrases": (rf.RequiredPhrases([first, second]), lambda labels: has(first)(labels) and has(second)(labels)),
        "function": (odd, lambda labels: all(label in odd(labels[:at]) for at, label in enumerate((*labels, 0)))),
        "mask": (mask, lambda labels: all(mask(labels[:at])[label] for at, label in enumerate((*labels, 0)))),
        "bits": (bits, lambda labels: 1 not in labels),
        "torch bits": (lambda labels: torch.tensor([[0b1101]], dtype=torch.int32), lambda labels: 1 not in labels),
        "set": ({0, 1, 3}, lambda labels: 2 not in labels),
        "all": (lambda labels: None, lambda labels: True),
        "both": ([rf.RequiredPhrases([second]), rf.Lexicon(words)], lambda labels: labels in words and has(second)(labels)),
        "bank": (rf.RequiredPhrases([{first, (*second, *second)}]), lambda labels: has(first)(labels) or has((*second, *second))(labels)),
        "banks": (
            rf.RequiredPhrases([second, [[1, 2], [2, 1], [3, 3]]]),
            lambda labels: has(second)(labels) and any(has(each)(labels) for each in ((1, 2), (2, 1), (3, 3))),
        ),
        "list": ([{0, 1, 3}, rf.RequiredPhrases([(1, 3)])], lambda labels: 2 not in labels and has((1, 3))(labels)),
    }  # fmt: skip


def expected(model, seq, fine):
    found = [item for item in model.everything(seq, STEPS) if item[0][-1] == 0 and fine(item[0][:-1])]
    return [(labels, score) for labels, score in found if len(labels) <= STEPS]


@pytest.mark.parametrize("name", rules(0))
@pytest.mark.parametrize("kind", ["raw", "rf"])
def test_a_beam_of_everything_finds_all_that_is_allowed(kind, name):
    looked = 0
    for seed in range(6):
        rule, fine = rules(seed)[name]
        model = Markov(num_seqs=2, seed=seed)
        wanted = [expected(model, seq, fine) for seq in range(2)]
        if not all(wanted):
            continue
        result = run(kind, model, beam_size=200, max_seq_len=STEPS, allowed=rule, num_best=200)
        for seq in range(2):
            got = [row for row in result.nbest(seq) if row.ended]
            assert [row.tokens for row in got] == [labels for labels, _ in wanted[seq]]
            np.testing.assert_allclose([row.score for row in got], [score for _, score in wanted[seq]], atol=1e-5)
        looked += 1
    assert looked >= 3


@pytest.mark.parametrize("ended", ["stay", "leave"])
@pytest.mark.parametrize("name", ["lexicon", "words", "phrases", "bank", "banks", "both", "list"])
def test_a_narrow_beam_gives_nothing_else_and_always_something(name, ended):
    """An automaton is not left in a state from which the end cannot be reached in time."""
    for seed in range(12):
        rule, fine = rules(seed)[name]
        model = Markov(num_seqs=3, seed=seed)
        if not all(expected(model, seq, fine) for seq in range(3)):
            continue
        result = run("raw", model, beam_size=1 if name != "both" else 3, max_seq_len=STEPS, allowed=rule, ended=ended)
        for seq in range(3):
            best = result.best(seq)
            assert best.ended and fine(best.tokens[:-1]), (seed, best)


def test_a_search_without_a_limit_is_the_same():
    model = Markov(num_seqs=2, seed=3)
    free = run("raw", model, beam_size=3, max_seq_len=STEPS)
    same = run("raw", model, beam_size=3, max_seq_len=STEPS, allowed=lambda labels: None)
    assert [row.tokens for row in free.nbest(1)] == [row.tokens for row in same.nbest(1)]
    assert [row.score for row in free.nbest(1)] == [row.score for row in same.nbest(1)]


@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_a_choice_in_a_loop_of_your_own(beam_size):
    words = [(1, 2), (3,), (2, 2, 1)]
    model = Markov(num_seqs=3, seed=1)
    loop, labels = model.search(beam_size, max_seq_len=STEPS, allowed=rf.Lexicon(words))
    best = rf.decide(labels)
    rows = best.copy_transpose([model.batch, *[d for d in best.dims if d is not model.batch]]).numpy()
    for row in rows:
        written = tuple(int(label) for label in row)
        assert written[: written.index(0)] in words


def test_sequences_of_a_batch_do_not_disturb_each_other():
    together, rule = Markov(num_seqs=3, seed=5), rf.Lexicon([(1, 2), (3, 1), (2,)])
    result = run("raw", together, beam_size=2, max_seq_len=STEPS, allowed=rule)
    for seq in range(3):
        alone = Markov()
        alone.table = together.table[seq : seq + 1]
        own = run("raw", alone, beam_size=2, max_seq_len=STEPS, allowed=rule)
        assert [row.tokens for row in own.nbest()] == [row.tokens for row in result.nbest(seq)]


def test_other_end_labels_and_other_limits():
    model, order = Markov(seed=2), [1, 2, 3, 0]  # the end is label 3
    table = torch.from_numpy(model.table[0])

    def step(labels, past):
        before = torch.tensor([1, 2, 3, 0])[labels]
        return table[past.shape[1], before][:, order], torch.cat([past, labels[:, None]], 1)

    options = {"max_seq_len": STEPS, "beam_size": 4, "start_label": 3, "state": torch.zeros(1, 0), "batch": 1}
    result = rf.beam_search(step, end_label=3, allowed=rf.Lexicon([[0, 1], [2]]), **options)
    assert {row.tokens for row in result.nbest()} == {(0, 1, 3), (2, 3)}
    banned = rf.beam_search(step, end_label=3, allowed=rf.Lexicon([[0, 1], [2]]), banned=[2], **options)
    assert {row.tokens for row in banned.nbest()} == {(0, 1, 3)}
    begun = rf.beam_search(step, end_label=3, allowed=rf.Lexicon([[0, 1], [2]]), prefix=torch.tensor([[2]]), **options)
    assert {row.tokens for row in begun.nbest()} == {(2, 3)}


@pytest.mark.parametrize(
    ("banks", "labels", "left"),
    [  # one word, or one of several, as the removed `force_words_ids` of `transformers` had it: by label what is still missing
        ([[5, 6, 7]], [5, 6, 7], [3, 2, 1, 0]),
        ([[5, 6, 7]], [5, 6, 5, 6, 7], [3, 2, 1, 2, 1, 0]),
        ([[[1, 2, 3], [1, 2, 4]]], [1, 2, 4], [3, 2, 1, 0]),
        ([[[1, 2, 3, 4], [1, 2, 4, 5], [1, 2, 5]]], [1, 2, 4, 5], [3, 2, 1, 1, 0]),
        ([[[1, 2], [1, 2, 3, 4]]], [1, 2, 9], [2, 1, 0, 0]),
        ([[5, 6], [[7], [8, 9]]], [8, 5, 9, 6, 7], [3, 3, 2, 3, 3, 2]),
        ([[1, 2], [[2, 3], [9]]], [1, 2, 3], [3, 2, 1, 0]),
    ],
)
def test_what_is_missing_of_words_and_of_one_of_several(banks, labels, left):
    rule = rf.RequiredPhrases(banks)
    states = [rule.start]
    for label in labels:
        states.append(rule.next(states[-1], label))
    assert [rule.least(state) for state in states] == left
    assert [rule.ends(state) for state in states] == [each == 0 for each in left]
    assert rule.least(rule.start) <= rule.farthest


def test_a_rule_that_is_new_in_each_step_and_a_lexicon_that_is_copied():
    """The rows of a lexicon are kept for other searches; what a rule knows of the labels so far is not lost with the rule."""
    words, model = [(1, 2), (3,), (2, 2, 1)], Markov(num_seqs=2, seed=1)
    one, twice = rf.Lexicon(words), []
    for make in (
        lambda: one,
        lambda: rf.Lexicon(words),
        lambda: copy.deepcopy(one),
        lambda: pickle.loads(pickle.dumps(one)),
    ):
        loop = rf.Loop(max_seq_len=STEPS)
        loop.state.label = model.start()
        for step in loop:
            label = rf.choice(model.log_prob(loop.state.label, step), axis=model.vocab, beam_size=3, allowed=make())
            loop.state.label = label
            loop.end(label == 0, include_eos=True)
            labels = loop.stack(label)
        twice.append((rf.get_beam_scores(labels).numpy().tolist(), rf.decide(labels).numpy().tolist()))
    assert all(each == twice[0] for each in twice)
    steps, *seqs = np.array(twice[0][1]).shape
    assert steps <= STEPS and seqs == [2]


def test_labels_that_a_rule_does_not_tell_apart_are_asked_for_together():
    for seed in range(4):
        together, each = rf.RequiredPhrases([(1, 2)]), rf.RequiredPhrases([(1, 2)])
        each.apart = None
        found = [
            run("raw", Markov(seed=seed), beam_size=2, max_seq_len=STEPS, allowed=rule) for rule in (together, each)
        ]
        assert [row.tokens for row in found[0].nbest()] == [row.tokens for row in found[1].nbest()]


def test_labels_by_their_texts():
    vocab = ["</s>", "k", "ae", "t"]
    assert sorted(rf.Lexicon(["k ae t", "ae"], vocab=vocab).labels(0)) == [1, 2]
    letters = rf.Lexicon(["ab", "ba"], vocab=["", "a", "b", " "], between=" ")
    assert sorted(letters.labels(0)) == [1, 2]


class Balanced(rf.Constraint):
    """As many 2 as 1 before them: an automaton of one's own."""

    start, farthest, name = 0, 5, "balance"

    def labels(self, state):
        return [1, 2] if state else [1]

    def next(self, state, label):
        return state + 1 if label == 1 else state - 1

    def ends(self, state):
        return state == 0

    def least(self, state):
        return state


def test_an_automaton_of_ones_own():
    for seed in range(5):
        model = Markov(num_seqs=1, seed=seed)
        result = run("raw", model, beam_size=2, max_seq_len=STEPS, allowed=Balanced())
        for row in result.nbest():
            heights = np.cumsum([0] + [1 if label == 1 else -1 for label in row.tokens[:-1]])
            assert row.ended and heights[-1] == 0 and heights.min() >= 0


# -- what a trace tells ------------------------------------------------------------------------------------------------------
def recorded(rule, **options):
    with rf.record(kinds=["beams"]) as trace:
        run("rf", Markov(num_seqs=2, seed=4), beam_size=1, max_seq_len=STEPS, allowed=rule, **options)
    return trace


def test_candidates_say_what_has_forbidden_them_and_how_much_was_taken(tmp_path):
    trace = recorded(rf.Lexicon([(1, 2), (3, 1)]), banned=[3])
    trace.save(tmp_path / "run.rfnb")
    for each in (trace, rf.load_trace(tmp_path / "run.rfnb")):
        history = each.beams["search"]
        assert history.blockers == ["banned", "the lexicon"]
        model, steps = Markov(num_seqs=2, seed=4), history.steps
        for seq in range(2):
            chance = np.exp(model.table[seq, 0, 0])
            assert steps[0]["taken"][seq, 0] == pytest.approx(chance[0] + chance[2] + chance[3], abs=1e-5)
            by = dict(zip(steps[0]["cand_tokens"][seq].tolist(), steps[0]["cand_by"][seq].tolist()))
            assert by == {1: 0, 3: 1, 2: 2, 0: 2}
            assert {v.token for v in history.verdicts(seq, 0) if v.verdict == "blocked"} == {0, 2, 3}
    text = rf.viz.beams(trace.beams["search"]).text()
    assert "blocked: forbidden by the lexicon" in text and "; not allowed: " in text


def test_nothing_is_taken_where_everything_is_allowed():
    trace = recorded(lambda labels: None)
    assert all((fields["taken"] == 0).all() for fields in trace.beams["search"].steps)
    assert "not allowed" not in rf.viz.beams(trace.beams["search"]).text()


# -- alignments --------------------------------------------------------------------------------------------------------------
BLANK = 3


def collapsed(path):
    return tuple(label for label, _ in itertools.groupby(path) if label != BLANK)


def ctc_sums(frames):
    sums = {}
    for path in itertools.product(range(4), repeat=len(frames)):
        score = sum(frames[at, label] for at, label in enumerate(path))
        sums[collapsed(path)] = np.logaddexp(sums.get(collapsed(path), -np.inf), score)
    return sums


ALIGNED = {
    "lexicon": (rf.Lexicon([(0, 1), (2, 2), (1, 0, 1), (0,)]), lambda w: w in {(0, 1), (2, 2), (1, 0, 1), (0,)}),
    "phrases": (rf.RequiredPhrases([(1, 2)]), has((1, 2))),
    "function": (lambda labels: {0, 1}, lambda w: 2 not in w),
}


@pytest.mark.parametrize("name", ALIGNED)
@pytest.mark.parametrize("without_blank", [False, True])
def test_ctc_sums_are_those_of_all_alignments_of_what_is_allowed(name, without_blank):
    rule, fine = ALIGNED[name]
    logits = np.random.default_rng(0).standard_normal((2, 6, 4)) * 2
    frames = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    batch, classes = Dim(2, name="batch"), Dim(4, name="classes")
    time = Dim(tensor(np.array([6, 4], np.int32), batch), name="time")
    x = tensor(frames.astype(np.float32), batch, time, classes)
    options = {"in_spatial_dim": time, "wb_target_dim": classes, "blank_index": BLANK, "allowed": rule}
    options |= {"target_dim": Dim(3, name="labels")} if without_blank else {}
    labels, scores, out, beam = rf.ctc_prefix_beam_search(x, beam_size=900, **options)
    tokens, values = labels.copy_transpose([batch, beam, out]).numpy(), scores.copy_transpose([batch, beam]).numpy()
    lengths = out.dyn_size_ext.copy_transpose([batch, beam]).numpy()
    for seq, length in enumerate((6, 4)):
        sums = {word: score for word, score in ctc_sums(frames[seq, :length]).items() if fine(word)}
        alive = values[seq] > -np.inf
        got = [tuple(tokens[seq, k, : lengths[seq, k]].tolist()) for k in np.flatnonzero(alive)]
        assert got == sorted(sums, key=lambda word: -sums[word])
        np.testing.assert_allclose(values[seq][alive], sorted(sums.values(), reverse=True), atol=1e-5)
    narrow, *_ = rf.ctc_prefix_beam_search(x, beam_size=1, **options)
    assert narrow.numpy().size


def transducer(**options):
    time, classes, batch = Dim(3, name="time"), Dim(3, name="classes"), Dim(1, name="batch")
    table = (
        np.random.default_rng(1).standard_normal((3, 3, 3)).astype(np.float32)
    )  # frame, label before, class; blank 2
    source = tensor(np.eye(3, dtype=np.float32)[None], batch, time, Dim(3, name="frame"))
    frame_dim = source.feature_dim = source.dims[-1]
    before = classes.copy(match_priority=1)
    own = tensor(table, frame_dim, before, classes)

    def step(frame, label, state):
        return rf.gather(
            rf.matmul(frame, own, reduce=frame_dim), indices=rf.set_sparse_dim(label, before), axis=before
        ), state

    found = rf.transducer_beam_search(
        step, source, in_spatial_dim=time, wb_target_dim=classes, blank_index=2, max_labels=3, **options
    )
    labels, scores, out, beam = found
    tokens, lengths = (
        labels.copy_transpose([batch, beam, out]).numpy()[0],
        out.dyn_size_ext.copy_transpose([batch, beam]).numpy()[0],
    )
    values = scores.copy_transpose([batch, beam]).numpy()[0]
    return {
        tuple(tokens[k, : lengths[k]].tolist()): float(values[k]) for k in range(len(values)) if values[k] > -np.inf
    }


@pytest.mark.parametrize(
    ("rule", "fine"),
    [
        (rf.Lexicon([(0, 1), (1, 1, 0), (1,)]), lambda w: w in {(0, 1), (1, 1, 0), (1,)}),
        (rf.RequiredPhrases([(1, 0)]), has((1, 0))),
        (lambda labels: [1], lambda w: 0 not in w),
    ],
)
def test_a_transducer_gives_what_is_allowed_with_the_same_sums(rule, fine):
    everything = transducer(beam_size=200)
    wanted = {word: score for word, score in everything.items() if fine(word)}
    got = transducer(beam_size=200, allowed=rule)
    assert wanted and got.keys() == wanted.keys()
    for word, score in wanted.items():
        assert got[word] == pytest.approx(score, abs=1e-5)
    assert set(transducer(beam_size=1, allowed=rule)) <= set(wanted)


def test_candidates_of_an_alignment_say_what_has_forbidden_them():
    with rf.record() as trace:
        transducer(beam_size=2, allowed=rf.Lexicon([(0, 1), (1,)]))
    text = rf.viz.beams(trace.beams["transducer"]).text()
    assert "blocked: forbidden by the lexicon" in text


# -- generate ----------------------------------------------------------------------------------------------------------------
def test_generate_of_transformers_takes_the_same_rule():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=20, n_embd=16, n_layer=1, n_head=2, n_positions=32, eos_token_id=0, bos_token_id=1
    )
    model, prompt = transformers.GPT2LMHeadModel(config).eval(), torch.tensor([[4, 5, 6]])
    words = {(7, 8, 9), (10, 11), (3,)}
    fn = rf.Lexicon(words).for_generate(20, end_label=0, prompt=3, max_new_tokens=4)
    out = model.generate(
        prompt,
        prefix_allowed_tokens_fn=fn,
        num_beams=6,
        num_return_sequences=3,
        max_new_tokens=4,
        do_sample=False,
        pad_token_id=0,
    )
    found = [tuple(row[3:].tolist()) for row in out]
    assert {row[: row.index(0)] for row in found} == words
    options = rf.hf_search_options(model, input_ids=prompt)
    own = rf.beam_search(**options, beam_size=6, max_seq_len=4, allowed=rf.Lexicon(words), num_best=3, ended="leave")
    assert {row.tokens[:-1] for row in own.nbest()} == words


@pytest.mark.parametrize("ended", ["stay", "leave"])
def test_results_are_the_same_whether_the_history_was_looked_at_and_in_a_copy(ended):
    lexicon = rf.Lexicon([[1, 2], [2, 1, 3], [3]])

    def search():
        return run("raw", Markov(num_seqs=2, seed=0), beam_size=3, max_seq_len=STEPS, allowed=lexicon, ended=ended)

    looked, unlooked = search(), search()
    assert looked.history.blockers == ["the lexicon"]
    for seq in range(2):
        assert unlooked.nbest(seq) == looked.nbest(seq)
        assert unlooked.best(seq).tokens == unlooked.history.finished(seq)[0].tokens
    for copied in (pickle.loads(pickle.dumps(search())), copy.deepcopy(search())):
        assert [copied.nbest(seq) for seq in range(2)] == [looked.nbest(seq) for seq in range(2)]
        for step, other in zip(copied.history.steps, looked.history.steps, strict=True):
            assert {name: array.tolist() for name, array in step.items()} == {
                name: array.tolist() for name, array in other.items()
            }


@pytest.mark.parametrize("library", ["xgrammar", "llguidance"])
def test_bits_of_a_grammar(library):
    """A grammar of one of these libraries, asked for each hypothesis by its labels."""
    pytest.importorskip(library)
    vocab = ["</s>", "1", "2", "+"]
    if library == "xgrammar":
        import xgrammar

        info = xgrammar.TokenizerInfo(vocab, stop_token_ids=[0])
        grammar = xgrammar.GrammarCompiler(info).compile_grammar('root ::= [12] ("+" [12])*')

        def bits(labels):
            matcher, mask = xgrammar.GrammarMatcher(grammar), xgrammar.allocate_token_bitmask(1, 4)
            assert all(matcher.accept_token(label) for label in labels)
            matcher.fill_next_token_bitmask(mask)
            return mask

    else:
        import llguidance
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        tokenizer = Tokenizer(models.BPE({label: at for at, label in enumerate(vocab)}, []))
        tokenizer.decoder, tokenizer.pre_tokenizer = (
            decoders.ByteLevel(),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        )
        tokenizer.add_special_tokens(["</s>"])
        known = llguidance.LLTokenizer(tokenizer.to_str(), eos_token=0)
        grammar = llguidance.LLMatcher.grammar_from_regex(r"[12](\+[12])*")

        def bits(labels):
            matcher, mask = llguidance.LLMatcher(known, grammar), allocate_token_bitmask(1, 4)
            assert all(matcher.consume_token(label) for label in labels)
            fill_next_token_bitmask(matcher, mask)
            return mask

    model = Markov(num_seqs=1, seed=0)
    fine = lambda labels: len(labels) % 2 == 1 and all((label == 3) == (at % 2 == 1) for at, label in enumerate(labels))  # noqa: E731
    result = run("raw", model, beam_size=200, max_seq_len=STEPS, allowed=bits, num_best=200)
    assert [row.tokens for row in result.nbest() if row.ended] == [labels for labels, _ in expected(model, 0, fine)]


# -- mistakes ----------------------------------------------------------------------------------------------------------------
def test_what_can_never_end_is_said_before_the_search():
    def never(labels, state):
        raise AssertionError("a step was made")

    step = lambda rule, **options: rf.beam_search(  # noqa: E731
        never, batch=1, max_seq_len=4, vocab=["</s>", "a", "b", "c"], allowed=rule, **options
    )
    with raises_message(
        ValueError,
        """
        beam_search: what is allowed can never end.
          allowed      the lexicon
          end_label    0
          max_seq_len  4
        Of the lexicon: 4 labels and the end are needed at least, 4 are made.
            max_seq_len=5
        """,
    ):
        step(rf.Lexicon([[1, 2, 3, 1]]))
    with pytest.raises(ValueError, match="nothing that is allowed comes to an end that is allowed"):
        step([rf.Lexicon([[1, 2], [3]]), rf.RequiredPhrases([[2, 2]])])


@pytest.mark.parametrize(
    ("rule", "error", "words"),
    [
        (5, TypeError, "allowed is no rule"),
        ([], TypeError, "an empty list"),
        (set(), TypeError, "an empty set"),
        (lambda labels: [7], ValueError, "allowed gives a label that is none"),
        (lambda labels: "abc", TypeError, "allowed gives no labels"),
        (lambda labels: [0.5], TypeError, "allowed gives no labels"),
        (lambda labels: [], ValueError, "no hypothesis is left"),
        (rf.Lexicon([[1, 9]]), ValueError, "allowed gives a label that is none"),
    ],
)
def test_rules_that_are_none(rule, error, words):
    with pytest.raises(error, match=words):
        run("raw", Markov(), beam_size=2, max_seq_len=4, allowed=rule)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rf.Lexicon([]), "there is no word"),
        (lambda: rf.Lexicon([[]]), "a word without labels"),
        (lambda: rf.Lexicon(["k o"], vocab=["</s>", "k"]), "a label that is none"),
        (lambda: rf.Lexicon([[1, -1]]), "a label that is none"),
        (lambda: rf.RequiredPhrases([]), "there is no phrase"),
        (lambda: rf.RequiredPhrases([[1], set()]), "there is no phrase in a bank"),
        (lambda: rf.RequiredPhrases([{"k", "o"}], vocab=["</s>", "k"]), "a label that is none"),
        (lambda: rf.RequiredPhrases([""]), "a word without labels"),
    ],
)
def test_lexicons_that_are_none(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_of_several_sources_it_is_refused():
    loop = rf.Loop(max_seq_len=3)
    model = Markov()
    with pytest.raises(ValueError, match="allowed of several sources"):
        for _ in loop:
            scores = model.log_prob(model.start(), 0)
            rf.choice([scores, scores], axis=[model.vocab, model.vocab], beam_size=2, allowed=lambda labels: None)
            loop.end(rf.constant(True, dims=[model.batch]))


def test_a_sequence_that_is_too_short_for_what_is_allowed():
    with pytest.raises(ValueError, match="nothing that is allowed has come to its end"):
        transducer(beam_size=4, allowed=rf.RequiredPhrases([(0, 0, 0, 0)]))
