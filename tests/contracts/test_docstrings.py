"""Every public name says what it does; those that compute say the shapes, what they raise and where they are from.

Public is what `rfnb` exports, with the public methods of its classes, and every function and class without underscore in the
package.
"""

import ast
import functools
import inspect
import re
from pathlib import Path

import pytest
from asserting import public

import rfnb as rf

ROOT = Path(__file__).parents[2] / "rfnb"
SHAPE = re.compile(r"\{[^{}]*\}")  # {batch, time}: see CONTRIBUTING.md
SAID_OTHERWISE = re.compile(
    r"[Kk]eeps the dims|union of the dims|[Ss]ee `|[Aa]s `|as of `|as in `|[Dd]ims? (?:as|and errors as)|[Ss]calar|`\w+`[^.]* for|x itself"
)
WITHOUT_SOURCE = {
    "random_normal random_truncated_normal": "a distribution",
    "normalize Normalize make_norm batch_norm_distributed_default conv_norm_use_mask_default": "no formula of a paper",
    "ctc_durations_from_path ctc_no_label_loop_blank_durations_from_path": "count frames",
    "import_params_hf_llama_att_to_rf_rotary_att import_params_hf_llama_rms_norm_to_rf": "copy numbers",
}
WITHOUT_SHAPES = {
    "register_parametrization": "takes what computes a parameter from a parameter",
    "get_tensor_dependencies get_tensor_consumers walk_tensor_consumers": "look at how tensors were made, not into them",
}
HAS_SOURCE = re.compile(
    r"attention|lstm|norm|transformer|conformer|branchformer|rotary|relative|positional|ctc|specaugment"
)


@functools.cache
def parsed(path):
    return ast.parse(path.read_text())


def defined(path):
    """(qualified name, node, its class or None) of the public functions, classes and methods in a file."""
    for node in parsed(path).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        yield node.name, node, None
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                yield f"{node.name}.{item.name}", item, node


def needs_no_docstring(node, owner):
    """Setters and overloads have that of the property or function; an override that of the base class."""
    decorators = {ast.unparse(item) for item in node.decorator_list}
    if any(text.endswith(".setter") or text in ("overload", "typing.overload") for text in decorators):
        return True
    return owner is not None and bool(owner.bases) and not isinstance(node, ast.ClassDef)


def undocumented(path):
    return [
        name
        for name, node, owner in defined(path)
        if not ast.get_docstring(node) and not needs_no_docstring(node, owner)
    ]


FILES = sorted(path for path in ROOT.rglob("*.py") if "node_modules" not in path.parts)


def test_everything_public_has_a_docstring():
    lacking = [f"{path.relative_to(ROOT)}: {name}" for path in FILES for name in undocumented(path)]
    assert lacking == []


# -- first lines -------------------------------------------------------------------------------------------------------
# What begins with one of these words is a part of a sentence. A docstring begins with a sentence, or a noun with its article.
FRAGMENT = re.compile(
    r"(?:Of|That|Those|What|Which|Why|Where|Who|Whoever|With|Without|By|At|On|As|Its|It|Same|Not|Has|Made|Only|How|When|Before|After|Along|Until)\b"
    r"|(?:Number|Name|Index|Length|Sum|Mean|Product|Part|Base|Size|Kind|Position|Score|Text|Source) (?:of|over|for)\b"
    r"|(?:Context manager|Decorator|Dotted path|Weighted mean)\b"
)


