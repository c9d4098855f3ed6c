"""The code in the guides runs, and prints what they show."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.teaching.exercises import Wrong

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
HEADING = re.compile(r"^(?=##+ )", re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")


def assert_same_text(printed: str, shown: str) -> None:
    """The same but for trailing spaces and the last digits of numbers, which differ from machine to machine."""
    printed, shown = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (printed, shown))
    assert NUMBER.sub("0.0", printed) == NUMBER.sub("0.0", shown)
    for number, other in zip(NUMBER.findall(printed), NUMBER.findall(shown)):
        last_digit = 10.0 ** -len(other.partition(".")[2])
        assert float(number) == pytest.approx(float(other), abs=2.1 * last_digit)


def run(guide: str, capsys: pytest.CaptureFixture[str], cuda: str = "cuda") -> tuple[dict, int]:
    """Names after all blocks, and how many of them showed what they print; `cuda` is the device that it is tried on instead."""
    names: dict = {"__name__": guide}
    shown = 0
    text = re.sub(r"\bcuda(?=[\": ]|$)", cuda, (DOCS / guide).read_text(), flags=re.MULTILINE)
    for section in HEADING.split(text):
        if "import transformers" in section and importlib.util.find_spec("transformers") is None:
            continue
        for code, text in BLOCK.findall(section):
            exec(compile(code, guide, "exec"), names)
            printed = capsys.readouterr().out
            if text:
                assert_same_text(printed, text)
                shown += 1
    return names, shown


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_training_runs_from_top_to_bottom(capsys):
    names, _ = run("training.md", capsys)
    assert names["logits"].dims == (names["batch"], names["time"], names["vocab"])
    marked = names["run"].outputs["logits"]
    assert tuple(marked.raw_tensor.shape) == (4, 6, 11)
    assert isinstance(marked, rf.Tensor)


def test_search_runs_from_top_to_bottom_and_prints_what_it_shows(capsys):
    _, shown = run("search.md", capsys)
    assert shown >= 15


def test_why_runs_from_top_to_bottom_and_prints_what_it_shows(capsys):
    _, shown = run("why.md", capsys)
    assert shown == 11
    pictures = re.findall(r"\]\(images/(.*?)\)", (DOCS / "why.md").read_text())
    assert len(pictures) == 8
    for name in pictures:  # the guide shows what its code draws
        drawn, stored = (
            re.sub(r"\brun \d+", "run", "\n".join(re.findall(r"<text.*?>(.*?)</text>", path.read_text())))
            for path in (Path(name), DOCS / "images" / name)
        )
        assert drawn, name
        assert_same_text(drawn, stored)


def test_control_runs_from_top_to_bottom_and_prints_what_it_shows(capsys):
    names, shown = run("control.md", capsys)
    assert shown >= 5 and names["run"].branches == [names["branch"]]


def test_versions_prints_what_it_shows(capsys):
    _, shown = run("versions.md", capsys)
    assert shown == 1


def test_the_first_model_runs_from_top_to_bottom_and_prints_what_it_shows(capsys):
    names, shown = run("first-model.md", capsys)
    assert shown == 5 and names["losses"][-1] < names["losses"][0]


def test_the_seq2seq_tutorial_runs_from_top_to_bottom_and_prints_what_it_shows(capsys):
    names, shown = run("from-pytorch-seq2seq.md", capsys)
    assert shown == 4
    assert names["filled_loss"] > names["ragged_loss"]  # after as many updates, filling and all


def test_coming_from_bertviz_runs_from_top_to_bottom_and_prints_what_it_shows(capsys):
    pytest.importorskip("transformers")
    names, shown = run("coming-from-bertviz.md", capsys)
    assert shown == 5 and names["product"].shape == (6, 4)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # what torch says of its fast path
def test_your_model_runs_from_top_to_bottom_and_prints_what_it_shows(capsys):
    names, shown = run("your-model.md", capsys)
    assert shown >= 8 and isinstance(names["trace"], rf.Trace)


def test_the_check_of_the_guide_for_teaching_tells_right_from_wrong(capsys):
    names, _ = run("teaching.md", capsys)
    names["mean"](lambda x, axis: rf.reduce_mean(x, axis=axis))
    with pytest.raises(Wrong, match="You looked at padding"):
        names["mean"](lambda x, axis: x.raw_tensor.mean(1))


DOOR = re.compile(r"rf\.(record|named|as_torch|watch|ctc_output|transducer_output|beams_of|viz\.attention)\(")


def test_each_door_to_a_model_takes_at_most_five_lines():
    doors = [code for code, _ in BLOCK.findall((DOCS / "your-model.md").read_text()) if DOOR.search(code)]
    assert len(doors) >= 8
    assert [code for code in doors if sum("rf." in line for line in code.splitlines()) > 5] == []


def test_each_of_twelve_tasks_takes_at_most_as_many_lines_as_elsewhere():
    text = (DOCS / "your-model.md").read_text().partition("## Twelve tasks")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w ]+) \| (\d+) \| ?(\d*) \| ?(\d*)[^|]*\|", text, re.MULTILINE)
    codes = {
        code.splitlines()[0][2:]: code.splitlines()[1:] for code, _ in BLOCK.findall(text) if code.startswith("# ")
    }
    assert len(rows) == 12 and [row[0] for row in rows] == list(codes)
    for task, own, *others in rows:
        assert len([line for line in codes[task] if line.strip()]) == int(own), task
        assert not any(others) or int(own) <= max(int(other or 0) for other in others), task


@pytest.fixture
def without_returnn():
    """Undo the effects of `import rfnb.as_returnn`."""
    finders = list(sys.meta_path)
    yield
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "returnn" or name == "rfnb.as_returnn"]:
        del sys.modules[name]
    rf.batch_dim.reset_eager()


def test_coming_from_returnn_runs_from_top_to_bottom_and_prints_what_it_shows(capsys, without_returnn):
    names, shown = run("coming-from-returnn.md", capsys)
    assert shown == 4 and names["rf"] is rf
    assert names["optimizer"].param_groups[0]["params"][0].grad is not None


def test_another_number_or_word_is_found():
    assert_same_text("a -1.2504 \n", "a -1.250")
    for other in ("a -1.260", "b -1.250", "a -1.250 0.1"):
        with pytest.raises(AssertionError):
            assert_same_text("a -1.250", other)
