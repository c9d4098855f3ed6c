"""Pictures made of letters: shades for values, columns that stay aligned."""

from __future__ import annotations

import unicodedata

import numpy as np

from rfnb.viz.visible import visible

_SHADES = "·░▒▓█"


def shade(share: float) -> str:
    """A shade for a value from 0 to 1, by its square root (so that small weights stay visible); "?" for NaN."""
    if np.isnan(share):
        return "?"
    level = float(np.sqrt(min(max(share, 0.0), 1.0)))
    return _SHADES[min(int(level * (len(_SHADES) - 1) + 0.5), len(_SHADES) - 1)]


def bar(share: float) -> str:
    """One of eight heights for a value from 0 to 1; "?" for NaN, a triangle for an infinity."""
    if not np.isfinite(share):
        return "?" if np.isnan(share) else "▲" if share > 0 else "▼"
    return "▁▂▃▄▅▆▇█"[int(min(max(share, 0.0), 0.999) * 8)]


def pooled(values: np.ndarray, rows: int, cols: int) -> tuple[np.ndarray, int, int]:
    """Values in at most `rows` x `cols` cells, each the largest of a block of values (NaN only if all are); and the size of the blocks."""
    down, across = -(-values.shape[0] // rows), -(-values.shape[1] // cols)
    padded = np.full((-(-values.shape[0] // down) * down, -(-values.shape[1] // across) * across), np.nan, np.float32)
    padded[: values.shape[0], : values.shape[1]] = values
    blocks = padded.reshape(padded.shape[0] // down, down, padded.shape[1] // across, across).transpose(0, 2, 1, 3)
    flat = blocks.reshape(*blocks.shape[:2], -1)
    most = np.where(np.isnan(flat), -np.inf, flat).max(-1)
    return np.where(np.isnan(flat).all(-1), np.nan, most), down, across


def width_of(token: str) -> int:
    """The number of columns of a terminal that a text takes, with the marks that `clip` makes in it."""
    return _columns(visible(token))


def _columns(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def clip(token: str, width: int, *, right: bool = False) -> str:
    """A text cut or filled to exactly `width` columns; visible marks for what has no width of its own."""
    token = visible(token)
    if _columns(token) > width:
        kept = ""
        for letter in token:
            if _columns(kept + letter) > width - 1:
                break
            kept += letter
        token = kept + "…"
    fill = " " * (width - _columns(token))
    return fill + token if right else token + fill
