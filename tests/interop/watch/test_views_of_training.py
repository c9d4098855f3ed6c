"""The views of a training: its curves, its modules in groups, one example with a slider; what follows, what a file gives back."""

import threading

import numpy as np
import pytest
import torch
from interop.watch.watched_models import Encoder, Tagger, batches, made, train
from waiting import LONG

import rfnb as rf
from rfnb.trace.training import MOST_ROWS, Training, TrainingCurve, TrainingTable
from rfnb.viz import training_page
from rfnb.viz.drawing.shapes import Cells
from rfnb.viz.group.spec import parts_of
from rfnb.viz.kinds import drawing_of
from rfnb.viz.show import view_of


def watched(kind=Tagger, epochs=3, **options):
    model = made(kind)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    with rf.watch(model, optimizer, example=(batches(1)[0],), activations=1, updates=1, **options) as watch:
        for _ in range(epochs):
            train(model, optimizer, batches(2), after=lambda loss: watch.log(loss=loss))
            watch.epoch()
    return watch


def parts(training, **options):
    """Of the view, by kind and title."""
    return {(part.kind, part.head["title"]): part for part in parts_of(view_of(training, **options).spec)}


def curves(training, **options):
    """The series of all numbers of a training, by label and module."""
    head = parts(training, **options)["curves", "Training"].head
    return {(entry["label"], entry.get("run")): entry for entry in head["series"]}


def modules(training, **options):
    """The modules that are drawn, in their order."""
    return list(dict.fromkeys(run for _, run in curves(training, **options) if run))


def test_curves_and_modules_are_drawn_over_one_axis():
    watch = watched()
    assert sum(kind == "curves" for kind, _ in parts(watch)) == 1
    labels = list(dict.fromkeys(label for label, run in curves(watch) if run is None))
    assert labels == ["loss", "gradient norm", "lr"]
    assert modules(watch) == ["embedding Embedding", "lstm LSTM", "norm BatchNorm1d", "out Linear"]
    of_modules = {label for label, run in curves(watch) if run == "out Linear"}
    assert of_modules == {"gradient norm", "update ratio", "output mean", "output std"}


def test_modules_that_are_too_many_for_lines_are_rows_of_a_strip():
    few, many = (
        torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(count)), torch.nn.Linear(3, 1)) for count in (7, 8)
    )
    for model, strip in ((few, None), (many, True)):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with rf.watch(model, optimizer, activations=1, updates=1) as watch:
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.ones(2, 3)).sum().backward()
                optimizer.step()
        found = [entry for (label, run), entry in curves(watch).items() if label == "gradient norm" and run]
        assert [entry.get("strip") for entry in found] == [strip] * len(model)
        assert [entry["run"] for entry in found] == [f"{index} Linear" for index in range(len(model))]
    drawn = drawing_of(parts(watch)["curves", "Training"])
    strips = [shape for shape in drawn.shapes if isinstance(shape, Cells)]
    assert [len(shape.bytes) for shape in strips] == [9, 9, 9, 9]  # gradients, updates, means, spread
    assert {shape.ramp for shape in strips} == {"sequential", "diverging"}


def test_no_line_is_drawn_over_updates_in_which_nobody_looked():
    training = Training()
    table = training.tables["update ratio", ""] = TrainingTable(["a"])
    for step in (1, 2, 3, 8, 64):
        table.add(step, np.array([step * 1e-3]))
    [entry] = curves(training).values()
    assert entry["gap"] == pytest.approx(63 / 5)  # a fifth of the training, where three times what is usual is less


def test_a_choice_of_modules_is_drawn_each_for_itself():
    watch = watched(Encoder, epochs=1)
    assert modules(watch)[0] == "embedding Embedding" and "layers.layers.1.norm2 LayerNorm" in modules(watch)
    chosen = modules(watch, path="layers.layers.1.norm*")
    assert chosen == ["layers.layers.1.norm1 LayerNorm", "layers.layers.1.norm2 LayerNorm"]


