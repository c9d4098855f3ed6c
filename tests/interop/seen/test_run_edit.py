"""run.at.edit and run.at.attention of a model that is recorded: between the tokens of generate, as branches, in loops of one's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb.control.commands import changes_of
from rfnb.control.ghosts import quiet
from rfnb.viz.group.spec import parts_of
from rfnb.viz.show import view_of

pytest.importorskip("transformers")
from interop.seen.hf_families import made

OPTIONS = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 2}
IDS = torch.tensor([[4, 7, 9, 5], [6, 8, 3, 10]])


def held(model, **options):
    return rf.run(lambda: model.generate(IDS, **OPTIONS, **options), record={"model": model}, paused=True, name="run")


def test_a_token_is_other_by_its_logit_in_one_step_only():
    model = made("GPT2")
    plain = model.generate(IDS, **OPTIONS)
    run = held(model)
    run.step(2)
    run.at.edit({"lm_head[vocab=11, batch=1]": 1e4})
    run.resume()
    got = run.result
    assert torch.equal(got[:, :6], plain[:, :6]) and got[1, 6] == 11 and torch.equal(got[0], plain[0])
    wanted = torch.cat([plain[:, :6], torch.tensor([[plain[0, 6]], [11]])], 1)
    assert torch.equal(got[1, 7:], model.generate(wanted, **{**OPTIONS, "max_new_tokens": 2})[1, 7:])
    assert [change.words for change in run.changes] == ["edited lm_head[vocab=11, batch=1]: 10000"]


def test_a_branch_with_an_edit_is_the_run_with_a_hook_from_there_on():
    model = made("GPT2")
    run = held(model)
    run.resume()
    plain = run.result
    change = lambda at: at.edit({"h.1": lambda raw: -raw}, steps=None)  # noqa: E731
    branch = run.from_step(2, change, name="turned")
    ids = plain[:, :6]
    for _ in range(3):

        def hook(module, args, output):
            raw = output if isinstance(output, torch.Tensor) else output[0]
            out = raw.clone()
            out[:, 5:] *= -1  # the positions that were written from that step on
            return out if isinstance(output, torch.Tensor) else (out, *output[1:])

        handle = model.transformer.h[1].register_forward_hook(hook)
        with torch.no_grad():
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
        handle.remove()
    assert torch.equal(branch.result, ids)
    assert branch.changes[0].words.endswith("from here on") and branch.drifted is None
    assert rf.compare_runs(run, branch).diff.first is not None


def test_rows_of_attention_are_those_of_a_hypothesis_in_a_beam_search():
    model = made("GPT2", "sdpa")
    run = held(model, num_beams=2)
    run.step(2)
    run.at.attention["h.1.attn"][{"batch": 1, "hypothesis": 1, "head": 0}] = [0, 0, 0, 1, 0, 1]
    run.at.attention["h.0.attn"].during(2).uniform({"head": 1})
    run.resume().result
    rows = [tensor.raw_tensor for tensor in run.trace.attention.steps("transformer.h.1.attn")]
    assert rows[2][1, 1, 0].tolist() == [0, 0, 0, 0.5, 0, 0.5] and rows[2].shape == (2, 2, 2, 6)
    assert not (rows[2][0] == 0).any() and not (rows[3] == 0).any()
    even = [
        bool((raw.raw_tensor[:, :, 1].std(-1) < 1e-7).all())
        for raw in run.trace.attention.steps("transformer.h.0.attn")
    ]
    assert even == [False, False, True, True, False]


@pytest.mark.parametrize("step", [0, 1])
def test_a_run_of_which_no_attention_was_recorded_yet_has_rows_of_hypotheses_as_the_one_that_it_leaves(step):
    run = held(made("GPT2"), num_beams=2)
    run.resume().result
    change = lambda at: at.attention["h.0.attn"].focus(2, {"batch": 1, "beam": 1, "head": 0})  # noqa: E731
    branch = run.from_step(step, change)
    branch.result
    rows = branch.trace.attention.steps("transformer.h.0.attn")[step].raw_tensor
    assert rows[1, 1, 0].tolist() == [float(source == 2) for source in range(4 + step)] and (rows[0] < 1).all()
    said = ["attention h.0.attn (batch 1, beam 1, head 0) all on position 2"]
    assert [each.words for each in branch.changes] == said and branch.drifted is None
    heard = quiet(run, step, change)
    assert torch.equal(heard.result, branch.result)
    assert [each.words for each in heard.changes] == said


def test_what_cannot_be_put_there_pauses_the_run_or_is_said_with_its_result():
    model = made("GPT2")
    run = held(model)
    run.step(1)
    with pytest.raises(KeyError, match='no module "h.9"'):
        run.at.edit({"h.9": 0})
    run.at.attention["h.1.attn"][{"batch": 0}] = [1, 2]
    run.step()
    assert "h.1.attn" in run.reason and "failed: " in run.changes[-1].words
    run.at.edit({"h.1[step=0]": 0})
    with pytest.warns(UserWarning, match="its place was not reached in these steps"):
        run.resume().result
    alone = rf.run(lambda: rf.gate(0), paused=True)
    alone.wait()
    with pytest.raises(ValueError, match="this run records no model"):
        alone.at.edit({"h.1": 0})
    alone.stop()


def test_modules_of_rfnb_are_edited_in_a_step_of_a_loop():
    time, feat = rf.Dim(4, name="time"), rf.Dim(3, name="feat")
    net = rf.Linear(feat, feat)

    def go():
        loop = rf.Loop(axis=time, name="loop")
        loop.state.h = rf.ones([feat])
        for _ in loop:
            loop.state.h = net(loop.state.h)
        return loop.state.h

    run = rf.run(go, record={"model": net}, paused=True)
    run.step(2)
    run.at.edit({"": 7.0})
    run.resume()
    wanted = net(net(rf.ones([feat])) * 0 + 7.0)
    assert (run.result.numpy() == wanted.numpy()).all()


class OwnHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 4) for _ in range(3))

    def forward(self, x):
        ahead = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        scores = (self.q(x) @ self.k(x).mT).masked_fill(ahead, -torch.inf)
        return torch.softmax(scores, -1) @ self.v(x)


class OwnBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(OwnHead() for _ in range(2))

    def forward(self, x):
        return x + torch.cat([head(x) for head in self.heads], -1)


class OwnModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(7, 8), nn.Embedding(9, 8)
        self.blocks, self.lm_head = nn.Sequential(OwnBlock(), OwnBlock()), nn.Linear(8, 7)

    def forward(self, ids):
        return self.lm_head(self.blocks(self.tok(ids) + self.pos(torch.arange(ids.shape[1]))))


def written(model):
    """A loop that reads all positions once more in each step."""
    ids = torch.tensor([[3, 5, 4]])
    with torch.no_grad():
        for step in range(4):
            rf.gate(step)
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
    return ids


def maps_of(run):
    """The views of attention, and the weights of each map."""
    parts = [part for part in parts_of(view_of(run).spec) if part.kind == "attention"]
    return [(part, [part.blocks[entry["block"]] for entry in part.head["maps"]]) for part in parts]


def test_a_loop_without_a_cache_shows_the_newest_row_of_each_step_and_a_page_changes_that_one():
    torch.manual_seed(3)
    model = OwnModel()
    run = rf.run(lambda: written(model), record={"model": model, "labels": list("abcdefg")}, paused=True, name="own")
    run.step(3)
    ((part, maps),) = maps_of(run)
    assert part.head["title"] == "Attention: blocks.*.heads" and len(maps) == 4
    assert part.head["seqs"][0]["cols"][:3] == ["d", "f", "e"]  # what was read, not the numbers of positions
    steps = run.trace.attention.steps("blocks.1.heads")
    for row, weights in enumerate(steps):
        newest = weights.raw_tensor[0, 1, -1].numpy()
        np.testing.assert_allclose(np.asarray(maps[3])[0, row, : len(newest)], newest, atol=2e-3)
    held = part.head["maps"][3]["held"]
    row = [0.0, 1.0, 0.0, 0.0]
    entries = {**held["always"], **held["fixed"], "batch": 0}
    command = {"do": "attention", "path": held["attention"], "entries": entries, "row": row}
    branch = run.from_step(1, changes_of([command]), path=held["path"], name="drawn")
    branch.result
    before, now = (each.trace.attention.steps("blocks.1.heads")[1].raw_tensor for each in (run, branch))
    assert now[0, 1, -1].tolist() == row
    assert torch.equal(now[0, 1, :-1], before[0, 1, :-1]) and torch.equal(now[0, 0], before[0, 0])
    run.stop()


def test_an_encoder_that_is_called_again_in_each_step_is_shown_as_in_the_last_one():
    torch.manual_seed(3)
    model, source = nn.Transformer(8, 2, 1, 1, 8, batch_first=True).eval(), torch.randn(1, 3, 8)

    def go():
        target = torch.randn(1, 1, 8, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            for step in range(3):
                rf.gate(step)
                target = torch.cat([target, model(source, target)[:, -1:]], 1)
        return target

    run = rf.run(go, record={"model": model}, name="again")
    run.result
    shown = {part.head["title"]: maps for part, maps in maps_of(run)}
    weights = run.trace.attention.steps("encoder.layers.0.self_attn")[-1].raw_tensor
    np.testing.assert_allclose(
        np.asarray(shown["Attention: encoder.layers.0.self_attn, step 2"][1])[0], weights[0, 1], atol=2e-3
    )
    cross = [each.raw_tensor[0, 0, -1].numpy() for each in run.trace.attention.steps("decoder.layers.0.multihead_attn")]
    np.testing.assert_allclose(np.asarray(shown["Attention: decoder.layers.0.multihead_attn"][0])[0], cross, atol=2e-3)


def test_a_run_waits_inside_of_a_token_before_the_calls_of_modules_and_changes_what_they_get():
    model = made("GPT2")
    plain = model.generate(IDS, **OPTIONS)
    begin = lambda: model.generate(IDS, **OPTIONS)  # noqa: E731
    run = rf.run(begin, record={"model": model}, modules=["h.*", "lm_head"], paused=True, name="run")
    run.step(2)
    assert [*run.steps] == [("generate", 0), ("transformer.h.0", 0), ("transformer.h.1", 0)]
    run.step(4)
    assert (run.at.path, run.at.step) == ("transformer.h.1", 1)
    hidden = run.at.states["hidden_states"]
    assert [dim.name for dim in hidden.dims] == ["batch", "time", "feature"] and hidden.dims[1].extent == 1
    hidden.scale(-2.0, {"batch": 1})
    run.resume()
    got = run.result

    calls = []

    def hook(module, args):
        calls.append(args[0])
        if len(calls) == 2:
            return (args[0] * torch.tensor([1.0, -2.0])[:, None, None], *args[1:])

    handle = model.transformer.h[1].register_forward_pre_hook(hook)
    wanted = begin()
    handle.remove()
    assert torch.equal(got, wanted) and not torch.equal(wanted, plain)
    assert [change.words for change in run.changes] == ["state hidden_states (batch 1) times -2"]

    back = run.from_step(1, lambda at: at.edit({"h.1.attn": 0}), path="h.1", name="back")  # of this call alone
    got = back.result
    calls.clear()
    handle = model.transformer.h[1].attn.register_forward_hook(
        lambda module, args, output: (output[0] * (len(calls) != 1), calls.append(args), *output[1:])[::2]
    )
    wanted = begin()
    handle.remove()
    assert torch.equal(got, wanted) and back.drifted is None
    assert torch.equal(run.from_step(0, paused=False, path="generate").result, plain)


def test_modules_that_a_run_does_not_record_cannot_be_held():
    model = made("GPT2")
    with pytest.raises(ValueError) as error:
        rf.run(lambda: model(IDS), record={"model": model}, modules="h.7", paused=True)
    assert str(error.value).splitlines()[0] == 'run: no module "h.7".'
    assert str(error.value).splitlines()[-1].strip() == (
        'rf.run(fn, record={"model": model}, modules="h.1", paused=True)'
    )
