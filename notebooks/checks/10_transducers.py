"""Checks of 10_transducers: walks, their sum, the best one, merging, and what may be said now."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from rfnb.teaching import call, exercise, truth_of, wrong


def lattice_of(seed, frames, labels):
    """Log probabilities of the blank (frames, labels + 1) and of the next label (frames, labels)."""
    rng = np.random.default_rng(seed)
    scores = np.log(rng.dirichlet([1.0, 1.0, 1.0], (frames, labels + 1)))
    return scores[:, :, 0], scores[:, :labels, 1]


def move_by_move(walk, blank, label, *, label_moves_on=False, column=None):
    """The score of a walk; the options are mistakes."""
    t, u, score = 0, 0, 0.0
    for move in walk:
        if move == "-":
            score += blank[t, u if column is None else column]
            t += 1
        else:
            score += label[t, u]
            u += 1
            t += label_moves_on
        t = min(t, len(blank) - 1) if label_moves_on else t
    return score


def number(value):
    """A float of what may be a number, an array or a tensor of one entry; None if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


@exercise(
    "The score of a walk",
    hints=[
        "Go through the walk with two counters: t counts blanks, u counts labels. Both begin at 0.",
        "A blank: add blank[t, u], then t += 1. A label: add label[t, u], then u += 1, and t stays.",
    ],
)
def walk_score(answer):
    blank, label = lattice_of(3, 4, 2)
    for walk in ("----", "-A-B--", "AB----", "---AB-"):
        labels = len(walk) - 4
        own = blank[:, : labels + 1], label[:, :labels]
        got, wanted = call(answer, walk, *own), move_by_move(walk, *own)
        said = number(got)
        shown = [("walk", repr(walk)), ("yours", got), ("wanted", f"{wanted:.4f}")]
        if said is None:
            wrong("A score is one number.", shown)
        if abs(said - wanted) < 1e-4:
            continue
        if abs(said - move_by_move(walk, *own, label_moves_on=True)) < 1e-4:
            wrong(
                "A label moves on in time here, as in CTC.",
                shown,
                "Only a blank reads the next frame; after a label t is as it was.",
            )
        if abs(said - move_by_move(walk, *own, column=0)) < 1e-4:
            wrong(
                "All blanks have the score of the first row.",
                shown,
                "A blank after u labels has the score blank[t, u].",
            )
        if abs(said - move_by_move(walk[:-1], *own)) < 1e-4:
            wrong("The last move is missing.", shown, "The blank that ends the last frame counts, too.")
        if abs(said - np.exp(wanted)) < 1e-4:
            wrong("This is the probability.", shown, "Return its logarithm: the sum of the log probabilities.")
        wrong("The score is the sum over all moves, each with the score of the place that it leaves.", shown)


def table(alpha, frames, places):
    """alpha as a tensor (frames, labels + 1, ...); says what is missing."""
    if not isinstance(alpha, (list, tuple, dict)) and np.ndim(alpha) < 2:
        wrong("alpha is no table.", [("got", alpha)], "Return all of it: a list of rows, one for each frame.")
    if hasattr(alpha, "__len__") and len(alpha) > frames:
        wrong(
            f"alpha has {len(alpha)} rows, and there are {frames} frames.",
            rule="One row for each frame, from 0 to the last.",
        )
    rows = []
    for t in range(frames):
        row = []
        for u in range(places):
            try:
                value = alpha[t][u]
            except (IndexError, KeyError, TypeError):
                value = None
            if value is ...:
                raise NotImplementedError
            if value is None:
                wrong(
                    f"alpha[{t}][{u}] is missing.",
                    rule="It has a number for each frame t and each count u of labels, from 0 to all.",
                )
            row.append(torch.as_tensor(value))
        rows.append(row)
    shapes = sorted({tuple(value.shape) for row in rows for value in row})
    if len(shapes) > 1:
        wrong(
            "The entries of alpha have different shapes.",
            [("yours", " and ".join(map(str, shapes)))],
            "All are like blank[t, u], the first one, too: torch.zeros_like(blank[0, 0]).",
        )
    return torch.stack([torch.stack(row) for row in rows])


