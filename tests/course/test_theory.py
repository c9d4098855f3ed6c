"""The pages of theory: every number in them is computed here, formulas give what rfnb gives, and no page tells an answer of its lesson."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from course.harness import NOTEBOOKS, Course
from course.telling import in_other_words, told_in

import rfnb as rf
from rfnb.nn.recurrent.linear_recurrence import Writes
from rfnb.nn.recurrent.linear_recurrence import step as linear_recurrence_step
from rfnb.site.formula import mathml

THEORY = NOTEBOOKS.parent / "docs/theory"
PAGES = sorted(path.stem for path in THEORY.glob("[0-9]*.md"))
PARTS = ["Definitions", "Where it breaks", "Exercises for paper", "Sources", "Further reading"]
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$([^$]+)\$", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d+\.\d+")
# Sentences that have words of an answer, and tell nothing: by page, a piece of the sentence and why.
NOTHING: dict[str, dict[str, str]] = {}


def text_of(page: str) -> str:
    return (THEORY / f"{page}.md").read_text("utf-8")


def plain(text: str) -> str:
    return " ".join(text.split())


def same(one: object, other: object, digits: float = 1e-5) -> bool:
    """Whether two arrays (or numbers) are equal up to rounding."""
    return bool(np.allclose(np.asarray(one, float), np.asarray(other, float), rtol=0, atol=digits))


def rounds(value: float, to: str) -> bool:
    """Whether a number is written so when it is rounded to as many places."""
    return f"{value:.{len(to.partition('.')[2])}f}" == to


def random(*dims: rf.Dim, seed: int = 1) -> rf.Tensor:
    array = np.random.default_rng(seed).normal(size=[dim.size for dim in dims]).astype("float32")
    return rf.convert_to_tensor(array, dims=dims)


def array(x: rf.Tensor, *dims: rf.Dim) -> np.ndarray:
    return x.copy_compatible_to_dims_raw(dims or x.dims).detach().cpu().numpy()


def contraction() -> bool:
    batch, letters, feature, model = (rf.Dim(size, name="d") for size in (3, 9, 4, 6))
    a, b = random(batch, letters, feature), random(feature, model, seed=2)
    made = array(rf.matmul(a, b, reduce=feature), batch, letters, model)
    return same(made, np.einsum("blf,fm->blm", array(a), array(b)))


def lookup() -> bool:
    vocab, model, place = rf.Dim(5, name="vocab"), rf.Dim(3, name="model"), rf.Dim(4, name="place")
    table, ids = random(vocab, model), rf.convert_to_tensor(np.array([4, 0, 4, 2]), dims=[place], sparse_dim=vocab)
    one = rf.matmul(rf.one_hot(ids), table, reduce=vocab)
    return same(array(one, place, model), array(rf.gather(table, indices=ids), place, model))


def shifted_softmax() -> bool:
    axis = rf.Dim(4, name="axis")
    x = np.array([1000.0, 999.0, 0.0, -1000.0], "float32")
    made = array(rf.softmax(rf.convert_to_tensor(x, dims=[axis]), axis=axis))
    powers = np.exp(x - x.max())
    logs = array(rf.log_softmax(rf.convert_to_tensor(x, dims=[axis]), axis=axis))
    return same(made, powers / powers.sum()) and same(logs, x - (x.max() + np.log(powers.sum())), 1e-3)


def unseen(*sizes: int) -> tuple[int, int]:
    """Of the orders of axes of these sizes, how many have the same shape, counted; and all of them."""
    orders = list(itertools.permutations(range(len(sizes))))
    return sum([sizes[k] for k in order] == list(sizes) for order in orders), len(orders)


def overflows(x: float) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isinf(np.exp(np.float32(x))))


def waste(*batches: list[int]) -> float:
    return 1 - sum(map(sum, batches)) / sum(len(one) * max(one) for one in batches)


def ragged(*lengths: int) -> tuple[rf.Dim, rf.Dim, np.ndarray, np.ndarray]:
    """Dims, an array with NaN in the padding, and the mask."""
    batch = rf.Dim(len(lengths), name="batch")
    time = rf.ragged_dim(list(lengths), over=batch, name="time")
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    values = np.random.default_rng(1).normal(size=mask.shape).astype("float32")
    return batch, time, np.where(mask, values, np.nan).astype("float32"), mask


def masked_mean() -> bool:
    batch, time, x, mask = ragged(2, 7, 5)
    made = array(rf.reduce_mean(rf.convert_to_tensor(x, dims=[batch, time]), axis=time))
    kept = np.where(mask, x, 0)
    rectangle = kept.mean(1)  # the sum divided by the extent
    return same(made, kept.sum(1) / mask.sum(1)) and same(rectangle, mask.sum(1) / 7 * made)


def masked_softmax() -> bool:
    batch, time, x, mask = ragged(2, 7, 5, 0)
    made = array(rf.softmax(rf.convert_to_tensor(x, dims=[batch, time]), axis=time))
    powers = np.where(mask, np.exp(np.where(mask, x, 0)), 0)
    total = powers.sum(1, keepdims=True)
    by_hand = np.where(total > 0, powers / np.where(total > 0, total, 1), 0)
    return same(made, by_hand) and same(made[3], 0)


def expected_longest(most: int, count: int) -> float:
    return sum(1 - (k / most) ** count for k in range(most))


def means_of_loss() -> tuple[float, float]:
    lengths, means = np.array([1, 9]), np.array([2.0, 1.0])
    return float((lengths * means).sum() / lengths.sum()), float(means.mean())


def time_jacobian() -> bool:
    """The product of diag(1 - h²) W over the steps is the gradient of the last state by the first."""
    torch.manual_seed(1)
    w, h0 = 0.7 * torch.randn(3, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)

    def run(h):
        for _ in range(5):
            h = torch.tanh(w @ h)
        return h

    product, h = torch.eye(3, dtype=torch.float64), h0
    for _ in range(5):
        h = torch.tanh(w @ h)
        product = torch.diag(1 - h**2) @ w @ product
    found = torch.autograd.functional.jacobian(run, h0)
    bound = torch.linalg.matrix_norm(w, 2) ** 5
    return same(product, found, 1e-12) and bool(torch.linalg.matrix_norm(found, 2) <= bound)


def lstm_of_rfnb() -> bool:
    """One step of rf.LSTM by the formulas of the page, and the gradient along the memory."""
    x_dim, unit = rf.Dim(3, name="x"), rf.Dim(2, name="unit")
    rf.set_random_seed(1)
    lstm = rf.LSTM(x_dim, unit)
    x, h, c = random(x_dim), random(unit, seed=2), random(unit, seed=3)
    out, state = lstm(x, state=rf.LstmState(h=h, c=c), spatial_dim=rf.single_step_dim)
    of_x, of_h, bias = (np.asarray(p.raw_tensor.detach().cpu()) for p in (lstm.ff_weight, lstm.rec_weight, lstm.bias))
    i, f, g, o = np.split(of_x @ array(x) + of_h @ array(h) + bias, 4)
    gate = lambda a: 1 / (1 + np.exp(-a))  # noqa: E731
    memory = gate(f) * array(c) + gate(i) * np.tanh(g)
    return same(array(state.c, unit), memory) and same(array(out, unit), gate(o) * np.tanh(memory))


def delta_of_rfnb() -> bool:
    """A step of the recurrence of rf.GatedDeltaNet by the formula, and the one of gradient descent on what the key reads."""
    key, value = rf.Dim(3, name="key"), rf.Dim(2, name="value")
    k, v, q, old = random(key), random(value, seed=2), random(key, seed=3), random(key, value, seed=4)
    alpha, beta = 0.7, 0.4
    log_decay, strength = (rf.convert_to_tensor(np.float32(one), dims=[]) for one in (math.log(alpha), beta))
    writes = Writes(log_decay=log_decay, strength=strength, value=v, key=k, query=q, delta=True)
    _, new = linear_recurrence_step(writes, old, key_dim=key)
    before, pair = alpha * array(old), np.outer(array(k), array(v))
    formula = (np.eye(3) - beta * np.outer(array(k), array(k))) @ before + beta * pair
    s = torch.tensor(before, requires_grad=True)
    (0.5 * ((s.T @ torch.tensor(array(k)) - torch.tensor(array(v))) ** 2).sum()).backward()
    return same(array(new, key, value), formula) and same(before - beta * s.grad.numpy(), formula)


def crosstalk(size: int, pairs: int) -> float:
    """The energy of what is read beside the value, over that of the value: a mean over many memories."""
    draw = np.random.default_rng(1)
    keys = draw.normal(size=(400, pairs, size))
    keys /= np.linalg.norm(keys, axis=2, keepdims=True)
    return float((np.einsum("mid,md->mi", keys[:, 1:], keys[:, 0]) ** 2).sum(1).mean())


def in_chunks() -> bool:
    """Chunks of three of seven steps are the whole."""
    q, k, v = (np.random.default_rng(seed).normal(size=(7, size)) for seed, size in ((1, 3), (2, 3), (3, 2)))
    state, found = np.zeros((3, 2)), []
    for part in (slice(0, 3), slice(3, 6), slice(6, 7)):
        found.append(np.tril(q[part] @ k[part].T) @ v[part] + q[part] @ state)
        state = state + k[part].T @ v[part]
    states = np.cumsum(k[:, :, None] * v[:, None, :], 0)
    return same(np.concatenate(found), np.einsum("td,tdm->tm", q, states))


def parameters(module: torch.nn.Module) -> int:
    return sum(one.numel() for one in module.parameters())


def rf_parameters(module: rf.Module) -> int:
    return sum(math.prod(dim.size for dim in one.dims) for one in module.parameters())


def clipped(theta: float) -> list[float]:
    value = torch.nn.Parameter(torch.zeros(2))
    value.grad = torch.tensor([3.0, 4.0])
    torch.nn.utils.clip_grad_norm_([value], theta)
    return value.grad.tolist()


def half_life(gate: float) -> float:
    return math.log(2) / -math.log(gate)


def cross_entropy() -> bool:
    """The loss and its gradient, with and without label smoothing."""
    axis = rf.Dim(4, name="axis")
    target = rf.convert_to_tensor(np.array(2), dims=[], sparse_dim=axis)
    for smoothing in (0.0, 0.2):
        z = torch.tensor([0.5, -1.0, 2.0, 0.1], requires_grad=True)
        logits = rf.convert_to_tensor(z, dims=[axis])
        loss = rf.cross_entropy(
            estimated=logits, target=target, axis=axis, estimated_type="logits", label_smoothing=smoothing
        )
        loss.raw_tensor.sum().backward()
        wanted = (1 - smoothing) * np.eye(4)[2] + smoothing / 4
        by_hand = float((wanted * (z.logsumexp(0) - z).detach().numpy()).sum())
        probs = z.softmax(0).detach().numpy()
        if not (same(loss.raw_tensor.detach().cpu(), by_hand) and same(z.grad, probs - wanted)):
            return False
    return True


def first_step_of_adam() -> bool:
    weight = torch.nn.Parameter(torch.zeros(3))
    weight.grad = torch.tensor([1e-3, -5.0, 100.0])
    torch.optim.Adam([weight], lr=0.25).step()
    return same(weight.detach(), [-0.25, 0.25, -0.25], 1e-4)


def errors_at_worst(rate: float, labels: int) -> float:
    return sum(1 - (1 - rate) ** i for i in range(1, labels + 1))


def softmax_of(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def dot_attention() -> bool:
    target, source, key, value = (rf.Dim(size, name="d") for size in (2, 5, 3, 4))
    q, k, v = random(target, key), random(source, key, seed=2), random(source, value, seed=3)
    made = rf.dot_attention(q, k, v, key_dim=key, axis=source)
    return same(array(made, target, value), softmax_of(array(q) @ array(k).T / 3**0.5) @ array(v))


def additive_attention() -> bool:
    target, source, key, value = (rf.Dim(size, name="d") for size in (2, 5, 3, 4))
    q, k, v, w = random(target, key), random(source, key, seed=2), random(source, value, seed=3), random(key, seed=4)
    made = rf.additive_attention(q, k, v, energy_weight=w, key_dim=key, axis=source)
    scores = np.tanh(array(q)[:, None] + array(k)) @ array(w)
    return same(array(made, target, value), softmax_of(scores) @ array(v))


def context_by_score() -> bool:
    scores, values = torch.tensor([2.0, 1.0, 0.0]), torch.randn(3, 2, generator=torch.Generator().manual_seed(1))
    weights = scores.softmax(0)
    found = torch.autograd.functional.jacobian(lambda e: e.softmax(0) @ values, scores)
    return same(found.T, weights[:, None] * (values - weights @ values))


def weights_at(temperature: float) -> str:
    weights = softmax_of(np.array([2.0, 1.0, 0.0]) / temperature)
    effective = math.exp(-(weights * np.log(weights)).sum())
    return f"| {temperature:g} | {', '.join(f'{weight:.3f}' for weight in weights)} | {effective:.2f} |"


def kernel_average() -> bool:
    draw = np.random.default_rng(1)
    q, keys = draw.normal(size=3), draw.normal(size=(5, 3))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    return same(softmax_of(keys @ q), softmax_of(-((q - keys) ** 2).sum(1) / 2))


def variation(p: list[float], q: list[float]) -> float:
    return float(np.abs(np.subtract(p, q)).sum() / 2)


def jensen_shannon(p: list[float], q: list[float]) -> float:
    middle = np.add(p, q) / 2
    return float(sum((np.array(one) * np.log(one / middle)).sum() for one in (p, q)) / 2)


def moved_mass() -> bool:
    draw = np.random.default_rng(1)
    weights, values, mass, place = softmax_of(draw.normal(size=5)), draw.normal(size=(5, 3)), 0.4, 2
    other = (1 - mass) * weights + mass * np.eye(5)[place]
    context = weights @ values
    greater = (other - weights).clip(min=0).sum()
    return (
        same(other @ values - context, mass * (values[place] - context))
        and same(variation(other, weights), mass * (1 - weights[place]))
        and same(variation(other, weights), greater)
    )


def two_steps(beam: int) -> float:
    """The best finished probability that a beam finds in the tree of the page: of first labels, and of the best second one."""
    tree = {"first": (0.55, 0.5), "second": (0.45, 0.9)}
    kept = sorted(tree.values(), reverse=True)[:beam]
    return max(one * best for one, best in kept)


def length_penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def gumbel_wins() -> bool:
    """The integral of the page, by rectangles."""
    probs, g = np.array([0.5, 0.3, 0.2]), np.linspace(-10, 40, 200_001)
    for own in range(3):
        others = np.prod([np.exp(-np.exp(-(g - np.log(p)))) for k, p in enumerate(probs) if k != own], axis=0)
        shifted = g - np.log(probs[own])
        if not same((np.exp(-shifted - np.exp(-shifted)) * others).sum() * (g[1] - g[0]), probs[own]):
            return False
    return True


def nucleus() -> bool:
    """The smallest set of most probable labels that has the mass, by trying all sets."""
    axis, p = rf.Dim(5, name="axis"), 0.7
    probs = np.array([0.1, 0.4, 0.05, 0.25, 0.2], "float32")
    kept = array(rf.top_p_mask(rf.convert_to_tensor(probs, dims=[axis]), axis=axis, p=p))
    sets = [one for k in range(1, 6) for one in itertools.combinations(range(5), k) if probs[list(one)].sum() >= p]
    best = max((one for one in sets if len(one) == len(sets[0])), key=lambda one: probs[list(one)].sum())
    return set(np.flatnonzero(kept)) == set(best)


def edits_of(a: str, b: str) -> int:
    """By the recursion of the page."""
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    table[:, 0], table[0] = range(len(a) + 1), range(len(b) + 1)
    for i, j in itertools.product(range(1, len(a) + 1), range(1, len(b) + 1)):
        ways = table[i - 1, j - 1] + (a[i - 1] != b[j - 1]), table[i - 1, j] + 1, table[i, j - 1] + 1
        table[i, j] = min(ways)
    return int(table[-1, -1])


def edit_distance() -> bool:
    pairs = [("kitten", "sitting"), ("flaw", "lawn"), ("abcabba", "cbabac")]
    for a, b in pairs:
        dims = rf.Dim(len(a), name="a"), rf.Dim(len(b), name="b")
        one, other = (rf.convert_to_tensor(np.array([*map(ord, word)]), dims=[dim]) for word, dim in zip((a, b), dims))
        if int(array(rf.edit_distance(one, dims[0], other, dims[1]))) != edits_of(a, b):
            return False
    return edits_of("kitten", "sitting") == 3


def half_width(rate: float, count: int) -> float:
    return 100 * 1.96 * math.sqrt(rate * (1 - rate) / count)


def mcnemar(b: int, c: int) -> float:
    n = b + c
    return 2 * sum(math.comb(n, k) for k in range(max(b, c), n + 1)) / 2**n


def pays_from(unsure: float, end: float) -> int:
    """The fewest labels to leave out so that the end is the better choice, by trying."""
    return next(n for n in itertools.count(1) if math.log(end) > n * math.log(unsure))


def collapsed(path: tuple[int, ...]) -> list[int]:
    return [label for label, _ in itertools.groupby(path) if label]


def by_paths(probs: np.ndarray, labels: list[int]) -> float:
    paths = itertools.product(range(probs.shape[1]), repeat=len(probs))
    return sum(math.prod(probs[range(len(probs)), path]) for path in paths if collapsed(path) == labels)


def ctc_trellis(probs: np.ndarray, labels: list[int]) -> np.ndarray:
    """By the recursion of the page."""
    extended = [0, *(one for label in labels for one in (label, 0))]
    alpha = np.zeros((len(probs), len(extended)))
    alpha[0, :2] = probs[0, extended[:2]]
    for t, s in itertools.product(range(1, len(probs)), range(len(extended))):
        skips = s > 1 and extended[s] != 0 and extended[s] != extended[s - 2]
        before = alpha[t - 1, s] + (alpha[t - 1, s - 1] if s else 0) + (alpha[t - 1, s - 2] if skips else 0)
        alpha[t, s] = probs[t, extended[s]] * before
    return alpha


def ctc_sum() -> bool:
    """The recursion, a sum over all paths, and rf.ctc_loss."""
    logits = np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
    time, classes = rf.Dim(5, name="time"), rf.Dim(3, name="classes")
    for labels in ([1, 2], [1, 1], [2]):
        spatial = rf.Dim(len(labels), name="labels")
        loss = rf.ctc_loss(
            logits=rf.convert_to_tensor(logits, dims=[time, classes], feature_dim=classes),
            targets=rf.convert_to_tensor(np.array(labels), dims=[spatial], sparse_dim=classes),
            input_spatial_dim=time, targets_spatial_dim=spatial, blank_index=0,
        )  # fmt: skip
        total = ctc_trellis(softmax_of(logits), labels)[-1, -2:].sum()
        if not (same(total, by_paths(softmax_of(logits), labels)) and same(array(loss), -math.log(total), 1e-4)):
            return False
    return True


def ctc_gradient() -> bool:
    """y minus the posterior, which is summed over all paths, is the gradient of torch."""
    logits, labels = torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(1)).requires_grad_(), [1, 1]
    lengths = torch.tensor([5]), torch.tensor([2])
    torch.nn.functional.ctc_loss(logits.log_softmax(-1), torch.tensor([labels]), *lengths, reduction="sum").backward()
    probs, posterior = logits.softmax(-1)[:, 0].detach().numpy(), np.zeros((5, 3))
    for path in itertools.product(range(3), repeat=5):
        if collapsed(path) == labels:
            posterior[range(5), path] += math.prod(probs[range(5), path])
    return same(logits.grad[:, 0], probs - posterior / by_paths(probs, labels))


def needs_frames(labels: list[int]) -> int:
    return next(frames for frames in itertools.count(1) if by_paths(np.full((frames, 3), 1 / 3), labels) > 0)


Lattice = tuple[np.ndarray, np.ndarray]


def lattice(frames: int, labels: int) -> Lattice:
    """Probabilities of the blank (frames, labels + 1) and of the next label (frames, labels), at each place."""
    blank = np.random.default_rng(1).uniform(0.2, 0.8, size=(frames, labels + 1))
    return blank, 0.7 * (1 - blank[:, :labels])


def by_walks(blank: np.ndarray, label: np.ndarray) -> float:
    """The sum over all walks, one after the other."""
    frames, labels = label.shape
    total = 0.0
    for moves in set(itertools.permutations("b" * (frames - 1) + "l" * labels)):
        t, u, one = 0, 0, 1.0
        for move in moves:
            one *= blank[t, u] if move == "b" else label[t, u]
            t, u = (t + 1, u) if move == "b" else (t, u + 1)
        total += one * blank[-1, -1]
    return total


def both_ways(blank: np.ndarray, label: np.ndarray) -> Lattice:
    """Alpha and beta by the recursions of the page."""
    alpha, beta = np.zeros(blank.shape), np.zeros(blank.shape)
    places = list(itertools.product(range(blank.shape[0]), range(blank.shape[1])))
    alpha[0, 0], beta[-1, -1] = 1, blank[-1, -1]
    for t, u in places[1:]:
        left = alpha[t - 1, u] * blank[t - 1, u] if t else 0
        alpha[t, u] = left + (alpha[t, u - 1] * label[t, u - 1] if u else 0)
    for t, u in places[-2::-1]:
        right = blank[t, u] * beta[t + 1, u] if t + 1 < len(blank) else 0
        beta[t, u] = right + (label[t, u] * beta[t, u + 1] if u < label.shape[1] else 0)
    return alpha, beta


def transducer_sums() -> bool:
    """Both recursions, every anti-diagonal, and all walks."""
    blank, label = lattice(4, 3)
    alpha, beta = both_ways(blank, label)
    total, product = by_walks(blank, label), np.fliplr(alpha * beta)
    diagonals = [np.trace(product, offset) for offset in range(-3, 4)]
    return same(alpha[-1, -1] * blank[-1, -1], total) and same(beta[0, 0], total) and same(diagonals, total)


def transducer_of_rfnb() -> bool:
    """rfnb's sum over all walks of a lattice equals the log of the recursion."""
    logits = torch.randn(1, 4, 3, 3, generator=torch.Generator().manual_seed(1))
    found = rf.transducer_lattice(logits, [["a", "b"]], vocab=["-", "a", "b"], blank="-")[0]
    probs = logits[0].softmax(-1).numpy()
    alpha, _ = both_ways(probs[..., 0], np.stack([probs[:, 0, 1], probs[:, 1, 2]], 1))
    return same(float(found.log_prob_of_all), math.log(alpha[-1, -1] * probs[-1, -1, 0]), 1e-4)


