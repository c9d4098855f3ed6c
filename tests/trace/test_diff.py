"""Two recordings are compared by kind, path, step and dims; the report consists of whole sentences."""

import numpy as np
import pytest
from asserting import ragged, raises_message, randn, tensor, with_nan_padding

import rfnb as rf
from rfnb import Dim
from rfnb.trace.diff_numbers import DiffNumbers, Tolerance, compare
from rfnb.trace.probe import probe, trace_context
from rfnb.trace.record import record


def recorded(*events, loop=None):
    """A recording of events of the kind "value"; with a loop one in each step."""
    with record() as trace:
        for step, fields in enumerate(events):
            if loop is None:
                probe("value", **fields)
            else:
                with trace_context.loop("loop", step, loop):
                    probe("value", **fields)
    return trace


def of(values, *dims, **options):
    return tensor(np.asarray(values), *dims, **options)


@pytest.fixture
def dims():
    return Dim(2, name="batch"), Dim(3, name="feat")


def test_a_recording_and_itself_are_the_same(dims):
    trace = recorded({"x": of([[1.0, np.nan, 3.0], [np.inf, 5.0, -0.0]], *dims)})
    diff = rf.diff(trace, trace, tolerance=0)
    assert diff.same
    assert repr(diff) == "<Diff: a and b are the same, bit for bit: 1 array, 6 values>"


def test_two_empty_recordings_are_the_same():
    diff = rf.diff(recorded(), recorded())
    assert diff.same
    assert repr(diff) == "<Diff: no value was recorded in both, only dims>"


def test_dims_of_other_runs_are_matched_by_name_in_any_order(dims):
    batch, feat = dims
    other_batch, other_feat = Dim(2, name="batch"), Dim(3, name="feat")
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    a, b = recorded({"x": of(values, batch, feat)}), recorded({"x": of(values.T.copy(), other_feat, other_batch)})
    assert rf.diff(a, b, tolerance=0).same


def test_the_cell_that_differs_is_named(dims):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    changed = values.copy()
    changed[1, 2] += 0.5
    diff = rf.diff(recorded({"x": of(values, *dims)}), recorded({"x": of(changed, *dims)}))
    cell = diff.cell(diff.first)
    assert (cell.index, cell.a, cell.b) == ({"batch": 1, "feat": 2}, 5.0, 5.5)
    assert diff.first.numbers.max_abs == 0.5
    assert repr(diff) == (
        "<Diff: value, x: 5 in a, 5.5 in b at batch 1, feat 2, 0.5 apart, which is 7.63e+05 epsilons of float32; 1 of 6 cells differ>"
    )


@pytest.mark.parametrize("longer", ["a", "b"])
def test_longer_padding_is_no_difference(longer):
    values = np.arange(2 * 7 * 3, dtype=np.float32).reshape(2, 7, 3)
    traces = {}
    for name in "ab":
        batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
        time = ragged([5, 2], batch)
        if name == longer:  # the dim is as long as a third sequence would be
            batch = Dim(3, name="batch")
            time = ragged([5, 2, 7], batch)
            x = of(np.concatenate([values, values[:1]]), batch, time, feat)
        else:
            x = of(values[:, :5], batch, time, feat)
        traces[name] = recorded({"x": with_nan_padding(x)})
    for seq in (0, 1):
        diff = rf.diff(traces["a"], traces["b"], seq_a=seq, seq_b=seq, tolerance=0)
        assert diff.same, diff.text
        assert diff.rows[0].numbers.cells == [5, 2][seq] * 3


@pytest.mark.parametrize("padding", [0.0, 5000.0])
def test_padding_is_no_part_of_the_typical_size(padding):
    values = np.ones((2, 7), np.float32)
    values[0, 3] = 0.0
    values[1, 2:] = padding
    traces = []
    for far in (0.0, 120 * 2.0**-23):  # beside 1, and were padding a 0, 158 epsilons
        batch = Dim(2, name="batch")
        changed = values.copy()
        changed[0, 3] += far
        traces.append(recorded({"x": of(changed, batch, ragged([7, 2], batch))}))
    row = rf.diff(*traces).rows[0]
    assert row.status == "same" and row.numbers.units == pytest.approx(120 / np.sqrt(8 / 9))


