"""Checks of 05_attention: scores, mask, dot and additive attention, and what is wrong with three others."""

import torch

from rfnb.teaching import call, check_gradient, check_same, exercise, kind_of, wrong
from rfnb.teaching.difference import difference

_LENGTHS = torch.tensor([5, 3])
_OTHER_LENGTHS = torch.tensor(
    [2, 4, 1]
)  # of further inputs, whose sizes all differ from the first, and not the longest first


def _random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


_QUERY, _KEYS, _VALUES, _V = _random(2, 4, 36), _random(2, 5, 36, seed=2), _random(2, 5, 7, seed=3), _random(36, seed=4)
_OTHERS = _random(3, 2, 9, seed=6), _random(3, 4, 9, seed=7), _random(3, 4, 7, seed=8), _random(9, seed=9)


def _real(lengths):
    """(batch, 1, source)"""
    return (torch.arange(int(lengths.max())) < lengths[:, None])[:, None]


_REAL = _real(_LENGTHS)


def _reference(scores, values=_VALUES, lengths=_LENGTHS):
    weights = scores.masked_fill(~_real(lengths), -torch.inf).softmax(-1)
    return weights @ values, weights


def _same(got, other):
    return difference(got, other, 1e-5) is None


def _need_torch(got):
    """What follows in the notebook goes on with it in torch."""
    if not isinstance(got, torch.Tensor):
        wrong(
            "The result is no torch tensor.",
            [("got", kind_of(got))],
            "Stay with torch: @, transpose, masked_fill, softmax. Gradients come back through them.",
        )


@exercise(
    "Scores: dot products, scaled",
    hints=[
        "Of each sequence: every row of the queries times every row of the keys, a product of matrices, one of them turned.",
        "keys.transpose(1, 2) is (batch, key, source), and @ multiplies the last two axes.",
        "Divide by the square root of the size of a key, which is the last axis of keys.",
    ],
)
def scaled_scores(answer):
    got = call(answer, _QUERY.clone(), _KEYS.clone())
    plain = _QUERY @ _KEYS.transpose(1, 2)
    expected = plain / 6
    _need_torch(got)
    if got.shape == (2, 5, 4):
        wrong(
            "It is turned: (batch, source, target).",
            [("got", tuple(got.shape)), ("expected", (2, 4, 5))],
            "A row is of a target position, which asks.",
        )
    for mistake, what, rule in (
        (plain, "These are the dot products, without the scale.", "Divide by the square root of the size of a key."),
        (plain / 16, "It is divided by 16, which is right for one size of a key alone: 256.", "keys.shape[-1] ** 0.5 fits all."),
        (plain / 36, "It is divided by the size of a key.", "By its square root: that is how the spread of a dot product grows."),
        (plain * 6, "It is multiplied by the square root of the size.", "Divide by it."),
        (plain / 5**0.5, "It is divided by the root of the number of source positions.",
            "By that of the size of a key, the dim that is summed over."),
        (expected.softmax(-1), "These are weights already.", "The softmax comes later, after the mask."),
    ):  # fmt: skip
        if _same(got, mistake):
            wrong(what, [("size of a key", 36)], rule)
    check_same(got, expected, what="The result")
    other = call(answer, _QUERY[..., :4], _KEYS[..., :4])
    check_same(other, _QUERY[..., :4] @ _KEYS[..., :4].transpose(1, 2) / 2, what="With keys of size 4, the result")


