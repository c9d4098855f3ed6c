"""Checks of 07_search: greedy, beam, sampling."""

import math
from functools import cache
from pathlib import Path

import torch

from rfnb.core.dim import Dim, single_step_dim
from rfnb.data import g2p
from rfnb.data.error_rate import edit_distance
from rfnb.models import load_g2p, pronounce, score
from rfnb.models.g2p import label_dim
from rfnb.models.g2p_search import encode_batch
from rfnb.ops.const import convert_to_tensor, zeros
from rfnb.ops.softmax import log_softmax
from rfnb.teaching import call, exercise, kind_of, wrong

SHORT, LONG = "W IH P L AE SH", "HH W IH P L AE SH"


@cache
def words() -> dict[str, list[tuple[str, ...]]]:
    """The words of the notebook with their pronunciations."""
    file = Path(__file__).parents[1] / "data/cmudict_test_words.tsv"
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    return {word: [tuple(one.split()) for one in known] for word, *known in rows}


@cache
def model():
    return load_g2p()


# -- One step -----------------------------------------------------------------------------------------------------------


def _step(scores, log_probs, beam_size):
    best, place = (scores[:, None] + log_probs).flatten().topk(beam_size)
    return best, place // log_probs.shape[1], place % log_probs.shape[1]


def _lanes(scores, log_probs, beam_size):
    best, label = (scores[:, None] + log_probs).max(1)
    best, parents = best.sort(descending=True)
    return best, parents, label[parents]


def _without_scores(scores, log_probs, beam_size):
    return _step(torch.zeros_like(scores), log_probs, beam_size)


def _worst(scores, log_probs, beam_size):
    best, place = (scores[:, None] + log_probs).flatten().topk(beam_size, largest=False)
    return best, place // log_probs.shape[1], place % log_probs.shape[1]


def _product(scores, log_probs, beam_size):
    best, place = (scores[:, None] * log_probs).flatten().topk(beam_size)
    return best, place // log_probs.shape[1], place % log_probs.shape[1]


def _by_beam(scores, log_probs, beam_size):
    best, place = (scores[:, None] + log_probs).flatten().topk(beam_size)
    return best, place // log_probs.shape[0], place % log_probs.shape[0]


def _own_parent(scores, log_probs, beam_size):
    """Of each label only the best hypothesis that goes on with it."""
    best, parents = (scores[:, None] + log_probs).max(0)
    best, label = best.topk(min(beam_size, len(best)))
    return best, parents[label], label


_STEP_MISTAKES = [
    (_lanes, "Each hypothesis went on by its own best label. All continuations of all hypotheses compete with each other: "
             "one may go on twice, and another not at all."),
    (_without_scores, "The scores so far were left out: what is compared is the sum of score and log-probability."),
    (_worst, "These are the worst continuations. Log-probabilities are below 0, and the best is the largest."),
    (_product, "Scores and log-probabilities were multiplied. Probabilities are multiplied, so their logs are added."),
    (_own_parent, "Each label is at most once among these. Two hypotheses may go on with the same label: "
                  "all pairs of hypothesis and label compete."),
    (_by_beam, "The place in the flat array was divided by the number of hypotheses. A row is as long as the vocabulary."),
]  # fmt: skip


