// Draws a layout on a canvas: strips as images, lines below them, step labels fixed on top.

import { DASH, dots, hatch, image, outline, within, write } from "../canvas";
import { drawColumns, LINE } from "../axis";
import type { Table } from "../color";
import { css } from "../color";
import { MARK } from "../handles";
import { drawn, shorten } from "../labels";
import { short } from "../number";
import type { Scene as Sight } from "../pane";
import type { Palette } from "../theme";
import type { Brush } from "./brush";
import type { Layout, Placed, Position } from "./layout";
import { LANE, PIN, TITLE } from "./layout";
import type { Scene, Track } from "./scene";
import { AFTER_END, DEAD, drawnOf, INFINITY, NAN, rowOfUnit, SATURATED, topOf, UNCHANGED, unitIn } from "./scene";

/** A unit that is drawn as a line over the steps. */
export interface Pin {
  track: number;
  unit: number;
  values: ArrayLike<number>;
}
export interface Picture {
  scene: Scene;
  editedSteps: Set<number>; // steps with an edit before them
  made: Layout;
  palette: Palette;
  colors: Table;
  strips: (HTMLCanvasElement | null)[];
  cursor: Position | null;
  linked: number | null;
  focused: boolean;
  pins: Pin[];
  brush: (Brush & { here: number[] }) | null;
}

/** The strips as images; more units or steps than pixels are pooled by the largest magnitude. */
export function stripsOf(scene: Scene, made: Layout, colors: Picture["colors"]): (HTMLCanvasElement | null)[] {
  const ratio = globalThis.devicePixelRatio || 1;
  return scene.tracks.map((track, index) => {
    const { height, folded } = made.tracks[index]!;
    if (folded || track.slim) return null;
    const most = {
      rows: Math.max(1, Math.floor(height * ratio)),
      cols: made.cell * ratio < 1 ? Math.ceil(drawnOf(scene, track) * made.cell * ratio) : 8192,
    };
    const span = track.high - track.low || 1,
      middle = (track.high + track.low) / 2; // 0, or of a gate half open
    return image(
      {
        rows: track.rows,
        cols: drawnOf(scene, track),
        value: (row, step) => track.value(step, unitIn(track, row)) - middle,
      },
      colors,
      (value) => value / span + 0.5,
      most,
    );
  });
}

export function draw(g: CanvasRenderingContext2D, sight: Sight, picture: Picture): void {
  const { made, scene, palette } = picture;
  within(g, 0, made.top, sight.width, sight.height - made.top, () => {
    g.translate(0, -sight.top);
    made.pins.forEach(([x, top], index) => aside(g, x, () => drawPin(g, sight, picture, top, picture.pins[index]!)));
    made.tracks.forEach((placed, index) =>
      aside(g, placed.x, () => drawTrack(g, sight, picture, placed, scene.tracks[index]!, index)),
    );
  });
  const step = picture.cursor?.step ?? picture.linked;
  const strong = step !== null && step < scene.len ? { index: step, text: scene.stepLabel(step) } : null;
  for (const x of made.columns) aside(g, x, () => drawColumns(g, sight, made, palette, strong));
  write(g, `${scene.stepName} →`, made.left, LINE / 2 + 1, `11px ${palette.font}`, palette.muted);
}

/** Draws at an offset to the right. */
function aside(g: CanvasRenderingContext2D, x: number, put: () => void): void {
  g.translate(x, 0);
  put();
  g.translate(-x, 0);
}

/** The visible steps. */
const seen = ({ made, scene }: Picture, sight: Sight): [first: number, end: number] => [
  Math.max(0, Math.floor(sight.left / made.cell) - 1),
  Math.min(scene.steps, Math.ceil((sight.left + sight.width - made.left) / made.cell) + 1),
];

