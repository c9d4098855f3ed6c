"""Doors change nothing but errors, and only those that an argument is to blame for (`core/door.py`)."""

import dis
import inspect
import sys
from types import FunctionType
from typing import Never

import pytest
from asserting import ragged, raises_message, randn

import rfnb as rf
from rfnb import Dim
from rfnb.core import door as door_module
from rfnb.core.argument_types import fits, in_words
from rfnb.core.door import Door, open_door, watch_body
from rfnb.core.kept_signature import keep_signature

batch, feat, out = Dim(3, name="batch"), Dim(5, name="feat"), Dim(4, name="out")
time = ragged([7, 5, 3], batch)
x = randn(batch, time, feat)


def doubled(value: int, *, times: int = 2) -> int:
    """A function with an error table of its own."""
    total = 0
    for _ in range(times):
        try:
            total += value.bit_length()
        finally:
            total += 0
    try:
        return total + [1, 2][value]
    except IndexError:
        return total


def times_two(value: int, *extra: "Never", times: int = 2, **unknown: "Never") -> int:
    """Surplus arguments are left to its door."""
    return value * times


def copy_of(fn):
    new = type(fn)(
        fn.__code__, {**fn.__globals__, "__name__": "rfnb.test"}, fn.__name__, fn.__defaults__, fn.__closure__
    )
    new.__kwdefaults__, new.__annotations__ = fn.__kwdefaults__, fn.__annotations__
    return new


@pytest.mark.parametrize("door", [open_door, watch_body])
def test_what_works_gives_the_same(door):
    fn = copy_of(doubled)
    door(fn, "doubled", "doubled")
    assert [fn(value, times=3) for value in (0, 1, 7)] == [doubled(value, times=3) for value in (0, 1, 7)]


def test_a_watched_body_makes_no_call_more():
    fn, calls = copy_of(doubled), []
    watch_body(fn, "doubled", "doubled")
    sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        fn(1)
    finally:
        sys.setprofile(None)
    assert calls == ["doubled"]


def test_an_option_of_a_named_type_is_told_by_its_type_alone(monkeypatch):
    """A union with a name, as `Value`, or a class, as `State`: the long look took 20 times as long as to draw the numbers."""
    looked_at = []
    for fn in (rf.random_uniform, rf.random_normal, rf.random, rf.cum_concat):
        monkeypatch.setitem(
            inspect.unwrap(fn).__globals__, "_check_of_door", lambda: looked_at.append(sys._getframe(1))
        )
    rf.random_uniform([batch], minval=-1.0, maxval=1.5)
    rf.random_normal([batch], mean=1.0, stddev=rf.ones([batch]))
    rf.random([batch], distribution="uniform", bound=0.5)
    state = rf.cum_concat_initial_state([batch, feat])
    rf.cum_concat(randn(batch, feat), axis=rf.single_step_dim, state=state)
    assert looked_at == []
    with pytest.raises(TypeError):
        rf.random([batch], distribution="uniform", bound="half")
    assert looked_at != []


def test_a_bool_is_no_number_of_a_named_type():
    for wrong in (lambda: rf.random_uniform([batch], minval=False), lambda: rf.random_normal([batch], mean=True)):
        with pytest.raises(TypeError, match="is a bool"):
            wrong()


@pytest.mark.parametrize("can_watch", [True, False])
def test_what_has_no_place_is_refused_on_any_python(can_watch, monkeypatch):
    monkeypatch.setattr(door_module, "can_watch", lambda: can_watch)
    fn = copy_of(times_two)
    keep_signature(fn, without=("extra", "unknown"))
    watch_body(fn, "times_two", "times_two")
    assert (fn(3), fn(3, times=4)) == (6, 12)
    with pytest.raises(TypeError, match='there is no argument "factor"'):
        fn(3, factor=4)
    with pytest.raises(TypeError, match="2 arguments by position, where it takes 1"):
        fn(3, 4)


def test_the_handlers_of_a_function_stay_and_all_else_gets_one():
    fn = copy_of(doubled)
    before = list(dis._parse_exception_table(fn.__code__))
    size = len(fn.__code__.co_code)
    watch_body(fn, "doubled", "doubled")
    after = list(dis._parse_exception_table(fn.__code__))
    assert [entry for entry in after if entry.target < size] == before
    covered = {at for entry in after if entry.end <= size + 2 for at in range(entry.start, entry.end, 2)}
    assert covered >= set(range(0, size, 2))


