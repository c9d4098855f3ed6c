"""Random small programs compute in a page what they do in Python, or are refused by name."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
import torch
from seed import SEED, part_of
from viz import page_programs
from viz.page_programs import Line, Program, differs, drawn
from viz.runnable import run_in_node

import rfnb as rf
from rfnb.core.errors import parts_of
from rfnb.viz.runnable import op_lowering
from rfnb.viz.runnable.call_notes import noted
from rfnb.viz.runnable.program import PageProgram, _like

COUNT = int(os.environ.get("RFNB_PAGE_PROGRAMS", "80"))
TEXTS = ["abcd", "h", "gfedcbaabc", "bb", "hgfed"]
AT_ONCE = 100  # programs for one start of Node


def exported_of(programs):
    """The programs that can be exported, and by seed the messages that refuse the others."""
    found, refused = {}, {}
    for seed, program in programs:
        try:
            found[seed] = program, PageProgram.of(program, "abcd")
        except Exception as error:
            if str(error).startswith("A page cannot run") or runs(program):
                refused[seed] = error
    return found, refused


def runs(program):
    """Whether it runs for the texts that an export tries, which have other lengths and letters."""
    try:
        for text in _like("abcd"):
            program.run(text)
    except Exception:
        return False
    return True


def problems(found, folder, *, plain=False):
    """The differences between a page and Python: (seed, program cut to that, text, in words)."""
    for begin in range(0, len(found), AT_ONCE):
        part = dict(list(found.items())[begin : begin + AT_ONCE])
        told = run_in_node({str(seed): exported for seed, (_, exported) in part.items()}, TEXTS, folder, plain=plain)
        for seed, (program, exported) in part.items():
            assert not told[str(seed)]["missing"]
            scope = program.run("abcd")
            shapes = {name: len(scope[name].dims) for name in program.gives if isinstance(scope[name], rf.Tensor)}
            for text, answer in zip(TEXTS, told[str(seed)]["answers"], strict=True):
                try:
                    other = differs(program, exported, text, answer, shapes)
                except Exception:
                    continue
                if other:
                    yield seed, program.cut_to(other[0]) if other[0] else program, text, other[1]
                    break


@pytest.fixture(scope="module")
def sample():
    seeds = range(SEED * COUNT, (SEED + 1) * COUNT)
    return exported_of((seed, drawn(seed)) for seed in seeds)


@pytest.mark.parametrize("plain", [False, True], ids=["wasm", "plain"])
def test_random_programs_compute_in_a_page_what_they_do_here(sample, plain, tmp_path):
    part = dict(part_of(sample[0].items(), 3)) if plain else sample[0]  # plain JavaScript is slow
    found = sorted(problems(part, tmp_path, plain=plain), key=lambda each: len(str(each[1])))
    assert not found, "\n".join(
        f"seed {seed}, {text}: {words}\n{program}\n" for seed, program, text, words in found[:5]
    )


def test_values_have_the_same_dims_and_marks_while_they_are_noted(sample):
    """Ops written by other ops (`op_rewrites.py`) give values of the same dims and marks."""
    others = []
    for seed, (program, _) in sample[0].items():
        there, (_, seen) = program.run("abcd"), noted(program.run, "abcd")
        for name in program.gives:
            if isinstance(there[name], rf.Tensor) and marks(there[name]) != marks(seen[name]):
                others.append((seed, name, marks(there[name]), marks(seen[name]), str(program.cut_to(name))))
    assert not others, others[0]


def marks(value):
    sparse = None if value.dtype.startswith("float") else value.sparse_dim  # floats label nothing
    names = [value.dtype, *(dim and dim.name for dim in (value.feature_dim, sparse))]
    return [*names, *sorted(dim.name or "" for dim in value.dims)]


def test_what_a_page_cannot_run_is_said_with_the_rule(sample):
    found, refused = sample
    for seed, error in refused.items():
        assert str(error).startswith("A page cannot run"), f"{seed}: {error}"
        assert parts_of(error)[2], f"{seed}: {error}"
    assert len(refused) < 0.4 * len(found)


def test_the_programs_have_the_ops_that_a_page_has(sample):
    """Each op is drawn: what no program has, nothing is known of."""
    blocks = [block for _, exported in sample[0].values() for block in exported.spec["blocks"]]
    ops = {op["op"] for block in blocks for op in (block["ops"] if "loop" in block else [block])}
    drawn_by_others = {"attended", "copy_compatible_to_dims", "copy_transpose", "identity", "relu_square"}
    wanted = {*op_lowering.ONE, *op_lowering.TWO, *op_lowering.OVER, *op_lowering.OTHER} - drawn_by_others
    if COUNT >= 80:
        assert wanted - ops == set()


FIRST, OTHER = {"beam": 3, "most": 5, "scale": 0.7}, {"beam": 5, "most": 7, "scale": 1.1}


def test_numbers_that_a_person_gives_are_free(tmp_path):
    """The beam, the number of steps and a factor, alone and together."""

    def of(beam, most, scale):
        code = (
            search("v1 = loop.stack(h)\n    v2 = loop.stack(label)", most=most, beam=beam)
            + "v2 = rf.get_beam_scores(v2)"
        )
        return program_of(code.replace("0.7", str(scale)))

    def fn(text, **numbers):
        return of(**numbers)(text)

    exported = PageProgram.of(fn, "abcd", {name: (FIRST[name], OTHER[name]) for name in FIRST})
    own = random.Random(SEED)
    for _ in range(6):
        given = {"beam": own.choice([1, 2, 4, 8]), "most": own.choice([1, 3, 9]), "scale": own.choice([0.0, 0.3, 2.5])}
        told = run_in_node({"it": exported}, TEXTS, tmp_path, inputs=given)["it"]["answers"]
        program = of(**given)
        for text, answer in zip(TEXTS, told, strict=True):
            shapes = {name: len(value.dims) for name, value in program.run(text).items() if name in program.gives}
            assert differs(program, exported, text, answer, shapes) is None, (given, text)


# -- of torch --------------------------------------------------------------------------------------------------------------

OF_TORCH = [
    "torch.tanh({})", "{} + 1.0", "{} * {}", "torch.nn.functional.softmax({}, dim=-1)", "{}.clone().relu_()", "torch.cat([{}, {}])",
    "{}.transpose(0, 1)[..., 0]", "torch.einsum('tbf,tbf->tb', {}, {})", "torch.cumsum({}, 0)", "{}.reshape(-1)",
    "torch.where({} > 0, {}, 0.0)",
]  # fmt: skip


def with_torch(code):
    """A function of rfnb of what a call of torch makes of rows of rfnb."""
    own = random.Random(f"{SEED} {code}")
    name = own.choice(["tanh", "sin", "square"])

    def fn(text):
        scope = page_programs.SCOPE
        time, ids = page_programs.read(text)
        rows = rf.gather(scope["ROWS"], indices=ids)
        array = eval(
            code.format(*["x"] * 3), {"torch": torch, "x": rows.copy_transpose([time, *rows.dims[1:]]).raw_tensor}
        )
        dims = {3: rows.dims, 2: rows.dims[:2], 1: [rf.Dim(array.shape[0], name="flat")]}[array.ndim]
        if tuple(array.shape) != tuple(dim.extent for dim in dims):
            dims = [rf.Dim(size, name=f"axis{at}") for at, size in enumerate(array.shape)]
        return getattr(rf, name)(rf.convert_to_tensor(array, dims=list(dims)))

    return fn


def test_calls_of_torch_between_ops_compute_in_a_page_what_they_do_here(tmp_path):
    programs = {code: PageProgram.of(with_torch(code), "abcd") for code in OF_TORCH}
    told = run_in_node(programs, TEXTS, tmp_path)
    for code, exported in programs.items():
        for text, answer in zip(TEXTS, told[code]["answers"], strict=True):
            assert "error" not in answer, (code, answer)
            with rf.stop_gradient_scope():
                wanted = with_torch(code)(text)
            (value,) = answer["values"]
            names = [exported.spec["dims"][at]["name"] for at in value["dims"]]
            got = np.array(value["values"], float).reshape(value["shape"])
            if len(text) > 1:  # of one letter the function calls its axes otherwise
                got = got.transpose([names.index(dim.name) for dim in wanted.dims])
            else:
                got, wanted = np.sort(got, axis=None), rf.convert_to_tensor(np.sort(wanted.numpy(), axis=None))
            np.testing.assert_allclose(got, wanted.numpy(), atol=1e-4, err_msg=f"{code} {text}")


def test_a_call_of_torch_that_a_page_lacks_is_refused_by_its_name():
    with pytest.raises(TypeError, match="A page cannot run sort of torch") as refused:
        PageProgram.of(with_torch("torch.sort({}, 0)[0]"), "abcd")
    assert dict(parts_of(refused.value)[1])["called in"].startswith("<string>")


# -- what was found --------------------------------------------------------------------------------------------------------

SEARCH = """loop = rf.Loop(max_seq_len={most}, name='search')
loop.state.label = rf.full(dims=[batch], fill_value={end}, dtype='int64', sparse_dim=classes)
loop.state.h = rf.reduce_max(v0, axis=time)
for _ in loop:
    old = loop.state.h
    h = rf.tanh(old * 0.7 + rf.gather(EMBEDDING, indices=loop.state.label))
    label = rf.choice(rf.log_softmax(rf.matmul(h, OUT, reduce=feat), axis=classes), axis=classes, beam_size={beam}, end_label={end})
    loop.state.h, loop.state.label = h, label
    loop.end(label == {end}, include_eos={eos})
    {out}
