"""rf.hf_search_options: a model of transformers in rf.beam_search. tests/search/test_against_transformers.py compares the results."""

from types import SimpleNamespace

import pytest
import torch
from asserting import raises_message

import rfnb as rf


class Config(SimpleNamespace):
    """Of a model and of what it generates."""

    bos_token_id = decoder_start_token_id = None
    eos_token_id, is_encoder_decoder, vocab_size = 2, False, 5


def model(**options):
    config = Config(**options)
    encoder = lambda input_ids: SimpleNamespace(last_hidden_state=torch.zeros(*input_ids.shape, 3))  # noqa: E731
    return SimpleNamespace(config=config, generation_config=config, get_encoder=lambda: encoder)


IDS = torch.tensor([[3, 4], [1, 3]])


def gpt2():
    transformers = pytest.importorskip("transformers", reason="runs a model of an installed transformers")
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=7,
        n_embd=8,
        n_layer=1,
        n_head=2,
        n_positions=16,
        bos_token_id=0,
        eos_token_id=2,
        initializer_range=1.0,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def test_options_can_be_used_for_several_searches():
    options = rf.hf_search_options(gpt2(), input_ids=IDS)
    first, second = (rf.beam_search(**options, beam_size=3, max_seq_len=5) for _ in range(2))
    assert first.nbest(0) == second.nbest(0) and first.nbest(1) == second.nbest(1)
    assert first.nbest(0) != first.nbest(1)


def mamba():
    """Its state is no cache of keys and values."""
    transformers = pytest.importorskip("transformers", reason="runs a model of an installed transformers")
    torch.manual_seed(3)
    config = transformers.MambaConfig(
        vocab_size=7, hidden_size=8, num_hidden_layers=1, state_size=3, eos_token_id=2, initializer_range=1.0
    )
    return transformers.MambaForCausalLM(config).eval()


def lfm2():
    """One layer with states, one with keys and values."""
    transformers = pytest.importorskip("transformers", reason="runs a model of an installed transformers")
    torch.manual_seed(3)
    config = transformers.Lfm2Config(
        vocab_size=7, hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        layer_types=["conv", "full_attention"], bos_token_id=0, eos_token_id=2, pad_token_id=0, initializer_range=1.0,
    )  # fmt: skip
    return transformers.Lfm2ForCausalLM(config).eval()


@pytest.mark.parametrize("make", [gpt2, mamba, lfm2])
def test_a_prompt_that_is_padded_has_the_results_that_it_has_alone(make):
    made, prompts = make(), [[3, 4, 1, 5], [4, 3]]
    ids = torch.tensor([prompts[0], [0, 0, *prompts[1]]])
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    options = {"beam_size": 4, "max_seq_len": 6, "ended": "leave"}
    both = rf.beam_search(**rf.hf_search_options(made, input_ids=ids, attention_mask=mask), **options)
    for seq, prompt in enumerate(prompts):
        alone = rf.beam_search(**rf.hf_search_options(made, input_ids=torch.tensor([prompt])), **options)
        rows, expected = both.nbest(seq, unfinished=True), alone.nbest(0, unfinished=True)
        assert [row.tokens for row in rows] == [row.tokens for row in expected]
        assert [row.score for row in rows] == pytest.approx([row.score for row in expected], abs=1e-4)


@pytest.mark.parametrize("make", [gpt2, mamba, lfm2])
@pytest.mark.parametrize("ended", ["stay", "leave"])
def test_scores_are_those_of_the_model(make, ended):
    made = make()
    result = rf.beam_search(**rf.hf_search_options(made, input_ids=IDS), beam_size=4, max_seq_len=5, ended=ended)
    for seq in range(2):
        for row in result.nbest(seq, unfinished=True):
            ids = torch.tensor([[*IDS[seq].tolist(), *row.tokens]])
            with torch.no_grad():
                scores = made(ids).logits[0, 1:-1].log_softmax(-1)
            expected = scores.gather(1, ids[0, 2:, None]).sum()
            assert row.score == pytest.approx(float(expected), abs=1e-4)