def test_the_indices_at_which_values_differ_are_said_whatever_is_in_the_padding():
    traces = []
    for far in (0.0, 1e-3):
        batch = Dim(2, name="batch")
        values = np.ones((2, 7), np.float32)
        values[0, 3] += far
        values[1, 2:] = 5000.0
        traces.append(recorded({"x": of(values, batch, ragged([7, 2], batch))}))
    diff = rf.diff(*traces)
    assert diff.first.numbers.differing == 1
    assert diff.region(diff.first) == {"batch": "0", "time": "3"}


def test_other_lengths_are_a_difference_and_what_both_have_is_compared():
    traces = []
    for lengths in ([5, 2], [5, 3]):
        batch = Dim(2, name="batch")
        traces.append(recorded({"x": of(np.ones((2, 5), np.float32), batch, ragged(lengths, batch))}))
    diff = rf.diff(*traces)
    assert (diff.first.status, diff.first.note) == ("lengths", 'other lengths of "time"')
    assert diff.first.numbers == DiffNumbers(cells=7)


def test_a_static_dim_of_another_size_is_said():
    one, other = Dim(5, name="feat"), Dim(7, name="feat")
    diff = rf.diff(recorded({"x": of(np.ones(5), one)}), recorded({"x": of(np.ones(7), other)}))
    assert diff.first.status == "dims"
    assert repr(diff) == "<Diff: value, x: another size: [feat=5] | [feat=7]>"


def test_labels_are_compared_by_their_text():
    one, other = Dim(3, name="vocab", vocab=["x", "y", "z"]), Dim(3, name="vocab", vocab=["z", "y", "x"])
    time = Dim(4, name="time")
    a = recorded({"ids": of(np.array([0, 1, 2, 0]), time, sparse_dim=one)})
    b = recorded({"ids": of(np.array([2, 1, 0, 1]), time, sparse_dim=other)})
    diff = rf.diff(a, b)
    assert diff.first.numbers.differing == 1
    assert repr(diff) == '<Diff: value, ids: "x" in a, "y" in b at time 3; 1 of 4 cells differ>'


def test_a_step_of_a_sequence_that_has_ended_is_padding():
    values = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)
    traces = []
    for garbage in (0.0, np.nan):
        batch = Dim(2, name="batch")
        time = ragged([5, 2], batch)
        steps = []
        for step in range(5):
            state = values[step].copy()
            if step >= 2:
                state[1] = garbage
            steps.append({"h": of(state, batch)})
        traces.append(recorded(*steps, loop=time))
    diff = rf.diff(*traces, tolerance=0)
    assert diff.same, diff.text
    assert [row.numbers.cells for row in diff.rows] == [2, 2, 1, 1, 1]


def test_steps_that_a_sequence_does_not_make_are_none_that_only_one_has():
    batch, one = Dim(2, name="batch"), Dim(1, name="batch")
    time, short = ragged([5, 2], batch), ragged([2], one)
    whole = recorded(*({"h": of(np.full(2, step, np.float32), batch)} for step in range(5)), loop=time)
    alone = recorded(*({"h": of(np.full(1, step, np.float32), one)} for step in range(2)), loop=short)
    assert rf.diff(alone, whole, seq_b=1).same
    assert [event.step for event in rf.diff(alone, whole, seq_b=0).only_b] == [2, 3, 4]


def test_what_only_one_has_is_listed_by_path_and_step(dims):
    x = {"x": of(np.ones((2, 3)), *dims)}
    loop = Dim(3, name="time")
    diff = rf.diff(recorded(x, x, x, loop=loop), recorded(x, loop=loop))
    assert not diff.same
    assert diff.first is None
    assert diff.text.splitlines()[-1] == "Only in a: 2 value at loop, steps 1 to 2."


