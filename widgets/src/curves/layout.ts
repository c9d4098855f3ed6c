// From a `curves` spec to positions: a panel for each series with its own ticks, the runs of one label in one panel, all over one x axis.

import type { AnyHead, Frame } from "../frame";
import { exact, significant } from "../number";

export interface Entry {
  label: string;
  unit?: string;
  x: string;
  y: string;
  best?: "min" | "max" | null;
  log?: boolean;
  run?: string;
  panel?: string; // its name, if series with other labels share it
  strip?: boolean; // whether it is a row of cells
  gap?: number; // points farther apart are not connected
  of?: number; // number of points in the kernel, if the page has fewer
  every?: number; // their number in a bucket
  kept?: string; // the block with the number of points per bucket in the page
  odd?: string[]; // the infinite and missing values among all points
}
export interface Head extends AnyHead {
  x?: string;
  runs?: string[]; // in the order of their styles
  series: Entry[];
}

type Numbers = ArrayLike<number>;

/** One series: its points in order of x, the index of the best one (-1: none), and whether a logarithmic axis is possible. */
export interface Curve {
  label: string;
  name: string; // including its run
  own: string; // distinguishes it within its panel: its run, or its label
  panel: string | null;
  run: string | null;
  style: number; // index of the run, or of the series in a panel; -1: alone
  gap: number;
  strip: boolean;
  unit: string;
  x: Numbers;
  y: Numbers;
  best: number;
  positive: boolean;
  log: boolean;
  thin?: Thin | null; // null: complete
}

/** A thinned series: the page has some points of each bucket of `every` of the `of` points, including the smallest and the largest. */
export interface Thin {
  of: number;
  every: number;
  stretch: Numbers; // by point
  odd: string[];
}

/** The fault of a frame as a sentence; null if it can be drawn. */
export function problem(frame: Frame<Head>): string | null {
  const { series }: Partial<Head> = frame.head;
  const cannot = "These curves cannot be drawn:";
  if (!Array.isArray(series)) return `${cannot} the list of series is missing.`;
  for (const [index, entry] of series.entries()) {
    if (typeof entry !== "object" || entry === null)
      return `${cannot} series ${index} is not an entry with a label, x and y.`;
    const x = frame.blocks[entry.x],
      y = frame.blocks[entry.y],
      label = entry.label ?? index;
    if (!x || !y) return `${cannot} series ${label} has no array of ${x ? "y" : "x"}.`;
    if (x.shape.length !== 1 || y.shape.length !== 1 || x.data.length !== y.data.length)
      return `${cannot} series ${label} has ${x.data.length} x and ${y.data.length} y.`;
  }
  return null;
}

export function curvesOf(frame: Frame<Head>): Curve[] {
  const runs = frame.head.runs ?? [],
    shared = new Map<string, number>();
  return frame.head.series.map((entry) => {
    const label = String(entry.label),
      run = entry.run === undefined ? null : String(entry.run);
    const x = frame.blocks[entry.x]!.data,
      y = frame.blocks[entry.y]!.data;
    const panel = run !== null || entry.panel === undefined ? null : String(entry.panel),
      style = panel === null ? -1 : (shared.get(panel) ?? 0);
    if (panel !== null) shared.set(panel, style + 1);
    let best = -1,
      positive = false,
      negative = false;
    for (let i = 0; i < y.length; i++) {
      if (!Number.isFinite(y[i]!)) continue;
      if (y[i]! > 0) positive = true;
      else negative = true;
      if (entry.best && (best < 0 || (entry.best === "max" ? y[i]! > y[best]! : y[i]! < y[best]!))) best = i;
    }
    return {
      label,
      name: run === null ? label : `${run} ${label}`,
      own: run ?? label,
      panel,
      run,
      style: run === null ? style : Math.max(0, runs.indexOf(run)),
      strip: Boolean(entry.strip),
      gap: typeof entry.gap === "number" ? entry.gap : Infinity,
      unit: String(entry.unit ?? ""),
      x,
      y,
      best,
      positive: positive && !negative,
      log: Boolean(entry.log),
      thin: thinOf(entry, frame.blocks[entry.kept ?? ""]?.data, y.length),
    };
  });
}

function thinOf({ of, every, odd }: Entry, kept: Numbers | undefined, points: number): Thin | null {
  if (!of || !every || !kept) return null;
  const stretch: number[] = [];
  for (let index = 0; index < kept.length; index++)
    for (let left = kept[index]!; left > 0 && stretch.length < points; left--) stretch.push(index);
  return stretch.length === points ? { of, every, stretch, odd: odd ?? [] } : null;
}

