"""No test looks at a clock: what it asserts must not depend on how fast or busy the machine is.

What something costs is measured in `bench/`, as a ratio. Who waits for another thread, process or page uses `waiting.py`, whose limits
only say that it hangs.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
MAY_LOOK = {TESTS / "waiting.py", Path(__file__)}

CLOCKS = {"time", "timeit", "datetime", "cProfile", "profile"}  # modules
# In strings that run in a page or a notebook, and in TypeScript.
TEXT = re.compile(
    r"performance\.(now|mark|measure)|Date\.now|new Date\b|\.time(End|Stamp)?\(|hrtime|iopub\.status"
    r"|%%?timeit?\b|\b(perf_counter|process_time|thread_time|time_ns)\b|\bmonotonic\(",
    re.I,
)
WAITS = {"wait", "join", "get", "acquire", "result", "wait_for_timeout", "communicate"}


def clocks_in_python(source: str) -> list[str]:
    """Uses of a clock in a file of tests, as "line: text"."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        found += [f"{node.lineno}: import {name}" for name in names if name.split(".")[0] in CLOCKS]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and TEXT.search(node.value):
            found.append(f"{node.lineno}: {TEXT.search(node.value)[0]}")
        if isinstance(node, ast.Call):
            found += [
                f"{node.lineno}: {ast.unparse(node)}" for limit in _limits(node) if isinstance(limit, ast.Constant)
            ]
    return found


def _limits(call: ast.Call) -> list[ast.expr]:
    """The seconds after which a call gives up."""
    limits = [word.value for word in call.keywords if word.arg == "timeout"]
    waits = isinstance(call.func, ast.Attribute) and call.func.attr in WAITS
    numbers = [value for value in call.args if isinstance(value, ast.Constant) and type(value.value) in (int, float)]
    alone = waits and call.func.attr != "get" and len(call.args) == 1
    return limits + (numbers if alone else [])


def clocks_in_typescript(source: str) -> list[str]:
    """The same of a TypeScript file."""
    lines = enumerate(source.splitlines(), 1)
    return [
        f"{number}: {found[0]}"
        for number, line in lines
        if (found := re.search(f"{TEXT.pattern}|setTimeout", line, re.I))
    ]


FILES = sorted({*TESTS.rglob("*.py"), *(ROOT / "widgets/tests").rglob("*.ts")} - MAY_LOOK)


def test_no_file_of_tests_looks_at_a_clock():
    found = {}
    for file in FILES:
        clocks = clocks_in_python if file.suffix == ".py" else clocks_in_typescript
        found[str(file.relative_to(ROOT))] = clocks(file.read_text(encoding="utf-8"))
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert len(FILES) > 200 and any(file.suffix == ".ts" for file in FILES)


@pytest.mark.parametrize(
    "source",
    [
        "import time\nassert time.perf_counter() - begin < 1",
        "from time import monotonic as now",
        "import timeit",
        "page.evaluate('performance.now()')",
        "subprocess.run(command, timeout=20)",
        "done.wait(20)",
        "thread.join(5)",
        "cell = '%timeit f()'",
        "cell.metadata.execution['iopub.status.busy']",
    ],
)
def test_each_way_to_look_at_a_clock_is_found(source):
    assert clocks_in_python(source)


@pytest.mark.parametrize("source", ["const began = performance.now();", "Date.now() - began", "setTimeout(done, 5)"])
def test_each_way_to_look_at_a_clock_in_typescript_is_found(source):
    assert clocks_in_typescript(source)


def test_waiting_with_a_limit_that_is_scaled_is_allowed():
    assert clocks_in_python("done.wait(LONG)\nexpect(view).to_be_visible(timeout=ms(30))\n', '.join(words)") == []