def test_growth_has_a_number_for_each_step(dims):
    def steps(factor):
        return [{"h": of(np.full((2, 3), 1 + factor * step), *dims)} for step in range(4)]

    loop = Dim(4, name="time")
    growth = rf.diff(recorded(*steps(0.0), loop=loop), recorded(*steps(0.25), loop=loop)).growth("loop", "h")
    assert growth.steps.tolist() == [0, 1, 2, 3]
    assert growth.max_abs.tolist() == [0, 0.25, 0.5, 0.75]
    assert growth.differs.tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("a", "b", "differing"),
    [
        ([np.nan, 1.0], [np.nan, 1.0], 0),
        ([np.nan, 1.0], [2.0, 1.0], 1),
        ([np.inf, 1.0], [np.inf, 1.0], 0),
        ([np.inf, 1.0], [-np.inf, 1.0], 1),
        ([np.inf, 1.0], [np.nan, 1.0], 1),
        ([0.0, 1.0], [-0.0, 1.0], 0),
        ([1.0, 1.0], [1.0 + 100 * 2.0**-23, 1.0], 0),
        ([1.0, 1.0], [1.0 + 200 * 2.0**-23, 1.0], 1),
        ([1e-9, 1.0], [2e-9, 1.0], 0),  # small beside the others
        ([1e-9, 2e-9], [2e-9, 2e-9], 1),
        ([1e-3, -1e30, 1.0], [2e-3, -1e30, 1.0], 1),  # a mark of what is masked makes nothing small
    ],
)
def test_what_differs_in_float32(a, b, differing):
    found = compare(np.array(a, np.float32), np.array(b, np.float32), None, Tolerance("float32"))
    assert found.differing == differing


@pytest.mark.parametrize(
    ("changed", "most", "word"),
    [
        ([1.0, np.nan, 3.0], np.nan, "NaN"),
        ([1.0, np.inf, 3.0], np.inf, "infinity"),
        ([-np.inf, 2.0, np.nan], np.nan, "NaN"),
    ],
)
def test_what_is_not_finite_is_said_as_what_it_is(changed, most, word):
    feat = Dim(3, name="feat")
    diff = rf.diff(recorded({"x": of([1.0, 2.0, 3.0], feat)}), recorded({"x": of(np.array(changed), feat)}))
    assert np.array_equal(diff.first.numbers.max_abs, most, equal_nan=True)
    assert np.array_equal(diff.growth("").max_abs, [most], equal_nan=True)
    line = next(line for line in diff.text.splitlines() if "1 of 1" in line)
    assert line.split()[-1] == word
    assert "nan" not in diff.text and not [each for each in diff.text.split() if each.strip(",-") == "inf"]


def test_the_table_has_the_place_where_a_path_differs_most_beside_its_size_and_how_far_apart_it_is_there():
    feat = Dim(2, name="feat")
    a = recorded({"x": of([1e-6, 1e-6], feat)}, {"x": of([100.0, 100.0], feat)}, loop=Dim(2, name="time"))
    b = recorded({"x": of([2e-6, 1e-6], feat)}, {"x": of([100.125, 100.0], feat)}, loop=Dim(2, name="time"))
    lines = rf.diff(a, b).text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("path"))
    assert [line.split() for line in lines[at : at + 2]] == [
        ["path", "first", "differ", "most", "apart", "in", "epsilons"],
        ["loop", "step", "0", "2", "of", "2", "step", "0", "x", "1e-06", "4.19e+06"],
    ]


def test_labels_are_another_one_and_no_numbers_apart():
    feat = Dim(2, name="feat")
    a, b = (recorded({"x": of(np.array([1, last]), feat, sparse_dim=Dim(9, name="vocab"))}) for last in (2, 7))
    line = next(line for line in rf.diff(a, b).text.splitlines() if "1 of 1" in line)
    assert line.split()[-1] == "other"


