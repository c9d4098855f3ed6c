// Puts a layout on a canvas: only what is in sight, one stroke per style, so that 64 beams x 200 steps take a few milliseconds.

import { fixed } from "../number";
import type { Palette } from "../theme";
import type { Layout, PlacedCut, PlacedNode } from "./layout";
import { nearest } from "./layout";
import type { Node } from "./tree";

export interface Scene {
  left: number;
  top: number;
  width: number;
  height: number; // the part in sight
  path: Set<Node>; // of what the cursor is on
  cursor: string; // key of the cursor
  ranks: Map<Node, number>; // place of a complete hypothesis in the n-best list
}

/** What does not depend on the cursor: all edges, cut candidates and dots. Kept as a picture while the cursor moves. */
export function drawBase(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  inSight(g, made, scene, (nodes, cuts) => {
    edges(g, made, nodes, palette);
    cutStubs(g, made, cuts, scene, palette);
    g.fillStyle = palette.muted;
    circle(g, made.root.x, made.root.y, made.labels ? 4 : Math.max(made.half, 1.5));
    g.fill();
    if (!made.labels) dots(g, made, nodes, palette, false);
  });
}

/** What lies above: the winner's path, the path of the cursor, the pills, the axis. */
export function drawTop(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  inSight(g, made, scene, (nodes, cuts) => {
    const strong = made.labels ? 6 : Math.max(2, made.half * 1.5);
    stroke(
      g,
      made,
      nodes.filter((placed) => placed.won),
      { color: palette.accent, width: strong, dash: [], alpha: 1 },
    );
    stroke(
      g,
      made,
      nodes.filter((placed) => scene.path.has(placed.node)),
      { color: palette.focus, width: strong * 0.4 + 0.6, dash: [], alpha: 1 },
    );
    if (made.labels) for (const placed of nodes) pill(g, placed, scene, palette);
    else dots(g, made, nodes, palette, true);
    ring(g, made, nodes, cuts, scene, palette);
  });
  axis(g, made, scene, palette);
}

function inSight(
  g: CanvasRenderingContext2D,
  made: Layout,
  scene: Scene,
  paint: (nodes: PlacedNode[], cuts: PlacedCut[]) => void,
): void {
  g.save();
  g.translate(-scene.left, -scene.top);
  const [first, last] = range(made, scene);
  paint(made.columns.slice(first, last + 1).flat(), made.cuts.slice(first, last + 1).flat());
  g.restore();
}

const range = (made: Layout, scene: Scene): [number, number] => [
  Math.max(0, nearest(made.x, scene.left) - 1),
  Math.min(made.x.length - 1, nearest(made.x, scene.left + scene.width) + 1),
];

type Style = { color: string; width: number; dash: number[]; alpha: number };

function edges(g: CanvasRenderingContext2D, made: Layout, nodes: PlacedNode[], palette: Palette): void {
  const thin = made.labels ? 1 : Math.max(0.4, Math.min(1, made.half * 0.5));
  const groups = new Map<string, { style: Style; of: PlacedNode[] }>();
  for (const placed of nodes) {
    const { state, share } = placed.node;
    const faint = state === "dead" || state === "dropped";
    const bold = made.labels ? Math.round(share * 4) : 0; // width says how much of the probability went here
    const key = state === "carried" ? "carried" : faint ? "faint" : `live${bold}`;
    const style =
      state === "carried"
        ? { color: palette.muted, width: thin, dash: [1, 4], alpha: 0.8 }
        : faint
          ? { color: palette.faint, width: thin, dash: [], alpha: 0.75 }
          : { color: palette.muted, width: thin + bold * 0.75, dash: [], alpha: 1 };
    const group = groups.get(key) ?? { style, of: [] };
    group.of.push(placed);
    groups.set(key, group);
  }
  for (const { style, of } of [...groups.values()].sort((a, b) => a.style.alpha - b.style.alpha))
    stroke(g, made, of, style);
}

function stroke(g: CanvasRenderingContext2D, made: Layout, of: PlacedNode[], style: Style): void {
  if (!of.length) return;
  set(g, style);
  g.lineCap = made.labels ? "round" : "butt";
  g.beginPath();
  for (const placed of of)
    curve(g, placed.fromX, placed.fromY, placed.x - (made.labels ? placed.width / 2 : 0), placed.y);
  g.stroke();
  set(g, { color: style.color, width: 1, dash: [], alpha: 1 });
}

function set(g: CanvasRenderingContext2D, style: Style): void {
  g.strokeStyle = style.color;
  g.lineWidth = style.width;
  g.globalAlpha = style.alpha;
  g.lineCap = "round";
  g.setLineDash(style.dash);
}

