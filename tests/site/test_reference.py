"""Every public name is in the reference, with its signature and the first sentence of its docstring, under its subject."""

from __future__ import annotations

import ast
import inspect
import sys
import types
from typing import Never

import pytest

import rfnb as rf
import rfnb.models
from rfnb.site.reference import Name, _class, first_sentence, markdown, members, pages, signature, subjects

PAGES = pages()
NAMES = {name.path: name for page in PAGES for name in page.names}
TEXTS = {page.slug: page.text() for page in PAGES}
PROMISED = {
    "rf": rf,
    "rf.viz": rf.viz,
    "rf.plot": rf.plot,
    "rfnb.models": rfnb.models,
    "rf.init": rf.init,
    "rf.audio": rf.audio,
}


def described(path: str) -> str:
    return next(TEXTS[page.slug] for page in PAGES if any(name.path == path for name in page.names))


@pytest.mark.parametrize("name", rf.__all__)
def test_every_public_name_has_its_signature_and_first_sentence(name):
    value = getattr(rf, name)
    if isinstance(value, types.ModuleType):
        assert any(path.startswith(f"rf.{name}.") for path in NAMES)
        return
    text = described(f"rf.{name}")
    assert f"{{py:obj}}`rf.{name}`" in text, "it is in the table"
    (head,) = [
        line for line in text.splitlines() if line.lstrip("`").startswith("{py:") and f"}} rf.{name}(" in line + "("
    ]
    if callable(value) and not isinstance(value, types.UnionType):
        assert markdown(first_sentence(inspect.getdoc(value))) in text
        if inspect.isclass(value) and issubclass(value, BaseException):
            return  # made by Python
        for parameter in inspect.signature(value).parameters.values():
            assert parameter.name in head or "Never" in str(parameter.annotation)


@pytest.mark.parametrize("package", ["rf.viz", "rf.plot"])
def test_packages_that_promise_names_have_all_of_them(package):
    module = PROMISED[package]
    named = [name for name in module.__all__ if not isinstance(getattr(module, name), types.ModuleType)]
    assert len(named) > 5 and [name for name in named if f"{package}.{name}" not in NAMES] == []


def test_the_models_are_in_it_and_teaching_too_as_soon_as_it_is_there():
    assert {"rfnb.models.load_g2p", "rfnb.models.pronounce", "rfnb.models.G2P"} <= NAMES.keys()
    if "rfnb.teaching" in sys.modules:
        assert any(path.startswith("rfnb.teaching.") for path in NAMES)


def test_names_are_grouped_as_the_package_groups_them():
    found = {page.title: [name.path for name in page.names] for page in PAGES}
    assert "rf.matmul" in found["Over dims: reductions, products, orders"]
    assert "rf.Loop" in found["Loops, states, branches"]
    assert subjects('# -- One ---\nfrom a import b, c\n# -- Two --\nfrom d import e\n__all__ = ["b", "e", "f"]') == [
        ("One", ["b"]), ("Two", ["e"]), ("Further names", ["f"]),
    ]  # fmt: skip


def test_the_same_thing_is_described_once():
    assert NAMES["rf.viz.show"].same_as == "rf.show"
    text = described("rf.viz.show")
    assert "The same as {py:obj}`rf.show`." in text and text.count("\n:Args:") < described("rf.show").count("\n:Args:")


def test_every_signature_is_python():
    lines = [line for text in TEXTS.values() for line in text.splitlines() if line.startswith("```") and "{py:" in line]
    assert len(lines) > 1000
    for line in lines:
        head = line.partition("} ")[2]
        if "(" in head:
            ast.parse(f"def f{head[head.index('(') :]}: ...")


def test_a_signature_is_as_a_reader_writes_it():
    def given(
        x: rf.Tensor, /, *, axis: rf.Dim = rf.single_step_dim, dtype: str | None = None, **unknown: Never
    ) -> None:
        """Do it."""

    assert signature(given) == "(x: Tensor, /, *, axis: Dim = ..., dtype: str | None = None) -> None"


def test_methods_of_a_class_are_with_it_and_those_of_a_public_base_with_that():
    own = dict(members(rf.Tensor))
    assert {"copy_transpose", "raw_tensor"} <= own.keys()
    assert "parameters" in dict(members(rf.Module)) and "parameters" not in dict(members(rf.Linear))
    text = _class(Name("rf.Linear", rf.Linear))
    assert "Inherits from `rf.Module`." in text and "{py:method} rf.Linear.__call__(" in text
