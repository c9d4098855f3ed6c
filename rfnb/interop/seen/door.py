"""The door through which a recording gets to models of torch, without torch."""

from __future__ import annotations

from rfnb.trace.attach import attach_by

attach_by("torch.nn.modules.module.Module", "rfnb.interop.seen.attach:attach")