def fragments(path):
    """First lines of docstrings that begin in the middle of a sentence."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").split("\n")[0]
            if FRAGMENT.match(first):
                yield f"{path.name}: {getattr(node, 'name', 'module')}: {first}"


def test_first_lines_are_sentences_or_nouns_with_their_article():
    assert [line for path in FILES for line in fragments(path)] == []


# Phrases that read as translated. Write "None if there is none", "as text", "the caller", "listeners", "see `X`", "continues",
# "requested", "the result", "again", "side by side", "instead of".
DIALECT = re.compile(
    r"\b(?:[Ss]ome|[Nn]o)body\b|\b[Ww]hoever\b|(?<!\b[Dd]ate )(?<!\b[Dd]ates )(?<!\b[Nn]umbers )\bin words\b"
    r"|\bso many\b(?! \w+ that\b)|\b(?:is|are) told\b"
    r"|\b(?:None|False): (?:nobody|it is|it does|there (?:is|are) none|not known|none|they)\b"
    r"|\b[Aa]s of [`X]|\b(?:for|of|by|to) who\b|\b(?:goes|go|going|went) on\b|\banew\b|\b(?:is|are|was) said\b|\basked for\b"
    r"|\bc(?:om|am)es? of (?:it|that)\b|\bonce more\b|\b(?:beside|below|behind) each other\b|\bin the place of\b"
)


def test_docstrings_say_it_as_a_native_writer_would():
    found, count = [], 0
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                doc = ast.get_docstring(node) or ""
                found += [
                    f"{path.relative_to(ROOT)}: {getattr(node, 'name', 'module')}: {m[0]}"
                    for m in DIALECT.finditer(doc)
                ]
                count += bool(doc)
    assert found == [] and count > 2000
    assert all(
        DIALECT.search(text)
        for text in ("Whether somebody looks.", "None: there is none.", "As of `Rec`.", "for who asks")
    )


# -- public ops and layers ---------------------------------------------------------------------------------------------
def public_functions():
    """(name, function) of what `rfnb` exports, with __call__ of its modules."""
    for name, value in public().items():
        if inspect.isfunction(value) and value.__module__.startswith("rfnb."):
            yield name, value
        elif inspect.isclass(value) and issubclass(value, rf.Module) and "__call__" in vars(value):
            yield f"{name}.__call__", value.__call__


def of_tensors(function):
    text = " ".join(str(hint) for hint in getattr(inspect.unwrap(function), "__annotations__", {}).values())
    return re.search(r"\bTensor\b", text) is not None


def says_shapes(doc):
    return bool(SHAPE.search(doc) or SAID_OTHERWISE.search(doc))


def test_ops_and_layers_say_the_shapes():
    functions = {name: fn for name, fn in public_functions() if name not in " ".join(WITHOUT_SHAPES).split()}
    assert [name for name, fn in functions.items() if of_tensors(fn) and not says_shapes(fn.__doc__ or "")] == []


# Exported names, and the classes that exported ones are made of.
PUBLIC = {name for name in public() if not name.startswith("_")} | {
    base.__name__ for value in public().values() if inspect.isclass(value) for base in value.__mro__
}


def raised(node):
    """Names of the errors that the code of a function raises itself."""
    found = set()
    for item in ast.walk(node):
        if isinstance(item, ast.Raise) and isinstance(item.exc, ast.Call) and isinstance(item.exc.func, ast.Name):
            found.add(item.exc.func.id)
    return {name for name in found if name.endswith("Error") and name != "NotImplementedError"}


def unsaid_errors(path):
    """Public functions of a file that raise an error which neither their docstring nor that of their class names."""
    for name, node, owner in with_init(path):
        if name.split(".")[0] not in PUBLIC or any("setter" in ast.unparse(item) for item in node.decorator_list):
            continue
        said = " ".join(ast.get_docstring(item) or "" for item in (node, owner) if item is not None)
        for error in sorted(raised(node)):
            if error not in said:
                yield f"{path.relative_to(ROOT)}: {name} raises {error}"


def with_init(path):
    for name, node, owner in defined(path):
        if isinstance(node, ast.FunctionDef):
            yield name, node, owner
        else:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name in ("__init__", "__call__"):
                    yield f"{name}.{item.name}", item, node


@pytest.mark.parametrize("folder", ["core", "ops", "nn", "rec", "search"])
def test_what_raises_says_so(folder):
    lacking = [line for path in FILES if path.relative_to(ROOT).parts[0] == folder for line in unsaid_errors(path)]
    assert lacking == []


def test_layers_and_losses_of_the_literature_say_their_source():
    lacking = []
    for name, value in public().items():
        if not (inspect.isclass(value) and issubclass(value, rf.Module)) and not inspect.isfunction(value):
            continue
        if HAS_SOURCE.search(name.lower()) and name not in " ".join(WITHOUT_SOURCE).split():
            docs = [
                inspect.getmodule(value).__doc__ or "",
                *(base.__doc__ or "" for base in getattr(value, "__mro__", [value])),
            ]
            if not any("Source:" in doc for doc in docs):
                lacking.append(name)
    assert lacking == []


# -- the contract can be broken ----------------------------------------------------------------------------------------
def test_what_lacks_a_docstring_is_seen(tmp_path):
    (tmp_path / "new.py").write_text(
        "def op(x):\n    return x\n\nclass Layer:\n    '''A layer.'''\n    def run(self): ...\n"
    )
    assert undocumented(tmp_path / "new.py") == ["op", "Layer.run"]


@pytest.mark.parametrize(
    "first", ["Of two dims the first.", "That of the loop.", "What is drawn.", "Where a path ends.", "Number of axes."]
)
def test_a_fragment_is_seen(tmp_path, first):
    (tmp_path / "new.py").write_text(f'def op(x):\n    """{first}"""\n\ndef of(x):\n    """The first dim."""\n')
    assert list(fragments(tmp_path / "new.py")) == [f"new.py: op: {first}"]


def test_an_error_that_is_not_said_is_seen():
    tree = ast.parse("def softmax(x):\n    '''{...} -> {...}'''\n    raise DimError(x)")
    assert raised(tree) == {"DimError"}


def test_shapes_are_seen():
    assert says_shapes("{..., time} -> {...}") and says_shapes("Sine. Keeps the dims.") and not says_shapes("The sum.")
