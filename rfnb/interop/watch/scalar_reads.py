"""ScalarReads: asynchronous reads of scalars from a device, used when they arrive. On a CPU they are available at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch


class ScalarReads:
    """A queue of tensors, with functions to call on their values. Only `finish` waits for a device."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[list[torch.Tensor], list[Any], Callable[[np.ndarray], None]]] = deque()

    def put(self, tensors: Sequence[torch.Tensor], use: Callable[[np.ndarray], None]) -> None:
        """Call `use` with the values, float64 [value], now or in a later step.

        Args:
            tensors: Scalars or vectors, of any devices and real dtypes.
        """
        first = tensors[0]
        on_cpu = all(tensor.device.type == "cpu" for tensor in tensors)
        if on_cpu and not self._waiting and all(tensor.dtype == first.dtype for tensor in tensors):
            whole = torch.stack if first.dim() == 0 and all(tensor.dim() == 0 for tensor in tensors) else _joined
            use(whole(list(tensors)).detach().to(torch.float64).numpy())
            return
        groups: dict[tuple[torch.device, torch.dtype], list[tuple[int, torch.Tensor]]] = {}
        for index, tensor in enumerate(tensors):
            groups.setdefault((tensor.device, tensor.dtype), []).append((index, tensor.detach().reshape(-1)))
        hosts: list[torch.Tensor] = []
        events: list[Any] = []
        orders: list[int] = []
        sizes = [tensor.numel() for tensor in tensors]
        for (device, _), members in groups.items():
            orders += [index for index, _ in members]
            flat = torch.cat([tensor for _, tensor in members]).to(
                torch.float64 if device.type != "mps" else torch.float32
            )
            if device.type == "cpu":
                hosts.append(flat)
            else:
                host = torch.empty(flat.shape, dtype=flat.dtype, device="cpu", pin_memory=device.type == "cuda")
                host.copy_(flat, non_blocking=True)
                event = torch.Event(device)
                event.record(torch.accelerator.current_stream(device))
                events.append(event)
                hosts.append(host)
        places = (
            np.argsort(np.concatenate([np.full(sizes[index], index) for index in orders]), kind="stable")
            if sizes
            else None
        )
        self._waiting.append((hosts, events, lambda values: use(values[places])))
        if on_cpu:
            self.fetch()

    def fetch(self) -> None:
        """Process what has arrived, without waiting."""
        while self._waiting and all(event.query() for event in self._waiting[0][1]):
            self._take()

    def finish(self) -> None:
        """Wait for everything."""
        while self._waiting:
            for event in self._waiting[0][1]:
                if not event.query():
                    event.synchronize()
            self._take()

    def _take(self) -> None:
        hosts, _, use = self._waiting.popleft()
        use(np.concatenate([host.to("cpu", torch.float64).numpy() for host in hosts]))


def _joined(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
