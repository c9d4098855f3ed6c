// Puts a layout on a canvas: only what is in sight, one stroke per style, and of a large search one cell per pixel column and lane, so that
// 64 beams x 500 steps take a few milliseconds.

import { shorten as cutTo } from "../labels";
import { fixed } from "../number";
import type { Palette } from "../theme";
import type { Layout, PlacedCut, PlacedNode } from "./layout";
import { LONGEST_ON_END, nearest } from "./layout";
import type { Node } from "./tree";

export interface Scene {
  left: number;
  top: number;
  width: number;
  height: number; // the part in sight
  path: Set<Node>; // of what the cursor is on
  cursor: string; // key of the cursor
  ranks: Map<Node, number>; // place of a complete hypothesis in the n-best list
  rail: Node[]; // the hypothesis whose tokens stand on top
  axis: string; // what the steps are
  reference: { path: Set<Node>; last: Node | null; fell: string } | null; // where it went, and where it fell
}

/** What does not depend on the cursor: all edges, cut candidates and dots. Kept as a picture while the cursor moves. */
export function drawBase(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  inSight(g, made, scene, (nodes, cuts) => {
    if (made.cells) return cells(g, made, nodes, palette);
    edges(g, made, nodes, palette);
    cutStubs(g, made, cuts, scene, palette);
    g.fillStyle = palette.muted;
    circle(g, made.root.x, made.root.y, made.labels ? 4 : Math.max(made.half, 1.5));
    g.fill();
    if (!made.labels) dots(g, made, nodes, palette, false);
  });
}

const isFaint = ({ state }: Node): boolean => state === "dead" || state === "dropped";

