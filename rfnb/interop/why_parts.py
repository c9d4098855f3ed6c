"""why_parts: attribute the margin between two outputs of a search to positions of the source and to earlier labels.

    why = rf.why_not(run, "P EY R AH SH UW T")
    print(why.parts)                  # a row for each step; rf.show(why.parts), rf.plot.attention(why.parts, ax=ax)

The function of the run is rerun with either output forced. Each embedding that it looks up, of a source token before
the loop or of a label in it, is interpolated between its own value and the mean of its table: along this path gradients
are taken, and the mean hides the token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rfnb.control.ghosts import history_at
from rfnb.control.position import Position
from rfnb.control.run import Run
from rfnb.control.why_not import Tries
from rfnb.core.errors import value_error
from rfnb.core.vocabulary import labels_by_index
from rfnb.interop.attribution import integrated
from rfnb.interop.batched_calls import BatchedCalls, CallsAgain
from rfnb.interop.generated_scores import GeneratedScores
from rfnb.interop.measurement import Measurement
from rfnb.interop.seen.generate import generating
from rfnb.trace.event import Event

_TOLERANCE, _CLEAR, _LITTLE = (
    0.01,
    0.1,
    0.02,
)  # relative tolerances: of the sum; of the largest part, for a cause; of all steps, for a separate row
_PIECES, _MOST, _AT_ONCE, _SAME = 16, 512, 64, 1e-3
_ROWS = 5  # rows of one step each: the gradients of one row take as long as those of all
_LOOKUPS = (torch.nn.functional.embedding, torch.embedding)
_TO_HOST = (torch.Tensor.numpy, torch.Tensor.__array__)


class MarginParts(Measurement):
    """The parts of a margin, {step, cause}, by integrated gradients. They sum to the margin.

    They are integrated until the error is at most 1 % of the margin, or of half its distance from the baseline if that
    is larger, as for two outputs that are almost equally likely. The error is distributed proportionally over the
    parts.

    Rows are the important steps after the outputs diverge, and a last row with the sum of the others. Columns are the
    positions of the source, the earlier labels (that of the expected and of the found output, where they differ), and
    finally the "baseline": the margin that remains without all of them.

    Attributes:
        steps: The step of each row; None for all others.
        occluded: Like `values`, without the last column: the decrease of a step's margin if only the embedding of that
            position is replaced by the mean.
        disagreements: Sentences by row in which occlusion does not confirm the largest cause by gradients.
    """

    steps: Sequence[int | None]
    occluded: np.ndarray
    disagreements: Mapping[int, str]

    def causes(self, most: int = 6) -> list[tuple[str, float]]:
        """The columns with the largest parts of the whole margin, with these parts; includes the baseline if it is a cause."""
        total = self.values.sum(0)
        order = np.argsort(-abs(total), kind="stable")[:most]
        return [(str(self.columns[1][at]), float(total[at])) for at in order if total[at]]

    def words(self) -> str:
        """The causes as a sentence, and disagreements between both methods."""
        said = ", ".join(f"{name} {part:+.2f}" for name, part in self.causes()).replace("-", "−")
        return ". ".join(filter(None, [f"Due to {said} (nats for what was expected)", self.remark])) + "."


def parts_of(tries: Tries, tokens: Sequence[int]) -> MarginParts:
    """The margin of the expected over the found output, attributed.

    Args:
        tokens: The expected labels, with the end.

    Raises:
        ValueError: If one of the two cannot be forced, no embedding table is used, or gradients are not tracked.
    """
    return Both(tries, [tuple(tokens), tries.best.tokens]).parts()


def _rows(margins: torch.Tensor, parted: int) -> tuple[list[int | None], torch.Tensor]:
    """The steps of a margin, and a matrix that sums them into rows: unimportant steps go into the last one."""
    order = margins.abs().argsort(descending=True, stable=True).tolist()
    left = margins.abs()[order].flip(0).cumsum(0).flip(0)
    main = [step for step, rest in zip(order, left.tolist()) if rest > _LITTLE * float(left[0]) and step >= parted]
    main = sorted(main[:_ROWS])
    other = [step for step in range(parted, len(margins)) if step not in main]
    rows = torch.zeros((len(main) + bool(other), len(margins)), dtype=margins.dtype, device="cpu")
    for row, step in enumerate(main):
        rows[row, step] = 1.0
    rows[len(main) :, other] = 1.0
    return [*main, *([None] if other else [])], rows


def _and_sum(rows: torch.Tensor) -> torch.Tensor:
    """The rows of steps, and their sum."""
    return torch.cat([rows, rows.sum(0, keepdim=True)])


def _either(texts: Sequence[Sequence[str]], at: int) -> str:
    return "|".join(dict.fromkeys(labels[at] for labels in texts if at < len(labels)))


def disagreements(found: MarginParts) -> dict[int, str]:
    """Sentences by row in which occlusion does not confirm the largest cause by gradients."""
    out, names = dict[int, str](), found.columns[1]
    most = max(abs(found.values[:, :-1]).max(initial=0.0), abs(found.occluded).max(initial=0.0))
    for row, where in enumerate(found.rows[1]):
        one, other = found.values[row, :-1], found.occluded[row]
        by, hides = int(abs(one).argmax()), int(abs(other).argmax())
        same = by == hides and one[by] * other[by] > 0 and abs(other[by]) > _CLEAR * abs(one[by])
        if not same and max(abs(one[by]), abs(other[hides])) > _CLEAR * most:
            out[row] = (
                f"{where}: gradients say {names[by]} ({one[by]:+.2f}; hidden {other[by]:+.2f}), "
                f"occlusion says {names[hides]} ({other[hides]:+.2f})"
            )
    return out


class Both:
    """The expected and the found output, forced one after the other, with interpolated embeddings.

    Columns are the positions of the source, flat, and then the labels.
    """

    def __init__(self, tries: Tries, ways: Sequence[Sequence[int]]):
        self.tries, self.ways = tries, ways
        self._length = max(map(len, ways))
        same = [a == b for a, b in zip(*ways)]
        self.parted = same.index(False) if False in same else len(same)
        first = self._forced(ways[0], None)
        ran = first.scores()
        self._source, self._vocab = first.source, first.vocab
        self._again: Callable[[torch.Tensor], list[torch.Tensor]] | None = None
        if first.generated is not None:
            generated = self._again = GeneratedScores(first.generated, ways, tries.seq)
            generated.check([ran, self._forced(ways[1], None).scores()])
            self._source = generated.source
            return
        ends = self.on_way([1.0, 0.0])
        given = ends[0]
        tapes = [self._forced(tokens, given) for tokens in ways]
        ran = self._of([tape.scores()[None] for tape in tapes])
        ran = torch.cat([ran, self.margins(ends[1:])])
        try:  # computations that cannot be replayed, or differ, are rerun each time
            self._again = _scores_again(tapes)
            again = self.margins(ends)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            again = torch.full_like(ran, torch.nan)
        if not bool(((again - ran).abs() <= _SAME * (1 + ran.abs().max())).all()):
            self._again = None

    def on_way(self, places: Sequence[float] | np.ndarray) -> torch.Tensor:
        """{place, column}: all columns at the same interpolation weight."""
        size = 0 if self._source is None else self._source.numel()
        return torch.as_tensor(np.asarray(places, np.float64), device="cpu")[:, None].repeat(1, size + self._length - 1)

    def _forced(self, tokens: Sequence[int], scaled: torch.Tensor | None, gradients: bool = False) -> _Forced:
        return _Forced(self.tries, tokens, scaled, self._length - 1, gradients)

    def _of(self, scores: Sequence[torch.Tensor]) -> torch.Tensor:
        """The margins of each step, from the scores {place, label} of both."""
        gains = [torch.nn.functional.pad(each, (1, 0)).diff(dim=-1) for each in scores]
        one, other = (torch.nn.functional.pad(each, (0, self._length - each.shape[-1])) for each in gains)
        return one - other

    def _made(self, scaled: torch.Tensor, gradients: bool) -> torch.Tensor:
        if self._again is not None:
            return self._of(self._again(scaled))
        ran = [[self._forced(tokens, each, gradients).scores() for each in scaled.unbind()] for tokens in self.ways]
        return self._of([torch.stack(each) for each in ran])

    def margins(self, scaled: torch.Tensor) -> torch.Tensor:
        """The margin of each step, {place, step}, for interpolation weights {place, column}."""
        with torch.no_grad():
            return torch.cat([self._made(some, False) for some in scaled.split(_AT_ONCE)])

    def gradients(self, scaled: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """The gradients of sums of them, {row, step}, for each column: {place, row, column}."""
        with torch.enable_grad():
            return torch.cat([self._gradients(some.clone().requires_grad_(), rows) for some in scaled.split(_AT_ONCE)])

    def _gradients(self, scaled: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        sums = self._made(scaled, True) @ rows.T
        if not sums.requires_grad:
            raise value_error(
                "why_not: no gradients pass through the search.",
                {"columns": scaled.shape[1], "margin": f"{float(sums[0].sum()):.3f}"},
                "The parts of a margin need a torch model that looks up its tokens and labels in embedding tables.",
                "rf.atlas(run)    # hides one after the other",
            )
        # One after the other: batched gradients are not faster, and the first call imports sympy, which takes most of a second.
        each = [torch.autograd.grad(row.sum(), scaled, retain_graph=True, materialize_grads=True)[0] for row in sums.T]
        return torch.stack(each, 1)

    def parts(self) -> MarginParts:
        """The attributed margin.

        Source: Sundararajan et al. 2017, as `rf.attribute`; occlusion: Zeiler and Fergus 2014, "Visualizing and Understanding
        Convolutional Networks", section 4.2.
        """
        ends = self.margins(self.on_way(np.linspace(0, 1, _PIECES + 1)))
        steps, rows = _rows(ends[-1], self.parted)
        base, whole = rows @ ends[0], rows @ ends[-1]
        of_rows = [_and_sum(rows @ each) for each in ends]
        # For a margin near 0 the parts are much larger than it: their accuracy is relative to the length of the path,
        # and they sum to the margin.
        scale = torch.maximum(of_rows[-1].abs(), torch.stack(of_rows).diff(dim=0).abs().sum(0) / 2)
        scale[:-1] = scale[:-1].amax()
        made, remark = integrated(
            lambda places: [_and_sum(rows @ each) for each in self.margins(self.on_way(places))],
            lambda places: [_and_sum(each) for each in self.gradients(self.on_way(places), rows)],
            of_rows, _TOLERANCE, scale.clamp(min=1e-6), _MOST, _PIECES,
        )  # fmt: skip
        gap = of_rows[-1] - of_rows[0] - made.sum(-1)
        made = made + gap[:, None] * made.abs() / made.abs().sum(-1, keepdim=True).clamp(min=1e-12)
        grads = made[:-1].numpy()
        columns = self.columns(grads)
        values = np.concatenate([grads[:, columns], base.numpy()[:, None]], 1)
        texts = [self.tries.history.texts(each) for each in self.ways]
        labels = [_either(texts, at) for at in range(rows.shape[1])]
        names = [*self.names(columns), *labels[:-1], "baseline"]
        beside = {"margin": float(whole.sum()), "baseline": float(base.sum()), "sum": float(values.sum())}
        over = "step", [f"{labels[step]} at {step}" if step is not None else "other steps" for step in steps]
        found = MarginParts(
            f"margin of {' '.join(texts[0])}", values, over, ("cause", names), beside=beside, remark=remark
        )
        found.steps = steps
        hidden = self.on_way(np.ones(len(columns)))
        hidden[np.arange(len(columns)), columns] = 0.0
        found.occluded = (whole[:, None] - rows @ self.margins(hidden).T).numpy()
        found.disagreements = disagreements(found)
        found.remark = ". ".join(filter(None, [remark, *found.disagreements.values()]))
        return found

    def columns(self, parts: np.ndarray) -> list[int]:
        """The columns of the sequence: in a batch, those along one index of its axis, which no other sequence affects."""
        size = parts.shape[1] - (self._length - 1)
        places = np.arange(size)
        seqs = self.tries.history.num_seqs
        if self._source is not None and self._source.ndim > 1 and seqs > 1:
            shape = tuple(self._source.shape)
            mass, grid = abs(parts[:, :size]).sum(0).reshape(shape), places.reshape(shape)
            axes = [axis for axis in range(len(shape)) if shape[axis] == seqs]
            best = max(axes, key=lambda axis: mass.take(self.tries.seq, axis).sum(), default=0)
            own = grid.take(self.tries.seq, best).reshape(-1)
            last = np.flatnonzero(mass.reshape(-1)[own])
            places = own[: last[-1] + 1] if last.size else own  # the rest is padding
        return [*places.tolist(), *range(size, parts.shape[1])]

    def names(self, columns: Sequence[int]) -> list[str]:
        """The texts of the positions of the source."""
        if self._source is None:
            return []
        ids = self._source.reshape(-1).tolist()
        texts = None if self._vocab is None else labels_by_index(self._vocab, max(ids) + 1)
        if texts is None and isinstance(self._again, GeneratedScores) and self._again.is_prompt:
            texts = self.tries.history.labels
        own = [ids[at] for at in columns if at < len(ids)]
        return [str(at) if texts is None else str(texts[at]) for at in own]


class _Forced(BatchedCalls):
    """One run of the function with a forced hypothesis, in which embedding lookups are intercepted.

    Args:
        scaled: The interpolation weight of each column, from the mean embedding; None if the number of columns is unknown.
        num_labels: Number of labels among these.
    """

    def __init__(
        self, tries: Tries, tokens: Sequence[int], scaled: torch.Tensor | None, num_labels: int, gradients: bool
    ):
        super().__init__()
        self._tries, self._tokens, self._gradients = tries, tuple(tokens), gradients
        self.given, self._num_labels = scaled, num_labels
        self._keeps = not gradients and scaled is not None
        self.source: torch.Tensor | None = None
        self.vocab: Any = None
        self.generated: Any = None  # the call of `generate` that searched
        self._begun = False
        self._table: int | None = None
        self._heard: list[torch.Tensor] = []
        self._again: Run | None = None
        self._read: set[int] = set()

    def scores(self) -> torch.Tensor:
        """The score after each label."""
        tries, place = self._tries, self._tries.place
        force = tries.change(0, self._tokens, len(self._tokens))

        def begin(at: Position) -> None:
            self._begun = True
            force(at)

        again = tries.again(tries.history.loop_steps[0], begin, ["beams", "tokens"], self._around)
        history = history_at(again, place)
        if again.state != "done" or history is None or history.num_steps < len(self._tokens):
            raise value_error(
                "why_not: this output cannot be forced.",
                {"labels": " ".join(tries.history.texts(self._tokens)), "run": again.state},
                "A margin is attributed between two outputs that the search can give.",
            ) from again.error
        return self.of_results([raw[None] for raw in self.results])[0]

    @property
    def results(self) -> list[torch.Tensor]:
        """The scores reported by the search, after each label."""
        return self._heard[: len(self._tokens)]

    def of_results(self, each: Sequence[torch.Tensor]) -> torch.Tensor:
        """The scores of the sequence, {place, label}, from these results {place, ...}."""
        count = self._tries.history.num_seqs
        return torch.stack([raw.reshape(len(raw), count, -1)[:, self._tries.seq].amax(-1).double() for raw in each], 1)

    def _around(self, made: Run, call: Any) -> Any:
        assert made.trace is not None
        self._again = made
        made.trace.subscribe(self._hear)
        made._holder.is_narrow = True
        with torch.set_grad_enabled(self._gradients), self:
            return call()

    def _hear(self, event: Event) -> None:
        place, wanted = None if self._again is None else self._again.place_of(event.entry), self._tries.place
        if event.kind == "beams" and place is not None and place[:2] == wanted[:2]:
            self._heard.append(event.values["scores"].raw_tensor)
            self.generated = self.generated or generating()
        elif event.kind == "tokens" and self.vocab is None and not self._begun:
            dim = event.values["ids"].sparse_dim
            self.vocab = None if dim is None else dim.vocab

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._gradients:  # the margin is a function of its inputs, whatever the function itself tracks
            if func is torch._C._set_grad_enabled:
                return None
            if func is torch.Tensor.detach:
                return args[0]
            if func in _TO_HOST:
                args = (args[0].detach(), *args[1:])
        out = func(*args, **kwargs)
        if func in _LOOKUPS:
            weight, ids = args[:2] if func is torch.embedding else args[1::-1]
            if isinstance(weight, torch.nn.Parameter):  # states of hypotheses are gathered in the same way
                found = self._looked_up(weight, ids, out)
                if found is not None:
                    return found
        return self.note(func, args, kwargs, out) if self._keeps else out

    def _looked_up(self, weight: torch.Tensor, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor | None:
        pick, given = self._pick(ids, weight), self.given
        if pick is None or given is None:  # None: no weights are requested
            return None
        args = given, pick, out, weight.detach().mean(0)
        found = _moved(*args)
        return self.note(_moved, args, {}, found) if self._keeps else found

    def _pick(self, ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor | None:
        """The column with the interpolation weight of each of these, -1 for weight 1; None if they are neither source nor labels."""
        size = 0 if self.given is None else len(self.given) - self._num_labels
        if not self._begun:
            if self.source is not None:  # a later lookup, e.g. of positions
                return None
            self.source = ids
            return torch.arange(size, device="cpu").reshape(ids.shape) if size else None
        row = len(self._heard)
        if (
            self.given is None
            or not row
            or row in self._read
            or (self._table is not None and self._table != weight.data_ptr())
        ):
            return None
        num_rows = self._heard[-1].numel()
        labels = self._tokens[:row]
        flat = ids.reshape(num_rows, -1) if ids.numel() % num_rows == 0 else ids.reshape(1, -1)
        count = min(flat.shape[1], row)
        if not bool((flat[:, -count:] == flat.new_tensor(labels[-count:])).all(1).any()):
            return None
        self._read.add(row)
        self._table = weight.data_ptr()
        pick = torch.full((flat.shape[1],), -1, device="cpu")
        pick[-count:] = torch.arange(size + row - count, size + row, device="cpu")
        return pick.expand(flat.shape).reshape(ids.shape)


def _moved(scaled: torch.Tensor, pick: torch.Tensor, own: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
    """Embeddings interpolated between the mean and their own value, with the weight of the column in `pick`; -1: their own value."""
    share = torch.cat([scaled, scaled.new_ones(1)])[pick]
    return mean + share.to(own.device, own.dtype)[..., None] * (own - mean)


def _scores_again(tapes: Sequence[_Forced]) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """A function of {place, column} that computes the scores of several outputs, {place, label} each, without a run."""
    calls, results = [call for tape in tapes for call in tape.made], [each for tape in tapes for each in tape.results]
    given = tapes[0].given
    assert given is not None
    again = CallsAgain(calls, given, results)

    def scores(scaled: torch.Tensor) -> list[torch.Tensor]:
        made = iter(again(scaled))
        return [tape.of_results([next(made) for _ in tape.results]) for tape in tapes]

    return scores
