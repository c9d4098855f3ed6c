"""Looped models of transformers: the turns of a layer that a pass goes through several times are steps.

The reference is the loop of the Hierarchical Reasoning Model (Wang et al. 2025, section 2): z_L <- f_L(z_L + z_H), after some of which
z_H <- f_H(z_H + z_L), in plain Python; of the model it has the layers.
"""

import pytest
import torch

import rfnb as rf

T = pytest.importorskip("transformers", minversion="5.20")
pytest.importorskip("transformers.models.hrm_text")
IDS = torch.randint(3, 50, (2, 7), generator=torch.Generator().manual_seed(1))
LAYER, TURN = "model.L_module.layers.1", 3


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = T.HrmTextConfig(
        vocab_size=50, hidden_size=16, intermediate_size=24, num_attention_heads=2, head_dim=8, H_cycles=2, L_cycles=3,
        num_layers_per_stack=2, num_hidden_layers=16, max_position_embeddings=32, embedding_scale=3.0,
    )  # fmt: skip
    made = T.HrmTextForCausalLM(config).eval()
    for parameter in made.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.2)
    return made


def by_the_paper(model, ids, edit=lambda hidden, turn: hidden):
    """Logits, and what the last layer of L gives in each turn, which may be edited."""
    given, body, made = [], model.model, []
    stacks = {"L": body.L_module, "H": body.H_module}
    handles = [
        layer.register_forward_pre_hook(lambda _, args, rest: given.append(rest), with_kwargs=True)
        for stack in stacks.values()
        for layer in stack.layers
    ]
    with torch.no_grad():
        model(ids, use_cache=False)
        for handle in handles:
            handle.remove()
        rest = iter(given)  # masks and positions

        def stack(name, hidden):
            for index, layer in enumerate(stacks[name].layers):
                hidden = layer(hidden, **{key: each for key, each in next(rest).items() if key != "hidden_states"})
                if name == "L" and index == 1:
                    hidden = edit(hidden, len(made))
                    made.append(hidden)
            return stacks[name].final_norm(hidden)

        high, low = body.embed_tokens(ids) * model.config.embedding_scale, body.z_L_init
        for _ in range(model.config.H_cycles):
            for _ in range(model.config.L_cycles):
                low = stack("L", low + high)
            high = stack("H", high + low)
        return model.lm_head(high), torch.stack(made, 1)


def more(hidden, turn):
    return hidden + 1 if turn == TURN else hidden


def test_turns_are_steps_with_what_each_gives_and_how_far_that_is_from_the_last(model):
    with torch.no_grad():
        plain = model(IDS).logits
        with rf.record(model=model) as trace:
            assert torch.equal(model(IDS).logits, plain)
    expected, turns = by_the_paper(model, IDS)
    torch.testing.assert_close(plain, expected, rtol=0, atol=1e-4)
    found = trace.states[f"{LAYER}.turns"]
    assert [dim.name for dim in found["hidden"].dims] == ["batch", "turn", "time", "feature"]
    torch.testing.assert_close(found["hidden"].raw_tensor, turns, rtol=0, atol=1e-4)
    torch.testing.assert_close(found["norm"].raw_tensor, turns.norm(dim=-1), rtol=0, atol=1e-4)
    far = (turns - turns[:, -1:]).norm(dim=-1) / turns[:, -1:].norm(dim=-1)
    torch.testing.assert_close(found["from_last"].raw_tensor, far, rtol=0, atol=1e-4)
    text = rf.show(trace, path=f"{LAYER}.turns").text()
    assert "turn" in text and "from_last" in text
    assert [path for path in trace.states if path.endswith("turns")] == [
        f"model.{stack}_module.layers.{layer}.turns" for stack in "LH" for layer in (0, 1)
    ]


def test_layers_that_are_gone_through_once_have_no_turns():
    config = T.LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2
    )
    model = T.LlamaForCausalLM(config).eval()
    with torch.no_grad(), rf.record(model=model) as trace:
        model(IDS)
        model(IDS)
    assert trace.states.num_runs("model.layers.0") == 2
    assert not [path for path in trace.states if path.endswith("turns")]


def test_a_turn_that_is_edited_has_the_future_of_the_loop_of_the_paper(model):
    plain = model(IDS).logits
    expected, turns = by_the_paper(model, IDS, more)
    with torch.no_grad(), rf.edit(model, {f"{LAYER}[turn={TURN}]": lambda h: h + 1}), rf.record(model=model) as trace:
        got = [model(IDS).logits for _ in range(2)]
    assert (expected - plain).abs().max() > 1e-3
    for each in got:  # turns are counted anew in each pass
        torch.testing.assert_close(each, expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(trace.states[f"{LAYER}.turns", 0]["hidden"].raw_tensor, turns, rtol=0, atol=1e-4)
    with pytest.warns(UserWarning, match="nothing was edited"), rf.edit(model, {f"{LAYER}[turn=6]": 0.0}):
        assert torch.equal(model(IDS).logits, plain)


def test_generate_has_turns_in_each_step_and_goes_on_from_one_that_is_edited(model):
    how = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, "output_scores": True, "return_dict_in_generate": True}  # fmt: skip
    with rf.edit(model, {f"{LAYER}[turn={TURN}]": lambda h: h + 1}), rf.record(model=model) as trace:
        edited = model.generate(IDS, **how)
    expected, turns = by_the_paper(model, edited.sequences[:, :-1], more)
    for step in range(3):
        torch.testing.assert_close(edited.scores[step], expected[:, 6 + step], rtol=0, atol=1e-4)
    found = trace.states[f"{LAYER}.turns"]["hidden"]
    assert [dim.name for dim in found.dims] == ["step", "batch", "beam", "turn", "feature"]
    torch.testing.assert_close(
        found.raw_tensor[:, :, 0].transpose(0, 1), turns[:, :, 6:].transpose(1, 2), rtol=0, atol=1e-4
    )
    plain, path = model.generate(IDS, **how), LAYER
    run = rf.run(lambda: model.generate(IDS, **how), record={"model": model}, paused=True)
    run.step(1)
    run.at.edit({f"{path}[turn={TURN}]": lambda h: h + 1}, steps=1)
    run.resume()
    same = [torch.equal(one, other) for one, other in zip(run.result.scores, plain.scores)]
    assert same[:2] == [True, False]
