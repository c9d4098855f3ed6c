"""The house does not grow by accident: how much code, how many files and classes there are, and how long a function may be.

The numbers are what there is. A change that makes one smaller lowers the bound with it; one that is worth more raises it in the same
commit, whose message says what the code is for.
"""

import ast
import functools
import io
import tokenize
from pathlib import Path

import rfnb

FILES = sorted(Path(rfnb.__file__).parent.rglob("*.py"))
AT_MOST = {"tokens": 1_084_082, "files": 773, "classes": 907, "lines of a function body": 100}
_SPACE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def docstrings(tree):
    """Where the docstrings of a module start: (line, column)."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0].lineno, node.body[0].col_offset


def tokens(text, tree):
    """How many tokens of code a text has: comments, docstrings and how it is laid out do not count."""
    free = set(docstrings(tree))
    return sum(
        token.type not in _SPACE and token.start not in free
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )


def body_lines(function):
    """From the first statement to the last one; the docstring does not count."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


@functools.cache
def trees():
    return {path: ast.parse(path.read_text()) for path in FILES}


def functions():
    for tree in trees().values():
        yield from (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def measured():
    return {
        "tokens": sum(tokens(path.read_text(), tree) for path, tree in trees().items()),
        "files": len(FILES),
        "classes": sum(isinstance(node, ast.ClassDef) for tree in trees().values() for node in ast.walk(tree)),
        "lines of a function body": max(map(body_lines, functions())),
    }


def test_there_is_not_more():
    found = measured()
    assert {what: number for what, number in found.items() if number > AT_MOST[what]} == {}


def test_only_code_counts():
    text = '"""A module."""\n\n\n# why\nclass A:\n    """A class."""\n\n    x = ("""a value""",)  # 1\n'
    assert tokens(text, ast.parse(text)) == len("class A : x = ( value , )".split())


def test_a_docstring_is_no_line_of_a_body():
    (function,) = ast.parse('def f():\n    """It is\n    long."""\n    a = (\n        1\n    )\n    return a\n').body
    assert body_lines(function) == 4
