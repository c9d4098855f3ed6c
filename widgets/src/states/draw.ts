// Puts a layout on a canvas: strips as images, norms as lines, step labels frozen on top.

import { DASH, dots, hatch, image, outline, within, write } from "../canvas";
import { drawColumns, LINE } from "../axis";
import type { Table } from "../color";
import { short } from "../number";
import type { Scene as Sight } from "../pane";
import type { Palette } from "../theme";
import type { Layout, Placed, Position, Scene, Track } from "./layout";
import { drawnOf, TITLE } from "./layout";

export interface Picture {
  scene: Scene;
  made: Layout;
  palette: Palette;
  colors: Table;
  strips: (HTMLCanvasElement | null)[];
  cursor: Position | null;
  linked: number | null;
  focused: boolean;
}

/** The strips as images; more units or steps than pixels are pooled by the largest magnitude. */
export function stripsOf(scene: Scene, made: Layout, colors: Table): (HTMLCanvasElement | null)[] {
  const ratio = globalThis.devicePixelRatio || 1;
  return scene.tracks.map((track, index) => {
    const most = {
      rows: Math.max(1, Math.floor(made.tracks[index]!.height * ratio)),
      cols: made.cell * ratio < 1 ? Math.ceil(drawnOf(scene, track) * made.cell * ratio) : 8192,
    };
    return image(
      { rows: track.units, cols: drawnOf(scene, track), value: (unit, step) => track.value(step, unit) },
      colors,
      (value) => (value / track.most + 1) / 2,
      most,
    );
  });
}

export function draw(g: CanvasRenderingContext2D, sight: Sight, picture: Picture): void {
  const { made, scene, palette } = picture;
  within(g, 0, made.top, sight.width, sight.height - made.top, () => {
    g.translate(0, -sight.top);
    made.tracks.forEach((placed, index) => drawTrack(g, sight, picture, placed, scene.tracks[index]!, index));
  });
  const step = picture.cursor?.step ?? picture.linked;
  const strong = step !== null && step < scene.len ? { index: step, text: scene.stepLabel(step) } : null;
  drawColumns(g, sight, made, palette, strong);
  write(g, `${scene.stepName} →`, made.left, LINE / 2 + 1, `11px ${palette.font}`, palette.muted);
}

function drawTrack(
  g: CanvasRenderingContext2D,
  sight: Sight,
  picture: Picture,
  placed: Placed,
  track: Track,
  index: number,
): void {
  const { made, scene, palette, strips } = picture;
  const end = scene.len * made.cell,
    all = scene.steps * made.cell;
  const label = (track.note && "! ") + track.label,
    title = placed.title + TITLE / 2 + 1;
  write(g, label, made.left, title, `bold 12px ${palette.font}`, palette.ink);
  const after = made.left + g.measureText(label).width + 8;
  const values = `${track.unitName}=${track.units}, ±${short(track.most)}`;
  write(g, values, after, title, `11px ${palette.font}`, palette.muted);
  drawAxis(g, placed, track, made.left, palette);
  const bottom = placed.norm + placed.normHeight;
  within(g, made.left - 1, placed.strip - 1, sight.width - made.left + 1, bottom - placed.strip + 3, () => {
    g.translate(made.left - sight.left, 0);
    const strip = strips[index];
    g.imageSmoothingEnabled = false;
    if (strip) g.drawImage(strip, 0, placed.strip, drawnOf(scene, track) * made.cell, placed.height);
    gaps(g, picture, placed, track);
    hatch(g, end, placed.strip, all - end, placed.height, palette.faint);
    hatch(g, end, placed.norm, all - end, placed.normHeight, palette.faint);
    outline(g, -0.5, placed.strip - 0.5, all + 1, placed.height + 1, palette.line);
    g.fillStyle = palette.line;
    g.fillRect(0, bottom, all, 1);
    drawNorm(g, picture, placed, track);
    mark(g, picture, placed, track, index);
  });
}

