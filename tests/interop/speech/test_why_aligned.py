"""rf.why_not of CTC and transducers: scores are sums over all alignments, parts sum to the margin, repairs give what was expected."""

import threading

import pytest
import torch
from asserting import raises_message
from interop.speech import brute_force
from seed import SEED

import rfnb as rf
from rfnb.viz.control.why_question import WhyQuestion

LABELS = ["-", "|", "A", "B", "C"]


def ctc_of(seed=3, lengths=(5, 4)):
    raw = 2 * torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(seed))
    return raw, rf.ctc_output(raw, lengths, vocab=LABELS)


def total(raw, tokens):
    return brute_force.ctc(raw.double().log_softmax(-1).numpy(), tokens, 0)[1]


@pytest.mark.parametrize("seq", [0, 1])
def test_ctc_is_taken_apart_into_frames(seq):
    raw, ctc = ctc_of()
    found, expected = (list(ctc.beam_search()[seq][rank].tokens) for rank in (0, 1))
    why, own = rf.why_not(ctc, expected, seq=seq), raw[seq, : (5, 4)[seq]]
    assert why.kind == "model error"
    assert (why.expected_score, why.found_score) == pytest.approx((total(own, expected), total(own, found)), abs=1e-5)
    assert why.steps[-1].behind == pytest.approx(why.expected_score - why.found_score)
    parts = why.parts
    assert parts.sum() == pytest.approx(why.expected_score - why.found_score, rel=0.01)
    for frame in range(len(own)):
        hidden = own.clone()
        hidden[frame] = own.double().mean(0)
        fallen = parts.beside["margin"] - (total(hidden, expected) - total(hidden, found))
        assert parts.occluded[0, frame] == pytest.approx(fallen, abs=1e-5)


def test_a_planted_frame_is_due_and_what_is_forced_gives_it():
    """Frames are alike but for one, which says A or B."""
    raw = torch.zeros(1, 5, 5)
    raw[:, :, 0] = 4.0
    raw[0, 2] = torch.tensor([0.0, 0.0, 5.0, 4.0, 0.0])
    why = rf.why_not(rf.ctc_output(raw, vocab=LABELS), "B")
    assert why.found == ("A",) and why.kind == "model error"
    assert abs(why.parts.values[0, :-1]).argmax() == 2 and why.parts.causes(1)[0][0] == "2"


def test_what_is_said_to_give_it_gives_it():
    told = set()
    for seed in range(40 * SEED, 40 * SEED + 12):
        _, ctc = ctc_of(seed)
        for expected in ("AB", "B", "CAB"):
            why = rf.why_not(ctc, expected)
            told.add(why.kind)
            if not why.repairs and why.kind != "found":
                assert repr(why).endswith("No labels forced, beam up to 128 or bonus for each label gives it.")
                told.add("nothing")
            for each in why.repairs:
                assert each.tried
                if each.kind == "length":
                    bonus = float(each.words.split("=")[1])
                    best = ctc.beam_search(8, label_bonus=bonus)[0][0]
                    assert [LABELS[token] for token in best.tokens] == list(why.expected)
                    told.add("length")
    assert {"model error", "length", "nothing"} <= told


def test_a_transducer_is_taken_apart_into_frames():
    draw = torch.Generator().manual_seed(2)
    weight, table = torch.randn(4, 5, generator=draw), torch.randn(5, 5, generator=draw)
    frames = torch.randn(1, 4, 4, generator=draw)
    output = rf.transducer_output(
        frames, [4], predictor=lambda labels, state: (table[labels], state), joiner=lambda f, out: 2 * torch.tanh(f @ weight + out),
        vocab=LABELS,
    )  # fmt: skip
    expected = [*output.beam_search(max_labels=4)[0][1].tokens]

    def plain(x, tokens):
        read = torch.tensor([0, *tokens])
        lattice = (2 * torch.tanh((x @ weight)[:, None] + table[read])).double().log_softmax(-1).numpy()
        return brute_force.transducer(lattice, tokens, 0)[1]

    why = rf.why_not(output, expected)
    margin = plain(frames[0], expected) - plain(frames[0], _tokens(why.found))
    assert why.expected_score - why.found_score == pytest.approx(margin, abs=1e-4)
    parts = why.parts
    assert parts.sum() == pytest.approx(margin, rel=0.01)
    for frame in range(4):
        hidden = frames[0].clone()
        hidden[frame] = hidden.mean(0)
        fallen = margin - (plain(hidden, expected) - plain(hidden, _tokens(why.found)))
        assert parts.occluded[0, frame] == pytest.approx(fallen, abs=1e-4)


def _tokens(texts):
    return [LABELS.index(text) for text in texts]


SEARCHED = {
    "the output": lambda ctc: ctc,
    "its search": lambda ctc: ctc.beam_search(),
    "logits": lambda ctc: rf.ctc_prefix_beam_search(
        ctc.logits, in_spatial_dim=ctc.logits.dims[1], blank_index=0, beam_size=8, name="frames"
    ),
}


