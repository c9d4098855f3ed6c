"""An n-gram model inside a loop, with words or parts of words as labels: the documented KenLmStateLayer."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tree import map_nested
from rfnb.lm.ngram import NGramLM, flat_on_host, labels_dim, needs_state, open_table, tensor_of
from rfnb.lm.ngram_table import LN10
from rfnb.lm.subword import Subwords
from rfnb.nn.module.module import Module
from rfnb.ops.const import zeros
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.math import compare
from rfnb.ops.where import where
from rfnb.rec.scan import scan
from rfnb.rec.state import State


class KenLmState(Module):
    """Scores a text that grows label by label.

    Args:
        lm_file: ARPA (also with gzip), or KenLM's binary format, which needs the package `kenlm`; or a function that gives the path.
        vocab_file: The texts of the labels: a list, a Dim with a vocab, or a file with one label per line or a Python dict
            label -> index.
        vocab_unknown_label: A label that must be in the vocabulary, or None. It is scored by its text.
        bpe_merge_symbol: Suffix of labels that the next label continues, such as "@@". An incomplete word is scored as
            a word, and scored again when it grows. Without this symbol each label is a word.
        input_step_offset: Number of labels at the beginning that are skipped.
        dense_output: Return the scores of all possible next labels instead of that of the label.
        package: Read ARPA files with the package `kenlm` too. The numbers are the same.

    State: int32 {...}: `context` (of the complete words), `partial` (the incomplete word), `step`.

    Raises:
        ValueError: For a malformed file or vocabulary, or one that does not fit the model.

    Source: the documented KenLmStateLayer; Heafield 2011, "KenLM"; unknown words get -100 (log10) if the model has no
    `<unk>`, as in that layer.
    """

    def __init__(
        self,
        lm_file: str | Path | Callable[[], str | Path],
        *,
        vocab_file: str | Path | Dim | Sequence[str],
        vocab_unknown_label: str | None = "UNK",
        bpe_merge_symbol: str | None = None,
        input_step_offset: int = 0,
        dense_output: bool = False,
        package: bool = False,
    ):
        labels = vocab_file if isinstance(vocab_file, Dim) else read_labels(vocab_file)
        path = lm_file() if callable(lm_file) else lm_file
        self.lm: NGramLM | None = None
        self._subwords: Subwords | None = None
        if bpe_merge_symbol is None:
            self.lm = NGramLM(path, labels, unknown_score=-100 * LN10, package=package)
            self.out_dim, texts, self.table = self.lm.out_dim, labels_dim(self.lm.out_dim)[1], self.lm.table
        else:
            self.out_dim, texts = labels_dim(labels)
            self.table = open_table(path, package=package)
            if self.table.word("<unk>") is None:
                self.table.add_word("<unk>", -100 * LN10)
            self._subwords = Subwords(self.table, texts, bpe_merge_symbol, self.table.word("<unk>") or 0)
        _check_labels(texts, vocab_unknown_label)
        self.input_step_offset, self.dense_output = input_step_offset, dense_output

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state of the empty text."""
        nothing = zeros(batch_dims, dtype="int32")
        return State(context=nothing + self.table.start, partial=nothing, step=nothing)

    def __call__(
        self, label: Tensor, *, state: State | None = None, spatial_dim: Dim = single_step_dim
    ) -> tuple[Tensor, State]:
        """Append one label, or all labels of a sequence.

        Args:
            label: int {...} for one step, or {..., spatial_dim}.
            state: Required for a single step. Default for a whole sequence: the state of the empty text.
            spatial_dim: `single_step_dim`, or the dim of the labels.

        Returns:
            float32: the change in natural-log probability of the text, with the dims of label; or with dense_output,
                the change that each possible next label would cause {..., out_dim}. And the state.

        Raises:
            RuntimeError: For a single step without state.
            DimError: If label lacks spatial_dim.
        """
        if spatial_dim is single_step_dim:
            if state is None:
                raise needs_state("KenLmState", label)
            return self._step(label, State(map_nested(lambda part: copy_to_device(part, label.device), dict(state))))
        check_dim("KenLmState", label, spatial_dim, "label")
        batch_dims = label.remaining_dims([spatial_dim])
        state = self.default_initial_state(batch_dims=batch_dims) if state is None else state
        state = State(map_nested(lambda part: copy_to_device(part, label.device), dict(state)))
        ys = zeros(
            [*batch_dims, self.out_dim] if self.dense_output else batch_dims, dtype="float32", device=label.device
        )
        scores, state, _ = scan(
            spatial_dim=spatial_dim, xs=label, initial=state, ys=ys, body=lambda one, state: self._step(one, state)
        )
        return scores, state

    def _step(self, label: Tensor, state: State) -> tuple[Tensor, State]:
        if self._subwords is None:
            assert self.lm is not None
            score, after = self.lm(label, state=State(context=state.context))
            context, partial = after.context, state.partial
        else:
            score, context, partial = _append(self, label, state.context, state.partial)
        if self.input_step_offset:
            reads = compare(state.step, "greater_equal", self.input_step_offset)
            score = where(reads, score, 0.0)
            context, partial = where(reads, context, state.context), where(reads, partial, state.partial)
        new = State(context=context, partial=partial, step=state.step + 1)
        return (self.next_scores(new) if self.dense_output else score), new

    def next_scores(self, state: State) -> Tensor:
        """The score that each possible next label would add; float32 {..., out_dim}. Parts of words are scored as words."""
        if self._subwords is None:
            assert self.lm is not None
            return self.lm.next_scores(state)
        return _next_scores(self, state.context, state.partial)


