// The card of one row: its largest weights, its entropy, and the same row in the other heads.

import { context } from "../canvas";
import type { Table } from "../color";
import type { Context } from "../context";
import { coarse, h, on, quiet, set, steady } from "../dom";
import { shorten } from "../labels";
import { short } from "../number";
import { visible } from "../visible_text";
import { fault } from "./check";
import type { Matrix, Scale } from "./matrix";
import { factsOf, largest, shared } from "./matrix";
import { inList } from "./parts";

const MOST = 8,
  MOST_HEADS = 32,
  STRIP = 192;

export interface Around {
  colors: Table;
  scale: Scale;
  head: number; // the one that is chosen
  names: string[]; // of the heads
  others(): { head: number; matrix: Matrix }[]; // the heads of this layer
}

export class Card {
  readonly element = h("div.rfnb-card", { role: "group", "aria-label": "the row under the cursor" });
  private readonly items: HeadItem[] = [];
  private readonly list = h("ul.rfnb-card-heads");
  private readonly more = quiet("");
  private readonly heads = h(
    "div",
    { hidden: "" },
    h("div.rfnb-card-title", "the same row in each head"),
    this.list,
    this.more,
  );
  private readonly facts = h("div");
  private key = "";
  private of: Matrix | null = null;
  private readonly unwatch: () => void;

  constructor(
    private readonly ctx: Context,
    private readonly choose: (head: number) => void,
  ) {
    this.element.append(this.facts, this.heads);
    this.unwatch = steady(this.element);
  }

  destroy(): void {
    this.unwatch();
  }

  /** Shows a row, or nothing without one. `col` is its position under the cursor. */
  show(matrix: Matrix, row: number | null, col: number | null, around: Around): void {
    const shown = row !== null && row < matrix.rowLen ? row : null;
    const key = `${shown}/${col}/${around.head}/${this.ctx.palette().dark}`;
    if (key === this.key && matrix === this.of) return;
    [this.key, this.of] = [key, matrix];
    this.facts.replaceChildren(
      ...(shown === null
        ? [
            quiet(
              `${coarse() ? "Tap" : "Hover over"} a row to see ${matrix.sums ? "what it attends to" : "its values"}.`,
            ),
          ]
        : this.factsOf(matrix, shown, col)),
    );
    this.fillHeads(matrix, shown, around);
  }

  private factsOf(matrix: Matrix, row: number, col: number | null): HTMLElement[] {
    const { seen, total, entropy, computed } = factsOf(matrix, row);
    const title = h(
      "div.rfnb-card-title",
      quiet(`${matrix.rowName} `),
      h("b", shorten(matrix.rowLabel(row), 30)),
      quiet(`${numbered(matrix.rowLabel(row), row)}${matrix.sums ? " looks at" : ", its largest values"}`),
    );
    if (!computed) return [title, quiet("NaN, not computed")];
    const about = matrix.about ? "about " : "",
      pooled = matrix.about && matrix.stored.down * matrix.stored.across > 1;
    const top = largest(matrix, row, MOST);
    const most = Math.max(...top.map((at) => matrix.value(row, at)), 0);
    const bars = top.map((at) => {
      const value = matrix.value(row, at);
      const bar = h("span.rfnb-bar", { "aria-hidden": "true" }, h("i"));
      (bar.firstElementChild as HTMLElement).style.width = `${(100 * Math.max(0, value)) / (most || 1)}%`;
      if (matrix.sums && seen > 1 && 1 / seen <= most) {
        const even = h("u");
        even.style.left = `${100 / seen / most}%`;
        bar.append(even);
      }
      return h(
        "li",
        at === col ? { class: "rfnb-here" } : {},
        h(
          "span.rfnb-card-token",
          h("bdi", visible(matrix.colLabel(at))),
          quiet(numbered(matrix.colLabel(at), at) + range(matrix, at)),
        ),
        bar,
        h("span.rfnb-card-number", inList(matrix, value)),
      );
    });
    const rest = total - top.reduce((sum, at) => sum + matrix.value(row, at), 0);
    const facts: [string, string][] = pooled
      ? []
      : [
          ...(seen > top.length
            ? [[`the other ${seen - top.length}`, inList(matrix, Math.max(0, rest))] as [string, string]]
            : []),
          ["sum", `${about}${short(Number(total.toPrecision(4)))}`],
          ...(matrix.sums && entropy >= 0
            ? [["entropy", `${about}${short(entropy)} of ${short(Math.log(seen))} nats`] as [string, string]]
            : []),
          ...(matrix.sums && entropy >= 0
            ? [["as if at", `${about}${short(Math.exp(entropy))} of ${seen}`] as [string, string]]
            : []),
          ...(matrix.sums && seen > 1 ? [["uniform", `1/${seen} = ${short(1 / seen)}`] as [string, string]] : []),
        ];
    const wrong = fault(matrix, row);
    return [
      title,
      ...(wrong ? [h("div.rfnb-wrong", `! ${wrong}`)] : []),
      h("ol.rfnb-card-top", ...bars),
      ...(pooled
        ? [quiet("The largest of several weights each; their sum and entropy are known to the kernel only.")]
        : []),
      h("dl", ...facts.flatMap(([name, text]) => [h("dt", name), h("dd", text)])),
    ];
  }

