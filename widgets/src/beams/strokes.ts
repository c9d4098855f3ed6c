// Lines of the beam tree.

import type { Palette } from "../theme";
import type { Scene } from "./draw";
import type { Layout, PlacedNode } from "./layout";
import type { Node } from "./tree";

export const isFaint = ({ state }: Node): boolean => state === "dead" || state === "dropped";

/** The opacity of hypotheses that a smaller beam would not have kept. */
export const LOST = 0.35;

export type Style = { color: string; width: number; dash: number[]; alpha: number };

/** The edges from parents, all of one style in one path. */
export function edges(
  g: CanvasRenderingContext2D,
  made: Layout,
  nodes: PlacedNode[],
  { inside }: Pick<Scene, "inside">,
  palette: Palette,
): void {
  const thin = made.labels ? 1 : Math.max(0.4, Math.min(1, made.half * 0.5));
  const groups = new Map<string, { style: Style; of: PlacedNode[] }>();
  for (const placed of nodes) {
    const { state, share } = placed.node;
    const faint = isFaint(placed.node),
      lost = !!inside && !inside(placed.node);
    const bold = made.labels ? Math.round(share * 4) : 0; // the width shows the share of the probability
    const key = `${state === "carried" ? "carried" : faint ? "faint" : `live${bold}`}${lost}`;
    let group = groups.get(key);
    if (!group) {
      const style =
        state === "carried"
          ? { color: palette.muted, width: thin, dash: [1, 4], alpha: 0.8 }
          : faint
            ? { color: palette.muted, width: thin * 0.7, dash: [], alpha: 0.7 }
            : { color: palette.muted, width: thin + bold * 0.75, dash: [], alpha: 1 };
      if (lost) style.alpha *= LOST;
      groups.set(key, (group = { style, of: [] }));
    }
    group.of.push(placed);
  }
  for (const { style, of } of [...groups.values()].sort((a, b) => a.style.alpha - b.style.alpha))
    stroke(g, made, of, style);
}

export function stroke(g: CanvasRenderingContext2D, made: Layout, of: PlacedNode[], style: Style): void {
  if (!of.length) return;
  set(g, style);
  g.lineCap = made.labels ? "round" : "butt";
  g.beginPath();
  for (const placed of of) curve(g, placed, placed.x - (placed.label || made.labels ? placed.width / 2 : 0));
  g.stroke();
  set(g, { color: style.color, width: 1, dash: [], alpha: 1 });
}

export function set(g: CanvasRenderingContext2D, style: Style): void {
  g.strokeStyle = style.color;
  g.lineWidth = style.width;
  g.globalAlpha = style.alpha;
  g.lineCap = "round";
  g.setLineDash(style.dash);
}

/** Horizontal within the columns, where the text is, and curved between them. */
export function curve(
  g: CanvasRenderingContext2D,
  { fromX, fromY, bendFrom, bendTo, y }: Pick<PlacedNode, "fromX" | "fromY" | "bendFrom" | "bendTo" | "y">,
  to: number,
): void {
  g.moveTo(fromX, fromY);
  if (fromY === y) return g.lineTo(to, y);
  const middle = (bendFrom + bendTo) / 2;
  if (bendFrom > fromX) g.lineTo(bendFrom, fromY);
  g.bezierCurveTo(middle, fromY, middle, y, bendTo, y);
  if (to > bendTo) g.lineTo(to, y);
}

/** Adds it to the path. */
export function circle(g: CanvasRenderingContext2D, x: number, y: number, r: number): void {
  g.moveTo(x + r, y);
  g.arc(x, y, r, 0, Math.PI * 2);
}
