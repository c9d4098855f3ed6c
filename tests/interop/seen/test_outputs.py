"""The output distribution of a torch model: of the product that makes it, and of no other."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rfnb as rf


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)


class Model(nn.Module):
    """Tokens in, scores of tokens out; products inside that are as wide as the vocabulary."""

    def __init__(self, name="last", tied=False, log=False, width=8, tokens=8):
        super().__init__()
        self.embedding, self.proj = nn.Embedding(tokens, width), nn.Linear(width, width)
        self.add_module(name, nn.Linear(width, tokens, bias=not tied))
        self.name, self.log = name, log
        if tied:
            getattr(self, name).weight = self.embedding.weight

    def forward(self, ids):
        logits = getattr(self, self.name)(self.proj(self.embedding(ids)))
        return F.log_softmax(logits, -1) if self.log else logits


def ids():
    return torch.tensor([[0, 4, 2], [7, 1, 1]])


@pytest.mark.parametrize(
    ("name", "options"), [("last", {}), ("x", {"tied": True}), ("lm_head", {}), ("generator", {"log": True})]
)
def test_logits_of_the_last_product_and_of_no_other(name, options):
    model = Model(name, **options)
    with rf.record(model=model, labels=list("abcdefgh")) as trace:
        result = model(ids())
    (path,) = trace.by_path("outputs")
    values = trace.by_path("outputs")[path][0].values
    assert path == name
    expected = result if not options.get("log") else None
    if expected is not None:
        assert torch.equal(values["logits"].raw_tensor, expected)
    torch.testing.assert_close(values["logits"].raw_tensor.log_softmax(-1), result.log_softmax(-1))
    assert [dim.short_repr() for dim in values["logits"].dims] == ["batch=2", "time=3", "vocab=8"]
    assert values["axis"] is values["logits"].dims[-1] and list(values["axis"].vocab) == list("abcdefgh")
    assert values["axis"] is trace.by_path("tokens")["embedding"][0].values["ids"].sparse_dim


def test_log_softmax_is_an_output_where_no_product_is_known_as_one():
    class Ctc(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.act = nn.Linear(4, 6), nn.LogSoftmax(-1)

        def forward(self, x):
            return self.act(self.fc(x))

    model = Ctc()
    with rf.record(model=model) as trace:
        result = model(torch.randn(2, 5, 4))
    (path,) = trace.by_path("outputs")
    values = trace.by_path("outputs")[path][0].values
    assert path == "act" and torch.equal(values["log_probs"].raw_tensor, result)
    assert [dim.short_repr() for dim in values["log_probs"].dims] == ["batch=2", "time=5", "vocab=6"]


@pytest.mark.parametrize("options", [{"labels": {"0": list("abcd")}}, {"dims": {"0": "batch vocab"}}])
def test_the_user_says_which_product_it_is(options):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.randn(3, 4)
    with rf.record(model=model) as trace:
        model(x)
    assert not trace.by_path("outputs")
    with rf.record(model=model, **options) as trace:
        model(x)
    assert torch.equal(trace.by_path("outputs")["0"][0].values["logits"].raw_tensor, model[0](x))


def test_scores_that_are_changed_in_place_are_said():
    model = Model()
    with rf.record(model=model) as trace:
        with torch.no_grad():
            model(ids())[..., 3] = -torch.inf
    with pytest.warns(UserWarning) as said:
        values = dict(trace.by_path("outputs")["last"][0].values)
    assert "logits" not in values
    assert str(said[0].message).startswith("record: scores were changed in place before they were read for the output.")


def test_scores_of_inference_mode_are_those_before_a_change_in_place():
    model = Model()
    with rf.record(model=model) as trace, torch.inference_mode():
        scores = model(ids())
        expected = scores.clone()
        scores[..., 3] = -torch.inf
    assert torch.equal(trace.by_path("outputs")["last"][0].values["logits"].raw_tensor, expected)


def test_a_page_shows_the_output_with_its_labels():
    model = Model()
    with rf.record(model=model, labels=list("abcdefgh")) as trace:
        model(ids())
    assert "Output: last" in rf.show(trace).text()


@pytest.mark.parametrize("offsets", [None, torch.tensor([0, 2])])
def test_a_bag_of_tokens(offsets):
    model = nn.Sequential(nn.EmbeddingBag(8, 4))
    given = (torch.tensor([[1, 2, 3], [4, 5, 6]]),) if offsets is None else (torch.tensor([1, 2, 3, 4, 5]), offsets)
    with rf.record(model={"bag": model[0]}, labels=list("abcdefgh")) as trace:
        model[0](*given)
    tokens = trace.by_path("tokens")["bag"][0].values["ids"]
    assert torch.equal(tokens.raw_tensor, given[0]) and list(tokens.sparse_dim.vocab) == list("abcdefgh")
    out = [dim.short_repr() for dim in trace.modules["bag"][0].values["outputs"][0][1].dims]
    assert out == ["batch=2", "feature=4"]
