"""run.at.edit and run.at.attention of a model that is recorded: between the tokens of generate, as branches, in loops of one's own."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

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


def test_what_cannot_be_put_there_pauses_the_run_or_is_said_with_its_result():
    model = made("GPT2")
    run = held(model)
    run.step(1)
    with pytest.raises(KeyError, match='no module "h.9"'):
        run.at.edit({"h.9": 0})
    run.at.attention["h.1.attn"][{"batch": 0}] = [1, 2]
    run.step()
    assert "h.1.attn" in run.reason and "could not be done" in run.changes[-1].words
    run.at.edit({"h.1[step=0]": 0})
    with pytest.warns(UserWarning, match="nothing came to it in its steps"):
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
