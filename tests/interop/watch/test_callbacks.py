"""The callbacks, driven by the trainers they are for; Lightning by a stand-in that calls its documented hooks in their order."""

import sys
import types

import pytest
import torch
from interop.watch.watched_models import Tagger, batches, loss_of, made

import rfnb as rf
from rfnb.viz.show import view_of


class Data(torch.utils.data.Dataset):
    """Sequences with labels, as `transformers.Trainer` takes them."""

    def __init__(self, count):
        self.rows = torch.cat(batches(count))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def trained_by_transformers(tmp_path, watched, spoil=None):
    pytest.importorskip("accelerate")  # without it there is no Trainer
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=3, gradient_accumulation_steps=2, logging_steps=1,
        save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, seed=1, max_grad_norm=0.5,
    )  # fmt: skip
    watch = rf.watch(model, example={"input_ids": batches(1)[0]}, activations=1) if watched else None
    callbacks = [watch.as_trainer_callback()] if watch is not None else []
    if spoil is not None:
        callbacks.append(spoil(transformers, model))
    trainer = transformers.Trainer(model=model, args=args, train_dataset=Data(4), callbacks=callbacks)
    trainer.train()
    return model, watch, trainer


@pytest.fixture(autouse=True)
def quiet(capsys):
    """The logs that the trainer prints are of no interest."""
    yield
    capsys.readouterr()


def test_the_trainer_of_transformers_is_watched_and_trains_the_same_bits(tmp_path):
    plain, _, _ = trained_by_transformers(tmp_path, False)
    model, watch, trainer = trained_by_transformers(tmp_path, True)
    for (name, one), other in zip(plain.named_parameters(), model.parameters()):
        assert torch.equal(one, other), name
    assert watch.closed and watch.counts["updates"] == trainer.state.global_step == 4
    assert watch.counts["batches"] == 8
    assert [one.label for one in watch.examples] == ["0", "1", "2"]
    logged = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert watch.curves["loss"].values == pytest.approx(logged, rel=1e-3) and watch.curves["loss"].steps == [1, 2, 3, 4]
    assert watch.curves["gradient norm before clipping"].steps == [1, 2, 3, 4]
    assert watch.examples[-1].trace.attention  # what is drawn with a slider
    parts = [(part["kind"], part["head"].get("slider")) for part in view_of(watch).spec.head["parts"]]
    assert ("attention", {"name": "epoch", "labels": ["0", "1", "2"]}) in parts


