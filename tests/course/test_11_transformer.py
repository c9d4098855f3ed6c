"""The Transformer: each check names the mistakes that are made there, and the notebook computes what its text says."""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from course.harness import Course

import rfnb as rf
from rfnb.teaching.course import load

course = Course("11_transformer")
solution = course.solutions
checks = load(course.folder / "checks/11_transformer.py")


def mistaken(**mistake):
    return lambda query, key, value, **options: checks.attended(query, key, value, **options, **mistake)


def by_torch(query, key, value, *, key_dim, time):
    """The same by torch's function, as a raw array."""
    (batch,) = (dim for dim in query.dims if dim.name == "batch")
    (heads,) = (dim for dim in query.dims if dim.name == "heads")
    (size,) = (dim for dim in value.dims if dim.name == "value")
    raw = [
        x.copy_compatible_to_dims_raw([batch, heads, time, last])
        for x, last in ((query, key_dim), (key, key_dim), (value, size))
    ]
    out = torch.nn.functional.scaled_dot_product_attention(*raw, is_causal=True)
    return rf.convert_to_tensor(out, dims=[batch, heads, time, size])


def halves(count, size):
    angles = np.arange(count)[:, None] * 10000.0 ** (-np.arange(0, size, 2) / size)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


def in_place(query, key, value, cache):
    if cache is None:
        cache = [torch.zeros(0, 2, 9), torch.zeros(0, 2, 9)]
    for place, part in enumerate((key, value)):
        cache[place] = torch.cat([cache[place], part[None]])
    result, _ = solution.cached_step(query, key, value, [part[:-1] for part in cache])
    return result, cache


def unscaled(query, key, value, cache):
    return solution.cached_step(query * query.shape[-1] ** 0.5, key, value, cache)


def without_itself(query, key, value, cache):
    _, new = solution.cached_step(query, key, value, cache)
    if cache is None:
        return torch.full_like(query, torch.nan), new
    return torch.einsum(
        "hp,phd->hd", (torch.einsum("hd,phd->hp", query, cache[0]) / query.shape[-1] ** 0.5).softmax(-1), cache[1]
    ), new


def forgetful(query, key, value, cache):
    result, _ = solution.cached_step(query, key, value, cache)
    return result, (key[None], value[None])


def norm_but(**mistake):
    return lambda x, weight, bias, eps=1e-5: checks.normed(x, weight, bias, eps, **mistake)


def of_all_positions(x, weight, bias, eps=1e-5):
    return (x - x.mean()) / (x.var(correction=0) + eps).sqrt() * weight + bias


def norm_in_place(x, weight, bias, eps=1e-5):
    x -= x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def by_torch_norm(x, weight, bias, eps=1e-5):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def block_but(**mistake):
    return lambda x, states, parts: checks.put_together(x, states, parts, **mistake)


def block_in_place(x, states, parts):
    x += parts.self_attention(parts.norms[0](x))
    return solution.block(x, states, parts)


def always_crossed(x, states, parts):
    return x + parts.cross_attention(parts.norms[1](x), states)


def stacks_but(**mistake):
    return lambda source, target, encoder, decoder: checks.both_stacks(source, target, encoder, decoder, **mistake)


def with_reduce(source, target, encoder, decoder):
    states = encoder.norm(functools.reduce(lambda x, one: one(x, None), encoder.blocks, source))
    return decoder.norm(functools.reduce(lambda x, one: one(x, states), decoder.blocks, target))


def by_torch_block(x, states, parts):
    """The computation of nn.TransformerDecoderLayer, one expression per line."""
    a = torch.add(x, parts.self_attention(parts.norms[0](x)))
    b = a if states is None else torch.add(a, parts.cross_attention(parts.norms[1](a), states))
    return torch.add(b, parts.outer(parts.inner(parts.norms[2 - (states is None)](b)).clamp(min=0)))


def only_first_row(weights):
    return bool((weights[..., 0, 1:] > 0).any())


def only_first_head(weights):
    return solution.looks_ahead(weights[:1, :1])


ports = course.lesson.module("data/ports.py")


def faulty(kind):
    """The port with one fault that has the weights of its original."""
    return lambda theirs: ports.with_weights_of(kind, theirs)