@exercise(
    "One step of beam search",
    hints=[
        "Add to each row of log_probs the score of its hypothesis: scores[:, None] is a column of them.",
        "Take the best of all of them at once: .flatten().topk(beam_size).",
        "Place i of the flat array is in row i // vocab, column i % vocab.",
    ],
)
def beam_step(answer):
    generator = torch.Generator().manual_seed(1)
    cases = [
        (torch.tensor([-0.1, -1.2]), torch.tensor([[0.5, 0.3, 0.2], [0.05, 0.9, 0.05]]).log(), 2),
        (torch.tensor([0.0, -math.inf, -math.inf]), torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 3).log(), 3),
    ]
    for beam, vocab in ((3, 5), (4, 40), (1, 6)):
        scores = -3 * torch.rand(beam, generator=generator)
        cases.append((scores, torch.randn(beam, vocab, generator=generator).log_softmax(-1), beam))
    # One label wins from two parents, and a label that is the best of all wins nothing where it stands behind.
    cases.append((torch.tensor([-0.2, -0.3]), torch.tensor([[0.9, 0.05, 0.05], [0.8, 0.15, 0.05]]).log(), 2))
    cases.append((torch.tensor([-0.2, -0.3, -0.5]), torch.tensor([[0.1, 0.2, 0.7]] * 3).log(), 3))
    # More go on than were there, as in a first step that has one row.
    cases.append((torch.tensor([-0.5]), torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log(), 3))
    for scores, log_probs, size in cases:
        want = _step(scores, log_probs, size)
        got = _three(call(answer, scores.clone(), log_probs.clone(), size))
        given = [("scores", _row(scores)), ("log_probs", _rows(log_probs)), ("beam_size", size)]
        if any(one.ndim != 1 for one in got):
            shapes = ", ".join(str(tuple(one.shape)) for one in got)
            wrong(
                "Each of the three has one entry for each that goes on.",
                [("got", shapes), ("expected", f"({size},) each")],
            )
        both = [*given, ("got", _triple(got)), ("expected", _triple(want))]
        if any(one.dtype.is_floating_point for one in got[1:]) and not got[0].dtype.is_floating_point:
            wrong("The scores come first: scores, parents, labels.", both)
        for what, one in (("Parents", got[1]), ("Labels", got[2])):
            if one.dtype.is_floating_point or one.dtype == torch.bool:
                wrong(
                    f"{what} are indices, and these are {'floats' if one.dtype.is_floating_point else 'true or false'}.",
                    both,
                    "Divide by //, which gives whole numbers: place // vocab, place % vocab.",
                )
        if _alike(got, want):
            continue
        for mistake, words in _STEP_MISTAKES:
            if scores.numel() > 1 and _alike(got, mistake(scores, log_probs, size)):
                wrong(words, both)
        if any(len(one) != size for one in got):
            wrong(f"{len(got[0])} hypotheses go on, and beam_size is {size}.", both)
        if _alike((got[0], got[2], got[1]), want):
            wrong("Parents and labels have changed places: scores, parents, labels.", both)
        if _alike([one.flip(0) for one in got], want):
            wrong("The survivors are right, but the best one comes first.", both)
        if torch.allclose(got[0].exp(), want[0], atol=1e-4) or torch.allclose(got[0], want[0].exp(), atol=1e-4):
            wrong("These are probabilities; scores stay logs.", both)
        if _alike(got[1:], want[1:]):
            rule = "A score is that of the parent and the log-probability of the label: scores[parent] + log_probs[parent, label]."
            if _alike(got[:1], [log_probs[want[1], want[2]]]):
                rule = "The score of the parent was left out. " + rule
            wrong("The right hypotheses go on, and their scores are other ones.", both, rule)
        wrong("Other hypotheses go on.", both, "Each is scores[parent] + log_probs[parent, label].")


def _three(result):
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        wrong("Three tensors come out.", [("got", kind_of(result))], "return scores, parents, labels")
    return [torch.as_tensor(one).detach() for one in result]


def _alike(got, want) -> bool:
    return all(
        len(one) == len(other) and torch.allclose(one.double(), other.double(), atol=1e-4)
        for one, other in zip(got, want)
    )


def _row(values) -> str:
    return " ".join(f"{float(value):.2f}" for value in values[:6]) + (" ..." if len(values) > 6 else "")


def _rows(values) -> str:
    return " | ".join(map(_row, values))


def _triple(result) -> str:
    scores, parents, labels = result
    return f"scores {_row(scores)}, parents {_indices(parents)}, labels {_indices(labels)}"


def _indices(values) -> str:
    return str(
        [
            int(one) if float(one) == int(one) and not values.dtype.is_floating_point else round(float(one), 2)
            for one in values
        ]
    )