def emission_posterior() -> bool:
    """It is the derivative by the logarithm of a label's probability, and sums to 1 over the frames of each label."""
    blank, label = lattice(3, 2)
    alpha, beta = both_ways(blank, label)
    posterior = alpha[:, :-1] * label * beta[:, 1:] / beta[0, 0]
    for place in itertools.product(range(3), range(2)):
        more = label.copy()
        more[place] *= math.exp(1e-6)
        if not same((math.log(by_walks(blank, more)) - math.log(beta[0, 0])) / 1e-6, posterior[place]):
            return False
    return same(posterior.sum(0), 1)


def one_label() -> tuple[float, float]:
    """Of the check by hand: the probabilities of A and of nothing."""
    alpha, _ = both_ways(np.array([[0.8, 1.0]] * 2), np.array([[0.2]] * 2))
    return float(alpha[-1, -1]), 0.8**2


def multi_head() -> bool:
    """One layer of torch by the formula: heads with a scale of their own, a causal mask, a sum of what they write."""
    torch.manual_seed(1)
    layer, x = torch.nn.MultiheadAttention(6, 3, bias=False, batch_first=True).double(), torch.randn(5, 6).double()
    mask = torch.triu(torch.full((5, 5), -math.inf, dtype=torch.float64), 1)
    w_q, w_k, w_v = (part.T.detach() for part in layer.in_proj_weight.chunk(3))
    total = torch.zeros(5, 6, dtype=torch.float64)
    for head in range(3):
        own = slice(2 * head, 2 * head + 2)
        weights = ((x @ w_q[:, own]) @ (x @ w_k[:, own]).T / 2**0.5 + mask).softmax(-1)
        total += weights @ (x @ w_v[:, own]) @ layer.out_proj.weight.T[own].detach()
    with torch.no_grad():
        return same(layer(x, x, x, attn_mask=mask)[0], total, 1e-12)