/** A thinned curve as a band from the smallest to the largest value of each bucket; null for a complete one. */
export function bandOf({ x, y, thin }: Pick<Curve, "x" | "y" | "thin">): Stretch[] | null {
  if (!thin) return null;
  const found: Stretch[] = [];
  for (let at = 0, last = -1; at < y.length; at++) {
    if (thin.stretch[at] !== last) found.push({ from: x[at]!, to: x[at]!, low: Infinity, high: -Infinity });
    last = thin.stretch[at]!;
    const now = found[found.length - 1]!;
    if (!Number.isFinite(y[at]!)) continue;
    if (now.low > now.high && at && thin.stretch[at - 1] === last) now.from = x[at - 1]!; // the value before it is not a number
    const after = at + 1 < y.length && thin.stretch[at + 1] === last ? at + 1 : at;
    now.to = x[after]!;
    now.low = Math.min(now.low, y[at]!);
    now.high = Math.max(now.high, y[at]!);
  }
  return found;
}
export interface Stretch {
  from: number;
  to: number;
  low: number; // above `high` if it has no number
  high: number;
}

/** The band as the `d` of an SVG path, with gaps at buckets without numbers. */
export function bandPath(band: Stretch[], px: (x: number) => number, py: (y: number) => number): string {
  let d = "";
  for (let start = 0; start < band.length; start++) {
    let end = start;
    while (end < band.length && band[end]!.low <= band[end]!.high) end++;
    const some = band.slice(start, end),
      side = (all: Stretch[], of: "low" | "high") =>
        all.flatMap(({ from, to, [of]: y }) =>
          (of === "high" ? [from, to] : [to, from]).map((x) => `${r(px(x))} ${r(py(y))}`),
        );
    if (some.length) d += `M${[...side(some, "high"), ...side([...some].reverse(), "low")].join("L")}Z`;
    start = Math.max(start, end);
  }
  return d;
}

/** The key of the panel that a curve shares with others; null: alone. */
export const keyOf = ({ panel, run, label }: Curve): string | null =>
  panel !== null ? `of ${panel}` : run === null ? null : label;

/** Groups of curves that share a panel: runs with one label, series with one unit or similar names. */
export function panelsOf(curves: Curve[], apart = false): Curve[][] {
  const shared = new Map<string, Curve[]>();
  return curves.flatMap((curve) => {
    const key = apart ? null : keyOf(curve),
      others = key === null ? undefined : shared.get(key);
    others?.push(curve);
    if (others) return [];
    const alone = [curve];
    if (key !== null) shared.set(key, alone);
    return [alone];
  });
}

/** The number of curves that colour, dash and mark distinguish; among more, one at a time is highlighted and the others are grey. */
export const STYLED = 8;

/** The number of panels side by side. */
export const abreast = (panels: number, room: number, apart: boolean, shared = false): number =>
  apart || (panels > 6 && !shared) ? Math.min(panels, Math.max(1, Math.min(3, Math.floor(room / 230)))) : 1;

/** A description of the infinite and missing values of curves; "" without any. */
export function brokenOf(curves: Curve[], name: string): string {
  const broken = curves
    .map((curve) => ({ curve, said: odd(curve, name) }))
    .filter(({ curve: { y }, said }) => nanSince({ y }) >= 0 || said.join().includes("infinite"));
  const some = broken.slice(0, 4).map(({ curve, said }) => `${curve.own} ${said.join(", ")}`);
  if (broken.length > some.length) some.push(`${broken.length - some.length} more`);
  return broken.length ? `${broken.length} of ${curves.length} broken: ${some.join("; ")}` : "";
}

export const ROW = 13, // of a strip
  LEVELS = 12;

