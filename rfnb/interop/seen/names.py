"""Names: which Dims the axes of raw tensors have, by what is known of where they come from.

    names.give(raw, [batch, time, feature])
    names.of(raw)                                               # these dims; None if unknown
    names.tensor(raw, ["batch", "time", "feature"], call)       # a Tensor: dims that are known, else found, else new
    names.found(shape, ["batch", "head", "target", "source"], call)

What is known of an axis, in this order: what the user said for the place (`user_axis_names.py`); the same memory (`layouts.py`); for
axes of the data (batch, time and the like) the dim of this size of an input of a call around it, nearest call and first input first; for
axes of the model (feature, head, vocab) the one dim that the recording has of this role and size; else a new dim. An unknown role is
guessed from the rank of the tensor. A guessed dim is marked (`dim.guessed`) until something confirms its name.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.interop.seen.layouts import Layouts, memory_of
from rfnb.interop.seen.roles import KIND_OF, OF_DATA, role_guessed, roles_guessed
from rfnb.interop.seen.snapshot import attached, version_of
from rfnb.interop.seen.token_labels import Labels
from rfnb.interop.seen.user_axis_names import FIRST, OUTPUT, UserAxisNames
from rfnb.interop.seen.why import Why

Role = str | Dim | None


class Names:
    """The dims of the raw tensors of one recording.

    Args:
        given: What the user said, see `user_axis_names.py`.
        around: Those of the recording around this one.
        labels: Of tokens.
        paths: The modules of the models by all of their paths.

    Attributes:
        said: The paths of which was said that they could not be seen into.
        outputs: The ids of the modules that make logits, see `distributions.py`.
        offered: The vocabularies of logits that were offered.
        masks: By dim, a NumPy array {batch, time} of what is real, where that makes no lengths.
        steps: By the path of a cell that is called by itself, a reference to what it has returned last, and the step that it was.
        ops: Whether identities of tensors are recorded.
        why: Notes which rule has named each axis, for who asks.
        values: Whether results of modules are kept.
        searched: Whether there are modules whose code is looked into for softmaxes.
        buffers: The ids of the buffers of the models.
        taken: Of the paths of modules whose softmaxes are attention in any case.
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
        self.given, self.around, self.labels = given, around, labels
        self.ops: bool = ops or (around is not None and around.ops)
        self.values: bool = values or (around is not None and around.values)
        self.said: set[str] = set()
        self.searched, self.buffers = False, set[int]()
        self.taken: Callable[[str], bool] = lambda path: False
        self.outputs: set[int] = set()
        self.offered: set[Dim] = set()
        self.masks: dict[Dim, Any] = {}
        self.steps: dict[str, tuple[Any, int]] = {}
        self.why: Why | None = None
        self._layouts: Layouts = around._layouts if around is not None else Layouts()
        self._of_model: dict[tuple[str, int], Dim] = {}
        self._vocabs: dict[tuple[int, int], Dim] = {}
        self._now: dict[Dim, Dim] = {}
        self._copies: dict[Any, Any] = {}
        self._paths: dict[int, list[str]] = {}
        for path, module in (paths or {}).items():
            self._paths.setdefault(id(module), []).append(path)

    def told_of(self, module: torch.nn.Module) -> dict[str, tuple[str, Any]]:
        """The names that the user gave for the inputs of a module, by input."""
        names: Names | None = self
        while names is not None:
            told = names.given.of(module) if names.given else None
            if told:
                return told
            names = names.around
        return {}

    # -- tensors -------------------------------------------------------------------------------------------------------------
    def give(self, raw: torch.Tensor, dims: Sequence[Dim]) -> None:
        """From now on the axes of `raw`, and of what looks at its memory, are these dims."""
        self._layouts.put(raw, tuple(dims))

    def of(self, raw: torch.Tensor) -> tuple[Dim, ...] | None:
        """The dims of a raw tensor; None if they are not known."""
        dims = self._layouts.of(raw)
        if dims is None or not self._now:
            return dims
        return tuple(self._now.get(dim, dim) for dim in dims)

    def axes(self, raw: torch.Tensor) -> list[Dim | None]:
        """For each axis the dim that it has for sure, as the axis of known memory; or None."""
        known = self.of(raw)
        return list(known) if known is not None else self.axes_of_views(raw)

    def axes_of_views(self, raw: torch.Tensor) -> list[Dim | None]:
        """The same by other looks at its memory."""
        return [dim if dim is None else self._now.get(dim, dim) for dim in self._layouts.axes(raw)]

    def tensor(self, raw: torch.Tensor, roles: Sequence[Role], call: Any = None, *, name: str = "seen") -> Tensor:
        """A raw tensor with dims, which are its own from now on.

        Args:
            roles: For each axis its role, as one word, or its Dim; None if unknown.
            call: The Call whose inputs, and those of the calls around it, may have the dims; None: of no other.
        """
        return self.seen(raw, self.dims(raw, roles, call), name)

    def seen(self, raw: torch.Tensor, dims: Sequence[Dim], name: str = "") -> Tensor:
        """A Tensor of these dims, without a check."""
        out = new_tensor(raw, tuple(dims))
        out.name = name
        if dims and dims[-1].kind == "feature":
            out._feature_dim = dims[-1]
        if self.ops:
            out.__dict__["_stands_for"] = self._layouts.stands_for(raw)
        return out

    def dims(
        self, raw: torch.Tensor, roles: Sequence[Role], call: Any = None, *, guessed: bool = False
    ) -> tuple[Dim, ...]:
        """The dims of a raw tensor, which are its own from now on.

        Args:
            guessed: Whether the roles are no more than a guess. Else they correct what was guessed before.
        """
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

    def found(
        self,
        shape: Sequence[int],
        roles: Sequence[Role],
        call: Any = None,
        *,
        known: Sequence[Dim | None] = (),
        by: Sequence[str] = (),
        guessed: bool = False,
    ) -> tuple[Dim, ...]:
        """Dims for the axes of an array with these roles.

        Args:
            known: The dims of axes that are known already.
            by: The rules that have found these, see `why.py`; default: views of known memory.
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
        """Find the dims of axes with unknown roles by their sizes; the one at the same place in the first input comes first."""
        last = len(shape) - 1
        if (
            dims[last] is None
            and roles[last] is None
            and last
            and (known := self._of_model.get(("feature", shape[last])))
        ):
            dims[last] = _once(known, dims)
        for axis, (size, role) in enumerate(zip(shape, roles)):
            around = call
            while around is not None and dims[axis] is None and role is None and size > 1:
                same = [dim for dim in around.dims if dim.extent == size and dim.kind != "feature"]
                fit = [dim for dim in same if dim not in dims]
                place = around.dims[axis] if axis < len(around.dims) else None
                dims[axis] = place if place in fit else next(iter(fit), None)
                if dims[axis] is None and same and same[0].kind != "batch":
                    dims[axis] = _once(same[0], dims)
                around = around.outer

    def of_model(self, role: str, size: int, *, doubt: bool = False) -> Dim:
        """The dim of the recording for axes of this role and size that have nothing to do with the data: features, heads.

        Args:
            doubt: Whether the role is a guess.
        """
        dim = self._of_model.get((role, size))
        if dim is None:
            dim = self.around._of_model.get((role, size)) if self.around is not None else None
            dim = self._of_model[role, size] = dim or Dim(size, name=role, kind=KIND_OF.get(role))
            dim.guessed = doubt
        elif not doubt:
            dim.guessed = False
        return dim

    def say(self, raw: torch.Tensor, names: Sequence[str | Dim], call: Any) -> None:
        """The axes of `raw` are called so by the user."""
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
            around, found = call, None
            while around is not None and found is None:
                fit = (dim for dim in around.dims if dim.name == name and dim.extent == size and dim not in dims)
                found, around = next(fit, None), around.outer
            if found is None:
                found = next(
                    (dim for dim in call.root.made if dim.name == name and dim.extent == size and dim not in dims), None
                )
            if found is None and kind == "feature":
                found = self.of_model(name, size)
                found.kind = kind
            if found is None:
                found = Dim(size, name=name, kind=kind)
                call.root.made.append(found)
            found.guessed = False
            dims.append(_once(found, dims))
        self.give(raw, dims)
        if self.why is not None:
            self.why.note(dims, ["dims="] * len(dims))

    def worded(self, dim: Dim, word: str | None, call: Any) -> Dim:
        """The dim of an axis that the user's code has a word for: where the name is a guess, one of that name and of the same positions."""
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
        """The name of a dim of the data is a guess."""
        dim.guessed = True
        self.guesses.append(dim)

    def now(self, dim: Dim) -> Dim:
        """The dim that has taken the place of one, or itself."""
        return self._now.get(dim, dim)

    def mask_of(self, dim: Dim) -> Any:
        """A mask {batch, dim} as NumPy array of what is real, of a dim that has none by its lengths; or None."""
        return self.masks.get(dim)

    def kept(self, raw: torch.Tensor) -> torch.Tensor:
        """The array that an event has of a result: itself, or where values are kept a copy, since models change some in place."""
        if not self.values or attached.get():
            return raw
        if raw.is_inference():  # whether it was changed since the last copy is not counted
            return raw.detach().clone()
        version, memory = version_of(raw), memory_of(raw)
        look = id(raw) if memory is None else (raw.data_ptr(), raw.shape, raw.stride())
        known = self._copies.get(look)
        if known is not None and known[0]() is raw and known[1] == version:
            return known[2]
        copy = raw.detach().clone()
        self._copies[look] = weakref.ref(raw, lambda _: self._copies.pop(look, None)), version, copy
        return copy

    def becomes(self, dim: Dim, other: Dim) -> None:
        """Put another dim of the same size, one with lengths, in the place of a dim from now on."""
        self._now[dim] = other
        for old, new in list(self._now.items()):
            if new is dim:
                self._now[old] = other

    # -- vocabularies --------------------------------------------------------------------------------------------------------
    def vocab_of(self, call: Any, size: int | None = None) -> Sequence[str] | None:
        """The labels of the indices of an embedding, or of the outputs of a module, as the user gave them; None if they are not known.

        Args:
            size: How many there are; default: the entries of the embedding, or of the first one in the module.
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
        """Whether the user called the last axis of what a module returns so."""
        told = self.told_of(module)
        return any(entries[-1:] == [(name,)] for key, (_, entries) in told.items() if key in (FIRST, OUTPUT))

    def vocab_dim(self, call: Any, size: int | None = None) -> Dim:
        """The dim of the indices of an embedding, or of the outputs of a module: one for each size and vocabulary."""
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
        """A dim, and the rule that has found it."""
        if role not in OF_DATA:
            return _once(self.of_model(role, size, doubt=doubt), taken), "size"
        near = self._near(size, role, call, taken, doubt)
        if near is not None:
            return near, "input"
        made = Dim(size, name=role, kind=KIND_OF.get(role))
        if doubt:
            self.guess(made)
        if call is not None:
            call.root.made.append(made)
        return made, "new"

    def _near(self, size: int, role: str, call: Any, taken: Sequence[Dim | None], doubt: bool) -> Dim | None:
        """The dim of the data that an axis of this size and role is, in or around a call."""
        kind, root = KIND_OF[role], call.root if call is not None else None
        kinds = (kind, None) if kind == "spatial" else (kind,)
        while call is not None:
            of_call = [dim for dim in call.dims if dim.kind in kinds and dim.extent == size]
            free = [dim for dim in of_call if dim not in taken]
            if free:
                return next((dim for dim in free if dim.name == role), free[0])
            if of_call and kind == "spatial":  # self-attention: the keys are those of the queries
                return _once(of_call[0], taken)
            for dim in () if doubt else call.dims:
                if dim.guessed and dim.extent == size and dim not in taken:
                    self._correct(dim, role)
                    return dim
            call = call.outer
        for dim in reversed(root.made) if root is not None else ():
            if dim.kind == kind and dim.extent == size and dim not in taken:
                return self.now(dim)
        return None

    def _doubted(self, dim: Dim, role: Role) -> bool:
        """Whether something sure says another thing of a dim than was guessed."""
        if isinstance(role, Dim):
            return role is not dim
        return dim.guessed and role is not None

    def _correct(self, dim: Dim, role: Role) -> None:
        """A dim whose name was guessed has this role."""
        if not isinstance(role, str) or not dim.guessed:
            return
        dim.guessed = False
        if dim.kind != KIND_OF.get(role):
            if self._of_model.get((dim.name, dim.extent)) is dim:
                del self._of_model[dim.name, dim.extent]
            dim.name, dim.kind = role, KIND_OF.get(role)


def _once(dim: Dim, taken: Sequence[Dim | None]) -> Dim:
    """A dim, or where a tensor has it already, its twin: rf's own self-attention has it for the keys."""
    while dim in taken:
        dim = dim.copy(match_priority=dim.match_priority - 1)
    return dim