def test_groups_are_the_finest_parts_that_there_is_room_for():
    def names(paths):
        return [name for name, _ in training_page.groups_of(paths)]

    assert names(["a.x", "a.y", "b.0.z"]) == ["a.x", "a.y", "b.0.z"]
    many = [f"layers.{index}.{part}" for index in range(25) for part in ("att", "ff")]
    assert names(many) == [f"layers.{index}" for index in range(25)]
    spans = names([str(index) for index in range(80)])
    assert len(spans) == 40 and spans[:2] == ["0 to 1", "2 to 3"]
    assert names([""]) == ["model"]
    every = [index for _, indices in training_page.groups_of(many) for index in indices]
    assert sorted(every) == list(range(len(many)))


def test_a_group_has_the_norm_of_all_that_is_in_it():
    training = Training()
    norms = training.tables["gradient norm", ""] = TrainingTable(["a.x", "a.y", "b"])
    norms.add(1, np.array([3.0, 4.0, -1.0]))
    weights = training.tables["weight norm", ""] = TrainingTable(["a.x", "a.y", "b"])
    weights.add(1, np.array([6.0, 8.0, 1.0]))
    ratios = training.tables["update ratio", ""] = TrainingTable(["a.x", "a.y", "b"])
    ratios.add(1, np.array([0.5, 0.5, -1.0]))
    steps, values = training_page._line("gradient norm", norms, [0, 1], None)
    assert (steps.tolist(), values.tolist()) == ([1], [5.0])
    assert training_page._line("gradient norm", norms, [2], None)[0].tolist() == []  # it has no gradient
    assert training_page._line("update ratio", ratios, [0, 1], weights)[1].tolist() == [0.5]


def attending(weights, tokens):
    """An example that attends and gives an output, with dims of rfnb, its weights by epoch."""
    vocab = rf.Dim(len(tokens), name="vocab")
    vocab.vocab = tokens
    target, source, number = rf.Dim(2, name="target"), rf.Dim(3, name="source"), [0]

    def example():
        share = weights[number[0]]
        number[0] += 1
        array = np.array([[share, 1 - share, 0], [0, share, 1 - share]], np.float32)
        rf.probe("attention", weights=rf.convert_to_tensor(array, dims=[target, source]), axis=source, target=target)
        rf.probe("outputs", probs=rf.convert_to_tensor(array, dims=[target, vocab]), axis=vocab)

    return example


def test_the_example_has_a_slider_of_epochs_with_the_weights_of_each():
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    weights = [0.25, 0.5, 1.0]
    with rf.watch(model, optimizer, example=attending(weights, ["a", "b", "c"])) as watch:
        for _ in range(2):
            train(model, optimizer, batches(1))
            watch.epoch()
    found = parts(watch)
    (attention,) = [part for (kind, _), part in found.items() if kind == "attention"]
    assert attention.head["slider"] == {"name": "epoch", "labels": ["0", "1", "2"]}
    maps = sorted(attention.head["maps"], key=lambda entry: entry["step"])
    assert [float(attention.blocks[entry["block"]][0, 0, 0]) for entry in maps] == weights
    (output,) = [part for (kind, _), part in found.items() if kind == "distribution"]
    assert [seq["label"].split(":")[0] for seq in output.head["seqs"]] == ["epoch 2", "epoch 1", "epoch 0"]
    best = np.exp(output.blocks["top_log_probs"][:, 0, 0])
    assert best == pytest.approx([1.0, 0.5, 0.75])
    text = view_of(watch).text()
    assert "epoch" in text and "cannot be drawn" not in text


def test_the_attention_of_a_transformer_of_torch_has_a_slider():
    """In eval mode without gradients it takes a fast path otherwise, that nothing is seen of."""
    watch = watched(Encoder, epochs=2)
    assert torch.backends.mha.get_fastpath_enabled()
    (attention,) = [part for (kind, _), part in parts(watch).items() if kind == "attention"]
    assert attention.head["slider"] == {"name": "epoch", "labels": ["0", "1", "2"]}
    assert len(attention.head["layers"]) == 2 and len(attention.head["heads"]) == 2
    assert len(attention.head["maps"]) == 3 * 2 * 2
    for entry in attention.head["maps"]:
        np.testing.assert_allclose(attention.blocks[entry["block"]].sum(-1), 1, rtol=1e-5)