/** Per pixel column and lane what is there that matters most, and the moves from lane to lane of what did not die out. */
function cells(g: CanvasRenderingContext2D, made: Layout, nodes: PlacedNode[], palette: Palette): void {
  const pitch = (made.lanes[1] ?? made.lanes[0]! + 12) - made.lanes[0]!,
    half = Math.max(1, pitch * 0.36),
    lanes = made.lanes.length;
  const kinds = new Map<number, number>(),
    moves = new Set<number>();
  g.beginPath();
  for (const { node, x, fromX, fromY, y } of nodes) {
    const column = Math.floor(x),
      key = column * lanes + node.slot;
    kinds.set(key, Math.max(kinds.get(key) ?? 0, isFaint(node) ? 1 : node.state === "ended" ? 3 : 2));
    const from = node.parent?.slot ?? 0,
      move = key * lanes + from;
    if (isFaint(node) || from === node.slot || moves.has(move)) continue;
    moves.add(move);
    g.moveTo(fromX, fromY);
    g.lineTo(x, y);
  }
  set(g, { color: palette.muted, width: 0.6, dash: [], alpha: 0.8 });
  g.stroke();
  set(g, { color: palette.muted, width: 1, dash: [], alpha: 1 });
  const wide = Math.max(1, (made.x[1] ?? made.x[0]! + 4) - made.x[0]! - 0.5);
  for (const [kind, color, tall] of [
    [1, palette.line, half],
    [2, palette.muted, half],
    [3, palette.ink, half * 1.25],
  ] as const) {
    g.fillStyle = color;
    g.beginPath();
    for (const [key, here] of kinds)
      if (here === kind) g.rect(Math.floor(key / lanes), made.lanes[key % lanes]! - tall, wide, tall * 2);
    g.fill();
  }
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
    if (scene.reference) {
      const path = nodes.filter((placed) => scene.reference!.path.has(placed.node));
      stroke(g, made, path, { color: palette.ink, width: made.labels ? 2 : 1.5, dash: [5, 4], alpha: 1 });
    }
    if (made.labels) for (const placed of nodes) pill(g, placed, scene, palette);
    else dots(g, made, nodes, palette, true);
    if (made.tokens && !made.labels) tokens(g, nodes, scene, palette);
    ring(g, made, nodes, cuts, scene, palette);
    if (scene.reference) reference(g, made, nodes, scene.reference, palette);
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
    const faint = isFaint(placed.node);
    const bold = made.labels ? Math.round(share * 4) : 0; // width says how much of the probability went here
    const key = state === "carried" ? "carried" : faint ? "faint" : `live${bold}`;
    const style =
      state === "carried"
        ? { color: palette.muted, width: thin, dash: [1, 4], alpha: 0.8 }
        : faint
          ? { color: palette.muted, width: thin * 0.7, dash: [], alpha: 0.7 }
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
  for (const placed of of) curve(g, placed, placed.x - (made.labels ? placed.width / 2 : 0));
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

/** Level within the columns, where text stands, and from one height to the other between them. */
function curve(g: CanvasRenderingContext2D, { fromX, fromY, bendFrom, bendTo, y }: PlacedNode, to: number): void {
  g.moveTo(fromX, fromY);
  if (fromY === y) return g.lineTo(to, y);
  const middle = (bendFrom + bendTo) / 2;
  if (bendFrom > fromX) g.lineTo(bendFrom, fromY);
  g.bezierCurveTo(middle, fromY, middle, y, bendTo, y);
  if (to > bendTo) g.lineTo(to, y);
}

function cutStubs(g: CanvasRenderingContext2D, made: Layout, all: PlacedCut[], scene: Scene, palette: Palette): void {
  joins(g, made, all, scene, palette);
  const cuts = all.filter(({ join }) => !join);
  if (!cuts.length) return;
  set(g, { color: palette.muted, width: made.labels ? 1 : 0.7, dash: made.labels ? [3, 3] : [2, 2], alpha: 0.85 });
  g.beginPath();
  for (const stub of cuts) {
    g.moveTo(stub.fromX, stub.fromY);
    g.quadraticCurveTo(stub.fromX + (made.labels ? 7 : 2), stub.y, stub.x - (made.labels ? 13 : 0), stub.y);
  }
  g.stroke();
  set(g, { color: palette.muted, width: 1.2, dash: [], alpha: 1 });
  if (!made.labels) return;
  g.textAlign = "left";
  g.textBaseline = "middle";
  for (const stub of cuts) {
    const here = scene.cursor === `${stub.cut.step},cut${stub.cut.index}`;
    g.font = `${here ? "bold " : ""}11px ${palette.font}`;
    haloed(g, stub.label, stub.x, stub.y + 0.5, palette, here ? palette.focus : palette.muted);
    g.strokeStyle = g.fillStyle = here ? palette.focus : palette.muted;
    g.lineWidth = 1.2;
    g.beginPath();
    glyph(g, stub.x - 7, stub.y, stub.cut.why);
    g.stroke();
    const width = g.measureText(stub.label).width;
    if (here) underline(g, stub.x, stub.y + 7, width);
    if (!stub.margin) continue;
    g.font = `italic 9px ${palette.font}`;
    haloed(g, stub.margin, stub.x + width + 5, stub.y + 0.5, palette);
  }
}

/** What was merged: an edge that ends where the other begins, with the sign of that. */
function joins(g: CanvasRenderingContext2D, made: Layout, cuts: PlacedCut[], scene: Scene, palette: Palette): void {
  for (const { cut, fromX, fromY, join } of cuts) {
    if (!join) continue;
    const here = scene.cursor === `${cut.step},cut${cut.index}`,
      end = join.x - (made.labels ? 9 : 1),
      middle = (fromX + end) / 2;
    set(g, { color: here ? palette.focus : palette.muted, width: here ? 2 : 1.2, dash: [1, 3], alpha: 1 });
    g.beginPath();
    g.moveTo(fromX, fromY);
    g.bezierCurveTo(middle, fromY, middle, join.y, end, join.y);
    g.stroke();
    if (!made.labels) continue;
    g.setLineDash([]);
    g.beginPath();
    glyph(g, join.x - 6, join.y, "merged");
    g.stroke();
  }
  set(g, { color: palette.muted, width: 1, dash: [], alpha: 1 });
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
  const faint = isFaint(node);
  const complete = node.state === "ended" || node.state === "dropped";
  const half = 11,
    round = complete ? 2 : half;
  g.beginPath();
  g.roundRect(x - width / 2, y - half, width, half * 2, round);
  g.fillStyle = won ? palette.accent : palette.paper;
  g.fill();
  g.strokeStyle = won ? palette.accent : scene.path.has(node) ? palette.focus : faint ? palette.muted : palette.ink;
  g.lineWidth = scene.path.has(node) ? 1.8 : 1;
  g.setLineDash(faint ? [3, 2] : []);
  g.stroke();
  g.setLineDash([]);
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
  const sort = (placed: PlacedNode) => (placed.won ? "won" : isFaint(placed.node) ? "faint" : "live");
  for (const [kind, color] of [
    ["faint", palette.muted],
    ["live", palette.ink],
    ["won", palette.accent],
  ] as const) {
    if ((kind === "won") !== won) continue;
    g.fillStyle = color;
    g.beginPath();
    for (const placed of nodes) {
      if (placed.label || placed.node.state === "carried" || sort(placed) !== kind) continue;
      // The larger, the more of the probability in its step; what died out is smallest.
      const share = kind === "faint" ? 0.45 : 0.6 + 0.4 * Math.min(1, placed.node.share * 4);
      const r = kind === "won" ? Math.max(made.half, 2) : made.half * share;
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

/** In an overview, tokens in the place of dots, where they fit between the edges. */
function tokens(g: CanvasRenderingContext2D, nodes: PlacedNode[], scene: Scene, palette: Palette): void {
  g.textAlign = "center";
  g.textBaseline = "middle";
  for (const { node, label, x, y, width, won } of nodes) {
    if (!label) continue;
    g.fillStyle = won ? palette.accent : palette.paper;
    g.beginPath();
    g.roundRect(x - width / 2 - 1, y - 7, width + 2, 14, 3);
    g.fill();
    if (node.state === "ended") {
      g.strokeStyle = palette.ink;
      g.lineWidth = 1;
      g.stroke();
    }
    g.font = `${won ? "bold " : isFaint(node) ? "italic " : ""}10px ${palette.font}`;
    g.fillStyle = won
      ? palette.onAccent
      : scene.path.has(node)
        ? palette.focus
        : isFaint(node)
          ? palette.muted
          : palette.ink;
    g.fillText(label, x, y + 0.5);
  }
}

/** An "R" at what is a begin of the reference, and words where it fell out of the beam. */
function reference(
  g: CanvasRenderingContext2D,
  made: Layout,
  nodes: PlacedNode[],
  { path, last, fell }: NonNullable<Scene["reference"]>,
  palette: Palette,
): void {
  g.textBaseline = "middle";
  const at = (x: number, y: number, text: string) => {
    g.font = `bold 10px ${palette.font}`;
    g.textAlign = "left";
    haloed(g, text, x, y, palette, palette.warn);
  };
  for (const { node, x, y, width } of nodes) {
    if (!path.has(node) || (!made.labels && node !== last)) continue;
    const words = node === last && fell ? ` ${fell}` : "";
    at(made.labels ? x - width / 2 - 4 : x + 4, y - made.half - (made.labels ? 5 : 7), `R${words}`);
  }
  if (!last && fell) at(made.root.x - 4, made.root.y - 16, `R ${fell}`);
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

/** What stays where it is while the rest scrolls: the numbers of steps and slots, and the tokens of a hypothesis on end. */
function axis(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  const [first, last] = range(made, scene);
  g.fillStyle = palette.paper;
  g.fillRect(0, 0, scene.width, made.axis);
  g.fillStyle = palette.muted;
  g.font = `10px ${palette.font}`;
  g.textBaseline = "middle";
  g.textAlign = "center";
  for (let step = first; step <= last; step++) {
    const x = made.x[step]! - scene.left;
    if (step % made.every === 0 && x > 36) g.fillText(String(step), x, AXIS_AT);
  }
  if (made.rail) rail(g, made, scene, palette);
  g.textAlign = "left";
  g.font = `10px ${palette.font}`;
  g.fillStyle = palette.muted;
  g.fillText(scene.axis, 4, AXIS_AT);
  const pitch = (made.lanes[1] ?? Infinity) - (made.lanes[0] ?? 0);
  const every = Math.max(1, Math.ceil(12 / pitch));
  g.fillStyle = palette.paper;
  if (scene.left > 0) g.fillRect(0, made.axis, 26, scene.height); // what has scrolled away does not shine through the slot numbers
  if (scene.top < 8) haloed(g, "slot", 4, made.axis + 6 - scene.top, palette);
  made.lanes.forEach((y, slot) => {
    if (slot % every === 0 && y - scene.top > made.axis + 4) haloed(g, String(slot), 6, y - scene.top, palette);
  });
}

const AXIS_AT = 9;

function rail(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  g.textAlign = "left";
  const pointed = scene.rail.some((node) => scene.path.has(node));
  for (const node of scene.rail) {
    const x = made.x[node.step]! - scene.left;
    if (x < 30 || x > scene.width) continue;
    g.save();
    g.translate(x, made.axis - 3);
    g.rotate(-Math.PI / 2);
    g.font = `bold 10px ${palette.font}`;
    g.fillStyle = pointed ? palette.focus : palette.accent;
    g.fillText(cutTo(node.token, LONGEST_ON_END), 0, 0);
    g.restore();
  }
}