@exercise(
    "The mask: no weight on padding",
    hints=[
        "Which source positions are padding? torch.arange(source) >= length, for each sequence.",
        "lengths is (batch,), scores are (batch, target, source): lengths[:, None, None] fits.",
        "masked_fill puts one value wherever a mask is True.",
    ],
)
def masked_scores(answer):
    for lengths, scores in ((_LENGTHS, _random(2, 4, 5, seed=5)), (_OTHER_LENGTHS, _random(3, 2, 4, seed=6))):
        given, real = [("lengths", lengths.tolist())], _real(lengths)
        source = torch.arange(scores.shape[-1])
        got = call(answer, scores.clone(), lengths.clone())
        _need_torch(got)
        expected = scores.masked_fill(~real, -torch.inf)
        if got.shape == expected.shape:
            padding = (~real).expand_as(scores)
            if _same(got, scores):
                wrong("Nothing is masked.", given)
            if bool((got[padding] == 0).all()):
                wrong(
                    "The scores of the padding are 0.",
                    rule="A score of 0 gets weight too: e to the power of 0 is 1. Only minus infinity gets none.",
                )
            if _same(got, scores.masked_fill(real, -torch.inf)):
                wrong("It is the wrong way round: what is real is masked.", given)
            target = torch.arange(scores.shape[1])[:, None]
            if _same(got, scores.masked_fill(target >= lengths[:, None, None], -torch.inf)):
                wrong(
                    "The mask is over the target, the second axis.",
                    given,
                    "`lengths` are those of the source, the last axis.",
                )
            if _same(got, scores.masked_fill(source > lengths[:, None, None], -torch.inf)):
                wrong(
                    f"One position of padding is left: position {lengths[-1]} of the sequence of length {lengths[-1]}.",
                    rule="Positions count from 0, so those from length on are padding.",
                )
            if bool(torch.isnan(got).any()):
                wrong(
                    "There is NaN in the result.",
                    rule="0 times infinity is NaN. Choose by the mask instead of multiplying by it.",
                )
            if bool((got[padding] == torch.inf).any()):
                wrong(
                    "The scores of the padding are plus infinity: all of the weight would be on them.",
                    given,
                    "Minus infinity.",
                )
            if bool((got[padding] == got[padding][0]).all()) and -1e4 < float(got[padding][0]) < -10:
                wrong(
                    f"The padding has the score {float(got[padding][0]):g}, which is small, and not small enough for every row of scores.",
                    given,
                    "e to the power of -100 is a weight above 0 in float32. Take -torch.inf.",
                )
            if bool((got[padding] <= -1e4).all()):
                got = got.masked_fill(padding, -torch.inf)  # a large negative number gets weight 0 in float32 too
        check_same(got, expected, what="The result", given=given)


@exercise(
    "Dot attention",
    hints=[
        "Three steps, and you have two of them: scaled scores, the mask, softmax.",
        "softmax(-1) is over the source, the last axis.",
        "weights @ values is the weighted mean: (batch, target, source) times (batch, source, value).",
    ],
    points=2,
)
def dot_attention(answer):
    def scores_of(query, keys):
        return query @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5

    plain = _QUERY @ _KEYS.transpose(1, 2)
    _check_attention(
        answer, scores_of, 3, [(plain, "The scale is missing.", "Divide by the root of the size of a key.")]
    )


@exercise(
    "Additive attention",
    hints=[
        "query is (batch, target, key) and keys are (batch, source, key): for all pairs you need (batch, target, source, key).",
        "None as an index makes an axis of size 1, which is broadcast: query[:, :, None] is (batch, target, 1, key). And the keys?",
        "torch.tanh(...) @ v sums over the key: (batch, target, source). From there it is as before.",
    ],
    points=2,
)
def additive_attention(answer):
    def scores_of(query, keys, v):
        return torch.tanh(query[:, :, None] + keys[:, None]) @ v

    scores, pairs = scores_of(_QUERY, _KEYS, _V), _QUERY[:, :, None] + _KEYS[:, None]
    mistakes = [
        (pairs @ _V, "The tanh is missing.", "It stands between the sum of query and key, and the product with v."),
        (scores / 6, "The scores are scaled.", "Additive attention has no scale: tanh keeps its numbers small."),
        (torch.tanh(pairs @ _V), "The tanh comes after the product with v.", "v · tanh(q + k)"),
    ]
    _check_attention(answer, scores_of, 4, mistakes)


