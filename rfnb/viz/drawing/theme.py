"""The colours of a drawing on light and dark paper: those of widgets/src/theme.css and widgets/src/color.ts.

A drawing uses colour names ("ink", "muted"), so that it works on both papers. In addition to the names of a theme there
are `cell(ramp, share)`, a colour of a ramp, and `on_cell(ramp, share)`, a colour for text on top of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rfnb.core.errors import value_error

Rgb = tuple[int, int, int]
NOTHING = 0  # the index of an undrawn cell; 1 to 255 are the ramp

# Eight hues that colour-blind people can distinguish.
HUES = ("#2f77b5", "#c9681a", "#23876c", "#b4538f", "#8a7400", "#6a5fc0", "#b5443a", "#5f7480")


@dataclass(frozen=True)
class Theme:
    """The colours of one paper.

    Attributes:
        colors: Colours by name, as "#rrggbb".
        ramps: Colour ramps by name: equidistant colours, uniformly darker (on dark paper lighter) in OKLab.
    """

    name: str
    colors: dict[str, str]
    ramps: dict[str, tuple[str, ...]]
    _tables: dict[str, list[Rgb]] = field(default_factory=dict, repr=False, compare=False)

    def rgb(self, color: str) -> Rgb:
        """The RGB value of a named colour, `cell` or `on_cell`."""
        kind, *rest = color.split(":")
        if not rest:
            return _parse(self.colors[color])
        ramp, share = rest
        shade = self.table(ramp)[_index(float(share))]
        if kind == "cell":
            return shade
        return _parse("#10151c") if _lightness(shade) > 0.6 else _parse("#ffffff")

    def hex(self, color: str) -> str:
        """The same as "#rrggbb"."""
        return "#{:02x}{:02x}{:02x}".format(*self.rgb(color))

    def table(self, ramp: str) -> list[Rgb]:
        """The 256 colours of a ramp; the first is the paper, for undrawn cells."""
        if ramp not in self._tables:
            self._tables[ramp] = [self.rgb("paper"), *_table(self.ramps[ramp])]
        return self._tables[ramp]


def cell(ramp: str, share: float) -> str:
    """The name of the colour of a ramp at a position from 0 to 1."""
    return f"cell:{ramp}:{share:.4f}"


def on_cell(ramp: str, share: float) -> str:
    """The name of a colour for text on a cell with that colour."""
    return f"on:{ramp}:{share:.4f}"


def theme(name: str) -> Theme:
    """The theme "light" or "dark".

    Raises:
        ValueError: If the name is unknown.
    """
    if name not in THEMES:
        raise value_error(
            f"theme: there is no theme {name!r}.",
            {"themes": ", ".join(f'"{known}"' for known in THEMES)},
            "The theme is light or dark.",
            'theme="light"',
        )
    return THEMES[name]


def _index(share: float) -> int:
    return 1 + round(254 * min(1.0, max(0.0, share)))


def _table(stops: tuple[str, ...]) -> list[Rgb]:
    """255 colours between the stops, uniform in OKLab (Ottosson 2020, "A perceptual color space for image processing")."""
    labs = [_to_lab(_parse(stop)) for stop in stops]
    out = []
    for number in range(255):
        at = number / 254 * (len(labs) - 1)
        low = min(int(at), len(labs) - 2)
        first, second = labs[low], labs[low + 1]
        out.append(_from_lab([a + (b - a) * (at - low) for a, b in zip(first, second)]))
    return out


def _parse(color: str) -> Rgb:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _lightness(color: Rgb) -> float:
    return _to_lab(color)[0]


def _to_lab(color: Rgb) -> list[float]:
    r, g, b = ((c / 255 / 12.92) if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in color)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return [
        0.2104542553 * long + 0.793617785 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short,
    ]


def _from_lab(lab: list[float]) -> Rgb:
    lightness, a, b = lab
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.707614701 * short,
    )
    r, g, b = (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in linear)
    return _byte(r), _byte(g), _byte(b)


def _byte(value: float) -> int:
    return round(255 * min(1.0, max(0.0, value)))


_HUE_NAMES = {f"hue{number}": color for number, color in enumerate(HUES)}

THEMES = {
    "light": Theme(
        "light",
        {
            "paper": "#ffffff", "ink": "#1f2328", "muted": "#59636e", "faint": "#b3bcc5", "line": "#d8dee4", "band": "#f3f5f8",
            "accent": "#0b62b0", "on-accent": "#ffffff", "warn": "#b3261e", "hatch": "#c4cbd2", "value": "#e6effa",
            "result": "#fdf0d5", "shade": "#cfe0f0", **_HUE_NAMES,
        },
        {
            "sequential": ("#f3f8ff", "#cfe4fc", "#a6cdf6", "#78b4ee", "#4a99e0", "#267dca", "#1061ab", "#094785", "#062c58"),
            "diverging": ("#014e8e", "#2a76c3", "#6da5e4", "#b6d2f3", "#f7f7f7", "#f4c4a4", "#df8a4b", "#af5b0b", "#753b07"),
            "faint": ("#f3f5f8", "#dce1e7", "#b9c2cc", "#8b96a3"),
        },
    ),
    "dark": Theme(
        "dark",
        {
            "paper": "#0d1117", "ink": "#e6edf3", "muted": "#9198a1", "faint": "#656c76", "line": "#3d444d", "band": "#161b22",
            "accent": "#6cb6ff", "on-accent": "#0d1117", "warn": "#ff8a80", "hatch": "#3d444d", "value": "#17324d",
            "result": "#453612", "shade": "#1d3d5c", **_HUE_NAMES,
            "hue0": "#6ba6da", "hue1": "#e2904f", "hue2": "#4db89a", "hue3": "#d584b5", "hue4": "#bda83a", "hue5": "#9d94e6",
            "hue6": "#dd7b72", "hue7": "#93a7b3",
        },
        {
            "sequential": ("#16202c", "#16314d", "#16456f", "#1a5b94", "#2873b7", "#468fd6", "#71acec", "#a3cbf8", "#dceafd"),
            "diverging": ("#b4dbff", "#6baffa", "#317dca", "#214c79", "#222222", "#6b3e11", "#b16512", "#e6964f", "#fdcda6"),
            "faint": ("#161b22", "#262d36", "#3f4852", "#6b7580"),
        },
    ),
}  # fmt: skip