function curve(g: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  g.moveTo(x0, y0);
  const middle = (x0 + x1) / 2;
  if (y0 === y1) g.lineTo(x1, y1);
  else g.bezierCurveTo(middle, y0, middle, y1, x1, y1);
}

function cutStubs(g: CanvasRenderingContext2D, made: Layout, cuts: PlacedCut[], scene: Scene, palette: Palette): void {
  if (!cuts.length) return;
  set(g, { color: palette.muted, width: made.labels ? 1 : 0.7, dash: made.labels ? [3, 3] : [2, 2], alpha: 0.85 });
  g.beginPath();
  for (const stub of cuts) {
    g.moveTo(stub.fromX, stub.fromY);
    g.quadraticCurveTo(stub.fromX + 7, stub.y, stub.x - (made.labels ? 10 : 0), stub.y);
  }
  g.stroke();
  set(g, { color: palette.muted, width: 1.2, dash: [], alpha: 1 });
  if (!made.labels) return;
  g.textAlign = "left";
  g.textBaseline = "middle";
  for (const stub of cuts) {
    const here = scene.cursor === `${stub.cut.step},cut${stub.cut.index}`;
    g.font = `${here ? "bold " : ""}11px ${palette.font}`;
    haloed(g, stub.label, stub.x + 3, stub.y + 0.5, palette, here ? palette.focus : palette.muted);
    g.strokeStyle = g.fillStyle = here ? palette.focus : palette.muted;
    g.lineWidth = 1.2;
    g.beginPath();
    glyph(g, stub.x - 5, stub.y, stub.cut.why);
    g.stroke();
    const width = g.measureText(stub.label).width;
    if (here) underline(g, stub.x + 3, stub.y + 7, width);
    const { margin } = stub.cut;
    if (margin === null) continue;
    g.font = `9px ${palette.font}`;
    const far = (margin > 0 ? "+" : "−") + Math.abs(margin).toFixed(Math.abs(margin) < 0.005 ? 4 : 2);
    if (width + 5 + g.measureText(far).width <= stub.room)
      haloed(g, far, stub.x + 3 + width + 5, stub.y + 0.5, palette);
  }
}

/** Why it is not there: a cross; blocked, a circle with a bar; below the threshold, a triangle; merged, lines that join. */
function glyph(g: CanvasRenderingContext2D, x: number, y: number, why: string | undefined): void {
  if (why === "blocked") {
    g.arc(x, y, 3.8, 0, Math.PI * 2);
    g.moveTo(x - 2.6, y - 2.6);
    g.lineTo(x + 2.6, y + 2.6);
  } else if (why === "below the threshold") {
    g.moveTo(x - 3.5, y - 3);
    g.lineTo(x + 3.5, y - 3);
    g.lineTo(x, y + 3.5);
    g.closePath();
  } else if (why === "merged") {
    g.moveTo(x - 3.5, y - 3.5);
    g.lineTo(x, y - 3.5);
    g.arc(x, y, 3.5, -Math.PI / 2, Math.PI / 2);
    g.lineTo(x - 3.5, y + 3.5);
  } else {
    g.moveTo(x - 3, y - 3);
    g.lineTo(x + 3, y + 3);
    g.moveTo(x - 3, y + 3);
    g.lineTo(x + 3, y - 3);
  }
}

function underline(g: CanvasRenderingContext2D, x: number, y: number, width: number): void {
  g.beginPath();
  g.moveTo(x, y);
  g.lineTo(x + width, y);
  g.stroke();
}

function pill(g: CanvasRenderingContext2D, placed: PlacedNode, scene: Scene, palette: Palette): void {
  const { node, x, y, width, won } = placed;
  const here = scene.cursor === `${node.step},${node.slot}`;
  if (node.state === "carried") {
    g.strokeStyle = here ? palette.focus : palette.muted;
    g.fillStyle = palette.paper;
    g.lineWidth = here ? 2 : 1;
    circle(g, x, y, here ? 4.5 : 3);
    g.fill();
    g.stroke();
    return;
  }
  const faint = node.state === "dead" || node.state === "dropped";
  const complete = node.state === "ended" || node.state === "dropped";
  const half = 11,
    round = complete ? 2 : half;
  g.beginPath();
  g.roundRect(x - width / 2, y - half, width, half * 2, round);
  g.fillStyle = won ? palette.accent : palette.paper;
  g.fill();
  g.strokeStyle = won ? palette.accent : scene.path.has(node) ? palette.focus : faint ? palette.faint : palette.muted;
  g.lineWidth = scene.path.has(node) ? 1.8 : 1.2;
  g.stroke();
  if (complete) {
    // a second frame says: complete
    g.beginPath();
    g.roundRect(x - width / 2 - 3, y - half - 3, width + 6, half * 2 + 6, 4);
    g.lineWidth = 1.2;
    g.stroke();
  }
  if (here) {
    g.beginPath();
    g.roundRect(x - width / 2 - 5, y - half - 5, width + 10, half * 2 + 10, round + 5);
    g.strokeStyle = palette.focus;
    g.lineWidth = 2;
    g.stroke();
  }
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillStyle = won ? palette.onAccent : faint ? palette.muted : palette.ink;
  g.font = `${won ? "bold " : ""}12px ${palette.font}`;
  g.fillText(placed.label, x, y + 0.5);
  g.font = `10px ${palette.font}`;
  haloed(g, fixed(node.score, 2), x, y + half + (complete || here ? 12 : 9), palette);
  const rank = scene.ranks.get(node);
  if (rank !== undefined) flag(g, x + width / 2 + 3, y - half - 3, rank, won, palette);
}

