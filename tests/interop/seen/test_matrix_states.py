"""Matrix states of models of transformers: against the recurrences of the papers, in plain torch, step by step.

Each kernel of a model has a reference here, which is put in its place to say what an edited state makes of the rest of the run.
"""

import sys
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from plain_linear_recurrences import delta_rule, diagonal, unedited

import rfnb as rf
from rfnb.control.commands import changes_of
from rfnb.viz import trace_page
from rfnb.viz.control.run_view import edit_handles_of
from rfnb.viz.group.spec import parts_of

T = pytest.importorskip("transformers", minversion="5.20")
_TINY = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2}
_HYBRID = {**_TINY, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1}
_SSD = {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 4, "mamba_chunk_size": 4}
MODELS = {
    "Qwen3Next": {
        **_HYBRID, "head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
        "linear_value_head_dim": 6, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16, "layer_types": ["linear_attention", "full_attention"],
    },
    "Mamba": {**_TINY, "state_size": 4},
    "Mamba2": {**_TINY, "state_size": 8, "num_heads": 4, "head_dim": 8, "n_groups": 2, "chunk_size": 4},
    "Jamba": {
        **_HYBRID, "attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "num_experts_per_tok": 1, "mamba_d_state": 4,
        "mamba_dt_rank": 2, "use_mamba_kernels": False,
    },
    "FalconH1": {**_HYBRID, **_SSD, "head_dim": 8, "mamba_d_ssm": 32},
    "Bamba": {**_HYBRID, **_SSD, "attn_layer_indices": [1]},
    "RecurrentGemma": {
        **_HYBRID, "num_hidden_layers": 3, "intermediate_size": 48, "lru_width": 16, "attention_window_size": 8, "head_dim": 8,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
    "Zamba2": {
        **_HYBRID, "mamba_d_state": 4, "n_mamba_heads": 4, "mamba_headdim": 8, "mamba_ngroups": 2, "chunk_size": 4, "num_mem_blocks": 1,
        "layers_block_type": ["mamba", "hybrid"], "attention_hidden_size": 32, "attention_head_dim": 16,
    },
    "Rwkv": {**_TINY, "attention_hidden_size": 16, "intermediate_size": 32},
    "xLSTM": {**_TINY, "hidden_size": 128, "num_heads": 4, "chunk_size": 16},
    "Lfm2": {**_HYBRID, "layer_types": ["conv", "full_attention"]},
}  # fmt: skip
STEPS, EDITED = 11, 5
NO_BEAM = T.RwkvForCausalLM, T.xLSTMForCausalLM
IDS = torch.randint(1, 50, (2, STEPS), generator=torch.Generator().manual_seed(3))


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    made = getattr(T, f"{request.param}ForCausalLM")(
        getattr(T, f"{request.param}Config")(**MODELS[request.param])
    ).eval()
    for parameter in made.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.3)
    return made


# -- the kernels, by the papers; the states that they went through are put into `seen` -------------------------------------------------
def _each(function, *arguments):
    """A function of one sequence for all of a batch."""
    made = [function(*(each if each is None else each[i] for each in arguments)) for i in range(len(arguments[0]))]
    return [torch.stack(parts) for parts in zip(*made)]


