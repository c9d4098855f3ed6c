"""Gradient checkpointing as a with-block, for torch: values computed inside are recomputed for backward instead of kept.

A dispatch mode records each operation in the block on a tape, which refers to tensors made in the block by number and holds only
external ones. Tensors that autograd wants to save are replaced by their numbers. When backward first requests one of them, the part of
the tape that they depend on is run again, random numbers included, and serves all of them.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; a block instead of a function, so that its results are
simply the variables of the block.
"""

from __future__ import annotations

import weakref
from collections import Counter
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten

from rfnb.backends.torch_random import device_state, set_device_state


class _Place(NamedTuple):
    """A tensor made in the block: the number of its storage, and its layout there."""

    storage: int
    dtype: Any
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class _Outside(NamedTuple):
    """A tensor from outside the block, with its version at that time."""

    tensor: Any
    version: int


class _Operation(NamedTuple):
    """An entry of the tape. `makes` and `changes` are numbers of storages, `generator` is the random state before it."""

    function: Any
    arguments: list[Any]
    structure: Any
    reads: set[int]
    makes: list[int | None]
    changes: set[int]
    outside_changed: bool
    generator: tuple[Any, Any] | None
    tracking: bool  # some kernels give other outputs when gradients are not tracked


class _Kept:
    """A tensor of the block as saved by autograd."""

    def __init__(self, tape: _Tape, place: _Place, length: int):
        self.tape, self.place = tape, place
        self.length = length  # of the tape at that time
        self.served = False  # backward has got it