def test_states_of_the_example_are_sequences_by_epoch():
    found = parts(watched(epochs=2))
    (states,) = [part for (kind, _), part in found.items() if kind == "states"]
    labels = [seq["label"] for seq in states.head["seqs"]]
    assert labels[0].startswith("epoch 2: ") and labels[-1].startswith("epoch 0: ") and len(labels) == 9
    assert all(len(states.blocks[track["block"]]) == 9 for track in states.head["tracks"])


def test_states_of_the_example_are_those_of_its_time():
    """They are made of weights when somebody looks, and the weights go on."""
    model = made(Tagger).eval()
    ids = batches(1)[0]
    with torch.no_grad(), rf.record(model=model) as trace:
        model(ids)
    expected = {name: value.numpy() for name, value in trace.states["lstm"].items() if isinstance(value, rf.Tensor)}
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    with rf.watch(model, optimizer, example=(ids,)) as watch:
        train(model, optimizer, batches(2))
    found = watch.examples[0].trace.states["lstm"]
    assert expected
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), value)


def test_a_view_follows_until_the_end():
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watch = rf.watch(model, optimizer)
    view = view_of(watch)
    assert view.spec.head["live"]
    drawn = threading.Event()
    draw = view.draw
    view.draw = lambda spec: (draw(spec), drawn.set())
    train(model, optimizer, batches(2))
    assert drawn.wait(LONG)
    watch.close()
    assert not view.spec.head["live"] and "running" not in view.text()
    assert len(parts_of(view.spec)[0].blocks["y0"]) == 2


def test_a_file_gives_back_all_of_it(tmp_path):
    watch = watched()
    watch.save(tmp_path / "training.rfnb")
    again = rf.load_trace(tmp_path / "training.rfnb").training
    assert again.summary() == watch.summary()
    assert {name: curve.values for name, curve in again.curves.items()} == {
        name: curve.values for name, curve in watch.curves.items()
    }
    for key, table in watch.tables.items():
        np.testing.assert_array_equal(again.tables[key].array(), table.array())
        assert again.tables[key].columns == table.columns and again.tables[key].steps == table.steps
    assert [one.label for one in again.examples] == [one.label for one in watch.examples]
    assert again.types == watch.types and again.types["out"] == "Linear"
    assert view_of(again).text() == view_of(watch).text()


def test_long_trainings_keep_every_other_row():
    table, curve = TrainingTable(["a"]), TrainingCurve()
    for step in range(3 * MOST_ROWS):
        table.add(step, np.array([float(step)]))
        curve.add(step, float(step))
    assert len(table.steps) <= MOST_ROWS and table.steps[0] == 0 and table.steps[-1] == 3 * MOST_ROWS - 1
    assert [float(row[0]) for row in table.rows] == [float(step) for step in table.steps]
    assert curve.steps == list(range(3 * MOST_ROWS))


def test_the_summary_says_what_is_odd():
    training = Training("Model")
    norms = training.tables["gradient norm", ""] = TrainingTable(["a", "b", "c", "d", "e"])
    norms.add(1, np.array([1.0, 2.0, 1e-6, 1e6, -1.0]))
    ratios = training.tables["update ratio", ""] = TrainingTable(["a", "b"])
    ratios.add(1, np.array([1e-6, 0.5]))
    dead = training.tables["dead units", ""] = TrainingTable(["relu"])
    dead.add(1, np.array([0.5]))
    dead.add(2, np.array([0.25]))  # what was dead once only is not
    assert training.summary().splitlines() == [
        "Model: 0 updates, 0 batches",
        "no gradient so far: e",
        "gradients vanish, below 1/1000 of the median 1.5: c 1e-06",
        "gradients explode, above 1000 times the median 1.5: d 1e+06",
        "updates below 0.0001 of the weights (learning rate too low?): a 1e-06",
        "updates above 0.01 of the weights (learning rate too high?): b 0.5",
        "units that are zero for a whole batch: relu 25%",
    ]