/** Units and norm at the left, so that heights mean something. */
function drawAxis(g: CanvasRenderingContext2D, placed: Placed, track: Track, left: number, palette: Palette): void {
  const put = (text: string, y: number) => write(g, text, left - 5, y, `10px ${palette.font}`, palette.muted, "right");
  put("0", placed.strip + 6);
  if (track.units > 1) put(String(track.units - 1), placed.strip + placed.height - 5);
  put(short(topOf(track)), placed.norm + 6);
  put("norm", placed.norm + placed.normHeight / 2 + 3);
  put("0", placed.norm + placed.normHeight - 3);
}

const topOf = (track: Track): number =>
  track.norms.reduce((most, norm) => (norm > most && norm !== Infinity ? norm : most), 0) || 1;

/** Steps without values yet are dotted; between cells a thin line where cells are large. */
function gaps(g: CanvasRenderingContext2D, { scene, made, palette }: Picture, placed: Placed, track: Track): void {
  g.fillStyle = palette.paper;
  if (made.cell >= 9)
    for (let step = 1; step < scene.len; step++) g.fillRect(step * made.cell - 0.5, placed.strip, 1, placed.height);
  const unit = placed.height / Math.max(1, track.units);
  if (unit >= 7)
    for (let row = 1; row < track.units; row++)
      g.fillRect(0, placed.strip + row * unit - 0.5, scene.len * made.cell, 1);
  for (let step = 0; step < scene.len; step++) {
    const missing = track.missing[step]!;
    if (missing && missing === track.units)
      dots(g, step * made.cell, placed.strip, made.cell, placed.height, palette.muted, made.cell);
    else if (missing) {
      // NaN among numbers is an accident: a mark above the step
      g.fillStyle = palette.warn;
      g.fillRect(step * made.cell, placed.strip, Math.max(2, made.cell - 1), 3);
    }
  }
}

function drawNorm(g: CanvasRenderingContext2D, { scene, made, palette }: Picture, placed: Placed, track: Track): void {
  const top = topOf(track);
  const y = (norm: number) => placed.norm + placed.normHeight - (Math.min(norm, top) / top) * (placed.normHeight - 5);
  g.strokeStyle = palette.accent;
  g.lineWidth = 1.5;
  g.lineJoin = "round";
  g.beginPath();
  let pen = false;
  for (let step = 0; step < scene.len; step++) {
    const norm = track.norms[step]!;
    if (Number.isNaN(norm)) {
      pen = false;
      continue;
    }
    const x = (step + 0.5) * made.cell;
    if (pen) g.lineTo(x, y(norm));
    else g.moveTo(x, y(norm));
    pen = true;
  }
  g.stroke();
  if (made.cell < 8) return;
  g.fillStyle = palette.accent;
  for (let step = 0; step < scene.len; step++) {
    if (Number.isNaN(track.norms[step]!)) continue;
    g.beginPath();
    g.arc((step + 0.5) * made.cell, y(track.norms[step]!), 2.2, 0, 7);
    g.fill();
  }
}

function mark(
  g: CanvasRenderingContext2D,
  { made, scene, palette, cursor, linked, focused }: Picture,
  placed: Placed,
  track: Track,
  index: number,
): void {
  const size = Math.max(made.cell, 2),
    column = cursor?.step ?? linked,
    { focus, paper } = palette;
  if (column !== null && column < scene.steps) {
    const high = placed.norm + placed.normHeight - placed.strip + 1;
    outline(g, column * made.cell - 0.5, placed.strip - 0.5, size + 1, high, focus, 1.25, cursor ? [] : DASH);
  }
  if (!cursor || cursor.track !== index || cursor.unit < 0 || cursor.unit >= track.units) return;
  const unit = placed.height / track.units,
    tall = Math.max(unit, 3);
  const x = cursor.step * made.cell - 1,
    y = placed.strip + cursor.unit * unit - (tall - unit) / 2 - 1;
  outline(g, x, y, size + 2, tall + 2, paper, focused ? 5 : 4);
  outline(g, x, y, size + 2, tall + 2, focus, focused ? 2.5 : 2);
}
