// Draws a layout on a canvas: the bars, and at the left, in a column that does not scroll, the reference with its loss.

import { DASH, hatch, outline, within, write } from "../canvas";
import type { Table } from "../color";
import { css, inkOn } from "../color";
import { measurer, shorten } from "../labels";
import { fixed, short } from "../number";
import type { Scene as Sight } from "../pane";
import type { Palette } from "../theme";
import type { Layout, Position, Row, Scene } from "./layout";
import { LOSS_BAR, ROW } from "./layout";

export interface Picture {
  scene: Scene;
  made: Layout;
  palette: Palette;
  colors: Table;
  cursor: Position | null;
  linked: number | null;
  focused: boolean;
}

const BAR = 17,
  FULL = 5; // nats that fill the bar of a loss

/** The colours of a segment of the bar: dark enough to stand out from the paper. */
export const shareOf = (prob: number): number => 0.15 + 0.75 * prob;

export function draw(g: CanvasRenderingContext2D, sight: Sight, picture: Picture): void {
  const { made, scene, palette } = picture;
  const first = Math.max(0, Math.floor(sight.top / ROW)),
    end = Math.min(scene.rows.length, Math.ceil((sight.top + sight.height) / ROW));
  const y = (step: number) => made.top + step * ROW - sight.top;
  within(g, made.left - 2, made.top, sight.width, sight.height, () => {
    for (let step = first; step < end; step++) drawBar(g, sight, picture, scene.rows[step]!, step, y(step));
  });
  within(g, 0, made.top, made.left - 2, sight.height, () => {
    for (let step = first; step < end; step++) drawStart(g, picture, scene.rows[step]!, step, y(step) + ROW / 2);
  });
  const put = (text: string, x: number) => write(g, text, x, made.top / 2, `11px ${palette.font}`, palette.muted);
  put(scene.stepName, 6);
  if (made.reference) put("reference", made.reference);
  if (made.loss) put("loss, nats", made.loss);
  put("probability", made.left);
}

/** The left of a row: step, reference, right or wrong, loss. */
function drawStart(
  g: CanvasRenderingContext2D,
  { made, palette, cursor, linked }: Picture,
  row: Row,
  step: number,
  y: number,
): void {
  const strong = step === (cursor?.step ?? linked) ? "bold " : "";
  const put = (text: string, x: number, color: string, bold = strong, room?: number) =>
    write(g, text, x, y, `${bold}11px ${palette.font}`, color, "left", room);
  put(shorten(row.name), 6, strong ? palette.focus : palette.muted, strong, (made.reference || made.left) - 12);
  if (!made.reference) return;
  put(row.reference === null ? "–" : shorten(row.reference), made.reference, palette.ink, strong, 110);
  if (!row.rank) return;
  const wrong = row.rank > 1;
  put(wrong ? "✗ wrong" : "✓ right", made.verdict, wrong ? palette.warn : palette.ink, wrong ? "bold " : strong);
  if (!made.loss) return;
  const loss = 0 - row.logProb;
  g.fillStyle = wrong ? palette.warn : palette.accent;
  g.fillRect(made.loss, y - 4, Math.max(1, Math.min(1, Math.max(0, loss || 0) / FULL) * LOSS_BAR), 8);
  const text = Math.abs(loss) < 100 ? fixed(loss, 2) : short(loss);
  write(g, text, made.loss + 84, y, `11px ${palette.font}`, palette.muted, "right");
}

/** The segments of the labels; the reference has a frame, the rest is hatched. */
function drawBar(
  g: CanvasRenderingContext2D,
  sight: Sight,
  { made, palette, colors, cursor, linked, focused }: Picture,
  row: Row,
  step: number,
  y: number,
): void {
  const top = y + (ROW - BAR) / 2,
    start = made.left - sight.left;
  if (!row.best.length) {
    write(g, "? no numbers: NaN or infinity", start + 4, y + ROW / 2, `11px ${palette.font}`, palette.warn);
    return;
  }
  let x = start,
    framed: [number, number] | null = null,
    marked: [number, number] | null = null;
  const font = `11px ${palette.font}`,
    measure = measurer(g, font);
  for (const [item, { label, prob }] of row.best.entries()) {
    const room = prob * made.bar,
      share = shareOf(prob);
    if (room >= 0.3) {
      g.fillStyle = css(colors, share);
      g.fillRect(x, top, Math.max(0.5, room - 1), BAR);
    }
    const text = room > 12 ? shorten(label, 24) : "";
    if (text && measure(text) <= room - 7) write(g, text, x + 4, y + ROW / 2, font, inkOn(colors, share));
    if (item === row.rank - 1) framed = [x, room];
    if (cursor?.step === step && cursor.item === item) marked = [x, room];
    x += room;
  }
  const end = start + made.bar;
  if (row.rest > 0 && end - x > 0.5) {
    hatch(g, x, top, end - x, BAR, palette.faint);
    if (cursor?.step === step && cursor.item === row.best.length) marked = [x, end - x];
  }
  // Above their neighbours.
  if (framed) outline(g, framed[0] - 0.5, top - 0.5, Math.max(2, framed[1]), BAR + 1, palette.ink, 1.5);
  if (marked)
    outline(g, marked[0] - 1.5, top - 1.5, Math.max(3, marked[1]) + 2, BAR + 3, palette.focus, focused ? 2.5 : 2);
  if (!cursor && linked === step) outline(g, start - 1.5, y + 0.5, made.bar + 2, ROW - 1, palette.focus, 1.25, DASH);
}
