"""TeX formulas as MathML, which browsers render natively: no script, no fonts, no network."""

from __future__ import annotations

import re

# Text-mode environments; inside a formula they have other names, or none.
_ALIGN = re.compile(r"\\(begin|end)\{(?:align|gather|eqnarray|split)\*?\}")
_EQUATION = re.compile(r"\\(?:begin|end)\{(?:equation|displaymath|math)\*?\}")


def mathml(text: str, *, as_block: bool) -> str | None:
    """The formula as a `math` element; None if it cannot be parsed.

    Args:
        text: TeX, without dollars.
        as_block: Whether it is a display formula, which may have several lines.
    """
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml

    text = _EQUATION.sub("", _ALIGN.sub(r"\\\1{aligned}", text)).strip()
    if as_block and "\\\\" in text and "\\begin{" not in text:
        text = f"\\begin{{aligned}}{text}\\end{{aligned}}"
    try:
        return str(tex2mathml(text, as_block=as_block))
    except (MathError, SyntaxError, AttributeError):  # the last one: an & outside a table
        return None