# -- Lengths ------------------------------------------------------------------------------------------------------------


def _wu(score, length, alpha):
    return score / ((5 + length) / 6) ** alpha


_NORMALISED_MISTAKES = [
    (lambda score, length, alpha: score / length**alpha,
     "This divides by length ** α. Wu's penalty starts at 6: (5 + length) ** α / 6 ** α."),
    (lambda score, length, alpha: score * ((5 + length) / 6) ** alpha,
     "The score was multiplied by the penalty, and is divided by it: a long hypothesis gets nearer to 0."),
    (lambda score, length, alpha: score / ((5 + length) ** alpha / 6), "The 6 below has its exponent α, too."),
    (lambda score, length, alpha: score / (5 + length) ** alpha,
     "The division by 6 ** α is missing: a hypothesis of one label keeps its score."),
    (lambda score, length, alpha: score - ((5 + length) / 6) ** alpha,
     "The penalty was subtracted; the score is divided by it."),
]  # fmt: skip


@exercise(
    "Length normalisation",
    hints=[
        "lp first: a quotient of two powers. |Y| is the length.",
        "The rating is the log probability divided by it.",
    ],
)
def normalised(answer):
    for given in ((-2.0, 7, 1.0), (-2.0, 7, 0.0), (-1.5, 1, 0.6), (-3.0, 12, 0.6), (-3.0, 12, 2.0)):
        got, want = call(answer, *given), _wu(*given)
        if _near(got, want):
            continue
        rows = [("score, length, alpha", given), ("got", f"{float(got):.4f}"), ("expected", f"{want:.4f}")]
        for mistake, words in _NORMALISED_MISTAKES:
            if all(_near(call(answer, *each), mistake(*each)) for each in ((-2.0, 7, 1.0), (-3.0, 12, 0.6))):
                wrong(words, rows)
        wrong("The rating is different.", rows, "log_prob / ((5 + length) / 6) ** alpha")


def _near(a, b) -> bool:
    return abs(float(a) - b) < 1e-4


@cache
def _whiplash() -> dict[str, float]:
    return {str(one): one.score for one in pronounce(model(), "whiplash", beam_size=3)}


@exercise(
    "The α at which the winner flips",
    hints=[
        "At this α both ratings are equal: s1 / lp1 = s2 / lp2. Where do the lines cross?",
        "(s1 / s2) = ((5 + n1) / (5 + n2)) ** α, so α = log(s1 / s2) / log((5 + n1) / (5 + n2)).",
        "n counts the end label: 7 and 8.",
    ],
)
def alpha_flip(answer):
    alpha, (short, long) = _number(answer), (_whiplash()[SHORT], _whiplash()[LONG])
    exact = math.log(short / long) / math.log(12 / 13)
    if abs(alpha - exact) <= 0.0101:
        return
    if abs(alpha - math.log(short / long) / math.log(7 / 8)) <= 0.0101:
        wrong("This is where it flips for score / length ** α. Wu's penalty counts 5 labels more.")
    if abs(alpha - math.log(short / long) / math.log(11 / 12)) <= 0.0101:
        wrong("This is where it flips if the end label is not counted. It is a label: the lengths are 7 and 8.")
    ratings = [(SHORT, f"{_wu(short, 7, alpha):.4f}"), (LONG, f"{_wu(long, 8, alpha):.4f}")]
    if alpha < exact:
        wrong(f"With α = {alpha:g} the short one still wins.", ratings, "The larger rating wins; try a larger α.")
    wrong(f"With α = {alpha:g} the long one wins already, and with a smaller α, too.", ratings, "Try a smaller α.")


def _number(answer) -> float:
    try:
        value = float(answer)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        wrong("This is no number.", [("got", repr(answer))], "alpha_flip = 0.25")
    return value


# -- Sampling -----------------------------------------------------------------------------------------------------------


def _nucleus(probs, p):
    kept = _best_until(probs, p, crossing=True)
    return torch.where(kept, probs, 0) / probs[kept].sum()


