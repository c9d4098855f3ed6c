"""why_not(...).parts: planted causes get everything, parts are those of finite differences, occlusion that of hiding each by hand."""

import itertools
import threading

import numpy as np
import pytest
import torch
from deletion import table
from markov import Markov
from matplotlib.figure import Figure
from seed import part_of
from waiting import LONG, wait_until

import rfnb as rf
from rfnb.control.why_not import Tries
from rfnb.models import load_g2p
from rfnb.viz.control.run_view import RunView

VOCAB, SIZE = ["</s>", "a", "b", "c"], 3
STEPS = 3


class Small(torch.nn.Module):
    """Logits of step t from the letters, each with a weight in that step, and from the label before."""

    def __init__(self, reads, of_labels, kind="tanh", seed=0):
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        make = lambda *shape: torch.nn.Parameter(torch.randn(*shape, generator=draw))  # noqa: E731
        self.letters, self.labels = torch.nn.Embedding(6, SIZE), torch.nn.Embedding(4, SIZE)
        self.letters.weight, self.labels.weight = make(6, SIZE), make(4, SIZE)
        self.out, self.of_labels, self.kind = make(SIZE, 4), of_labels, kind
        self.reads = torch.as_tensor(reads, dtype=torch.float32)

    def logits(self, letters, before, step):
        """{n, letter, feature} and {n, feature} to {n, label}."""
        x = (self.reads[step][:, None] * letters).sum(1) + self.of_labels * before
        x = torch.tanh(x) if self.kind == "tanh" else x.clamp(max=0.5)
        return x @ self.out + torch.tensor([20.0 if step == STEPS - 1 else -3.0, 0, 0, 0])  # ends in the last step

    def search(self, ids, beam_size=4):
        @torch.no_grad()
        def step(labels, state):
            encoded, at = state
            number = int(at[0])
            return self.logits(encoded, self.labels(labels), number).log_softmax(-1), (encoded, at + 1)

        with torch.no_grad():
            state = self.letters(ids), torch.zeros(len(ids), dtype=torch.long)
            return rf.beam_search(
                step, batch=len(ids), state=state, beam_size=beam_size, max_seq_len=STEPS, vocab=VOCAB
            )

    def margins(self, letters, ways, scaled):
        """Of each step in NumPy; `scaled` says how far the embedding of each letter and label is from the mean one."""

        def moved(table, ids, share):
            weight = table.weight.detach().double()
            mean = weight.mean(0)
            return mean + torch.as_tensor(share)[:, None] * (weight[list(ids)] - mean)

        own = moved(self.letters, letters, scaled[: len(letters)])
        out = np.zeros(max(map(len, ways)))
        for sign, tokens in zip((1, -1), ways):
            before = moved(self.labels, tokens[:-1], scaled[len(letters) :][: len(tokens) - 1])
            first = self.labels.weight.detach().double()[:1]
            for step, token in enumerate(tokens):
                label = first if not step else before[step - 1 : step]
                logits = self.double().logits(own[None], label, step).detach()
                out[step] += sign * float(logits.log_softmax(-1)[0, token])
        self.float()
        return out


def asked(model, ids, seq=0, rank=1, **options):
    """The answer of rf.why_not for another hypothesis of the beam, with the labels of that hypothesis and of the best one."""
    run = rf.run(model.search, torch.tensor(ids), **options)
    assert run.wait(LONG)
    nbest = run.result.history.nbest(seq)
    return rf.why_not(run, nbest[rank].labels, seq=seq), (nbest[rank].tokens, nbest[0].tokens)


def ONE_LETTER(at):
    return np.eye(3)[[at] * STEPS] * 2


def test_a_model_that_reads_one_letter_gives_that_letter_everything():
    for at in range(3):
        parts = asked(Small(ONE_LETTER(at), 0.0), [[1, 4, 2]])[0].parts
        others = [column for column in range(parts.shape[1] - 1) if column != at]
        assert parts[:, at].any() and not parts[:, others].any() and not parts.occluded[:, others].any()
        assert parts.causes()[0][0] == parts.columns[1][at] or parts.causes()[0][0] == "baseline"
        assert parts.sum() == pytest.approx(parts.beside["margin"], rel=0.01)
        assert parts.columns[1][:3] == ["1", "4", "2"] and not parts.disagreements


