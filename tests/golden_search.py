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


def check_output(arrays: Mapping[str, np.ndarray], name: str, value: Any) -> None:
    """Compare an output of a network that searches: values of all real hypotheses on real frames, and lengths."""
    dims = _batch_first(value)
    got, expected = value.copy_transpose(dims).numpy(), arrays[f"out/{name}"]
    hypotheses = len(dims) > 1 and _is_beam(dims[1])
    folded = int(expected.ndim < got.ndim)  # batch and hypotheses are one axis
    if folded:
        expected = expected.reshape(got.shape[0], -1, *expected.shape[1:])
    possible = arrays["beam_scores/output"] > IMPOSSIBLE if hypotheses else np.ones(len(got), bool)
    real = np.broadcast_to(possible.reshape(*possible.shape, *[1] * (got.ndim - possible.ndim)), got.shape)
    for axis, dim in enumerate(dims):
        lengths = arrays.get(f"out_len/{name}/{axis - folded}")
        if lengths is None:
            continue
        if hypotheses and not folded:  # those of a split beam are over the batch in the file
            lengths = arrays["out_len/output/1"]
        lengths = lengths.reshape(possible.shape)
        found = _lengths(dim, got.shape[1] if hypotheses else 1).reshape(possible.shape)
        assert (found == lengths)[possible].all(), name
        places = [size if place == axis else 1 for place, size in enumerate(got.shape)]
        frames = np.arange(got.shape[axis]).reshape(places)
        real = real & (frames < lengths.reshape(*lengths.shape, *[1] * (got.ndim - lengths.ndim)))
    expected = expected[tuple(slice(size) for size in got.shape)]  # there may be more frames of padding
    if got.dtype.kind in "ib":
        assert (got[real] == expected[real]).all(), name
    else:
        np.testing.assert_allclose(got[real], expected[real], err_msg=name, **TOLERANCE)


def _is_beam(dim: Any) -> bool:
    return dim.kind == "beam" or dim.name in ("slot", "beam")  # the latter are what has become of one


def _batch_first(value: Any) -> list[Any]:
    """Batch, hypotheses, and the others in their order, features last."""
    rank = lambda dim: 0 if dim.kind == "batch" else 1 if _is_beam(dim) else 3 if dim is value.feature_dim else 2  # noqa: E731
    return sorted(value.dims, key=rank)


def _lengths(dim: Any, count: int) -> np.ndarray:
    """For each sequence and each of `count` hypotheses, whatever has become of the beam that the lengths are over."""
    sizes = dim.get_size_tensor()
    host = sizes.copy_transpose(_batch_first(sizes)).numpy()
    return np.broadcast_to(host.reshape(len(host), -1), (len(host), count))


def _in_order(value: Any, dims: Any) -> np.ndarray:
    return value.copy_transpose(dims).numpy()