def _best_until(probs, p, *, crossing):
    order = probs.argsort(descending=True)
    total = probs[order].cumsum(0)
    count = int((total < p - 1e-6).sum()) + 1 if crossing else max(int((total <= p + 1e-6).sum()), 1)
    kept = torch.zeros(len(probs), dtype=torch.bool)
    kept[order[:count]] = True
    return kept


def _not_crossing(probs, p):
    kept = _best_until(probs, p, crossing=False)
    return torch.where(kept, probs, 0) / probs[kept].sum()


def _not_divided(probs, p):
    return torch.where(_best_until(probs, p, crossing=True), probs, 0)


def _sorted(probs, p):
    return _nucleus(probs, p).sort(descending=True).values


def _above(probs, p):
    return torch.where(probs >= p, probs, 0) / probs[probs >= p].sum().clamp(min=1e-9)


def _softmaxed(probs, p):
    return torch.where(_best_until(probs, p, crossing=True), probs, -torch.inf).softmax(0)


_NUCLEUS_MISTAKES = [
    (_not_crossing, "The label that crosses p is missing: the nucleus has a mass of at least p."),
    (_not_divided, "What is left has to sum to 1 again: divide by its sum."),
    (
        _sorted,
        "The probabilities came back sorted, so they belong to other labels. The order is that of the vocabulary.",
    ),
    (_above, "p is no threshold for single labels: it is the mass of all that are kept."),
    (_softmaxed, "A softmax of probabilities makes all of them nearly alike. Divide by their sum."),
]


@exercise(
    "Nucleus sampling",
    hints=[
        "Sort from the most probable on, and add up: sort(descending=True) gives values and indices, cumsum(0) the sums so far.",
        "A label is in the nucleus if what stands before it has less than p: total - probability < p.",
        "Put back what you have kept by the indices of the sort, and divide by the sum.",
    ],
)
def nucleus(answer):
    generator = torch.Generator().manual_seed(2)
    cases = [(torch.tensor([0.2, 0.5, 0.3]), p) for p in (0.6, 0.1, 0.9, 1.0)]
    cases += [(torch.tensor([0.125, 0.5, 0.25, 0.125]), p) for p in (0.5, 0.75)]  # p is reached exactly
    cases += [(torch.tensor([0.05, 0.4, 0.15, 0.1, 0.3]), p) for p in (0.65, 0.3)]
    cases += [(torch.randn(40, generator=generator).mul(2).softmax(0), p) for p in (0.5, 0.95)]
    for probs, p in cases:
        want, got = _nucleus(probs, p), torch.as_tensor(call(answer, probs.clone(), p)).detach().flatten()
        rows = [("probs", _row(probs)), ("p", p), ("got", _row(got)), ("expected", _row(want))]
        if got.shape != want.shape:
            wrong(
                f"{len(probs)} probabilities go in and {len(got)} come out: those outside of the nucleus are 0.", rows
            )
        if torch.allclose(got.double(), want.double(), atol=1e-4):
            continue
        for mistake, said in _NUCLEUS_MISTAKES:
            if torch.allclose(got.double(), mistake(probs, p).double(), atol=1e-4):
                wrong(said, rows)
        wrong("These are other probabilities.", rows, "The smallest set of best labels with a mass of at least p.")
    probs, p = torch.tensor([0.2, 0.4, 0.2, 0.2]), 0.5
    got = torch.as_tensor(call(answer, probs.clone(), p)).detach().flatten()
    if int((got > 0).sum()) > 2:  # which one of equal labels is kept is free
        rows = [
            ("probs", _row(probs)),
            ("p", p),
            ("got", _row(got)),
            ("expected", "0.33 0.67 0.00 0.00, or another one of the three"),
        ]
        wrong(
            "More labels are kept than are needed.",
            rows,
            "Of equally probable labels only as many are kept as reach p.",
        )


