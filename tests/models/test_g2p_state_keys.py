"""States of trainings by other releases of torch, whose optimizers have other options."""

import hashlib
import io
from pathlib import Path

import pytest
import torch
from yesterday.opened import trainer_of_state

STATE = Path(__file__).parents[1] / "yesterday" / "0.1.0" / "state.pt"


def written(path, change):
    top, _, rest = STATE.read_bytes().partition(b"\n")
    state = torch.load(io.BytesIO(rest[32:]), weights_only=True)
    change(state)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    path.write_bytes(top + b"\n" + hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue())


@pytest.mark.parametrize(
    "change", [lambda group: group.pop("decoupled_weight_decay", None), lambda group: group.update(later=None)]
)
def test_options_that_another_torch_has_or_lacks_are_passed_over(change, tmp_path):
    written(tmp_path / "state.pt", lambda state: change(state["optimizer"]["param_groups"][0]))
    trainer = trainer_of_state()
    trainer.load(tmp_path / "state.pt")
    assert trainer.step().loss > 0


@pytest.mark.parametrize("steps", [-1, 10**30, 2**63, 10**4])
def test_a_number_of_steps_that_the_training_does_not_have_is_refused_and_nothing_is_changed(steps, tmp_path):
    written(tmp_path / "state.pt", lambda state: state.update(steps_done=steps))
    trainer = trainer_of_state()
    before = [value.clone() for value in trainer.parameters]
    with pytest.raises(ValueError, match="no number of steps of this training"):
        trainer.load(tmp_path / "state.pt")
    assert all(torch.equal(value, was) for value, was in zip(trainer.parameters, before, strict=True))