def test_a_trainer_of_transformers_is_stopped_with_the_module(tmp_path):
    def spoil(transformers, model):
        class Spoil(transformers.TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                if state.global_step == 2:
                    model.transformer.h[1].mlp.forward = lambda x: x * torch.nan

        return Spoil()

    with pytest.raises(FloatingPointError, match=r'output of "transformer\.h\.1\.mlp" is NaN'):
        trained_by_transformers(tmp_path, True, spoil)


class Loop:
    """A stand-in for the Trainer of transformers: its own handler of callbacks, called in the documented order."""

    def __init__(self, callback, model, optimizer):
        transformers = pytest.importorskip("transformers")
        from transformers.trainer_callback import CallbackHandler

        self.model, self.optimizer = model, optimizer
        self.state, self.control = transformers.TrainerState(), transformers.TrainerControl()
        self.handler = CallbackHandler([callback], model, None, optimizer, None)

    def call(self, event, **values):
        self.handler.call_event(event, None, self.state, self.control, **values)

    def train(self, data, epochs):
        self.call("on_train_begin")
        for _ in range(epochs):
            self.call("on_epoch_begin")
            for ids in data:
                self.call("on_step_begin")
                loss = loss_of(self.model, ids)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.call("on_step_end")
                self.call("on_log", logs={"loss": float(loss.detach()), "epoch": 0.5, "total_flos": 3.0})
            self.call("on_evaluate", metrics={"eval_loss": 0.25, "eval_runtime": 1.0, "note": "text"})
            self.call("on_epoch_end")
        self.call("on_train_end")


def test_the_callbacks_of_transformers_are_enough():
    model = made(Tagger)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    watch = rf.watch(model, example=(batches(1)[0],))
    Loop(watch.as_trainer_callback(), model, optimizer).train(batches(3), epochs=2)
    assert watch.closed and watch.counts["updates"] == 6
    assert watch.curves["loss"].steps == [1, 2, 3, 4, 5, 6]
    assert watch.curves["eval_loss"].values == [0.25, 0.25]
    assert not {"epoch", "total_flos", "eval_runtime", "note", "loss given to backward"} & set(watch.curves)
    assert [one.label for one in watch.examples] == ["0", "1", "2"]


class Fit:
    """A stand-in for the Trainer of Lightning: its documented hooks in their order, automatic optimization by a closure."""

    sanity_checking, accumulate_grad_batches = False, 2

    def __init__(self, callbacks):
        self.callbacks, self.callback_metrics, self.optimizers, self.losses = callbacks, {}, [], []

    def call(self, hook, *args):
        for callback in self.callbacks:
            getattr(callback, hook, lambda *_: None)(self, *args)

    def fit(self, module, optimizer, data, epochs):
        self.optimizers = [optimizer]
        try:
            self.call("on_train_start", module)
            for _ in range(epochs):
                for number, ids in enumerate(data):
                    outputs = {}

                    def closure(ids=ids, outputs=outputs):
                        outputs["loss"] = loss_of(module, ids)
                        optimizer.zero_grad()
                        outputs["loss"].backward()
                        return outputs["loss"]

                    optimizer.step(closure)
                    self.losses.append(float(outputs["loss"].detach()))
                    self.call("on_train_batch_end", module, {"loss": outputs["loss"].detach() / 2}, ids, number)
                self.callback_metrics["val_loss"] = torch.tensor(0.25)
                self.call("on_validation_end", module)
                self.call("on_train_epoch_end", module)
            self.call("on_train_end", module)
        except BaseException as error:
            self.call("on_exception", module, error)
            raise


@pytest.fixture
def lightning(monkeypatch):
    """The package, as far as it is needed."""
    package, pytorch = types.ModuleType("lightning"), types.ModuleType("lightning.pytorch")
    pytorch.Callback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, "lightning", package)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", pytorch)
    return pytorch


def test_a_fit_of_lightning_is_watched(lightning):
    model = made(Tagger)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    watch = rf.watch(model, example=(batches(1)[0],))
    callback = watch.as_lightning_callback()
    assert isinstance(callback, lightning.Callback)
    fit = Fit([callback])
    fit.fit(model, optimizer, batches(3), epochs=2)
    assert watch.curves["loss"].values == pytest.approx(fit.losses)
    assert watch.closed and watch.counts["updates"] == 6
    assert watch.curves["loss"].steps == [1, 2, 3, 4, 5, 6] and "loss of the closure" not in watch.curves
    assert (watch.curves["val_loss"].steps, watch.curves["val_loss"].values) == ([3, 6], [0.25, 0.25])
    assert [one.label for one in watch.examples] == ["0", "1", "2"]


def test_a_fit_of_lightning_that_fails_leaves_nothing_hooked(lightning):
    model = made(Tagger)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    watch = rf.watch(model)
    with pytest.raises(IndexError):
        Fit([watch.as_lightning_callback()]).fit(model, optimizer, [torch.full((3, 7), 99)], epochs=1)
    assert watch.closed and not optimizer._optimizer_step_pre_hooks and "forward" not in model.__dict__


def test_a_callback_without_its_package_says_so(monkeypatch):
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as error:
        rf.watch(made(Tagger)).as_lightning_callback()
    assert str(error.value).splitlines() == [
        "watch.as_lightning_callback: lightning is not installed.",
        "  looked for  lightning.pytorch.Callback, pytorch_lightning.Callback",
        "The callback is based on it. Your own training loop needs no callback:",
        "    with rf.watch(model, optimizer) as watch: ...",
    ]