def test_a_model_that_reads_the_label_before_gives_that_everything():
    model = Small(np.zeros((STEPS, 3)), 2.0)
    why, ways = asked(model, [[1, 4, 2]], rank=1)
    parts = why.parts
    assert not parts[:, :3].any() and not parts.occluded[:, :3].any()
    assert parts.sum() == pytest.approx(parts.beside["margin"], rel=0.01)
    assert sum(parts.beside[name] for name in ("margin",)) == pytest.approx(
        why.expected_score - why.found_score, abs=1e-4
    )


@pytest.mark.parametrize(("seed", "rank"), part_of(itertools.product(range(3), (1, 2)), 3))
def test_parts_are_those_of_finite_differences_and_occlusion_that_of_hiding_each(seed, rank):
    draw = np.random.default_rng(seed)
    model, letters = Small(draw.standard_normal((STEPS, 3)), 0.8, seed=seed), [1, 4, 2]
    why, ways = asked(model, [letters], rank=rank)
    parts, count = why.parts, 3 + max(map(len, ways)) - 1
    assert parts.shape[1] == count + 1 and parts.columns[1][-1] == "baseline"

    def rows(margins):
        own = [margins[step] for step in parts.steps if step is not None]
        return np.array([*own, margins.sum() - sum(own)][: len(parts)])

    points, size = 200, 1e-4
    wanted = np.zeros((len(parts), count))
    for at, column in itertools.product((np.arange(points) + 0.5) / points, range(count)):
        ends = [np.full(count, at) + sign * size * np.eye(count)[column] for sign in (1, -1)]
        high, low = (rows(model.margins(letters, ways, end)) for end in ends)
        wanted[:, column] += (high - low) / (2 * size) / points
    whole, base = (rows(model.margins(letters, ways, np.full(count, at))) for at in (1.0, 0.0))
    scale = abs(whole).max()
    np.testing.assert_allclose(parts[:, :-1], wanted, atol=0.02 * scale)
    np.testing.assert_allclose(parts[:, -1], base, atol=1e-4)
    assert parts.sum() == pytest.approx(whole.sum(), abs=0.01 * abs(whole.sum()))
    for column in range(count):
        hidden = rows(model.margins(letters, ways, np.where(np.arange(count) == column, 0.0, 1.0)))
        np.testing.assert_allclose(parts.occluded[:, column], whole - hidden, atol=1e-4)


def test_where_gradients_and_occlusion_disagree_it_says_so():
    """Either of two letters is enough: hiding one changes nothing, and gradients give half to each."""
    model = Small(np.array([[4.0, 4.0, 0.02]] * STEPS), 0.0, kind="either")
    with torch.no_grad():
        model.letters.weight[[1, 4, 2]] = torch.tensor([1.0, 1.0, -1.0])[:, None].expand(3, SIZE)
        model.letters.weight[[0, 3, 5]] = torch.tensor([0.0, 0.0, -1.0])[:, None].expand(3, SIZE)
    parts = asked(model, [[1, 4, 2]])[0].parts
    assert abs(parts.occluded).max() == pytest.approx(0, abs=1e-5) and abs(parts[:, :2]).min(1).max() > 0.1
    assert parts.disagreements and "gradients say" in parts.remark and parts.remark in repr(parts)


def test_of_a_batch_the_parts_are_those_of_the_sequence_alone():
    draw = np.random.default_rng(3)
    model, ids = Small(draw.standard_normal((STEPS, 3)), 0.8), [[1, 4, 2], [5, 0, 3], [2, 2, 1]]
    for seq in (0, 2):
        alone, together = asked(model, [ids[seq]])[0].parts, asked(model, ids, seq=seq)[0].parts
        assert alone.columns[1] == together.columns[1]
        np.testing.assert_allclose(alone.values, together.values, atol=1e-3)
        np.testing.assert_allclose(alone.occluded, together.occluded, atol=1e-4)


def test_it_is_text_a_view_and_an_image():
    parts = asked(Small(np.random.default_rng(1).standard_normal((STEPS, 3)), 0.8), [[1, 4, 2]])[0].parts
    assert repr(parts).startswith("margin of ") and parts.words().startswith("Due to ")
    view = rf.show(parts)
    assert "baseline" in view.text() and view.spec.head["seqs"][0]["cols"] == parts.columns[1]
    image = rf.plot.attention(parts, ax=Figure().subplots())
    np.testing.assert_allclose(np.asarray(image.get_array(), float), parts.values, rtol=1e-5)


def test_rows_are_the_steps_that_matter():
    why, _ = asked(Small(np.random.default_rng(1).standard_normal((STEPS, 3)), 0.8), [[1, 4, 2]])
    parts = why.parts
    margins = np.diff([0.0, *(step.behind for step in why.steps)])
    for row, step in enumerate(parts.steps):
        if step is not None:
            assert parts[row].sum() == pytest.approx(margins[step], abs=0.01 * abs(margins).max())


