"""The numbers of a watch equal independent computations: norms, updates, activations, clipping, scaling, closures, sparse gradients."""

import warnings

import numpy as np
import pytest
import torch
from interop.watch.watched_models import Encoder, Tagger, batches, loss_of, made, train

import rfnb as rf


def norm(tensors):
    return float(torch.stack([tensor.detach().double().norm() for tensor in tensors]).norm())


def by_module(model):
    """The parameters of each module that has some of its own."""
    found = {path: list(module.parameters(recurse=False)) for path, module in model.named_modules()}
    return {path: parameters for path, parameters in found.items() if parameters}


def test_norms_of_gradients_updates_and_weights_are_those_of_the_modules():
    model = made(Encoder)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    expected = {"gradient norm": [], "update ratio": [], "weight norm": []}
    with rf.watch(model, optimizer, updates=1) as watch:
        for ids in batches(4):
            optimizer.zero_grad()
            loss_of(model, ids).backward()
            expected["gradient norm"].append([norm([p.grad for p in own]) for own in by_module(model).values()])
            before = {path: [p.detach().clone() for p in own] for path, own in by_module(model).items()}
            optimizer.step()
            weights, ratios = [], []
            for path, own in by_module(model).items():
                weights.append(norm(own))
                ratios.append(norm([p - old for p, old in zip(own, before[path])]) / weights[-1])
            expected["weight norm"].append(weights)
            expected["update ratio"].append(ratios)
    for stat, rows in expected.items():
        table = watch.tables[stat, ""]
        assert table.columns == tuple(by_module(model)) and table.steps == [1, 2, 3, 4]
        np.testing.assert_allclose(table.array(), rows, rtol=1e-5)
    total = watch.curves["gradient norm"]
    np.testing.assert_allclose(total.values, np.sqrt((np.array(expected["gradient norm"]) ** 2).sum(1)), rtol=1e-5)


def test_activations_are_described_by_what_the_modules_returned():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.relu, self.tanh = torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Tanh()

        def forward(self, x):
            return self.tanh(4 * self.relu(self.first(x)))

    model = made(Net)
    with torch.no_grad():
        model.first.bias[2] = -100.0  # a dead unit
    x = torch.randn(2, 11, 5)
    first = model.first(x)
    relu = first.relu()
    outputs = {"first": first, "relu": relu, "tanh": (4 * relu).tanh()}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with rf.watch(model, optimizer, activations=1) as watch:
        model(x).square().mean().backward()
        optimizer.step()
    columns = {stat: dict(zip(table.columns, table.rows[0])) for (stat, _), table in watch.tables.items()}
    for path, out in outputs.items():
        out = out.detach()
        assert columns["mean"][path] == pytest.approx(float(out.mean()), abs=1e-6)
        assert columns["std"][path] == pytest.approx(float(out.std(correction=0)), rel=1e-5)
        assert columns["zeros"][path] == pytest.approx(float((out == 0).float().mean()))
        assert columns["largest"][path] == pytest.approx(float(out.abs().max()))
        dead = float((out.abs().amax((0, 1)) == 0).float().mean())
        assert columns["dead units"][path] == pytest.approx(dead)
    assert columns["dead units"]["relu"] > 0
    assert columns["saturated"]["tanh"] == pytest.approx(float((outputs["tanh"].abs() > 0.99).float().mean()))
    assert np.isnan(columns["saturated"]["first"])


def test_entries_are_taken_from_all_over_and_from_all_units():
    from rfnb.interop.watch.activations import MOST_ENTRIES, entries_of

    x = torch.arange(64).float().expand(32 * 256, 64).reshape(32, 256, 64).transpose(0, 1)
    entries = entries_of(x)
    assert entries.numel() <= MOST_ENTRIES and set(entries.tolist()) == set(range(64))
    small = torch.arange(30.0).reshape(5, 6).t()
    assert sorted(entries_of(small).tolist()) == list(range(30))


