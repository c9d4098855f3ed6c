"""The fonts of drawings, and text widths: DejaVu, which matplotlib ships. The file is read directly, without importing matplotlib.

Scripts that DejaVu lacks are drawn in the first known system font that has them, if there is one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Asian scripts from Devanagari on except Georgian, and everything beyond the basic plane (emoji).
_BEYOND = re.compile(
    "[\u0900-\u0e7f\u0f00-\u109f\u1100-\u167f\u1780-\u18af\u2e80-\ua63f\ua960-\ud7ff\uf900-\ufaff\ufe30-\uffef"
    "\U00010000-\U0010ffff]"
)
_NO_LETTER = "\U0010ffff"  # an invalid character: shows what a font draws for a missing one
_OTHERS = (
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/google-noto-cjk/NotoSansCJK-Regular.ttc",
    "/System/Library/Fonts/PingFang.ttc",
    "/System/Library/Fonts/Hiragino Sans GB.ttc",
    "C:/Windows/Fonts/msyh.ttc",
    "C:/Windows/Fonts/YuGothM.ttc",
)  # fmt: skip


def width(text: str, size: float = 11.0, *, bold: bool = False) -> float:
    """The width of a line of text. The cost is linear in its length: cut it first (`labels.short`)."""
    return _width(text, size, bold)


@lru_cache(4096)
def _width(text: str, size: float, bold: bool) -> float:
    # At a large size, so that rounding to whole pixels is negligible.
    return float(font(44.0, bold=bold, text=text).getlength(text)) * size / 44.0


def font(size: float, *, bold: bool = False, mono: bool = False, text: str = "") -> Any:
    """The font of Pillow for a text."""
    other = _other() if _BEYOND.search(text) else None
    return _loaded(other or file(bold=bold, mono=mono), max(1.0, round(size, 2)))  # smaller sizes are invalid


def lacks(text: str) -> bool:
    """Whether a character of a text would be drawn as a box, because no known font has it."""
    return any(_is_box(letter) for letter in _BEYOND.findall(text))


@lru_cache(4096)
def _is_box(letter: str) -> bool:
    made = font(22.0, text=letter)
    return bytes(made.getmask(letter)) == bytes(made.getmask(_NO_LETTER))


@lru_cache(64)
def _loaded(path: str | None, size: float) -> Any:
    from PIL import ImageFont

    return ImageFont.truetype(path, size) if path else ImageFont.load_default(size)


@lru_cache(8)
def file(*, bold: bool = False, mono: bool = False) -> str | None:
    """The file of the font; None if matplotlib lacks it (Pillow's own is then used)."""
    found = find_spec("matplotlib")
    folders = found.submodule_search_locations if found else None
    name = f"DejaVuSans{'Mono' if mono else ''}{'-Bold' if bold else ''}.ttf"
    for folder in folders or []:
        path = Path(folder) / "mpl-data" / "fonts" / "ttf" / name
        if path.is_file():
            return str(path)
    return None


@lru_cache(1)
def _other() -> str | None:
    return next((path for path in _OTHERS if Path(path).is_file()), None)