def test_signature_name_and_source_of_a_door_stay():
    shown = list(inspect.signature(rf.show).parameters)
    assert shown[:3] == ["value", "live", "budget"] and "title" in shown and shown[-1] == "options"
    assert inspect.getsource(rf.show).startswith("def show(value: Any")
    assert rf.show is sys.modules["rfnb.viz.show"].show


def test_the_raw_error_is_the_cause():
    with pytest.raises(TypeError) as caught:
        rf.conv(x, in_dim=feat, out_dim=out, in_spatial_dims=3, filter=x, filter_size=[out], padding="same")
    assert caught.value.__cause__ is not None


def test_an_error_of_a_callback_stays_what_it_is():
    def body(_):
        return len(3)

    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        rf.while_loop(lambda _: rf.constant(True, dtype="bool"), body, rf.zeros([batch]))


def test_an_error_of_a_module_of_the_user_stays_what_it_is():
    class Broken(rf.Module):
        def __call__(self, source):
            return source.missing_attribute_of_user

    with pytest.raises(AttributeError, match="missing_attribute_of_user"):
        rf.Sequential([Broken()])(x)


def test_an_error_with_arguments_that_fit_stays_what_it_is():
    fn = copy_of(doubled)
    watch_body(fn, "doubled", "doubled")
    fn.__globals__["range"] = None  # something else is broken
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        fn(1)


@pytest.mark.parametrize(
    ("value", "hint", "fit"),
    [
        (3, int, True), (True, int, False), (3, float, True), ("3", float, False), (feat, Dim, True), (3, Dim, False), (x, Dim, False),
        ([feat], "Sequence[Dim]", True), ("feat", "Sequence[str]", False), ([3], "Sequence[Dim]", False),
        (feat, "Dim | Sequence[Dim]", True),
        (None, "Dim | None", True), (None, Dim, False), (len, "Callable[..., Any]", True), (x, rf.Tensor, True),
        ((1, feat), "tuple[int, Dim]", True), ((feat, 1), "tuple[int, Dim]", False), ((1,), "tuple[int, Dim]", False),
        ((1, 2), "tuple[int, ...]", True), ((1, "2"), "tuple[int, ...]", False),
        ("same", "Literal['same', 'valid']", True), ("full", "Literal['same', 'valid']", False), ({}, "Mapping[str, Any]", True),
    ],
)  # fmt: skip
def test_a_value_fits_a_type_or_not(value, hint, fit):
    assert fits(value, hint) is fit


def test_types_are_said_in_words():
    assert in_words("int | Sequence[int] | None") == "an int, a list of ints or None"


def test_a_function_that_is_a_method_too_has_its_own_name():
    for fn, name in (rf.cond, "cond"), (rf.while_loop, "while_loop"):
        with pytest.raises(TypeError, match=f"^{name}: 9 arguments by position, where it takes "):
            fn(*range(9))
    functions = [value for value in vars(rf).values() if isinstance(value, FunctionType)]
    doors = [(fn, getattr(one, "door", one)) for fn in functions for one in fn.__code__.co_consts]
    named = [(fn, door.what) for fn, door in doors if isinstance(door, Door)]
    assert len(named) > 100 and [what for fn, what in named if getattr(rf, what, None) is not fn] == []


def test_a_dim_by_position_is_an_error_with_the_call_to_type():
    with raises_message(
        TypeError,
        """
        reduce_sum: 2 arguments by position, where it takes 1.
          source      [batch=3, time<=7, feat=5]
          argument 2  time<=7
          takes       source, axis, [use_mask], [distributed]    ([...]: has a default)
        What is worked on comes by position, all else by keyword:
            rf.reduce_sum(source, axis=time)
        """,
    ):
        rf.reduce_sum(x, time)


def test_ops_that_are_intercepted_explain_themselves_too():
    with rf.debug(padding="nan"):
        with raises_message(
            TypeError,
            """
            conv: in_spatial_dims is an int.
              source           [batch=3, time<=7, feat=5]
              in_dim           feat=5
              out_dim          out=4
              in_spatial_dims  3
              filter           [batch=3, time<=7, feat=5]
              filter_size      [out=4]
              padding          'same'
            in_spatial_dims is a list of Dims:
                rf.conv(source, in_dim=feat, out_dim=out, in_spatial_dims=[source.dims[1]], filter=filter, filter_size=filter_size, \
padding='same')
                # source.dims[0] is batch=3
                # source.dims[1] is time<=7
                # source.dims[2] is feat=5
            """,
        ):
            rf.conv(x, in_dim=feat, out_dim=out, in_spatial_dims=3, filter=x, filter_size=[out], padding="same")