/** The cells of a row between 0 and `width`, as the `d` of a path for each level; negative values separately. */
export function cellsOf(
  { x, y, gap }: Pick<Curve, "x" | "y" | "gap">,
  px: (x: number) => number,
  share: (y: number) => number, // −1 to 1
  top: number,
): Map<number, string> {
  const cells = new Map<number, string>(),
    height = ROW - 1;
  let [from, most] = [NaN, 0];
  for (let at = 0; at < y.length; at++) {
    const half = (other: number | undefined) => Math.min(gap, Math.abs((other ?? NaN) - x[at]!)) / 2 || 0,
      before = half(x[at - 1] ?? x[at + 1]),
      after = half(x[at + 1] ?? x[at - 1]);
    if (Number.isNaN(from)) from = px(x[at]! - before);
    const to = px(x[at]! + after),
      value = share(y[at]!);
    if (Number.isFinite(value) && Math.abs(value) >= Math.abs(most)) most = value; // the largest within a pixel
    const next = x[at + 1];
    if (to - from < 2 && next !== undefined && next - x[at]! <= gap) continue;
    const level = Math.round(most * LEVELS);
    if (level)
      cells.set(
        level,
        `${cells.get(level) ?? ""}M${r(from)} ${top}h${r(Math.max(2, to - from))}v${height}H${r(from)}z`,
      );
    [from, most] = [NaN, 0];
  }
  return cells;
}

/** The index of the last point that is a number; -1 if there is none. */
export function lastOf({ y }: Pick<Curve, "y">): number {
  let last = y.length - 1;
  while (last >= 0 && !Number.isFinite(y[last]!)) last--;
  return last;
}

/** The positions of names at the ends of lines: for few curves all, moved apart; for many those that fit, in order. */
export function endsOf(curves: Curve[], py: (y: number) => number, height: number, line = 12): [Curve, number][] {
  const at = curves.flatMap((curve): [Curve, number][] => {
    const last = lastOf(curve);
    return last < 0 ? [] : [[curve, py(curve.y[last]!)]];
  });
  if (at.length * line > height || at.length > STYLED) {
    const placed: [Curve, number][] = [];
    for (const one of at) if (placed.every(([, y]) => Math.abs(y - one[1]) >= line)) placed.push(one);
    return placed;
  }
  at.sort((a, b) => a[1] - b[1]);
  at.forEach((one, index) => (one[1] = Math.max(one[1], index ? at[index - 1]![1] + line : 0)));
  for (let index = at.length - 1; index >= 0; index--)
    at[index]![1] = Math.min(at[index]![1], (index + 1 < at.length ? at[index + 1]![1] : height + line) - line);
  return at;
}

// The same as in rfnb/viz/curves/drawing.py: dash and mark together tell 20 lines apart.
const DASHES = ["", "6 3", "2 2", "11 3"],
  MARKS = [
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", // dot
    "m-3 -3h6v6h-6z", // square
    "m0 -4l4 7h-8z", // up
    "m-3 -3l6 6m0 -6l-6 6", // cross
    "m0 4l4 -7h-8z", // down
  ];

/** The colour, the dash and the mark of a style, the mark to be drawn around a point. */
export const look = (style: number) => ({
  hue: `rfnb-hue-${style % 8}`,
  dash: DASHES[style % DASHES.length]!,
  mark: MARKS[style % MARKS.length]!,
});

/** The points of a line with a mark: all of few, six of many. */
export function marked({ y }: Pick<Curve, "y">): number[] {
  const known = Array.from({ length: y.length }, (_, at) => at).filter((at) => Number.isFinite(y[at]!));
  if (y.length <= 40) return known;
  const six = [0, 1, 2, 3, 4, 5].map((part) => known[Math.floor(((2 * part + 1) * known.length) / 12)]!);
  return known.length ? six : [];
}

/** The distinct x of all curves in order: the stops of the cursor. */
export function stops(curves: Curve[]): number[] {
  const all = new Set<number>();
  for (const { x } of curves) for (let i = 0; i < x.length; i++) all.add(x[i]!);
  return [...all].sort((a, b) => a - b);
}

export type Range = [low: number, high: number];

/** A curve between two x, inclusive. */
export function within(curve: Curve, [low, high]: Range): Curve {
  const { x, y, best } = curve;
  let from = pointAt(curve, low);
  if (from < 0 || x[from]! < low) from++;
  while (from > 0 && x[from - 1] === low) from--; // several at one x
  const to = Math.max(from, pointAt(curve, high) + 1),
    part = (numbers: Numbers) => Array.prototype.slice.call(numbers, from, to) as number[];
  const { thin } = curve;
  return {
    ...curve,
    x: part(x),
    y: part(y),
    best: best >= from && best < to ? best - from : -1,
    thin: thin && { ...thin, stretch: part(thin.stretch) },
  };
}