def test_what_has_no_parts():
    run = rf.run(lambda: Markov(num_seqs=1).search(2)[1], record=True)
    assert run.wait(LONG)
    history = run.trace.beams["search"]
    other = history.texts(history.nbest(0)[1].tokens)
    with pytest.raises(ValueError, match="no gradients pass through the search"):
        _ = rf.why_not(run, other).parts
    with pytest.raises(ValueError, match="no margin"):
        _ = rf.why_not(run.trace, other).parts
    with pytest.raises(ValueError, match="no margin"):
        _ = rf.why_not(run, history.texts(history.nbest(0)[0].tokens)).parts


def test_a_question_ends_with_the_last_page_that_shows_it_and_is_asked_again_when_it_opens(monkeypatch):
    model, may, tried = Small(np.random.default_rng(1).standard_normal((STEPS, 3)), 0.8), threading.Event(), []
    run = rf.run(model.search, torch.tensor([[1, 4, 2]]))
    assert run.wait(LONG)
    other = " ".join(run.result.history.nbest(0)[1].labels)
    plain = Tries.again

    def slow(self, *args, **kwargs):
        tried.append(self)
        may.wait(LONG)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Tries, "again", slow)
    view = RunView(run)

    def ask(do, page, **fields):
        view._hear({"rfnb": "do", "id": f"{page} 1", "do": do, **fields}, lambda message: None)

    ask("look", "one")
    ask("look", "two")
    ask("why", "one", expected=other)
    wait_until(lambda: tried)
    ask("unlook", "one")
    assert not view._asked.stopped  # one is left
    ask("unlook", "two")
    first = view._asked
    assert first.stopped
    may.set()
    wait_until(lambda: not first.going)
    assert len(tried) == 1 and first.told()["causes"] == ""
    ask("look", "one")
    assert view._asked is not first
    wait_until(lambda: view._asked.told()["causes"])
    assert view._state().head["why"]["causes"].startswith("Due to ") and len({id(each) for each in tried}) == 2


def test_hiding_the_letters_that_gradients_or_occlusion_name_moves_a_margin_further_than_chance():
    means, count = table(load_g2p(), ["abide", "chiefs", "knight", "parley"])
    assert count == 4
    for name in ("integrated gradients", "occlusion"):
        assert (means[name] > means["chance"]).all()
    assert all(means["occlusion"][0] >= each[0] - 1e-6 for each in means.values())  # of one letter it is that itself


@pytest.mark.parametrize("family", ["Bart", "Marian"])
def test_of_an_encoder_decoder_of_transformers_parts_sum_to_the_margin_and_occlusion_is_that_of_its_embeddings(family):
    pytest.importorskip("transformers")
    from interop.seen.hf_families import inputs, made

    model, ids = made(family, "sdpa"), inputs(family, ragged=False)["input_ids"][:1]
    run = rf.run(lambda: rf.beam_search(**rf.hf_search_options(model, input_ids=ids), beam_size=3, max_seq_len=5))
    assert run.wait(LONG)
    first, other = run.result.history.nbest(0)[:2]
    why = rf.why_not(run, list(other.tokens))
    parts, tokens = why.parts, tuple(why._tokens)
    assert not parts[:, :-1].any() or parts.sum() == pytest.approx(why.expected_score - why.found_score, rel=0.02)
    assert parts.columns[1][: ids.shape[1]] == [str(token) for token in ids[0].tolist()]
    table = model.get_input_embeddings().weight.detach()

    def score(labels, letter=None):
        embeds = model.get_encoder().embed_tokens(ids).detach().clone()
        if letter is not None:
            scale = embeds[0, 0] / table[ids[0, 0]]
            embeds[0, letter] = table.mean(0) * scale
        with torch.no_grad():
            encoded = model.get_encoder()(inputs_embeds=embeds)
            start = [model.generation_config.decoder_start_token_id, *labels[:-1]]
            logits = model(encoder_outputs=encoded, decoder_input_ids=torch.tensor([start])).logits[0]
        return float(logits.log_softmax(-1)[range(len(labels)), list(labels)].sum())

    whole = score(tokens) - score(first.tokens)
    for letter in (0, 2):
        hidden = score(tokens, letter) - score(first.tokens, letter)
        assert parts.occluded[:, letter].sum() == pytest.approx(whole - hidden, abs=2e-3)
