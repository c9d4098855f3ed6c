"""Names of the run context, of backends and of mixed precision: why no law applies to them, or how it does."""

from __future__ import annotations

from table import exempt

exempt("Tensors by name, computes nothing", "TensorDict")
exempt("has no effect in eager mode", "control_flow_ctx get_current_control_flow_ctx")
