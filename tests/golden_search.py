"""Compares every step of a search with the step trace of golden data (tests/golden/README.md).

with StepsCompared(arrays, beam_sizes=[3]):
    ...   # the search
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.trace.probe import listen

IMPOSSIBLE = (
    -1e25
)  # of the reference: -1e30 is a label that an ended hypothesis may not take, -inf no hypothesis at all
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}


class StepsCompared:
    """Listens to a search, and at its end compares all events with the trace.

    Of each step everything is compared: which hypotheses go on (labels, parents, scores), and for all candidates that the event has
    their log probabilities after the filter of ended hypotheses (`scores_in`), the score before (`scores_base`) and the sum
    (`scores_combined`). With `keep_candidates` of beam times labels these are all of them.

    Args:
        arrays: The arrays of the file.
        all_candidates: Whether every candidate that is possible has to be in the events.
        scales: (prob_scale, base_beam_score_scale) of each choice of a step.
    """

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        *,
        all_candidates: bool = False,
        scales: list[tuple[float, float]] | None = None,
    ):
        self.trace = {key.removeprefix("trace/"): arrays[key] for key in arrays if key.startswith("trace/")}
        self.all_candidates, self.scales = all_candidates, scales
        self.events: list[tuple[int, Mapping[str, Any]]] = []

    def __enter__(self) -> StepsCompared:
        self.context = listen(
            lambda kind, place, values: self.events.append((place.step, values)) if kind == "beams" else None
        )
        self.context.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.context.__exit__(*error)
        if error[0] is None:
            self.check()

    def check(self) -> None:
        """Every event is a choice of the trace, and every one of the trace is an event."""
        choices: dict[int, int] = {}
        ended = None
        for step, values in self.events:
            choice = choices[step] = choices.get(step, -1) + 1
            self.check_choice(f"{step}/{choice}", choice, values, ended)
            ended = _in_order(values["ended"], values["tokens"].dims)
        assert sum(choices.values()) + len(choices) == sum(key.endswith("/labels") for key in self.trace)

    def check_choice(self, key: str, choice: int, values: Mapping[str, Any], ended: np.ndarray | None) -> None:
        """One choice of one step."""
        wanted = {name: self.trace[f"{key}/{name}"] for name in
                  ("scores", "labels", "src_beam_idxs", "scores_in", "scores_base", "scores_combined")}  # fmt: skip
        order = values["tokens"].dims
        got = {name: _in_order(values[name], order) for name in ("scores", "tokens", "parents", "base", "log_probs")}
        possible = wanted["scores"] > IMPOSSIBLE
        assert (np.isfinite(got["scores"]) == possible).all(), key
        np.testing.assert_allclose(got["scores"][possible], wanted["scores"][possible], err_msg=key, **TOLERANCE)
        parents = wanted["src_beam_idxs"]
        assert (got["parents"][possible] == parents[possible]).all(), key
        base = np.take_along_axis(wanted["scores_base"][..., 0], parents, 1)
        np.testing.assert_allclose(got["base"][possible], base[possible], err_msg=key, **TOLERANCE)
        several = "tokens:1" in values
        real = possible
        if several and ended is not None:
            # What an ended hypothesis repeats comes from a state that stays here and goes on there; it is past the end.
            real = possible & ~np.take_along_axis(ended, parents, 1)
        assert (got["tokens"][real] == wanted["labels"][real]).all(), key
        if not several:
            rows = np.arange(len(parents))[:, None]
            own = wanted["scores_in"][rows, parents, wanted["labels"]]
            np.testing.assert_allclose(got["log_probs"][possible], own[possible], err_msg=key, **TOLERANCE)
        self.check_candidates(key, choice, values, wanted, several)

    def check_candidates(
        self, key: str, choice: int, values: Mapping[str, Any], wanted: Mapping[str, np.ndarray], several: bool
    ) -> None:
        """Kept ones, then the best of the others, with the parts of their scores."""
        order = (*values["tokens"].dims[:-1], values["cand_scores"].dims[-1])
        got = {
            name: _in_order(values[f"cand_{name}"], order)
            for name in ("scores", "tokens", "parents", "log_probs", "kept")
        }
        combined, found, kept = wanted["scores_combined"], np.isfinite(got["scores"]), got["kept"]
        for seq, flat in enumerate(combined.reshape(len(combined), -1).astype(np.float64)):
            labels = combined.shape[-1]
            own = got["scores"][seq][kept[seq]]
            if several:  # the label is only a part of the combination
                taken = [int(np.abs(flat - score).argmin()) for score in own]
            else:
                taken = (got["parents"][seq] * labels + got["tokens"][seq])[kept[seq]].tolist()
            np.testing.assert_allclose(own, flat[taken], err_msg=key, **TOLERANCE)
            flat[taken] = -np.inf
            others = got["scores"][seq][found[seq] & ~kept[seq]]
            best = -np.sort(-flat[flat > IMPOSSIBLE])
            places = found.shape[-1] - wanted["scores"].shape[-1]  # an impossible hypothesis may have its place too
            twice = len(taken) - len(set(taken))  # by cheating; it has two places
            least = len(best) - twice if self.all_candidates else min(len(best), places)
            assert len(best) >= len(others) >= least, key
            np.testing.assert_allclose(others, best[: len(others)], err_msg=key, **TOLERANCE)
        if several:
            return
        rows = np.broadcast_to(np.arange(len(combined))[:, None], found.shape)[found]
        place = rows, got["parents"][found], got["tokens"][found]
        np.testing.assert_allclose(got["scores"][found], combined[place], err_msg=key, **TOLERANCE)
        np.testing.assert_allclose(got["log_probs"][found], wanted["scores_in"][place], err_msg=key, **TOLERANCE)
        if self.scales is not None:
            prob_scale, base_scale = self.scales[choice]
            base = (got["scores"] - prob_scale * got["log_probs"])[found] / base_scale
            np.testing.assert_allclose(base, wanted["scores_base"][place[:2]][..., 0], err_msg=key, **TOLERANCE)


def _in_order(value: Any, dims: Any) -> np.ndarray:
    return value.copy_transpose(dims).numpy()