class _Tape(TorchDispatchMode):
    """Records the operations of a block, and runs them again."""

    def __init__(self) -> None:
        super().__init__()
        self._operations: list[_Operation] = []
        # The weak reference is kept with the number: as long as it is there, its address is not used again.
        self._numbers: dict[int, tuple[int, StorageWeakRef]] = {}
        self._kept: weakref.WeakSet[_Kept] = weakref.WeakSet()
        self._again: dict[int, Any] = {}  # storage -> what it was computed to again
        self._waiting: dict[int, int] = {}  # storage -> how many kept tensors in it backward has not asked for yet

    # -- in the block --------------------------------------------------------------------------------------------------
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves, structure = tree_flatten((args, kwargs))
        arguments = [self._reference(leaf) for leaf in leaves]
        changed = _changed_by(func, args, kwargs)
        generator = _generator_before(leaves) if torch.Tag.nondeterministic_seeded in func.tags else None
        out = func(*args, **kwargs)
        outputs = tree_flatten(out)[0]
        known = [self._number(tensor) for tensor in changed]
        self._operations.append(
            _Operation(
                function=func,
                arguments=arguments,
                structure=structure,
                reads={argument.storage for argument in arguments if isinstance(argument, _Place)},
                makes=[self._made(leaf, leaves) for leaf in outputs],
                changes={number for number in known if number is not None},
                outside_changed=None in known,
                generator=generator,
                tracking=torch.is_grad_enabled(),
            )
        )
        return out

    def _made(self, leaf: Any, inputs: list[Any]) -> int | None:
        """A number for the storage of an output, unless it shares that of an input or already has one."""
        if not isinstance(leaf, torch.Tensor) or not _is_plain(leaf) or self._number(leaf) is not None:
            return None
        storage = leaf.untyped_storage()
        if any(
            isinstance(x, torch.Tensor) and _is_plain(x) and x.untyped_storage()._cdata == storage._cdata
            for x in inputs
        ):
            return None
        number = len(self._numbers)
        self._numbers[storage._cdata] = number, StorageWeakRef(storage)
        return number

    def _number(self, tensor: Any) -> int | None:
        found = self._numbers.get(tensor.untyped_storage()._cdata) if _is_plain(tensor) else None
        return None if found is None else found[0]

    def _reference(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        number = self._number(leaf)
        if number is None:
            return _Outside(leaf, _version(leaf))
        return _Place(number, leaf.dtype, int(leaf.storage_offset()), tuple(leaf.shape), tuple(leaf.stride()))

    def pack(self, tensor: Any) -> Any:
        """The object that autograd saves in place of `tensor`."""
        place = self._reference(tensor)
        if isinstance(place, _Outside):
            return tensor
        kept = _Kept(self, place, len(self._operations))
        self._kept.add(kept)
        return kept

    # -- in backward ---------------------------------------------------------------------------------------------------
    @staticmethod
    def unpack(kept: Any) -> Any:
        return kept.tape._compute_again(kept) if isinstance(kept, _Kept) else kept

    def _compute_again(self, kept: _Kept) -> Any:
        number = kept.place.storage
        if any(number in operation.changes for operation in self._operations[kept.length :]):
            raise RuntimeError(
                "gradient_checkpoint_scope: a tensor that backward needs was changed in place later in the block.\n"
                f"  tensor  {kept.place.size}\nWhat is computed again is as it was at the end of the block."
            )
        if number not in self._again or kept.served:
            if kept.served:  # backward once more, with retain_graph
                for other in self._kept:
                    other.served = False
            with ExitStack() as stack:
                stack.enter_context(_disable_current_modes())
                stack.enter_context(saved_tensors_hooks(lambda x: x, lambda x: x))
                stack.enter_context(torch._C._AutoDispatchBelowAutograd())
                self._run()
        out = _lay_out(self._again[number], kept.place)
        kept.served = True
        self._waiting[number] -= 1
        if not self._waiting[number]:
            del self._again[number]
        return out

    def _run(self) -> None:
        """Run the operations that the saved tensors depend on, in order; other storages are released after their last use."""
        self._waiting = dict(Counter(kept.place.storage for kept in self._kept if not kept.served))
        needed, lines = set(self._waiting), []
        last_use: dict[int, int] = {}
        for index in reversed(range(len(self._operations))):
            operation = self._operations[index]
            if needed & operation.changes or any(number in needed for number in operation.makes):
                lines.append(index)
                for number in operation.reads:
                    last_use.setdefault(number, index)
                needed |= operation.reads
        storages: dict[int, Any] = {}
        for index in reversed(lines):
            operation = self._operations[index]
            self._repeat(operation, storages)
            for number in list(storages):
                if number not in self._waiting and last_use.get(number, index) <= index:
                    del storages[number]
        self._again = {number: storages[number] for number in self._waiting}

    def _repeat(self, operation: _Operation, storages: dict[int, Any]) -> None:
        if operation.outside_changed:
            raise RuntimeError(
                "gradient_checkpoint_scope: backward depends on an operation that changes a tensor from outside of the block.\n"
                f"  operation  {operation.function}\nIt would be changed twice. Change it before or after the block."
            )
        leaves = [_value(argument, storages) for argument in operation.arguments]
        args, kwargs = tree_unflatten(leaves, operation.structure)
        before = _set_generator(operation.generator)
        with torch.set_grad_enabled(operation.tracking):
            out = operation.function(*args, **kwargs)
        if before is not None:
            _set_generator(before)
        for number, leaf in zip(operation.makes, tree_flatten(out)[0]):
            if number is not None:
                storages[number] = leaf.untyped_storage()


class CheckpointScope:
    """The with-block: a new tape each time."""

    def __enter__(self) -> None:
        tape = _Tape()
        self._stack = ExitStack()
        self._stack.enter_context(saved_tensors_hooks(tape.pack, tape.unpack))
        self._stack.enter_context(tape)

    def __exit__(self, *error: Any) -> None:
        self._stack.close()


def _version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _is_plain(tensor: Any) -> bool:
    """True if its values are exactly the content of its storage. Other tensors are saved as they are."""
    return tensor.layout == torch.strided and not (tensor.is_conj() or tensor.is_neg())


def _changed_by(function: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that an operation writes to, by its schema."""
    changed = []
    for index, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            changed += [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]
    return changed


def _generator_before(leaves: list[Any]) -> tuple[Any, Any]:
    """The generator from which an operation draws (or the device with that generator), and its state."""
    for leaf in leaves:
        if isinstance(leaf, torch.Generator):
            return leaf, leaf.get_state()
    for leaf in leaves:
        device = leaf.device if isinstance(leaf, torch.Tensor) else leaf if isinstance(leaf, torch.device) else None
        if device is not None and device.type not in ("cpu", "meta"):
            return device, device_state(device)
    return "cpu", device_state("cpu")


def _set_generator(generator: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
    """Set the state; return the previous one."""
    if generator is None:
        return None
    which, state = generator
    if isinstance(which, torch.Generator):
        before = which.get_state()
        which.set_state(state)
    else:
        before = device_state(which)
        set_device_state(which, state)
    return which, before


def _value(argument: Any, storages: dict[int, Any]) -> Any:
    if isinstance(argument, _Place):
        return _lay_out(storages[argument.storage], argument)
    if isinstance(argument, _Outside):
        if _version(argument.tensor) != argument.version:
            raise RuntimeError(
                "gradient_checkpoint_scope: a tensor from outside of the block was changed in place before backward.\n"
                f"  tensor  {tuple(argument.tensor.shape)}\nBackward computes the block again from what came in."
            )
        return argument.tensor
    return argument


def _lay_out(storage: Any, place: _Place) -> Any:
    out = torch.empty(0, dtype=place.dtype, device=storage.device)
    return out.set_(storage, place.offset, place.size, place.stride)
