"""Lazy imports: how recordings and views reach torch and transformers code without importing it."""

from __future__ import annotations

from rfnb.core.import_hooks import when_loaded
from rfnb.nn.module.module import adopt_by
from rfnb.trace.attach import attach_by
from rfnb.trace.editing import edits_by
from rfnb.viz.kinds import show_by

when_loaded(
    "rfnb.control.why_not",
    lambda module: module.answers_by(
        parts="rfnb.interop.why_parts:parts_of", aligned="rfnb.interop.speech.missed_alignment:of_search"
    ),
)
when_loaded("rfnb.viz.runnable.call_notes", lambda module: module.follow_by("rfnb.interop.torch_page:counterparts"))
edits_by("rfnb.interop.edit:edits_for")
attach_by("torch.nn.modules.module.Module", "rfnb.interop.seen.attach:attach", "rfnb.interop.code_diff:diff_codes")
for _kind in ("Generate", "GenerateBeam"):
    for _model in ("DecoderOnly", "EncoderDecoder"):
        show_by(f"transformers.generation.utils.{_kind}{_model}Output", "rfnb.interop.seen.generate_output:spec")
adopt_by("rfnb.interop.doors:adopted_module")
show_by("rfnb.interop.measurement.Measurement", "rfnb.interop.measurement:spec")
show_by("rfnb.interop.batch_report.BatchCheck", "rfnb.interop.batch_report:spec")
show_by("rfnb.interop.code_diff.CodeDiff", "rfnb.interop.code_diff:spec")
show_by("rfnb.interop.atlas.Atlas", "rfnb.interop.atlas_view:whole")
