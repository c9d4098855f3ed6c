"""A recorded `generate` is the search that was made, and gives what it gives without."""

from __future__ import annotations

import contextvars
import copy
import io
import threading

import pytest
import torch

import rfnb as rf

pytest.importorskip("transformers")
import transformers
from interop.seen.generating import END, VOCAB, generated, make, prompts
from interop.seen.test_generate_output import CONFIGS, assert_same_results
from transformers.generation import LogitsProcessorList, StoppingCriteriaList

from rfnb.interop.seen.generate_session import Session

BEAMS = {"num_beams": 4, "num_return_sequences": 2}
KINDS = pytest.mark.parametrize("kind", ["gpt2", "bart", "t5"])


pytestmark = pytest.mark.filterwarnings("error:record. the steps of this call of generate")


def recorded(model, seed, **options):
    with rf.record(model=model) as trace:
        out = generated(model, seed, **options)
    return out, trace


@KINDS
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_results_are_those_of_generate(kind, config):
    for seed in range(3):
        model, options = make(kind, seed, end_bias=1.5 * seed), {**BEAMS, **config}
        plain = generated(model, seed, **options)
        out, trace = recorded(model, seed, **options)
        assert torch.equal(out.sequences, plain.sequences) and torch.equal(out.sequences_scores, plain.sequences_scores)
        history = trace.beams["generate"]
        assert history.num_steps == len(out.scores) and history.num_seqs == 3
        assert_same_results(out, history, options["num_beams"])


@KINDS
def test_a_beam_search_that_samples_is_followed(kind):
    for seed in range(6):
        model, options = make(kind, seed, end_bias=1.0), {**BEAMS, "do_sample": True, "top_k": 9, "temperature": 1.3}
        torch.manual_seed(seed)
        plain = generated(model, seed, **options)
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        out, trace = recorded(model, seed, **options)
        assert torch.equal(out.sequences, plain.sequences) and torch.equal(torch.get_rng_state(), state)
        assert_same_results(out, trace.beams["generate"], 4)


