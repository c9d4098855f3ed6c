"""NotFinite: the facts about a NaN or infinite value in a training, and the message that names the module that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rfnb.interop.watch import failed_batch
from rfnb.interop.watch.failed_batch import RepeatedCalls, StoredCall, not_finite_error
from rfnb.interop.watch.model_parts import inner
from rfnb.nn.module.module import Module


@dataclass(frozen=True)
class NotFinite:
    """The facts about a non-finite value.

    Attributes:
        what: The subject: "the loss", ...
        step: The update, from 0; epoch: number of completed epochs.
        names: Parameters with non-finite gradients.
        late: Whether the optimizer has already used it.
        again: Repeats the calls of this update; None if that is impossible.
        counts: Updates and batches so far.
        owned: Names of all optimized parameters, in order.
        looked: Paths of modules whose outputs are observed.
        tables: Statistics of outputs, by name and optimizer.
        loss_is_bad: Returns whether the loss is also non-finite; waits for the device.
    """

    model: torch.nn.Module
    what: str
    step: int
    epoch: int
    names: list[str]
    late: bool
    again: RepeatedCalls | None
    calls: list[StoredCall]
    counts: Mapping[str, int]
    owned: list[str]
    looked: list[str]
    tables: Mapping[tuple[str, str], Any]
    loss_is_bad: Callable[[], bool]

    def error(self) -> FloatingPointError:
        """The error with all facts."""
        bad = failed_batch.bad_parameters(self.model)
        found = self.again.found if self.again is not None else None
        if bad and not self.late:
            return self._of_parameters(bad)
        if found is not None:
            return self._of_forward(found)
        return self._of_gradients(bad)

    def _rows(self) -> list[tuple[str, object]]:
        epoch = f", epoch {self.epoch + 1}" if self.epoch else ""
        rows: list[tuple[str, object]] = [
            ("update", f"{self.step}{epoch}"),
            ("batch", self.counts["batches"] or "not seen"),
        ]
        used = (
            "has used it: parameters are no longer finite" if self.late else "has not used it: parameters are as before"
        )
        return [*rows, ("optimizer", used)]

    def _of_parameters(self, bad: list[str]) -> FloatingPointError:
        shown = ", ".join(bad[:4]) + (f" and {len(bad) - 4} more" if len(bad) > 4 else "")
        rule = (
            "The parameter had this value before this batch: from the previous update, or from loading."
            if self.counts["updates"]
            else "The parameter had this value before the first update: from its initialization, or from loading."
        )
        rows = [("parameters", shown), *self._rows()[:2]]
        fix = "model.load_state_dict(torch.load(path))    # of before, and a smaller learning rate"
        return not_finite_error(f'watch: the parameter "{bad[0]}" is NaN or infinite.', rows, rule, fix)

    def _of_forward(self, found: failed_batch.BadCall) -> FloatingPointError:
        where = f'the output of "{found.path}"' if found.path else "the output of the model"
        rows: list[tuple[str, object]] = [("module", f"{found.path or 'the model'} ({found.kind})")]
        rows += [("input", found.inputs), ("output", found.output)]
        if found.before is not None:
            rows.append(("fine before", found.before))
        rows += [(name, found.batch if name == "batch" else value) for name, value in self._rows()]
        if found.fine and found.infinite:
            rule = (
                "It is the first module whose output is NaN or inf. Its input has -inf, from a mask or from log(0): if it is no mask, "
                "look for its origin " + ("before this module." if found.before is None else f'after "{found.before}".')
            )
        elif found.fine:
            rule = "It is the first module, in the order of the forward pass, whose output is not finite; its input is."
        elif found.before is None:
            rule = "Its input is not finite: check the batch."
        else:
            rule = f'Its input is already not finite: that was made between "{found.before}" and this module.'
        if self.again is not None and self.again.changed:
            rule += " The batch was changed since, so this may be wrong."
        return not_finite_error(
            f"watch: {where} is NaN or infinite.", rows, rule, "rf.show(watch.failed)    # this batch, recorded"
        )

    def _of_gradients(self, bad: list[str]) -> FloatingPointError:
        """The error if all outputs are finite, or were not observed."""
        names, again = self.names, self.again
        rows: list[tuple[str, object]] = []
        if again is not None:
            rows.append(("outputs", "of all modules finite"))
            if again.changed:
                rows.append(("inputs", "changed since, so that may be wrong"))
        place = self._last(names, again.order if again is not None else [])
        if place is not None:
            name, all_of = place
            rows.append(("gradients", f"NaN or infinite in {len(names)} of {all_of} parameters"))
            what = f'the gradient of "{name}" is NaN or infinite.'
            rule = "It is the first gradient, in the order of the backward pass, that is not finite"
            rule += ": the cause is there, or between it and the loss." if again is not None else "."
        else:
            what, rule = (
                f"{self.what} is NaN or infinite.",
                "It was made after the last module: in the loss, or from the targets.",
            )
        if again is None and not self.late and self.loss_is_bad():
            what = "the loss is NaN or infinite."
            rule = "It was made in the forward pass, whose modules were not looked at in this update."
        if again is not None and (more := self.counts["batches"] - self.calls[-1].number):
            rows[0] = (
                "outputs",
                f"of all modules finite in the first {len(self.calls)} of {len(self.calls) + more} batches of this update",
            )
            rule = "It was made in the loss, in the backward pass, or by a module in one of the further batches."
        if self.late and bad:
            rows.append(("parameters", f"{len(bad)} not finite"))
        fix = "rf.watch(model, optimizer, activations=1)    # looks at the outputs of all modules in each update"
        if again is not None:
            fix = "with torch.autograd.detect_anomaly(): ...    # names the op, and is slow"
        elif isinstance(inner(self.model), Module):
            fix = 'with rf.debug(padding="nan"): ...    # and rf.watch(model, optimizer, activations=1)'
        bad_outputs = self._seen()
        if bad_outputs:
            rows.insert(0, ("module", f"{bad_outputs[0]}: the first whose output is not finite"))
            what = f'the output of "{bad_outputs[0]}" is NaN or infinite.'
            rule = "It is the first module, in the order of the calls, whose output is not finite."
        return not_finite_error(f"watch: {what}", [*rows, *self._rows()], rule, fix)

    def _seen(self) -> list[str]:
        """The modules with non-finite observed outputs in this update, in the order of their calls."""
        table = self.tables.get(("largest", ""))
        if table is None or not table.steps or table.steps[-1] != self.step:
            return []
        row = dict(zip(table.columns, table.rows[-1]))
        mean = dict(zip(table.columns, self.tables["mean", ""].rows[-1]))
        return [path for path in self.looked if not np.isfinite(row.get(path, 0)) or not np.isfinite(mean.get(path, 0))]

    def _last(self, names: list[str], order: list[str]) -> tuple[str, int] | None:
        """The parameter that is first in the backward pass, so last in the forward pass, and the number of others."""
        if not names:
            return None
        own = {name: number for number, name in enumerate(self.owned)}
        calls = {path: number for number, path in enumerate(order)}
        last = max(names, key=lambda name: (calls.get(name.rpartition(".")[0], -1), own.get(name, -1)))
        return last, len(self.owned)
