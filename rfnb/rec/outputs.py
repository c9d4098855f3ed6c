"""The outputs of a loop: all that `stack` and `last` collect from its steps."""

from __future__ import annotations

from rfnb.core.beam_dim import is_beam
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.const import zeros_like
from rfnb.ops.frames import from_frames
from rfnb.rec.ended import kept
from rfnb.rec.ends import Ends
from rfnb.rec.output import Output
from rfnb.rec.selection import pick
from rfnb.rec.selections import Selections
from rfnb.rec.stacked import expanded, fill, stacked
from rfnb.trace.probe import listening, probe


class Outputs(NotPicklable):
    """The outputs of a loop, in the order of the calls in a step.

    Args:
        axis: The dim of the loop, which has its lengths when the loop is done.
        ends: Of the loop.
    """

    def __init__(self, axis: Dim, ends: Ends, selections: Selections, loop_name: str):
        self.all: list[Output] = []
        self._axis, self._ends, self._selections, self._loop_name = axis, ends, selections, loop_name
        self._calls = 0
        self._index = 0

    def begin(self, index: int) -> None:
        """Step `index` begins."""
        self._index, self._calls = index, 0

    def next(self) -> Output | None:
        """The output of the next call in this step; None: there is none yet."""
        if self._calls < len(self.all):
            self._calls += 1
            return self.all[self._calls - 1]
        if self._index > 0:
            raise ValueError(
                f'Loop "{self._loop_name}", step {self._index}: one more stack or last than in step 0.\n'
                "Every step collects the same values, in the same order."
            )
        return None

    def new(self, handle: Tensor, last: bool) -> Output:
        """A further one, in the first step."""
        self.all.append(Output(handle, last))
        self._calls += 1
        return self.all[-1]

    def all_given(self) -> None:
        """This step has put its values into the outputs by itself."""
        self._calls = len(self.all)

    def check_complete(self) -> None:
        """Raise a ValueError if this step has collected less than the first one."""
        if self._calls != len(self.all):
            raise ValueError(f'Loop "{self._loop_name}", step {self._index}: fewer stack or last calls than in step 0.')

    def commit(self, active: Tensor | None) -> None:
        """The step is over."""
        for output in self.all:
            if output.last:
                self._update_last(output, active)

    def any_value(self) -> Tensor | None:
        """One of those of this step."""
        return next((output.values[-1] for output in self.all if output.values), None)

    def no_step(self) -> None:
        """The step was none: its values only say what those of steps would look like."""
        selection = self._selections.now
        if selection is not None:
            for output in self.all:
                output.values[:] = map(selection.to_carried, output.values)

    def finish(self) -> None:
        """The handles get their values."""
        for output in self.all:
            result = output.result
            if output.last:
                result = self._value_without_steps(output) if output.last_value is None else output.last_value
            elif result is None:
                result = self.stacked(output)
            if result is not None:
                fill(output.handle, result)
                if result.sparse_dim is not None and listening():
                    probe(
                        "tokens", ids=result, written=True
                    )  # what was written labels the steps, as what was read does

    def close(self) -> None:
        """The handles are all that is needed from now on."""
        self.all.clear()

    def stacked(self, output: Output) -> Tensor | None:
        """{axis, ...} from the values of all steps, hypotheses along the way they went; None without values."""
        last = self._selections.last if self._selections.steps else None  # a recorded loop may make no step
        once = output.first_and_further()
        if once is not None:
            first, further = once
            paths = None if last is None else self._selections.paths([first])
            if last is None or paths is not None:
                out = from_frames([first], axis=self._axis, like=first, further=further)
                return out if paths is None else paths.along(out)
        values = output.values
        if not values:
            return None
        paths = None if last is None else self._selections.paths(values)
        if paths is not None:
            return paths.along(stacked(values, axis=self._axis, loop_name=self._loop_name))
        if last is not None:
            values, positions, position_dims = self._selections.back(values)
            # Before the first choice a value has no beam: it is the same for all hypotheses.
            different = dict.fromkeys(value.dims for value in values)
            values = expanded(values, list({dim: None for dims in different for dim in dims if is_beam(dim)}))
        first = values[0]
        later = self._ends.dims if output.inner else ()
        out = stacked(values, axis=self._axis, loop_name=self._loop_name, later=later)
        values = values[: self._axis.extent]  # without the ending frame there may be one step more than frames
        if not values:
            return out
        if last is None or last.carried not in first.dims:
            return out
        host = positions[: len(values)]
        raw = first.backend.from_numpy(host, dtype="int64", device=first.device)
        index = new_tensor(raw, (self._axis, *position_dims))
        return pick(out, index, last.carried, last.carried)

    def _update_last(self, output: Output, active: Tensor | None) -> None:
        value, before = output.values.pop(), output.last_value
        selection = self._selections.now
        if selection is not None:
            value, before = selection.to_carried(value), selection.to_carried(before)
        if active is not None:  # a sequence without any step has no last value: that of before the loop, else 0
            before = _before_any_step(output, value) if before is None else before
            self._check_last(before, value, active)
            value = kept(active, value, before)
        output.last_value = value

    def _check_last(self, before: Tensor, value: Tensor, active: Tensor) -> None:
        if set(before.dims) - set(value.dims) - set(active.dims) or before.dtype != value.dtype:
            raise dim_error(
                f'Loop "{self._loop_name}", step {self._index}: a last value changed its dims or dtype.',
                [("before", f"{shape_of(before)} {before.dtype}"), ("now", f"{shape_of(value)} {value.dtype}")],
                "Each sequence keeps that of its own last step, so it has the same dims and dtype in every step.",
            )

    def _value_without_steps(self, output: Output) -> Tensor | None:
        """The last value of a recorded loop that makes no step."""
        return _before_any_step(output, output.values[-1]) if output.values else None


def _before_any_step(output: Output, like: Tensor) -> Tensor:
    return zeros_like(like) if output.initial is None else output.initial