/** A pinned unit over the steps, on the scale of its track. */
function drawPin(g: CanvasRenderingContext2D, sight: Sight, picture: Picture, top: number, pin: Pin): void {
  const { made, scene, palette, cursor, linked } = picture,
    track = scene.tracks[pin.track]!,
    [first, end] = seen(picture, sight);
  const span = track.high - track.low || 1,
    y = (value: number) => top + PIN - 4 - ((value - track.low) / span) * (PIN - 18);
  within(g, made.left - 1, top, sight.width - made.left + 1, PIN, () => {
    g.translate(made.left - sight.left, 0);
    g.fillStyle = palette.line;
    g.fillRect(0, y(Math.max(0, track.low)), scene.len * made.cell, 1);
    stroke(g, palette.focus, 1.5, made.cell, first, Math.min(end, scene.len), (step) => y(pin.values[step] ?? NaN));
    const step = cursor?.step ?? linked;
    if (step !== null && step < scene.len && Number.isFinite(pin.values[step])) {
      g.fillStyle = palette.focus;
      g.beginPath();
      g.arc((step + 0.5) * made.cell, y(pin.values[step]!), 3, 0, 7);
      g.fill();
    }
  });
  const label = shorten(`${track.label} ${track.unitName} ${pin.unit}`, 40);
  write(g, label, made.left, top + 6, `bold 11px ${palette.font}`, palette.focus);
  const put = (text: string, at: number) =>
    write(g, text, made.left - 5, at, `10px ${palette.font}`, palette.muted, "right");
  put(short(track.high), y(track.high));
  put(short(track.low), y(track.low));
}

/** A line through numbers, with gaps at NaN. */
function stroke(
  g: CanvasRenderingContext2D,
  color: string,
  thick: number,
  cell: number,
  first: number,
  end: number,
  y: (step: number) => number,
): void {
  g.strokeStyle = color;
  g.lineWidth = thick;
  g.lineJoin = "round";
  g.beginPath();
  let pen = false;
  for (let step = first; step < end; step++) {
    const at = y(step);
    if (Number.isFinite(at)) {
      if (pen) g.lineTo((step + 0.5) * cell, at);
      else g.moveTo((step + 0.5) * cell, at);
    }
    pen = Number.isFinite(at);
  }
  g.stroke();
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
  if (placed.norm + placed.normHeight < sight.top || placed.title > sight.top + sight.height) return;
  const end = scene.len * made.cell,
    all = scene.steps * made.cell;
  drawTitle(g, sight, picture, placed, track);
  if (placed.folded) return;
  drawAxis(g, placed, track, made.left, palette);
  const bottom = placed.norm + placed.normHeight;
  within(g, made.left - 1, placed.strip - LANE, sight.width - made.left + 1, bottom - placed.strip + LANE + 2, () => {
    g.translate(made.left - sight.left, 0);
    const strip = strips[index];
    g.imageSmoothingEnabled = false;
    if (strip) g.drawImage(strip, 0, placed.strip, drawnOf(scene, track) * made.cell, placed.height);
    gaps(g, sight, picture, placed, track);
    if (!track.slim) drawAfter(g, picture, placed, track);
    hatch(g, end, placed.norm, all - end, placed.normHeight, palette.faint);
    if (!track.slim) outline(g, -0.5, placed.strip - 0.5, all + 1, placed.height + 1, palette.line);
    g.fillStyle = palette.line;
    g.fillRect(0, bottom, all, 1);
    drawLane(g, sight, picture, placed, track);
    drawLine(g, sight, picture, placed, track);
    drawBrush(g, picture, placed, index);
    mark(g, picture, placed, track, index);
  });
  drawUnitFlags(g, placed, track, made.left, palette);
}

/** The name, the size and the scale of a track. */
function drawTitle(g: CanvasRenderingContext2D, sight: Sight, picture: Picture, placed: Placed, track: Track): void {
  const { made, palette, colors } = picture,
    y = placed.title + TITLE / 2 + 1,
    small = `11px ${palette.font}`;
  const sized = `${track.rows < track.units && !track.slim ? `${track.rows} of ` : ""}${track.unitName}=${track.units}`;
  let x = made.left - 13;
  const put = (text: string, font: string, color: string, gap: number) => {
    write(g, text, x, y, font, color);
    x += g.measureText(text).width + gap;
  };
  const wide = (text: string, font: string) => ((g.font = font), g.measureText(text).width),
    bold = `bold 12px ${palette.font}`,
    end = Math.min(made.columns[1] ?? Infinity, placed.folded ? Infinity : sight.width - placed.x),
    room = end - x - 8,
    mark = `${placed.folded || track.slim ? "▸" : "▾"} ${track.note && "! "}`;
  let most = 40;
  while (most > 4 && wide(mark + shorten(track.title, most), bold) > room) most--;
  put(mark + shorten(track.title, most), bold, palette.ink, 8);
  if (x - made.left + 13 + wide(sized, small) < room) put(sized, small, palette.muted, 14);
  g.font = small;
  if (placed.folded || track.slim || x + 86 + g.measureText(short(track.low) + short(track.high)).width > end) return;
  put(short(track.low), small, palette.muted, 5);
  for (let at = 0; at < 72; at++) {
    g.fillStyle = css(colors, at / 71);
    g.fillRect(x + at, y - 5, 1.2, 9);
  }
  outline(g, x - 0.5, y - 5.5, 73, 10, palette.line);
  x += 77;
  put(short(track.high), small, palette.muted, 0);
}