/** Small text that stays readable on top of lines. */
function haloed(
  g: CanvasRenderingContext2D,
  text: string,
  x: number,
  y: number,
  palette: Palette,
  color = palette.muted,
): void {
  g.strokeStyle = palette.paper;
  g.lineWidth = 3;
  g.lineJoin = "round";
  g.strokeText(text, x, y);
  g.fillStyle = color;
  g.fillText(text, x, y);
}

/** The place in the n-best list, at the corner of a complete hypothesis. */
function flag(g: CanvasRenderingContext2D, x: number, y: number, rank: number, won: boolean, palette: Palette): void {
  g.beginPath();
  circle(g, x, y, 8);
  g.fillStyle = won ? palette.ink : palette.paper;
  g.fill();
  g.strokeStyle = palette.ink;
  g.lineWidth = 1;
  g.stroke();
  g.fillStyle = won ? palette.paper : palette.ink;
  g.font = `bold 10px ${palette.font}`;
  g.fillText(String(rank), x, y + 0.5);
}

function dots(g: CanvasRenderingContext2D, made: Layout, nodes: PlacedNode[], palette: Palette, won: boolean): void {
  const sort = (placed: PlacedNode) =>
    placed.won ? "won" : placed.node.state === "dead" || placed.node.state === "dropped" ? "faint" : "live";
  for (const [kind, color] of [
    ["faint", palette.faint],
    ["live", palette.muted],
    ["won", palette.accent],
  ] as const) {
    if ((kind === "won") !== won) continue;
    g.fillStyle = color;
    g.beginPath();
    for (const placed of nodes) {
      if (placed.node.state === "carried" || sort(placed) !== kind) continue;
      const r = kind === "won" ? Math.max(made.half, 2) : made.half;
      if (placed.node.state === "ended")
        g.rect(placed.x - Math.max(r, 2), placed.y - Math.max(r, 2), Math.max(r, 2) * 2, Math.max(r, 2) * 2);
      else {
        g.moveTo(placed.x + r, placed.y);
        g.arc(placed.x, placed.y, r, 0, Math.PI * 2);
      }
    }
    g.fill();
  }
}

/** Around the place of the cursor where there is no pill. */
function ring(
  g: CanvasRenderingContext2D,
  made: Layout,
  nodes: PlacedNode[],
  cuts: PlacedCut[],
  scene: Scene,
  palette: Palette,
): void {
  if (made.labels) return;
  const here =
    nodes.find((placed) => scene.cursor === `${placed.node.step},${placed.node.slot}`) ??
    cuts.find((stub) => scene.cursor === `${stub.cut.step},cut${stub.cut.index}`);
  if (!here) return;
  g.strokeStyle = palette.focus;
  g.lineWidth = 2;
  circle(g, here.x, here.y, made.half + 4);
  g.stroke();
}

function circle(g: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  g.beginPath();
  g.arc(x, y, r, 0, Math.PI * 2);
}

function axis(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  const [first, last] = range(made, scene);
  g.fillStyle = palette.paper;
  g.fillRect(0, 0, scene.width, made.axis - 2);
  g.fillStyle = palette.muted;
  g.font = `10px ${palette.font}`;
  g.textBaseline = "middle";
  g.textAlign = "center";
  for (let step = first; step <= last; step++) {
    const x = made.x[step]! - scene.left;
    if (step % made.every === 0 && x > 34) g.fillText(String(step), x, made.axis / 2 - 1);
  }
  g.textAlign = "left";
  g.fillText("step", 4, made.axis / 2 - 1);
  const pitch = (made.lanes[1] ?? Infinity) - (made.lanes[0] ?? 0);
  const every = Math.max(1, Math.ceil(12 / pitch));
  g.fillStyle = palette.paper;
  if (scene.left > 0) g.fillRect(0, made.axis - 2, 22, scene.height); // what has scrolled away does not shine through the slot numbers
  made.lanes.forEach((y, slot) => {
    if (slot % every === 0 && y - scene.top > made.axis + 4) haloed(g, String(slot), 6, y - scene.top, palette);
  });
}
