"""A fault in one place of a model is found there, and said to look like what it is; the place and its size are those of plain NumPy."""

import pytest
from planted_faults import Model, alone, batch_of, first_of, numpy_steps

import rfnb as rf


def recorded(model, x, axis, **options):
    with rf.record(model=model, values=True, **options) as trace:
        model(x, axis=axis)
    return trace


def two(change, lengths=(7, 5, 2)):
    """The diff of a run of a model and one of the same model with a change, and what NumPy finds."""
    x, time = batch_of(list(lengths))
    model = Model()
    before, expected = recorded(model, x, time), numpy_steps(model, x, time)
    change(model)
    after, other = recorded(model, x, time), numpy_steps(model, x, time)
    return rf.diff(before, after), first_of(expected, other)


def assert_found(diff, path, most):
    assert diff.first.path == path
    assert diff.first.numbers.max_abs == pytest.approx(most, rel=1e-6)


@pytest.mark.parametrize("seq", [0, 1, 2])
def test_a_sequence_alone_is_the_same_as_in_a_batch(seq):
    x, time = batch_of([7, 5, 2])
    model = Model()
    one, axis = alone(x, seq, [7, 5, 2][seq])
    diff = rf.diff(recorded(model, one, axis), recorded(model, x, time), seq_b=seq)
    assert diff.same, diff.text
    assert any(row.numbers.cells for row in diff.rows)


def test_a_module_that_reads_padding_is_found_alone_against_in_the_batch():
    x, time = batch_of([7, 5, 2])
    model = Model()
    model.mean.reads_padding = True
    one, axis = alone(x, 1, 5)
    expected = first_of(numpy_steps(model, one, axis), numpy_steps(model, x, time), (0, 1))
    assert expected[0] == "mean"
    diff = rf.diff(recorded(model, one, axis), recorded(model, x, time), seq_b=1)
    assert_found(diff, *expected)
    hint = 'In b this sequence has 2 frames of padding more than in the other: what "mean" computes may read padding.'
    assert hint in diff.hints()
    assert rf.diff(recorded(model, x, time), recorded(model, one, axis), seq_a=1).first.path == "mean"


def test_a_module_that_reads_padding_is_none_of_the_longest_sequence():
    x, time = batch_of([7, 5, 2])
    model = Model()
    model.mean.reads_padding = True
    one, axis = alone(x, 0, 7)
    assert rf.diff(recorded(model, one, axis), recorded(model, x, time), seq_b=0).same


def test_two_paddings_of_one_batch_show_which_module_reads_them():
    x, time = batch_of([7, 5, 2])
    model = Model()
    clean = recorded(model, x, time)
    model.mean.reads_padding = True
    diff = rf.diff(clean, recorded(model, x, time))
    assert diff.first.path == "mean"
    assert 'Only sequences that are padded differ: what "mean" computes may read padding.' in diff.hints()
    assert diff.region(diff.first)["batch"] == "1 to 2"


def test_a_layer_in_bfloat16_is_found_and_said_to_be_rounded():
    diff, expected = two(lambda model: setattr(model.second, "dtype", "bfloat16"))
    assert expected[0] == "second"
    assert_found(diff, *expected)
    assert (
        "All values of b are numbers of bfloat16, although its dtype is float32: they were rounded to it."
        in diff.hints()
    )
    assert diff.dtypes is None


def test_one_changed_weight_is_found_in_its_layer_and_in_its_feature():
    def change(model):
        weight = model.second.linear.weight.raw_tensor
        axis = [dim.name for dim in model.second.linear.weight.dims]
        assert axis == ["hidden", "hidden"]
        weight.data[1, 3] += 0.25

    diff, expected = two(change)
    assert expected[0] == "second.linear"
    assert_found(diff, *expected)
    assert diff.region(diff.first) == {"hidden": diff.cell(diff.first).labels["hidden"]}
    assert diff.hints()[0] == "Everything before it is the same, bit for bit."


def test_another_seed_of_dropout_is_found_where_it_drops():
    x, time = batch_of([7, 5, 2])
    model = Model()
    runs = []
    for seed in (1, 2):
        model.dropped.seed = seed
        runs.append((recorded(model, x, time), numpy_steps(model, x, time)))
    expected = first_of(runs[0][1], runs[1][1])
    assert expected[0] == "dropped"
    diff = rf.diff(runs[0][0], runs[1][0])
    assert_found(diff, *expected)
    assert any("dropout with other random numbers looks so" in hint for hint in diff.hints())


def test_dropout_in_one_run_only_is_found_with_its_factor():
    diff, expected = two(lambda model: setattr(model.dropped, "seed", 1))
    assert_found(diff, *expected)
    assert "Where neither is 0, b is 2 times a." in diff.hints()


def test_a_state_that_is_late_by_a_step_is_found_in_the_first_step_and_said_to_be_late():
    diff, (path, most) = two(lambda model: setattr(model.decay, "is_late", True))
    assert path == "decay.decay 0"
    assert (diff.first.path, diff.first.step, diff.first.name) == ("decay.decay", 0, "value")
    assert diff.first.numbers.max_abs == pytest.approx(most, rel=1e-6)
    assert "What a has here, b has one step later: the same values." in diff.hints()


def test_without_values_the_text_says_what_to_record():
    x, time = batch_of([7, 5, 2])
    model = Model()
    traces = []
    for seed in (1, 2):
        model.dropped.seed = seed
        with rf.record(model=model) as trace:
            model(x, axis=time)
        traces.append(trace)
    diff = rf.diff(*traces)
    assert diff.first.path == "decay.decay"
    assert diff.text.endswith(
        'Of "first.linear", "first", "mean", "second.linear" and 2 more, called before it, '
        "no values were recorded: it may have begun there.\n"
        "    with rf.record(values=True) as trace:    # in both runs"
    )


def test_with_the_values_of_ops_the_first_op_is_found():
    x, time = batch_of([7, 5, 2])
    model = Model()
    before = recorded(model, x, time, ops=True)
    model.second.linear.weight.raw_tensor.data[1, 3] += 0.25
    diff = rf.diff(before, recorded(model, x, time, ops=True))
    assert (diff.first.ident.kind, diff.first.ident.op, diff.first.path) == ("op", "linear", "second.linear")