/** Units and the line at the left, so that heights mean something. */
function drawAxis(g: CanvasRenderingContext2D, placed: Placed, track: Track, left: number, palette: Palette): void {
  const put = (text: string, y: number) =>
    write(g, text, left - 8, y, `10px ${palette.font}`, palette.muted, "right", left - 10);
  const { names, rows } = track,
    tall = placed.height / Math.max(1, rows);
  for (const row of names ? drawn(rows, tall, LINE - 2) : [])
    put(shorten(names![unitIn(track, row)]!, 10), placed.strip + (row + 0.5) * tall);
  if (rows && !names) put(String(unitIn(track, 0)), placed.strip + 6);
  if (rows > 1 && !names) put(String(unitIn(track, rows - 1)), placed.strip + placed.height - 5);
  put(short(topOf(track)), placed.norm + 6);
  put(track.gate ? "mean" : "norm", placed.norm + placed.normHeight / 2 + 3);
  put("0", placed.norm + placed.normHeight - 3);
}

/** Bars at the left of a strip, by finding: dead 2, unchanged 3, saturated 5, NaN or infinity 6 pixels. */
function drawUnitFlags(
  g: CanvasRenderingContext2D,
  placed: Placed,
  track: Track,
  left: number,
  palette: Palette,
): void {
  const tall = placed.height / Math.max(1, track.rows);
  for (let row = 0; row < track.rows; row++) {
    const bits = track.unitFlags(unitIn(track, row));
    if (!bits) continue;
    const odd = bits & (NAN | INFINITY);
    const wide = odd ? 6 : bits & DEAD ? 2 : bits & UNCHANGED ? 3 : 5;
    g.fillStyle = odd ? palette.warn : palette.muted;
    g.fillRect(left - 1 - wide, placed.strip + row * tall, wide, Math.max(1, tall > 4 ? tall - 1 : tall));
  }
}

/** Marks above a strip: a cross or triangle for NaN and infinity, "!" for changes after the end, a bar for saturated, a line for unchanged. */
function drawLane(g: CanvasRenderingContext2D, sight: Sight, picture: Picture, placed: Placed, track: Track): void {
  const { made, palette } = picture,
    [first, end] = seen(picture, sight),
    wide = Math.max(1, made.cell - (made.cell > 4 ? 2 : 0));
  for (const step of picture.editedSteps)
    if (step >= first && step < end)
      write(g, MARK, step * made.cell, placed.strip - 4, `8px ${palette.font}`, palette.focus, "center");
  for (let step = first; step < end; step++) {
    const bits = track.stepFlags(step);
    if (!bits) continue;
    const x = step * made.cell + (made.cell - wide) / 2,
      odd = bits & (NAN | INFINITY | AFTER_END);
    if (odd && made.cell >= 7) {
      const sign = bits & AFTER_END ? "!" : bits & NAN ? "✕" : "▲";
      write(g, sign, (step + 0.5) * made.cell, placed.strip - 4, `bold 9px ${palette.font}`, palette.warn, "center");
      continue;
    }
    g.fillStyle = odd ? palette.warn : palette.muted;
    if (odd) g.fillRect(x, placed.strip - 7, wide, 6);
    else if (bits & UNCHANGED) g.fillRect(x, placed.strip - 3, wide, 1);
    else if (bits & SATURATED) g.fillRect(x, placed.strip - 6, wide, 4);
  }
}

/** Hatches steps after the end; a step that changes there is framed instead. */
function drawAfter(g: CanvasRenderingContext2D, { scene, made, palette }: Picture, placed: Placed, track: Track): void {
  for (let step = scene.len; step < scene.steps;) {
    const moves = track.stepFlags(step) & AFTER_END;
    let next = step + 1;
    while (next < scene.steps && (track.stepFlags(next) & AFTER_END) === moves) next++;
    const [x, wide] = [step * made.cell, (next - step) * made.cell];
    if (moves) outline(g, x + 1, placed.strip + 1, wide - 2, placed.height - 2, palette.warn, 2);
    else hatch(g, x, placed.strip, wide, placed.height, palette.faint);
    step = next;
  }
}

