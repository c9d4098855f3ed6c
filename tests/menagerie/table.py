"""The results for all classes, as a file for the test and as a page of the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOUND, PAGE = HERE / "found.json", HERE.parents[1] / "docs" / "menagerie.md"
COLUMNS = ("bits", "attention", "states", "beams", "held", "edited", "diff")
_HEAD = """# Menagerie

This page lists what rfnb records for the model classes of `transformers` {version}. Each is a tiny model made from its configuration, with random weights, run on a CPU. This command writes the page:

```bash
PYTHONPATH=tests python -m menagerie --cache FILE
```

If interrupted, it resumes where it stopped. {others}

| classes | number |
|---|---|
{figures}

| column | meaning |
|---|---|
| bits | the outputs during a recording are bitwise identical to those without |
| attention | the number of recorded maps. Each is within 1e-5 of a map that the model computes with `attn_implementation="eager"`, and every map returned with `output_attentions=True` is among them. "named": the recording names the modules without a map |
| states | the number of places with states; all turns of a looped layer count as one |
| beams | greedy search and a beam of 2 are recorded, with the same results; "greedy": the class has no beam search |
| held | the number of labels before which a held `generate` paused, with the same results |
| edited | after an edit removes a head (or, without heads, a state), the recording lacks it and the results differ; without the edit they are as before |
| diff | `rf.diff` finds no difference between two equal runs, and finds an edit where it begins |

An empty cell means that the column does not apply to the class.

{tables}
"""  # noqa: E501


def is_right(row: dict[str, Any]) -> bool:
    """True if all results of a class are right."""
    return row["built"] and "no" not in row.values() and (not row["generates"] or "beams" in row)


def figures(rows: dict[str, dict[str, Any]], generating: set[str]) -> dict[str, int]:
    own = [rows[name] for name in rows if name in generating]
    others = [rows[name] for name in rows if name not in generating]
    return {
        "with `generate`": len(own),
        "of these built": sum(row["built"] for row in own),
        "of these right in all columns": sum(map(is_right, own)),
        "of these right, with a map for every attention module": sum(
            is_right(row) and "named" not in str(row) for row in own
        ),
        "other, run": len(others),
        "of these built ": sum(row["built"] for row in others),
        "of these right in all columns ": sum(map(is_right, others)),
    }


def write(rows: dict[str, dict[str, Any]]) -> None:
    import transformers
    from menagerie import tiny

    generating = {name for name in rows if getattr(transformers, name).can_generate()}
    found = {
        "transformers": transformers.__version__,
        "classes": len(tiny.classes()),
        "generating": sorted(generating),
        "rows": dict(sorted(rows.items())),
    }
    FOUND.write_text(json.dumps(found, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    PAGE.write_text(page(found))


def page(found: dict[str, Any]) -> str:
    rows, generating = found["rows"], set(found["generating"])
    said = "\n".join(f"| {name.strip()} | {number} |" for name, number in figures(rows, generating).items())
    parts = [
        ("With `generate`", [each for each in rows if each in generating]),
        ("Others", [each for each in rows if each not in generating]),
    ]
    left = found["classes"] - len(rows)
    told = f"{left} classes without `generate` have not been run yet." if left else "All classes have been run."
    tables = []
    for title, names in parts:
        built = [name for name in names if rows[name]["built"]]
        plain = [name for name in built if title == "Others" and is_right(rows[name]) and not rows[name]["why"]]
        built = [name for name in built if name not in plain]
        lines = [
            f"## {title}",
            "",
            f"| class | {' | '.join(COLUMNS)} | seconds | reason for a missing result |",
            "|---" * (len(COLUMNS) + 3) + "|",
        ]
        lines += [_line(name, rows[name]) for name in built]
        if plain:
            lines += [
                "",
                f"Right in all columns ({len(plain)}), with the numbers of maps and of places with states:",
                "",
                _together(plain, rows),
            ]
        not_built = [f"| {name} | {_plain(rows[name]['why']['built'])} |" for name in names if not rows[name]["built"]]
        if not_built:
            lines += ["", "Not built:", "", "| class | why |", "|---|---|", *not_built]
        tables.append("\n".join(lines))
    return _HEAD.format(others=told, version=found["transformers"], figures=said, tables="\n\n".join(tables))


def _together(names: list[str], rows: dict[str, dict[str, Any]]) -> str:
    """Names in paragraphs, by their first letter."""
    found: dict[str, list[str]] = {}
    for name in names:
        row = rows[name]
        found.setdefault(name[0].upper(), []).append(f"{name} ({row.get('attention', 0)}, {row.get('states', 0)})")
    return "\n\n".join(", ".join(each) + "." for each in found.values())


def _line(name: str, row: dict[str, Any]) -> str:
    cells = [str(row.get(column, "")) for column in COLUMNS]
    return f"| {name} | {' | '.join(cells)} | {row['seconds']:g} | {' '.join(map(_plain, row['why'].values()))} |"


def _plain(text: str) -> str:
    """Text that is safe in a table cell."""
    return (
        text.replace("|", "/").replace("<", "(").replace(">", ")").replace("`", "").replace("*", "").replace("http", "")
    )
