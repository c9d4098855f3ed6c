"""The searches of rfnb and `generate` of transformers over the same random models give the same hypotheses with the same scores.

Both are defined to, for any model: what has ended leaves the beam with ended="leave", scores are divided by length ** exponent, and
`early_stopping` "likely", "complete" and True here are False, True and "never" there. With the documented choice, where ended
hypotheses stay in the beam, the two agree where nothing can end, with a beam of 1, and with a beam of everything.
"""

import pytest
import torch

import rfnb as rf
from rfnb import Dim

transformers = pytest.importorskip("transformers", reason="compares with an installed transformers")

VOCAB, START, PAD, END = 11, 0, 1, 2
STEPS = 8
STOPS = {"likely": False, "complete": True, True: "never", False: "never"}  # ours -> theirs
SIZES = {"bos_token_id": START, "pad_token_id": PAD, "eos_token_id": END, "vocab_size": VOCAB}


def bart():
    sizes = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in
             (("layers", 2), ("attention_heads", 2), ("ffn_dim", 16))}  # fmt: skip
    config = transformers.BartConfig(
        d_model=16, max_position_embeddings=32, decoder_start_token_id=START, forced_eos_token_id=None, **sizes, **SIZES
    )
    return transformers.BartForConditionalGeneration(config)


def t5():
    config = transformers.T5Config(
        d_model=16, d_kv=8, num_heads=2, num_layers=2, d_ff=16, decoder_start_token_id=START, **SIZES
    )
    return transformers.T5ForConditionalGeneration(config)


def gpt2():
    config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=32, **SIZES)
    return transformers.GPT2LMHeadModel(config)


def llama():
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=32,
        **SIZES,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def random_model(make, seed):
    torch.manual_seed(seed)
    model = (
        make().eval().double()
    )  # in both by the same sums, but in another order: with float32 two of many may change places
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.5)

    def prefer_the_end(_, inputs, out):
        out.logits[..., END] += seed % 4

    model.register_forward_hook(prefer_the_end)
    return model


def sources(model, batch, seed):
    """Sequences of different length; prompts of a decoder alone are padded on the left."""
    lengths, random = [5, 2, 7, 1][:batch], torch.Generator().manual_seed(seed)
    ids = torch.full((batch, max(lengths)), PAD)
    for row, length in zip(ids, lengths):
        row[slice(length) if model.config.is_encoder_decoder else slice(-length, None)] = torch.randint(
            END + 1, VOCAB, (length,), generator=random
        )
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def generated(model, inputs, beam, **options):
    """[seq][k]: (labels up to the end, score)."""
    out = model.generate(
        **inputs, num_beams=beam, num_return_sequences=beam, do_sample=False, return_dict_in_generate=True,
        output_scores=True, **{"max_new_tokens": STEPS, **options},
    )  # fmt: skip
    start = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    rows = [tuple(row[start:].tolist()) for row in out.sequences]
    rows = [row[: row.index(END) + 1] if END in row else row for row in rows]
    if beam == 1:
        chosen = model.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
        totals = [float(scores[: len(row)].sum()) for scores, row in zip(chosen, rows)]  # after the end comes padding
    else:
        totals = out.sequences_scores.tolist()
    found = list(zip(rows, totals))
    return [found[index : index + beam] for index in range(0, len(found), beam)]


def searched(model, inputs, beam, *, processors=(), **options):
    options = {"ended": "leave", "max_seq_len": STEPS, "num_best": beam, **options}
    result = rf.beam_search(
        **rf.hf_search_options(model, logits_processor=processors, **inputs), beam_size=beam, **options
    )
    batch = len(inputs["input_ids"])
    return [[(row.tokens, row.score) for row in result.nbest(seq, unfinished=True)[:beam]] for seq in range(batch)]


def assert_same(ours, theirs):
    for own, other in zip(ours, theirs, strict=True):
        assert [labels for labels, _ in own] == [labels for labels, _ in other]
        assert [score for _, score in own] == pytest.approx([score for _, score in other], abs=1e-5)


every_family = pytest.mark.parametrize("make", [bart, t5, gpt2, llama])


@every_family
@pytest.mark.parametrize("stop", STOPS)
def test_n_best_lists_are_those_of_generate(make, stop):
    ends = set()
    for seed, (beam, batch, exponent) in enumerate(
        [(2, 1, 1.0), (4, 3, 0.7), (8, 2, 1.0), (3, 4, 0.0), (4, 4, 1.6), (4, 2, -0.5), (2, 4, 0.3), (5, 3, 2.0)]
    ):
        model = random_model(make, seed)
        inputs = sources(model, batch, seed)
        theirs = generated(model, inputs, beam, early_stopping=STOPS[stop], length_penalty=exponent)
        assert_same(searched(model, inputs, beam, length_exponent=exponent, early_stopping=stop), theirs)
        ends |= {len(labels) for rows in theirs for labels, _ in rows if labels[-1] == END}
    assert len(ends) > 4  # hypotheses ended in different steps


@every_family
def test_greedy_search_is_that_of_generate(make):
    for seed in range(4):
        model = random_model(make, seed)
        inputs = sources(model, 4, seed)
        assert_same(searched(model, inputs, 1, ended="stay"), generated(model, inputs, 1))


@every_family
def test_sequences_of_a_batch_do_not_disturb_each_other(make):
    model = random_model(make, 3)
    inputs = sources(model, 4, 3)
    together = searched(model, inputs, 3, early_stopping="likely", length_exponent=1.0)
    for seq, mask in enumerate(inputs["attention_mask"]):
        alone = {"input_ids": inputs["input_ids"][seq][mask.bool()][None]}
        assert_same([together[seq]], generated(model, alone, 3))