def _top_k(logits, temperature, k):
    kept = torch.full_like(logits, -torch.inf)
    kept[logits.topk(k).indices] = logits[logits.topk(k).indices] / temperature
    return kept.softmax(0)


_TOP_K_MISTAKES = [
    (lambda logits, temperature, k: _top_k(logits, 1.0, k), "The temperature is not used: logits are divided by it."),
    (lambda logits, temperature, k: _top_k(logits, 1 / temperature, k), "Logits are divided by the temperature, not multiplied."),
    (lambda logits, temperature, k: _top_k(logits, temperature, len(logits)), "All labels are left: only the k best may be drawn."),
    (lambda logits, temperature, k: _top_k(logits, temperature, min(k + 1, len(logits))), "One label too many is left."),
    (lambda logits, temperature, k: _top_k(logits, temperature, max(k - 1, 1)), "One label too few is left."),
    (
        lambda logits, temperature, k: _top_k(logits.softmax(0), temperature, k),
        "The temperature divides probabilities here, and a second softmax follows. It divides the logits.",
    ),
    (
        lambda logits, temperature, k: (logits / temperature).softmax(0) * (_top_k(logits, 1.0, k) > 0),
        "What is left has to sum to 1 again: divide by its sum.",
    ),
    (
        lambda logits, temperature, k: _top_k(logits, temperature, k).sort(descending=True).values,
        "The probabilities came back sorted, so they belong to other labels. The order is that of the vocabulary.",
    ),
    (
        lambda logits, temperature, k: torch.where(_top_k(logits, 1.0, k) > 0, logits / temperature, 0).softmax(0),
        "Logits of 0 are not probabilities of 0: a label that may not be drawn has the logit -inf.",
    ),
    (lambda logits, temperature, k: _top_k(-logits, temperature, k), "These are the k worst labels."),
]  # fmt: skip


@exercise(
    "Top-k at a temperature",
    hints=[
        "logits.topk(k) gives the k largest and where they are.",
        "A label that may not be drawn has the logit minus infinity: then one softmax does the rest.",
        "The temperature divides logits, not probabilities. Does it matter whether that comes before or after top-k?",
    ],
)
def top_k(answer):
    generator = torch.Generator().manual_seed(4)
    cases = [(torch.tensor([1.0, 3.0, 2.0, 0.5, -1.0]), 1.0, 2), (torch.tensor([1.0, 3.0, 2.5, -1.0]), 2.0, 3)]
    cases += [(torch.tensor([-1.0, -4.0, -2.0, -0.5, -3.0]), 0.5, at) for at in (1, 3, 5)]
    cases += [(torch.randn(40, generator=generator).mul(3), temperature, 7) for temperature in (0.7, 5.0)]
    cases += [(torch.tensor([60.0, 64.0, 66.0, 10.0]), 0.5, 3)]  # exp of 132 is infinite
    for logits, temperature, k in cases:
        want = _top_k(logits, temperature, k)
        got = torch.as_tensor(call(answer, logits.clone(), temperature, k)).detach().flatten()
        rows = [
            ("logits", _row(logits)),
            ("temperature", temperature),
            ("k", k),
            ("got", _row(got)),
            ("expected", _row(want)),
        ]
        if got.shape != want.shape:
            wrong(
                f"{len(logits)} logits go in and {len(got)} probabilities come out: those of other labels are 0.", rows
            )
        if torch.allclose(got.double(), want.double(), atol=1e-4):
            continue
        if got.isnan().any():
            wrong(
                "There is NaN in it: exp of a large logit is infinite.", rows, "softmax takes the largest away first."
            )
        for mistake, said in _TOP_K_MISTAKES:
            if torch.allclose(got.double(), mistake(logits, temperature, k).double(), atol=1e-4):
                wrong(said, rows)
        wrong(
            "These are other probabilities.", rows, "A softmax over logits / temperature, of the k best labels alone."
        )


# -- Words --------------------------------------------------------------------------------------------------------------