def test_text_of_the_tokenizer():
    class Tokenizer:
        def __len__(self):
            return 3

        def convert_ids_to_tokens(self, ids):
            return ["<s>", "a", "</s>"][: len(ids)]

    options = rf.hf_search_options(model(), tokenizer=Tokenizer(), input_ids=IDS)
    assert options["vocab"] == ["<s>", "a", "</s>", "<3>", "<4>"]
    assert rf.hf_search_options(model(), input_ids=IDS)["vocab"] is None


def test_where_a_search_starts_and_ends():
    alone = rf.hf_search_options(model(), input_ids=IDS)
    assert alone["start_label"].tolist() == [4, 3] and (alone["batch"], alone["end_label"]) == (2, 2)
    both = rf.hf_search_options(model(is_encoder_decoder=True, bos_token_id=0, eos_token_id=[1]), input_ids=IDS)
    assert (both["start_label"], both["end_label"]) == (0, 1)
    decoder = {"is_encoder_decoder": True, "bos_token_id": 0, "decoder_start_token_id": 3}
    assert rf.hf_search_options(model(**decoder), input_ids=IDS)["start_label"] == 3
    given = rf.hf_search_options(model(**decoder), start_token_id=4, end_token_id=3, input_ids=IDS)
    assert (given["start_label"], given["end_label"]) == (4, 3)


def test_prompts_padded_on_the_right():
    with raises_message(
        ValueError,
        """
        hf_search_options: the prompts are padded on the right.
        The generated labels come right after the prompt.
            tokenizer.padding_side = "left"
        """,
    ):
        rf.hf_search_options(model(), input_ids=IDS, attention_mask=torch.tensor([[1, 1], [1, 0]]))


@pytest.mark.parametrize("end", [None, [2, 3]])
def test_not_one_end(end):
    with raises_message(
        ValueError,
        f"""
        hf_search_options: the end label is not unique.
          eos_token_id  {end}
        A search ends hypotheses with one label.
            rf.hf_search_options(model, end_token_id=2, ...)
        """,
    ):
        rf.hf_search_options(model(eos_token_id=end), input_ids=IDS)


def test_no_start():
    with raises_message(
        ValueError,
        """
        hf_search_options: the generation config has no decoder_start_token_id and no bos_token_id.
        The decoder starts with a label.
            rf.hf_search_options(model, start_token_id=0, ...)
        """,
    ):
        rf.hf_search_options(model(is_encoder_decoder=True), input_ids=IDS)


def test_inputs_without_prompts():
    with raises_message(
        ValueError,
        """
        hf_search_options: a decoder-only model needs input_ids.
          given  labels
        It continues its prompts, which need at least the first label.
            rf.hf_search_options(model, input_ids=ids, attention_mask=mask)
        """,
    ):
        rf.hf_search_options(model(), labels=IDS)


SILENT = "Models often accept and ignore unknown keywords."
MEANT = SILENT + " Did you mean:\n    rf.hf_search_options(model, "


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        (
            "attention_masks",
            MEANT + "attention_mask=...)",
        ),
        (
            "mask",
            MEANT + "attention_mask=...)",
        ),
        (
            "tokenzer",
            MEANT + "tokenizer=...)",
        ),
        ("anything", SILENT),
        ("num_beams", "That is an option of the search:\n    rf.beam_search(**options, beam_size=...)"),
        ("max_new_tokens", "That is an option of the search:\n    rf.beam_search(**options, max_seq_len=...)"),
    ],
)
@pytest.mark.parametrize("make", ["bart", "gpt2"])
def test_an_input_that_the_model_does_not_have(make, name, rest):
    net = model() if make == "gpt2" else model(is_encoder_decoder=True, decoder_start_token_id=1)
    if make == "bart":
        net.get_encoder = lambda: EncoderOfAnything()
    known = "input_ids, attention_mask"
    with raises_message(
        TypeError,
        f"hf_search_options: {name} is not an input of the model.\n"
        f"  model  {'EncoderOfAnything' if make == 'bart' else 'SimpleNamespace'}\n"
        f"  known  {known}\n{rest}",
    ):
        rf.hf_search_options(net, input_ids=IDS, **{name: IDS})


class EncoderOfAnything(torch.nn.Module):
    """As encoders of transformers, which take any keyword."""

    def forward(self, input_ids=None, attention_mask=None, output_attentions=None, **kwargs):
        return SimpleNamespace(last_hidden_state=torch.zeros(len(input_ids), 3, 2))
