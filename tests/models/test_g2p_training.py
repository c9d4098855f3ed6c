"""Training: the schedule, and a kill in the middle that changes nothing."""

import pytest
import torch
from asserting import raises_message
from models.tiny import RECIPE, WORDS, make_model

from rfnb.data.batching import examples_of
from rfnb.models.g2p_checkpoint import CheckpointError
from rfnb.models.g2p_training import Recipe, Trainer, learning_rate


def weights(trainer):
    return {name: parameter.raw_tensor.detach().clone() for name, parameter in trainer.model.named_parameters()}


def run(trainer, steps=None):
    losses = []
    while not trainer.finished and (steps is None or len(losses) < steps):
        losses.append(trainer.step().loss)
    return losses


def test_learning_rate_warms_up_and_goes_to_zero():
    recipe = Recipe(learning_rate=2.0, warm_up=0.1)
    assert learning_rate(recipe, 0) == 0
    assert learning_rate(recipe, 0.05) == pytest.approx(2.0 * 0.5 * 0.95)
    assert learning_rate(recipe, 0.1) == pytest.approx(1.8)
    assert learning_rate(recipe, 0.5) == pytest.approx(1.0)
    assert learning_rate(recipe, 1) == 0
    assert learning_rate(Recipe(learning_rate=2.0, warm_up=0), 0.5) == pytest.approx(1.0)


def test_training_learns_the_words(examples):
    trainer = Trainer(make_model(), examples, Recipe(epochs=40, batch_size=2, learning_rate=2e-2, seed=3))
    losses = run(trainer)
    assert losses[-1] < 0.6 * losses[0]
    assert trainer.epoch == 40


@pytest.mark.parametrize("cut", [1, 7, 12])
def test_training_goes_on_after_a_kill_bit_by_bit(tmp_path, examples, cut):
    straight = Trainer(make_model(), examples, RECIPE)
    losses = run(straight)

    killed = Trainer(make_model(), examples, RECIPE)
    first = run(killed, cut)
    killed.save(tmp_path / "state.pt", seconds=1.5)
    run(killed, 2)  # steps that the kill loses
    del killed
    torch.manual_seed(99)

    resumed = Trainer(make_model(seed=2), examples, RECIPE)
    assert resumed.load(tmp_path / "state.pt") == {"seconds": 1.5}
    assert resumed.steps_done == cut
    assert first + run(resumed) == losses
    expected = weights(straight)
    assert all(torch.equal(value, expected[name]) for name, value in weights(resumed).items())


def test_last_state_survives_a_failing_save(tmp_path, examples, monkeypatch):
    trainer = Trainer(make_model(), examples, RECIPE)
    run(trainer, 2)
    trainer.save(tmp_path / "state.pt")
    run(trainer, 1)
    monkeypatch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError("killed here")))
    with pytest.raises(OSError, match="killed here"):
        trainer.save(tmp_path / "state.pt")
    fresh = Trainer(make_model(), examples, RECIPE)
    fresh.load(tmp_path / "state.pt")
    assert fresh.steps_done == 2


def damaged(path, found):
    return f"""
        Trainer.load: this is not a whole training state.
          path   {path}
          found  {found}
          bytes  {path.stat().st_size:,}
        A state is read as it was written or not at all. Delete it to start again:
            Path("{path}").unlink()
        """


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.9, 1.0])
def test_a_flipped_bit_is_noticed_and_nothing_loaded(tmp_path, examples, part):
    path = tmp_path / "state.pt"
    trainer = Trainer(make_model(), examples, RECIPE)
    trainer.save(path)
    data = bytearray(path.read_bytes())
    data[int(part * (len(data) - 1))] ^= 4
    path.write_bytes(data)
    run(trainer, 1)
    before = weights(trainer)
    with raises_message(CheckpointError, damaged(path, "cut off or changed: its checksum differs")):
        trainer.load(path)
    assert trainer.steps_done == 1 and all(torch.equal(value, before[name]) for name, value in weights(trainer).items())


@pytest.mark.parametrize(
    ("keep", "found"),
    [
        (0, "an empty file"),
        (5, "another kind of file"),
        (20, "@"),
        (-1, "@"),
    ],
)
def test_a_state_that_is_cut_off_is_refused(tmp_path, examples, keep, found):
    path = tmp_path / "state.pt"
    trainer = Trainer(make_model(), examples, RECIPE)
    trainer.save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with raises_message(CheckpointError, damaged(path, found.replace("@", "cut off or changed: its checksum differs"))):
        trainer.load(path)


def test_state_of_another_training_is_refused(tmp_path, examples):
    Trainer(make_model(), examples, RECIPE).save(tmp_path / "state.pt")
    with pytest.raises(CheckpointError, match="belongs to another training:\n  recipe\n"):
        Trainer(make_model(), examples, Recipe()).load(tmp_path / "state.pt")
    with pytest.raises(CheckpointError, match="belongs to another training:\n  examples\n    file  10\n    now   3"):
        Trainer(make_model(), examples_of({"cat": WORDS["cat"], "read": WORDS["read"]}), RECIPE).load(
            tmp_path / "state.pt"
        )


def test_training_leaves_inference_mode_behind(examples):
    from rfnb.nn.run.run_ctx import get_run_ctx

    Trainer(make_model(), examples, RECIPE).step()
    assert get_run_ctx().train_flag is False
