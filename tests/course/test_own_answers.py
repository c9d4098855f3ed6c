"""Answers that pass in another form (arrays, lists, float64, in place) carry a notebook to its end, and Run All a second time."""

from __future__ import annotations

import copy

import pytest
from course.harness import MIME, NOTEBOOKS, Course
from nbclient import NotebookClient
from waiting import SLOWNESS

ANSWERS = {
    "01_dims": {
        "add_readings": """
def add_readings(ahead, back, letters, frames):
    return rf.cast(rf.replace_dim(back, in_dim=frames, out_dim=letters)[0], "float64") + ahead
""",
        "softmax_by_hand": """
def softmax_by_hand(x, axis):
    powers = rf.exp(rf.cast(x, "float64") - rf.reduce_max(x, axis=axis))
    return powers / rf.reduce_sum(powers, axis=axis)
""",
        "energies": "energies = lambda query, keys, key_dim: rf.matmul(keys / key_dim.size**0.5, query, reduce=key_dim)",
        "telling_sizes": "telling_sizes = torch.tensor([2, 3, 5, 7])",
        "mended_attention": """
def mended_attention(query, keys, values):
    powers = np.exp(query.numpy() @ keys.numpy().T / query.shape[-1] ** 0.5)
    return powers / powers.sum(-1, keepdims=True) @ values.double().numpy()
""",
    },
    "02_ragged": {
        "mean_of": """
def mean_of(x, lengths):
    x[torch.arange(x.shape[1]) >= lengths[:, None]] = 0
    return (x.double().sum(1) / lengths[:, None]).numpy()
""",
        "last_frame": "last_frame = lambda x, lengths: [row[length - 1].tolist() for row, length in zip(x, lengths)]",
        "waste": """
def waste(batches, lengths):
    cells = sum(len(batch) * max(lengths[word] for word in batch) for batch in batches)
    return torch.tensor(1 - sum(lengths[word] for batch in batches for word in batch) / cells)
""",
        "make_batches": """
def make_batches(lengths, size, seed):
    import numpy as np
    generator = np.random.default_rng(seed)
    order = np.lexsort((generator.random(len(lengths)), lengths))
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    return [batches[number] for number in generator.permutation(len(batches))]
""",
        "culprit": "culprit = rf.reduce_max",
        "rate_mended": """
def rate_mended(model, ids, lengths):
    rows = [model(ids[row : row + 1, :length], lengths[row : row + 1]) for row, length in enumerate(lengths)]
    return torch.cat(rows).detach().numpy()
""",
    },
    "03_loops": {
        "lstm_step": """
def lstm_step(gate, x, h, c):
    sums = {name: each(x, h) for name, each in gate.items()}
    c = rf.sigmoid(sums["forget"]) * c + rf.sigmoid(sums["input"]) * rf.tanh(sums["new"])
    return [rf.sigmoid(sums["output"]) * rf.tanh(c), c]
""",
        "rnn_step": "rnn_step = lambda add, x, h: 2 * rf.sigmoid(2 * add(x, h)) - 1",
        "counting_unit": 'counting_unit = "2"',
        "results_of": "results_of = lambda follow, start, words: tuple(follow(one, start)[0] for one in words)",
        "final_state": """
def final_state(step, x, lengths, start):
    for row, length in enumerate(lengths):
        for frame in x[row, :length]:
            start[row] = step(frame[None], start[row : row + 1])[0]
    return start.double().numpy()
""",
    },
}


@pytest.mark.notebook
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_in_another_form_carry_the_notebook_through_two_runs(name):
    notebook = copy.deepcopy(Course(name).stored)
    for exercise, source in ANSWERS[name].items():
        check = f'lesson.check("{exercise}", {exercise})'
        (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and check in cell.source]
        imports = [line for line in cell.source.splitlines() if line.startswith(("import ", "from "))]
        cell.source = "\n".join([*imports, source.strip(), check])
    again = copy.deepcopy(notebook.cells)
    for cell in again:
        cell.id += "-again"
    notebook.cells += again
    NotebookClient(
        notebook, timeout=300 * SLOWNESS, iopub_timeout=300 * SLOWNESS, resources={"metadata": {"path": str(NOTEBOOKS)}}
    ).execute()
    checked = [
        output.data[MIME]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.get("data", {}).get(MIME, {}).get("kind") == "check"
    ]
    failed = {each["exercise"]: each["message"] for each in checked if not each["passed"]}
    assert not set(failed) & set(ANSWERS[name]), failed