"""
LOOP = """loop = rf.{loop}
loop.state.h = rf.zeros([batch, feat])
{how} loop:
    h = loop.state.h
    {body}
    loop.state.h = rf.tanh(h * 0.5 + x)
"""
END = "loop.end(loop.iter_idx >= 2, include_eos=False)"
UNTIL = "Loop(max_seq_len=6, name='until')"


def search(out, most=5, beam=3, end=0, eos=True):
    return SEARCH.format(out=out, most=most, beam=beam, end=end, eos=eos)


def looped(body, loop="Loop(axis=time, name='over')", how="for _ in"):
    return LOOP.format(body=body.replace("\n", "\n    "), loop=loop, how=how)


FOUND = {
    "the last entry": "v1 = rf.gather(v0, indices=-1, axis=time)",
    "an index that is clipped": "v1 = rf.gather(v0, indices=ids, axis=time, clip_to_valid=True)",
    "frames before the end": "v1 = rf.slice(v0, axis=time, start=-3, end=-1)[0]",
    "few frames": "v1 = rf.slice(v0, axis=time, start=-2, size=1)[0]",
    "the mean of nothing": "v1 = rf.reduce_mean(v2 := rf.slice(v0, axis=time, start=-3, end=-2)[0], axis=v2.dims[0])",
    "another dim": "v1 = rf.replace_dim(v0, in_dim=feat)[0]",
    "minus infinity": "v1 = rf.softmax(rf.where(v0 > 0, v0, float('-inf')), axis=time)",
    "an array with infinity": "v1 = v0 + rf.convert_to_tensor([float('-inf'), 0.0, float('inf'), 1.0, 2.0], dims=[feat])",
    "all masked": "v1 = rf.softmax(rf.where(v0 > 1e9, v0, -1e30), axis=feat)",
    "positions as numbers": "v1 = rf.softmax(rf.range_over_dim(time, dtype='float32'), axis=time)",
    "labels side by side": "v1 = rf.gather(ROWS, indices=rf.concat((ids, time), (ids, time))[0])",
    "bools added": "v1 = rf.where((v0 > 0) + (v0 > -1), 1.0, 2.0)",
    "features of attention": "v1 = rf.concat_features(rf.dot_attention(v0, v0, v0, key_dim=feat, axis=time, "
        "causal_query_spatial_dim=time), v0)",
    "features padded": "v1 = rf.concat_features(rf.pad(v0, axes=[feat], padding=[(1, 1)], value=0)[0], v0)",
    "bools shifted": "v1 = rf.where(rf.shift_right(v0 > 0, axis=time, pad_value=1), 1.0, 2.0)",
    "the largest of three": "v1 = rf.maximum(v0, 0.1, v0 * -2)",
    "a table as long as the text": "v1 = rf.expand_dim(COLUMN, time) + rf.reduce_sum(v0, axis=feat)",
    "itself in a loop": looped("x = rf.cast(v0, 'float32')\nx = loop.unstack(x)\nv2 = loop.stack(x)") + "v1 = v2 + v0",
    "weights changed in a loop": looped("x = rf.reduce_sum(ROWS * 2.0, axis=letter)\nv1 = loop.stack(rf.tanh(h) + x)"),
    "what is the same in each step": looped("x = rf.matmul(v0, v0, reduce=[time, batch])\nx = rf.reduce_sum(rf.matmul(v0, V, reduce=feat), "
        "axis=time)\nv1 = loop.stack(h + x)", how="with"),
    "the step of the end left out": looped("x = rf.reduce_sum(v0, axis=time)\nv1 = loop.stack(h)\n" + END, UNTIL),
    "its last value": looped("x = rf.reduce_sum(v0, axis=time)\nv1 = loop.last(x + h)\n" + END, UNTIL) + "v2 = loop.state.h",
    "no step": looped("x = rf.reduce_sum(v0, axis=time)\nv1 = loop.stack(h)\n" + END.replace("2", "0"), UNTIL),
    "values before a choice": search("v1 = loop.stack(h)"),
    "the last before a choice": search("v1 = loop.last(h)"),
    "values without the end": search("v1 = loop.stack(h)", most=7, eos=False),
    "a beam wider than there is": search("v1 = loop.stack(h)", beam=7),
    "the first label": search("v1 = loop.stack(label)", end=3),
    "an axis as long as the search": search("v1 = loop.stack(label)") + "v2 = rf.ones([loop.axis, feat])",
    "zeros for each hypothesis": search("v2 = loop.stack(label)", most=1) + "v1 = rf.zeros(rf.get_beam_scores(v2).dims)",
    "ops written with others": "v1 = rf.matmul(rf.one_hot(ids), ROWS, reduce=letter)\n"
        "v2 = rf.reduce(rf.clip_by_value(rf.elu(v0), clip_value_max=0.5), mode='max', axis=time) + rf.reduce_argmin(v0, axis=feat)",
    "windows": "size = rf.Dim(2, name='size')\nv1 = rf.conv(v0, in_dim=feat, out_dim=classes, in_spatial_dims=[time], "
        "filter=rf.expand_dim(OUT, size), filter_size=size, padding='same', strides=2)[0]\n"
        "v2 = rf.pool1d(v0, mode='avg', pool_size=3, padding=1, strides=1, in_spatial_dim=time)[0]",
    "a loss of each letter": "v1 = rf.cross_entropy(target=ids, estimated=rf.matmul(v0, ROWS, reduce=feat), axis=letter, "
        "estimated_type='logits')",
    "the first label of a step function":
        "def step(label, h):\n    h = rf.tanh(h + rf.gather(EMBEDDING, indices=label))\n"
        "    return rf.log_softmax(rf.matmul(h, OUT, reduce=feat), axis=classes), h\n"
        "m1 = rf.beam_search(step, batch=batch, state=rf.reduce_mean(v0, axis=time), max_seq_len=6, axis=classes, beam_size=3, "
        "start_label=3)",
}  # fmt: skip


def program_of(code):
    made = sorted(name for name in page_programs._NAME.findall(code) if name in ("v1", "v2", "m1"))
    return Program(
        (Line("v0 = rf.gather(ROWS, indices=ids)", ("v0",)), Line(code, (*dict.fromkeys(made),))),
        (*dict.fromkeys(made),),
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    found, refused = exported_of((name, program_of(code)) for name, code in FOUND.items())
    assert not refused, next(iter(refused.items()))
    return {seed: words for seed, _, *words in problems(found, tmp_path_factory.mktemp("found"))}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_mended(name, kept):
    assert name not in kept, kept[name]


SEARCHES = "".join(
    f"s{beam} = rf.ctc_prefix_beam_search(rf.matmul(v0, OUT, reduce=feat), in_spatial_dim=time, blank_index=0, beam_size={beam}, "
    "wb_target_dim=classes)[1]\n"
    for beam in (2, 3)
)
EARLIER = "y = loop.unstack(v0)\nx = x if int(loop.iter_idx.numpy()) else y\nv1 = loop.stack(x)"
BEAM = "beam = next(dim for dim in v2.dims if dim not in (batch, feat, loop.axis))\n"
HISTORY = """loop = rf.Loop(axis=time, name="history")
loop.state.all = rf.cum_concat_initial_state([batch, feat])
for _ in loop:
    every, axis, loop.state.all = rf.cum_concat(loop.unstack(v0), axis=rf.single_step_dim, state=loop.state.all)
    v1 = loop.stack(every)