/** Whether cells are large in both directions. */
export const isRoomy = ({ cell }: Layout, { height }: Placed, { rows }: Track): boolean =>
  cell >= 9 && height / Math.max(1, rows) >= 7;

/** Dots for steps without values yet; large cells have thin separators, and a dash in negative ones. */
function gaps(g: CanvasRenderingContext2D, sight: Sight, picture: Picture, placed: Placed, track: Track): void {
  const { scene, made, palette } = picture,
    [first, seenEnd] = seen(picture, sight),
    end = Math.min(seenEnd, scene.len),
    unit = placed.height / Math.max(1, track.rows);
  g.fillStyle = palette.paper;
  if (isRoomy(made, placed, track)) {
    for (let step = Math.max(1, first); step < end; step++)
      g.fillRect(step * made.cell - 0.5, placed.strip, 1, placed.height);
    for (let row = 1; row < track.rows; row++) g.fillRect(0, placed.strip + row * unit - 0.5, scene.len * made.cell, 1);
    // Both sides of the middle are equally dark: only hues would distinguish them.
    const wide = Math.min(8, made.cell * 0.4),
      middle = (track.high + track.low) / 2;
    for (let row = 0; row < track.rows; row++)
      for (let step = first; step < end; step++) {
        const share = (track.value(step, unitIn(track, row)) - middle) / (track.high - middle);
        if (!(share < -0.05)) continue;
        g.fillStyle = share < -0.4 ? palette.paper : palette.muted;
        g.fillRect((step + 0.5) * made.cell - wide / 2, placed.strip + (row + 0.5) * unit - 0.5, wide, 1);
      }
  }
  for (let step = first; step < end; step++)
    if (track.missing[step])
      dots(g, step * made.cell, placed.strip, made.cell, placed.height, palette.muted, made.cell);
}

/** The norm or mean opening of each step, and its change as a thinner line. */
function drawLine(g: CanvasRenderingContext2D, sight: Sight, picture: Picture, placed: Placed, track: Track): void {
  const { scene, made, palette } = picture,
    top = topOf(track),
    [first, seenEnd] = seen(picture, sight),
    end = Math.min(seenEnd, scene.len);
  const y = (value: number) => placed.norm + placed.normHeight - (Math.min(value, top) / top) * (placed.normHeight - 5);
  g.setLineDash([2, 2]);
  stroke(g, palette.muted, 1, made.cell, first, end, (step) => y(track.change[step]!));
  g.setLineDash([]);
  stroke(g, palette.accent, 1.5, made.cell, first, end, (step) => y(track.line[step]!));
  if (made.cell < 8) return;
  g.fillStyle = palette.accent;
  for (let step = first; step < end; step++) {
    if (Number.isNaN(track.line[step]!)) continue;
    g.beginPath();
    g.arc((step + 0.5) * made.cell, y(track.line[step]!), 2.2, 0, 7);
    g.fill();
  }
}

/** The brushed range, and beside it the units that are on in the whole range. */
function drawBrush(
  g: CanvasRenderingContext2D,
  { scene, made, palette, brush }: Picture,
  placed: Placed,
  index: number,
): void {
  if (!brush) return;
  const [x, wide] = [brush.start * made.cell, (brush.stop - brush.start) * made.cell],
    own = brush.track === index;
  outline(g, x - 1, placed.strip - 1, wide + 2, placed.height + 2, palette.focus, own ? 2 : 1, own ? [] : DASH);
  if (!own) return;
  const track = scene.tracks[index]!,
    tall = placed.height / Math.max(1, track.rows);
  g.fillStyle = palette.focus;
  for (const unit of brush.here)
    g.fillRect(x + wide + 1, placed.strip + rowOfUnit(track, unit) * tall, 5, Math.max(1.5, tall - 1));
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
  if (!cursor || cursor.track !== index || cursor.unit < 0 || rowOfUnit(track, cursor.unit) < 0) return;
  const unit = placed.height / track.rows,
    tall = Math.max(unit, 3);
  const x = cursor.step * made.cell - 1,
    y = placed.strip + rowOfUnit(track, cursor.unit) * unit - (tall - unit) / 2 - 1;
  outline(g, x, y, size + 2, tall + 2, paper, focused ? 5 : 4);
  outline(g, x, y, size + 2, tall + 2, focus, focused ? 2.5 : 2);
}