def pre_norm_block() -> bool:
    """The three lines of the definition against `torch.nn.TransformerDecoderLayer`."""
    torch.manual_seed(1)
    layer = torch.nn.TransformerDecoderLayer(8, 2, 32, dropout=0.0, norm_first=True, batch_first=True).eval().double()
    start, encoded = torch.randn(1, 5, 8).double(), torch.randn(1, 3, 8).double()
    with torch.no_grad():
        normed = layer.norm1(start)
        x = start + layer.self_attn(normed, normed, normed)[0]
        x = x + layer.multihead_attn(layer.norm2(x), encoded, encoded)[0]
        x = x + layer.linear2(layer.linear1(layer.norm3(x)).clamp(min=0))
        return same(layer(start, encoded), x, 1e-12)


def layer_norm() -> bool:
    dim = rf.Dim(5, name="dim")
    x, norm = random(dim), rf.LayerNorm(dim)
    return same(array(norm(x)), (array(x) - array(x).mean()) / np.sqrt(array(x).var() + norm.eps))


def sines(position: float, size: int) -> np.ndarray:
    rates = 10000 ** (-2 * np.arange(size // 2) / size)
    return np.stack([np.sin(rates * position), np.cos(rates * position)], 1)


def a_shift_is_a_rotation() -> bool:
    rates = 10000 ** (-2 * np.arange(4) / 8)
    turn = np.array([[np.cos(3 * rates), np.sin(3 * rates)], [-np.sin(3 * rates), np.cos(3 * rates)]])
    products = [(sines(t, 8) * sines(t - 3, 8)).sum() for t in (3, 9, 40)]
    return same(np.einsum("abi,ib->ia", turn, sines(7, 8)), sines(10, 8)) and same(products, np.cos(3 * rates).sum())


def sines_of_rfnb() -> bool:
    feature, place = rf.Dim(6, name="feature"), rf.Dim(4, name="place")
    made = rf.sinusoidal_encoding(rf.range_over_dim(place), feat_dim=feature)
    angles = np.arange(4)[:, None] * 10000 ** (-np.arange(3) / (6 / 2 - 1))
    return same(array(made, place, feature), np.concatenate([np.sin(angles), np.cos(angles)], 1))


def cached_steps() -> bool:
    """Steps of a causal layer of rfnb, with their cache, give the rows of the whole."""
    time, model = rf.Dim(5, name="time"), rf.Dim(6, name="model")
    rf.set_random_seed(1)
    sizes = {"key_dim_total": model, "value_dim_total": model, "num_heads": 2, "att_dropout": 0.0}
    layer, x, rows = rf.CausalSelfAttention(model, model, **sizes), random(time, model), []
    state = layer.default_initial_state(batch_dims=[])
    for step in range(5):
        place = rf.constant(step, dims=[], dtype="int32")
        made, state = layer(rf.gather(x, indices=place, axis=time), axis=rf.single_step_dim, state=state)
        rows.append(array(made, model))
    return same(rows, array(layer(x, axis=time)[0], time, model))


def block_size() -> tuple[int, int]:
    """The weights in matrices of an encoder block with d = 32, and all parameters."""
    block = torch.nn.TransformerEncoderLayer(32, 2, 4 * 32)
    return sum(one.numel() for one in block.parameters() if one.ndim == 2), parameters(block)


def learning_rate(step: int, size: int = 512, warm: int = 4000) -> float:
    return size**-0.5 * min(step**-0.5, step * warm**-1.5)


def trials(shows: float, miss: float) -> int:
    return next(n for n in itertools.count(1) if (1 - shows) ** n <= miss)


def halvings(modules: int) -> int:
    """The most comparisons that halving needs, over all places of the first difference."""

    def needed(first: int) -> int:
        low, high, count = 0, modules - 1, 0
        while low < high:
            middle, count = (low + high) // 2, count + 1
            low, high = (low, middle) if first <= middle else (middle + 1, high)
        return count

    return max(needed(first) for first in range(modules))


def central_difference() -> bool:
    """Its error is a sixth of h² times the third derivative."""
    h, x = 1e-3, 0.7
    found = (math.sin(x + h) - math.sin(x - h)) / (2 * h)
    return same((found - math.cos(x)) / (h**2 / 6), -math.cos(x), 1e-4)


UNIT = 2.0**-24  # roundoff of float32


def sum_bound() -> bool:
    """No order of a sum in float32 is further from it than the bound, and they are not all the same."""
    x = np.random.default_rng(1).normal(size=512).astype("float32")
    exact, bound, found = math.fsum(x.tolist()), 511 * UNIT * float(np.abs(x).sum()), set()
    for seed in range(5):
        total = np.float32(0)
        for one in np.random.default_rng(seed).permutation(x):
            total += one
        found.add(float(total))
    return len(found) > 1 and max(abs(total - exact) for total in found) <= bound


# By page: what it says, and whether it is so. A formula stands there as a piece of its TeX.
def cross_entropy_of_conditionals() -> bool:
    """Of a random joint distribution of x and what is shown of it, and a random model."""
    joint, model = np.random.default_rng(1).random((4, 3)), softmax_of(np.random.default_rng(2).normal(size=(3, 4))).T
    joint /= joint.sum()
    true = joint / joint.sum(0)
    entropy, divergence = -(joint * np.log(true)).sum(), (joint * np.log(true / model)).sum()
    return same(-(joint * np.log(model)).sum(), entropy + divergence) and divergence > 0


def pseudo_likelihood(joint: list[list[float]]) -> float:
    """The sum over both labels of the product of their conditionals."""
    p = np.array(joint)
    return float((p / p.sum(0) * (p / p.sum(1, keepdims=True))).sum())


def shown_and_chosen() -> bool:
    """The page's formula, against all cases of kept and drawn counted out."""
    pi, size = np.array([0.5, 0.3, 0.2]), 3
    cases = 0.1 * np.diag(pi) + 0.1 * np.outer(pi, np.ones(size) / size)  # what stood there, what is shown
    formula = (np.diag(pi) + pi[:, None] / size) / (pi + 1 / size)
    return same(cases / cases.sum(0), formula)


def span_sizes(labels: int, cut: int, size: int) -> tuple[int, int, int]:
    """How many spans there are, what the encoder reads, what the decoder writes: counted with the solution of the lesson."""
    spans = [
        (start, min(start + size, start + cut - at * size))
        for at, start in enumerate(range(0, 6 * size * cut, 6 * size))
    ]
    spans = [(start, end) for start, end in spans if end > start]
    source, target = Course("15_pretraining").solutions.cut_out(["x"] * labels, spans)
    return len(spans), len(source), len(target)


def a_pull_is_a_mean() -> bool:
    """The minimum of a parabola with a pull, by gradient descent."""
    h, best, pull, start, w = 2.0, 3.0, 0.5, -1.0, 0.0
    for _ in range(200):
        w -= 0.1 * (h * (w - best) + pull * (w - start))
    return same(w, (h * best + pull * start) / (h + pull))


TRUE: dict[str, dict[str, Callable[[], bool]]] = {
    "01_dims": {
        r"\sum_{k} a[i_A,\,r{=}k]\; b[i_B,\,r{=}k]": contraction,
        "these are 3 · 9 · 4 · 6 = 648": lambda: 3 * 9 * 4 * 6 == 648,
        r"\sum_{v}\mathrm{onehot}[i,v]\; T[v,m] = T[\mathrm{ids}[i],\,m]": lookup,
        r"\frac{e^{x_s-c}}{\sum_r e^{x_r-c}}": shifted_softmax,
        "$e^x$ overflows above 88.7; without the shift one score of 89 is enough": lambda: (
            not overflows(88.7) and overflows(88.8) and overflows(89)
        ),
        "further than about 104 below the maximum are exactly 0 in float32": lambda: (
            np.exp(np.float32(-103)) > 0 and np.exp(np.float32(-104)) == 0
        ),
        "For sizes (5, 5, 8, 4) that is 2 of 24, for (5, 5, 8, 8) it is 4 of 24, and for (4, 4, 4, 4) all 24": lambda: (
            [unseen(5, 5, 8, 4), unseen(5, 5, 8, 8), unseen(4, 4, 4, 4)] == [(2, 24), (4, 24), (24, 24)]
        ),
        "shapes (5,) and (5, 1) give (5, 5)": lambda: (np.zeros(5) + np.zeros((5, 1))).shape == (5, 5),
    },
    "02_ragged": {
        "For lengths 2, 5 and 7 it is 1 − 14/21 = 33.3 %": lambda: rounds(100 * waste([2, 5, 7]), "33.3"),
        "the waste of both is 25.0 %; the mean of 33.3 % and 0 % would be 16.7 %": lambda: (
            rounds(100 * waste([2, 5, 7], [7]), "25.0") and rounds(50 * waste([2, 5, 7]), "16.7")
        ),
        r"$\mathbb{E}[N]$ is 11.9 and the mean length is 6.5, so 45.5 % of the cells are padding": lambda: (
            rounds(expected_longest(12, 32), "11.9") and rounds(100 * (1 - 6.5 / expected_longest(12, 32)), "45.5")
        ),
        r"\bar x_b = \frac{\sum_t m_{b,t}\,x_{b,t}}{\sum_t m_{b,t}}": masked_mean,
        r"\alpha_s=\frac{m_s\,e^{e_s-c}}{\sum_r m_r\,e^{e_r-c}}": masked_softmax,
        "With lengths 1 and 9 and mean losses 2 and 1, the first is 1.1 and the second 1.5": lambda: means_of_loss() == (1.1, 1.5),
    },
    "03_loops": {
        r"c_t=f_t\odot c_{t-1}+i_t\odot\tilde c_t": lstm_of_rfnb,
        "with $m=27$ and $n=5$ these are 660 (`rf.LSTM`); `torch.nn.LSTM`, which has two biases for each, has 680": lambda: (
            4 * 5 * (27 + 5 + 1) == rf_parameters(rf.LSTM(rf.Dim(27, name="in"), rf.Dim(5, name="out"))) == 660
            and parameters(torch.nn.LSTM(27, 5)) == 680
        ),
        r"\operatorname{diag}\left(1-h_k^2\right)W": time_jacobian,
        "0.9 to the power of 50 is 0.005, and 1.1 to the power of 50 is 117": lambda: (
            rounds(0.9**50, "0.005") and rounds(1.1**50, "117")
        ),
        "A gate of 0.99 leaves 0.605 after 50 steps, one of 0.9 leaves 0.005": lambda: rounds(0.99**50, "0.605"),
        "69 for 0.99, and 6.6 for 0.9": lambda: rounds(half_life(0.99), "69") and rounds(half_life(0.9), "6.6"),
        r"$\sigma(1)=0.731$ rather than 0.5": lambda: rounds(1 / (1 + math.exp(-1)), "0.731"),
        r"The gradient (3, 4) with $\theta=1$ becomes (0.6, 0.8)": lambda: same(clipped(1.0), [0.6, 0.8]) and clipped(9.0) == [3, 4],
    },
    "04_encoder_decoder": {
        r"L=\ln 30=3.40$ nats, which is $3.40/\ln 2=4.91$ bits": lambda: (
            rounds(math.log(30), "3.40") and rounds(math.log2(30), "4.91")
        ),
        r"\frac{\partial \ell}{\partial z_k}=p_k-\delta_{kr}": cross_entropy,
        r"For $\epsilon=0.02$ and $m=10$: the output is right with probability 0.817, "
        "and there are 0.20 errors in the best case, 1.04 in the worst": lambda: (
            rounds(0.98**10, "0.817") and rounds(0.02 * 10, "0.20") and rounds(errors_at_worst(0.02, 10), "1.04")
            and errors_at_worst(0.02, 10) <= 0.02 * 10 * 11 / 2
        ),
        r"$\Delta_1=-\eta\operatorname{sign}(g_1)$": first_step_of_adam,
    },
    "05_attention": {
        r"\mathrm{context} = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d}}\right) V": dot_attention,
        r"$v\cdot\tanh(q+k)$, with $q$ and $k$ projected | `rf.additive_attention`": additive_attention,
        r"=\alpha_r\,(v_r-c)": context_by_score,
        r"$\alpha(1-\alpha)$ is 0.25 at even weights and 0.0196 at 0.98": lambda: rounds(0.98 * 0.02, "0.0196"),
        "| 0.5 | 0.867, 0.117, 0.016 | 1.55 |": lambda: weights_at(0.5) == "| 0.5 | 0.867, 0.117, 0.016 | 1.55 |",
        "| 1 | 0.665, 0.245, 0.090 | 2.30 |": lambda: weights_at(1) == "| 1 | 0.665, 0.245, 0.090 | 2.30 |",
        "| 2 | 0.506, 0.307, 0.186 | 2.77 |": lambda: weights_at(2) == "| 2 | 0.506, 0.307, 0.186 | 2.77 |",
        r"\alpha_s=\frac{\exp\left(-\tfrac{1}{2}\lVert q-k_s\rVert^2\right)}": kernel_average,
        r"in float32, $\exp(-104)=0$": lambda: np.exp(np.float32(-104)) == 0,
        r"In float16 $-10^9$ cannot be represented and becomes $-\infty$": lambda: torch.tensor(-1e9).half().isinf().item(),
    },
    "06_explanation": {
        r"between 0 and $\ln 2=0.693$. For $p=(0.7, 0.2, 0.1)$ and $q=(0.1, 0.2, 0.7)$, TV is 0.6 and JS is 0.253": lambda: (
            rounds(variation([0.7, 0.2, 0.1], [0.1, 0.2, 0.7]), "0.6")
            and rounds(jensen_shannon([0.7, 0.2, 0.1], [0.1, 0.2, 0.7]), "0.253") and rounds(math.log(2), "0.693")
        ),
        r"c'-c=m\,(v_j-c),\qquad \mathrm{TV}(a,\alpha)=m\,(1-\alpha_j)": moved_mass,
        "values 0, 1 and 2, and $n=(1,-2,1)$: the weights (0.2, 0.6, 0.2) and (0.4, 0.2, 0.4) both have the context 1": lambda: (
            same([np.dot(w, [0, 1, 2]) for w in ([0.2, 0.6, 0.2], [0.4, 0.2, 0.4])], 1) and np.dot([1, -2, 1], [0, 1, 2]) == 0
        ),
    },
    "07_search": {
        "Greedy search goes for 0.55 · 0.5 = 0.275 and misses 0.45 · 0.9 = 0.405. A beam of 2 keeps both": lambda: (
            rounds(two_steps(1), "0.275") and rounds(two_steps(2), "0.405")
        ),
        "Two first labels have 0.55 and 0.45. After the first, the best continuation has 0.5; after the second, 0.9.": lambda: (
            two_steps(1) == 0.55 * 0.5
        ),
        r"With $\alpha=0.6$ and 20 labels, $lp$ is 2.35": lambda: rounds(length_penalty(20, 0.6), "2.35"),
        r"16 to 1 at $\tau=0.5$ and 2 to 1 at $\tau=2$": lambda: (4 ** (1 / 0.5), 4 ** (1 / 2)) == (16, 2),
        r"e^{-e^{-g}\sum_w p_w}\,dg=p_v": gumbel_wins,
        "10,000 labels of 0.00001 each make up a tenth": lambda: same(10_000 * 0.00001, 0.1, 1e-12),
        "$0.9^{20}=0.12$": lambda: rounds(0.9**20, "0.12"),
        r"\sum_{v\in N_p}p(v)\ge p": nucleus,
    },
    "08_errors": {
        r"D(i,j)=\min\left\{\ D(i-1,j-1)+[a_i\ne b_j],\quad D(i-1,j)+1,\quad D(i,j-1)+1\ \right\}": edit_distance,
        "2 edits for 3 words, a rate of 66.7 %": lambda: edits_of("xcsd", "tcs") == 2 and rounds(200 / 3, "66.7"),
        r"\hat p\ \pm\ 1.96\,\sqrt{\frac{\hat p\,(1-\hat p)}{n}}": lambda: abs(math.erf(1.96 / math.sqrt(2)) - 0.95) < 1e-4,
        "For 28 % of 1000 words that is ±2.8 percentage points; for 28 % of 100 it is ±8.8": lambda: (
            rounds(half_width(0.28, 1000), "2.8") and rounds(half_width(0.28, 100), "8.8")
        ),
        "With $b=12$ and $c=4$ the two-sided probability of something at least as uneven is 0.077": lambda: rounds(mcnemar(12, 4), "0.077"),
        r"With $q=0.35$ and $\epsilon=0.02$ it pays to leave out 4 labels or more; with $q=0.9$ it has to be 38": lambda: (
            pays_from(0.35, 0.02) == 4 and pays_from(0.9, 0.02) == 38
        ),
    },
    "09_ctc": {
        r"p(l\mid x)=\alpha_T(2U+1)+\alpha_T(2U)": ctc_sum,
        r"at least $T\ge U+r$ frames": lambda: [needs_frames(labels) for labels in ([1, 2], [1, 1], [1, 1, 2, 2])] == [2, 3, 6],
        r"each with 0.7 for $a$ and 0.3 for the blank. Of the eight paths two do not stand for $a$: three blanks, 0.027, "
        r"and $a\varnothing a$, 0.147. So $p(a)=0.826$, and $L=0.191$ nats": lambda: (
            rounds(0.3**3, "0.027") and rounds(0.7 * 0.3 * 0.7, "0.147")
            and rounds(by_paths(np.array([[0.3, 0.7]] * 3), [1]), "0.826") and rounds(-math.log(0.826), "0.191")
        ),
        r"\frac{\partial L}{\partial z_t(k)}=y_t(k)-\gamma_t(k)": ctc_gradient,
        r"A loss of $\ln 4=1.39$ nats where $\ln 2=0.69$ would be possible": lambda: (
            same(by_paths(np.array([[0, 0.5, 0.5]] * 2), [1, 2]), 1 / 4)
            and rounds(math.log(4), "1.39") and rounds(math.log(2), "0.69")
        ),
    },
    "10_transducers": {
        r"p(y\mid x)=\sum_{t+u=c}\alpha(t,u)\,\beta(t,u)": transducer_sums,
        r"\alpha(1,0)=1,\qquad p(y\mid x)=\alpha(T,U)\,b_{T,U}": transducer_of_rfnb,
        r"Before A: blank 0.8, A 0.2. After A only blanks. Then $\alpha(1,1)=0.2$, $\alpha(2,0)=0.8$ and "
        r"$\alpha(2,1)=0.2+0.8\cdot0.2=0.36$, so A has 0.36. Writing nothing has $0.8^2=0.64$": lambda: (
            same(one_label(), (0.36, 0.64))
        ),
        r"\gamma_{t,u}=\frac{\alpha(t,u)\,\ell_{t,u}\,\beta(t,u+1)}{p(y\mid x)}": emission_posterior,
        "Two halves of 0.25 lose against 0.3; together they win with 0.5": lambda: 0.25 < 0.3 < 0.25 + 0.25,
        "With 12 layers, 2 frames each and 10 ms per frame this is 240 ms": lambda: 12 * 2 * 10 == 240,
        "with 1000 classes in float32 that is 1.6 GB": lambda: rounds(16 * 500 * 51 * 1000 * 4 / 1e9, "1.6"),
    },
    "11_transformer": {
        r"X &\leftarrow X+\operatorname{CrossAttention}(\operatorname{Norm}(X),\,E)\\": pre_norm_block,
        r"\operatorname{softmax}\left(\frac{(XW^Q_i)(XW^K_i)^\top}{\sqrt{d/h}}+M\right)XW^V_i": multi_head,
        r"\operatorname{Norm}(x)=\gamma\odot\frac{x-\mu}{\sqrt{\sigma^2+\epsilon}}+\beta": layer_norm,
        r"\operatorname{PE}(t)\cdot\operatorname{PE}(s)=\sum_i\cos\omega_i(t-s)": a_shift_is_a_rotation,
        r"For $d=4$, $\operatorname{PE}(1)$ is 0.841, 0.540, 0.010, 1.000": lambda: (
            [f"{one:.3f}" for one in sines(1, 4).flatten()] == ["0.841", "0.540", "0.010", "1.000"]
        ),
        r"with $\omega_m=10000^{-m/(d/2-1)}$: `rf.sinusoidal_encoding`": sines_of_rfnb,
        "nothing computed for earlier positions changes, and keys and values can be kept": cached_steps,
        "with 32 layers, $d=4096$ and 2 bytes, 0.5 MB per token, or 2.1 GB for 4096 tokens": lambda: (
            rounds(2 * 32 * 4096 * 2 / 1e6, "0.5") and rounds(2 * 32 * 4096 * 2 * 4096 / 1e9, "2.1")
        ),
        "one encoder block has 12,288 weights in matrices, and 12,704 with biases and norms": lambda: (
            block_size() == (12_288, 12_704) and 12 * 32**2 == 12_288
        ),
        "For $d=512$ and $w=4000$ it is 0.0007": lambda: (
            rounds(learning_rate(4000), "0.0007") and same(learning_rate(4000), 1 / math.sqrt(512 * 4000), 1e-12)
        ),
    },
    "12_clinic": {
        r"\left|\hat s-s\right|\ \le\ (n-1)\,u\sum_i|x_i|+O(u^2)": sum_bound,
        r"For float32 $u=2^{-24}=5.96\cdot10^{-8}$": lambda: rounds(UNIT * 1e8, "5.96") and np.finfo("float32").eps == 2 * UNIT,
        "with 512 numbers of size 1 by 0.031 at the very worst": lambda: rounds(2 * 511 * UNIT * 512, "0.031"),
        "(10⁸ + 1) − 10⁸ is 0 in float32": lambda: (np.float32(1e8) + np.float32(1)) - np.float32(1e8) == 0,
        r"For $p=0.1$ and $\delta=0.01$ these are 44": lambda: trials(0.1, 0.01) == 44,
        r"$\lceil\log_2 n\rceil$ comparisons: 7 for 100 modules": lambda: halvings(100) == 7,
        r"\frac{f(x+h)-f(x-h)}{2h}=f'(x)+\frac{h^2}{6}f'''(x)": central_difference,
        r"$h\approx u^{1/3}$: 0.004 in float32 and 0.000005 in float64": lambda: (
            rounds(UNIT ** (1 / 3), "0.004") and rounds((2.0**-53) ** (1 / 3), "0.000005")
        ),
        r"| loss of the untrained model | $\ln V$ for $V$ labels: 3.37 for 29 |": lambda: rounds(math.log(29), "3.37"),
    },
    "13_measures": {
        "With $q=0.05$ and $n=6$ that is 0.26, and with $n=20$ it is 0.64": lambda: (
            rounds(1 - 0.95**6, "0.26") and rounds(1 - 0.95**20, "0.64")
        ),
        "For pieces of 2.5 letters a perplexity of 20 is 3.31 a letter, or 1.73 bits": lambda: (
            rounds(20 ** (1 / 2.5), "3.31") and rounds(math.log2(20) / 2.5, "1.73")
        ),
        "$a^{(1+2+3+4)/4}=a^{2.5}$": lambda: (1 + 2 + 3 + 4) / 4 == 2.5,
        "For an output of 8 words and a reference of 10 it is 0.78": lambda: rounds(math.exp(1 - 10 / 8), "0.78"),
        r"\frac1{\mathrm{chrF}}=\frac{1}{1+\beta^2}\left(\frac1P+\frac{\beta^2}{R}\right)": lambda: same(
            5 * 0.5 * 0.25 / (4 * 0.5 + 0.25), 1 / ((1 / 0.5 + 4 / 0.25) / 5)
        ),
        "For $P=0.5$ and $R=0.25$ it is 0.28": lambda: rounds(5 * 0.5 * 0.25 / (4 * 0.5 + 0.25), "0.28"),
    },
    "14_linear_attention": {
        r"S_t=\alpha_t\left(I-\beta_t\,k_tk_t^\top\right)S_{t-1}+\beta_t\,k_tv_t^\top": delta_of_rfnb,
        r"For $d=m=64$ they are equal at $t=64$": lambda: 2 * 64 * 64 == 64 * (64 + 64),
        r"For $d=64$ and $n=17$ that is 0.25; at $n=65$ it is as large as the value itself": lambda: (
            (17 - 1) / 64 == 0.25 and abs(crosstalk(64, 17) - 0.25) < 0.02 and abs(crosstalk(64, 65) - 1) < 0.05
        ),
        r"O_{\text{chunk}}=\left(QK^\top\odot M\right)V+Q\,S_{\text{before}}": in_chunks,
        r"10 for 1,000": lambda: math.ceil(math.log2(1000)) == 10,
        r"$0.9^{200}$ is $7\cdot10^{-10}$": lambda: f"{0.9**200:.0e}" == "7e-10",
        "A gate of 0.99 keeps 0.37 of the state after 100 steps": lambda: rounds(0.99**100, "0.37"),
    },
    "15_pretraining": {
        r"\mathbb{E}\left[-\log p(x_t\mid\tilde x)\right]=H(x_t\mid\tilde x)+": cross_entropy_of_conditionals,
        r"p(x_1\mid x_2)\,p(x_2\mid x_1)=1\ \text{ for }00\text{ and for }11,\qquad\text{sum}=2": lambda: (
            pseudo_likelihood([[0.5, 0], [0, 0.5]]) == 2
        ),
        r"p(x_t=b\mid\text{chosen, shown }a)=\frac{[a=b]\,\pi_a+\pi_b/V}{\pi_a+1/V}": shown_and_chosen,
        "for the letter that is shown; 0.52 for $V=27$": lambda: rounds((1 + 1 / 27) / 2, "0.52"),
        "For $n=512$, $r=15\\,\\%$, $s=3$ these are about 26 spans, 461 labels read and 104 written": lambda: (
            span_sizes(512, 77, 3) == (26, 461, 104)
        ),
        r"n^\star=\frac{\sigma^2\,(D-d)}{b}": lambda: same(0.3 + 2 * 5 / (n := 2 * (50 - 5) / 0.3), 2 * 50 / n),
        r"w=\frac{h\,w^\star+\lambda\,w_0}{h+\lambda}": a_pull_is_a_mean,
        "With $\\eta h=0.01$ and 300 steps that is 0.049, with $\\eta h=0.001$ it is 0.74": lambda: (
            rounds(0.99**300, "0.049") and rounds(0.999**300, "0.74")
        ),
    },
}  # fmt: skip


def test_every_lesson_has_its_page_and_every_page_is_in_the_index():
    lessons = sorted(path.stem for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb") if path.stem != "00_tour")
    assert set(PAGES) <= set(lessons) and list(TRUE) == PAGES
    assert re.findall(r"\]\((\d\d_\w+)\.md\)", (THEORY / "README.md").read_text()) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_says_in_numbers_and_formulas_is_so(page):
    said = plain(text_of(page))
    for sentence, is_true in TRUE[page].items():
        assert sentence in said, "the page says that no more, or in other words"
        assert is_true(), sentence


@pytest.mark.parametrize("page", PAGES)
def test_no_number_of_a_page_is_unproved(page):
    body = plain(text_of(page).partition("\n## Exercises")[0])
    for sentence in TRUE[page]:
        body = body.replace(sentence, "")
    assert NUMBER.findall(body) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_its_parts_and_formulas_that_a_browser_shows(page):
    text = text_of(page)
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [head for head in heads if head in PARTS] == PARTS and any(head.startswith("Derivation") for head in heads)
    found = FORMULA.findall(re.sub(r"`[^`]*`", "", text))
    assert len(found) > 10
    for block, inline in found:
        assert mathml(block or inline, as_block=bool(block)) is not None, block or inline


@pytest.mark.parametrize("page", PAGES)
def test_a_page_tells_no_answer_of_its_lesson(page):
    told = [*told_in(text_of(page), page), *in_other_words(text_of(page), page)]
    known = NOTHING.get(page, {})
    found = [f"{one.name}: {one.sentence}" for one in told if not any(piece in one.sentence for piece in known)]
    assert found == []


@pytest.mark.parametrize("page", PAGES)
def test_the_lesson_has_a_formula_of_the_page_in_a_cell_that_leads_there(page):
    (cell,) = [cell for cell in Course(page).stored.cells if f"docs/theory/{page}.md" in cell.source]
    assert cell.cell_type == "markdown" and cell.id == f"{page[:2]}-theory"
    block, inline = FORMULA.findall(cell.source)[0]
    assert plain(block or inline).rstrip(" .,") in plain(text_of(page))
    assert len(cell.source.split()) < 120  # in short


@pytest.mark.parametrize("page", PAGES)
def test_the_page_for_teachers_leads_to_the_theory_and_says_how_to_mark_every_explanation(page):
    text = (NOTEBOOKS.parent / "docs/teaching" / f"{page}.md").read_text("utf-8")
    assert f"../theory/{page}.md" in text and "estimate" in text
    code = "\n".join(cell.source for cell in Course(page).stored.cells if cell.cell_type == "code")
    asked = re.findall(r'lesson\.explain\(\s*"(\w+)"', code)
    rubric = text.partition("## Marking the sentences")[2].partition("\n## ")[0]
    assert asked and [name for name in asked if f"`{name}`" not in rubric] == []
    bank = text.partition("## Question bank")[2].partition("\n## ")[0]
    questions = re.findall(r"^\d+\. ", bank, re.MULTILINE)
    assert len(questions) >= 5 and len(questions) == bank.count("*Answer:*")
