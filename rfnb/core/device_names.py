"""The names of devices, as arguments say them."""

from __future__ import annotations

from typing import Any

from rfnb.core.errors import type_error


def device_name(device: Any) -> str:
    """The name of a device: of a name the name, of a torch.device that of it.

    Raises:
        TypeError: For a number, or something else that is no device.
    """
    if isinstance(device, str):
        return device
    if type(device).__name__ == "device" and isinstance(getattr(device, "type", None), str):
        return str(device)
    number = isinstance(device, int) and not isinstance(device, bool)
    raise type_error(
        "device: this is no name of a device.",
        [("got", repr(device) if number else type(device).__name__)],
        "A device has a name, with a number if there are several of its kind:",
        f'device="cuda:{device if number else 0}"    # or "cpu", "mps", ...',
    )
