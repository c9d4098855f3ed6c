"""`rf.from_torch`: torch modules inside of models, called with Tensors, trained and stored with the rest."""

import copy
import pickle

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, with_nan_padding
from torch import nn

import rfnb as rf
from rfnb import Dim, Tensor
from rfnb.nn.run import run_ctx

BATCH, FEAT, OUT = Dim(3, name="batch"), Dim(4, name="feat"), Dim(5, name="out")
LENGTHS = [7, 2, 5]


@pytest.fixture(autouse=True)
def fresh():
    rf.set_random_seed(1)
    torch.manual_seed(1)
    before = run_ctx._current.get()
    run_ctx._current.set(run_ctx._INIT)
    yield
    run_ctx._current.set(before)


@pytest.fixture
def time():
    return ragged(LENGTHS, BATCH)


def rows(x, time):
    """(a row of a batch, its raw array (1, length, feature)) of each sequence."""
    raw = x.copy_transpose([BATCH, time, *x.remaining_dims([BATCH, time])]).raw_tensor
    return [(row, raw[row : row + 1, :length]) for row, length in enumerate(LENGTHS)]


class Mixed(rf.Module):
    """A model of rfnb with parts of torch, set as they are."""

    def __init__(self):
        self.first = rf.Linear(FEAT, OUT)
        self.relu, self.drop = nn.ReLU(), nn.Dropout(0.5)
        self.last = rf.from_torch(nn.Linear(5, 2), in_dim=OUT)

    def __call__(self, x):
        return self.last(self.drop(self.relu(self.first(x))))


# -- layers ------------------------------------------------------------------------------------------------------------
def test_layers_of_frames_whatever_the_order_of_dims(time):
    plain = nn.Linear(4, 5)
    linear = rf.from_torch(plain, in_dim=FEAT)
    for dims in ([BATCH, time, FEAT], [FEAT, time, BATCH], [FEAT]):
        x = randn(*dims)
        out = linear(x)
        assert linear.out_dim.size == 5 and set(out.dims) == {*dims, linear.out_dim} - {FEAT}
        order = [dim for dim in dims if dim is not FEAT]
        assert_same(
            out, Tensor(dims=[*order, linear.out_dim], raw_tensor=plain(x.copy_transpose([*order, FEAT]).raw_tensor))
        )
    named = rf.from_torch(nn.Linear(4, 5), in_dim=FEAT, out_dim=OUT)
    assert OUT in named(randn(BATCH, FEAT)).dims and named.out_features == 5
    norm = nn.LayerNorm(4)
    x = randn(FEAT, BATCH)
    assert_same(rf.from_torch(norm, FEAT)(x), Tensor(dims=[BATCH, FEAT], raw_tensor=norm(x.raw_tensor.T)))


def test_embedding_takes_labels():
    vocab = Dim(11, name="vocab")
    plain = nn.Embedding(11, 4)
    embedding = rf.from_torch(plain, out_dim=FEAT)
    ids = rf.random_uniform([BATCH], dtype="int64", minval=0, maxval=11, sparse_dim=vocab)
    assert_same(embedding(ids), Tensor(dims=[BATCH, FEAT], raw_tensor=plain(ids.raw_tensor)))
    with raises_message(
        rf.DimError,
        """
        from_torch: Embedding of other labels.
          source  [batch=3], sparse_dim none
          needs   a sparse_dim of size 11
        The integers are indices into a dim of the size that the module was made with.
            rf.set_sparse_dim(source, vocab)
        """,
    ):
        embedding(rf.zeros([BATCH], dtype="int64"))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_end_where_each_sequence_ends(kind, layers, bidirectional, batch_first, time):
    plain = kind(4, 5, layers, bidirectional=bidirectional, batch_first=batch_first)
    module = rf.from_torch(plain, in_dim=FEAT)
    x = randn(time, FEAT, BATCH)
    out, state = module(with_nan_padding(x), spatial_dim=time)
    assert set(out.dims) == {BATCH, time, module.out_dim} and module.out_dim.size == (10 if bidirectional else 5)
    got = out.copy_transpose([BATCH, time, module.out_dim]).raw_tensor
    assert list(state) == (["h", "c"] if kind is nn.LSTM else ["h"])
    for row, raw in rows(x, time):
        wanted, last = plain(raw if batch_first else raw.transpose(0, 1))
        wanted = wanted if batch_first else wanted.transpose(0, 1)
        torch.testing.assert_close(got[row, : raw.shape[1]], wanted[0])
        for name, value in zip(state, last if isinstance(last, tuple) else (last,)):
            there = state[name].copy_transpose(
                [*([module.layers_dim] if module.layers_dim else []), BATCH, module.state_dim]
            )
            torch.testing.assert_close(there.raw_tensor.reshape(value.shape[0], 3, 5)[:, row], value[:, 0])