WRONG = {
    "PortedAttention": {
        "neighbours are a pair": faulty(ports.AttentionHalves),
        "grouped heads": faulty(ports.AttentionDealt),
        "theirs multiplies by 0.5": faulty(ports.AttentionUnscaled),
        "There is no causal mask": faulty(ports.AttentionAhead),
        "rotary base of 100, mine 10000": faulty(ports.AttentionBase),
        "The sign of the sine": faulty(ports.AttentionBackwards),
        "Values are turned": faulty(ports.AttentionValues),
    },
    "positions": {
        "Sines and cosines have changed places": lambda count, size: checks.encoded(count, size, swapped=True),
        "All sines come first here": halves,
        "The exponent is twice what it should be": lambda count, size: checks.encoded(count, size, rate=4),
        "A row for each position": lambda count, size: np.zeros((size, count + 1)),
        "The encoding": lambda count, size: checks.encoded(count, size, base=1000.0) + 0.1,
    },
    "self_attention": {
        "not divided by the root of key_dim.size": mistaken(scale=False),
        "the causal mask is missing": mistaken(mask=None),
        "A position does not see itself": mistaken(mask="<"),
        "The mask is upside down": mistaken(mask=">="),
        "The softmax goes over the positions that ask": mistaken(axis="time"),
        "This is no Tensor with dims": lambda *parts, **options: by_torch(*parts, **options).raw_tensor,
    },
    "cached_step": {
        "The cache that it gets is changed": in_place,
        "not divided by the root of the size": unscaled,
        "A position does not see itself": without_itself,
        "the cache is not as long": forgetful,
        "The cache is a pair of tensors": lambda *parts: (lambda made: (made[0], torch.stack(made[1])))(
            solution.cached_step(*parts)
        ),
        "It returns two things": lambda query, key, value, cache: query,
    },
    "norm": {
        "The variance is divided by size - 1": norm_but(spread="unbiased"),
        "It is divided by the variance, not by its root": norm_but(spread="squared"),
        "eps is added to the standard deviation": norm_but(spread="outside"),
        "eps is left out": norm_but(spread="no eps"),
        "The mean is not subtracted": norm_but(mean=False),
        "It normalises over the positions": lambda x, *more: checks.normed(x, *more, axis=-2 if x.ndim > 1 else -1),
        "It normalises all positions together": of_all_positions,
        "It uses no weight.": lambda x, weight, bias, *eps: solution.norm(x, 1.0, bias, *eps),
        "It uses no bias.": lambda x, weight, bias, *eps: solution.norm(x, weight, 0.0, *eps),
        "It does not use the eps that it is given": lambda x, weight, bias, eps=0: solution.norm(x, weight, bias),
        "x itself is changed": norm_in_place,
        "It calls layer_norm, which makes all of it already": by_torch_norm,
        "The normalised tensor": lambda x, weight, bias, eps=1e-5: (x - x.mean(-1, keepdim=True)) * weight + bias,
    },
    "block": {
        "The norm comes after the sum": block_but(norm="after"),
        "What is added is normalised": block_but(norm="of the result"),
        "There is no norm": block_but(norm="none"),
        "The residuals are missing": block_but(residual="none"),
        "What is normalised is added, not x": block_but(residual="of the norm"),
        "Each line adds to the input of the block": block_but(residual="of the input"),
        "The feed-forward comes first": block_but(first="feed-forward"),
        "Cross-attention comes before self-attention": block_but(first="cross"),
        "nothing is set to 0": block_but(activation="none"),
        "Between the two maps stands a GELU": block_but(activation="gelu"),
        "The states of the encoder are normalised once more": block_but(states_normed=True),
        "Cross-attention looks at the decoder's own positions": block_but(swapped=True),
        "All lines use the first norm": block_but(norms="first"),
        "The norms are used from the last to the first": block_but(norms="turned"),
        "Cross-attention is missing": lambda x, states, parts: solution.block(
            x, None, checks.Without(parts) if states is not None else parts
        ),
        "A block of an encoder has no cross-attention": always_crossed,
        "x itself is changed": block_in_place,
        "The result differs": block_but(activation="tanh"),
    },
    "transformer": {
        "The encoder's last norm is left out": stacks_but(encoder_norm=False),
        "The decoder's last norm is left out": stacks_but(decoder_norm=False),
        "Both last norms are left out": stacks_but(encoder_norm=False, decoder_norm=False),
        "The decoder looks at the source, before the encoder": stacks_but(looks_at="source"),
        "the block of the encoder that is as deep": stacks_but(looks_at="depth"),
        "The decoder looks at its own positions": stacks_but(looks_at="itself"),
        "Only the first block of each stack is used": stacks_but(blocks="first"),
        "nobody reads the target": stacks_but(into="states"),
        "Block 0 of the decoder gets no states": lambda source, target, encoder, decoder: decoder.blocks[0](
            target, None
        ),
        "Block 0 of the encoder gets states": lambda source, target, encoder, decoder: encoder.blocks[0](
            source, target
        ),
        "The result": lambda source, target, encoder, decoder: (
            solution.transformer(source, target, encoder, decoder) * 2
        ),
    },
    "previous_score": {
        "It divides by all positions": lambda weights: np.stack(
            [np.sum([one[t, t - 1] for t in range(1, len(one))]) / len(one) for one in weights]
        ),
        "This is the weight on the position itself": lambda weights: np.diagonal(weights, axis1=1, axis2=2).mean(-1),
        "This is the weight on the position after": lambda weights: np.diagonal(weights, 1, 1, 2).mean(-1),
        "The score of each head": lambda weights: weights.max((1, 2)) + 1.0,
    },
    "looks_ahead": {
        "It says so of all weights": lambda weights: bool((weights > 0).any()),
        "It never says so": lambda weights: bool((weights > 1).any()),
        "Somebody who looks ahead is not found": only_first_row,
        "Somebody who does not look ahead is accused": lambda weights: bool((np.tril(weights, -1) > 0).any()),
    },
}