@KINDS
@pytest.mark.parametrize(
    "config", [{}, {"do_sample": True, "top_p": 0.8, "temperature": 0.7, "num_return_sequences": 2}], ids=str
)
def test_rows_are_those_of_generate(kind, config):
    for seed in range(3):
        model = make(kind, seed, end_bias=1.5)
        torch.manual_seed(seed)
        plain = generated(model, seed, **config)
        torch.manual_seed(seed)
        out, trace = recorded(model, seed, **config)
        assert torch.equal(out.sequences, plain.sequences)
        history, each = trace.beams["generate"], config.get("num_return_sequences", 1)
        own = model.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
        for index, tokens in enumerate(out.sequences[:, -len(out.scores) :].tolist()):
            count = tokens.index(END) + 1 if END in tokens else len(tokens)
            item = history.from_slot(index // each, index % each)
            assert item.tokens == tuple(tokens[:count]) and item.ended == (END in tokens)
            assert item.score == pytest.approx(float(own[index, :count].sum()), rel=1e-5)


def test_it_is_the_search_behind_the_output():
    model = make("bart", 2, end_bias=2.0)
    out, trace = recorded(model, 2, **BEAMS)
    one, other = trace.beams["generate"], rf.beams_of(out, model=model)
    for step in range(one.num_steps):
        for seq in range(3):
            assert one.verdicts(seq, step) == other.verdicts(seq, step)


def test_no_candidates_are_missed_where_labels_are_few():
    transformers.set_seed(1)
    config = transformers.GPT2Config(
        vocab_size=5, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1, pad_token_id=2
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    with rf.record(model=model) as trace:
        out = model.generate(
            torch.tensor([[3, 4]]), num_beams=4, num_return_sequences=4, max_new_tokens=3, output_scores=True,
            return_dict_in_generate=True,
        )  # fmt: skip
    assert_same_results(out, trace.beams["generate"], 4)


@pytest.mark.parametrize("asked", [False, True])
def test_the_type_of_what_it_gives_stays(asked):
    model = make("gpt2")
    with rf.record(model=model):
        out = model.generate(prompts(), max_new_tokens=2, return_dict_in_generate=asked)
    assert type(out).__name__ == ("GenerateDecoderOnlyOutput" if asked else "Tensor")
    assert not asked or out.scores is None


def test_nothing_stays():
    model = make("gpt2")
    plain = type(model).generate
    lists = LogitsProcessorList.__call__, StoppingCriteriaList.__call__
    with rf.record(model=model), rf.record(model=model):
        assert "generate" in vars(type(model)) and LogitsProcessorList.__call__ is not lists[0]
        with pytest.raises(ValueError, match="nobody"):
            model.generate(prompts(), max_new_tokens=2, logits_processor=LogitsProcessorList([_Raises()]))
    assert (LogitsProcessorList.__call__, StoppingCriteriaList.__call__) == lists
    assert type(model).generate is plain and "generate" not in vars(type(model))
    assert not {"generate", "prepare_inputs_for_generation"} & set(vars(model))


class _Raises(transformers.LogitsProcessor):
    def __call__(self, input_ids, scores):
        raise ValueError("nobody")


def test_recordings_may_end_in_any_order():
    model = make("gpt2")
    first, second = rf.record(model=model), rf.record(model=model)
    first.__enter__()
    two = second.__enter__()
    first.__exit__(None, None, None)
    generated(model)
    second.__exit__(None, None, None)
    assert two.counts()["beams"] == 6
    assert not {"generate", "prepare_inputs_for_generation"} & set(vars(model))


def test_two_recordings_hear_the_same():
    model = make("gpt2", 1)
    with rf.record(model=model) as one, rf.record(model=model) as other:
        generated(model, 1, **BEAMS)
    assert repr(one.beams["generate"].nbest(1)) == repr(other.beams["generate"].nbest(1))


def test_two_calls_are_two_runs():
    model = make("gpt2", 1)
    with rf.record(model=model) as trace:
        first, second = (generated(model, seed, **BEAMS) for seed in (1, 2))
    for out, history in zip((first, second), trace.beams.runs("generate"), strict=True):
        assert_same_results(out, history, 4)


def test_how_was_searched_is_plain_data():
    _, trace = recorded(make("gpt2"), 0, length_penalty=0.5, **BEAMS)
    event = trace.select(kind="beams")[0]
    assert event.values["config"] == {
        "num_beams": 4, "length_penalty": 0.5, "num_return_sequences": 2, "max_new_tokens": 6,
    }  # fmt: skip
    assert trace.beams["generate"].about == "num_beams=4, length_penalty=0.5, num_return_sequences=2, max_new_tokens=6"


def test_processors_and_criteria_of_the_user_count():
    model = make("gpt2", 4)

    class Stop(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            return input_ids[:, -1] == 7

    class Prefer(transformers.LogitsProcessor):
        def __call__(self, input_ids, scores):
            return scores + 2.0 * (torch.arange(VOCAB) == 7)

    criteria, processors = StoppingCriteriaList([Stop()]), LogitsProcessorList([Prefer()])
    out, trace = recorded(model, 4, stopping_criteria=criteria, logits_processor=processors, **BEAMS)
    history = trace.beams["generate"]
    assert any(7 == item.tokens[-1] and item.ended for seq in range(3) for item in history.nbest(seq)[:2])
    for index, rating in enumerate(out.sequences_scores.tolist()):
        item = history.nbest(index // 2)[index % 2]
        assert item.score / len(item.tokens) == pytest.approx(rating, rel=1e-5)


def test_another_thread_is_heard_with_the_context_only():
    model = make("gpt2")
    with rf.record(model=model) as trace:
        thread = threading.Thread(target=generated, args=(model,))
        thread.start()
        thread.join()
        assert not trace.counts().get("beams", 0)
        thread = threading.Thread(target=contextvars.copy_context().run, args=(generated, model))
        thread.start()
        thread.join()
    assert trace.counts()["beams"] == 6


def test_a_streamer_gets_the_labels():
    model, heard = make("gpt2"), []

    class Streamer(transformers.generation.streamers.BaseStreamer):
        def put(self, value):
            heard.append(value.tolist())

        def end(self):
            heard.append("end")

    with rf.record(model=model) as trace:
        model.generate(prompts(batch=1), max_new_tokens=3, streamer=Streamer())
    tokens = trace.beams["generate"].best(0).tokens
    assert heard[1:] == [*([token] for token in tokens), "end"]


@pytest.mark.filterwarnings("default:record. the steps of this call of generate")
def test_a_search_of_another_kind_is_said(recwarn):
    model = make("gpt2")
    plain = model.generate(prompts(batch=1), max_new_tokens=3, prompt_lookup_num_tokens=2)
    with rf.record(model=model) as trace:
        out = model.generate(prompts(batch=1), max_new_tokens=3, prompt_lookup_num_tokens=2)
    said = [str(warning.message) for warning in recwarn if "steps of this call of generate" in str(warning.message)]
    assert torch.equal(out, plain) and not trace.by_path("beams")
    assert said == [
        "record: the steps of this call of generate could not be recorded; the call continues unchanged.\n"
        "  model   the model\n  reason  assisted generation, whose steps cannot be recorded\n"
        "Greedy search, sampling and beam search can be recorded, and so can every search of rfnb:\n"
        "    rf.beam_search(**rf.hf_search_options(model, tokenizer=tokenizer, **inputs), beam_size=4, max_seq_len=50)"
    ]


def test_labels_are_blocked_by_the_first_that_makes_them_impossible():
    model = make("gpt2", 2)
    torch.manual_seed(3)
    with rf.record(model=model) as trace:
        out = generated(
            model, 2, do_sample=True, temperature=0.7, top_k=6, top_p=0.8, no_repeat_ngram_size=1, output_logits=True
        )
    history = trace.beams["generate"]
    assert history.blockers == ["no_repeat_ngram_size", "top_k", "top_p"]
    seen = set()
    for step, logits in enumerate(out.logits):
        fields = history.steps[step]
        for seq in range(3):
            if step and history.steps[step - 1]["ended"][seq, 0]:
                continue
            written = out.sequences[seq, : 4 + step].tolist()
            left = logits[seq].clone()
            left[written] = -torch.inf
            best = left.topk(6).indices.tolist()
            probs = (left / 0.7).masked_fill(
                torch.ones(VOCAB, dtype=torch.bool).index_fill(0, torch.tensor(best), False), -torch.inf
            )
            probs = probs.softmax(-1)
            for place in (fields["cand_by"][seq] > 0).nonzero()[0]:
                token, by = int(fields["cand_tokens"][seq, place]), history.blockers[fields["cand_by"][seq, place] - 1]
                above = float(probs[probs > probs[token]].sum())
                expected = "no_repeat_ngram_size" if token in written else "top_k" if token not in best else "top_p"
                assert by == expected and (expected != "top_p" or above >= 0.8 - 1e-5)
                assert fields["cand_log_probs"][seq, place] == pytest.approx(
                    float(logits[seq].log_softmax(-1)[token]), abs=1e-5
                )
                seen.add(by)
    assert seen == {"no_repeat_ngram_size", "top_k", "top_p"}
    cuts = rf.viz.beams(history).spec.head["seqs"][0]["steps"][0]["cuts"]
    assert any(cut["verdict"].startswith("blocked: forbidden by top_k, ") for cut in cuts)


def test_banned_labels_of_a_beam_search_are_blocked():
    model = make("bart", 1)
    with rf.record(model=model) as trace:
        out = generated(model, 1, bad_words_ids=[[5], [7]], **BEAMS)
    history = trace.beams["generate"]
    assert_same_results(out, history, 4)
    blocked = [item for step in range(6) for item in history.verdicts(0, step) if item.verdict == "blocked"]
    assert {item.token for item in blocked} == {5, 7} and history.blockers == ["bad_words_ids"]


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_whisper_is_followed_too(options):
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=60, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=16, decoder_ffn_dim=16, num_mel_bins=8, max_source_positions=20, max_target_positions=32,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(20)
    frames = torch.randn(2, 8, 40)
    plain = model.generate(frames, max_new_tokens=5, **options)
    with rf.record(model=model) as trace:
        out = model.generate(frames, max_new_tokens=5, **options)
    history = trace.beams["generate"]
    assert torch.equal(out, plain) and history.num_seqs == 2
    for seq in range(2):
        best = history.best(seq).tokens
        assert out[seq, -5:].tolist()[: len(best)] == list(best)
    cross = trace.attention.steps("model.decoder.layers.1.encoder_attn")
    assert [[dim.extent for dim in step.dims] for step in cross] == [[2, options.get("num_beams", 1), 2, 20]] * 5


def test_a_copy_and_a_file_of_a_recorded_model_generate_by_themselves():
    model = make("gpt2", 1)
    with rf.record(model=model):
        copies = copy.deepcopy(model), _through_a_file(model)
    for each in copies:
        assert each.generate.__self__ is each and each.prepare_inputs_for_generation.__self__ is each
        each.load_state_dict(make("gpt2", 2).state_dict())
        assert torch.equal(generated(each).sequences, generated(make("gpt2", 2)).sequences)


def _through_a_file(model):
    model.get_output_embeddings()._forward_hooks.clear()  # a function in a function is in no file
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


class _Asks(transformers.LogitsProcessor):
    """A processor that lets a model generate."""

    def __init__(self, model):
        self.model = model

    def __call__(self, input_ids, scores):
        self.model.generate(input_ids, max_new_tokens=2, num_beams=1, attention_mask=torch.ones_like(input_ids))
        return scores


@pytest.mark.parametrize("same", [False, True])
def test_a_search_in_a_processor_is_not_this_search(same):
    model = make("gpt2", 1)
    asks = LogitsProcessorList([_Asks(model if same else make("gpt2", 2))])
    _, trace = recorded(model, 1, logits_processor=asks, **BEAMS)
    _, plain = recorded(model, 1, **BEAMS)
    assert repr(trace.beams["generate"].nbest(1)) == repr(plain.beams["generate"].nbest(1))
    own = trace.attention["transformer.h.0.attn"].raw_tensor
    assert torch.equal(own, plain.attention["transformer.h.0.attn"].raw_tensor)


def test_the_pass_without_prompt_is_apart_from_the_steps():
    _, trace = recorded(make("gpt2", 1), 1, guidance_scale=1.5)
    path = "transformer.h.0.attn"
    assert trace.attention[path].dims[0].extent == 6
    assert [each.raw_tensor.shape for each in trace.attention.runs(f"{path}.processors")] == [
        (3, 2, 1, length) for length in range(1, 7)
    ]


@pytest.mark.parametrize("config", [{}, BEAMS], ids=str)
def test_what_a_processor_changes_in_place_is_no_score_of_the_model(config):
    def change(input_ids, scores):
        scores[:, 5] = -torch.inf
        scores[:, 7] += 4
        return scores

    model = make("gpt2", 1)
    (out, one), (other, two) = (
        recorded(model, 1, logits_processor=LogitsProcessorList([_Calls(each)]), **config)
        for each in (change, lambda ids, scores: change(ids, scores.clone()))
    )
    assert torch.equal(out.sequences, other.sequences)
    for step, same in zip(one.beams["generate"].steps, two.beams["generate"].steps, strict=True):
        assert step.keys() == same.keys() and all((step[name] == same[name]).all() for name in step)


class _Calls(transformers.LogitsProcessor):
    def __init__(self, function):
        self.function = function

    def __call__(self, input_ids, scores):
        return self.function(input_ids, scores)


@pytest.mark.filterwarnings("default:record. the steps of this call of generate")
def test_what_is_not_followed_any_more_is_in_no_step(monkeypatch):
    def stopped(session, *args):
        if session.step == 1:
            raise ValueError("nobody")
        followed(session, *args)

    followed = Session.stopped
    monkeypatch.setattr(Session, "stopped", stopped)
    with pytest.warns(UserWarning, match="ValueError: nobody"):
        _, trace = recorded(make("gpt2", 1), 1, **BEAMS)
    events = [each for each in trace.select(kind="attention") if each.path == "transformer.h.0.attn"]
    assert [each.step for each in events] == [0, 1, None, None, None, None]
    assert [events[2].values["weights"].dims[0].extent, events[1].values["weights"].dims[1].extent] == [12, 4]
