"""Checks of 14_linear_attention: a memory that is a matrix, written to and read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rfnb.teaching import call, check_same, exercise, is_same, kind_of, wrong
from rfnb.teaching.course import load

Mistake = tuple[Callable[..., Any], str, str]


def _random(seed: int) -> Callable[..., torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return lambda *sizes: torch.randn(sizes, generator=generator)


def _outer(key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.einsum("...k,...v->...kv", key, value)


def _read(state: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return torch.einsum("...k,...kv->...v", query, state)


def _pair(got: object, given: Sequence[tuple[str, object]]) -> tuple[Any, Any]:
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        wrong(
            "Two values are wanted: what is read, and the state.", [*given, ("got", kind_of(got))], "return read, state"
        )
    return got[0], got[1]


def _judge_step(
    answer: Any, inputs: Iterable[dict[str, torch.Tensor]], right: Callable[..., Any], mistakes: Sequence[Mistake]
) -> None:
    """Compares both results of a step; a mistake is one of the whole step, so that reading and writing are told apart."""
    for each in inputs:
        given = [(name, tuple(value.shape)) for name, value in each.items()]
        got = call(answer, *(value.clone() for value in each.values()))
        read, state = _pair(got, given)
        wanted_read, wanted_state = right(**each)
        if is_same(read, wanted_state) and is_same(state, wanted_read):
            wrong("What is read and the state are returned the wrong way round.", given, "return read, state")
        if not (is_same(read, wanted_read) and is_same(state, wanted_state)):
            for other, what, rule in mistakes:
                if is_same((read, state), other(**each)):
                    wrong(what, given, rule)
        check_same(state, wanted_state, what="The state", given=given)
        check_same(read, wanted_read, what="What is read", given=given)


def _linear(state, query, key, value, *, before=False, add=True):
    after = state + _outer(key, value) if add else _outer(key, value)
    return _read(state if before else after, query), after


@exercise(
    "One step of linear attention",
    hints=[
        "A pair is written as a matrix (key, value): each number of the key times each number of the value.",
        "With one more axis in each they multiply that way: key gets it at the end, value before its last axis.",
        "Then the query is a matrix with one row, (1, key), and a product with the new state reads.",
    ],
    points=2,
)
def linear_step(answer):
    random = _random(1)
    inputs = [
        {
            "state": random(*batch, keys, values),
            "query": random(*batch, keys),
            "key": random(*batch, keys),
            "value": random(*batch, values),
        }
        for batch, keys, values in (((), 3, 2), ((2,), 4, 5), ((3, 2), 2, 3), ((2,), 3, 3))
    ]
    _judge_step(
        answer,
        inputs,
        _linear,
        (
            (partial(_linear, before=True), "It reads before it writes.", "The query sees what this step has written."),
            (
                partial(_linear, add=False),
                "What was in the state is gone.",
                "Writing adds: the old state plus the new pair.",
            ),
            (
                lambda state, query, key, value: _linear(state, key, query, value),
                "Key and query have changed places.",
                "The key writes, the query reads.",
            ),
            (
                lambda state, query, key, value: (_read(_outer(key, value), query), state + _outer(key, value)),
                "It reads only what this step has written.",
                "The query is multiplied by the whole state.",
            ),
            (
                lambda state, query, key, value: (_read(state + _outer(key, value), key), state + _outer(key, value)),
                "It reads with the key.",
                "The query reads.",
            ),
            (
                lambda state, query, key, value: (_read(state + _outer(key, value), query), state),
                "The state is returned as it was before.",
                "The next step has to find this pair, too.",
            ),
        ),
    )


def _all(query, key, value, *, diagonal=0):
    return torch.tril(torch.einsum("...qk,...tk->...qt", query, key), diagonal) @ value


@exercise(
    "All steps at once",
    hints=[
        "Every query with every key gives a matrix (time, time), as in attention.",
        "There is no softmax, so a mask of minus infinity has no use: what a query must not see gets the weight 0.",
        "Row t may see the columns 0 to t: the lower triangle with its diagonal.",
    ],
    points=2,
)
def all_at_once(answer):
    random = _random(2)
    for batch, time, keys, values in (((), 3, 2, 4), ((2,), 5, 3, 2), ((2, 3), 4, 4, 3), ((), 1, 2, 2)):
        query, key, value = random(*batch, time, keys), random(*batch, time, keys), random(*batch, time, values)
        given = [("query", tuple(query.shape)), ("value", tuple(value.shape))]
        got, right = call(answer, query.clone(), key.clone(), value.clone()), _all(query, key, value)
        if not is_same(got, right):
            scores = query @ key.mT
            blocked = scores.masked_fill(torch.ones(time, time).triu(1).bool(), float("-inf"))
            for other, what, rule in (
                (scores @ value, "Each time sees all times, later ones too.", "Row t may use the columns 0 to t only."),
                (_all(query, key, value, diagonal=-1), "A time does not see itself.", "First the pair is written: the diagonal counts."),
                (torch.triu(scores) @ value, "Each time sees the later ones, not the earlier.", "The lower triangle: row t has 0 to t."),
                (blocked.softmax(-1) @ value, "There is a softmax in it.", "The weights are the products themselves."),
                (_all(query, key, value) / keys**0.5, "There is a scale in it.", "The step has no 1/sqrt(key)."),
                (_all(key, query, value), "Key and query have changed places.", "Rows are queries, columns keys."),
            ):  # fmt: skip
                if time > 1 and is_same(got, other):
                    wrong(what, given, rule)
        check_same(got, right, what="The result", given=given)


def _delta(state, query, key, value, keep, write, *, gate="first", share=True, minus=True, read="after", asked="kept"):
    kept = keep[..., None, None] * state
    known = _read(state if gate in ("after", "none") or asked == "old" else kept, key)
    wanted = write[..., None] * value if share == "value" else value
    change = wanted - known if minus else wanted
    new = _outer(key, write[..., None] * change if share is True else change)
    after = kept + new if gate == "first" else state + new if gate == "none" else keep[..., None, None] * (state + new)
    return _read({"after": after, "before": state, "kept": kept}[read], query), after


@exercise(
    "One step of the delta rule",
    hints=[
        "First the gate; then the key asks the state that is left what it knows, just as a query asks.",
        "What is written is the outer product of the key with write * (value - what is known).",
        "keep is (...) and the state (..., key, value): keep[..., None, None] fits. write[..., None] fits a value.",
    ],
    points=2,
)
def delta_step(answer):
    random = _random(3)
    inputs = []
    for batch, keys, values in (((), 3, 2), ((2,), 4, 5), ((3, 2), 2, 3), ((4,), 3, 3)):
        inputs.append(
            {
                "state": random(*batch, keys, values),
                "query": random(*batch, keys),
                "key": random(*batch, keys),
                "value": random(*batch, values),
                "keep": random(*batch).sigmoid(),
                "write": random(*batch).sigmoid(),
            }
        )
    _judge_step(
        answer,
        inputs,
        _delta,
        (
            (partial(_delta, minus=False), "It adds the value, without a look at what the key reads already.", "write * (value - known)"),
            (partial(_delta, share=False), "All of the difference is written.", "Only the share `write` of it."),
            (partial(_delta, share="value"), "Only the value is multiplied by write, not the difference.", "write * (value - known)"),
            (partial(_delta, gate="none"), "Nothing is forgotten.", "First all of the state is multiplied by keep."),
            (partial(_delta, gate="after"), "The gate takes from what was just written.", "First the gate, then the correction."),
            (partial(_delta, asked="old"), "The key asks the state from before the gate.", "First the gate, then the correction."),
            (partial(_delta, read="before"), "It reads the state from before this step.", "Finally the query reads."),
            (partial(_delta, read="kept"), "It reads before the correction.", "Finally the query reads."),
            (
                lambda state, query, key, value, keep, write: _delta(state, query, key, value, write, keep),
                "keep and write have changed places.",
                "keep is the gate, write the share of the difference.",
            ),
            (
                lambda state, query, key, value, keep, write: _delta(state, key, query, value, keep, write),
                "Key and query have changed places.",
                "The key writes, the query reads.",
            ),
        ),
    )  # fmt: skip


def _response(decay, write, read, length, *, first=0, read_too=True):
    weights = read * write if read_too else write
    return torch.stack([(weights * decay ** (step + first)).sum() for step in range(length)])


@exercise(
    "The response of a state-space model",
    hints=[
        "After the first step the state is b, after the second a * b: no more comes in.",
        "Each output is a sum over cells, of what is read of each.",
        "Cell n gives, after j more steps, its read times its decay to the power of j times its write.",
    ],
)
def response(answer):
    random = _random(4)
    for cells, length in ((2, 3), (3, 5), (1, 4), (4, 1), (5, 8)):
        decay, write, read = random(cells).tanh(), random(cells), random(cells)
        given = [("cells", cells), ("length", length)]
        got = call(answer, decay.clone(), write.clone(), read.clone(), length)
        if isinstance(got, (list, tuple)) and all(getattr(one, "ndim", 0) == 0 for one in got):
            got = torch.tensor([float(one) for one in got])
        right = _response(decay, write, read, length)
        if not is_same(got, right):
            by_cell = torch.stack([read * write * decay**step for step in range(length)])
            for other, what, rule in (
                (_response(decay, write, read, length, first=1), "It forgets before the first output.", "The first output is c · b."),
                (_response(decay, write, read, length, read_too=False), "`read` is not used.", "An output is c · h."),
                (_response(decay, torch.ones(cells), read, length), "`write` is not used.", "The input enters as b x."),
                (right.cumsum(0), "This is the response to 1, 1, 1, ...", "After the first step the input is 0."),
                (right.flip(0), "The outputs stand in the wrong order.", "The first comes first."),
                (by_cell, "It gives the cells one by one.", "An output is a sum over the cells."),
                (by_cell.T, "It gives the cells one by one.", "An output is a sum over the cells."),
                (_response(decay, write, read, length + 1), "There is one output too many.", "As many as `length`."),
            ):  # fmt: skip
                if length > 1 and is_same(got, other):
                    wrong(what, given, rule)
        check_same(got, right, what="The response", given=given)


def _chunked(query, key, value, size, *, all_of_them=True, also_own=False, masked=True):
    state, found = torch.zeros(key.shape[1], value.shape[1]), []
    for q, k, v in zip(query.split(size), key.split(size), value.split(size)):
        written = k.T @ v
        inside = torch.tril(q @ k.T) @ v if masked else q @ k.T @ v
        found.append(inside + q @ (state + written if also_own else state))
        state = state + written if all_of_them else written
    return torch.cat(found)


@exercise(
    "Chunks with a state",
    hints=[
        "Inside a chunk nothing changes. What is missing is what all chunks before it have written.",
        "That is one matrix (key, value); all queries of a chunk read it by one product.",
        "After a chunk its pairs are added to that matrix: the sum of their outer products is key.T @ value.",
    ],
    points=2,
)
def chunked(answer):
    random = _random(5)
    for time, keys, values, size in (
        (4, 2, 3, 4),
        (6, 2, 3, 2),
        (7, 3, 2, 3),
        (5, 4, 4, 1),
        (3, 2, 2, 8),
        (12, 3, 3, 4),
    ):
        query, key, value = random(time, keys), random(time, keys), random(time, values)
        given = [("steps", time), ("size of a chunk", size)]
        got = call(answer, query.clone(), key.clone(), value.clone(), size)
        right = _all(query, key, value)
        if not is_same(got, right):
            alone = torch.cat([_all(*each) for each in zip(query.split(size), key.split(size), value.split(size))])
            whole = len(query) // size * size
            for other, what, rule in (
                (alone, "Each chunk begins with an empty state.", "It reads what the chunks before have written."),
                (_chunked(query, key, value, size, all_of_them=False), "It knows the last chunk only.", "The state adds up."),
                (_chunked(query, key, value, size, also_own=True), "Its own pairs are read twice.", "First read, then add the chunk."),
                (_chunked(query, key, value, size, masked=False), "A chunk looks ahead.", "It has a mask."),
                (right[:whole], "The last chunk, which is shorter, is missing.", "split gives it, too."),
            ):  # fmt: skip
                if is_same(got, other):
                    wrong(what, given, rule)
        check_same(got, right, what="The result", given=given)


ports = load(Path(__file__).parents[1] / "data/ports.py")


@exercise(
    "A port of a layer with the delta rule",
    hints=[
        "Cut qkv(x) into three equal parts, each of them into heads: (batch, time, heads, size). gates(x) is cut into two parts.",
        "torch.nn.functional.normalize(x, dim=-1) divides by the length.",
        "One loop over time with a state (batch, heads, size, size) of zeros at first; your delta_step takes any axes before the last.",
    ],
    points=2,
)
def PortedDelta(answer):
    sizes = ((2, 4, 2, 5), (1, 3, 1, 1), (3, 2, 2, 4), (2, 3, 3, 7))
    cases = [
        (ports.drawn(ports.Delta(heads, size), seed), ports.inputs(count, time, heads * size, seed=seed))
        for seed, (heads, size, count, time) in enumerate(sizes)
    ]
    ports.judge(answer, cases)
