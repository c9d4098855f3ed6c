"""The index for teachers has every lesson with the minutes of its page, and its statements about commands are true."""

from __future__ import annotations

import re
from pathlib import Path

from lesson_minutes import minutes

from rfnb.cli.main import parser

FOLDER = Path(__file__).parents[2] / "docs/teaching"
INDEX = (FOLDER / "README.md").read_text()
ROUNDED = 10  # minutes by which the index may be off
ROW = re.compile(r"^\| \[(\d+) · [^\]]+\]\((\w+)\.md\) \| (\d+) \|", re.MULTILINE)
ROWS = {name: (int(number), int(minutes)) for number, name, minutes in ROW.findall(INDEX)}


def test_every_lesson_is_listed_in_order():
    pages = {path.stem for path in FOLDER.glob("[0-9]*.md")}
    assert pages - ROWS.keys() == set()
    assert list(ROWS) == sorted(ROWS) and [number for number, _ in ROWS.values()] == list(range(1, len(pages) + 1))
    assert all(name.startswith(f"{number:02d}_") for name, (number, _) in ROWS.items())


def test_the_minutes_are_about_those_of_the_pages():
    found = {path.stem: minutes(path.read_text()) for path in sorted(FOLDER.glob("[0-9]*.md"))}
    assert len(found) >= 11
    assert {name: total for name, total in found.items() if abs(total - ROWS[name][1]) > ROUNDED} == {}
    assert (
        minutes(
            "| part | minutes |\n|---|---|\n| Play | 10 |\n| Patients 1 to 5 | 10 each |\n\n| a | b |\n|---|---|\n| x | 3 |"
        )
        == 60
    )


def test_the_commands_can_be_typed():
    commands = re.findall(r"`(?:RFNB_LESSON=reveal )?rfnb ([^`]+)`", INDEX)
    assert len(commands) >= 5
    for command in commands:
        assert parser().parse_args(command.split()).command == command.split()[0]