def summed(blank, label, *, entered=False, best=False, diagonal=False):
    """alpha (frames, labels + 1, ...); the options are mistakes."""
    frames, places = blank.shape[:2]
    add = torch.maximum if best else torch.logaddexp
    alpha = {(0, 0): torch.zeros_like(blank[0, 0])}
    for t in range(frames):
        for u in range(places):
            ways = []
            if t:
                ways.append(alpha[t - 1, u] + blank[t if entered else t - 1, u])
            if u and not diagonal:
                ways.append(alpha[t, u - 1] + label[t, u - 1])
            if u and t and diagonal:
                ways.append(alpha[t - 1, u - 1] + label[t - 1, u - 1])
            if len(ways) == 2:
                alpha[t, u] = add(*ways)
            elif (t, u) != (0, 0):
                alpha[t, u] = ways[0] if ways else torch.full_like(blank[0, 0], -torch.inf)
    return torch.stack([torch.stack([alpha[t, u] for u in range(places)]) for t in range(frames)])


@exercise(
    "The forward recursion",
    hints=[
        "The first column (u = 0) is entered by blanks alone, the first row (t = 0) by labels alone.",
        "A place is entered by a move: its score is added to the alpha of where it comes from. Two ways are added by logaddexp; "
        "where one of them is not there, the other alone.",
    ],
    points=2,
)
def forward(answer):
    for seed, frames, labels in ((0, 1, 0), (1, 2, 0), (2, 1, 2), (3, 3, 2), (9, 4, 3)):
        blank, label = (torch.tensor(one) for one in lattice_of(seed, frames, labels))
        got, wanted = table(call(answer, blank, label), frames, labels + 1), summed(blank, label)
        if got.shape != wanted.shape:
            wrong("alpha has a number for each place.", [("yours", tuple(got.shape)), ("wanted", tuple(wanted.shape))])
        same = lambda other: torch.allclose(got.double(), other, atol=1e-4)  # noqa: E731, B023
        if same(wanted):
            continue
        t, u = (got.double() - wanted).abs().nan_to_num(9).gt(1e-4).nonzero()[0].tolist()
        shown = [
            ("place", f"alpha[{t}][{u}] of {frames} frames and {labels} labels"),
            ("yours", f"{float(got[t, u]):.4f}"),
            ("wanted", f"{float(wanted[t, u]):.4f}"),
        ]
        if same(summed(blank, label, entered=True)):
            wrong("A blank has the score of the place that it enters.", shown, "It leaves (t − 1, u): blank[t - 1, u].")
        if same(summed(blank, label, best=True)):
            wrong(
                "This is the best way to each place.", shown, "All ways are added: logaddexp, where you have a maximum."
            )
        if same(summed(blank, label, diagonal=True)):
            wrong(
                "A label reads a frame here.",
                shown,
                "A label comes from (t, u − 1), in the same frame; only a blank moves on.",
            )
        wrong("The first place that differs from the sum over all ways to it:", shown)
    blank, label = (30 * torch.tensor(one).float() - 20 for one in lattice_of(8, 5, 3))
    got = table(call(answer, blank, label), 5, 4)
    if not torch.allclose(got.double(), summed(blank, label).double(), rtol=1e-4):
        wrong(
            "Where moves are improbable, sums become 0, and their logs minus infinity.",
            [("the last place", f"{float(got[-1, -1]):.2f}"), ("wanted", f"{float(summed(blank, label)[-1, -1]):.2f}")],
            "Stay with logs all the way: torch.logaddexp adds what is given as logs.",
        )
    blank, label = (torch.tensor(one).requires_grad_() for one in lattice_of(4, 3, 2))
    end = table(call(answer, blank, label), 3, 3)[-1, -1]
    if not end.requires_grad:
        wrong("No gradient comes back to the scores.", rule="No float(...), .item(), .detach() or numpy on the way.")
    try:
        end.backward()
    except RuntimeError as error:
        wrong(
            "Gradients do not go through it.",
            [("torch says", str(error).split("\n")[0][:110])],
            "An entry that is assigned, read and assigned again is one that torch keeps. Put results into lists or a dict.",
        )
    for name, scores in (("blank", blank), ("label", label)):
        if scores.grad is None or not scores.grad[0, 0].abs() > 0:
            wrong(f"No gradient comes back to {name}.", rule="No float(...), .item(), .detach() or numpy on the way.")
    rows = [lattice_of(seed, 3, 2) for seed in (5, 6)]
    blank, label = (torch.tensor(np.stack(own, -1)) for own in zip(*rows))
    got = table(call(answer, blank, label), 3, 3)
    if got.shape != (3, 3, 2) or not torch.allclose(got.double(), summed(blank, label), atol=1e-4):
        wrong(
            "With a batch as the last axis it gives something else.",
            [("blank", tuple(blank.shape)), ("yours", tuple(got.shape)), ("wanted", (3, 3, 2))],
            "blank[t, u] is a tensor then; add and logaddexp take it as it is.",
        )


