// Colour ramps as tables of 256 colours: one hue, of even lightness steps in OKLab, starting near the paper in light and dark themes.

export type Table = Uint32Array; // little-endian RGBA, ready for ImageData
type Lab = [number, number, number];

// The same equidistant colours as in rfnb/viz/drawing/theme.py.
const LIGHT = ["#f3f8ff", "#cfe4fc", "#a6cdf6", "#78b4ee", "#4a99e0", "#267dca", "#1061ab", "#094785", "#062c58"];
const DARK = ["#16202c", "#16314d", "#16456f", "#1a5b94", "#2873b7", "#468fd6", "#71acec", "#a3cbf8", "#dceafd"];
const DIVERGING_LIGHT = [
  "#014e8e",
  "#2a76c3",
  "#6da5e4",
  "#b6d2f3",
  "#f7f7f7",
  "#f4c4a4",
  "#df8a4b",
  "#af5b0b",
  "#753b07",
];
const DIVERGING_DARK = [
  "#b4dbff",
  "#6baffa",
  "#317dca",
  "#214c79",
  "#222222",
  "#6b3e11",
  "#b16512",
  "#e6964f",
  "#fdcda6",
];

export const sequential = (dark: boolean): Table => table(dark ? DARK : LIGHT);
/** Grey, for sound: unlike the colours of weights. */
export const greys = (dark: boolean): Table => table(dark ? GREY_DARK : GREY_LIGHT);
export const diverging = (dark: boolean): Table => table(dark ? DIVERGING_DARK : DIVERGING_LIGHT);

const GREY_LIGHT = ["#ffffff", "#c8c8c8", "#8a8a8a", "#4a4a4a", "#101010"];
const GREY_DARK = ["#16181b", "#3c3e41", "#6d6f72", "#a9abae", "#f2f2f2"];

const made = new Map<string[], Table>();

function table(stops: string[]): Table {
  const known = made.get(stops);
  if (known) return known;
  const labs = stops.map((stop) => toLab(parse(stop)));
  const out = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (labs.length - 1);
    const low = Math.min(Math.floor(at), labs.length - 2);
    const [a, b] = [labs[low]!, labs[low + 1]!];
    const [r, g, blue] = fromLab([0, 1, 2].map((k) => a[k]! + (b[k]! - a[k]!) * (at - low)) as Lab);
    out[i] = (255 << 24) | (blue << 16) | (g << 8) | r;
  }
  made.set(stops, out);
  return out;
}

const at = (colors: Table, share: number): number => colors[Math.round(Math.min(1, Math.max(0, share)) * 255)]!;

/** The CSS colour at a position from 0 to 1 in a table. */
export const css = (colors: Table, share: number): string => `rgb(${rgbOf(at(colors, share)).join(", ")})`;

const rgbOf = (color: number): Lab => [color & 255, (color >> 8) & 255, (color >> 16) & 255];

/** The lightness of a colour of a table, 0 to 1. */
export const lightness = (colors: Table, share: number): number => toLab(rgbOf(at(colors, share)))[0];

/** The colour of text on a colour of a table: black or white, with a contrast of at least 4.5 to 1. */
export function inkOn(colors: Table, share: number): string {
  const [r, g, b] = rgbOf(at(colors, share)).map(linear) as Lab;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}

const linear = (c: number): number => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);

const parse = (hex: string): Lab => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Lab;

// Björn Ottosson, "A perceptual color space for image processing", 2020.
function toLab(rgb: Lab): Lab {
  const [r, g, b] = rgb.map(linear) as Lab;
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromLab([L, a, b]: Lab): Lab {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const found = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return found.map((c) =>
    Math.round(255 * Math.min(1, Math.max(0, c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055))),
  ) as Lab;
}
