// Lanes: paths that a search could take, or took in a branch, below its tree: dotted for previews, solid for branches.
// The tree does not change; a longer lane extends to the right of it.

import { haloed } from "../canvas";
import { fixed } from "../number";
import type { Lane } from "../run";
import type { Palette } from "../theme";
import type { Scene as Sight } from "../pane";
import type { Layout } from "./layout";
import { PILL_HALF, shorten } from "./layout";
import { circle, set } from "./strokes";

const HEIGHT = 40, // of one
  GAP = 20,
  CLOSE = 7, // the least gap, if a larger one would leave the visible part
  LEAST = 26,
  AROUND = 18,
  END = 60; // the least space for the text at the end

/** A path to draw: of a ghost (null: not known yet), or of a branch. */
export interface Way {
  lane: Lane | null;
  difference: number | null | undefined;
  over: boolean;
  ghost: boolean;
  from: { row: number; parent: number | null; cut: number | null }; // where it branches from the tree
}
interface Stop {
  x: number;
  label: string;
  width: number;
}
export interface PlacedWay {
  way: Way;
  y: number;
  begin: { x: number; y: number; leave: number; bend: number }; // level up to `leave`
  stops: Stop[];
}

/** The layout with space for lanes, and their positions. There is space for at least `least` lanes, so that nothing jumps when one appears. */
export function withLanes(
  made: Layout,
  ways: Way[],
  least: number,
  measure: (label: string) => number,
  width = Infinity, // of the visible part
): { made: Layout; placed: PlacedWay[] } {
  const count = Math.max(ways.length, least);
  if (!count || made.cells) return { made, placed: [] };
  const rows = made.x.length,
    pitch = rows > 1 ? (made.x[rows - 1]! - made.x[0]!) / (rows - 1) : 60,
    x = [...made.x],
    longest = Math.max(0, ...ways.map(({ lane, from }) => from.row + (lane?.labels.length ?? 0)));
  const widthOf = (row: number) =>
    Math.max(LEAST, ...ways.map(({ lane, from }) => widthAt(lane?.labels[row - from.row] ?? "", measure)));
  const tail = Math.max(END, ...ways.map((way) => (way.lane ? measure(ended(way)) + 24 : 0)));
  const go = (gap: number): number => {
    x.length = rows;
    for (let row = rows; row < longest; row++)
      x.push(
        (x[row - 1] ?? made.root.x) +
          (made.labels ? (widthOf(row) + (row > rows ? widthOf(row - 1) : LEAST)) / 2 + gap : pitch),
      );
    return longest ? x[longest - 1]! + widthOf(longest - 1) / 2 + tail - width : 0; // how far that is beyond the visible part
  };
  const far = go(GAP);
  if (far > 0 && longest > rows) go(Math.max(CLOSE, GAP - far / (longest - rows)));
  const top = made.height;
  const placed = ways.map((way, index): PlacedWay => {
    const y = top + HEIGHT * (index + 0.5) - 8,
      { from, lane } = way,
      before = from.row ? x[from.row - 1]! : made.root.x,
      cut = from.cut === null ? undefined : made.cuts[from.row]?.find(({ cut }) => cut.index === from.cut),
      parent = made.nodes[from.row - 1]?.[from.parent ?? -1],
      begin = cut
        ? { x: cut.x - (made.labels ? 13 : 0), y: cut.y }
        : parent
          ? { x: made.at(parent).x + made.at(parent).width / 2, y: made.lanes[parent.slot]! }
          : { x: before, y: made.root.y };
    const next = made.columns[from.row]?.[0],
      leave = cut || !parent || !next ? begin.x : Math.max(begin.x, next.bendFrom); // not through the candidates below its parent
    const room = (row: number) => (row + 1 < x.length ? x[row + 1]! - x[row]! : Infinity) - 6;
    const stops = (lane?.labels ?? []).map((label, at): Stop => {
      const wide = widthAt(label, measure);
      return {
        x: x[from.row + at]!,
        label: label && shorten(label),
        width: Math.min(wide, Math.max(LEAST, room(from.row + at))),
      };
    });
    return {
      way,
      y,
      begin: { ...begin, leave, bend: (stops[0]?.x ?? begin.x + 24) - (stops[0]?.width ?? 0) / 2 - 8 },
      stops,
    };
  });
  const right = Math.max(
    made.width,
    ...placed.map(({ stops }) => (stops.at(-1) ? stops.at(-1)!.x + stops.at(-1)!.width / 2 + tail : 0)),
  );
  return { made: { ...made, height: top + count * HEIGHT, width: right }, placed };
}

