"""Self-attention, encodings of positions and histories against golden data (tests/golden/README.md)."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import Golden
from loop_faces import FACES, run_face

import rfnb as rf
from rfnb import Dim


def _self_attention(golden: Golden, layer: str = "output") -> rf.QKVSelfAttention:
    keys, values = Dim(4, name="keys"), Dim(6, name="values")
    module = rf.QKVSelfAttention(
        golden.input("data").dims[2], key_dim_total=keys, value_dim_total=values, num_heads=2,
        attention_left_only=golden.meta["name"].startswith(("selfatt_left", "selfatt_loop")),
    )  # fmt: skip
    golden.assign({"QKV": module.QKV}, layer)
    return module


@pytest.mark.parametrize("name", ["selfatt_full", "selfatt_left"])
def test_self_attention(name):
    golden = Golden(name)
    golden.check(_self_attention(golden)(golden.input("data"), golden.time)[0], "output")


def test_self_attention_with_shifted_keys():
    golden = Golden("selfatt_key_shift")
    attention = _self_attention(golden)
    encoding = rf.RelativePositionalEncoding(attention.key_dim_per_head, clipping=2)
    golden.assign({"encoding_matrix": encoding.encoding_matrix}, "rel")
    shift = encoding(query_spatial_dim=golden.time)
    np.testing.assert_allclose(shift.numpy(), golden["out/rel"], atol=1e-4)
    golden.check(attention(golden.input("data"), golden.time, key_shift=shift)[0], "output")


@pytest.mark.parametrize("face", FACES)
def test_self_attention_in_a_loop(face):
    golden = Golden("selfatt_loop_opt0")
    attention = _self_attention(golden, "output/rec/a")

    def body(loop):
        out, loop.state.att = attention(loop.unstack(golden.input("data")), rf.single_step_dim, state=loop.state.att)
        return loop.stack(out)

    state = attention.default_initial_state(batch_dims=[golden.batch])
    golden.check(run_face(face, body, axis=golden.time, att=state)[0], "output")
    golden.check(attention(golden.input("data"), golden.time)[0], "output")


def test_positional_encoding():
    golden = Golden("posenc")
    data = golden.input("data")
    data.feature_dim = data.dims[2]
    golden.check(rf.PositionalEncoding(Dim(6, name="out"))(data, axis=golden.time)[0], "output")
    golden.check(rf.PositionalEncoding(data.dims[2], add_to_input=True)(data, axis=golden.time)[0], "added")


@pytest.mark.parametrize("face", FACES)
def test_positional_encoding_in_a_loop(face):
    golden = Golden("posenc_loop_opt0")
    data, out = golden.input("data"), Dim(3, name="out")
    encoding, linear = rf.PositionalEncoding(data.dims[2], add_to_input=True), rf.Linear(data.dims[2] + out, out)
    values = golden.params("output/rec/output")
    linear.weight.assign(values["W"])
    linear.bias.assign(values["b"])

    def body(loop):
        p, loop.state.position = encoding(loop.unstack(data), axis=rf.single_step_dim, state=loop.state.position)
        both, _ = rf.concat((p, data.dims[2]), (loop.state.h, out))
        loop.state.h = rf.tanh(linear(both))
        return loop.stack(loop.state.h)

    position = encoding.default_initial_state(batch_dims=[golden.batch])
    got, states = run_face(face, body, axis=golden.time, position=position, h=rf.zeros([golden.batch, out]))
    golden.check(got, "output")
    assert states.position.index.numpy().tolist() == (golden["in_len/data"] - 1).tolist()


@pytest.mark.parametrize(
    ("name", "size", "options"),
    [("relposenc", 4, {"clipping": 3}), ("relposenc_fixed", 6, {"clipping": 2, "fixed": True})],
)
def test_relative_positional_encoding(name, size, options):
    golden = Golden(name)
    encoding = rf.RelativePositionalEncoding(Dim(size, name="out"), **options)
    golden.assign(dict(encoding.named_parameters()), "output")
    out = encoding(query_spatial_dim=golden.time)
    assert out.dims[:2] == (golden.time, golden.time.copy(match_priority=-1))
    np.testing.assert_allclose(out.numpy(), golden["out/output"], atol=1e-4)


def _projections(golden: Golden) -> list[rf.Linear]:
    in_dim, key, value = golden.input("data").dims[2], Dim(3, name="key"), Dim(4, name="value")
    modules = [rf.Linear(in_dim, dim, with_bias=False) for dim in (key, key, value)]
    for module, name in zip(modules, "qkv"):
        module.weight.assign(golden.params(f"output/rec/{name}")["W"])
    return modules


@pytest.mark.parametrize("face", FACES)
def test_generalized_self_attention_over_a_history(face):
    golden = Golden("cum_concat_selfatt_opt0")
    q, k, v = _projections(golden)

    def body(loop):
        x = loop.unstack(golden.input("data"))
        keys, history, loop.state.k = rf.cum_concat(k(x), axis=rf.single_step_dim, state=loop.state.k)
        values, _, loop.state.v = rf.cum_concat(v(x), axis=rf.single_step_dim, state=loop.state.v)
        weights = rf.softmax(rf.matmul(q(x), keys, reduce=q.out_dim) * 3**-0.5, axis=history)
        return loop.stack(rf.matmul(weights, values, reduce=history))

    initial = {
        name: rf.cum_concat_initial_state([golden.batch, module.out_dim]) for name, module in (("k", k), ("v", v))
    }
    golden.check(run_face(face, body, axis=golden.time, **initial)[0], "output")


def test_generalized_self_attention_outside_of_the_loop():
    golden = Golden("cum_concat_selfatt_opt0")
    x = golden.input("data")
    q, k, v = _projections(golden)
    keys, history, _ = rf.cum_concat(k(x), axis=golden.time)
    values, same, _ = rf.cum_concat(v(x), axis=golden.time)
    assert history is same and history.length_dims == (golden.time,)
    weights = rf.softmax(rf.matmul(q(x), keys, reduce=q.out_dim) * 3**-0.5, axis=history)
    golden.check(rf.matmul(weights, values, reduce=history), "output")
    golden.check(rf.dot_attention(q(x), keys, values, key_dim=q.out_dim, axis=history), "output")


@pytest.mark.parametrize("face", FACES)
def test_sum_over_a_history(face):
    golden = Golden("cum_concat_raw_last")
    x, out = golden.input("data"), Dim(3, name="h")
    linear = rf.Linear(x.dims[2] + out, out)
    linear.weight.assign(golden.params("output/rec/h")["W"])
    linear.bias.assign(golden.params("output/rec/h")["b"])

    def body(loop):
        both, _ = rf.concat((loop.unstack(x), x.dims[2]), (loop.state.h, out))
        h = rf.tanh(linear(both))
        loop.state.h = h
        collected, history, loop.state.all = rf.cum_concat(h, axis=rf.single_step_dim, state=loop.state.all)
        total = rf.reduce_sum(collected, axis=history)
        return loop.stack(rf.concat((h, out), (total, out))[0])

    initial = {"h": rf.zeros([golden.batch, out]), "all": rf.cum_concat_initial_state([golden.batch, out])}
    golden.check(run_face(face, body, axis=golden.time, **initial)[0], "output")
