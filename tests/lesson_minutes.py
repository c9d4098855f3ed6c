"""Reads the minutes of a lesson from its page for teachers."""

import re


def minutes(page: str) -> int:
    """The sum of the column "minutes" of a teacher's page; `10 each` counts once for each of "1 to 5"."""
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")
    ]
    column, total = next(row.index("minutes") for row in table if "minutes" in row), 0
    for row in table:
        found = re.fullmatch(r"(\d+)( each)?", row[column]) if len(row) > column else None
        if found:
            between = re.search(r"(\d+) to (\d+)", " ".join(row))
            times = int(between[2]) - int(between[1]) + 1 if found[2] and between else 1
            total += times * int(found[1])
        elif total and row[column] and not row[column].startswith("-"):
            break  # the next table
    return total