def test_an_lstm_steps_in_a_loop_and_with_a_projection(time):
    for plain in (nn.LSTM(4, 5), nn.LSTM(4, 5, proj_size=2)):
        module = rf.from_torch(plain, in_dim=FEAT)
        x = randn(BATCH, time, FEAT)
        whole, last = module(x, spatial_dim=time)
        loop = rf.Loop(axis=time)
        loop.state.s = module.default_initial_state(batch_dims=[BATCH])
        for _ in loop:
            out, loop.state.s = module(loop.unstack(x), state=loop.state.s, spatial_dim=rf.single_step_dim)
            outs = loop.stack(out)
        assert_same(outs, whole)
        assert_same(loop.state.s.c, last.c)


def test_a_sequence_without_frames_keeps_its_state():
    time = ragged([3, 0, 2], BATCH)
    module = rf.from_torch(nn.GRU(4, 5), in_dim=FEAT)
    first = rf.State(h=randn(BATCH, module.state_dim))
    _, last = module(randn(BATCH, time, FEAT), spatial_dim=time, state=first)
    torch.testing.assert_close(last.h.raw_tensor[1], first.h.raw_tensor[1])
    assert not torch.equal(last.h.raw_tensor[0], first.h.raw_tensor[0])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_a_transformer_encoder_does_not_see_padding(batch_first, time):
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=batch_first)
    for plain in (layer, nn.TransformerEncoder(layer, 2)):
        module = rf.from_torch(plain, in_dim=FEAT)
        x = randn(BATCH, time, FEAT)
        for ctx in (torch.no_grad(), torch.enable_grad()):  # without gradients torch takes its fast path
            with ctx:
                out = module(x, spatial_dim=time)
                assert out.dims == (BATCH, time, FEAT)
                plain.eval()
                for row, raw in rows(x, time):
                    wanted = plain(raw if batch_first else raw.transpose(0, 1))
                    wanted = wanted if batch_first else wanted.transpose(0, 1)
                    torch.testing.assert_close(out.raw_tensor[row, : raw.shape[1]], wanted[0], rtol=1e-4, atol=1e-5)
                plain.train()


def test_a_sequential_passes_the_features_on():
    plain = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 2))
    module = rf.from_torch(plain, in_dim=FEAT)
    x = randn(FEAT, BATCH)
    out = module(x)
    assert_same(out, Tensor(dims=[BATCH, out.feature_dim], raw_tensor=plain(x.raw_tensor.T)))
    assert [name for name, _ in module.named_parameters()] == [name for name, _ in plain.named_parameters()]


