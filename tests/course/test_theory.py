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


# By page: what it says, and whether it is so. A formula stands there as a piece of its TeX.
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
    body = plain(text_of(page).partition("\n## Sources")[0])
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
    assert plain(block or inline) in plain(text_of(page))
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