def best_way(blank, label):
    """The frame of each label in the best walk, by trying all of them."""
    frames, labels = len(blank), label.shape[1]
    every = [()]
    for _ in range(labels):
        every = [(*own, frame) for own in every for frame in range(own[-1] if own else 0, frames)]

    def score(own):
        walk = "".join("x" * own.count(frame) + "-" for frame in range(frames))
        return move_by_move(walk, blank, label)

    return list(max(every, key=score))


@exercise(
    "Forced alignment",
    hints=[
        "As `forward`, with max for logaddexp, and remember for each place which of the two moves was the better one.",
        "Then go back from the last place: a remembered label at (t, u) says that label u − 1 is in frame t.",
    ],
    points=2,
)
def best_frames(answer):
    tried = []
    for seed, frames, labels in ((0, 3, 1), (1, 2, 3), (7, 4, 3), (8, 5, 4), (9, 5, 4), (10, 6, 3)):
        blank, label = lattice_of(seed, frames, labels)
        got, wanted = call(answer, blank, label), best_way(blank, label)
        try:
            said = [int(frame) for frame in got]
            whole = all(float(frame) == int(frame) for frame in got)
        except TypeError:
            wrong("A frame for each label is wanted, as a list.", [("yours", got), ("wanted", wanted)])
        if len(said) != labels:
            wrong("It has not one frame per label.", [("labels", labels), ("yours", said), ("wanted", wanted)])
        if not whole:
            wrong("A frame is a whole number.", [("yours", got), ("wanted", wanted)])
        tried.append((label, said, wanted))
    failed = [one for one in tried if one[1] != one[2]]
    if not failed:
        return
    back = next((one for one in failed if one[1] != sorted(one[1])), None)
    label, said, wanted = back or failed[0]
    shown = [("lattice", f"{len(label)} frames, labels: {label.shape[1]}"), ("yours", said), ("wanted", wanted)]
    if back:
        wrong(
            "It goes back in time.",
            shown,
            "Each label is in the frame of the one before it, or later: choose the walk, not each label.",
        )
    if all([frame - 1 for frame in said] == wanted for _, said, wanted in tried):
        wrong(
            "Every frame is one too late.",
            shown,
            "The first frame is 0, and a label is in the frame t in which it is written.",
        )
    if all(said == np.maximum.accumulate(label.argmax(0)).tolist() for label, said, _ in tried):
        wrong(
            "Each label is where it alone is most probable.",
            shown,
            "Blanks count, too, and a later label may need an earlier one.",
        )
    wrong("This is not the most probable walk.", shown)


def pairs(value):
    """Hypotheses as a list of (labels, log probability), of a list or a dict."""
    return list(value.items()) if isinstance(value, dict) else [tuple(one) for one in value]