/** Half of a range around a stop, at stops; null if there is none. `from` null: around the middle. */
export function half(at: number[], [low, high]: Range, from: number | null): Range | null {
  const middle = from ?? (low + high) / 2,
    quarter = (high - low) / 4;
  const ends = [Math.max(low, middle - quarter), Math.min(high, middle + quarter)].map((x) => nearest(at, x)!);
  return ends[0]! < ends[1]! && (ends[0]! > low || ends[1]! < high) ? (ends as Range) : null;
}

/** The doubled range, at stops; null if that is everything. */
export function twice(at: number[], [low, high]: Range): Range | null {
  const more = (high - low) / 2,
    ends = [nearest(at, low - more)!, nearest(at, high + more)!] as Range;
  return ends[0] <= at[0]! && ends[1] >= at.at(-1)! ? null : ends;
}

/** The index from which on no value is a number; -1 without one, or if it is only the last point. */
export function nanSince({ y }: Pick<Curve, "y">): number {
  let first = y.length;
  while (first > 0 && Number.isNaN(y[first - 1]!)) first--;
  return y.length - first > 1 ? first : -1;
}

/** The cursor's point on a curve: the last one at or before x; -1 before the first. */
export function pointAt({ x }: Pick<Curve, "x">, at: number): number {
  let low = 0,
    high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The nearest stop to x; null without stops. */
export function nearest(at: number[], x: number): number | null {
  if (!at.length) return null;
  const before = pointAt({ x: at }, x);
  if (before < 0) return at[0]!;
  const next = at[before + 1];
  return next !== undefined && next - x < x - at[before]! ? next : at[before]!;
}

/** The stop that a key leads to from another one (or null); null for other keys. */
export function walk(at: number[], from: number | null, key: string): number | null {
  const last = at.length - 1,
    index = from === null ? -1 : at.indexOf(from);
  const far = Math.max(2, Math.round(at.length / 10));
  const to: Record<string, number> = {
    ArrowLeft: index < 0 ? last : index - 1,
    ArrowRight: index < 0 ? last : index + 1,
    ArrowDown: index < 0 ? last : index - 1,
    ArrowUp: index < 0 ? last : index + 1,
    PageUp: index < 0 ? last : index - far,
    PageDown: index < 0 ? last : index + far,
    Home: 0,
    End: last,
  };
  if (last < 0 || !(key in to)) return null;
  return at[Math.max(0, Math.min(last, to[key]!))]!;
}

export interface Paths {
  line: string;
  mean: string;
  dots: string;
  up: string;
  down: string;
} // `d` of SVG paths; up and down: infinite values

/**
 * The line of a curve in a box, with gaps at NaN; a point without neighbours becomes a dot. At most four points per pixel column are drawn; with
 * many more points, the line shows only the range, and `mean` runs through it.
 */
export function pathsOf(
  { x, y, gap = Infinity }: Pick<Curve, "x" | "y"> & { gap?: number },
  px: (x: number) => number,
  py: (y: number) => number,
  height: number,
): Paths {
  const paths: Paths = { line: "", mean: "", dots: "", up: "", down: "" };
  const few = x.length <= 40,
    dense = x.length > 4 * Math.abs(px(x[x.length - 1]!) - px(x[0]!));
  const put = (at: number) => `${r(px(x[at]!))} ${r(py(y[at]!))}`;
  for (let start = 0; start < y.length; start++) {
    const first = y[start]!;
    if (first === Infinity) paths.up += `M${r(px(x[start]!))} 1l-4 6h8z`;
    if (first === -Infinity) paths.down += `M${r(px(x[start]!))} ${height - 1}l-4 -6h8z`;
    if (!Number.isFinite(first)) continue;
    let end = start;
    while (end + 1 < y.length && Number.isFinite(y[end + 1]!) && x[end + 1]! - x[end]! <= gap) end++;
    const kept = reduced(x, y, start, end, px);
    if (kept.length > 1) paths.line += `M${kept.map(put).join("L")}`;
    if (few || kept.length === 1) for (let at = start; at <= end; at++) paths.dots += `M${put(at)}h0`;
    if (dense && kept.length > 1)
      paths.mean += `M${means(x, y, start, end, px)
        .map(([mx, my]) => `${r(px(mx))} ${r(py(my))}`)
        .join("L")}`;
    start = end;
  }
  return paths;
}

/** The first, lowest, highest and last point of each pixel column. */
function reduced(x: Numbers, y: Numbers, start: number, end: number, px: (x: number) => number): number[] {
  return columns(x, start, end, px, 1).flatMap(([from, to]) => {
    let low = from,
      high = from;
    for (let at = from + 1; at <= to; at++) {
      if (y[at]! < y[low]!) low = at;
      if (y[at]! > y[high]!) high = at;
    }
    return [...new Set([from, low, high, to])].sort((a, b) => a - b);
  });
}

/** The mean point of each three pixels. */
function means(x: Numbers, y: Numbers, start: number, end: number, px: (x: number) => number): [number, number][] {
  return columns(x, start, end, px, 3).map(([from, to]) => {
    let [sumX, sumY] = [0, 0];
    for (let at = from; at <= to; at++) {
      sumX += x[at]!;
      sumY += y[at]!;
    }
    return [sumX / (to - from + 1), sumY / (to - from + 1)];
  });
}

/** The first and last point of each column of so many pixels. */
function columns(
  x: Numbers,
  start: number,
  end: number,
  px: (x: number) => number,
  pixels: number,
): [number, number][] {
  const found: [number, number][] = [];
  let last = NaN;
  for (let at = start; at <= end; at++) {
    const column = Math.floor(px(x[at]!) / pixels);
    if (column === last) found[found.length - 1]![1] = at;
    else found.push([at, at]);
    last = column;
  }
  return found;
}

const r = (value: number): string => String(Math.round(value * 10) / 10);

/** The height of a panel's plot. */
export const heightOf = (panels: number): number => (panels <= 1 ? 170 : panels === 2 ? 124 : panels === 3 ? 96 : 80);

/** The cursor in words: "step 20: loss 3.1 nats, error rate 12 % (at step 10)". */
export function sentence(curves: Curve[], name: string, at: number, hot: Curve | null = null): string {
  if (curves.length > STYLED && hot) {
    const others = curves.filter((curve) => curve !== hot && keyOf(curve) === keyOf(hot)),
      known = others.map((curve) => curve.y[pointAt(curve, at)] ?? NaN).filter(Number.isFinite);
    const range = known.length
      ? ` (${others.length} others: ${brief(Math.min(...known))} to ${brief(Math.max(...known))})`
      : "";
    return `${name} ${exact(at)}: ${hot.name} ${valueText(hot, name, at)}${range}`;
  }
  const some = curves.slice(0, curves.length > 2 * STYLED ? STYLED : curves.length),
    more = curves.length > some.length ? ` and ${curves.length - some.length} more` : "";
  return `${name} ${exact(at)}: ${some.map((curve) => `${curve.name} ${valueText(curve, name, at)}`).join(", ")}${more}`;
}

export function valueText(curve: Curve, name: string, at: number): string {
  const index = pointAt(curve, at);
  if (index < 0) return "none yet";
  const around = bandOf(curve)?.find(({ from, to }) => from <= at && at <= to);
  if (around && curve.x[index] !== at)
    return around.low > around.high
      ? "no number"
      : `${exact(around.low)} to ${exact(around.high)} (${name} ${exact(around.from)} to ${exact(around.to)})`;
  const value = exact(curve.y[index]!),
    unit = curve.unit && Number.isFinite(curve.y[index]!) ? ` ${curve.unit}` : "";
  return `${value}${unit}${curve.x[index] === at ? "" : ` (at ${name} ${exact(curve.x[index]!)})`}`;
}

/** Four significant digits, for the last and the best value; the exact one is under the cursor. */
export function brief(value: number): string {
  const rounded = significant(value, 4);
  return Number.isFinite(value) && Math.abs(value) < 1e9 && !Number.isInteger(value)
    ? exact(Math.fround(rounded))
    : exact(value);
}

/** Values that are not numbers: "NaN since step 390", "2 infinite, first at step 7". */
export function odd({ x, y, thin }: Pick<Curve, "x" | "y" | "thin">, name: string): string[] {
  if (thin) return thin.odd;
  const kinds: [string, (value: number) => boolean][] = [
    ["NaN", Number.isNaN],
    ["infinite", (value) => Math.abs(value) === Infinity],
  ];
  return kinds.flatMap(([words, is]) => {
    let first = -1,
      count = 0;
    for (let i = 0; i < y.length; i++)
      if (is(y[i]!)) {
        if (first < 0) first = i;
        count++;
      }
    if (!count) return [];
    const place = `${name} ${brief(x[first]!)}`;
    return [
      count > 1 && count === y.length - first ? `${words} since ${place}` : `${count} ${words}, first at ${place}`,
    ];
  });
}
