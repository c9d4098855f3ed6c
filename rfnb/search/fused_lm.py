"""An n-gram model fused into a search over alignments, on the host: a score and a context for each prefix."""

from __future__ import annotations

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.lm.ngram import NGramLM


class FusedLM:
    """The scores that an n-gram model and a bonus per label add to prefixes.

    Args:
        what: Name of the search, for messages.
        lm: A language model over the classes, or over the classes without the blank.
        scale: Factor on its natural-log probabilities.
        bonus: Added per label.
        classes: Number of classes, including the blank.
        blank: Index of the blank.
        shape: (batch, beam).

    Attributes:
        scores: float64 [batch, beam]: the sum added so far.

    Raises:
        DimError: If the model is over other labels.
    """

    def __init__(
        self,
        what: str,
        lm: NGramLM | None,
        scale: float,
        bonus: float,
        classes: Dim,
        blank: int,
        shape: tuple[int, int],
    ):
        self._lm, self._scale, self._bonus, self._blank = lm, scale, bonus, blank
        self.scores = np.zeros(shape)
        if lm is None:
            self._row = np.full(classes.extent, bonus)
            self._row[blank] = 0
            return
        labels = lm.out_dim
        if labels is classes:
            self._label = np.arange(classes.extent)
        elif labels.extent == classes.extent - 1:
            self._label = np.arange(classes.extent) - (np.arange(classes.extent) > blank)
            self._label[blank] = 0
        else:
            raise dim_error(
                f"{what}: the language model is over other labels.",
                {"classes": f"{classes.short_repr()}, blank {blank}", "labels of the model": labels},
                "It is over the classes, or over the classes without the blank, in the same order.",
                "rf.NGramLM(file, [...])   # one text per class but the blank",
            )
        self.contexts = np.full(shape, lm.start, np.int64)

    def of_next(self) -> np.ndarray:
        """The score of each label after each prefix, [batch, beam, classes] or [classes]; 0 for the blank."""
        if self._lm is None:
            return self._row
        scores = self._lm.rows(self.contexts.reshape(-1)).take(self._label, axis=1) * self._scale + self._bonus
        scores[:, self._blank] = 0
        return scores.reshape(*self.contexts.shape, -1)

    def follow(self, rows: np.ndarray, grown: np.ndarray, tokens: np.ndarray, added: np.ndarray) -> None:
        """Follow the chosen prefixes: flat parent slots, whether each grew, by which label, and the scores from `of_next`."""
        own = added[tokens] if added.ndim == 1 else added.reshape(-1, added.shape[-1])[rows, tokens]
        self.scores = self.scores.take(rows) + np.where(grown, own, 0)
        if self._lm is None:
            return
        self.contexts = self.contexts.take(rows)
        self.contexts[grown] = self._lm.lookup(self.contexts[grown], self._label[tokens[grown]])[1]

    def parts(self) -> dict[str, np.ndarray]:
        """The unscaled score of a label after each prefix, for an event: "lm" [batch, beam, classes], and "labels" for the bonus."""
        out: dict[str, np.ndarray] = {}
        if self._lm is not None:
            scores = self._lm.rows(self.contexts.reshape(-1)).take(self._label, axis=1).astype(np.float64)
            scores[:, self._blank] = 0
            out["lm"] = scores.reshape(*self.contexts.shape, -1)
        if self._bonus:
            size = out["lm"].shape[-1] if out else len(self._row)
            out["labels"] = np.where(np.arange(size) == self._blank, 0.0, 1.0)
        return out

    def end_parts(self, ended: np.ndarray) -> dict[str, np.ndarray]:
        """The score of the end for prefixes that have ended, for an event: scaled, and the model's own."""
        if self._lm is None:
            return {}
        own = self._lm.end_scores(self.contexts.reshape(-1)).reshape(self.contexts.shape)
        own = np.where(ended, own, 0.0)
        return {"end_scores": self._scale * own, "end_part:lm": own}

    def end_scores(self) -> np.ndarray:
        """The score of the end after each prefix."""
        if self._lm is None:
            return np.zeros(self.scores.shape)
        return self._scale * self._lm.end_scores(self.contexts.reshape(-1)).reshape(self.contexts.shape)
