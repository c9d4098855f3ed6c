"""Models that know nothing of rfnb, in JupyterLab: what a page says of a weight is what the model itself has computed."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect
from waiting import ms

pytest.importorskip("transformers", reason="opens its models")

START = """
import json
import torch
import transformers
import rfnb as rf
torch.manual_seed(5)

def strong(model):
    # Random weights as large as trained ones, or all attention is even.
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()

def said(weights):
    print(json.dumps(weights.tolist()))

words = ["<pad>", "<s>", "</s>", *"abcdefgh"]
ids, mask = torch.tensor([[3, 4, 5, 9, 6], [6, 7, 8, 0, 0]]), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
tokens = {"vocab_size": 11, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""
BERT = """
sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
bert = strong(transformers.BertModel(transformers.BertConfig(**sizes, **tokens)))
with torch.no_grad(), rf.record(model=bert, labels=words) as trace:
    bert(ids, attention_mask=mask)
rf.show(trace, kinds="attention")
bert.set_attn_implementation("eager")
with torch.no_grad():
    said(bert(ids, attention_mask=mask, output_attentions=True).attentions[0][0, 0])
"""
ENCODER = """
layer = torch.nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
encoder = strong(torch.nn.Sequential(torch.nn.Embedding(11, 16), torch.nn.TransformerEncoder(layer, 2)))
with torch.no_grad(), rf.record(model=encoder, labels=words) as trace:
    encoder(ids)
rf.show(trace, kinds="attention")
hidden = encoder[0](ids)
said(encoder[1].layers[0].self_attn(hidden, hidden, hidden, average_attn_weights=False)[1][0, 0].detach())
"""
BART = """
sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
sizes |= {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 32, "decoder_start_token_id": 1}
bart = strong(transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes, **tokens)))
options = {"attention_mask": mask, "num_beams": 3, "max_new_tokens": 6, "do_sample": False}
with torch.no_grad(), rf.record(model=bart, labels=words) as trace:
    best = bart.generate(ids, **options)
rf.show(trace, kinds=["beams", "attention"])
bart.set_attn_implementation("eager")
with torch.no_grad():
    out = bart(ids, attention_mask=mask, decoder_input_ids=best, output_attentions=True)
said(out.cross_attentions[0][0, 0])
print(json.dumps([words[label] for label in best[0].tolist() if label > 2]))
"""


def printed(cell):
    """The lines that a cell has printed, as they were before JSON."""
    texts = [output["text"] for output in cell["outputs"] if output["output_type"] == "stream"]
    return [json.loads(line) for line in "".join(texts).splitlines() if line.startswith("[")]


def run(lab, name, cell):
    lab.open(lab.write(f"{name}.ipynb", START, cell))
    lab.run_all()
    lab.wait_cells()
    view = lab.page.locator(".rfnb-root").first
    expect(view).to_be_visible(timeout=ms(60))
    return view, printed(lab.cells()[1])


def part(view, title):
    return view.locator(".rfnb-part").filter(has_text=title).first


def check(lab, part, expected, rows):
    """Go through the first rows of a map by keys, and compare each weight that is read out."""
    part.locator(".rfnb-pane").first.focus()
    value = part.locator(".rfnb-readout .rfnb-value")
    for row in range(rows):
        for col in range(len(expected[row])):
            lab.page.keyboard.press("ArrowDown" if row and not col else "ArrowRight")
            expect(part).to_have_attribute("data-col", str(col))
            assert part.get_attribute("data-row") == str(row)
            assert float(value.text_content()) == pytest.approx(expected[row][col], abs=2e-4), (row, col)
        lab.page.keyboard.press("Home")


def test_bert_attends_in_the_page_as_it_does_by_itself(lab):
    view, (weights,) = run(lab, "bert", BERT)
    maps = part(view, "Attention: encoder.layer.*.attention")
    check(lab, maps, weights, 5)
    expect(maps.locator(".rfnb-readout")).to_contain_text("d")  # the last token of the first sentence
    assert lab.errors == []


def test_an_encoder_of_torch_attends_in_the_page_as_it_does_by_itself(lab):
    view, (weights,) = run(lab, "encoder", ENCODER)
    check(lab, part(view, "Attention: 1.layers.*.self_attn"), weights, 5)
    assert lab.errors == []


def test_bart_searches_in_the_page_as_generate_does(lab):
    view, (weights, best) = run(lab, "bart", BART)
    beam = part(view, "num_beams=3")
    expect(beam.locator("tr").filter(has_text="winner")).to_contain_text(" ".join(best))
    cross = part(view, "encoder_attn")
    expect(cross).to_contain_text("best hypothesis")
    check(lab, cross, weights, 3)
    assert lab.errors == []
