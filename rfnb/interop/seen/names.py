"""Names: the Dims of the axes of raw tensors, inferred from their origins.

    names.give(raw, [batch, time, feature])
    names.of(raw)                                               # these dims; None if unknown
    names.tensor(raw, ["batch", "time", "feature"], call)       # a Tensor: known dims, else found ones, else new ones
    names.found(shape, ["batch", "head", "target", "source"], call)

The dim of an axis is, in this order: that given by the user for the place (`user_axis_names.py`); that of the same
memory (`layouts.py`); for data axes (batch, time and the like) the dim with this size of an input of an enclosing call,
nearest call and first input first; for model axes (feature, head, vocab) the one dim in the recording with this role
and size; else a new dim. An unknown role is guessed from the rank of the tensor. A guessed dim is marked
(`dim.guessed`) until its name is confirmed.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from rfnb.core.dim import Dim, Dims
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.interop.seen.calls import around
from rfnb.interop.seen.layouts import MOST_DEAD, Layouts, without_dead
from rfnb.interop.seen.naming_rules import Why
from rfnb.interop.seen.roles import KIND_OF, OF_DATA, role_guessed, roles_guessed
from rfnb.interop.seen.snapshot import attached
from rfnb.interop.seen.token_labels import Labels
from rfnb.interop.seen.user_axis_names import FIRST, OUTPUT, UserAxisNames

Role = str | Dim | None
_MOST_PLANS = 4096  # of old batches
_numbers = itertools.count(1)


class Names:
    """The dims of the raw tensors of one recording.

    Args:
        given: The user's names, see `user_axis_names.py`.
        around: The Names of the enclosing recording.
        labels: The labels of tokens.
        paths: The modules of the models by all their paths.

    Attributes:
        said: The paths already reported as not observable.
        outputs: The ids of the modules that make logits, see `distributions.py`.
        offered: The vocabularies of sent logits.
        steps: By path of a cell outside a loop, a reference to its last result, and the step of that.
        ops: Whether identities of tensors are recorded.
        why: Records which rule named each axis, if requested.
        values: Whether results of modules are stored.
        searched: Whether the code of any module is searched for softmaxes.
        buffers: The ids of the buffers of the models.
        taken: Paths of modules whose softmaxes count as attention in any case.
        facts: By id of a module what is the same in all its calls, see `calls.Facts`.
    """

    def __init__(
        self,
        given: UserAxisNames | None = None,
        around: Names | None = None,
        labels: Labels | None = None,
        paths: Mapping[str, torch.nn.Module] | None = None,
        *,
        values: bool = False,
        ops: bool = False,
        guesses: list[Any] | None = None,
    ) -> None:
        self.guesses: list[Any] = [] if guesses is None else guesses
        self.given, self.around, self.labels = given or None, around, labels
        self.ops: bool = ops or (around is not None and around.ops)
        self.values: bool = values or (around is not None and around.values)
        self.said: set[str] = set()
        self.facts: dict[int, Any] = {}
        self.searched, self.buffers = False, set[int]()
        self.taken: Callable[[str], bool] = lambda path: False
        self.outputs: set[int] = set()
        self.offered: set[Dim] = set()
        self.steps: dict[str, tuple[Any, int]] = {}
        self.why: Why | None = None
        self._layouts: Layouts = around._layouts if around is not None else Layouts()
        self._of_model: dict[tuple[str, int], Dim] = {}
        self._vocabs: dict[tuple[int, int], Dim] = {}
        self._now: dict[Dim, Dim] = {}
        self._plans: dict[Any, Dims] = {}
        self._places: dict[tuple[Any, ...], int] = {}
        self._copies: dict[int, tuple[Any, ...]] = {}
        self._most_copies = MOST_DEAD
        self._paths: dict[int, list[str]] = {}
        for path, module in (paths or {}).items():
            self._paths.setdefault(id(module), []).append(path)

    def told_of(self, module: torch.nn.Module) -> dict[str, tuple[str, Any]]:
        """The user's names for the inputs of a module, by input."""
        names: Names | None = self
        while names is not None:
            told = names.given.of(module) if names.given else None
            if told:
                return told
            names = names.around
        return {}

    # -- tensors -------------------------------------------------------------------------------------------------------------
    def give(self, raw: torch.Tensor, dims: Sequence[Dim]) -> None:
        """From now on these are the dims of `raw` and of all views of its memory."""
        self._layouts.put(raw, tuple(dims))

    def of(self, raw: torch.Tensor) -> Dims | None:
        """The dims of a raw tensor, or None."""
        dims = self._layouts.of(raw)
        if dims is None or not self._now:
            return dims
        return tuple(self._now.get(dim, dim) for dim in dims)

    @property
    def finds(self) -> Callable[[torch.Tensor], Dims | None]:
        """`of`, at less cost where no dim was replaced."""
        return self.of if self._now else self._layouts.of

    def give_new(self, raw: torch.Tensor, dims: Dims) -> bool:
        """Like `give`, but only if nothing is known of the memory of a raw tensor; returns whether it was done."""
        return self._layouts.put_new(raw, dims)

    def axes(self, raw: torch.Tensor) -> list[Dim | None]:
        """For each axis its certain dim, from known memory, or None."""
        known = self.of(raw)
        return list(known) if known is not None else self.axes_of_views(raw)

    def axes_of_views(self, raw: torch.Tensor) -> list[Dim | None]:
        """The same, from other views of its memory."""
        return [dim if dim is None else self._now.get(dim, dim) for dim in self._layouts.axes(raw)]

    def tensor(self, raw: torch.Tensor, roles: Sequence[Role], call: Any = None, *, name: str = "seen") -> Tensor:
        """A raw tensor with dims, which are recorded for it.

        Args:
            roles: For each axis its role, as one word, or its Dim; None if unknown.
            call: The Call whose inputs, and those of enclosing calls, may have the dims, or None.
        """
        return self.seen(raw, self.dims(raw, roles, call), name)

    def seen(self, raw: torch.Tensor, dims: Sequence[Dim], name: str = "") -> Tensor:
        """A Tensor with these dims, unchecked."""
        out = new_tensor(raw, tuple(dims))
        out.name = name
        if dims and dims[-1].kind == "feature":
            out._feature_dim = dims[-1]
        if self.ops:
            out.__dict__["_stands_for"] = self._layouts.stands_for(raw)
        return out

    def dims(self, raw: torch.Tensor, roles: Sequence[Role], call: Any = None, *, guessed: bool = False) -> Dims:
        """The dims of a raw tensor, which are recorded for it.

        Args:
            guessed: Whether the roles are only a guess. Otherwise they correct earlier guesses.
        """
        if self._layouts.looks(raw) is None:
            dims = self._found_before(raw.shape, roles, call, guessed=guessed)
            self._layouts.put_new(raw, dims)
            return dims
        known = self.of(raw)
        if known is not None and (guessed or not any(map(self._doubted, known, roles))):
            return known
        axes: list[Dim | None] = list(known) if known is not None else self.axes_of_views(raw)
        if not guessed:
            for axis, (dim, role) in enumerate(zip(axes, roles)):
                if isinstance(role, Dim):
                    axes[axis] = role
                elif dim is not None and self._doubted(dim, role):
                    self._correct(dim, role)
        by = ["memory" if known is not None else "view"] * raw.ndim
        dims = self.found(raw.shape, roles, call, known=axes, by=by, guessed=guessed)
        self.give(raw, dims)
        return dims

    def dims_of(self, raw: torch.Tensor, call: Any) -> Dims:
        """The known dims of a raw tensor, else guessed ones."""
        return self.of(raw) or self.dims(raw, [None] * raw.ndim, call, guessed=True)

    def _found_before(self, shape: torch.Size, roles: Sequence[Role], call: Any, *, guessed: bool) -> Dims:
        """The result of `found` for unknown axes, cached for equal queries in calls with the same surrounding dims."""
        if self.why is not None:
            return self.found(shape, roles, call, guessed=guessed)
        state = self._layouts.state
        made = () if call is None else tuple(call.root.made)
        key = (state, shape, tuple(roles), guessed, 0 if call is None else call.surroundings, made)
        dims = self._plans.get(key)
        if dims is None:
            dims = self.found(shape, roles, call, guessed=guessed)
            if self._layouts.state == state:  # otherwise it made or corrected dims, which happens once
                if len(self._plans) >= _MOST_PLANS:
                    self._plans.clear()
                self._plans[key] = dims
        return dims

    def unsettle(self) -> None:
        """Note that a known fact about dims changed: cached results of `found` become invalid."""
        self._layouts.state += 1

    def place(self, around: int, dims: Sequence[Dim]) -> int:
        """A number that identifies the dims of the inputs of a call and of its enclosing calls.

        Args:
            around: That of the call around it; 0 without one.
        """
        key = (around, *dims)
        found = self._places.get(key)
        if found is None:
            if len(self._places) >= _MOST_PLANS:
                self._places.clear()
            found = self._places[key] = next(_numbers)
        return found

    def found(
        self,
        shape: Sequence[int],
        roles: Sequence[Role],
        call: Any = None,
        *,
        known: Sequence[Dim | None] = (),
        by: Sequence[str] = (),
        guessed: bool = False,
    ) -> Dims:
        """The dims for the axes of an array with these roles.

        Args:
            known: The dims of axes already known.
            by: The rules that found these, see `naming_rules.py`; default: views of known memory.
        """
        dims: list[Dim | None] = [None] * len(shape)
        rules = ["input"] * len(shape)
        for axis, role in enumerate(roles):
            dim = role if isinstance(role, Dim) else known[axis] if axis < len(known) else None
            if dim is not None:
                dims[axis], rules[axis] = _once(dim, dims), "module" if dim is role else by[axis] if by else "view"
        if None in roles and len(shape):
            self._place(shape, roles, call, dims)
        for axis, (size, role) in enumerate(zip(shape, roles)):
            if dims[axis] is None:
                assert not isinstance(role, Dim)
                doubt = guessed or role is None
                dims[axis], rules[axis] = self._one(
                    int(size), role or role_guessed(axis, len(shape)), call, dims, doubt
                )
        found = tuple(dim for dim in dims if dim is not None)
        if self.why is not None:
            self.why.note(found, [f"{rule}?" if dim.guessed else rule for dim, rule in zip(found, rules)])
        return found

    def _place(self, shape: Sequence[int], roles: Sequence[Role], call: Any, dims: list[Dim | None]) -> None:
        """Find the dims of axes with unknown roles by size; an axis at the same position of the first input is preferred."""
        last = len(shape) - 1
        if (
            dims[last] is None
            and roles[last] is None
            and last
            and (known := self._of_model.get(("feature", shape[last])))
        ):
            dims[last] = _once(known, dims)
        for axis, (size, role) in enumerate(zip(shape, roles)):
            for each in around(call) if role is None and size > 1 else ():
                if dims[axis] is not None:
                    break
                same = [dim for dim in each.dims if dim.extent == size and dim.kind != "feature"]
                fit = [dim for dim in same if dim not in dims]
                place = each.dims[axis] if axis < len(each.dims) else None
                dims[axis] = place if place in fit else next(iter(fit), None)
                if dims[axis] is None and same and same[0].kind != "batch":
                    dims[axis] = _once(same[0], dims)

    def of_model(self, role: str, size: int, *, doubt: bool = False) -> Dim:
        """The dim of the recording for model axes with this role and size: features, heads.

        Args:
            doubt: Whether the role is a guess.
        """
        dim = self._of_model.get((role, size))
        if dim is None:
            dim = self.around._of_model.get((role, size)) if self.around is not None else None
            dim = self._of_model[role, size] = dim or Dim(size, name=role, kind=KIND_OF.get(role))
            dim.guessed = doubt
            self.unsettle()
        elif not doubt and dim.guessed:
            dim.guessed = False
            self.unsettle()
        return dim

    def say(self, raw: torch.Tensor, names: Sequence[str | Dim], call: Any) -> None:
        """Name the axes of `raw` as given by the user."""
        known, dims = self.axes(raw), []
        guessed = [KIND_OF.get(role) for role in roles_guessed("", raw, batch_first=True)]
        kinds = [name.kind if isinstance(name, Dim) else KIND_OF.get(name) for name in names]
        for axis, name in enumerate(names):
            old = known[axis]
            if isinstance(name, Dim):
                dims.append(name)
                continue
            kind = kinds[axis] or (guessed[axis] if guessed[axis] not in kinds else None)
            if old is not None and (old.name == name or old.guessed) and old not in dims:
                if old.name != name and self._of_model.get((old.name, old.extent)) is old:
                    del self._of_model[old.name, old.extent]
                old.name, old.kind, old.guessed = name, kind, False
                dims.append(old)
                continue
            size = int(raw.shape[axis])
            near = (*(dim for each in around(call) for dim in each.dims), *call.root.made)
            found = next((dim for dim in near if dim.name == name and dim.extent == size and dim not in dims), None)
            if found is None and kind == "feature":
                found = self.of_model(name, size)
                found.kind = kind
            if found is None:
                found = Dim(size, name=name, kind=kind)
                call.root.made.append(found)
            found.guessed = False
            dims.append(_once(found, dims))
        self.unsettle()
        self.give(raw, dims)
        if self.why is not None:
            self.why.note(dims, ["dims="] * len(dims))

    def worded(self, dim: Dim, word: str | None, call: Any) -> Dim:
        """The dim of an axis that the user's code names: if the current name is a guess, a dim with that name over the same positions."""
        guessed = dim.guessed or dim.name == "feature" or (dim.twin_of is not None and dim.twin_of.guessed)
        if word is None or word == dim.name or not guessed or dim.kind == "batch":
            return dim
        if dim.kind == "feature":
            made = self.of_model(word, dim.extent)
            made.kind = "feature"
            return made
        known: dict[tuple[Dim, str], Dim] = call.root.seen.setdefault("worded", {})
        base = dim.twin_of or dim
        if (base, word) not in known:
            twin = known[base, word] = base.copy(match_priority=base.match_priority - 2 - len(known))
            twin.name = word
        return known[base, word]

    def guess(self, dim: Dim) -> None:
        """Mark the name of a data dim as a guess."""
        self.unsettle()
        dim.guessed = True
        self.guesses.append(dim)

    def now(self, dim: Dim) -> Dim:
        """The dim that replaced this one, or itself."""
        return self._now.get(dim, dim)

    def kept(self, raw: torch.Tensor) -> torch.Tensor:
        """The array that an event stores for a result: the result itself or, if values are recorded, a copy, since models
        change some in place.
        """
        if not self.values or attached.get():
            return raw
        if raw.is_inference():  # in-place changes after the last copy are not tracked
            return raw.detach().clone()
        version, known = raw._version, self._copies.get(id(raw))
        copy: torch.Tensor | None = None
        if known is not None and known[0]() is raw and known[1] == version:
            copy = known[2]()
        if copy is None:
            copy = (raw.detach() if raw.requires_grad or raw.__class__ is not torch.Tensor else raw).clone()
            if len(self._copies) >= self._most_copies:
                self._most_copies = without_dead(self._copies)
            self._copies[id(raw)] = weakref.ref(raw), version, weakref.ref(copy)
        return copy

    def becomes(self, dim: Dim, other: Dim) -> None:
        """From now on, replace a dim by another one of the same size with lengths."""
        self.unsettle()
        self._now[dim] = other
        for old, new in list(self._now.items()):
            if new is dim:
                self._now[old] = other

    # -- vocabularies --------------------------------------------------------------------------------------------------------
    def vocab_of(self, call: Any, size: int | None = None) -> Sequence[str] | None:
        """The labels of an embedding's indices, or of a module's outputs, as given by the user; None if unknown.

        Args:
            size: The number of labels; default: the entries of the embedding, or of the first one in the module.
        """
        module = call.module
        if size is None:
            module = next((each for each in module.modules() if hasattr(each, "num_embeddings")), module)
            size = getattr(module, "num_embeddings", 0)
        found = self.labels.of(self.paths_of(module) or [call.path], size) if self.labels is not None else None
        return self.around.vocab_of(call, size) if found is None and self.around is not None else found

    def is_labelled(self, module: torch.nn.Module) -> bool:
        """Whether the user gave labels for the path of a module."""
        return self.labels is not None and self.labels.names(self.paths_of(module))

    def is_said(self, module: torch.nn.Module, name: str) -> bool:
        """Whether the user gave this name to the last axis of a module's result."""
        told = self.told_of(module)
        return any(entries[-1:] == [(name,)] for key, (_, entries) in told.items() if key in (FIRST, OUTPUT))

    def vocab_dim(self, call: Any, size: int | None = None) -> Dim:
        """The dim of an embedding's indices, or of a module's outputs: one for each size and vocabulary."""
        size = call.module.num_embeddings if size is None else size
        labels = self.vocab_of(call, size)
        key = size, id(labels) if labels is not None else 0
        if key not in self._vocabs:
            self._vocabs[key] = Dim(size, name="vocab", kind="feature", vocab=labels)
        return self._vocabs[key]

    def paths_of(self, module: torch.nn.Module) -> list[str]:
        """All paths of a module in the models of the recording."""
        return self._paths.get(id(module), [])

    # -- one axis ------------------------------------------------------------------------------------------------------------
    def _one(self, size: int, role: str, call: Any, taken: Sequence[Dim | None], doubt: bool) -> tuple[Dim, str]:
        """A dim, and the rule that found it."""
        if role not in OF_DATA:
            return _once(self.of_model(role, size, doubt=doubt), taken), "size"
        near = self._near(size, role, call, taken, doubt)
        if near is not None:
            return near, "input"
        made = Dim(size, name=role, kind=KIND_OF.get(role))
        self.unsettle()
        if doubt:
            self.guess(made)
        if call is not None:
            call.root.made.append(made)
        return made, "new"

    def _near(self, size: int, role: str, call: Any, taken: Sequence[Dim | None], doubt: bool) -> Dim | None:
        """The data dim for an axis with this size and role, in or around a call."""
        kind, root = KIND_OF[role], call.root if call is not None else None
        kinds = (kind, None) if kind == "spatial" else (kind,)
        for each in around(call):
            of_call = [dim for dim in each.dims if dim.kind in kinds and dim.extent == size]
            free = [dim for dim in of_call if dim not in taken]
            if free:
                return next((dim for dim in free if dim.name == role), free[0])
            if of_call and kind == "spatial":  # self-attention: the keys are those of the queries
                return _once(of_call[0], taken)
            for dim in () if doubt else each.dims:
                if dim.guessed and dim.extent == size and dim not in taken:
                    self._correct(dim, role)
                    return dim
        for dim in reversed(root.made) if root is not None else ():
            if dim.kind == kind and dim.extent == size and dim not in taken:
                return self.now(dim)
        return None

    def _doubted(self, dim: Dim, role: Role) -> bool:
        """Whether reliable information contradicts a guessed dim."""
        if isinstance(role, Dim):
            return role is not dim
        return dim.guessed and role is not None

    def _correct(self, dim: Dim, role: Role) -> None:
        """Correct the role of a dim with a guessed name."""
        if not isinstance(role, str) or not dim.guessed:
            return
        self.unsettle()
        dim.guessed = False
        if dim.kind != KIND_OF.get(role):
            if self._of_model.get((dim.name, dim.extent)) is dim:
                del self._of_model[dim.name, dim.extent]
            dim.name, dim.kind = role, KIND_OF.get(role)


def _once(dim: Dim, taken: Sequence[Dim | None]) -> Dim:
    """A dim, or its twin if the tensor has it already, as for the keys in rf's own self-attention."""
    while dim in taken:
        dim = dim.copy(match_priority=dim.match_priority - 1)
    return dim