def test_clipping_is_seen_with_the_norm_before_and_after():
    from torch.nn.utils import clip_grad_norm_  # however it was imported

    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before, after = [], []
    with rf.watch(model, optimizer) as watch:
        for ids, most in zip(batches(3), (0.1, 1e6, 0.05)):
            optimizer.zero_grad()
            loss_of(model, ids).backward()
            before.append(float(clip_grad_norm_(model.parameters(), most)))
            after.append(norm([p.grad for p in model.parameters()]))
            optimizer.step()
    np.testing.assert_allclose(watch.curves["gradient norm before clipping"].values, before, rtol=1e-5)
    np.testing.assert_allclose(watch.curves["gradient norm"].values, after, rtol=1e-4)
    assert watch.counts["clipped"] == 2
    assert "gradients clipped in 2 updates" in watch.summary()


def test_what_a_grad_scaler_skips_is_counted_and_is_no_failure():
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    losses = []
    with rf.watch(model, optimizer, scaler=scaler) as watch:
        for number, ids in enumerate(batches(4)):
            optimizer.zero_grad()
            loss = loss_of(model, ids)
            losses.append(float(loss.detach()))
            scaler.scale(loss * (float("inf") if number == 1 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
        assert "step" in scaler.__dict__
    assert "step" not in scaler.__dict__
    assert (watch.counts["updates"], watch.counts["skipped"], watch.counts["batches"]) == (3, 1, 4)
    del losses[1]
    found = watch.curves["loss given to backward"]
    assert found.steps == [1, 2, 3] and found.values == pytest.approx(losses)  # not as it was scaled
    assert "skipped by the GradScaler: 1 update" in watch.summary()


def test_accumulated_gradients_are_one_point():
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data, losses = batches(6), []
    with rf.watch(model, optimizer) as watch:
        for number, ids in enumerate(data):
            loss = loss_of(model, ids)
            loss.backward()
            watch.log(loss=loss, number=number)
            losses.append(float(loss.detach()))
            if number % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
    assert (watch.counts["updates"], watch.counts["batches"]) == (2, 6)
    assert watch.curves["number"].values == [1.0, 4.0] and watch.curves["number"].steps == [1, 2]
    assert watch.curves["loss"].values == pytest.approx([np.mean(losses[:3]), np.mean(losses[3:])])
    assert watch.curves["gradient norm"].steps == [1, 2]
    assert "loss given to backward" not in watch.curves


def test_what_is_logged_after_a_step_belongs_to_that_step():
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with rf.watch(model, optimizer) as watch:
        train(model, optimizer, batches(3), after=lambda loss: watch.log(loss=loss))
        watch.log(accuracy=rf.convert_to_tensor(0.5, dims=()))
    assert watch.curves["loss"].steps == [1, 2, 3]
    assert (watch.curves["accuracy"].steps, watch.curves["accuracy"].values) == ([3], [0.5])


def test_several_optimizers_have_curves_of_their_own():
    model = made(Tagger)
    named = {
        "recurrent": torch.optim.SGD(model.lstm.parameters(), 0.1),
        "rest": torch.optim.Adam([*model.embedding.parameters(), *model.out.parameters()], 1e-3),
    }
    with rf.watch(model, named, updates=1) as watch:
        for number, ids in enumerate(batches(3)):
            for optimizer in named.values():
                optimizer.zero_grad()
            loss_of(model, ids).backward()
            named["rest"].step()
            if number == 2:
                named["recurrent"].step()
    assert watch.curves["rest lr"].steps == [1, 2, 3] and watch.curves["recurrent lr"].values == [0.1]
    assert watch.tables["update ratio", "rest"].columns == ("embedding", "out")
    assert watch.tables["update ratio", "recurrent"].columns == ("lstm",)
    assert watch.counts["updates"] == 3
    assert "in no optimizer, although they need gradients: norm.weight, norm.bias" in watch.summary()


def test_learning_rates_are_those_of_the_groups_and_of_tensors():
    model = made(Tagger)
    groups = [
        {"params": model.lstm.parameters(), "lr": torch.tensor(0.25)},
        {"params": model.out.parameters(), "lr": 0.5},
    ]
    optimizer = torch.optim.SGD(groups, 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    with rf.watch(model, optimizer) as watch:
        train(model, optimizer, batches(2), after=lambda loss: schedule.step())
    assert watch.curves["lr, group 0"].values == pytest.approx([0.25, 0.125])
    assert watch.curves["lr, group 1"].values == pytest.approx([0.5, 0.25])


def test_a_closure_is_seen_each_time_and_counts_once():
    model = made(Tagger)
    model.dropout.p = 0.0
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    losses = []

    def closure(ids):
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        losses.append(float(loss.detach()))
        return loss

    with rf.watch(model, optimizer, updates=1) as watch:
        for ids in batches(2):
            optimizer.step(lambda ids=ids: closure(ids))
            last = len(losses)
    assert watch.counts["updates"] == 2 and len(losses) > 2
    assert watch.curves["loss of the closure"].steps == [1, 2]
    assert watch.curves["loss of the closure"].values[-1] == pytest.approx(losses[last - 1])
    assert watch.curves["gradient norm"].steps == [1, 2] and "loss given to backward" not in watch.curves
    assert watch.tables["update ratio", ""].steps == [1, 2]


@pytest.mark.parametrize("by_name", [False, True])
def test_an_optimizer_gets_back_what_its_closure_returns(by_name):
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def closure():
        loss = loss_of(model, batches(1)[0])
        loss.backward()
        return loss

    with rf.watch(model, optimizer) as watch:
        loss = optimizer.step(closure=closure) if by_name else optimizer.step(closure)
    assert watch.curves["loss of the closure"].values == pytest.approx([float(loss)])


def test_sparse_gradients_have_the_norm_of_the_dense_ones():
    found = []
    for sparse in (False, True):
        model = made(Tagger)
        model.embedding.sparse = sparse
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with rf.watch(model, optimizer, updates=1) as watch:
            train(model, optimizer, [torch.tensor([[1, 1, 2], [2, 2, 1]])])
            assert model.embedding.weight.grad.is_sparse is sparse
        found.append([watch.tables[stat, ""].array() for stat in ("gradient norm", "update ratio")])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_shared_and_frozen_parameters_are_counted_once_and_said():
    class Tied(Tagger):
        def __init__(self):
            super().__init__()
            self.small = torch.nn.Linear(8, 6)
            self.out = torch.nn.Linear(6, 11)
            self.out.weight = self.embedding.weight
            self.lstm.weight_hh_l0.requires_grad_(False)

        def forward(self, ids):
            return self.out(self.small(self.lstm(self.embedding(ids))[0]))

    model = made(Tied)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with rf.watch(model, optimizer) as watch:
        train(model, optimizer, batches(2))
    row = dict(zip(watch.tables["gradient norm", ""].columns, watch.tables["gradient norm", ""].rows[-1]))
    assert row["embedding"] == pytest.approx(norm([model.embedding.weight.grad]))
    assert row["out"] == pytest.approx(norm([model.out.bias.grad]))
    assert row["norm"] == -1  # it is not called
    text = watch.summary()
    assert "shared: out.weight is embedding.weight" in text and "frozen: lstm.weight_hh_l0" in text
    assert "no gradient so far: norm" in text


def test_half_precision_is_summed_in_single():
    model = torch.nn.Linear(300, 300).half()
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    with rf.watch(model, optimizer, on_nan="ignore") as watch:
        model.weight.grad = torch.full((300, 300), 1000.0, dtype=torch.float16)  # its norm is no half any more
        optimizer.step()
    assert watch.curves["gradient norm"].values == pytest.approx([300_000.0], rel=1e-3)


def test_a_large_model_is_measured_in_turns(monkeypatch):
    from rfnb.interop.watch import optimizer_steps

    monkeypatch.setattr(optimizer_steps, "ROOM", 600)
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with rf.watch(model, optimizer, updates=1) as watch:
        train(model, optimizer, batches(12))
    rows = watch.tables["update ratio", ""].array()
    assert (rows == -1).any(1).all() and (rows >= 0).any(0).all()  # never all at once, each in its turn


def test_a_module_of_rfnb_is_watched_with_its_paths():
    from rfnb.models.g2p import G2P, G2PConfig
    from rfnb.models.g2p_training import Recipe, Trainer

    states = []
    for watched in (False, True):
        torch.manual_seed(1)
        rf.set_random_seed(1)
        model = G2P(G2PConfig(embedding=8, encoder=6, encoder_layers=1, decoder=10))
        trainer = Trainer(model, examples(), Recipe(epochs=1, batch_size=4))
        if watched:
            with rf.watch(model, trainer.optimizer, activations=1, updates=1) as watch:
                for _ in range(3):
                    trainer.step()
        else:
            for _ in range(3):
                trainer.step()
        states.append([parameter.raw_tensor.detach().clone() for parameter in model.parameters()])
    assert all(map(torch.equal, *states))
    assert watch.counts["updates"] == 3
    paths = {name.rpartition(".")[0] for name, _ in model.named_parameters()}
    assert set(watch.tables["gradient norm", ""].columns) == paths
    called = watch.tables["std", ""]
    known = dict(zip(called.columns, called.rows[-1]))
    assert sum(np.isfinite(value) for value in known.values()) >= 3
    assert len(watch.curves["loss given to backward"].values) == 3


def examples():
    from rfnb.data.batching import examples_of

    words = {
        "cat": ["K AE T"],
        "dog": ["D AO G"],
        "though": ["DH OW"],
        "see": ["S IY"],
        "key": ["K IY"],
        "at": ["AE T"],
    }
    return examples_of({word: [tuple(each.split()) for each in of] for word, of in words.items()}, max_letters=12) * 3


def test_the_bridge_of_a_module_is_watched_as_the_module():
    from rfnb.interop.torch_module import rf_module_to_pt_module

    dim, out = rf.Dim(5, name="in"), rf.Dim(3, name="out")
    linear = rf.Linear(dim, out)
    bridge = rf_module_to_pt_module(linear)
    optimizer = torch.optim.SGD(bridge.parameters(), 0.1)
    batch = rf.Dim(4, name="batch")
    with rf.watch(bridge, optimizer, activations=1) as watch:
        loss = bridge(rf.random_normal([batch, dim])).raw_tensor.square().mean()
        loss.backward()
        optimizer.step()
    assert watch.tables["gradient norm", ""].columns == ("",)
    assert np.isfinite(watch.tables["std", ""].array()).all()


def test_numbers_of_a_device_come_a_step_later_and_in_order(monkeypatch):
    """With a stand-in for what a GPU has not computed yet."""
    from rfnb.interop.watch.scalar_reads import ScalarReads

    late, got = ScalarReads(), []
    ready = [False]

    class Event:
        def query(self):
            return ready[0]

        def synchronize(self):
            ready[0] = True

    late._waiting.append(([torch.tensor([1.0], dtype=torch.float64)], [Event()], lambda values: got.append(values[0])))
    late.put([torch.tensor(2.0)], lambda values: got.append(values[0]))
    late.put([torch.tensor([3.0]), torch.tensor([4.0, 5.0], dtype=torch.float64), torch.tensor(6.0)], got.append)
    late.fetch()
    assert got == []
    late.finish()
    assert got[:2] == [1.0, 2.0] and got[2].tolist() == [3.0, 4.0, 5.0, 6.0]


def test_a_pace_keeps_to_its_share():
    from rfnb.interop.watch.optimizer_steps import FREE, MOST, Pace

    def looks(steps: int, cost: float, step_seconds: float) -> list[int]:
        pace, looked = Pace(0.01), []
        for step in range(steps):
            if pace.due(step):
                looked.append(step)
                pace.pay(cost)
                pace.done(step, step_seconds)
        return looked

    # Half a step each time: one per fifty steps and one, after the beginning.
    large = looks(2000, 0.05, 0.1)
    assert large[:8] == [0, 1, 2, 3, 4, 5, 6, 7] and set(np.diff(large[30:])) == {51} and len(large) < 30 + 2000 / 51
    # As long as half a step of a small model: all of the beginning, then ever fewer, and in the long run what is asked for.
    small = np.array(looks(20_000, 2**-12, 2**-11))
    assert small[:201].tolist() == list(range(201)) and max(np.diff(small)) <= MOST
    assert len(small) * 2**-12 <= FREE + 0.01 * 20_000 * 2**-11 + 2**-12
    assert max((np.diff(small) - 1) * 5 / small[:-1].clip(1)) <= 1
    free = Pace(0.01)
    free.pay(1e9)
    free.done(1000, 0.1)
    assert not free.due(1000 + MOST - 1) and free.due(1000 + MOST)
    assert [step for step in range(6) if Pace(0.01, 2).due(step)] == [0, 2, 4] and not Pace(0.01, 0).due(0)


def test_no_warnings_come_of_watching():
    model = made(Encoder)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rf.watch(model, optimizer, activations=1, updates=1, example=(batches(1)[0],)) as watch:
            train(model, optimizer, batches(2))
            watch.epoch()
        watch.summary()