class Normed(nn.Module):
    """Somebody's own module: (batch, features) -> (batch, 5)."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 5), nn.BatchNorm1d(5)

    def forward(self, x):
        return self.norm(self.linear(x))


def test_axes_of_other_modules_are_said(time):
    plain = Normed()
    module = rf.from_torch(plain, inputs=["batch", FEAT], outputs=["batch", OUT])
    x = randn(FEAT, BATCH)
    with rf.init_train_step_run_ctx():
        out = module(x)
    assert plain.norm.num_batches_tracked == 1
    assert out.dims == (BATCH, OUT) and abs(out.raw_tensor.mean(0)).max() < 1e-5
    framewise = rf.from_torch(plain.linear, inputs=[..., "feat"], outputs=[..., OUT])
    x = randn(time, FEAT, BATCH)
    assert_same(framewise(x), rf.from_torch(plain.linear, FEAT, OUT)(x))


# -- parts of a model --------------------------------------------------------------------------------------------------
def test_parameters_of_torch_parts_are_found_trained_and_stored(tmp_path):
    model, x = Mixed(), randn(BATCH, FEAT)
    names = ["first.weight", "first.bias", "last.weight", "last.bias"]
    assert [name for name, _ in model.named_parameters()] == names
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    before = model.last.pt_module.weight.detach().clone()
    with rf.init_train_step_run_ctx():
        loss = rf.reduce_sum(rf.square(model(x)), axis=[BATCH, model.last.out_dim])
        loss.raw_tensor.backward()
        assert torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0) > 0
        optimizer.step()
    assert (model.last.pt_module.weight != before).all()
    rf.save_params(model, tmp_path / "model.npz")
    other = Mixed()
    rf.set_params(other, rf.load_params(tmp_path / "model.npz"))
    assert torch.equal(other.last.pt_module.weight, model.last.pt_module.weight)
    assert list(rf.as_torch(model).state_dict()) == names


@pytest.mark.parametrize("through", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_have_parameters_of_their_own(through):
    model, x = Mixed(), randn(BATCH, FEAT)
    other, dims = through((model, FEAT))
    other.last.weight.assign(0.0)
    assert not other.last.pt_module.weight.any() and model.last.pt_module.weight.any()
    assert other.last.out_dim.size == 2 and other.last.in_features == 5
    assert model(x).dims == (BATCH, model.last.out_dim) and dims.size == 4


def test_one_torch_module_in_two_places_has_one_set_of_parameters():
    plain = nn.Linear(4, 4)
    model = rf.Module()
    model.a, model.b = plain, plain
    assert [name for name, _ in model.named_parameters()] == ["a.weight", "a.bias"]
    assert model.a.weight is model.b.weight


def test_containers_take_torch_modules():
    plain = nn.Linear(4, 5)
    both = rf.Sequential(rf.from_torch(plain, FEAT, OUT), nn.ReLU(), rf.Linear(OUT, FEAT))
    assert [name for name, _ in both.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert (both(randn(BATCH, FEAT)).dims) == (BATCH, FEAT)
    assert [name for name, _ in rf.ModuleList([plain]).named_parameters()] == ["0.weight", "0.bias"]


def test_dropout_of_torch_drops_in_training_steps_only():
    model, x = Mixed(), randn(BATCH, FEAT)
    assert model.drop.training
    assert_same(model(x), model(x))
    with rf.init_forward_step_run_ctx():
        assert_same(model(x), model(x))
    with rf.init_train_step_run_ctx():
        assert not torch.equal(model(x).raw_tensor, model(x).raw_tensor)
        model.drop.eval()
        assert_same(model(x), model(x))
    assert model.relu.training and not model.drop.training


def test_it_rests_until_the_last_of_two_threads_has_left():
    """Two calls at the same time, in the order in which the flag would be put back too early."""
    from rfnb.interop.torch_layers import _rests

    module = nn.Dropout(0.5)
    first, second = _rests(module), _rests(module)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not module.training
    second.__exit__(None, None, None)
    assert module.training


def test_as_torch_says_to_parts_of_torch_whether_they_train():
    pt = rf.as_torch(Mixed(), ["batch", FEAT])
    x = torch.randn(3, 4)
    assert not torch.equal(pt(x), pt(x))
    pt.drop.eval()
    assert torch.equal(pt(x), pt(x))
    pt.train()
    assert not torch.equal(pt(x), pt(x))
    pt.eval()
    assert torch.equal(pt(x), pt(x))


def test_raw_arrays_go_to_the_torch_module():
    plain = nn.Linear(4, 5)
    raw = torch.randn(3, 4)
    assert torch.equal(rf.from_torch(plain)(raw), plain(raw))


# -- bad input ---------------------------------------------------------------------------------------------------------
def test_features_that_nobody_has_named_are_asked_for():
    model = rf.Module()
    model.linear = nn.Linear(3, 5)  # batch has this size, too
    with raises_message(
        rf.DimError,
        """
        from_torch: several dims could have the 3 features of Linear.
          source  [batch=3, feat=4]
        It is in_dim, or else the dim that the Tensor has marked as feature_dim. Other axes have this size by chance.
            rf.from_torch(Linear(...), in_dim=...)
        """,
    ):
        model.linear(randn(BATCH, FEAT))
    with raises_message(
        rf.DimError,
        """
        from_torch: in_dim does not fit Linear.
          in_dim  feat=4
          needs   3
        The features have the size that the module was made with. Name the other axes in their order:
            rf.from_torch(module, inputs=[..., in_dim], outputs=[..., out_dim])
        """,
    ):
        rf.from_torch(nn.Linear(3, 5), in_dim=FEAT)


def test_modules_of_which_nothing_tells_the_axes_are_refused():
    with raises_message(
        TypeError,
        """
        from_torch: which axis is which in Conv1d?
          argument 0  Tensor [batch=3, feat=4]
        torch knows axes by their order, and a Tensor has none. It is clear for layers of frames (Linear, LayerNorm, ReLU, ...),
        Embedding, LSTM, GRU, RNN, TransformerEncoder and Sequential of these. Otherwise name the axes, or give raw arrays:
            rf.from_torch(module, inputs=["batch", "time", feat], outputs=["batch", "time", out])
        """,
    ):
        rf.from_torch(nn.Conv1d(4, 5, 3))(randn(BATCH, FEAT))


def test_padding_that_a_module_would_see_is_refused(time):
    module = rf.from_torch(
        nn.Conv1d(4, 5, 3, padding=1), inputs=["batch", FEAT, "time"], outputs=["batch", OUT, "time"]
    )
    with raises_message(
        rf.DimError,
        f"""
        from_torch: Conv1d would see the padding of {time.short_repr()}.
          source  [batch=3, {time.short_repr()}, feat=4]
          inputs  batch feat time
        A module of torch does not know where sequences end, and `...` is for dims that it goes through entry by entry. Call it with
        raw arrays, and with the mask that it wants:
            module(x.raw_tensor, mask=rf.sequence_mask([batch, time]).raw_tensor)
        """,
    ):
        module(randn(BATCH, time, FEAT))
    static = Dim(6, name="time")
    assert module(randn(BATCH, static, FEAT)).dims == (BATCH, OUT, static)


@pytest.mark.parametrize(
    ("make", "what", "line"),
    [
        (lambda: torch.jit.script(nn.Linear(3, 5)), "scripted", "rf.from_torch(module)    # before torch.jit.script"),
        (lambda: torch.compile(nn.Linear(3, 5)), "compiled", "rf.from_torch(module._orig_mod)"),
        (lambda: nn.LazyLinear(5), "not initialised", "module(torch.zeros(...))"),
        (
            lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 5)), {nn.Linear}),
            "quantised",
            "rf.from_torch(module)    # before it is quantised",
        ),
    ],
    ids=["scripted", "compiled", "lazy", "quantised"],
)
@pytest.mark.filterwarnings("ignore")
def test_modules_whose_parameters_are_not_their_own_are_refused(make, what, line):
    with pytest.raises(TypeError) as caught:
        rf.from_torch(make())
    first, *_, last = str(caught.value).splitlines()
    assert first == f"from_torch: this module is {what}." and last.strip() == line
