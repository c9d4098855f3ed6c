"""Looking a recorded path up by its end, with errors that list what there is."""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.core.errors import ErrorOf
from rfnb.trace.match import is_end_of


class PathError(KeyError):
    """A path, or an end of one, that was not recorded or means several."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the repr, with \\n for each new line


path_error = ErrorOf(PathError)


def find_path(what: str, path: str, paths: Mapping[str, str], others: str) -> str:
    """The one recorded path that is meant.

    Args:
        what: As it is typed, e.g. "trace.attention".
        path: A recorded path, or the end of exactly one, with or without the names of its loops.
        paths: Recorded path: the same without the names of loops.
        others: What was recorded at all, for the message if there is nothing of this kind.

    Raises:
        PathError: None or several.
    """
    if not isinstance(path, str):
        raise path_error(
            f"{what}: no path {path!r}.",
            [("paths", ", ".join(paths) or "none")],
            "A path is a text: a recorded path, or the end of exactly one.",
        )
    if path in paths:
        return path
    for form in ({name: name for name in paths}, paths):
        exact = [full for full, short in form.items() if short == path]
        found = exact or [full for full, short in form.items() if is_end_of(path, short)]
        if len(found) == 1:
            return found[0]
        if found:
            raise path_error(
                f'{what}: "{path}" is the end of {len(found)} paths.',
                [("paths", ", ".join(found))],
                "A path is a recorded path, or the end of exactly one.",
                f'{what}["{found[0]}"]',
            )
    if not paths:
        raise path_error(
            f'{what}: nothing of this kind was recorded, so there is no "{path}".',
            [("recorded", others)],
            "A trace has what was offered inside of its with-block and passed its filters.",
            "with rf.record() as trace:    # no filters\n    ...",
        )
    raise path_error(
        f'{what}: no path "{path}".',
        [("paths", ", ".join(paths))],
        "A path is a recorded path, or the end of exactly one.",
        f'{what}["{next(iter(paths))}"]',
    )
