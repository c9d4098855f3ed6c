// The overview of a search: a dot or token for each hypothesis, or a cell where edges do not fit.

import type { Palette } from "../theme";
import type { Scene } from "./draw";
import type { Layout, PlacedNode } from "./layout";
import { circle, isFaint, LOST, set } from "./strokes";

/** Filled, or hollow if no label was written. `won`: only those of the winner, else all others. */
export function dots(
  g: CanvasRenderingContext2D,
  made: Layout,
  nodes: PlacedNode[],
  { inside }: Scene,
  palette: Palette,
  won = false,
): void {
  const kinds = new Map<string, PlacedNode[]>();
  for (const placed of nodes) {
    const { node } = placed;
    if (placed.label || node.state === "carried" || placed.won !== won) continue;
    const kind = `${won ? "won" : isFaint(node) ? "faint" : "live"},${node.written},${!!inside && !inside(node)}`;
    const group = kinds.get(kind);
    if (group) group.push(placed);
    else kinds.set(kind, [placed]);
  }
  const wide = Math.max(0.7, made.half * 0.35);
  for (const [key, group] of kinds) {
    const [kind, written, lost] = key.split(",");
    const color = kind === "won" ? palette.accent : kind === "faint" ? palette.muted : palette.ink;
    g.beginPath();
    for (const { node, x, y } of group) {
      // The size shows the probability within the step; dead hypotheses are smallest.
      const share = kind === "faint" ? 0.45 : 0.6 + 0.4 * Math.min(1, node.share * 4),
        full = kind === "won" ? Math.max(made.half, 2) : made.half * share,
        r = written === "true" ? full : Math.max(0.6, full - wide / 2);
      if (node.state === "ended")
        g.rect(x - Math.max(r, 2), y - Math.max(r, 2), Math.max(r, 2) * 2, Math.max(r, 2) * 2);
      else circle(g, x, y, r);
    }
    g.globalAlpha = lost === "true" ? LOST : 1;
    g.fillStyle = written === "true" ? color : palette.paper;
    g.fill();
    if (written !== "true") set(g, { color, width: wide, dash: [], alpha: g.globalAlpha });
    if (written !== "true") g.stroke();
  }
  g.globalAlpha = 1;
}

/** Tokens instead of dots in an overview, where they fit between the edges. */
export function tokens(g: CanvasRenderingContext2D, nodes: PlacedNode[], scene: Scene, palette: Palette): void {
  g.textAlign = "center";
  g.textBaseline = "middle";
  for (const { node, label, x, y, width, won } of nodes) {
    if (!label) continue;
    g.globalAlpha = scene.inside && !scene.inside(node) ? LOST : 1;
    if (won || node.state === "ended") {
      g.fillStyle = won ? palette.accent : palette.paper;
      g.beginPath();
      g.roundRect(x - width / 2 - 1, y - 7, width + 2, 14, 3);
      g.fill();
      if (node.state === "ended") {
        g.strokeStyle = palette.ink;
        g.lineWidth = 1;
        g.stroke();
      }
    }
    const faint = isFaint(node);
    g.font = `${won ? "bold " : faint ? "italic " : ""}10px ${palette.font}`;
    g.fillStyle = won ? palette.onAccent : scene.path.has(node) ? palette.focus : faint ? palette.muted : palette.ink;
    g.fillText(label, x, y + 0.5);
  }
  g.globalAlpha = 1;
}

/** The content of each step and lane, and the lines between lanes of hypotheses that survive: a step has at least one pixel. */
export function cells(
  g: CanvasRenderingContext2D,
  made: Layout,
  { inside }: Scene,
  [first, last]: [number, number],
  palette: Palette,
): void {
  const { x, lanes } = made,
    pitch = made.lane,
    half = Math.max(1, pitch * 0.36),
    step = (x[1] ?? x[0]! + 4) - x[0]!;
  const kinds: number[][] = [[], [], [], []]; // the positions of each: left and slot
  const edge = (at: number) => Math.floor(x[0]! + (at - 0.5) * step);
  g.beginPath();
  for (let at = first; at <= last; at++)
    for (const node of made.nodes[at]!) {
      if (!node) continue;
      const lost = !!inside && !inside(node),
        faint = isFaint(node);
      kinds[lost ? 0 : faint ? 1 : node.state === "ended" ? 3 : 2]!.push(at, node.slot);
      const from = node.parent?.slot ?? 0;
      if (lost || faint || from === node.slot) continue;
      g.moveTo(at ? x[at - 1]! : made.root.x, lanes[from]!);
      g.lineTo(x[at]!, lanes[node.slot]!);
    }
  set(g, { color: palette.muted, width: 0.6, dash: [], alpha: 0.8 });
  g.stroke();
  set(g, { color: palette.muted, width: 1, dash: [], alpha: 1 });
  const colors = [palette.line, palette.line, palette.muted, palette.ink];
  kinds.forEach((places, kind) => {
    const tall = kind === 3 ? half * 1.25 : kind ? half : half * 0.3;
    g.fillStyle = colors[kind]!;
    g.beginPath();
    for (let at = 0; at < places.length; at += 2) {
      const left = edge(places[at]!);
      g.rect(left, lanes[places[at + 1]!]! - tall, edge(places[at]! + 1) - left - (step >= 3 ? 1 : 0), tall * 2);
    }
    g.fill();
  });
}

/** The frame of the cursor's place without a pill. */
export function ring(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  const [step, rest] = scene.cursor.split(",");
  const node = made.nodes[Number(step)]?.[Number(rest)],
    here = node ? made.at(node) : made.cuts[Number(step)]?.find(({ cut }) => rest === `cut${cut.index}`);
  if (!here) return;
  g.strokeStyle = palette.focus;
  g.lineWidth = 2;
  g.beginPath();
  circle(g, here.x, here.y, made.half + 4);
  g.stroke();
}
