"""View, frames, the pump, and what a recording shows."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from io import BytesIO, TextIOWrapper
from types import SimpleNamespace

import numpy as np
import pytest
from waiting import LONG, wait_until
from warm import warm

import rfnb as rf
from rfnb.trace.probe import trace_context
from rfnb.viz import display
from rfnb.viz.group.spec import parts_of
from rfnb.viz.kinds import KINDS, kind_showing
from rfnb.viz.pump import Pump
from rfnb.viz.show import view_of
from rfnb.viz.spec import Spec, pack, unpack
from rfnb.viz.view import View


def attention_view(**head) -> View:
    view = rf.viz.attention(np.eye(2, dtype=np.float32))
    return View(Spec("attention", {**view.spec.head, **head}, view.spec.blocks))


def decoder():
    """A loop over 4 steps with attention over 3 and 2 positions."""
    batch = rf.Dim(2, name="batch")
    source = rf.ragged_dim([3, 2], over=batch, name="source")
    target, key = rf.Dim(4, name="target"), rf.Dim(5, name="key")
    rf.set_random_seed(1)
    keys, start = rf.random_normal([batch, source, key]), rf.random_normal([batch, key])

    class Attention(rf.Module):
        def __call__(self, query):
            return rf.dot_attention(query, keys, keys, key_dim=key, axis=source)

    class Decoder(rf.Module):
        def __init__(self):
            self.attention = Attention()

        def __call__(self):
            loop = rf.Loop(axis=target)
            loop.state.h = start
            for _ in loop:
                loop.state.h = rf.tanh(loop.state.h + self.attention(loop.state.h))
                out = loop.stack(loop.state.h)
            return out

    return Decoder()


def test_importing_the_views_loads_no_widget_and_no_plot_library():
    heavy = ("anywidget", "ipywidgets", "IPython", "matplotlib", "graphviz")
    script = f"import sys, rfnb.viz; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([*warm(), "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_view_has_text_html_and_a_widget_in_one_display():
    bundle = attention_view()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert bundle["text/plain"].startswith("Attention: sequence 0") and "<img" in bundle["text/html"]


def test_the_widget_carries_the_packed_spec_and_shares_one_bundle():
    one, other = attention_view(title="one"), attention_view(title="other")
    for view in (one, other):
        view._repr_mimebundle_()
    assert unpack(one._widget.frame).head["title"] == "one"
    assert one._widget._carrier is other._widget._carrier
    assert len(one._widget._esm) < 1500  # the bundle has 300,000


def test_a_view_has_a_bundle_also_where_the_host_has_closed_that_of_the_views_before():
    one, other = attention_view(title="one"), attention_view(title="other")
    one._repr_mimebundle_()
    one._widget._carrier.comm.close()
    other._repr_mimebundle_()
    assert other._widget._carrier is not one._widget._carrier
    assert not other._widget._carrier.comm._closed


def test_a_view_in_marimo_needs_no_comm_of_another_one_and_comes_back_when_its_cell_runs_again(monkeypatch):
    """marimo closes all comms of a cell that runs again, and those of an app belong to one of its visitors."""
    first = attention_view()
    first._repr_mimebundle_()
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: True))
    views = [attention_view(title=title) for title in ("one", "other")]
    comms = [first._widget._carrier.comm]
    for view in views:
        view._repr_mimebundle_()
        comms += [view._widget.comm, view._widget._channel.comm, view._widget._carrier.comm]
    assert len(set(map(id, comms))) == 7
    one, other = (view._widget for view in views)
    for comm in comms[1:4]:  # the cell of the first one runs again
        comm.close()
    for view in views:
        view._repr_mimebundle_()
    assert views[0]._widget is not one and views[1]._widget is other
    assert not any(
        part.comm._closed for view in views for part in (view._widget, view._widget._channel, view._widget._carrier)
    )
    views[0].draw(Spec("attention", {**views[0].spec.head, "title": "next"}, views[0].spec.blocks))
    assert unpack(views[0]._widget.frame).head["title"] == "next"


def test_a_frozen_view_is_closed_once_a_page_has_loaded_it():
    """A model of anywidget that is closed while a page loads it is an error in its console."""
    view = attention_view()
    view._repr_mimebundle_()
    widget, channel = view._widget, view._widget._channel
    view.freeze()
    assert widget.comm is not None and channel.comm is not None
    widget._handle_custom_msg({"rfnb": "here"}, [])
    assert widget.comm is None and channel.comm is None
    later = attention_view()
    later._repr_mimebundle_()
    widget = later._widget
    widget._handle_custom_msg({"rfnb": "here"}, [])
    assert widget.comm is not None
    later.freeze()
    assert widget.comm is None


def test_an_update_that_is_the_last_one_is_sent_at_once():
    view = attention_view(live=True)
    view._repr_mimebundle_()
    view.update(Spec("attention", {**view.spec.head, "title": "next", "live": False}, view.spec.blocks))
    assert unpack(view._widget.frame).head["title"] == "next"


def test_a_live_update_is_sent_by_the_pump():
    view = attention_view(live=True)
    view._repr_mimebundle_()
    view.update(Spec("attention", {**view.spec.head, "title": "soon"}, view.spec.blocks))
    assert wait_until(lambda: unpack(view._widget.frame).head["title"] == "soon")


def test_the_stored_output_is_replaced_once_at_the_end(monkeypatch):
    stored = []
    monkeypatch.setattr(display, "publish", lambda bundle: stored.append(("publish", bundle)) or "handle")
    monkeypatch.setattr(display, "republish", lambda handle, bundle: stored.append((handle, bundle)))
    monkeypatch.setattr(display, "shell", lambda: object())
    with rf.record() as trace:
        rf.show(trace, live=True)
        decoder()()
    assert [name for name, _ in stored] == ["publish", "handle"]
    assert "waiting for events" in stored[0][1]["text/plain"]
    assert "States: decoder.loop" in stored[1][1]["text/plain"]


def test_show_as_last_line_is_displayed_once_but_a_later_cell_displays_again(monkeypatch):
    shown, cell = [], [1]
    monkeypatch.setattr(display, "publish", lambda bundle: shown.append(cell[0]))
    monkeypatch.setattr(display, "shell", lambda: object())
    monkeypatch.setattr(display, "execution_count", lambda: cell[0])
    view = rf.show(attention_view())
    view._ipython_display_()
    cell[0] = 2
    view._ipython_display_()
    assert shown == [1, 2]


def test_show_prints_text_where_there_is_no_notebook(capsys, monkeypatch):
    monkeypatch.setattr(display, "shell", lambda: None)
    assert repr(rf.show(attention_view())) == '<View attention "Attention">'
    assert capsys.readouterr().out.startswith("Attention: sequence 0")


@pytest.mark.parametrize("displayed", [True, False])
def test_what_is_drawn_while_a_recording_ends_is_not_the_last(displayed):
    with rf.record() as trace:
        view = attention_view(live=True)
        if displayed:
            view.as_widget()
        last, begun = attention_view(live=False).spec, threading.Event()

        def make(more):
            if not more:
                return last
            begun.set()
            assert wait_until(lambda: view.spec is last)  # it is told of the end before it has made what it makes
            return attention_view(live=True).spec

        view.follow(trace, make)
        rf.probe("states", h=rf.zeros([rf.Dim(2, name="unit")]))
        assert begun.wait(LONG)
    assert view.spec is last
    assert not displayed or not unpack(view.as_widget().frame).head["live"]


def test_following_calls_no_drawing_in_the_thread_of_the_model():
    threads = []
    with rf.record() as trace:
        view = view_of(trace)
        make = lambda more: threads.append(threading.current_thread()) or attention_view(live=more).spec  # noqa: E731
        view.follow(trace, make)
        decoder()()
        assert threading.current_thread() not in threads
    assert threads[-1] is threading.current_thread(), "the last state is drawn when the recording ends"
    assert not view.spec.live


def test_the_pump_keeps_only_the_newest_job():
    pump, ready, done = Pump(rate=100), threading.Event(), []
    pump.put("other", ready.wait)  # holds the pump until all jobs are there
    for number in range(50):
        pump.put("view", lambda number=number: done.append(number))
    ready.set()
    pump.flush("view")
    assert wait_until(lambda: bool(done))
    assert done[-1] == 49 and len(done) <= 2


def test_the_last_job_is_done_by_the_pump_after_all_others_and_nothing_takes_its_place():
    """Messages of two threads may arrive in another order: then the page would show an older state in the end."""
    pump, started, go_on, order = Pump(rate=100), threading.Event(), threading.Event(), []

    def job(name):
        order.append((name, threading.current_thread().name))
        started.set()
        go_on.wait()

    def finish():
        pump.finish("view", lambda: order.append(("last", threading.current_thread().name)))
        order.append(("done", ""))

    pump.put("view", lambda: job("first"))
    started.wait()
    pump.put("view", lambda: job("newer"))
    ending = threading.Thread(target=finish)
    ending.start()
    assert wait_until(lambda: pump._ending == ["view"])
    pump.put("view", lambda: job("late"))
    go_on.set()
    ending.join()
    assert order == [("first", "rfnb-pump"), ("last", "rfnb-pump"), ("done", "")]
    pump.finish("view", lambda: order.append("again"))
    assert order[-1] == "again"


def test_what_the_last_job_raises_is_raised_where_it_is_waited_for():
    pump = Pump(rate=100)
    with pytest.raises(ZeroDivisionError):
        pump.finish("view", lambda: 1 / 0)
    pump.finish("view", lambda: None)


class RawTrace:
    """A lock that tells who asks for it."""

    def __init__(self, lock):
        self.lock, self.asked = lock, set()

    def __enter__(self):
        self.asked.add(threading.current_thread())
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


def test_what_is_dropped_is_neither_running_nor_waiting_afterwards():
    """Else the last state of a run is overtaken by the one before it, which is still being drawn."""
    pump, started, go_on, order = Pump(rate=100), threading.Event(), threading.Event(), []
    pump._working = watched = RawTrace(pump._working)

    def job():
        started.set()
        go_on.wait()
        order.append("drawn")

    def drop():
        pump.drop("view")
        order.append("dropped")

    pump.put("view", job)
    started.wait()
    pump.put("view", lambda: order.append("waiting"))
    dropping = threading.Thread(target=drop)
    dropping.start()
    assert wait_until(lambda: dropping in watched.asked or not dropping.is_alive())
    go_on.set()
    dropping.join()
    assert order == ["drawn", "dropped"]
    done = threading.Event()
    pump.put("another", done.set)
    done.wait()
    assert order == ["drawn", "dropped"]


@pytest.mark.filterwarnings("ignore:rfnb. a live view could not be drawn")
def test_a_job_that_fails_does_not_end_the_pump():
    pump, done = Pump(rate=100), threading.Event()
    pump.put("bad", lambda: 1 / 0)
    pump.put("good", done.set)
    assert done.wait(LONG)


def test_a_trace_is_shown_as_linked_parts():
    with rf.record() as trace:
        decoder()()
    spec = view_of(trace, labels={"target": list("abcd"), "source": [list("xyz"), list("uv")]}).spec
    parts = parts_of(spec)
    assert [part.kind for part in parts] == ["attention", "states"] and spec.head["link"]
    assert [(seq["rows"], seq["cols"]) for seq in parts[0].head["seqs"]] == [
        (list("abcd"), list("xyz")),
        (list("abcd"), list("uv")),
    ]
    assert parts[1].head["seqs"][0]["steps"] == list("abcd")
    expected = trace.attention["attention"].copy_transpose(_named(trace, "batch", "target", "source")).numpy()
    assert np.array_equal(parts[0].blocks["map0"], expected)


def _named(trace, *names):
    dims = trace.attention["attention"].dims
    return [next(dim for dim in dims if dim.name == name) for name in names]


def test_an_empty_trace_says_so():
    with rf.record() as trace:
        pass
    view = view_of(trace)
    assert view.text() == "Recording: nothing recorded"
    assert unpack(pack(view.spec)).head["parts"] == []


def test_what_has_no_view_is_refused():
    with pytest.raises(TypeError) as caught:
        rf.show(object())
    assert str(caught.value) == (
        "show: there is no view of object.\n"
        "  given  object\n"
        "  known  Tensor, Dim, Module, Trace, BeamHistory, Loop, array, torch module, list or dict of them\n"
        "A view shows dims, attention, beams or states.\n"
        "    rf.viz.attention(weights), rf.viz.states(arrays), rf.viz.beams(...), rf.viz.dims(array, names=[...])"
    )


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match='unknown kind "pie"'):
        View(Spec("pie", {}))


def test_a_frame_of_something_else_is_refused():
    with pytest.raises(ValueError, match="this is not a frame"):
        unpack(b"PNG")


def test_numbers_that_json_lacks_are_null_in_a_head():
    head = unpack(
        pack(Spec("dims", {"x": float("nan"), "n": np.float32(2.5), "i": np.int64(3), "a": np.array([1, 2])}))
    ).head
    assert head == {"x": None, "n": 2.5, "i": 3, "a": [1, 2]}


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 0, 5), (2, 3, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_blocks_survive_packing(shape, dtype):
    block = np.arange(np.prod(shape), dtype=dtype).reshape(shape)
    back = unpack(pack(Spec("states", {"odd": "ä€"}, {"pad": np.zeros(3, np.uint8), "b": block}))).blocks["b"]
    assert back.dtype == block.dtype and back.shape == block.shape and (back == block).all()


def test_only_parts_over_the_same_steps_point_at_the_same_step():
    with rf.record() as trace:
        decoder()()
    attention, states = parts_of(view_of(trace).spec)
    assert (attention.head["axis"], attention.head["col_axis"], states.head["axis"]) == ("target", "source", "target")


def test_states_over_the_same_steps_are_tracks_of_one_part():
    time, unit = rf.Dim(3, name="time"), rf.Dim(2, name="unit")
    raw = np.arange(6, dtype=np.float32).reshape(3, 2)
    place = trace_context.place
    with rf.record() as trace:
        for path in ("enc.layers.0.forward", "enc.layers.0.backward", "enc.layers.1.forward"):
            h = rf.convert_to_tensor(raw + len(trace), dims=[time, unit])
            trace.add("states", place._replace(path=path), {"h": h, "axis": time})
    [part] = parts_of(view_of(trace).spec)
    assert part.head["title"] == "States: enc.layers"
    assert [track["label"] for track in part.head["tracks"]] == ["0.forward.h", "0.backward.h", "1.forward.h"]
    assert [part.blocks[track["block"]][0, 0, 0] for track in part.head["tracks"]] == [0, 1, 2]


def test_a_function_keeps_its_name_when_the_folder_of_its_kind_is_loaded():
    script = """
