// Draws a layout on a canvas: only the visible part, and whatever does not depend on the cursor only once.

import { haloed } from "../canvas";
import { MARK } from "../handles";
import { shorten as cutTo } from "../labels";
import type { Palette } from "../theme";
import { cells, dots, ring, tokens } from "./dots";
import type { Layout, PlacedNode } from "./layout";
import { LONGEST_ON_END, nearest } from "./layout";
import { cutStubs, pill } from "./pills";
import { circle, edges, LOST, set, stroke } from "./strokes";
import type { Arms, Node } from "./tree";
import { repeatOf } from "./tree";

export interface Scene {
  left: number;
  top: number;
  width: number;
  height: number; // the visible part
  best: Node[]; // the path of the winner
  path: Set<Node>; // of the place of the cursor
  cursor: string; // key of the cursor
  ranks: Map<Node, number>; // rank of a complete hypothesis in the n-best list
  rail: Node[]; // the hypothesis whose tokens are shown on top
  axis: string; // the name of the steps' axis
  editedSteps: Set<number>; // steps with an edit
  reference: { path: Set<Node>; last: Node | null; pruning: string } | null; // its path, and a note if it was pruned
  inside: ((node: Node) => boolean) | null; // whether a smaller beam would have kept it; null: not requested
  arms: Arms | undefined; // for two searches in one
  smaller: { lost: Node | null; best: Node[]; words: string } | null; // where it loses the winner, and its result
}

/** The layer that does not depend on the cursor: edges, pruned candidates, dots and their tokens. Cached as an image while the cursor moves. */
export function drawBase(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  inSight(g, made, scene, ([first, last]) => {
    const nodes = made.columns.slice(first, last + 1).flat();
    if (made.cells) cells(g, made, scene, [first, last], palette);
    else {
      edges(g, made, nodes, scene, palette);
      const shown = made.cuts.slice(first, last + 1).flat(),
        { inside } = scene;
      const cuts = inside ? shown.filter(({ cut }) => !cut.parent || inside(cut.parent)) : shown;
      cutStubs(g, made, cuts, scene, palette);
      g.fillStyle = palette.muted;
      g.beginPath();
      circle(g, made.root.x, made.root.y, made.labels ? 4 : Math.max(made.half, 1.5));
      g.fill();
    }
    const won = placed(made, scene.best, first, last);
    const lost = won.filter(({ node }) => scene.inside && !scene.inside(node)),
      line = { color: palette.accent, width: strong(made), dash: [], alpha: 1 };
    stroke(g, made, lost, { ...line, alpha: LOST });
    stroke(g, made, lost.length ? won.filter(({ node }) => scene.inside!(node)) : won, line);
    if (made.parting) parting(g, made, scene, made.parting, palette);
    if (made.labels) return;
    dots(g, made, nodes, scene, palette);
    dots(g, made, won, scene, palette, true);
    g.font = `9px ${palette.font}`;
    g.textAlign = "center";
    g.textBaseline = "middle";
    for (const { x, y, label } of made.turns)
      if (x >= made.x[first]! && x <= made.x[last]!) haloed(g, label, x, y, palette, palette.ink);
    if (made.tokens) tokens(g, nodes, scene, palette);
  });
}

/** The layer above: the paths of the cursor and the reference, the pills, the axis. */
export function drawTop(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  inSight(g, made, scene, ([first, last]) => {
    const of = (path: Iterable<Node>) => placed(made, path, first, last),
      path = of(scene.path);
    stroke(g, made, path, { color: palette.focus, width: strong(made) * 0.4 + 0.6, dash: [], alpha: 1 });
    if (scene.smaller)
      stroke(g, made, of(scene.smaller.best), { color: palette.accent, width: 2, dash: [7, 4], alpha: 1 });
    const line = { color: palette.ink, width: made.labels ? 2 : 1.5, dash: [5, 4], alpha: 1 };
    if (scene.reference) stroke(g, made, of(scene.reference.path), line);
    if (made.labels) for (const each of made.columns.slice(first, last + 1).flat()) pill(g, made, each, scene, palette);
    else {
      if (made.tokens) tokens(g, path, scene, palette);
      ring(g, made, scene, palette);
    }
    if (scene.reference) reference(g, made, of(scene.reference.path), scene.reference, palette);
    if (scene.smaller?.lost) {
      const [at] = of([scene.smaller.lost]);
      if (at) says(g, at.x - (made.labels ? at.width / 2 + 4 : -4), at.y - made.half - 4, scene.smaller.words, palette);
    }
  });
  axis(g, made, scene, palette);
}