  /** The same row in all heads of this layer, one below the other; updated in place, so that a button keeps the focus. */
  private fillHeads(matrix: Matrix, row: number | null, around: Around): void {
    const others =
      row === null
        ? []
        : around.others().filter(({ matrix: other }) => row < other.rowLen && other.colLen === matrix.colLen);
    this.heads.hidden = others.length < 2;
    if (this.heads.hidden || row === null) return;
    const shown = others.slice(0, MOST_HEADS);
    while (this.items.length < shown.length) {
      this.items.push(this.item());
      this.list.append(this.items[this.items.length - 1]!.element);
    }
    this.items.forEach(({ element }, index) => (element.hidden = index >= shown.length));
    shown.forEach(({ head, matrix: other }, index) => {
      const item = this.items[index]!,
        [top] = largest(other, row, 1);
      item.head = head;
      set(item.button, "aria-pressed", head === around.head);
      item.name.textContent = around.names[head] ?? String(head);
      item.number.textContent =
        top === undefined ? "–" : `${shorten(other.colLabel(top), 10)} ${inList(other, other.value(row, top))}`;
      strip(item.canvas, other, row, around);
    });
    this.more.textContent = others.length > shown.length ? `and ${others.length - shown.length} more heads` : "";
  }

  private item(): HeadItem {
    const canvas = h("canvas", { "aria-hidden": "true" }),
      name = h("span.rfnb-card-head"),
      number = h("span.rfnb-card-number"),
      button = h("button", { type: "button" }, name, canvas, number);
    const made: HeadItem = { head: 0, canvas, name, number, button, element: h("li", button) };
    on(button, "click", () => this.choose(made.head));
    return made;
  }
}

interface HeadItem {
  head: number;
  canvas: HTMLCanvasElement;
  name: HTMLElement;
  number: HTMLElement;
  button: HTMLElement;
  element: HTMLElement;
}

/** A row as a line of colours: the largest weight per pixel; masked positions stay blank. */
function strip(canvas: HTMLCanvasElement, matrix: Matrix, row: number, { colors, scale }: Around): void {
  const width = Math.min(matrix.colLen, STRIP),
    g = context(canvas);
  if (!g || !width) return;
  [canvas.width, canvas.height] = [width, 1];
  const data = g.createImageData(width, 1),
    pixels = new Uint32Array(data.data.buffer);
  for (let at = 0; at < width; at++) {
    let most = NaN;
    const stop = Math.ceil(((at + 1) * matrix.colLen) / width);
    for (let col = Math.floor((at * matrix.colLen) / width); col < stop; col++) {
      const value = matrix.hidden(row, col) ? NaN : matrix.value(row, col);
      if (Number.isNaN(most) || Math.abs(value) > Math.abs(most)) most = value;
    }
    pixels[at] = Number.isNaN(most) ? 0 : colors[Math.round(Math.min(1, Math.max(0, scale.share(most))) * 255)]!;
  }
  g.putImageData(data, 0, 0);
}

/** The last of the columns that share a value. */
function range(matrix: Matrix, at: number): string {
  const last = Math.min(matrix.colLen, at + shared(matrix)[1]) - 1;
  return last > at ? ` … ${last}` : "";
}

/** The number of a token, unless it is the label. */
const numbered = (label: string, index: number): string => (label === String(index) ? "" : ` ${index}`);