@exercise(
    "Merge equal prefixes",
    hints=[
        "A dict from labels to log probability; np.logaddexp adds two of them.",
        "What is not there yet has the log probability -inf. In the end sort by the log probability, the largest first.",
    ],
)
def merge(answer):
    cases = [
        [("", np.log(0.5))],
        [("", np.log(0.49)), ("A", np.log(0.3)), ("A", np.log(0.21))],
        [("AB", -2.0), ("BA", -2.1), ("AB", -3.0), ("B", -1.9), ("BA", -2.2)],
        [("A", -800.0), ("B", -801.0), ("B", -801.0)],  # exp of these is 0
    ]
    for case in cases:
        wanted = {}
        for labels, score in case:
            wanted[labels] = np.logaddexp(wanted.get(labels, -np.inf), score)
        order = sorted(wanted, key=wanted.get, reverse=True)
        got = call(answer, list(case))
        try:
            said = pairs(got)
            scores = {labels: float(score) for labels, score in said}
        except (TypeError, ValueError):
            wrong("Pairs of labels and log probability are wanted.", [("hypotheses", case), ("yours", got)])
        told = lambda some: ", ".join(f"{labels!r} {score:.3f}" for labels, score in some)  # noqa: E731
        shown = [
            ("hypotheses", told(case)),
            ("yours", told(said)),
            ("wanted", told((one, wanted[one]) for one in order)),
        ]
        if len(said) != len(scores):
            wrong("Equal labels are there twice.", shown)
        if set(scores) != set(wanted):
            wrong(
                "These are not the labels that were there.",
                shown,
                "Labels are equal if they are the same in the same order.",
            )
        best = {labels: max(score for own, score in case if own == labels) for labels in wanted}
        total = {labels: sum(score for own, score in case if own == labels) for labels in wanted}
        close = lambda other: all(abs(scores[one] - other[one]) < 1e-6 for one in wanted)  # noqa: E731, B023
        if not close(wanted):
            if close(best):
                wrong(
                    "The best of equal hypotheses is kept, and the probability of the others is lost.",
                    shown,
                    "Add their probabilities: np.logaddexp.",
                )
            if close(total):
                wrong(
                    "Log probabilities are added: that multiplies probabilities.",
                    shown,
                    "Add the probabilities: np.logaddexp.",
                )
            if not all(np.isfinite(list(scores.values()))):
                wrong(
                    "exp of small log probabilities is 0.",
                    shown,
                    "np.logaddexp adds them without leaving the logarithm.",
                )
            wrong("The probabilities of equal labels are to be added.", shown)
        if [labels for labels, _ in said] != order:
            wrong("The most probable is not the first.", shown, "Sort after merging: the order may change.")


@exercise(
    "What may be shown now",
    hints=[
        "As long as all texts have the same letter at a place, it is shown; stop at the first place where not.",
        "zip(*texts) gives the letters of each place, and stops at the end of the shortest one. len(set(letters)) == 1?",
    ],
)
def stable(answer):
    cases = {
        ("CEG",): "CEG",
        ("CEG", "CEB", "CE"): "CE",
        ("CEG", "BEG"): "",
        ("", "C"): "",
        ("CGE", "CEE", "CBE"): "C",
        ("CE", "CE", "CB"): "C",
        ("GECE", "GECB"): "GEC",
        ("CEG", "CB", "CEG"): "C",
        ("CEGB", "CEGE", "CEG", "GEB"): "",
    }
    said = {}
    for texts in cases:
        got = call(answer, list(texts))
        said[texts] = "".join(got) if isinstance(got, (list, tuple)) else got
    failed = [texts for texts in cases if said[texts] != cases[texts]]
    if not failed:
        return
    texts = failed[0]
    shown = [("texts", list(texts)), ("yours", repr(said[texts])), ("wanted", repr(cases[texts]))]
    always = lambda mistake: all(said[own] == mistake(own) for own in cases)  # noqa: E731
    if always(lambda own: own[0]):
        wrong("The whole best text is shown.", shown, "Another one may win later, and then it has to be taken back.")
    if always(lambda own: min(own, key=len)):
        wrong("The shortest text is shown.", shown, "Not each text begins with it.")
    if always(lambda own: "".join(letters[0] for letters in zip(*own) if len(set(letters)) == 1)):
        wrong(
            "Letters are shown after a place where the texts differ.",
            shown,
            "Stop at the first place where one differs.",
        )
    wrong("It is not the longest text that all of them begin with.", shown)