@op(of="KenLmState")
def _append(lm: KenLmState, label: Tensor, context: Tensor, partial: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The change of the score, the context and the incomplete word after a label."""
    assert lm._subwords is not None
    dims = tuple(dict.fromkeys((*context.dims, *partial.dims, *label.dims)))
    contexts, partials, labels = flat_on_host(dims, context, partial, label)
    labels = np.clip(labels, 0, lm.out_dim.extent - 1)  # padding may hold any value
    steps = [lm._subwords.step(int(begun), int(one)) for begun, one in zip(partials, labels)]
    after = np.array([begun for begun, _ in steps], np.int32)
    words = np.array([word for _, word in steps], np.int64)
    score = -_partial_scores(lm, contexts, partials)
    done = words >= 0
    contexts = contexts.copy()
    added, contexts[done] = lm.table.lookup(contexts[done], words[done])
    score[done] += added
    score += _partial_scores(lm, contexts, after)
    return (
        tensor_of(score, label, dims),
        tensor_of(contexts.astype(np.int32), label, dims),
        tensor_of(after, label, dims),
    )


@op(of="KenLmState")
def _next_scores(lm: KenLmState, context: Tensor, partial: Tensor) -> Tensor:
    assert lm._subwords is not None
    dims = tuple(dict.fromkeys((*context.dims, *partial.dims)))
    contexts, partials = flat_on_host(dims, context, partial)
    subwords, table = lm._subwords, lm.table
    out = np.empty((len(contexts), lm.out_dim.extent), np.float32)
    begun = partials > 0
    out[~begun] = table.rows(contexts[~begun], subwords.columns)
    rows = np.flatnonzero(begun)
    out[rows] = table.lookup(contexts[rows], np.full(len(rows), subwords.unknown))[0][:, None]
    spelled = [subwords.spelled_words(int(partial)) for partial in partials[rows]]
    if spelled:
        labels, words = (np.concatenate(parts) for parts in zip(*spelled))
        rows = np.repeat(rows, [len(known) for known, _ in spelled])
        out[rows, labels] = table.lookup(contexts[rows], words)[0]
    out -= _partial_scores(lm, contexts, partials, merged=True)[:, None]
    return tensor_of(out, context, (*dims, lm.out_dim))


def _partial_scores(lm: KenLmState, contexts: np.ndarray, partials: np.ndarray, merged: bool = False) -> np.ndarray:
    """Scores of the incomplete words, taken as words; 0 where there is no incomplete word."""
    assert lm._subwords is not None
    word = lm._subwords.merged_word if merged else lm._subwords.partial_word
    out, begun = np.zeros(len(contexts), np.float32), partials > 0
    out[begun] = lm.table.lookup(contexts[begun], np.array([word(int(part)) for part in partials[begun]], np.int64))[0]
    return out


def read_labels(source: str | Path | Sequence[str]) -> list[str]:
    """Texts of labels: a list as it is, or from a file with one per line or a Python dict label -> index.

    Raises:
        ValueError: If the file is not UTF-8, its dict has keys that are not labels, or the indices are not 0, 1, ...
    """
    if not isinstance(source, (str, Path)):
        return list(source)
    try:
        text = Path(source).read_text(encoding="utf-8-sig")
        if not text.lstrip().startswith("{"):  # splitlines would also split at characters that a label may contain
            return text.removesuffix("\n").split("\n") if text else []
        return _of_dict(text)
    except UnicodeDecodeError as error:
        cause = f"not UTF-8: {error.reason} at byte {error.start}"
    except (RecursionError, MemoryError):  # the parser raises MemoryError
        cause = "nested too deeply"
    except (ValueError, SyntaxError, TypeError) as error:
        cause = str(error).splitlines()[0]
    raise value_error(
        "KenLmState: these are no labels.",
        {"vocab_file": source, "cause": cause},
        "A file has one label per line, or a dict of each label's index, all from 0 on:",
        "{'a': 0, 'b': 1}",
    )


def _of_dict(text: str) -> list[str]:
    """The keys of a Python dict label -> index, ordered by index."""
    node = ast.parse(text.strip(), mode="eval").body
    if not isinstance(node, ast.Dict):
        raise ValueError("not a dict")
    found = ast.literal_eval(node)
    if len(found) != len(node.keys):
        raise ValueError("a label is there twice")
    if not all(isinstance(label, str) and type(index) is int for label, index in found.items()):
        raise ValueError("a label that is no text, or an index that is not an integer")
    labels = sorted(found, key=found.__getitem__)
    if [found[label] for label in labels] != list(range(len(labels))):
        raise ValueError("the indices are not 0, 1, ...: each label has its own, and none is left out")
    return labels


def _check_labels(texts: Sequence[str], unknown: str | None) -> None:
    bad = [index for index, text in enumerate(texts) if not text or not set(text).isdisjoint(" \t\r\n")]
    if bad:
        raise value_error(
            "KenLmState: a label is empty or has a blank in it.",
            {"label": f"{bad[0]}: {texts[bad[0]]!r}"},
            "Labels are joined by blanks, which separate the words.",
        )
    if unknown is not None and unknown not in texts:
        raise value_error(
            f'KenLmState: the label "{unknown}" is not in the vocabulary.',
            {"labels": len(texts)},
            "vocab_unknown_label is the label for unknown words. Name it, or pass None:",
            "rf.KenLmState(..., vocab_unknown_label=None)",
        )
