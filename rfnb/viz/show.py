"""show: the view of any value.

rf.show(x)                    # a Tensor, a Dim, several in a list or dict, a Module
rf.show(torch.nn.LSTM(3, 4))  # a torch module; an array of any library, a packed sequence, an output of a transformers model
rf.show(trace)                # a whole recording
rf.show(trace, live=True)     # inside `with rf.record() as trace:`, updates while the model runs
rf.show(rf.diff(a, b))         # two recordings side by side
rf.show(history), rf.show(view), rf.show(spec)
rf.show(run)                  # a run of `rf.run`: its buttons, and its recordings
rf.show(run.tree()), rf.show(rf.compare_runs(run, branch))    # the branches of a run, any two of them side by side
rf.show(ctc.align(texts))     # alignments of labels to frames
rf.show(out, tokenizer=tokenizer)   # an output of `generate` of transformers, see `rf.beams_of`
rf.show(error)                # a caught DimError or ShapeError: its operands, and the dims that clash
rf.show(watch)                # a training recorded by `rf.watch`
rf.show(loop)                 # the plan of a recorded loop: which ops run before, inside and after it
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from rfnb.core.door import called_with
from rfnb.core.errors import DimError, ShapeError, type_error, value_error
from rfnb.core.foreign_arrays import is_array, knows_axes
from rfnb.core.kept_signature import keep_signature
from rfnb.viz.dims.transformers_rows import is_encoding
from rfnb.viz.kinds import kind_showing, maker_of, spec_of
from rfnb.viz.spec import Spec
from rfnb.viz.view import View

if TYPE_CHECKING:
    from rfnb.trace.trace import Trace
    from rfnb.trace.training import Training


def show(value: Any, *, live: bool | None = None, budget: int | None = None, **options: Any) -> View:
    """Display the view of a value, and return the view.

    Args:
        value: A Tensor, Dim, Module, Trace, BeamHistory, a result of `rf.beam_search`, `rf.diff` or `rf.watch`, a
            recorded Loop, a Run, a caught DimError or ShapeError, a list or dict of Tensors and Dims, a torch module, an
            array of any library (`names` gives its axes), an input or output of a transformers model, a Spec, a View.
        live: For a Trace: whether to follow the recording. Default: if it is still running.
        budget: Maximal size of the view in a saved notebook, in bytes, up to 2 MB. Default: `rf.viz.options.budget`, else 250 kB.
        **options: Options of the view: `title`, for a Trace `tokens`, `tokenizer`, `samples`, for an array `names`, ...

    Raises:
        TypeError: If the value has no view.
        ValueError: If the budget is invalid, or an error has nothing to draw.
    """
    view = view_of(value, live=live, **options)
    if budget is not None:
        view.budget = budget
    return view.show()


# The options of all of these are listed, without those that views of runs and errors set themselves.
keep_signature(
    show,
    without=("handles", "expected", "failure", "epochs", "smaller", "ids"),
    options_of=[
        f"rfnb.viz.{each}:spec" for each in "trace_page training_page dims.spec beams.spec branches.spec".split()
    ],
)


def view_of(value: Any, *, live: bool | None = None, **options: Any) -> View:
    """The view of a value, without displaying it."""
    # These modules are loaded if such a value exists; the rest is imported at the first view.
    from rfnb.control.run import Run
    from rfnb.search.label_alignment import is_alignments
    from rfnb.trace.trace import Trace
    from rfnb.trace.training import Training

    if isinstance(value, (View, Spec)):
        _no_options(value, options)
        return value if isinstance(value, View) else View(value)
    if isinstance(value, (Trace, Training)):
        return _followed(value, live, options, is_training=isinstance(value, Training))
    if isinstance(value, Run):
        from rfnb.viz.control.run_view import RunView

        return RunView(value, **options).view
    if (own := getattr(type(value), "__rfnb_view__", None)) is not None:  # live objects of a layer above
        made: View = own(value, **options)
        return made
    if (kind := kind_showing(value)) is not None:
        return View(spec_of(kind, value, **options))
    if is_alignments(value):
        from rfnb.viz.attention import alignments

        return View(alignments.spec(value, **options))
    if isinstance(value, (DimError, ShapeError)):
        _no_options(value, options)
        return View(_of_error(value))
    maker = maker_of(value)
    if maker is not None:
        return View(maker(value, **options))
    if (
        isinstance(value, (Mapping, list, tuple))
        or hasattr(value, "named_parameters")
        or is_array(value)
        or knows_axes(value)
        or is_encoding(value)
    ):
        return View(spec_of("dims", value, **options))
    raise type_error(
        f"show: there is no view of {type(value).__name__}.",
        {
            "given": type(value).__name__,
            "known": "Tensor, Dim, Module, Trace, BeamHistory, Loop, array, torch module, list or dict of them",
        },
        "A view shows dims, attention, beams or states.",
        "rf.viz.attention(weights), rf.viz.states(arrays), rf.viz.beams(...), rf.viz.dims(array, names=[...])",
    )


def _no_options(value: Any, options: Mapping[str, Any]) -> None:
    """Raise a TypeError if options of a drawing are given for something that is already drawn."""
    if options:
        raise type_error(
            f"show: a {type(value).__name__} takes no {next(iter(options))}.",
            {"given": ", ".join(options), "takes": "live, budget"},
            "It defines its own view; options belong to its parts.",
            "rf.show(value)",
        )


def _of_error(error: DimError | ShapeError) -> Spec:
    from rfnb.viz.dims.failure import spec_of_error  # imported at the first error

    spec = spec_of_error(error)
    if spec is None:
        raise value_error(
            "show: this error has no picture.",
            {"error": type(error).__name__},
            "Its operands are not in its stack frames: it was created by hand, or in another process.",
            "print(error)",
        )
    return spec


def _followed(value: Trace | Training, live: bool | None, options: dict[str, Any], *, is_training: bool) -> View:
    """The live view of something that is still running."""
    from rfnb.viz import trace_page, training_page  # imported with all views that they need, at first use

    epochs = {"epochs": training_page.Epochs()} if is_training else {}
    of = cast(FunctionType, (training_page if is_training else trace_page).spec)
    more = not value.closed if live is None else live and not value.closed

    def make(live: bool) -> Spec:
        made: Spec = called_with(of, "show", "rf.show", (value,), {"live": live, **epochs, **options})
        return made

    return View(make(more)).follow(value, make) if more else View(make(more))