@pytest.mark.parametrize("searched", SEARCHED)
@pytest.mark.parametrize("record", [False, True])
def test_a_run_that_holds_a_search_of_ctc_is_asked_like_what_it_searches(searched, record):
    raw, ctc = ctc_of()
    run = rf.run(lambda: SEARCHED[searched](rf.ctc_output(torch.tanh(raw) * 2, vocab=LABELS)), record=record)
    alone = rf.why_not(rf.ctc_output(torch.tanh(raw) * 2, vocab=LABELS), "C|A", seq=1)
    why = rf.why_not(run, "C | A", seq=1)
    assert repr(why) == repr(alone)
    assert why.parts.causes(2) == alone.parts.causes(2)
    assert rf.why_not(run, "C A", seq=1).text == why.text


def test_of_a_run_the_options_of_its_search_are_in_the_answer():
    raw, ctc = ctc_of()
    lexicon = rf.Lexicon([[3, 2], [2], [4]])
    bonus = {"beam_size": 3, "label_bonus": 0.7, "allowed": lexicon}
    run = rf.run(lambda: ctc.beam_search(**bonus))
    best, *others = ctc.beam_search(**bonus)[0]
    why = rf.why_not(run, [*others[0].tokens])
    assert why.kind == "model error" and _tokens(why.found) == [*best.tokens]
    for score, labels in ((why.expected_score, why.expected), (why.found_score, why.found)):
        assert score == pytest.approx(total(raw[0], _tokens(labels)) + 0.7 * len(labels), abs=1e-5)
    assert why.parts.sum() == pytest.approx(why.expected_score - why.found_score, rel=0.01)
    banned = rf.why_not(run, "CB")
    assert banned.kind == "not allowed" and not banned.repairs
    with pytest.raises(ValueError, match="there is no margin to decompose"):
        banned.parts


def test_a_run_that_holds_a_transducer_is_asked_like_its_output():
    draw = torch.Generator().manual_seed(2)
    weight, table = torch.randn(4, 5, generator=draw), torch.randn(5, 5, generator=draw)
    frames = torch.randn(1, 4, 4, generator=draw)

    def output():
        return rf.transducer_output(
            frames, [4], predictor=lambda labels, state: (table[labels], state),
            joiner=lambda f, out: 2 * torch.tanh(f @ weight + out), vocab=LABELS,
        )  # fmt: skip

    expected = [*output().beam_search(max_labels=4)[0][1].tokens]
    run = rf.run(lambda: output().beam_search(), record=True)
    assert repr(rf.why_not(run, expected)) == repr(rf.why_not(output(), expected))
    asked = threading.Event()
    field = WhyQuestion(run, " ".join(LABELS[token] for token in expected), 0, asked.set)  # the field above its tree
    while field.going:
        asked.wait()
        asked.clear()
    told = field.told()
    assert told["text"] == rf.why_not(output(), expected).text and not told["wrong"] and told["causes"]


def test_what_cannot_be_asked_is_a_sentence():
    _, ctc = ctc_of()
    with raises_message(
        IndexError,
        "why_not: no sequence 4.\n  sequences  2\nIndices begin at 0.\n    rf.why_not(ctc, expected, seq=0)",
    ):
        rf.why_not(ctc, "A", seq=4)
    with pytest.raises(ValueError, match="not in the vocabulary"):
        rf.why_not(ctc, "AX")
    with pytest.raises(ValueError, match="why_not: reference 0 has no alignment to its frames"):
        rf.why_not(ctc, "ABCABC")
    with pytest.raises(ValueError, match="no margin"):
        best = ctc.beam_search()[0][0].tokens
        rf.why_not(ctc, list(best)).parts


def test_a_step_of_a_transducer_is_refused_with_the_line_that_asks_its_parts():
    draw = torch.Generator().manual_seed(2)
    table, encoder = torch.randn(4, 4, generator=draw), torch.randn(1, 4, 4, generator=draw)
    batch, time, feature, classes, before = (rf.Dim(size, name=name) for size, name in zip((1, 4, 4, 4, 4), "btfcl"))
    frames = rf.convert_to_tensor(encoder, dims=[batch, time, feature])
    frames.feature_dim = feature
    after = rf.convert_to_tensor(table, dims=[before, classes])

    def step(frame, label, state):
        scores, _ = rf.replace_dim(frame, in_dim=feature, out_dim=classes)
        return scores + rf.gather(after, indices=label, axis=before), state

    def found():
        options = {"in_spatial_dim": time, "wb_target_dim": classes, "blank_index": 3, "max_labels": 4, "beam_size": 8}
        return rf.transducer_beam_search(step, frames, **options)

    with pytest.raises(ValueError, match="only the step function of this transducer search is known") as refused:
        rf.why_not(rf.run(found, record=True), "0 1")
    predictor, joiner = lambda labels, state: (table[labels], state), lambda frame, out: frame + out
    line = str(refused.value).splitlines()[-1]
    why = eval(line, {"rf": rf, "encoder": encoder, "predictor": predictor, "joiner": joiner, "vocab": [*"0123"]})
    labels, scores, time_of, beam = found()
    count = int(time_of.get_size_tensor().copy_transpose([batch, beam]).numpy()[0, 0])
    best = labels.copy_transpose([batch, beam, time_of]).numpy()[0, 0, :count]
    assert why.found == tuple(map(str, best)) and why.expected == ("0", "1")
