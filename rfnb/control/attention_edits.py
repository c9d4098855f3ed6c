"""Attention edits of a run: replacements for weights at the point where they are computed, and the paths that compute weights.

Attention of models of other libraries is edited in `model_edits.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from rfnb.control.attention_rows import RowEdit, check_value, edited
from rfnb.control.named_entries import NamedEntries
from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import missing_key_error, value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.ops.where import where
from rfnb.rec.selection import align_host
from rfnb.trace.attach import attacher_of
from rfnb.trace.match import is_end_of
from rfnb.trace.probe import listening, trace_context
from rfnb.trace.trace import Trace


class KnownWeights(NamedTuple):
    """The weights computed at a path, as far as known.

    Attributes:
        dims: Dims of the weights except `axis`.
        axis: The dim attended over.
        settled: Whether two calls had the same dims, so that the next one will.
    """

    dims: Dims
    axis: Dim
    settled: bool


class _Lasting:
    """An edit for a number of steps of its loop; None means all."""

    def __init__(self, edit: RowEdit, owner: Any, left: int | None):
        self.edit, self.owner, self.steps, self.left = edit, owner, left, left
        self.path: str | None = None  # where it was asked for
        self.refused = False


class AttentionEdits:
    """The attention edits of one run.

    Args:
        refuse: Called with the error of an edit that could not be applied.
        here: Returns the path of the current step, for weights computed outside modules.
        seen: Returns the paths of recorded attention, including models of other libraries.

    Attributes:
        known: path -> KnownWeights, for each call that has attended.
    """

    def __init__(
        self, refuse: Callable[[Exception], None], here: Callable[[], str], seen: Callable[[], Iterable[str]] = tuple
    ):
        self._refuse, self._here, self._seen = refuse, here, seen
        self.known: dict[str, KnownWeights] = {}
        self._edits: list[_Lasting] = []

    def __bool__(self) -> bool:
        return bool(self._edits)

    # -- for who changes something -----------------------------------------------------------------------------------------

    def add(self, edit: RowEdit, owner: Any, steps: int | None, is_first: bool, attends: bool) -> str:
        """Apply an edit to the weights of the next `steps` steps of `owner`, or of all for None; return its description.

        Args:
            owner: The loop steps in which it was made.
            is_first: Whether these steps have just begun; then a path may still be unknown.
            attends: Whether there may be attention that is not known yet.

        Raises:
            KeyError: If nothing at this path has attended, but something elsewhere has.
            ValueError: If nothing attends.
            Exception: As for `edited`, as far as the weights are known.
        """
        check_value(edit)
        edit = edit if edit.path else edit._replace(path=self._here())  # as a trace has it, of what is in no module
        path = self.find(edit.path, may_be_unknown=is_first or not self.known)
        error = None if path is not None else refused(edit.path, self._seen(), self.known, attends=attends)
        if error is not None:
            raise error
        if path is not None:
            dims, axis, settled = self.known[path]
            edit = edit._replace(path=path)
            if settled:
                NamedEntries(edit.what, edit.entries, dims, f'run.at.attention["{path}"]')
                if axis not in dims:
                    shape = [dim.extent for dim in (*dims, axis)]
                    edited(np.ones(shape), edit, dims, axis, _real((*dims, axis), axis, None))
        self._edits.append(_Lasting(edit, owner, steps))
        return edit.words_at(steps)

    def find(self, path: str, *, may_be_unknown: bool) -> str | None:
        """The full path for an abbreviated one; None if nothing there has attended so far.

        Raises:
            KeyError: If it is unknown and must not be, or is ambiguous.
        """
        found = [path] if path in self.known else [each for each in self.known if is_end_of(path, each)]
        if len(found) == 1 or (not found and may_be_unknown):
            return found[0] if found else None
        raise missing_key_error(
            f'run: {"several paths end in" if found else "no attention was computed at"} "{path}".',
            {"attention": ", ".join(found or self.known) or "none so far"},
            "Attention is addressed by its path in a trace, or by a unique end of it.",
        )

    # -- for the run -------------------------------------------------------------------------------------------------------

    def step_over(self, owner: Any) -> None:
        """End a step of `owner`: drop edits that were only for it, and report those that were not used."""
        before, self._edits = self._edits, []
        for one in before:
            if one.owner is owner and one.path is None and not one.refused:
                self._refuse(self._not_asked_for(one.edit))
            elif one.owner is not owner or (one.left != 1 and not one.refused):
                self._edits.append(one)
                if one.owner is owner and one.left is not None:
                    one.left -= 1

    def over(self, owner: Any) -> None:
        """End the steps of `owner`: report edits for more steps than came."""
        self.step_over(owner)
        for one in self._edits:
            if one.owner is owner and one.left is not None and not one.refused:
                assert one.steps is not None
                self._refuse(
                    fewer_steps(one.edit, one.steps, f"{one.steps - one.left} since the request, then the loop ended")
                )
        self._edits = [one for one in self._edits if one.owner is not owner]

    def wants(self) -> bool:
        """True if weights computed here are to be replaced."""
        path = self._path() if self._edits else ""
        return any(self._fits(one, path) for one in self._edits)

    def note(self, dims: Dims, axis: Dim) -> str:
        """Note an attention here; return its path, which is known while something records."""
        if not listening():
            return ""
        path, last = self._path(), len(dims) - 1 - dims[::-1].index(axis)
        rest = tuple(dim for place, dim in enumerate(dims) if place != last)
        before = self.known.get(path)
        settled = before is not None and before.axis is axis and before.dims == rest
        if before is None or before.settled is not settled or not settled:
            self.known[path] = KnownWeights(rest, axis, settled)
        return path

    def changed(self, weights: Tensor, axis: Dim, seen: Tensor | None) -> Tensor:
        """The weights with all their edits applied."""
        path = self.note(weights.dims, axis)
        if not self._edits:
            return weights
        dims = tuple(dim for dim in weights.dims if dim is not axis)
        order = (*dims, axis)
        for one in [one for one in self._edits if self._fits(one, path)]:
            one.path, edit = path, one.edit._replace(path=path)
            host = weights.copy_transpose(order).numpy().astype(np.float64)
            try:
                host = edited(host, edit, dims, axis, _real(order, axis, seen))
            except Exception as error:
                one.refused = True
                self._refuse(error)
            else:
                weights = _with_rows(weights, host, NamedEntries(edit.what, edit.entries, dims, "").mask(), order)
        return weights

    def _fits(self, one: _Lasting, path: str) -> bool:
        if one.refused:
            return False
        return path == one.path if one.path is not None else is_end_of(one.edit.path, path)

    def _path(self) -> str:
        return trace_context.place.path or self._here()

    def _not_asked_for(self, edit: RowEdit) -> Exception:
        return value_error(
            f"{edit.what}: no attention was computed there in this step.",
            {"known": ", ".join(self.known) or "none"},
            "Nothing was changed. A change affects the weights of later steps, where they are computed.",
        )


def fewer_steps(edit: RowEdit, steps: int, come: str) -> Exception:
    """The error for rows to be changed in more steps than come.

    Args:
        come: The number of steps that come, as text.
    """
    return value_error(
        f"{edit.what}: during {steps} steps are requested, but fewer remain.",
        {"steps of its loop": come},
        "The steps are counted from the next one. For all following steps:",
        f'run.at.attention["{edit.path}"].during(None)',
    )


def _with_rows(weights: Tensor, host: np.ndarray, mask: np.ndarray, order: Dims) -> Tensor:
    """The weights with some rows from an array over `order`, as constants; `mask` has no last axis."""
    backend, device = weights.backend, weights.device
    new = new_tensor(backend.from_numpy(host, dtype=weights.dtype, device=device), order)
    chosen = new_tensor(backend.from_numpy(mask, dtype="bool", device=device), order[:-1])
    out = where(chosen, new, weights, allow_broadcast_all_sources=True).copy_transpose(weights.dims)
    return weights._like(out._raw, weights.dims)


def _real(order: Dims, axis: Dim, seen: Tensor | None) -> np.ndarray:
    """The places where weight is allowed, broadcastable to {order}, axis last."""
    real = np.ones([1] * len(order), bool)
    if axis.has_padding() and set(axis.length_dims) <= set(order):
        real = axis.host_mask(order)
    if seen is not None and set(seen.dims) <= set(order):
        real = real & align_host(seen.numpy(), seen.dims, order)
    return real


def seen_paths(record: bool | Mapping[str, Any], trace: Trace | None) -> Iterator[str]:
    """The paths where attention may be computed, from the recording of a run.

    Args:
        record: The `record` option of the run, with the observed models.
        trace: Its recording so far.
    """
    if trace is not None:
        yield from trace.attention
    model = record.get("model") if isinstance(record, Mapping) else None
    for prefix, each in (model if isinstance(model, Mapping) else {"": model}).items():
        if each is not None and attacher_of(each) is not None:
            yield from (".".join(filter(None, [prefix, name])) for name, _ in each.named_modules())


def refused(path: str, seen: Iterable[str], known: Mapping[str, Any], *, attends: bool) -> Exception | None:
    """The error if attention at a path that rf has not computed so far cannot be edited; None if it may still come.

    Args:
        seen: From `seen_paths`.
        known: The paths where rf has attended.
        attends: Whether rf may attend there although it has not attended anywhere so far.
    """
    found = next((each for each in seen if is_end_of(path, each) and each not in known), None)
    if found is None and attends:
        return None
    return value_error(
        f'attention "{path}": {f"no recorded model computes it ({found})" if found else "rf computes no attention here"}.',
        {"changed": ", ".join(known) or "none so far"},
        "A run edits weights that rf computes (in its layers, in rf.dot_attention, in your own rf.generic_attention) and those of a torch "
        "model that it records:",
        'rf.run(fn, record={"model": model}, paused=True)',
    )