def test_bit_for_bit_the_sign_of_zero_differs():
    a, b = np.array([0.0, 1.0], np.float32), np.array([-0.0, 1.0], np.float32)
    assert compare(a, b, None, Tolerance("float32", 0)) == DiffNumbers(2, 1, 0.0, 0.0, 0)
    assert compare(a, a, None, Tolerance("float32", 0)) == DiffNumbers(2)


def test_numbers_are_those_of_all_cells_also_of_many():
    rng = np.random.default_rng(0)
    a = rng.standard_normal(3_000_001).astype(np.float32)
    b = a.copy()
    places = rng.choice(a.size, 7, replace=False)
    b[places] += np.float32(0.5)
    found = compare(a, b, None, Tolerance("float32"))
    apart = np.abs(a.astype(np.float64) - b)
    assert (found.cells, found.differing, found.max_abs) == (a.size, 7, apart.max())
    assert found.worst in places


def test_a_coarser_dtype_counts_from_there_on(dims):
    values = np.linspace(0.5, 1.5, 6, dtype=np.float32).reshape(2, 3)
    x = of(values, *dims)
    rounded = rf.cast(x, "bfloat16")
    diff = rf.diff(
        recorded({"x": x}, {"x": x}, {"x": x}), recorded({"x": x}, {"x": rounded}, {"x": rf.cast(rounded, "float32")})
    )
    assert diff.same, diff.text
    assert [row.tolerance.dtype for row in diff.rows] == ["float32", "bfloat16", "bfloat16"]
    assert diff.dtypes is diff.rows[1]
    said = "From value, call 1, x on dtypes differ: float32 in a, bfloat16 in b. From there on the tolerance is that of bfloat16."
    assert said in diff.text
    assert not rf.diff(recorded({"x": x}), recorded({"x": rounded}), tolerance=1e-3).same


def test_plain_values_are_compared(dims):
    diff = rf.diff(recorded({"rate": 0.5, "mode": "a", "n": 3}), recorded({"rate": 0.5, "mode": "b", "n": 3}))
    assert repr(diff) == "<Diff: value, mode: 'a' in a, 'b' in b>"
    assert not rf.diff(recorded({"rate": 0.5}), recorded({"rate": 0.6})).same


def test_two_runs_of_a_loop_of_other_lengths_are_matched_run_by_run(dims):
    def run(*runs):
        with record() as trace:
            for number, length in enumerate(runs):
                for step in range(length):
                    with trace_context.loop("loop", step):
                        probe("value", x=of(np.full((2, 3), 10.0 * number + step), *dims))
        return trace

    diff = rf.diff(run(3, 4), run(4, 4))
    assert diff.first is None
    assert [(event.step, float(event.values["x"].numpy()[0, 0])) for event in diff.only_b] == [(3, 3.0)]


def test_a_diff_of_loaded_recordings_is_the_same(tmp_path, dims):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    a, b = recorded({"x": of(values, *dims)}), recorded({"x": of(values + 1, *dims)})
    a.save(tmp_path / "a.rfnb")
    b.save(tmp_path / "b.rfnb")
    loaded = rf.diff(rf.load_trace(tmp_path / "a.rfnb"), rf.load_trace(tmp_path / "b.rfnb"))
    assert loaded.text == rf.diff(a, b).text
    assert rf.diff(a, rf.load_trace(tmp_path / "a.rfnb"), tolerance=0).same