def gated_delta(seen, edit, query, key, value, g, beta, initial_state=None, **rest):
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (query, key))
    q, k = (x.repeat_interleave(value.shape[2] // x.shape[2], 2) for x in (q / q.shape[-1] ** 0.5, k))
    run = lambda q, k, v, a, b, s: delta_rule(q, k, v, a, b, s, edit)  # noqa: E731
    read, states = _each(run, q, k, value, g.exp(), beta, initial_state)
    seen.append((states, read, value))
    return read, states[:, -1]


def selective_scan(seen, edit, hidden_states, dt, A, B, C, D=None, z=None, delta_bias=None, **rest):
    d = F.softplus(dt + delta_bias[:, None] if delta_bias is not None and delta_bias.ndim == 1 else dt)
    decay = torch.exp(d.mT[..., None] * A)
    run = lambda decay, write: (diagonal(decay, write, None, lambda s, t: edit(s[..., None], t)[..., 0]),)  # noqa: E731
    (states,) = _each(run, decay, (d * hidden_states).mT[..., None] * B.mT[:, :, None])
    read = (states * C.mT[:, :, None]).sum(-1).mT
    seen.append((states[..., None], read.mT[..., None], hidden_states.mT[..., None]))
    read = read if D is None else read + D[:, None] * hidden_states
    return (read if z is None else read * F.silu(z)), states[:, -1]


def chunk_scan(
    seen, edit, hidden_states, dt, A, B, C, chunk_size=0, D=None, dt_bias=None, initial_states=None, dt_limit=(0.0, 1e9), **rest
):  # fmt: skip
    d = F.softplus(dt + dt_bias).clamp(*dt_limit)
    b, c = (x.repeat_interleave(hidden_states.shape[2] // x.shape[2], 2) for x in (B, C))
    write = d[..., None, None] * b[..., None] * hidden_states[..., None, :]
    run = lambda decay, write: (diagonal(decay, write, None, edit),)  # noqa: E731
    (states,) = _each(run, torch.exp(d * A)[..., None, None].expand_as(write), write)
    read = torch.einsum("bthnp,bthn->bthp", states, c)
    seen.append((states, read, hidden_states))
    return read + D[:, None] * hidden_states, states[:, -1].mT


def wkv(seen, edit, time_decay, time_first, key, value, state=None, return_state=False):
    """RWKV, equation (16), as the recurrence of its appendix: numerator a, denominator b, and the largest exponent p."""
    k, v, decay, bonus = (x.double() for x in (key, value, -time_decay.exp(), time_first))
    a, b, p = (x.double() for x in state) if state is not None else (0 * v[:, 0], 0 * v[:, 0], 0 * v[:, 0] - 1e38)
    a, b, read, states = a * p.exp(), b * p.exp(), [], []
    for t in range(k.shape[1]):
        own = (bonus + k[:, t]).exp()
        read.append((a + own * v[:, t]) / (b + own))
        first = t == 0 and state is None or not b.any()
        p = torch.maximum(torch.minimum(k[:, t], k[:, t] + bonus) if first else p + decay, k[:, t])
        a, b = decay.exp() * a + k[:, t].exp() * v[:, t], decay.exp() * b + k[:, t].exp()
        a = edit(a[..., None, None], t)[..., 0, 0]
        states.append((a / p.exp())[..., None, None])
    read = torch.stack(read, 1).float()
    seen.append((torch.stack(states, 1).float(), read[..., None], value[..., None]))
    return read, [x.float() for x in (a / p.exp(), b / p.exp(), p)]


def mlstm(seen, edit, module, query, key, value, igate, fgate, c_initial=None, n_initial=None, m_initial=None, **rest):
    """xLSTM, equations (19) to (27); states are those of appendix A.2, times exp(-m)."""
    q, k, v, i, f = (x.double() for x in (query, key, value, igate, F.logsigmoid(fgate)))
    C, n = torch.zeros_like(k[:, :, 0, :, None] * v[:, :, 0, None]), torch.zeros_like(k[:, :, 0])
    m = torch.zeros_like(i[..., 0])
    if c_initial is not None:
        m = m_initial.reshape(m.shape).double()
        C, n = c_initial.double() * m[..., None, None].exp(), n_initial.double() * m[..., None].exp()
    read, states = [], []
    for t in range(q.shape[2]):
        C = f[..., t, None, None].exp() * C + i[..., t, None, None].exp() * k[:, :, t, :, None] * v[:, :, t, None]
        n = f[..., t, None].exp() * n + i[..., t, None].exp() * k[:, :, t]
        m = torch.maximum(f[..., t] + m, i[..., t])
        C, scaled = edit(C, t), q[:, :, t] / q.shape[-1] ** 0.5
        read.append((scaled[..., None] * C).sum(-2) / (scaled * n).sum(-1).abs().clamp_min(1)[..., None])
        states.append(C / m[..., None, None].exp())
    scale = m[..., None].exp()
    read = torch.stack(read, 2).float()
    seen.append((torch.stack(states, 1).float(), read.transpose(1, 2), value.transpose(1, 2)))
    return read, tuple(x.float() for x in (C / scale[..., None], n / scale, m[..., None]))


def short_convolution(seen, edit, hidden_states, weight, bias=None, activation=None, **rest):
    """A causal convolution of each channel, as a queue of the last inputs that each step reads."""
    window, read, states = hidden_states.new_zeros(*hidden_states.shape[:2], weight.shape[1]), [], []
    for t in range(hidden_states.shape[2]):
        window = torch.cat([window[..., 1:], hidden_states[..., t, None]], -1)
        window = edit(window[..., None], t)[..., 0]
        states.append(window[..., None])
        read.append((weight * window).sum(-1))
    read = torch.stack(read, 2)
    seen.append((torch.stack(states, 1), read.mT[..., None], hidden_states.mT[..., None]))
    return read


def rnn_scan(seen, edit, module, hidden_states, recurrent_gate, reset, recurrent_states, **rest):
    run = lambda a, x: (diagonal(a, x, None, lambda s, t: edit(s[..., None, None], t)[..., 0, 0]),)  # noqa: E731
    (states,) = _each(run, recurrent_gate * ~reset.bool(), hidden_states)
    seen.append((states[..., None, None], states[..., None], hidden_states[..., None]))
    return states.to(hidden_states.dtype), states[:, -1]


REFERENCES = {
    "torch_chunk_gated_delta_rule": gated_delta,
    "mamba_selective_scan": selective_scan,
    "mamba2_chunk_scan": chunk_scan,
    "_rnn_scan": rnn_scan,
    "rwkv_linear_attention": wkv,
    "xLSTMBackend.forward": mlstm,
    "causal_conv1d_fn": short_convolution,
}


def by_the_papers(model, run, edit=unedited, edited=0):
    """What `run` gives where the kernels of a model are the references, and the states of each call of one, of which one is edited."""
    seen, patches = [], []
    kinds = {type(module) for module in model.modules()}
    for owner in [*kinds, *(sys.modules[name] for name in {kind.__module__ for kind in kinds})]:
        own = {name: each for name, each in REFERENCES.items() if name in vars(owner)}
        if len(own) > 1:
            own.pop("causal_conv1d_fn", None)
        if f"{owner.__name__}.forward" in REFERENCES:
            own["forward"] = REFERENCES[f"{owner.__name__}.forward"]
        for name, reference in own.items():
            if name in vars(owner):

                def bound(*args, reference=reference, **given):
                    return reference(seen, edit if len(seen) == edited else unedited, *args, **given)

                patches.append(patch.object(owner, name, bound))
    for each in patches:
        each.start()
    try:
        with torch.no_grad():
            return run(), seen
    finally:
        for each in patches:
            each.stop()


def recurrent_paths(trace):
    return [path for path in trace.states if "norm" in trace.states[path]]


def test_a_recording_changes_no_bit_and_has_the_states_of_the_papers(model):
    with torch.no_grad():
        plain = model(IDS).logits
        with rf.record(model=model) as trace:
            seen = model(IDS).logits
    assert torch.equal(plain, seen)
    expected, states = by_the_papers(model, lambda: model(IDS).logits)
    torch.testing.assert_close(plain, expected, rtol=0, atol=2e-4)
    paths = recurrent_paths(trace)
    assert len(paths) == len(states) > 0
    for path, (want, _, _) in zip(paths, states):
        tracks = trace.states[path]
        size = want.abs().max()
        torch.testing.assert_close(tracks["matrix"].raw_tensor / size, want / size, rtol=0, atol=1e-4)
        torch.testing.assert_close(tracks["norm"].raw_tensor, want.square().sum((-2, -1)).sqrt(), rtol=1e-3, atol=1e-4)
        if "rank" in tracks:
            squares = torch.linalg.svdvals(want).square()
            rank = squares.sum(-1).square() / squares.square().sum(-1)
            torch.testing.assert_close(tracks["rank"].raw_tensor, rank, rtol=1e-3, atol=1e-3)


def test_a_state_edited_at_a_step_has_the_future_of_the_papers_and_is_gone_on_from(model):
    """The first recurrent layer's state is halved behind one step; then a further token is read."""
    with torch.no_grad(), rf.record(model=model) as trace:
        model(IDS)
    path = recurrent_paths(trace)[0]
    halved = lambda state, t: state * 0.5 if t == EDITED else state  # noqa: E731
    expected, _ = by_the_papers(model, lambda: model(IDS).logits, halved)
    with torch.no_grad(), rf.edit(model, {f"{path}.matrix[time={EDITED}]": lambda state: state * 0.5}):
        got = model(IDS, use_cache=True)
        cached = model(IDS)
    plain = model(IDS).logits
    assert (got.logits - plain)[:, EDITED:].abs().max() > 1e-3
    assert torch.equal(got.logits[:, :EDITED], plain[:, :EDITED])
    torch.testing.assert_close(got.logits, expected, rtol=0, atol=5e-4)
    torch.testing.assert_close(cached.logits, expected, rtol=0, atol=5e-4)


def test_generate_is_the_same_and_goes_on_from_an_edited_state(model):
    generate = lambda **more: model.generate(IDS, max_new_tokens=4, do_sample=False, pad_token_id=0, **more)  # noqa: E731
    scored = {"output_scores": True, "return_dict_in_generate": True}
    plain = generate(**scored)
    with rf.record(model=model) as trace:
        seen = generate(**scored)
    assert torch.equal(plain.sequences, seen.sequences)
    path = next(path for path in recurrent_paths(trace) if not path.endswith(".prompt"))
    assert trace.states[path]["norm"].raw_tensor.shape[0] == 4  # a step for each label
    with rf.edit(model, {f"{path}.matrix[time=-1]": 0.0}):  # of the prompt, and behind each step
        other = generate(**scored)
    assert (plain.scores[1] - other.scores[1]).abs().max() > 1e-4
    part = "forget_gate" if "forget_gate" in trace.states[path] else "matrix"
    with rf.edit(model, {f"{path}.{part}": lambda there: there}):
        same = generate(**scored)
    torch.testing.assert_close(plain.scores[-1], same.scores[-1], rtol=0, atol=1e-4)


def test_a_held_generate_goes_on_from_a_state_that_was_edited_between_two_tokens(model):
    """Against one pass of the reference over the same labels, with the state halved behind the same one."""
    path = _first_recurrent(model)
    how = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "output_scores": True, "return_dict_in_generate": True}  # fmt: skip
    plain = model.generate(IDS, **how)
    run = rf.run(lambda: model.generate(IDS, **how), record={"model": model}, paused=True)
    run.step(2)
    run.at.edit({f"{path}.matrix": lambda state: state * 0.5}, steps=1)
    run.resume()
    labels = run.result.sequences[:, :-1]
    if isinstance(model, T.RwkvForCausalLM):  # its generate, of this version, reads the last two tokens in each step
        made, _ = by_the_papers(model, lambda: model.generate(IDS, **how), lambda state, t: state * 0.5, edited=4)
        expected = torch.cat([torch.zeros(2, STEPS - 1, 50), torch.stack(made.scores, 1)], 1)
    else:
        halved = lambda state, t: state * 0.5 if t == STEPS + 1 else state  # noqa: E731
        expected, _ = by_the_papers(model, lambda: model(labels).logits, halved)
    for step in range(5):
        same = torch.equal(run.result.scores[step], plain.scores[step])
        assert same == (step < 2)
        torch.testing.assert_close(run.result.scores[step], expected[:, STEPS - 1 + step], rtol=0, atol=1e-3)


def test_a_state_of_one_step_is_made_for_itself(model, monkeypatch):
    monkeypatch.setattr("rfnb.interop.seen.linear_recurrences._MARKS", 3)
    with torch.no_grad(), rf.record(model=model) as trace:
        model(IDS)
    for path in recurrent_paths(trace):
        states = trace.states[path]["matrix"]
        for step in (9, 2, 10, 0, -1, 4):
            one = trace.states.at(path, step)
            assert [dim.name for dim in one.dims] == [dim.name for dim in (states.dims[0], *states.dims[2:])]
            torch.testing.assert_close(one.raw_tensor, states.raw_tensor[:, step], rtol=0, atol=0)
        with pytest.raises(ValueError, match=rf"there is no such step[\s\S]*{STEPS}"):
            trace.states.at(path, STEPS)
    with rf.record(model=model) as trace:
        model.generate(IDS, max_new_tokens=2, do_sample=False, pad_token_id=0)
    path = next(path for path in recurrent_paths(trace) if not path.endswith(".prompt"))
    with pytest.raises(ValueError, match="not recorded as those of a recurrence over a whole sequence"):
        trace.states.at(path, 0)


def _first_recurrent(model):
    with torch.no_grad(), rf.record(model=model) as trace:
        model(IDS)
    return recurrent_paths(trace)[0]


def test_effective_attention_makes_what_is_read_of_the_values(model):
    with torch.no_grad(), rf.record(model=model) as trace:
        model(IDS)
    _, seen = by_the_papers(model, lambda: model(IDS).logits)
    for path, (_, read, value) in zip(recurrent_paths(trace), seen):
        weights = trace.attention[f"{path}.effective"].raw_tensor
        assert not weights.triu(1).any()
        torch.testing.assert_close(torch.einsum("bhts,bshv->bthv", weights, value), read, rtol=0, atol=2e-4)
    assert "linear recurrence" in rf.show(trace).text()


@pytest.mark.parametrize("beams", [1, 3])
def test_effective_attention_in_generate_is_that_of_one_pass_over_the_hypothesis(model, beams):
    """Each step has the weights on all positions so far; the rows of a beam are those of its hypotheses."""
    if isinstance(model, T.RwkvForCausalLM):
        pytest.skip(
            "its generate, of this version, reads the last two tokens in each step, so a position is there twice"
        )
    if beams > 1 and isinstance(model, NO_BEAM):
        pytest.skip("it refuses a beam")
    with torch.no_grad(), rf.record(model=model) as trace:
        model.generate(IDS, max_new_tokens=5, num_beams=beams, do_sample=False, pad_token_id=0)
    path = next(path for path in trace.attention if path.endswith(".effective"))
    rows = [event.values["weights"] for event in trace.attention.events(path)]
    history = trace.beams["generate"]
    if isinstance(model, T.RecurrentGemmaForCausalLM) and beams > 1:  # which keeps its states in its modules
        assert (
            rows[-1].raw_tensor.isnan().all()
            and "order of the hypotheses" in trace.attention.events(path)[-1].values["remark"]
        )
        return
    apart = (
        1e-2 if isinstance(model, T.Zamba2ForCausalLM) else 5e-4
    )  # whose gates are others in its own cached decoding
    assert len(rows) == 5 and rows[-1].dims[-1].extent == STEPS + 4
    for seq in range(2):
        best = history.nbest(seq)[0]
        step, slot = best.end
        along = history.along(rows, seq, slot, step=step, before_choice=True)
        labels = torch.tensor([best.tokens])[:, :step]
        with torch.no_grad(), rf.record(model=model) as whole:
            model(torch.cat([IDS[seq, None], labels], 1))
        want = whole.attention[path].raw_tensor[0]
        for at, row in enumerate(along):
            got, size = torch.as_tensor(row), want.abs().max()
            torch.testing.assert_close(got / size, want[:, STEPS - 1 + at, : got.shape[-1]] / size, rtol=0, atol=apart)
            assert got.shape[-1] == STEPS + at


def _tracks(run, path):
    made = trace_page.spec(run.trace, handles=edit_handles_of(run), live=True, kinds="states", path=path)
    parts = [made] if made.kind == "states" else parts_of(made)
    return {track["label"].rpartition(".")[2]: track for part in parts for track in part.head["tracks"]}


def test_a_held_generate_is_changed_by_what_its_view_says(model, monkeypatch):
    """A page sets the norm of a head of the second prompt to 0; the first prompt continues as before."""
    path = _first_recurrent(model)
    how = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "output_scores": True, "return_dict_in_generate": True}  # fmt: skip
    plain = model.generate(IDS, **how)
    run = rf.run(lambda: model.generate(IDS, **how), record={"model": model}, paused=True)
    run.step(2)
    tracks = _tracks(run, path)
    with monkeypatch.context() as patched:
        # A matrix that is too large for a page that is redrawn.
        patched.setattr(sys.modules["rfnb.viz.states.trace_part"], "MOST_LIVE", 8)
        assert _tracks(run, path).keys() == tracks.keys() - {"matrix"} - {"normaliser"}
    norm = tracks["norm"]["held"]
    assert norm["gate"] == f"{path}.matrix" and norm["norm"] and tracks["matrix"]["held"]["gate"] == norm["gate"]
    assert [name for name, _ in tracks["matrix"]["held"]["units"]] == [norm["units"][0][0], "key", "value"]
    assert "held" not in tracks.get("rank", {}) and tracks.get("rank", {"cannot": "The rank"})["cannot"].startswith(
        "The rank"
    )
    for gate in {"forget_gate", "write_gate"} & tracks.keys():
        assert tracks[gate]["held"]["gate"] == f"{path}.{gate}"
    maps = parts_of(
        trace_page.spec(run.trace, handles=edit_handles_of(run), live=True, kinds="attention", path="*.effective*")
    )
    assert maps and not any("held" in each or "remark" in each for part in maps for each in part.head["maps"])
    head = norm["units"][0][0]
    entries = {**norm["always"], norm["seqs"][0][0]: 1, norm["slot"]: 0, head: 1}
    changes_of([{"do": "put", "place": norm["gate"], "entries": entries, "scale": 0.0}])(run.at)
    run.resume()
    result, states = run.result, run.trace.states[path]["matrix"].raw_tensor[2, :, 0]
    assert not states[1, 1].any() and states[0, 1].any() and states[1, 0].any()
    for step in range(4):
        for seq in range(2 if step < 2 else 1):
            torch.testing.assert_close(result.scores[step][seq], plain.scores[step][seq], rtol=0, atol=1e-5)


def test_entries_of_prompts_in_a_beam_are_all_their_slots(model):
    if isinstance(model, NO_BEAM):
        pytest.skip("it refuses a beam")
    path = _first_recurrent(model)
    with rf.record(model=model) as trace, rf.edit(model, {f"{path}.matrix[batch=1, time=-1]": 0.0}):
        model.generate(IDS, max_new_tokens=3, num_beams=2, do_sample=False, pad_token_id=0)
    states = trace.states[path]["matrix"].raw_tensor
    assert not states[:, 1].any() and states[:, 0].flatten(2).any(-1).all()
    with pytest.raises(IndexError, match="index out of range"), rf.edit(model, {f"{path}.matrix[beam=2]": 0.0}):
        with rf.record(model=model):
            model.generate(IDS, max_new_tokens=3, num_beams=2, do_sample=False, pad_token_id=0)
