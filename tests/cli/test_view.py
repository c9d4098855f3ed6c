"""rfnb view: a recording as text and as a page; files that are no recordings are named for what they are."""

import numpy as np
import pytest
from cli.command import rfnb

import rfnb as rf
from rfnb.models.g2p_checkpoint import load_g2p
from rfnb.models.g2p_search import pronounce
from rfnb.viz.show import view_of


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A search of one word, in a file."""
    with rf.record() as trace:
        pronounce(load_g2p(), "cat", beam_size=2)
    path = tmp_path_factory.mktemp("recording") / "cat.rfnb"
    trace.save(path)
    return path


def test_the_text_is_that_of_the_loaded_recording(recording):
    run = rfnb("view", recording, cwd=recording.parent)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == view_of(rf.load_trace(recording)).text() + "\n"
    assert "Beam search" in run.stdout and "Attention" in run.stdout


def test_the_page_has_the_recording_and_asks_for_nothing(recording, tmp_path):
    run = rfnb("view", recording, "-o", "page.html", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == "rfnb view: wrote page.html. Open it in a browser.\n"
    page = (tmp_path / "page.html").read_text()
    assert "<title>cat.rfnb</title>" in page and 'class="rfnb-frame"' in page
    assert "http://" not in page.replace("http://www.w3.org/", "") and "https://" not in page


def test_text_and_page_can_be_had_together_with_a_title(recording, tmp_path):
    run = rfnb("view", recording, "-o", "page.html", "--text", "--title", "Epoch <12>", cwd=tmp_path)
    assert run.returncode == 0 and "Beam search" in run.stdout
    assert "<title>Epoch &lt;12&gt;</title>" in (tmp_path / "page.html").read_text()


def test_a_training_is_shown_as_its_curves(tmp_path):
    import torch

    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with rf.watch(model, optimizer) as watch:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(5, 3)).sum().backward()
            optimizer.step()
    watch.save(tmp_path / "training.rfnb")
    run = rfnb("view", "training.rfnb", cwd=tmp_path)
    assert run.returncode == 0 and run.stdout.startswith("Linear\n\nTraining: update 1 to 3\n")


def test_the_branches_of_a_run_are_shown_beside_the_run(tmp_path):
    model = load_g2p()
    run = rf.run(pronounce, model, "cat", beam_size=2)
    run.wait()
    run.from_step(1, lambda at: at.ban("AE"), name="without AE").wait()
    run.save(tmp_path / "branches.rfnb")
    shown = rfnb("view", "branches.rfnb", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "without AE" in shown.stdout and "Beam search" in shown.stdout


def test_a_damaged_file_is_a_sentence(recording, tmp_path):
    data = recording.read_bytes()
    (tmp_path / "cut.rfnb").write_bytes(data[: len(data) // 2])
    run = rfnb("view", "cut.rfnb", "-o", "page.html", cwd=tmp_path)
    assert run.returncode == 1 and run.stdout == ""
    assert run.stderr.startswith(
        "rfnb view: load_trace: the file is damaged.\n  path   cut.rfnb\n  found  it is cut off or changed"
    )
    assert "Traceback" not in run.stderr and not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("content", ["empty", "text", "array", "folder"])
def test_a_file_of_another_kind_is_a_sentence(content, tmp_path):
    path = tmp_path / "other.rfnb"
    if content == "folder":
        path.mkdir()
    elif content == "array":
        np.save(open(path, "wb"), np.zeros(3))
    else:
        path.write_text("" if content == "empty" else "a page of text\n")
    run = rfnb("view", path, cwd=tmp_path)
    assert run.returncode == 1 and run.stdout == ""
    assert run.stderr.startswith("rfnb view: load_trace: ") and "Traceback" not in run.stderr
    assert "bug in rfnb" not in run.stderr


def test_the_recording_is_not_written_over(recording):
    before = recording.read_bytes()
    run = rfnb("view", recording, "-o", recording, cwd=recording.parent)
    assert run.returncode == 2 and "the page would replace the recording" in run.stderr
    assert recording.read_bytes() == before


def test_a_title_without_a_page_is_wrong_usage(recording):
    run = rfnb("view", recording, "--title", "x", cwd=recording.parent)
    assert run.returncode == 2 and "--title needs a page: add -o PAGE" in run.stderr
