"""rf.show of what models of transformers give and take: outputs by field, caches, encodings."""

import pytest
import torch
from viz.test_show_torch import rows_of

import rfnb as rf

transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")

from interop.seen.hf_families import CACHE  # noqa: E402

WORDS = "[PAD] [UNK] the cat sat on mat".split()


def test_the_fields_of_an_output_say_what_their_axes_are():
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, attn_implementation="eager"
    )  # fmt: skip
    output = transformers.BertModel(config)(
        torch.ones(3, 7, dtype=torch.long), output_attentions=True, output_hidden_states=True
    )
    rows = [(label, said) for label, said, _ in rows_of(output)]
    assert rows[:9] == [
        ("last_hidden_state", "batch=3 time=7 feature=16"),
        ("pooler_output", "batch=3 feature=16"),
        ("hidden_states", ""),
        *[(f"[{index}]", "batch=3 time=7 feature=16") for index in range(3)],
        ("attentions", ""),
        *[(f"[{index}]", "batch=3 head=2 target=7 source=7") for index in range(2)],
    ]
    head = rf.show(output).spec.head
    assert head["remark"] == "Axes are named by their fields; names= overrides this."
    assert head["title"].startswith("transformers BaseModelOutput")


def test_what_is_beside_an_output_has_no_names_of_its_fields():
    output = transformers.modeling_outputs.BaseModelOutput(attentions=(torch.ones(3, 2, 7, 7),))
    assert rows_of({"output": output, "other": torch.ones(3, 2, 7, 7)})[-2:] == [
        ("[0]", "batch=3 head=2 target=7 source=7", ""),
        ("other", "axis0=3 axis1=2 axis2=7 axis3=7", ""),
    ]


def test_caches_are_shown_by_layer():
    config = transformers.GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    output = transformers.GPT2LMHeadModel(config)(torch.ones(3, 7, dtype=torch.long))
    key = "batch=3 head=4 source=7 feature=4"
    assert [(label, said) for label, said, _ in rows_of(output)] == [
        ("logits", "batch=3 time=7 vocab=30"),
        (CACHE, ""),
        *[("0", ""), ("keys", key), ("values", key)],
        *[("1", ""), ("keys", key), ("values", key)],
    ]
    config = transformers.BartConfig(
        vocab_size=30, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=8, decoder_ffn_dim=8,
    )  # fmt: skip
    both = transformers.BartModel(config)(torch.full((3, 7), 5), decoder_input_ids=torch.full((3, 5), 5))
    rows = [(label, said) for label, said, _ in rows_of(both)]
    assert ("self_attention", "") in rows and rows[rows.index(("cross_attention", "")) + 2] == (
        "keys",
        "batch=3 head=2 source=7 feature=8",
    )
    assert rows[-1] == ("encoder_last_hidden_state", "batch=3 time=7 feature=16")


def tokenizer(side="right"):
    model = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]", padding_side=side
    )


TEXTS = ["the cat sat on the mat", "the dog"]


@pytest.mark.parametrize("kind", ["pt", "np", None])
def test_an_encoding_has_lengths_and_tokens(kind):
    encoding = tokenizer()(TEXTS, padding=kind is not None, return_tensors=kind)
    pads = " [PAD]" * (4 if kind else 0)
    assert rows_of(encoding) == [
        ("input_ids", "batch=2 time<=6", ""),
        *([("token_type_ids", "batch=2 time<=6", "")] if "token_type_ids" in encoding else []),
        ("attention_mask", "batch=2 time<=6", ""),
        ("tokens 0", "", "the cat sat on the mat"),
        ("tokens 1", "", "the [UNK]" + pads),
    ]
    assert rf.show(encoding).spec.head["title"] == "transformers BatchEncoding"


def test_fields_of_an_encoding_that_are_no_tokens_have_their_batch_alone():
    encoding = transformers.BatchEncoding(
        {
            "labels": torch.tensor([1, 0]),
            "decoder_input_ids": torch.ones(2, 3, dtype=torch.int64),
            **tokenizer()(TEXTS, padding=True, return_tensors="pt"),
        }
    )
    shown = {name: dims for name, dims, _ in rows_of(encoding)}
    assert shown["labels"] == "batch=2" and shown["decoder_input_ids"] == "batch=2 time=3"
    assert shown["input_ids"] == shown["attention_mask"] == "batch=2 time<=6"
    assert [entry["name"] for entry in rf.viz.dims(encoding).spec.head["dims"]] == ["batch", "time", "time"]


def test_an_encoding_that_is_padded_on_the_left_says_that_it_has_no_lengths():
    head = rf.viz.dims(tokenizer("left")(TEXTS, padding=True, return_tensors="pt")).spec.head
    assert [entry["lengths"] for entry in head["dims"]] == [None, None]
    assert head["remark"] == "attention_mask is false before it is true, or between: there are no lengths."


def test_an_encoding_that_is_padded_further_says_so():
    encoding = tokenizer()(TEXTS, padding="max_length", max_length=9, return_tensors="pt")
    assert rf.viz.dims(encoding).spec.head["remark"] == "The arrays have 9 positions; after 6 there is padding only."
    assert rows_of(encoding)[0] == ("input_ids", "batch=2 time<=6", "")


def test_one_text_is_one_sequence():
    assert rows_of(tokenizer()("the cat"))[0] == ("input_ids", "time=2", "")


def test_an_encoding_of_tokenizers_is_shown_too():
    one = tokenizer()("the cat", return_tensors=None).encodings[0]
    assert rows_of(one) == [("ids", "time=2", ""), ("attention_mask", "time=2", ""), ("tokens 0", "", "the cat")]
    assert rf.show(one).spec.head["title"] == "tokenizers Encoding"


def test_what_a_model_gives_instead_of_weights_says_how_there_are_some():
    weights = torch.ones(1, 2, 3, 3) / 3
    for given in ((), (weights, None), ((None,), (weights,)), None, [()]):
        with pytest.raises(ValueError, match="the model returned no weights") as said:
            rf.viz.attention(given)
        assert 'attn_implementation="eager"' in str(said.value) and "rf.record(model=model)" in str(said.value)
    config = transformers.GPT2Config(vocab_size=30, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    output = transformers.GPT2Model(config)(torch.ones(3, 7, dtype=torch.long))
    with pytest.raises(ValueError, match="output_attentions=True"):
        rf.viz.attention(output)  # it was not asked to
    with pytest.raises(ValueError, match="attn_implementation"):
        rf.viz.attention(transformers.modeling_outputs.BaseModelOutput(attentions=()))
    assert rf.viz.attention((weights, weights)).spec.head["layers"] == ["layer 0", "layer 1"]