import numpy as np, rfnb as rf
from types import FunctionType
rf.viz.attention(np.ones((2, 3)) / 3).html(), rf.viz.states(np.ones((2, 3))).text(), rf.viz.curves({"loss": [1.0]}).html()
rf.show(rf.ones([rf.Dim(2, name="x")])), rf.ones(())._repr_html_()
from rfnb.viz.kinds import KINDS, html_of, text_of
from importlib import import_module
for kind in KINDS:
    [import_module(f"rfnb.viz.{kind}.{part}") for part in ("spec", "content")]
print([kind for kind in KINDS if kind in rf.viz.__all__ and type(getattr(rf.viz, kind)) is not FunctionType])
"""
    run = subprocess.run([*warm(), "-c", script], capture_output=True, text=True, timeout=LONG)
    assert run.stdout.splitlines()[-1:] == ["[]"], run.stderr


@pytest.mark.parametrize("kind", [kind for kind, row in KINDS.items() if row.shows])
def test_the_types_that_a_kind_shows_are_where_its_row_says(kind):
    for path in KINDS[kind].shows.split():
        module, _, name = path.rpartition(".")
        made = getattr(importlib.import_module(module), name)
        assert kind_showing(object.__new__(type("Own", (made,), {}))) == kind


def test_a_view_is_printed_where_the_output_has_few_characters(monkeypatch):
    """A pipe of Windows has its code page, without arrows and shades."""
    out = TextIOWrapper(BytesIO(), encoding="cp1252")
    monkeypatch.setattr("sys.stdout", out)
    attention_view().show()
    out.flush()
    assert "attention" in out.buffer.getvalue().decode("cp1252").lower()
