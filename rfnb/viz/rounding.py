"""Round numbers for display: a value that is not 0 or 1 is never shown as such, so that "none" and "all" are exact."""

from __future__ import annotations

import math
import re

_HYPHEN = re.compile(r"(?<![\w.)\]])-(?=[\d.∞])|(?<=\de)-(?=\d)")
_ONE = 1e-6  # rounding error of float32 sums near 1


def share(value: float, digits: int = 2) -> str:
    """A fraction with the given number of digits: "0.25", "<.01", ">.99"; other numbers likewise, those just above 1 with more digits."""
    text = f"{value:.{digits}f}"
    size = abs(value)
    if not math.isfinite(value) or float(text) not in (0, 1, -1) or value == 0 or abs(size - 1) <= _ONE:
        return text
    sign, least = "-" if value < 0 else "", 10.0**-digits
    if size > 1:
        return significant(value, digits + 1)
    return sign + (f"<{least:.{digits}f}" if size < 0.5 else f">{1 - least:.{digits}f}").replace("0.", ".")


def significant(value: float, digits: int) -> str:
    """The given number of significant digits; more if the number would wrongly become 1: "0.25", "0.9997"."""
    text = f"{value:.{digits}g}"
    while text in ("1", "-1") and abs(abs(value) - 1) > _ONE:
        digits += 1
        text = f"{value:.{digits}g}"
    return text


def minus(text: str) -> str:
    """A text with true minus signs, as in pictures."""
    return _HYPHEN.sub("−", text)


def percent(part: float) -> str:
    """A fraction in percent: "43 %", "<1 %", ">99 %"."""
    whole = f"{100 * part:.0f}"
    if whole == "0" and part > 0:
        return "<1 %"
    return ">99 %" if whole == "100" and part < 1 - _ONE else f"{whole} %"


def brief(value: float, width: int) -> str:
    """A number in at most `width` columns if possible: with as many digits as fit, then without its leading 0, then in
    scientific notation. Only 0 is shown as 0.
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    for text in (
        way for digits in (2, 1, 0) for way in (f"{value:.{digits}f}", f"{value:.{digits}f}".replace("0.", ".", 1))
    ):
        if len(text) <= width and float(text) != 0 and (abs(value) < 100 or "." not in text):
            return text
    return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
