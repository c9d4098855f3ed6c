"""Signatures that are made when they are asked for are those of the functions as they were written."""

import copy
import inspect
import pickle

import rfnb as rf
from rfnb.core.kept_signature import keep_signature


def written(first: int, *others: str, after: float = 2.0, **rest: bytes) -> "list[int]":
    return [first]


def kept(**options):
    fn = type(written)(written.__code__, globals(), "written", written.__defaults__)
    fn.__kwdefaults__, fn.__annotations__ = dict(written.__kwdefaults__), dict(written.__annotations__)
    keep_signature(fn, **options)
    fn.__code__, fn.__kwdefaults__ = (lambda *args, **kwargs: 0).__code__, None
    return inspect.signature(fn)


def test_a_kept_signature_is_that_of_the_function_as_it_was():
    expected = inspect.signature(written)
    for signature in (kept(), copy.copy(kept()), kept().replace(), pickle.loads(pickle.dumps(kept()))):
        assert signature == expected and hash(signature) == hash(expected) and str(signature) == str(expected)
    assert kept().bind(1, "a", x=b"").arguments == {"first": 1, "others": ("a",), "rest": {"x": b""}}
    assert kept().return_annotation == "list[int]" and list(kept().parameters) == ["first", "others", "after", "rest"]
    assert kept().replace(return_annotation=int).return_annotation is int


def test_parameters_may_be_left_out():
    assert list(kept(without=("others", "rest")).parameters) == ["first", "after"]


def test_the_first_call_counts():
    def fn(x):
        return x

    keep_signature(fn)
    fn.__defaults__ = (1,)
    keep_signature(fn)
    assert str(inspect.signature(fn)) == "(x)"


def test_what_is_asked_of_functions_is_there_for_doors_and_ops():
    assert str(inspect.signature(rf.reduce_mean)).startswith("(source: 'Tensor', *, axis: 'Dim | Sequence[Dim]'")
    assert "self" not in inspect.signature(rf.Dim(2, name="a").copy).parameters
    assert inspect.signature(rf.show).parameters["budget"].default is None
