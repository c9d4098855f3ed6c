"""Training on a device: the numbers of the CPU, no step that waits, and states that go on there bit by bit."""

import dataclasses
import gc
import hashlib
import io
import json

import numpy as np
import pytest
import torch
from models.tiny import RECIPE, TINY, WORDS, make_model
from safetensors.numpy import load_file
from simulated import NAME, watched

import rfnb as rf
from rfnb.data import cmudict
from rfnb.data.batching import examples_of
from rfnb.models import dates as date_models
from rfnb.models import number_words, train_g2p
from rfnb.models.g2p_checkpoint import load_g2p, save_g2p
from rfnb.models.g2p_live import attention_of, train_live
from rfnb.models.g2p_search import beam_search, evaluate, score
from rfnb.models.g2p_training import Trainer, losses_of

EXAMPLES = examples_of(WORDS)
EXACT = 0.0 if NAME == "sim" else 1e-4  # a GPU may add up in another order each time
WITHOUT_DROPOUT = dataclasses.replace(TINY, dropout=0.0)
only_simulated = pytest.mark.skipif(NAME != "sim", reason="a GPU draws other numbers, and copies are not seen there")
pytestmark = pytest.mark.usefixtures("one_thread")


def trainer_on(device, seed=1, config=TINY):
    model = make_model(seed, config)
    model.to(device=device)
    return Trainer(model, EXAMPLES, RECIPE)


def train(trainer, steps):
    return losses_of([trainer.step() for _ in range(steps)])


def weights(trainer):
    return [parameter.detach().cpu() for parameter in trainer.parameters]


