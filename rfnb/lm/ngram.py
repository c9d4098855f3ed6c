"""n-gram language models on Tensors: the state from label to label is one integer, the context.

lm = rf.NGramLM("model.arpa.gz", labels)              # labels: a Dim with a vocab
loop.state.lm = lm.default_initial_state(batch_dims=[batch])
for _ in loop:
    scores = log_probs + 0.3 * lm.next_scores(loop.state.lm)
    label = rf.choice(scores, axis=labels, beam_size=5)
    _, loop.state.lm = lm(label, state=loop.state.lm)  # the context of the chosen hypothesis
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims, single_step_dim
from rfnb.core.errors import runtime_error, value_error
from rfnb.core.layout import full_shape
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.lm.arpa import is_kenlm_binary, read_arpa
from rfnb.lm.kenlm_package import KenLmTable
from rfnb.lm.ngram_table import LN10, Columns, NGramTable, Table
from rfnb.ops.const import convert_to_tensor, full, zeros
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.dims import set_sparse_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import maximum
from rfnb.ops.where import where
from rfnb.rec.scan import scan
from rfnb.rec.state import State

_BEFORE_START = -1  # the context before a start label
_DENSE = 1 << 24  # maximal number of precomputed scores (64 MB)


class NGramLM:
    """Scores of the next label by an n-gram model whose words are the labels.

    Args:
        file: ARPA (also with gzip), or KenLM's binary format, which needs the package `kenlm`.
        labels: A Dim with a vocab, or the texts of the labels.
        end: The label for the end of the sentence, `</s>` in the model.
        unknown: The word whose score labels outside the model get.
        unknown_score: Score of such labels if the model lacks that word too: natural log. Default: an error.
        package: Read ARPA files with the package `kenlm` too (`kenlm-ex` is a compiled distribution of it). The numbers
            are the same; scores of all labels are much slower, since it has no call for them.

    Attributes:
        out_dim: The dim of the labels.
        order: Length of the longest n-grams of the model.
        unknown_labels: Texts of the labels that are not in the model.

    Raises:
        ValueError: For a malformed file, or labels that do not fit the model.
        ModuleNotFoundError: If the package is needed and not installed.

    Source: Katz 1987, "Estimation of Probabilities from Sparse Data", for the back-off: p(w | h) is listed, or the back-off weight
    of h times p(w | h without its oldest word). The word `<s>` precedes the first label.
    """

    def __init__(
        self,
        file: str | Path,
        labels: Dim | Sequence[str],
        *,
        end: str = "</s>",
        unknown: str = "<unk>",
        unknown_score: float | None = None,
        package: bool = False,
    ):
        self.file, self.table = file, open_table(file, package=package)
        self.order = self.table.order
        self.out_dim, texts = labels_dim(labels)
        if self.table.word(unknown) is None and unknown_score is not None:
            self.table.add_word(unknown, unknown_score)
        found = [self.table.word("</s>" if text == end else text) for text in texts]
        other = self.table.word(unknown)
        self.unknown_labels = [text for text, word in zip(texts, found) if word is None or word == other]
        self._check(texts, other, unknown)
        self._words = np.array([other if word is None else word for word in found], np.int64)
        self._columns = Columns(self._words)
        self._end = self.table.word("</s>")
        self._host: tuple[np.ndarray, np.ndarray] | None = None
        self._dense: dict[Any, tuple[Tensor, Tensor, Tensor]] = {}
        self._rows: dict[int, Dim] = {}

    def __repr__(self) -> str:
        unknown = f", {len(self.unknown_labels)} of them unknown" if self.unknown_labels else ""
        return f"<NGramLM: order {self.order}, {self.out_dim.extent} labels{unknown}>"

    @property
    def start(self) -> int:
        """The context before the first label."""
        return self.table.start

    def default_initial_state(self, *, batch_dims: Sequence[Dim], start_label: bool = False) -> State:
        """The state before the first label: `context` int32 {*batch_dims}.

        Args:
            start_label: Whether a start label precedes it, which `step` reads but does not score.
        """
        before = _BEFORE_START if start_label else self.table.start
        return State(context=full(dims=batch_dims, fill_value=before, dtype="int32"))

    def __call__(
        self, label: Tensor, *, state: State | None = None, spatial_dim: Dim = single_step_dim
    ) -> tuple[Tensor, State]:
        """The score of each label given the ones before it.

        Args:
            label: int {...} for one step, or {..., spatial_dim}.
            state: Required for a single step. Default for a whole sequence: the state before the first label.
            spatial_dim: `single_step_dim`, or the dim of the labels; an ended sequence keeps its state.

        Returns:
            float32, the dims of label: natural-log probability of each label after those before it. And the state.

        Raises:
            RuntimeError: For a single step without state.
            DimError: If label lacks spatial_dim.
        """
        if spatial_dim is single_step_dim:
            if state is None:
                raise needs_state("NGramLM", label)
            score, after = _label_scores(self, label, copy_to_device(state.context, label.device))
            return score, State(state, context=after)
        check_dim("NGramLM", label, spatial_dim, "label")
        if state is None:
            state = self.default_initial_state(batch_dims=label.remaining_dims([spatial_dim]))
        start = State(state, context=copy_to_device(state.context, label.device))
        scores, state, _ = scan(
            spatial_dim=spatial_dim, xs=label, initial=start, ys=zeros(start.context.dims, dtype="float32", device=label.device),
            body=lambda one, state: self(one, state=state),
        )  # fmt: skip
        return scores, state

    def next_scores(self, state: State) -> Tensor:
        """Natural-log probability of each possible next label; float32 {..., out_dim}."""
        return _next_scores(self, state.context)

    def step(self, labels: Any, state: Any = None) -> tuple[Any, Any]:
        """Scores of the next labels and the next state: the step function of this model for `rf.beam_search`.

            rf.beam_search(step, ..., fusion={"lm": (lm.step, None, 0.3)})

        The first labels are start labels, which are not scored.

        Args:
            labels: The last label of each hypothesis: a raw array (n,), or a Tensor {...}.
            state: The state from the previous step. Before the first step None; for Tensors
                `lm.default_initial_state(batch_dims=[batch], start_label=True)`, since a loop must know it.

        Returns:
            Natural-log probabilities {..., out_dim} and the next state; for raw labels both raw, (n, labels) and (n,).
        """
        if isinstance(labels, Tensor):
            if state is None or "context" not in state:
                raise _needs_start_state(labels)
            context = copy_to_device(state.context, labels.device)
            _, after = self(labels, state=State(context=maximum(context, 0)))
            after.context = where(context < 0, self.table.start, after.context)
            return self.next_scores(after), after
        count = len(labels)
        rows = self._rows.setdefault(count, Dim(count, name="rows"))  # the same dim again, so that its plans are reused
        label = convert_to_tensor(labels, dims=[rows], sparse_dim=self.out_dim)
        if state is None:
            state = self.default_initial_state(batch_dims=[rows], start_label=True)
        else:
            state = State(context=convert_to_tensor(state, dims=[rows]))
        scores, state = self.step(label, state)
        return scores.copy_transpose([rows, self.out_dim]).raw_tensor, state.context.raw_tensor

    def end_score(self, state: State) -> Tensor:
        """Natural-log probability of the end of the sentence; float32 {...}. 0 if the model does not have `</s>`."""
        return _end_scores(self, state.context)

    def rows(self, contexts: np.ndarray) -> np.ndarray:
        """The scores of all labels on the host, float32, after each context [n, labels]."""
        small = self._small()
        return self.table.rows(contexts, self._columns) if small is None else small[0].take(contexts, axis=0)

    def lookup(self, contexts: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The scores of labels [n] after contexts [n] on the host, float32, and the contexts after them."""
        small = self._small()
        if small is None:
            return self.table.lookup(contexts, self._words[labels])
        place = contexts * len(self._words) + labels
        return small[0].take(place), small[1].take(place)

    def end_scores(self, contexts: np.ndarray) -> np.ndarray:
        """The score of the end on the host, float32, after each context [n]."""
        if self._end is None:
            return np.zeros(len(contexts), np.float32)
        return self.table.lookup(contexts, np.full(len(contexts), self._end))[0]

    def dense(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """Scores {context, out_dim}, next contexts, and scores of the end {context}, on the device of `like`; None if that
        would be too large.
        """
        small = self._small()
        if small is None:
            return None
        key = like.backend, like.device
        if key not in self._dense:
            dims = Dim(len(small[0]), name="context"), self.out_dim
            ends = self.end_scores(np.arange(len(small[0])))
            values = zip((*small, ends), ("float32", "int32", "float32"), (dims, dims, dims[:1]))
            scores, after, end = (
                new_tensor(like.backend.from_numpy(array, dtype=dtype, device=like.device), own)
                for array, dtype, own in values
            )
            self._dense[key] = scores, after, end
        return self._dense[key]

    def _small(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Scores of all labels after all contexts, and the next contexts, [contexts, labels]; None if that would be too large."""
        table = self.table
        if not isinstance(table, NGramTable) or table.num_contexts * len(self._words) > _DENSE:
            return None
        if self._host is None:
            every = np.arange(table.num_contexts)
            self._host = table.rows(every, self._columns), table.after(every, self._columns)
        return self._host

    def _check(self, texts: list[str], other: int | None, unknown: str) -> None:
        lacking = self.unknown_labels
        known = list(self.table.words or {})
        rows = [
            ("file", self.file),
            ("labels", _some(texts)),
            ("words of the model", _some(known) if known else "not listed"),
        ]
        if texts and len(lacking) == len(texts):
            raise value_error(
                "NGramLM: no label is a word of the model.",
                rows,
                "Each label is a word. The model was made for others.",
                "rf.NGramLM(file, [...])   # the texts of the labels as in the model",
            )
        if lacking and other is None:
            raise value_error(
                "NGramLM: some labels are not in the model.",
                [*rows, ("not in the model", _some(lacking))],
                f'The model has no word "{unknown}" for what is unknown. Say what such labels cost:',
                f"rf.NGramLM(..., unknown_score={-100 * LN10:.0f})",
            )


@op(of="NGramLM")
def _next_scores(lm: NGramLM, context: Tensor) -> Tensor:
    dense = lm.dense(context)
    if dense is not None:
        return gather(dense[0], indices=set_sparse_dim(context, None), axis=dense[0].dims[0])
    return tensor_of(lm.rows(context.numpy().reshape(-1)), context, (*context.dims, lm.out_dim))


@op(of="NGramLM")
def _label_scores(lm: NGramLM, label: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
    dense = lm.dense(label)
    if dense is not None:
        context, index = set_sparse_dim(context, None), set_sparse_dim(label, lm.out_dim)
        rows = [gather(part, indices=context, axis=part.dims[0]) for part in dense[:2]]
        score, after = (gather(row, indices=index, axis=lm.out_dim) for row in rows)
        return score, after
    dims = tuple(dict.fromkeys((*context.dims, *label.dims)))
    labels, contexts = flat_on_host(dims, label, context)
    labels = np.clip(labels, 0, len(lm._words) - 1)  # padding may hold any value
    scores, following = lm.lookup(contexts, labels)
    return tensor_of(scores, label, dims), tensor_of(following, label, dims)


@op(of="NGramLM")
def _end_scores(lm: NGramLM, context: Tensor) -> Tensor:
    dense = lm.dense(context)
    if dense is not None:
        return gather(dense[2], indices=set_sparse_dim(context, None), axis=dense[2].dims[0])
    return tensor_of(lm.end_scores(context.numpy().reshape(-1)), context, context.dims)


def flat_on_host(dims: Dims, *xs: Tensor) -> list[np.ndarray]:
    """The values of each over all of `dims`, as one axis; a GPU is synchronised once."""
    arrays = xs[0].backend.raws_to_numpy([x.copy_compatible_to_dims(dims)._raw for x in xs])
    return [np.broadcast_to(array, full_shape(dims)).reshape(-1) for array in arrays]


def tensor_of(values: np.ndarray, like: Tensor, dims: Dims) -> Tensor:
    """Host values as a Tensor {dims}, with the backend and device of `like`."""
    values = values.reshape([dim.extent for dim in dims])
    return new_tensor(like.backend.from_numpy(values, dtype=str(values.dtype), device=like.device), dims)


def _needs_start_state(label: Tensor) -> ValueError:
    return value_error(
        "NGramLM.step: no state.",
        {"label": label},
        "Of Tensors the state has to be there before the first step.",
        "start = lm.default_initial_state(batch_dims=[batch], start_label=True)\n"
        'rf.beam_search(step, ..., fusion={"lm": (lm.step, start, 0.3)})',
    )


def needs_state(what: str, label: Tensor) -> RuntimeError:
    """The error for a single step without state."""
    return runtime_error(
        f"{what}: a single step without state.",
        {"label": label},
        "The score of a label depends on those before it, which are the state of a loop.",
        "loop.state.lm = lm.default_initial_state(batch_dims=[batch])\n"
        "score, loop.state.lm = lm(label, state=loop.state.lm, spatial_dim=rf.single_step_dim)",
    )


def open_table(file: str | Path, *, package: bool = False) -> Table:
    """The model in a file; see `NGramLM`."""
    return KenLmTable(file) if package or is_kenlm_binary(file) else NGramTable(read_arpa(file))


def labels_dim(labels: Dim | Sequence[str]) -> tuple[Dim, list[str]]:
    """The dim of labels, and their texts.

    Raises:
        ValueError: For a dim without a vocab.
    """
    if not isinstance(labels, Dim):
        return Dim(len(labels), name="labels", vocab=list(labels)), list(labels)
    vocab = getattr(labels.vocab, "labels", labels.vocab)
    if vocab is None or len(vocab) != labels.extent:
        rows = {"labels": labels, "vocab": None if vocab is None else f"{len(vocab)} labels"}
        raise value_error(
            "n-gram model: which texts do the labels have?",
            rows,
            "The model knows words, so the dim needs the text of each label.",
            f'{labels.name} = rf.Dim({labels.extent}, name="{labels.name}", vocab=[...])',
        )
    return labels, [str(text) for text in vocab]


def _some(texts: Sequence[str]) -> str:
    shown = " ".join(texts[:6])
    return f"{shown} ... ({len(texts)})" if len(texts) > 6 else f"{shown} ({len(texts)})"