def _check_attention(answer, scores_of, count, mistakes):
    """Compare with the weights of `scores_of`, which gets all inputs but the values; `mistakes` are other scores."""
    given = (_QUERY, _KEYS, _VALUES, _V)[:count]
    scores = scores_of(_QUERY, _KEYS, *given[3:])
    context, weights = _reference(scores)
    inputs = [one.clone().requires_grad_() for one in given]
    got_context, got = _pair(call(answer, *inputs, _LENGTHS.clone()))
    for each in (got_context, got):
        _need_torch(each)
    if got.shape == context.shape and got_context.shape == weights.shape:
        wrong("They are in the wrong order.", rule="Return (context, weights).")
    if got.shape == weights.shape:
        after = scores.softmax(-1).masked_fill(~_REAL, 0)
        over_target = scores.masked_fill(~_REAL, -torch.inf).softmax(1)  # NaN where all of a column is padding
        sums = [("sums of rows", [round(x, 2) for x in got.detach()[1].sum(-1).tolist()])]
        for mistake, what, rule in (
            (scores.softmax(-1), "There is no mask: padding gets weight.", "Sequence 1 has 3 of 5 positions."),
            (after, "The mask comes after the softmax: the rows of sequence 1 do not sum to 1.", "Mask the scores, then take the softmax."),
            (scores.masked_fill(~_REAL, 0).softmax(-1), "The scores of the padding are 0, which gets weight too.", "Only -inf gets none."),
            (over_target.nan_to_num(), "The softmax is over the target: the columns sum to 1, not the rows.",
                "Each target position has shares of the source: softmax(-1)."),
            *((_reference(other)[1], what, rule) for other, what, rule in mistakes),
        ):  # fmt: skip
            if _same(got.nan_to_num(), mistake):
                wrong(what, sums, rule)
        if bool(torch.isnan(got).any()):
            wrong("There is NaN in the weights.", rule="A row with nothing but minus infinity, or 0 times infinity.")
    check_same(got, weights, what="The tensor of weights")
    check_same(got_context, context, what="The context")
    dirty = [one.detach().clone() for one in given]
    for index in (1, 2):
        dirty[index][~_REAL[:, 0]] = 777.0
    again, _ = _pair(call(answer, *dirty, _LENGTHS.clone()))
    if difference(again, context) is not None:
        if not bool(torch.isfinite(again).all()):
            wrong(
                "With large keys in the padding the context is not finite: the padding takes part before the mask.",
                rule="torch.softmax subtracts the largest score first. Mask the scores with -inf, then take the softmax.",
            )
        wrong(
            "The context changes with what is in the padding.",
            rule="Its weights are exactly 0, and its scores take no part in the softmax: mask before it.",
        )
    names = ("the queries", "the keys", "the values", "v")
    check_gradient(got_context, dict(zip(names, inputs)))
    others = _OTHERS[:count]
    got_context, got = _pair(call(answer, *(one.clone() for one in others), _OTHER_LENGTHS.clone()))
    context, weights = _reference(scores_of(*others[:2], *others[3:]), others[2], _OTHER_LENGTHS)
    sizes = [("query", tuple(others[0].shape)), ("keys", tuple(others[1].shape)), ("lengths", _OTHER_LENGTHS.tolist())]
    check_same(got, weights, what="With other sizes, the tensor of weights", given=sizes)
    check_same(got_context, context, what="With other sizes, the context", given=sizes)


def _pair(got):
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        wrong("It returns one thing.", [("got", kind_of(got))], "Return two: context and weights.")
    return got


_KINDS = ("no scale", "mask after the softmax", "softmax over the target", "no mask")
_CLUES = {
    "A": (
        "softmax over the target",
        {
            "no scale": "Its weights are not sharp: that is not what a missing scale looks like.",
            "mask after the softmax": "Then each row would sum to 1 or less. Sum the columns too.",
            "no mask": "There is one: a column that is minus infinity all over gives NaN in a softmax along it.",
        },
    ),
    "B": (
        "no scale",
        {
            "mask after the softmax": "Its rows sum to 1, so no weight was taken away after the softmax.",
            "softmax over the target": "Its rows sum to 1, as they should.",
            "no mask": "Nothing of its weight is on padding.",
        },
    ),
    "C": (
        "mask after the softmax",
        {
            "no scale": "Its rows do not sum to 1; without the scale they would.",
            "softmax over the target": "Neither its rows nor its columns sum to 1.",
            "no mask": "There is a mask: nothing of its weight is on padding. When did it come?",
        },
    ),
}


@exercise(
    "Which line is wrong",
    hints=[
        "Of the three real letters, sum the rows of each, weights_of(version)[:, :3].sum(1), and the columns, .sum(0).",
        "Two of the three have rows that do not sum to 1. In one of these the columns do.",
        "The one whose rows sum to 1 is only too sharp.",
    ],
)
def diagnosis(answer):
    if not isinstance(answer, dict) or set(answer) != set("ABC"):
        wrong("It needs an entry for each of A, B and C.", [("got", answer)], '{"A": "no scale", "B": ..., "C": ...}')
    if any(value is Ellipsis for value in answer.values()):
        raise NotImplementedError
    for version, (truth, clues) in _CLUES.items():
        said = " ".join(str(answer[version]).casefold().split())
        if said not in _KINDS:
            wrong(f'{version}: "{answer[version]}" is none of the four.', [("one of", ", ".join(_KINDS))])
        if said != truth:
            wrong(f"{version} is something else. {clues[said]}")
