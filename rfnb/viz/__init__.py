"""Views: attention, beams, states, outputs, dims and training curves as text, static HTML and widgets.

Importing this module does not import anywidget, ipywidgets, IPython or matplotlib; each view imports what it needs when it is displayed.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.kept_signature import keep_signature as _keep_signature
from rfnb.viz.kinds import load_folders as _load_folders
from rfnb.viz.kinds import spec_of as _spec_of
from rfnb.viz.page.budget import options
from rfnb.viz.reprs import bind as _bind_reprs
from rfnb.viz.save import save_html
from rfnb.viz.show import show
from rfnb.viz.spec import Spec
from rfnb.viz.view import View

_bind_reprs()
_load_folders()

__all__ = [
    "Spec", "View", "attention", "beams", "branches", "control", "curves", "diff", "dims", "distribution", "flow", "options", "plan",
    "save_html", "show", "states",
]  # fmt: skip


# Each also takes `budget`: the bytes that the view may take in a saved notebook, default `options.budget`. Each
# function has the name of the folder with its spec; `rfnb.viz.attention` is the function, so import from the folder by
# `from rfnb.viz.attention.spec import ...`.
def attention(weights: Any, **options: Any) -> View:
    """View attention weights {target, source, ...}: a Tensor, an array, or a dict of them by label.

    Options: source, target (labels, or a list of labels per sequence), tokens (labels of both, in self-attention), source_lengths,
    target_lengths, source_dim, target_dim, dims (names of the axes of a plain array), names, mask (True where attention
    is allowed, or "causal"),
    merge (word pieces to words: a marker or a function), slider (the meaning of the labels of a dict, e.g. "epoch"),
    samples, sampling_rate,
    frame_shift, rail (the sound that the sources are frames of), heads and seqs (of an `rf.LongAttention`, whose weights are computed by
    rows), title, live. See `rfnb/viz/attention/spec.py`.
    """
    return _view("attention", weights, options)


def states(tracks: Any, **options: Any) -> View:
    """View states over steps {step, unit, ...}: Tensors or arrays by name, or a single one.

    Options: steps (labels), lengths, step_dim, dims (names of the axes of plain arrays), names, title. See `rfnb/viz/states/spec.py`.
    """
    return _view("states", tracks, options)


def beams(history: Any = None, **options: Any) -> View:
    """View a beam search: a BeamHistory, or its fields as arrays. See `rfnb/viz/beams/spec.py`."""
    return _view("beams", history, options)


def control(run: Any, *, budget: int | None = None) -> View:
    """View only the buttons of a run of `rf.run`; `rf.show(run)` shows its recordings below them."""
    from rfnb.viz.control.run_view import RunView

    return RunView(run, budget=budget, alone=True).view


def distribution(scores: Any, reference: Any = None, **options: Any) -> View:
    """View an output distribution {step, label, ...} in each step, compared with a reference if given: losses, ranks,
    right and wrong labels.

    Options: estimated_type ("probs", "log-probs" or "logits"; default: detected from their sums), axis, step_dim, dims (names of the axes
    of a plain array), labels (of the vocabulary), lengths, steps, names, top, title, live. See `rfnb/viz/distribution/spec.py`.
    """
    return _view("distribution", scores, {"reference": reference, **options})


def branches(tree: Any, **options: Any) -> View:
    """View the runs of a tree, `run.tree()`, or two runs, `rf.compare_runs(run, branch)`; any two are shown side by side.

    Options: title, pairs (how many are available without a kernel). See `rfnb/viz/branches/spec.py`.
    """
    return _view("branches", tree, options)


def dims(value: Any, **options: Any) -> View:
    """View the dims of Tensors, a Module, a Trace or a plain array. See `rfnb/viz/dims/spec.py`."""
    return _view("dims", value, options)


def curves(series: Any, **options: Any) -> View:
    """View values over the steps of a training, by label: lists of (x, y), of y, or tuples of an array of x and one of y.

    Options: x (the name of the x axis), units, best ("min", "max" or None by label), log (labels), title, live. See
    `rfnb/viz/curves/spec.py`.
    """
    return _view("curves", series, options)


def plan(loop: Any, **options: Any) -> View:
    """View the plan of a recorded loop, or of its `loop.plan`: which ops run before, inside and after it.

    Options: title. See `rfnb/viz/plan/spec.py`.
    """
    return _view("plan", loop, options)


def flow(trace: Any, **options: Any) -> View:
    """View how dims flow through the calls of modules and ops in a recording: `rf.record(ops=True)`.

    Options: title, dot (whether to lay out the graph with Graphviz `dot`; default: if it is installed; True without it raises). See
    `rfnb/viz/flow/spec.py`.
    """
    return _view("flow", trace, options)


def diff(value: Any, other: Any = None, **options: Any) -> View:
    """View two recordings side by side: their first differences, over steps and modules, and both values there.

    Args:
        value: A result of `rf.diff`, or the first recording.
        other: The second one.

    Options: those of `rf.diff` (tolerance, seq_a, seq_b, names), title. See `rfnb/viz/diff/spec.py`.
    """
    return _view("diff", value, {"other": other, **options})


def _view(kind: str, value: Any, given: dict[str, Any]) -> View:
    budget = given.pop("budget", None)
    return View(_spec_of(kind, value, **given), budget=budget)


for _kind in (attention, states, beams, distribution, branches, dims, curves, plan, flow, diff):
    _keep_signature(
        _kind, options_of=[f"rfnb.viz.{_kind.__name__}.spec:spec", *(["rfnb.trace.diff:diff"] if _kind is diff else [])]
    )
