// A search with its tokens: each in a pill with its score, and the best pruned candidates below their parent.

import { haloed } from "../canvas";
import { fixed } from "../number";
import type { Palette } from "../theme";
import type { Scene } from "./draw";
import type { Layout, PlacedCut, PlacedNode } from "./layout";
import { circle, curve, isFaint, LOST, set } from "./strokes";

export function pill(
  g: CanvasRenderingContext2D,
  made: Layout,
  placed: PlacedNode,
  scene: Scene,
  palette: Palette,
): void {
  const { node, x, y, width, won } = placed;
  const here = scene.cursor === `${node.step},${node.slot}`,
    pointed = scene.path.has(node);
  g.globalAlpha = scene.inside && !scene.inside(node) && !here ? LOST : 1;
  if (node.state === "carried") {
    g.strokeStyle = here ? palette.focus : palette.muted;
    g.fillStyle = palette.paper;
    g.lineWidth = here ? 2 : 1;
    g.beginPath();
    circle(g, x, y, here ? 4.5 : 3);
    g.fill();
    g.stroke();
    g.globalAlpha = 1;
    return;
  }
  const faint = isFaint(node),
    complete = node.state === "ended" || node.state === "dropped";
  // A hypothesis without a new label has a small hollow dot instead of a pill.
  const half = node.written ? made.half : width / 2,
    round = complete ? 2 : half;
  g.beginPath();
  g.roundRect(x - width / 2, y - half, width, half * 2, round);
  g.fillStyle = won && node.written ? palette.accent : palette.paper;
  g.fill();
  g.strokeStyle = won ? palette.accent : pointed ? palette.focus : faint ? palette.muted : palette.ink;
  g.lineWidth = (pointed ? 1.8 : 1) + (won && !node.written ? 1 : 0);
  g.setLineDash(faint ? [3, 2] : []);
  g.stroke();
  g.setLineDash([]);
  if (complete) {
    // a second frame means: complete
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
  if (node.written) {
    g.fillStyle = won ? palette.onAccent : faint ? palette.muted : palette.ink;
    g.font = `${won ? "bold " : ""}12px ${palette.font}`;
    g.fillText(placed.label, x, y + 0.5);
  }
  g.font = `10px ${palette.font}`;
  haloed(g, fixed(node.score, 2), x, y + made.half + (complete || here ? 12 : 9), palette);
  const rank = scene.ranks.get(node);
  if (rank !== undefined) flag(g, x + width / 2 + 3, y - half - 3, rank, won, palette);
  g.globalAlpha = 1;
}

/** The rank in the n-best list, at the corner of a complete hypothesis. */
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

export function cutStubs(
  g: CanvasRenderingContext2D,
  made: Layout,
  all: PlacedCut[],
  scene: Scene,
  palette: Palette,
): void {
  joins(g, made, all, scene, palette);
  const cuts = all.filter(({ join }) => !join);
  if (!cuts.length) return;
  set(g, { color: palette.muted, width: made.labels ? 1 : 0.7, dash: made.labels ? [3, 3] : [2, 2], alpha: 0.85 });
  g.beginPath();
  for (const stub of cuts) {
    g.moveTo(stub.fromX, stub.fromY);
    g.lineTo(stub.bendFrom, stub.fromY);
    g.quadraticCurveTo(stub.bendFrom + (made.labels ? 7 : 2), stub.y, stub.x - (made.labels ? 13 : 0), stub.y);
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

/** A merged hypothesis: an edge that ends where the other begins, with a merge sign. */
function joins(g: CanvasRenderingContext2D, made: Layout, cuts: PlacedCut[], scene: Scene, palette: Palette): void {
  for (const stub of cuts) {
    const { cut, join } = stub;
    if (!join) continue;
    const here = scene.cursor === `${cut.step},cut${cut.index}`;
    set(g, { color: here ? palette.focus : palette.muted, width: here ? 2 : 1.2, dash: [1, 3], alpha: 1 });
    g.beginPath();
    curve(g, { ...stub, y: join.y }, join.x - (made.labels ? 9 : 1));
    g.stroke();
    if (!made.labels) continue;
    g.setLineDash([]);
    g.beginPath();
    glyph(g, join.x - 6, join.y, "merged");
    g.stroke();
  }
  set(g, { color: palette.muted, width: 1, dash: [], alpha: 1 });
}

/** The reason for pruning: a cross for rank, a circle with a bar for blocked, a triangle for the threshold, joining lines for merged. */
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