RIGHT = {
    "self_attention": {"by torch": by_torch},
    "cached_step": {"the cache as a list": lambda *parts: (lambda made: (made[0], list(made[1])))(solution.cached_step(*parts))},
    "norm": {
        "by var": lambda x, weight, bias, eps=1e-5: (
            weight * (x - x.mean(-1)[..., None]) / torch.sqrt(x.var(-1, False)[..., None] + eps) + bias
        ),
    },
    "block": {"by torch": by_torch_block},
    "transformer": {"with reduce": with_reduce},
    "previous_score": {"a list": lambda weights: [float(np.mean([w[t, t - 1] for t in range(1, len(w))])) for w in weights]},
    "looks_ahead": {
        "by what is left for the past": lambda weights: not np.allclose(np.tril(weights).sum(-1), 1),
        "row by row": lambda weights: any(
            weights[..., row, row + 1 :].sum() > 0 for row in range(weights.shape[-1])
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


def test_a_check_of_one_head_is_not_enough():
    assert "not found" in course.judged("looks_ahead", only_first_head).message


def stack_of(stack, mask=None):
    """A stack of torch.nn as the notebook makes it, of its own cell."""
    (cell,) = [cell.source for cell in course.stored.cells if cell.id == "11-whole-use"]
    space = {"norm": solution.norm, "block": solution.block, "SimpleNamespace": SimpleNamespace}
    exec(cell[cell.index("def norm_of") : cell.index("with torch.no_grad")], space)
    return space["stack_of"](stack, mask)


def share(text):
    return [int(number) / 100 for number in re.findall(r"(\d+)%", text)]


@pytest.mark.parametrize("kind", ports.FAULTS[ports.Attention], ids=lambda kind: kind.__name__)
def test_each_fault_of_a_port_is_refused_with_a_line_and_by_its_name(kind):
    exercise = course.exercises[-1]
    said = course.judged(exercise, faulty(kind)).message
    assert ports.FAULTS[ports.Attention][kind] in said and "rf.diff: mine and theirs part in" in said
    assert re.search(r"^  line +\S", said, re.MULTILINE), said


@pytest.mark.notebook
def test_it_has_no_problems(ran):
    assert ran.problems() == []


@pytest.mark.notebook
def test_the_truths_are_those_of_the_solutions(ran):
    names = ["where", "kind", "weakest", "better_loss", "better_writing", "first"]
    assert [ran.truth(name) for name in names] == [str(solution.PREDICTIONS[name]) for name in names]


@pytest.mark.notebook
def test_the_answer_is_there_after_layer_1_and_not_before(ran):
    (low, of), (high, _) = re.findall(r"layer \d: (\d+) of (\d+) right", ran.printed("11-cell-view"))
    assert int(low) < int(of) / 2 and high == of


@pytest.mark.notebook
def test_the_rows_of_the_untrained_model_are_almost_even(ran):
    (text,) = [text for text in ran.shown("11-untrained") if "Before the training" in text]
    looks = re.findall(r"self_att, head \d .* on h, (looks \w+)", text)
    assert len(looks) == 4 and looks.count("looks evenly") >= 3


@pytest.mark.notebook
def test_own_attention_and_the_cache_give_what_the_layer_gives(ran):
    assert float(ran.printed("11-attention-use").split()[-1]) < 1e-5
    assert "are the same within the tolerance" in ran.printed("11-cache-use")


def test_the_solutions_give_what_torch_gives_whatever_the_sizes():
    for size, heads, layers, times in ((8, 2, (1, 3), (1, 4)), (12, 3, (2, 2), (5, 2))):
        model = torch.nn.Transformer(size, heads, *layers, 3 * size, 0.0, batch_first=True, norm_first=True).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        source, target = (torch.randn(2, time, size) for time in times)
        mask = model.generate_square_subsequent_mask(times[1])
        stacks = [stack_of(model.encoder), stack_of(model.decoder, mask)]
        with torch.no_grad():
            wanted = model(source, target, tgt_mask=mask)
            torch.testing.assert_close(solution.transformer(source, target, *stacks), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.notebook
def test_own_transformer_gives_what_torch_gives_and_the_last_cross_attention_finds_the_next_letter(ran):
    assert float(ran.printed("11-whole-use").split()[-1]) < 1e-4
    (words,) = [text for text in ran.shown("11-reveal-kind") if "The mean weight there" in text]
    assert "It writes gohegdeh#." in words
    first, second = map(float, re.findall(r"cross-attention of layer \d (\d\.\d\d)", words))
    assert second > first + 0.1 and second > 0.5


@pytest.mark.notebook
def test_what_looks_back_most_is_needed_most(ran):
    lines = "".join(ran.shown("11-reveal-prune")).splitlines()
    rows = [re.findall(r"(layer \d head \d) +(\d+)% right +looks back ([\d.]+)", line) for line in lines]
    table = [(name, int(right), float(back)) for ((name, right, back),) in filter(None, rows)]
    assert len(table) == 4 and share(ran.printed("11-prune").splitlines()[-1])[0] > 0.95
    assert min(table, key=lambda row: row[1])[0] == max(table, key=lambda row: row[2])[0]
    assert max(table, key=lambda row: row[1])[0] == ran.truth("weakest")


@pytest.mark.notebook
def test_without_the_mask_the_loss_is_lower_and_the_writing_worse(ran):
    with_mask, without = map(float, re.findall(r"loss (\d\.\d+)", "".join(ran.shown("11-reveal-mask"))))
    assert without < with_mask and any("Too good?" in text for text in ran.shown("11-reveal-mask"))
    right, wrong = map(int, re.findall(r"the mask (\d+)% of the letters", "".join(ran.shown("11-reveal-writes"))))
    assert wrong < 50 < 95 < right
    assert re.findall("True|False", ran.printed("11-leak-use")) == ["False", "False", "True", "True"]


@pytest.mark.notebook
def test_the_broken_cache_differs_from_position_1_on(ran):
    assert "Positions that differ: 1 to 16" in "".join(ran.shown("11-reveal-first"))


@pytest.mark.notebook
def test_the_mask_that_is_drawn_is_the_causal_one(ran):
    rows = [line.split()[1:] for line in ran.truth("draw").splitlines()[2:]]
    assert [[cell == "■" for cell in row] for row in rows] == np.tril(np.ones((5, 5), bool)).tolist()
