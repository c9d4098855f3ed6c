"""The public names are a list that changes only on purpose.

After adding a name to rfnb/__init__.py:  python tests/contracts/test_public_names.py  writes its `__all__` anew, and the table of names
that are loaded later.
"""

import ast
import inspect
import operator
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
INIT = ROOT / "rfnb" / "__init__.py"
LATER = ROOT / "rfnb" / "places" / "lazy_names.py"
LIST = re.compile(r"(?<=^__all__ = \[\n).*?(?=^\]$)", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(?<=^LATER = \{\n).*?(?=^\}$)", re.MULTILINE | re.DOTALL)


def written(names: list[str]) -> str:
    """These names as lines of a list."""
    text = ", ".join(f'"{name}"' for name in names) + ","
    return textwrap.fill(text, 120, initial_indent="    ", subsequent_indent="    ") + "\n"


def names_in(source: str) -> list[str]:
    """The public names that this `__init__.py` imports or defines, sorted; a star import is an error."""
    names: set[str] = set()
    body = ast.parse(source).body
    for node in [*body, *later_imports(source)]:
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names), f"line {node.lineno}: list the names one by one"
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return sorted(name for name in names if not name.startswith("_") and name != "annotations")


def later_imports(source: str) -> list[ast.stmt]:
    """The imports for type checkers."""
    return next((node.body for node in ast.parse(source).body if isinstance(node, ast.If)), [])


def table_of(source: str) -> str:
    """The lines of the table of names that are loaded later."""
    lines = ""
    for node in later_imports(source):
        assert isinstance(node, ast.ImportFrom) and not any(alias.asname for alias in node.names)
        names = [f"{part} " for part in textwrap.wrap(" ".join(alias.name for alias in node.names), 90)]
        names[-1] = names[-1].rstrip()
        value = f'"{names[0]}"' if len(names) == 1 else "(" + " ".join(f'"{part}"' for part in names) + ")"
        lines += f'    "{node.module}": {value},\n'
    return lines


def test_the_names_that_are_loaded_later_are_those_of_the_block_for_type_checkers():
    from rfnb.places.lazy_names import LATER as table

    found = {}
    exec("found.update({" + table_of(INIT.read_text()) + "})", {"found": found})
    assert found == table and list(found) == list(table)


def test_public_names_are_the_listed_ones():
    assert LIST.findall(INIT.read_text()) == [written(names_in(INIT.read_text()))]


def test_every_public_name_is_there():
    import rfnb

    assert [name for name in rfnb.__all__ if not hasattr(rfnb, name)] == []


# What is written as `rf.` and a name, and is no name: examples of errors, and beginnings of names.
NO_NAMES = {
    "Lstm", "Name", "Recurrent", "_operators", "cat", "decoder.transformer.qqq", "no_such_op", "random_", "reduce_", "reduce_men", "shift_",
}  # fmt: skip


def test_the_names_that_tests_use_are_there_in_a_python_that_has_only_imported_rfnb():
    # A test that asks for a name of an earlier version is one that depends on what other tests import, or that tests nothing.
    found = {}
    for file in [*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]:
        names = re.findall(r"(?<![\w./-])rf\.([A-Za-z_]\w*(?:\.\w+)*)", file.read_text(encoding="utf-8"))
        found.update(dict.fromkeys(names, file.name))
    ask = """if True:
        import sys, types, rfnb
        for line in sys.stdin:
            value = rfnb
            for part in line.strip().split("."):
                if isinstance(value, types.ModuleType) and (value := getattr(value, part, sys)) is sys:
                    print(line, end="")
    """
    there = subprocess.run(
        [sys.executable, "-c", ask], input="\n".join(found), capture_output=True, text=True, check=True
    )
    assert len(found) > 500 and {name: found[name] for name in there.stdout.split() if name not in NO_NAMES} == {}
    assert NO_NAMES <= set(there.stdout.split())


def test_nothing_else_is_in_the_package():
    import types

    import rfnb

    public = {name: value for name, value in vars(rfnb).items() if not name.startswith("_")}
    public = {name: getattr(rfnb, name) for name in rfnb.__all__} | public
    names = {name for name, value in public.items() if not isinstance(value, types.ModuleType)}
    assert names == {name for name in rfnb.__all__ if not isinstance(public[name], types.ModuleType)}


def test_dir_lists_the_public_names_and_no_module_that_python_binds():
    import rfnb
    import rfnb.core.errors

    assert hasattr(rfnb, "core") and "__version__" in dir(rfnb)
    assert [name for name in dir(rfnb) if not name.startswith("__")] == sorted(rfnb.__all__)


def most_used(count: int) -> list[str]:
    """The functions that guides and notebooks call most, as "viz.attention"."""
    called = re.compile(r"\brf\.((?:viz\.|plot\.)?[a-z]\w*)\(")
    folders = (ROOT / "docs").rglob("*.md"), (ROOT / "notebooks").glob("*.ipynb"), [ROOT / "README.md"]
    return [
        name
        for name, _ in Counter(
            called.findall("".join(path.read_text() for each in folders for path in each))
        ).most_common(count)
    ]


def test_the_signatures_of_the_most_used_names_list_their_options():
    """What Shift+Tab and completion show; `**options` behind them is what their kinds of values have further."""
    import rfnb

    names = most_used(40)
    assert {"show", "record", "beam_search", "viz.attention"} <= set(names)
    for name in names:
        fn = operator.attrgetter(name)(rfnb)
        parameters = inspect.signature(fn).parameters
        code = fn.__code__
        written = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        assert fn.__doc__ and all(each.annotation is not each.empty for each in parameters.values()), name
        if "options" in parameters:
            assert len(parameters) > len(written) + 1, f"{name}: keep_signature(..., options_of=...) lists its options"


def test_completion_offers_the_options_of_show():
    """As IPython asks jedi for it."""
    import jedi

    import rfnb

    offered = {each.name for each in jedi.Interpreter("rf.show(", [{"rf": rfnb}]).complete()}
    assert {"live=", "budget=", "title=", "tokens=", "tokenizer=", "kinds=", "names="} <= offered
    assert not offered & {"handles=", "expected=", "failure=", "epochs="}


def test_no_module_takes_the_place_of_a_name_when_it_is_loaded():
    """Python binds a module to its name in the package when it loads it, which may be late."""
    script = """
import importlib, pkgutil
import rfnb

places = {"rfnb": rfnb, "rfnb.viz": rfnb.viz}
before = {place: {name: getattr(module, name) for name in module.__all__} for place, module in places.items()}
for module in pkgutil.walk_packages(rfnb.__path__, "rfnb."):
    importlib.import_module(module.name)
print([f"{place}.{name}" for place in places for name, value in before[place].items() if getattr(places[place], name) is not value])
"""
    # Not on the path of who writes the list.
    from waiting import LONG
    from warm import warm

    run = subprocess.run([*warm(), "-c", script], capture_output=True, text=True, timeout=LONG)
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_a_name_more_or_less_is_seen():
    source = "from rfnb.core.dim import Dim, ragged_dim as ragged\nimport rfnb.viz\n_private = 1\nx: int = 2\ndef show(): ..."
    assert names_in(source) == ["Dim", "ragged", "rfnb", "show", "x"]


if __name__ == "__main__":
    text = INIT.read_text()
    INIT.write_text(LIST.sub(written(names_in(text)), text))
    LATER.write_text(TABLE.sub(table_of(text), LATER.read_text()))