def test_bad_input_is_said(dims):
    trace = recorded({"x": of(np.ones((2, 3)), *dims)})
    with raises_message(
        TypeError,
        "diff: trace_b is text, no recording.\n"
        "  trace_b  'b.rfnb'\n"
        "A file is loaded first.\n"
        "    rf.diff(rf.load_trace('b.rfnb'), ...)",
    ):
        rf.diff(trace, "b.rfnb")
    with raises_message(
        TypeError,
        "diff: trace_a is no recording.\n"
        "  trace_a  int\n"
        "Two recorded runs are compared:\n"
        "    with rf.record(values=True) as trace:\n"
        "        ...    # the run\n"
        "    rf.diff(trace, other)",
    ):
        rf.diff(3, trace)
    with raises_message(
        ValueError,
        "diff: this is no tolerance.\n"
        "  tolerance  -1\n"
        "It is relative to the size of a cell, 0 for bit for bit; None: by the dtypes.\n"
        "    rf.diff(a, b, tolerance=1e-3)",
    ):
        rf.diff(trace, trace, tolerance=-1)
    with raises_message(
        ValueError,
        "diff: two recordings have two names.\n"
        "  names  cpu, cpu\n"
        "They stand for the two in text and views.\n"
        '    rf.diff(a, b, names=("cpu", "gpu"))',
    ):
        rf.diff(trace, trace, names=("cpu", "cpu"))


def test_recordings_with_nothing_in_common_say_what_each_has(dims):
    with record() as other:
        probe("loss", value=1.0)
    with raises_message(
        ValueError,
        "diff: the two recordings have no event in common.\n"
        "  a  value at no path\n"
        "  b  loss at no path\n"
        "Events are matched by kind, path and step. Paths begin at the model passed to the recording:\n"
        "    with rf.record(model=model, values=True) as trace:",
    ):
        rf.diff(recorded({"x": of(np.ones((2, 3)), *dims)}), other)


def test_batches_of_other_sizes_ask_for_the_sequence():
    one, two, three = (
        recorded({"x": of(np.ones((size, 5)), Dim(size, name="batch"), Dim(5, name="feat"))}) for size in (1, 2, 3)
    )
    with raises_message(
        ValueError,
        "diff: the batches have other numbers of sequences.\n"
        "  a  1 sequence\n"
        "  b  3 sequences\n"
        "Say which sequence is which, counted from 0:\n"
        "    rf.diff(a, b, seq_b=0)",
    ):
        rf.diff(one, three)
    with raises_message(
        ValueError,
        "diff: the batches have other numbers of sequences.\n"
        "  a  2 sequences\n"
        "  b  3 sequences\n"
        "Say which sequence is which, counted from 0:\n"
        "    rf.diff(a, b, seq_a=0, seq_b=0)",
    ):
        rf.diff(two, three)
    with raises_message(
        IndexError,
        "diff: b has no sequence 3.\n"
        "  seq_b      3\n"
        "  sequences  3, 0 to 2\n"
        "Sequences are counted from 0, in the order of the batch.\n"
        "    rf.diff(a, b, seq_b=2)",
    ):
        rf.diff(one, three, seq_b=3)
    assert rf.diff(one, three, seq_b=2).same


def test_a_value_that_is_not_there_is_said(dims):
    trace = recorded({"x": of(np.ones((2, 3)), *dims)}, loop=Dim(1, name="time"))
    with raises_message(
        IndexError,
        'diff.find: "loop" has no such value.\n'
        "  asked  name y, step 3\n"
        "  names  x\n"
        "  steps  0 to 0\n"
        "Only what both recordings have is compared.\n"
        '    d.find("loop")',
    ):
        rf.diff(trace, trace).find("loop", "y", 3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_values_that_were_rounded_are_told_from_numbers_that_need_few_bits(dtype):
    feat = Dim(64, name="feat")
    random, halves = randn(feat), of(np.arange(64, dtype=np.float32) / 2, feat)
    rounded = rf.cast(rf.cast(random, dtype), "float32")
    for other, values, said in ((random, rounded, True), (halves * 1.0001, halves, False)):
        diff = rf.diff(recorded({"x": other}), recorded({"x": values}))
        assert diff.first is not None
        assert any("rounded to it" in hint for hint in diff.hints()) is said