"""
REFUSED = {
    "a value after its step": (
        looped("x = loop.unstack(v0)\nv2 = loop.stack(x)") + "v1 = x + 1.0",
        "used outside the loop",
    ),
    "a value of an earlier step": (looped(EARLIER), "first step differs"),
    "lengths that differ": (
        search("v2 = loop.stack(h)") + "v1 = rf.reduce_sum(v2, axis=loop.axis)",
        "reduce_sum over .* lengths differ",
    ),
    "hypotheses of other lengths": (
        search("v2 = loop.stack(h)") + BEAM + "v1 = rf.reduce_sum(v2, axis=beam)",
        "lengths differ",
    ),
    "hypotheses of two searches": (SEARCHES + "v1 = rf.combine_bc(s2, '+', s3)", "of two searches"),
    "a history that is stacked": (HISTORY, "grows in each step"),
    "half precision": ("v1 = rf.cast(v0, 'float16') * 3.0", "in float16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_silently_wrong_is_refused(name):
    code, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=words) as refused:
        PageProgram.of(program_of(code), "abcd")
    assert str(refused.value).startswith("A page cannot run")
    assert parts_of(refused.value)[2]


def test_a_whole_number_that_a_page_cannot_hold_is_refused():
    from rfnb.viz.runnable.weights import CodedWeights

    with pytest.raises(ValueError, match="too large for a page"):
        CodedWeights.of([np.int64([2**40])], "float32")
