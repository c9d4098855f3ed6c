"""CTC prefix beam search of one sequence in plain Python: the same results as on arrays, faster for few sequences.

A step on arrays costs some forty calls, whatever their size; here it costs only as much as the beam needs. The prefixes form a tree.
Those that stay bound the score that a growing one needs, so only the first few labels of each prefix are tried, best first.
"""

from __future__ import annotations

from math import exp, log, log1p

import numpy as np

from rfnb.search.prefix_beam import NEVER, best

_LOG_2 = log(2.0)
_SLOT = 1.7  # microseconds of a slot in a step here; on arrays a step takes 45 and each candidate 0.008
Candidate = tuple[float, int, int, float, float, int]  # -score, slot of the parent, label, in blank, in label, prefix


def pays(batch: int, beam_size: int, classes: int) -> bool:
    """True if searching sequence by sequence is faster than on arrays."""
    return batch * beam_size * (_SLOT - 0.008 * classes) < 45


def search_each(
    frames: np.ndarray, lengths: np.ndarray, blank: int, beam_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The best prefixes of each sequence.

    Args:
        frames: float64 [batch, frame, classes], log probabilities.
        lengths: Lengths of the sequences.

    Returns:
        Labels int64 [batch, beam, label], their numbers int32 [batch, beam], scores float64 [batch, beam], -inf where there is no
        prefix.
    """
    found = [_PrefixTree(blank).search(one[:length], beam_size) for one, length in zip(frames, lengths)]
    counts, scores = np.zeros((len(found), beam_size), np.int32), np.full((len(found), beam_size), NEVER)
    out = np.zeros((*counts.shape, max((len(row) for one in found for row, _ in one), default=0)), np.int64)
    for seq, beam in enumerate(found):
        for slot, (row, score) in enumerate(beam):
            scores[seq, slot], counts[seq, slot], out[seq, slot, : len(row)] = score, len(row), row
    return out, counts, scores


class _PrefixTree:
    """The prefixes of one search; a prefix is an index into lists, since objects would burden the garbage collector.

    Attributes:
        parent, label: The parent prefix, and the label that it grew by. The empty prefix is 1, with label -1 and parent 0.
        grown: (prefix, label) -> longer prefix.
        frame: When a prefix was last in the beam.
        total, in_blank, in_label: Log of the sum over its alignments: all, those that end in a blank, and in its last label.
    """

    def __init__(self, blank: int):
        self.blank = blank
        self.parent, self.label, self.frame = [0, 0], [-1, -1], [-1, -1]
        self.total, self.in_blank, self.in_label = [NEVER, 0.0], [NEVER, 0.0], [NEVER, NEVER]
        self.grown: dict[tuple[int, int], int] = {}

    def search(self, frames: np.ndarray, size: int) -> list[tuple[list[int], float]]:
        """The labels and score of each prefix after the last frame [frame, classes]."""
        beam = [1]
        for now, (frame, ranked) in enumerate(zip(frames, _ranked(frames, self.blank, size + 1))):
            for prefix in beam:
                self.frame[prefix] = now
            kept = self._staying(beam, frame.data, now)
            self._add_growing(kept, beam, ranked, size, now)
            beam = self._take(kept)
        return [(self._labels(prefix), self.total[prefix]) for prefix in beam]

    def _staying(self, beam: list[int], frame: memoryview, now: int) -> list[Candidate]:
        """The prefixes that stay, by a blank or by their last label again, or that their parent grows into."""
        totals, in_blanks, in_labels = self.total, self.in_blank, self.in_label
        labels, parents = self.label, self.parent
        in_beam, blank, out, slot = self.frame, self.blank, [], 0
        of_blank = frame[blank]
        for prefix in beam:
            total = in_blank = totals[prefix] + of_blank
            in_label, last = NEVER, labels[prefix]
            if last >= 0:
                of_last, parent = frame[last], parents[prefix]
                in_label = in_labels[prefix] + of_last
                if in_beam[parent] == now:
                    brought = (in_blanks[parent] if labels[parent] == last else totals[parent]) + of_last
                    # log(exp(a) + exp(b)) is written out, as `np.logaddexp` does it: a call costs more than the rest.
                    if in_label > brought:
                        in_label += log1p(exp(brought - in_label))
                    elif in_label < brought:
                        in_label = brought + log1p(exp(in_label - brought))
                    else:
                        in_label += _LOG_2
                if in_blank > in_label:
                    total = in_blank + log1p(exp(in_label - in_blank))
                elif in_blank < in_label:
                    total = in_label + log1p(exp(in_blank - in_label))
                else:
                    total = in_blank + _LOG_2
            if total > NEVER:
                out.append((-total, slot, blank, in_blank, in_label, prefix))
            slot += 1
        out.sort()
        return out

    def _add_growing(
        self, kept: list[Candidate], beam: list[int], ranked: list[tuple[float, int]], size: int, now: int
    ) -> None:
        """Add the prefixes that grow by a label to the candidates, of which `size` are kept."""
        totals, in_beam, grown = self.total, self.frame, self.grown
        best_label = ranked[0][0] if ranked else NEVER
        limit, slot = -kept[-1][0] if len(kept) == size else NEVER, 0
        for prefix in beam:
            total, last = totals[prefix], self.label[prefix]
            if total + best_label < limit:
                return
            for of_label, label in ranked:
                score = total + of_label
                if score < limit or score == NEVER:
                    break
                if label == last:
                    score = self.in_blank[prefix] + of_label  # the same label again needs a blank before it
                    if score < limit or score == NEVER:
                        continue
                if in_beam[grown.get((prefix, label), 0)] != now:  # else it was added to the one that stays
                    kept.append((-score, slot, label, NEVER, score, prefix))
            kept.sort()
            if len(kept) >= size:
                del kept[size:]
                limit = -kept[-1][0]
            slot += 1

    def _take(self, kept: list[Candidate]) -> list[int]:
        """The prefixes of the candidates, with their scores."""
        out, blank, grown = [], self.blank, self.grown
        for score, _, label, in_blank, in_label, prefix in kept:
            if label != blank:
                key = prefix, label
                found = grown.get(key)
                if found is None:
                    grown[key] = found = len(self.parent)
                    self.parent.append(prefix)
                    self.label.append(label)
                    for values in (self.frame, self.total, self.in_blank, self.in_label):
                        values.append(-1)
                prefix = found
            self.total[prefix], self.in_blank[prefix], self.in_label[prefix] = -score, in_blank, in_label
            out.append(prefix)
        return out

    def _labels(self, prefix: int) -> list[int]:
        out = []
        while prefix > 1:
            out.append(self.label[prefix])
            prefix = self.parent[prefix]
        return out[::-1]


def _ranked(frames: np.ndarray, blank: int, count: int) -> list[list[tuple[float, int]]]:
    """The best labels of each frame with their scores, without the blank.

    A prefix that grows by a label ranks behind those that grow by a better one, except where that repeats its last label. So `count`
    labels, one more than the beam, are enough.
    """
    values = frames.copy()
    values[:, blank] = NEVER
    order = best(values, min(count, values.shape[1] - 1))
    values = np.take_along_axis(values, order, 1)
    return [list(zip(scores, labels)) for scores, labels in zip(values.tolist(), order.tolist())]