class _Causal(nn.Module):
    def __init__(self, bidirectional=False):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=bidirectional)

    def forward(self, frames):
        return self.lstm(frames[None])[0][0]


def _encoders():
    """(name, encoder, whether it looks ahead)."""
    with torch.random.fork_rng():
        torch.manual_seed(4)
        causal, both = _Causal(), _Causal(bidirectional=True)

    def blocks(frames):  # of four frames each: the last of a block sees nothing ahead
        return torch.cat([part + part.mean(0) for part in frames.split(4)])

    def behind(frames):
        return frames + 0.5 * nn.functional.pad(frames, (0, 0, 2, 0))[: len(frames)]

    return [
        ("an LSTM from left to right", causal, False),
        ("a window of this frame and two before it", behind, False),
        ("the frames as they are", lambda frames: frames, False),
        ("an LSTM in both directions", both, True),
        ("frames minus their mean", lambda frames: frames - frames.mean(0), True),
        ("this frame plus half of the next one", lambda frames: frames + 0.5 * nn.functional.pad(frames, (0, 0, 0, 1))[1:], True),
        ("this frame and a fiftieth of the next one", lambda frames: frames + 0.02 * nn.functional.pad(frames, (0, 0, 0, 1))[1:], True),
        ("blocks of four frames, each with its mean", blocks, True),
        ("the first frame sees the second one, and nobody else looks ahead", lambda frames: torch.cat(
            [frames[:1] + frames[1:2].sum(0), frames[1:]]), True),
        ("the eighth frame sees the ninth, and nobody else looks ahead", lambda frames: torch.cat(
            [frames[:7], frames[7:8] + frames[8:9].sum(0), frames[8:]]), True),
        ("the twelfth frame sees the thirteenth, and nobody else looks ahead", lambda frames: torch.cat(
            [frames[:11], frames[11:12] + frames[12:13].sum(0), frames[12:]]), True),
        ("the second-last frame sees the last one", lambda frames: torch.cat([frames[:-2], frames[-2:-1] + frames[-1:], frames[-1:]]),
         True),
    ]  # fmt: skip


@exercise(
    "Does it look ahead?",
    hints=[
        "Encode the first n frames alone, and all frames: the first n results are to be the same, for each n.",
        "One n for which they differ is enough. Compare up to rounding: torch.allclose with atol=1e-5.",
    ],
    points=2,
)
def looks_ahead(answer):
    for length in (9, 14, 2, 1):
        frames = torch.randn(length, 3, generator=torch.Generator().manual_seed(11))
        with torch.no_grad():
            # In few frames there may be nothing ahead to be seen; then it is not asked.
            asked = [(name, encode, truth) for name, encode, truth in _encoders() if not truth or _sees(encode, frames)]
            said = [(name, truth_of(answer, encode, frames.clone()), truth) for name, encode, truth in asked]
        if length == 9 and all(got for _, got, _ in said):
            wrong(
                "It says of every encoder that it looks ahead.",
                [("for example", said[0][0])],
                "Compare only frames that are in both: encode(frames[:n]) with encode(frames)[:n], up to rounding.",
            )
        if length == 9 and not any(got for _, got, _ in said):
            wrong(
                "It says of no encoder that it looks ahead.",
                [("for example", said[3][0])],
                "Change what comes later, or leave it out, and look whether earlier results change.",
            )
        for name, got, truth in said:
            if truth and not got:
                wrong(
                    "An encoder that looks ahead is not found.",
                    [("encoder", name), ("frames", length)],
                    "One cut is not enough: it may see one more frame, or look ahead in a block alone. Cut after each frame.",
                )
            if got and not truth:
                wrong(
                    "An encoder that does not look ahead is accused.",
                    [("encoder", name), ("frames", length)],
                    "What comes earlier may be seen." if length > 1 else "After one frame comes nothing.",
                )


def _sees(encode, frames):
    """Whether what comes later changes what an encoder gives for one of these frames."""
    whole = encode(frames)
    return any((encode(frames[:n]) - whole[:n]).abs().max() > 1e-2 for n in range(1, len(frames)))
