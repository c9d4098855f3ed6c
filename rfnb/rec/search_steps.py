"""Runs many steps of a recorded search in one call.

If every op of a step belongs to a program, apart from one ordinary choice, the step consists of those programs, the choice, a check for
ended hypotheses, and a program that reorders the states by the choice, all on raw arrays. This is established by a step that was run op
by op and left its states with the same form as before. Anything out of the ordinary (tied scores, a listener) falls back to such a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.core.generations import are_steps_apart
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor, with_raw
from rfnb.core.tree import map_nested
from rfnb.rec.ends import EndsByCondition
from rfnb.rec.first_step import without_kept
from rfnb.rec.lowering import NotLowered
from rfnb.rec.output import Output
from rfnb.rec.program import Listing, Program
from rfnb.rec.raw_trace import Circumstances, Registers, TracedOps, attributes, guard, input_names, own_array
from rfnb.rec.segment import Segment
from rfnb.rec.shared_code import program_of

if TYPE_CHECKING:
    from rfnb.rec.loop_step import PlainStep

_TRIES = 3  # how often a step is looked at, until what it makes once is there
_FOLLOW = "states follow the choice"


class Body(NamedTuple):
    """A step with one choice.

    Attributes:
        before, after: Its ops, those before the choice and those after it.
        scores, labels: The registers of what is chosen from, and of what was chosen.
        states: The register of each Tensor in the states, in order.
        iter_idx: The register of the step index; None if it is not read.
        next: The registers in the next states, with what to call them.
        following: Name of a state, and a function that gives its next value, of the values of the registers.
        outputs: All that get a value in each step, with its register; None: the same value in all steps.
        end: The register of the condition; whether the step that ends a sequence counts for it.
    """

    before: Sequence[Segment]
    after: Sequence[Segment]
    scores: int
    labels: int
    states: Sequence[int]
    iter_idx: int | None
    next: dict[int, str]
    following: Sequence[tuple[str, Callable[[Registers, dict[Any, Any]], Any]]]
    outputs: Sequence[tuple[Output, int | None]]
    end: tuple[int, bool]


class SearchSteps(NotPicklable):
    """The steps of a loop that ends by a condition and makes one choice per step."""

    def __init__(self, body: Body):
        self._body = body
        self._steps: _SearchSteps | None = None
        self._tries, self._failed, self._not_before = 0, 0, 0
        self._choices: list[Listing] = []
        self._guards: tuple[Any, Any] = ({}, {})  # of the states and of the next values, for these programs
        self._follow: dict[bool, _Follow] = {}  # by whether the step counts for all

    def run_on(self, index: int, until: int, ends: EndsByCondition, step: PlainStep) -> int:
        """Run the steps from `index` on for as long as they are ordinary; return how many were run."""
        steps = self._steps
        if steps is None or index < self._not_before or not steps.fit(step):
            return 0
        made = steps.run(index, until, ends, step)
        self._choices = steps.choose.listings()
        if index + made < until and not ends.all():
            # One that has to be made op by op. They are seldom; where they are not, it does not pay to try.
            self._failed += 1
            self._not_before = index + made + 2**self._failed
        return made

    def commit(self, step: PlainStep, active: Tensor | None, registers: Registers) -> None:
        """Commit a step that was run op by op; the following steps may repeat it."""
        selection = step.states.selections.now
        known = self._steps is not None and (active is None) in self._follow
        if known or selection is None or selection.again is None or selection.start is None:
            return step.commit(active)
        now = Circumstances()
        if not _usual(now):
            return step.commit(active)
        self.follow(step, active, registers)
        if self._steps is None and self._follow:
            self._steps = _steps_like(self, self._body, now, self._guards[0], registers, selection)

    def follow_if(self, counts_for_all: bool) -> _Follow | None:
        """The program that updates the states, for a step that counts for all sequences or only for some."""
        return self._follow.get(counts_for_all)

    def follow(self, step: PlainStep, active: Tensor | None, registers: Registers) -> None:
        """Commit a step, and make a program of its state update if the states keep their form."""
        states, selection, before = step.states, step.states.selections.now, _tensors(step)
        if self._tries >= _TRIES or len(before) != len(self._body.states):
            return step.commit(active)
        self._tries += 1
        assert selection is not None
        own = dict[int, tuple[Tensor, Tensor]]()  # by the id of a value, which is kept

        def own_of(leaf: Any) -> Any:
            if type(leaf) is Tensor and id(leaf) not in own:
                own[id(leaf)] = leaf, own_array(leaf)
            return own[id(leaf)][1] if id(leaf) in own else leaf

        guards = _guards(before), _guards({register: registers[register] for register in self._body.next})
        states.replace(own_of)
        given: dict[Any, Any] = {f"state.{path}": own_of(leaf)._raw for path, leaf in before.items()}
        for register in self._body.next:
            given[register] = own_of(registers[register])._raw
        known = lambda leaf: own_of(leaf) if id(leaf) in own else leaf  # noqa: E731  # the others are those of all steps
        states.next.update({name: map_nested(known, value) for name, value in states.next.items()})
        given["parents"] = selection.parents._raw
        if active is not None:
            given["active"] = active._raw
        selection.forget()  # what has been gathered before would be taken for that of all steps
        backend = selection.parents.backend
        with backend.trace_calls() as calls:
            step.commit(active)
        after = _tensors(step)
        if _guards(after) != guards[0]:
            return
        names = input_names(given, {**self._body.next, **{key: key for key in given if isinstance(key, str)}})
        inputs, results = {id(raw): names[key] for key, raw in given.items()}, [leaf._raw for leaf in after.values()]
        try:
            program = program_of(
                TracedOps([], []), inputs, results, lambda place: _FOLLOW, [*names.values()], end=without_kept(calls),
                backend=backend,
            )  # fmt: skip
        except NotLowered:
            return
        assert isinstance(program, Program)  # there is no op that could be none
        if guards != self._guards:  # those before were of steps of another kind
            self._follow.clear()
            self._steps, self._guards = None, guards
        self._follow[active is None] = _Follow(program, [*self._body.next])
        self._tries = 0

    def close(self) -> None:
        """Release the arrays when the loop is left."""
        self._steps = None
        self._follow.clear()

    def listings(self) -> list[Listing]:
        """The programs of the choice and of the state updates, for display."""
        return [*self._choices, *(follow.program.listing for follow in self._follow.values())]


class _Follow(NamedTuple):
    """A program that updates the states from the previous states, these registers, the parents and the active sequences."""

    program: Program
    registers: list[int]


class _SearchSteps:
    """Runs steps on raw arrays under the conditions that hold for them.

    Args:
        key: Of the circumstances.
        guards: Path of a state -> what it is like.
        calls: The calls before the choice, and those after it: function, registers that it reads, and that it writes.
        like: register -> attributes of its value.
        choose: See `Selection.again`.
    """

    def __init__(self, of: SearchSteps, body: Body, key: Any, guards: Any, calls: Any, like: Any, choose: Any):
        self._of, self._body, self._key, self._guards, self._like, self.choose = of, body, key, guards, like, choose
        self._before, self._after = calls
        self._same, self._attributes = True, list[dict[str, Any]]()
        self._kept: list[list[Any]] = []  # for each output its arrays

    def fit(self, step: PlainStep) -> bool:
        """True if the next step meets the conditions."""
        now = Circumstances()
        return now.key == self._key and _usual(now) and _guards(_tensors(step)) == self._guards

    def run(self, index: int, until: int, ends: EndsByCondition, step: PlainStep) -> int:
        """Run the steps; return how many."""
        first, before = index, list(_tensors(step).values())
        tracks = before[0].backend.grad_enabled()
        self._attributes = [attributes(leaf) for leaf in before]
        carried: Sequence[Any] = [leaf._raw for leaf in before]
        raws: Registers = [None] * (1 + max(self._like))
        self._kept = [[] for _ in self._body.outputs]
        try:
            # While gradients are followed, ops ask what has ended.
            while index < until and not ends.all() and not (tracks and ends.some):
                after = self._step(index, carried, raws, ends, step)
                if after is None:
                    break
                carried, index = after, index + 1
                if not self._same:
                    break
        finally:
            if index > first:
                self._put(step, carried)
            for (output, register), kept in zip(self._body.outputs, self._kept):
                if register is None:
                    output.values.extend([output.values[-1]] * len(kept))
                elif kept:
                    output.further.append((with_raw(self._like[register], kept[0]), kept))
        return index - first

    def _step(
        self, index: int, carried: Sequence[Any], raws: Registers, ends: EndsByCondition, step: PlainStep
    ) -> Sequence[Any] | None:
        """Run one step and return its raw states. None if it must be run op by op; then nothing was changed."""
        body, like, selections = self._body, self._like, step.states.selections
        for register, raw in zip(body.states, carried):
            raws[register] = raw
        if body.iter_idx is not None:
            raws[body.iter_idx] = step.index_at(index)._raw
        last = selections.last
        try:
            for run, reads, writes in self._before:
                for register, raw in zip(writes, run(*[raws[register] for register in reads])):
                    raws[register] = raw
            chosen = self.choose(raws[body.scores], (ends.host, ends.dims) if ends.some else None)
            if chosen is None:
                return None
            raws[body.labels] = chosen.tokens._raw
            for run, reads, writes in self._after:
                for register, raw in zip(writes, run(*[raws[register] for register in reads])):
                    raws[register] = raw
        except Exception:  # op by op, the one that fails says what is wrong
            selections.go_back(last)
            return None
        selections.note_step()
        end, include_eos = body.end
        active = ends.end_step(with_raw(like[end], raws[end]), include_eos, chosen, index)
        selections.wanted.make_checks()
        for (_, given), kept in zip(body.outputs, self._kept):
            kept.append(None if given is None else raws[given])
        follow = self._of.follow_if(active is None)
        if follow is None:
            after = self._follow_by_op(index, carried, raws, active, step)
        else:
            args = [*carried, *[raws[register] for register in follow.registers], chosen.parents._raw]
            after = follow.program.run(*args) if active is None else follow.program.run(*args, active._raw)
        selections.end_step()
        return after

    def _follow_by_op(
        self, index: int, carried: Sequence[Any], raws: Registers, active: Tensor | None, step: PlainStep
    ) -> Sequence[Any]:
        """Compute the states after a step op by op, while there is no program for it."""
        like = self._like
        registers: Registers = [with_raw(like[each], raw) if each in like else None for each, raw in enumerate(raws)]
        self._put(step, carried)
        for place, leaf in zip(self._body.states, _tensors(step).values()):
            registers[place] = leaf
        step.states.begin(index)
        for name, fill in self._body.following:
            step.states.next[name] = fill(registers, {})
        self._of.follow(step, active, registers)
        after = _tensors(step)
        self._same = _guards(after) == self._guards
        self._attributes = [attributes(leaf) for leaf in after.values()]
        return [leaf._raw for leaf in after.values()]

    def _put(self, step: PlainStep, carried: Sequence[Any]) -> None:
        """Set the states."""
        values = iter(map(with_raw, self._attributes, carried))
        step.states.replace(lambda _: next(values))


def _usual(now: Circumstances) -> bool:
    """True if nothing listens to ops or observes them, no outer loop records, and no compilation is requested."""
    return not now.steps and not now.listeners and now.compiled is None and now.unseen() and not are_steps_apart()


def _tensors(step: PlainStep) -> dict[str, Tensor]:
    return step.states.tensors()


def _guards(values: dict[Any, Tensor]) -> dict[Any, Any]:
    return {key: guard(value) for key, value in values.items()}


def _steps_like(
    of: SearchSteps, body: Body, now: Circumstances, guards: Any, registers: Registers, chosen: Any
) -> _SearchSteps | None:
    """Steps that repeat the one with these registers; None if some of its ops are not in a program."""
    if registers[body.labels] is not chosen.tokens or any(type(registers[each]) is not Tensor for each in body.states):
        return None
    calls: list[list[Any]] = []
    known = [body.labels, *body.states, *([] if body.iter_idx is None else [body.iter_idx])]
    for parts in (body.before, body.after):
        calls.append([])
        for part in parts:
            found = part.call_for(registers, now)
            if found is None:
                return None
            calls[-1].append(found)
            known += found[2]
    like = {register: attributes(registers[register]) for register in known}
    wanted = {body.scores, body.end[0], *(register for _, register in body.outputs if register is not None)}
    return _SearchSteps(of, body, now.key, guards, calls, like, chosen.again) if wanted <= like.keys() else None