@exercise(
    "A word where a beam of 1 beats a beam of 8",
    hints=[
        "Search for all words with both beams: beam_search(model, list(words), beam_size=1), a list of hypotheses for each word.",
        "[word for word in words if edits(greedy[word], word) < edits(wide[word], word)]",
        "Look at surnames with a foreign spelling.",
    ],
)
def beaten_word(answer):
    word = _known_word(answer)
    far = {
        size: min((edit_distance(found.phonemes, known), " ".join(known)) for known in words()[word])
        for size in (1, 8)
        for found in [pronounce(model(), word, beam_size=size)[0]]
    }
    rows = [
        (f"beam {size}", f"{pronounce(model(), word, beam_size=size)[0]}: {edits} edits to {known}")
        for size, (edits, known) in far.items()
    ]
    if far[1][0] == far[8][0]:
        wrong(f"For {word} both are equally far from the dictionary.", rows)
    if far[1][0] > far[8][0]:
        wrong(f"For {word} the beam of 8 is nearer, as one would think. Find a word where greedy search is.", rows)


@exercise(
    "The word whose score is the greatest lie",
    hints=[
        "text, claimed = winner(my_search(word, follow=False)) is what the broken search says.",
        "abs(claimed - score(model, [word], [text])[0]) is how far from the truth that is.",
        "max(first_200, key=...) finds the word.",
    ],
    points=2,
)
def lying_word(answer):
    word = _known_word(answer)
    if word not in list(words())[:200]:
        wrong(f"{word} is not among the first 200 words.")
    lies = _lies()
    worst = max(lies.values())
    if lies[word] < worst - 1e-3:
        more = sum(lie > lies[word] + 1e-3 for lie in lies.values())
        rows = [("claimed - true", f"{lies[word]:.3f} nats"), ("the greatest", f"{worst:.3f} nats")]
        wrong(
            f"For {word} the broken search is not furthest from the truth: {more} {'word is' if more == 1 else 'words are'} worse.",
            rows,
        )


@cache
def _lies() -> dict[str, float]:
    """Of each word by how much the broken search is wrong about its winner."""
    some = list(words())[:200]
    found = {word: broken_search(word) for word in some}
    own = score(model(), some, [found[word][0] for word in some])
    return {word: abs(found[word][1] - own[place]) for place, word in enumerate(some)}


@torch.no_grad()
def broken_search(word: str, beam_size: int = 4) -> tuple[tuple[str, ...], float]:
    """The winner of a search whose states stay in their slots, and what it takes for its score."""
    batch, encoded = encode_batch(model(), [word])
    beam = Dim(beam_size, name="beam", kind="beam")
    labels, state = zeros([batch, beam], dtype="int64", sparse_dim=label_dim), encoded.start
    scores = torch.tensor([0.0] + [-torch.inf] * (beam_size - 1), device=labels.device)
    ended, written = torch.zeros_like(scores, dtype=torch.bool), [[] for _ in range(beam_size)]
    while not ended.all() and len(written[0]) < 40:
        logits, state = model().decoder(labels, encoded, state=state, spatial_dim=single_step_dim)
        log_probs = log_softmax(logits, axis=label_dim).copy_transpose([batch, beam, label_dim]).raw_tensor[0]
        log_probs[ended] = -torch.inf
        log_probs[ended, g2p.END_LABEL] = 0.0
        scores, parents, chosen = _step(scores, log_probs, beam_size)
        written = [[*written[int(parent)], int(label)] for parent, label in zip(parents, chosen)]
        ended = chosen == g2p.END_LABEL
        labels = convert_to_tensor(chosen[None], dims=[batch, beam], sparse_dim=label_dim)
    return g2p.decode_labels(written[0]), float(scores[0])


def _known_word(answer) -> str:
    if not isinstance(answer, str):
        wrong("The answer is a word.", [("got", kind_of(answer))], 'answer = "sailboat"')
    if answer not in words():
        wrong(f"{answer!r} is not one of the words.", rule="They are the keys of `words`.")
    return answer
