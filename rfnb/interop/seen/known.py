"""The modules and functions of torch that are seen into: importing this registers them."""

from __future__ import annotations

from rfnb.interop.seen import attention, tokens  # noqa: F401