/** A line across the steps where two searches diverge, and one between them with their names. */
function parting(
  g: CanvasRenderingContext2D,
  made: Layout,
  { arms, left, width }: Scene,
  { x, y }: { x: number; y: number },
  palette: Palette,
): void {
  set(g, { color: palette.muted, width: 1, dash: [2, 3], alpha: 1 });
  g.beginPath();
  g.moveTo(x, made.axis);
  g.lineTo(x, made.height);
  g.moveTo(x, y);
  g.lineTo(made.width, y);
  g.stroke();
  g.setLineDash([]);
  g.font = `bold 11px ${palette.font}`;
  g.textAlign = "right";
  g.textBaseline = "middle";
  const right = Math.min(made.width, left + width) - 6;
  arms!.names.forEach((name, arm) =>
    haloed(g, `${"AB"[arm]}: ${cutTo(name, 40)}`, right, y + (arm ? 10 : -9), palette, palette.ink),
  );
}

const strong = (made: Layout): number => (made.labels ? 6 : Math.max(2, made.half * 1.5));

function inSight(
  g: CanvasRenderingContext2D,
  made: Layout,
  scene: Scene,
  paint: (steps: [number, number]) => void,
): void {
  g.save();
  g.translate(-scene.left, -scene.top);
  paint(range(made, scene));
  g.restore();
}

const range = (made: Layout, scene: Scene): [number, number] => [
  Math.max(0, nearest(made.x, scene.left) - 1),
  Math.min(made.x.length - 1, nearest(made.x, scene.left + scene.width) + 1),
];

/** The nodes of a path in these steps. */
const placed = (made: Layout, path: Iterable<Node>, first: number, last: number): PlacedNode[] =>
  [...path].filter(({ step }) => step >= first && step <= last).map(made.at);

const REFERENCE = "ref"; // no letter: where labels are phones that is one of them

/** "ref" at prefixes of the reference, and a note where it was pruned. */
function reference(
  g: CanvasRenderingContext2D,
  made: Layout,
  nodes: PlacedNode[],
  { last, pruning }: NonNullable<Scene["reference"]>,
  palette: Palette,
): void {
  for (const { node, x, y, width } of nodes) {
    if (!made.labels && node !== last) continue;
    const words = node === last && pruning ? ` ${pruning}` : "";
    says(
      g,
      made.labels ? x - width / 2 - 4 : x + 4,
      y - made.half - (made.labels ? 4 : 7),
      `${REFERENCE}${words}`,
      palette,
    );
  }
  if (!last && pruning) says(g, made.root.x - 4, made.root.y - 16, `${REFERENCE} was pruned at once`, palette);
}

function says(g: CanvasRenderingContext2D, x: number, y: number, words: string, palette: Palette): void {
  g.font = `bold 9px ${palette.font}`;
  g.textAlign = "left";
  g.textBaseline = "middle";
  haloed(g, words, x, y, palette, palette.warn);
}

/** The parts that do not scroll: the numbers of steps and slots, and the upright tokens of a hypothesis. */
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
    const byHand = scene.editedSteps.has(step);
    g.fillStyle = byHand ? palette.focus : palette.muted;
    if ((byHand || step % made.every === 0) && x > 36) g.fillText(byHand ? `${MARK} ${step}` : `${step}`, x, AXIS_AT);
  }
  if (made.rail) rail(g, made, scene, palette);
  g.textAlign = "left";
  g.font = `10px ${palette.font}`;
  g.fillStyle = palette.muted;
  g.fillText(scene.axis, 4, AXIS_AT);
  const every = Math.max(1, Math.ceil(12 / made.lane));
  g.fillStyle = palette.paper;
  if (scene.left > 0) g.fillRect(0, made.axis, 26, scene.height); // hides scrolled content below the slot numbers
  if (scene.top < 8) haloed(g, "slot", 4, made.axis + 6 - scene.top, palette);
  const split = scene.arms?.split ?? Infinity;
  made.lanes.forEach((y, lane) => {
    const slot = lane < split ? lane : lane - split;
    if (slot % every === 0 && y - scene.top > made.axis + 4) haloed(g, String(slot), 6, y - scene.top, palette);
  });
}

const AXIS_AT = 9;

function rail(g: CanvasRenderingContext2D, made: Layout, scene: Scene, palette: Palette): void {
  g.textAlign = "left";
  const pointed = scene.rail.some((node) => scene.path.has(node)),
    repeat = repeatOf(scene.rail.map(({ token }) => token));
  g.fillStyle = palette.warn;
  for (let time = 0; repeat && time < repeat.times; time++) {
    // a line below each repetition of a loop
    const from = repeat.start + time * repeat.period,
      [begin, end] = [scene.rail[from]!, scene.rail[from + repeat.period - 1]!].map(({ step }) => made.x[step]!);
    if (begin! - 5 > scene.left + 24) g.fillRect(begin! - 5 - scene.left, made.axis - 1, end! - begin! + 10, 2);
  }
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