def choose_in_a_loop(model, inputs, beam, vocab_size=VOCAB, steps=STEPS, **options):
    """The same with rf.choice: the model sees all labels so far in each step, which are a state of the loop."""
    batch, vocab = Dim(len(inputs["input_ids"]), name="batch", kind="batch"), Dim(vocab_size, name="vocab")
    places = Dim(steps + 1, name="places")
    index = rf.range_over_dim(places)
    loop = rf.Loop(max_seq_len=steps)
    loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=vocab)
    loop.state.labels = rf.zeros([batch, places], dtype="int64")
    for step in loop:
        dims = [dim for dim in loop.state.labels.dims if dim is not places]
        labels = loop.state.labels.copy_transpose([*dims, places]).raw_tensor[..., : step + 1]
        rows = labels.numel() // batch.size // (step + 1)
        source = {key: value.repeat_interleave(rows, 0) for key, value in inputs.items()}
        with torch.no_grad():
            logits = model(**source, decoder_input_ids=labels.reshape(-1, step + 1)).logits[:, -1].float()
        logits = rf.convert_to_tensor(logits.reshape(*labels.shape[:-1], vocab_size), dims=[*dims, vocab])
        label = rf.choice(logits, axis=vocab, input_type="logits", beam_size=beam, end_label=END, **options)
        own = rf.set_sparse_dim(label, None)
        loop.state.labels = rf.where(index == step + 1, own, loop.state.labels, allow_broadcast_all_sources=True)
        loop.state.label = label
        loop.end(label == END, include_eos=True)
        labels = loop.stack(label)
    return [[(row.tokens, row.score) for row in rows] for rows in rf.nbest(labels)]


@pytest.mark.parametrize("make", [bart, t5])
@pytest.mark.parametrize("beam", [2, 4, 8])
def test_choice_in_a_loop_finds_the_same_where_nothing_can_end(make, beam):
    for seed in range(3):
        model = random_model(make, seed)
        inputs = sources(model, 3, seed)
        theirs = generated(model, inputs, beam, suppress_tokens=[END], length_penalty=0.0)
        assert_same(choose_in_a_loop(model, inputs, beam, banned=[END]), theirs)


@pytest.mark.parametrize("make", [bart, t5])
def test_choice_in_a_loop_finds_the_same_with_a_beam_of_one(make):
    for seed in range(3):
        model = random_model(make, seed)
        inputs = sources(model, 3, seed)
        assert_same(choose_in_a_loop(model, inputs, 1), generated(model, inputs, 1))


def test_choice_in_a_loop_finds_the_same_with_a_beam_of_everything():
    """Of up to 3 labels there are 1 + 10 + 10 * 10 complete and 10 * 10 * 10 cut sequences."""
    beam, model = 1111, random_model(t5, 1)
    inputs = sources(model, 2, 1)
    theirs = generated(model, inputs, beam, max_new_tokens=3, early_stopping="never", length_penalty=0.0)
    assert_same(choose_in_a_loop(model, inputs, beam, steps=3), theirs)


@every_family
def test_blocked_labels_and_ngrams(make):
    """Nothing is normalized again. N-grams there have the start or the prompt in them too: its labels are blocked here."""
    differ = 0
    for seed in range(4):
        model = random_model(make, seed)
        inputs = sources(model, 3, seed)
        blocked = [START, PAD, 5]
        for row in inputs["input_ids"]:
            row[row > PAD] = 5
        theirs = generated(
            model,
            inputs,
            3,
            suppress_tokens=blocked,
            no_repeat_ngram_size=2,
            early_stopping="never",
            length_penalty=1.0,
        )
        ours = searched(model, inputs, 3, banned=blocked, no_repeat_ngram=2, length_exponent=1.0)
        assert_same(ours, theirs)
        differ += ours != searched(model, inputs, 3, banned=blocked, length_exponent=1.0)
    assert differ


def test_forced_prefixes():
    for seed in range(4):
        model = random_model(bart, seed)
        inputs = sources(model, 3, seed)
        begin = [[5, 3], [4, 7], [9, 9]]

        def allowed(seq, labels, begin=begin):
            return [begin[seq][len(labels) - 1]] if len(labels) <= 2 else list(range(VOCAB))

        theirs = generated(
            model, inputs, 4, prefix_allowed_tokens_fn=allowed, early_stopping="never", length_penalty=0.5
        )
        assert_same(searched(model, inputs, 4, prefix=begin, length_exponent=0.5), theirs)


def test_processors_see_the_labels_so_far():
    processors = [
        transformers.MinNewTokensLengthLogitsProcessor(1, 3, END, device="cpu"),
        transformers.ForcedEOSTokenLogitsProcessor(STEPS + 1, END, device="cpu"),
        transformers.RepetitionPenaltyLogitsProcessor(1.5),
    ]
    for seed in range(4):
        model = random_model(bart, seed)
        inputs = sources(model, 3, seed)
        options = {"min_new_tokens": 3, "forced_eos_token_id": END, "repetition_penalty": 1.5}
        theirs = generated(model, inputs, 4, early_stopping="never", length_penalty=1.0, **options)
        ours = searched(model, inputs, 4, processors=processors, early_stopping=False, length_exponent=1.0)
        assert_same(ours, theirs)
        assert all(3 < len(labels) and labels[-1] == END for rows in ours for labels, _ in rows)