const widthAt = (label: string, measure: (label: string) => number): number =>
  label ? Math.max(LEAST, measure(shorten(label)) + AROUND) : 13;

/** Draws lanes; if the bottom of the tree is not visible, they are at the bottom of the visible part. */
export function drawLanes(
  g: CanvasRenderingContext2D,
  made: Layout,
  placed: PlacedWay[],
  sight: Sight,
  palette: Palette,
): void {
  if (!placed.length) return;
  const shift = Math.min(0, sight.top + sight.height - made.height);
  g.save();
  g.translate(-sight.left, -sight.top);
  if (shift) {
    g.globalAlpha = 0.9;
    g.fillStyle = palette.paper;
    g.fillRect(sight.left, placed[0]!.y + shift - HEIGHT / 2 + 4, sight.width, HEIGHT * placed.length);
    g.globalAlpha = 1;
  }
  for (const each of placed) draw(g, { ...each, y: each.y + shift }, sight, palette);
  g.restore();
}

function draw(g: CanvasRenderingContext2D, { way, y, begin, stops }: PlacedWay, sight: Sight, palette: Palette): void {
  const { ghost, lane } = way,
    color = palette.focus;
  set(g, { color, width: ghost ? 1.6 : 2.2, dash: ghost ? [2, 4] : [], alpha: 1 });
  g.beginPath();
  g.moveTo(begin.x, begin.y);
  g.lineTo(begin.leave, begin.y);
  const drop = Math.min(begin.leave, begin.bend);
  g.bezierCurveTo(drop, (begin.y + y) / 2, drop, y, Math.max(begin.bend, drop), y);
  for (const [at, { x, width }] of stops.entries()) {
    if (at) {
      const last = stops[at - 1]!;
      g.moveTo(last.x + last.width / 2, y);
    }
    g.lineTo(x - width / 2, y);
  }
  g.stroke();
  g.setLineDash([]);
  if (!stops.length) {
    says(g, Math.max(begin.bend, drop) + 6, y, "…", palette);
    return;
  }
  for (const [at, { x, label, width }] of stops.entries()) {
    const half = label ? PILL_HALF : 5;
    g.beginPath();
    g.roundRect(x - width / 2, y - half, width, half * 2, lane!.ended && at === stops.length - 1 ? 2 : half);
    g.fillStyle = palette.paper;
    g.fill();
    set(g, { color, width: 1.2, dash: ghost ? [2, 3] : [], alpha: 1 });
    g.stroke();
    g.setLineDash([]);
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.fillStyle = color;
    g.font = `12px ${palette.font}`;
    g.fillText(label, x, y + 0.5, Math.max(8, width - 6));
    g.font = `10px ${palette.font}`;
    haloed(g, fixed(lane!.scores[at]!, 2), x, y + PILL_HALF + 9, palette);
  }
  const end = stops.at(-1)!;
  const over = endOutOfSight(g, way, end, sight, palette);
  if (over) {
    g.fillStyle = palette.paper;
    g.fillRect(over.x - 8, y - HEIGHT / 2 + 2, sight.left + sight.width - over.x + 8, HEIGHT - 4);
    says(g, over.x, y, over.text, palette);
    return;
  }
  says(g, end.x + end.width / 2 + 8, y, ended(way), palette);
  if (!lane!.fell) return;
  g.beginPath();
  circle(g, end.x + end.width / 2 + 4, y, 2.5);
  g.fillStyle = palette.warn;
  g.fill();
}

/** The end of a lane that extends beyond the visible part: its last label and its text, at the edge. */
function endOutOfSight(g: CanvasRenderingContext2D, way: Way, end: Stop, { left, width }: Sight, palette: Palette) {
  const right = left + width - 4;
  g.font = `bold 11px ${palette.font}`;
  if (end.x + end.width / 2 + 8 + g.measureText(ended(way)).width <= right) return null;
  const text = `… ${end.label} ${ended(way)} →`;
  return { text, x: right - g.measureText(text).width };
}

/** The text at the end of a lane. */
function ended({ lane, over, difference }: Way): string {
  if (lane!.fell) return `pruned at ${lane!.fell[0]}`;
  if (!over) return "…";
  if (difference == null) return "";
  return `${difference > 0 ? "+" : ""}${fixed(difference, 2)}`;
}

function says(g: CanvasRenderingContext2D, x: number, y: number, text: string, palette: Palette): void {
  if (!text) return;
  g.font = `bold 11px ${palette.font}`;
  g.textAlign = "left";
  g.textBaseline = "middle";
  haloed(g, text, x, y, palette, palette.focus);
}
