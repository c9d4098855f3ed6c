// An editor for a row of weights, by pointer or keys: bars that always sum to 1, and their previous values.

import { prepare } from "../canvas";
import { onKeys } from "../cursor";
import { button, h, on, slider, status } from "../dom";
import { shorten } from "../labels";
import { fixed } from "../number";
import type { Palette } from "../theme";

const HIGH = 96, // pixels of a weight of 1
  LABEL = 18,
  LEAST = 8,
  MOST = 40,
  ROOM = 640,
  AROUND = 80, // width beside an editor in a narrow page
  FINE = 0.05; // the change of a weight per key press

/** The edit of a row: drawn, or only sharpened with a temperature. */
export type Drawn = { row: number[] } | { sharpen: number };

/** Weights with a new value at one position: the others keep their proportions. */
export function withWeight(row: readonly number[], at: number, value: number, open: (at: number) => boolean): number[] {
  const to = Math.min(1, Math.max(0, value)),
    others = row.map((own, index) => (index === at ? 0 : own)),
    sum = others.reduce((total, own) => total + own, 0),
    free = row.filter((_, index) => index !== at && open(index)).length;
  if (!free) return row.map((_, index) => (index === at ? 1 : 0));
  return others.map((own, index) =>
    index === at ? to : sum > 0 ? (own / sum) * (1 - to) : open(index) ? (1 - to) / free : 0,
  );
}

/** softmax(log(row) / temperature). */
export function sharpened(row: readonly number[], temperature: number): number[] {
  const most = Math.max(...row) || 1,
    powers = row.map((own) => (own / most) ** (1 / temperature)),
    sum = powers.reduce((total, own) => total + own, 0) || 1;
  return powers.map((own) => own / sum);
}

interface Given {
  start: number; // the initial position for keys
  row: number[]; // the current weights, or those of the previous step
  label: (col: number) => string;
  open: (col: number) => boolean; // whether a position may have weight
  palette: () => Palette;
  apply: (drawn: Drawn) => void;
}

/** The elements of an editor; `focus` puts all weight on one place. */
export function rowEditor({ start, row, label, open, palette, apply }: Given): {
  parts: HTMLElement[];
  focus(at: number): void;
} {
  let base = row,
    temperature = 1,
    at = Math.min(start, row.length - 1);
  const now = () => (temperature === 1 ? base : sharpened(base, temperature));
  const room = Math.min(ROOM, (globalThis.innerWidth || ROOM) - AROUND), // a finger that draws cannot scroll
    pitch = Math.max(LEAST, Math.min(MOST, room / row.length)),
    canvas = h("canvas", { "aria-hidden": "true" }),
    said = status("div.rfnb-hidden"),
    area = h(
      "div.rfnb-row",
      {
        tabindex: "0",
        role: "application",
        "aria-label": "weights: arrows choose, + and − change, Enter applies, Escape drops",
      },
      canvas,
    );
  const paint = () => {
    const g = prepare(canvas, pitch * row.length, HIGH + LABEL),
      { accent, faint, ink, focus, font } = palette(),
      weights = now();
    if (!g) return;
    g.font = `10px ${font}`;
    g.textAlign = "center";
    weights.forEach((weight, col) => {
      const x = col * pitch,
        bar = (value: number, from: number, wide: number, color: string) => {
          g.fillStyle = color;
          g.fillRect(x + from, HIGH - value * (HIGH - 2), wide, value * (HIGH - 2));
        };
      bar(row[col]!, 1, pitch * 0.3, faint); // the previous weights
      bar(weight, 1 + pitch * 0.3, pitch * 0.7 - 2, open(col) ? accent : faint);
      g.fillStyle = faint;
      g.fillRect(x, HIGH - 1, pitch - 1, 1);
      g.fillStyle = col === at ? focus : ink;
      if (pitch > 14 || col === at) g.fillText(shorten(label(col), pitch > 24 ? 5 : 2), x + pitch / 2, HIGH + 12);
      if (col !== at) return;
      g.strokeStyle = focus;
      g.strokeRect(x + 0.5, 0.5, pitch - 1, HIGH - 1);
    });
  };
  const tell = () => {
    paint();
    said.textContent = `${shorten(label(at))}: ${fixed(now()[at]!, 2)}, was ${fixed(row[at]!, 2)}`;
  };
  const put = (made: number[]) => {
    base = made;
    temperature = 1;
    heat.value = "0";
    tell();
  };
  const set = (value: number) => open(at) && put(withWeight(now(), at, value, open));
  const focus = (col: number) => {
    at = col;
    set(1);
  };
  const heat = slider({ min: "-2", max: "2", step: "0.1", value: "0", "aria-label": "sharpen" }, (value) => {
    temperature = 2 ** -value;
    tell();
  });
  const done = () => apply(base === row && temperature !== 1 ? { sharpen: temperature } : { row: now() });
  const drop = () => put(row);
  const colOf = (event: PointerEvent | MouseEvent) =>
    Math.max(0, Math.min(row.length - 1, Math.floor((event.clientX - canvas.getBoundingClientRect().left) / pitch)));
  const draw = (event: PointerEvent) => {
    at = colOf(event);
    set(1 - (event.clientY - canvas.getBoundingClientRect().top) / HIGH);
  };
  on(canvas, "pointerdown", (event) => {
    if (event.button) return;
    area.focus();
    canvas.setPointerCapture?.(event.pointerId);
    draw(event);
  });
  on(canvas, "pointermove", (event) => {
    if (event.buttons & 1) draw(event);
  });
  on(canvas, "dblclick", (event) => focus(colOf(event)));
  onKeys(area, ({ key, ctrlKey }) => {
    if (ctrlKey) return false;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: row.length - 1 }[key],
      by = { "+": FINE, "=": FINE, ArrowUp: FINE, "-": -FINE, ArrowDown: -FINE }[key];
    if (to !== undefined) at = Math.max(0, Math.min(row.length - 1, to));
    else if (by) set(now()[at]! + by);
    else if (key === "Enter") done();
    else if (key === "Escape") drop();
    else return false;
    tell();
    return true;
  });
  tell();
  const parts = [
    area,
    said,
    h("label", "sharpen ", heat),
    button("Focus", () => focus(at), { title: "all weight on the chosen position, also by a double click" }),
    button("Drop", drop),
    button("Apply", done, { "data-do": "apply" }),
  ];
  return { parts, focus };
}