def assert_same_weights(one, other, atol=0.0):
    for a, b in zip(weights(one), weights(other), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("config", [WITHOUT_DROPOUT, pytest.param(TINY, marks=only_simulated)])
def test_losses_and_weights_are_those_of_the_cpu(config):
    on_cpu, on_device = (trainer_on(device, config=config) for device in ("cpu", NAME))
    expected = train(on_cpu, 6)
    torch.manual_seed(RECIPE.seed)
    assert train(on_device, 6) == pytest.approx(expected, rel=1e-5)  # the LSTM of the CPU is another kernel
    assert {parameter.device.type for parameter in on_device.parameters} == {NAME}
    assert_same_weights(on_device, on_cpu, atol=1e-4)


def test_no_step_waits_and_the_losses_of_many_are_read_at_once():
    trainer = trainer_on(NAME)
    trainer.step()
    with watched() as seen:
        reports = [trainer.step() for _ in range(7)]
    assert seen.waits == []
    if NAME == "sim":
        assert len(seen.moved) == 7 * 4  # letters, inputs, targets, and what counts of them
    with watched() as seen:
        losses = losses_of(reports)
    assert len(seen.waits) == 1 and len(losses) == 7
    assert [report.loss for report in reports] == losses


def test_a_loss_that_is_asked_for_twice_is_read_once():
    report = trainer_on(NAME).step()
    with watched() as seen:
        assert report.loss == report.loss
    assert len(seen.waits) == 1


def test_nothing_of_a_step_is_kept_by_the_next_ones():
    trainer = trainer_on(NAME)
    train(trainer, trainer.steps_per_epoch)

    def tensors():
        gc.collect()
        kinds = torch.Tensor, torch.nn.Parameter
        return sum(type(x) in kinds and x.device.type == NAME for x in gc.get_objects())

    counts = []
    for _ in range(3):
        train(trainer, trainer.steps_per_epoch)
        counts.append(tensors())
    assert counts[0] == counts[1] == counts[2]


def test_training_goes_on_from_a_state_bit_by_bit(tmp_path):
    straight = trainer_on(NAME)
    losses = train(straight, 9)

    stopped = trainer_on(NAME)
    first = train(stopped, 4)
    stopped.save(tmp_path / "state.pt", seconds=1.5)
    torch.manual_seed(99)

    resumed = trainer_on(NAME, seed=2)
    torch.rand(5, device=NAME)
    assert resumed.load(tmp_path / "state.pt") == {"seconds": 1.5}
    assert first + train(resumed, 5) == pytest.approx(losses, rel=EXACT, abs=0)
    assert_same_weights(resumed, straight, atol=EXACT)


@pytest.mark.parametrize(("there", "here"), [(NAME, "cpu"), ("cpu", NAME)])
def test_a_state_of_another_kind_of_device_goes_on(tmp_path, there, here):
    straight = trainer_on(there, config=WITHOUT_DROPOUT)
    train(straight, 4)
    straight.save(tmp_path / "state.pt")
    moved = trainer_on(here, seed=2, config=WITHOUT_DROPOUT)
    moved.load(tmp_path / "state.pt")
    assert_same_weights(moved, straight)
    assert {parameter.device.type for parameter in moved.parameters} == {here}
    # The moments of the optimizer have come along.
    assert train(moved, 3) == pytest.approx(train(straight, 3), rel=1e-5)
    assert_same_weights(moved, straight, atol=1e-4)


def test_dropout_on_another_kind_of_device_is_the_same_after_each_load(tmp_path):
    straight = trainer_on("cpu")
    train(straight, 4)
    straight.save(tmp_path / "state.pt")
    found = []
    for seed in (5, 6):
        moved = trainer_on(NAME, seed)
        torch.manual_seed(seed)
        moved.load(tmp_path / "state.pt")
        found.append(train(moved, 3))
    assert found[0] == pytest.approx(found[1], rel=EXACT, abs=0)


def test_a_stored_state_has_values_of_the_host_only(tmp_path):
    trainer = trainer_on(NAME)
    train(trainer, 2)
    trainer.save(tmp_path / "state.pt")
    data = (tmp_path / "state.pt").read_bytes()
    stored = torch.load(io.BytesIO(data[data.index(b"\n") + 1 + hashlib.sha256().digest_size :]), weights_only=True)
    leaves = [x for x in torch.utils._pytree.tree_leaves(stored) if isinstance(x, torch.Tensor)]
    assert len(leaves) > 60 and {x.device.type for x in leaves} == {"cpu"}
    assert torch.equal(stored[f"generator of {NAME}"], torch.get_device_module(NAME).get_rng_state(NAME))


def test_words_are_pronounced_where_the_model_is(tmp_path):
    on_cpu, words = make_model(), list(WORDS)
    save_g2p(on_cpu, tmp_path / "model", dtype="float32")
    on_device = load_g2p(tmp_path / "model", device=NAME)
    assert on_device.device == f"{NAME}:0" and rf.get_default_device() is None
    for one, other in zip(beam_search(on_device, words, beam_size=3), beam_search(on_cpu, words, beam_size=3)):
        assert [str(found) for found in one] == [str(found) for found in other]
        assert [found.score for found in one] == pytest.approx([found.score for found in other], rel=1e-5)
    said = [WORDS[word][0] for word in words]
    assert score(on_device, words, said) == pytest.approx(score(on_cpu, words, said), rel=1e-5)
    assert evaluate(on_device, WORDS) == evaluate(on_cpu, WORDS)
    one, other = attention_of(on_device, "beta"), attention_of(on_cpu, "beta")
    assert one.target == other.target and one.weights == pytest.approx(other.weights, abs=1e-5)


def test_a_model_is_loaded_where_new_tensors_are_made(tmp_path):
    save_g2p(make_model(), tmp_path / "model")
    with rf.set_default_device_ctx(NAME):
        assert load_g2p(tmp_path / "model").device == f"{NAME}:0"
        assert load_g2p(tmp_path / "model", device="cpu").device == "cpu"


def test_a_live_training_reads_its_losses_once_for_each_report():
    with rf.set_default_device_ctx(NAME):
        training = train_live(
            steps=12, every=4, seconds=1e9, word="beta", word_every=1e9, dev_every=1e9, config=make_model().config,
            recipe=RECIPE, train=WORDS, dev=WORDS,
        )  # fmt: skip
        next(training)  # draws the word, too
        with watched() as seen:
            report = next(training)
    assert report.step == 8 and len(seen.waits) == 1


def test_the_command_trains_on_the_device_it_is_told_and_goes_on_there(tmp_path, monkeypatch, capsys):
    split = cmudict.Split(train=WORDS, dev=WORDS, test=WORDS, figures={}, differences=())
    monkeypatch.setattr(train_g2p, "load_cmudict", lambda: split)
    monkeypatch.setattr(train_g2p, "G2PConfig", lambda dropout=0.2: dataclasses.replace(TINY, dropout=dropout))
    options = "--epochs 2 --batch-size 3 --save-every 3 --bar-every 600 --threads 1 --device".split()

    def run(folder, device=NAME):
        return train_g2p.main(["--out", str(tmp_path / folder), *options, device])

    def log_of(folder):
        lines = [json.loads(line) for line in (tmp_path / folder / "log.jsonl").read_text().splitlines()]
        return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]

    assert run("straight") == 0
    assert f"parameters on {NAME}:0, " in capsys.readouterr().out
    assert f"--threads 1 --device {NAME}" in (tmp_path / "straight/g2p.md").read_text()
    step = Trainer.step
    monkeypatch.setattr(Trainer, "step", lambda self: step(self) if self.steps_done < 4 else stop())
    assert run("stopped") == 130
    monkeypatch.setattr(Trainer, "step", step)
    assert run("stopped") == 0 and "going on at step 3" in capsys.readouterr().out
    if NAME == "sim":
        assert log_of("stopped") == log_of("straight")
    stopped, straight = (load_file(tmp_path / name / "g2p.safetensors") for name in ("stopped", "straight"))
    assert stopped.keys() == straight.keys()
    assert all(abs(stopped[name] - straight[name]).max() <= EXACT for name in stopped)
    assert run("straight", "cpu") == 0
    assert f"going on at step {log_of('straight')[-1]['step']}" in capsys.readouterr().out


def stop():
    raise KeyboardInterrupt


def test_the_command_names_a_device_that_there_is_not(capsys):
    with pytest.raises(SystemExit):
        train_g2p.main(["--device", "nowhere"])
    assert f"--device: there is no 'nowhere' here (torch {torch.__version__})" in capsys.readouterr().err


def losses_and_results(device):
    """Of the small models of the course: steps of training, a search, and words counted."""
    rf.set_random_seed(1)
    numbers, dates = number_words.NumberModel(attention=True, units=12), date_models.DateModel(units=8)
    for model in (numbers, dates):
        model.to(device=device)
    some = np.array([7, 42, 900, 4217])
    losses = [*number_words.train(numbers, some, steps=2, batch_size=3)]
    losses += [*number_words.train(numbers, some, steps=1, batch_size=3, ratio=0.5)]
    losses += [*date_models.train(dates, steps=2, batch_size=3)]
    found = number_words.say(numbers, some, begin="four"), number_words.right_words(numbers, some, wrong_at=1)
    return losses, (*found, date_models.write(dates, ["3 march 2021"], beam_size=2))


@only_simulated
def test_models_of_the_course_take_numbers_and_words_where_they_are():
    losses, results = losses_and_results("cpu")
    of_device, same = losses_and_results(NAME)
    assert of_device == pytest.approx(losses, rel=1e-4) and same == results
