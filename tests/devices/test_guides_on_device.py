"""The guides on a device: their code, with nothing changed but the default device, prints what it prints on the CPU."""

import contextlib
import io

import pytest
from contracts.test_guides import BLOCK, DOCS, assert_same_text
from simulated import NAME, watched

import rfnb as rf


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own_with_one_thread(tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)


class Run:
    """The blocks of a guide, run on a device: the names that there are then, what was printed and seen in each."""

    def __init__(self, text, device):
        self.names, self.printed, self._seen = {"__name__": "guide"}, [], {}
        with rf.set_default_device_ctx(device):
            for code, _ in BLOCK.findall(text):
                printed = io.StringIO()
                with watched() as seen, contextlib.redirect_stdout(printed):
                    exec(compile(code, "guide", "exec"), self.names)
                self.printed.append(printed.getvalue())
                self._seen[code] = seen

    def waits(self, part):
        """Of the block that has this in it."""
        (found,) = [seen.waits for code, seen in self._seen.items() if part in code]
        return found


def run(guide, *, until=None, fewer=None):
    """The guide on the device, up to a heading, with fewer steps; what it prints is compared with the CPU."""
    text = (DOCS / guide).read_text()
    text = text if until is None else text[: text.index(until)]
    for many, few in (fewer or {}).items():
        assert text.count(many) == 1
        text = text.replace(many, few)
    on_device = Run(text, NAME)
    if NAME == "sim":  # a GPU draws other numbers
        for found, expected in zip(on_device.printed, Run(text, "cpu").printed, strict=True):
            assert_same_text(found.replace(f"{NAME}:0", "cpu"), expected)
    return on_device


def test_the_first_model_waits_in_training_for_the_losses_that_it_reads():
    found = run("first-model.md", fewer={"range(160)": "range(6)", "random_words(100)": "random_words(9)"})
    assert found.names["weights"].device.startswith(NAME)
    assert len(found.waits("losses.append(loss.raw_tensor.item())")) == len(found.names["losses"]) == 6


def test_the_seq2seq_tutorial_waits_for_the_last_loss_of_a_training_only():
    found = run("from-pytorch-seq2seq.md", fewer={"updates=80": "updates=4", "sentences(200,": "sentences(11,"})
    assert len(found.waits("filled, filled_loss = trained")) == 2


def test_a_step_of_the_guide_of_training_waits_for_nothing():
    found = run("training.md", until="## In torch code")
    losses = found.names["run"].losses
    assert losses["ce"].loss.device.startswith(NAME)
    assert len(found.waits("for step in range(30):")) == len(losses)  # that are printed after the last step
    assert len(found.waits("scaler = torch.amp.GradScaler")) == 3 + 1  # a step has one, and the scale is printed
    assert found.names["again"].decoder.input_embedding.weight.device.startswith(NAME)
