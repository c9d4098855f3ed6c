// The card of a row: where it looks, in numbers; how sure it is; and the same row in the other heads.

import { context, image, prepare } from "../canvas";
import type { Table } from "../color";
import type { Context } from "../context";
import { h, quiet } from "../dom";
import { shorten } from "../labels";
import { short } from "../number";
import { visible } from "../visible";
import { fault } from "./check";
import type { Matrix, Scale } from "./matrix";
import { factsOf, largest } from "./matrix";
import { inList } from "./parts";

const MOST = 8,
  MOST_HEADS = 32,
  STRIP = 96,
  TALL = 13;

export interface Around {
  colors: Table;
  scale: Scale;
  head: number; // the one that is chosen
  names: string[]; // of the heads
  others(): { head: number; matrix: Matrix }[]; // the heads of this layer
}

export class Card {
  readonly element = h("aside", { class: "rfnb-card", "aria-label": "the row under the cursor" });
  private key = "";
  private of: Matrix | null = null;

  constructor(
    private readonly ctx: Context,
    private readonly choose: (head: number) => void,
  ) {}

  /** Shows a row; nothing where none is pointed at. `col` is the position in it under the cursor. */
  show(matrix: Matrix, row: number | null, col: number | null, around: Around): void {
    const shown = row !== null && row < matrix.rowLen ? row : null;
    const key = `${shown}/${col}/${around.head}/${this.ctx.palette().dark}`;
    if (key === this.key && matrix === this.of) return;
    [this.key, this.of] = [key, matrix];
    if (shown === null) {
      this.element.replaceChildren(quiet(`Point at a row to see where its ${matrix.rowName} looks.`));
      return;
    }
    this.element.style.minHeight = `${this.element.offsetHeight}px`; // what is below does not jump
    this.element.replaceChildren(...this.facts(matrix, shown, col), ...this.heads(matrix, shown, around));
  }

  private facts(matrix: Matrix, row: number, col: number | null): HTMLElement[] {
    const { seen, total, entropy, computed } = factsOf(matrix, row);
    const title = h(
      "div",
      { class: "rfnb-card-title" },
      quiet(`${matrix.rowName} `),
      h("b", {}, shorten(matrix.rowLabel(row), 30)),
      quiet(` ${row} looks at`),
    );
    if (!computed) return [title, quiet("not computed")];
    const about = matrix.about ? "about " : "";
    const top = largest(matrix, row, MOST);
    const most = Math.max(...top.map((at) => matrix.value(row, at)), 0);
    const bars = top.map((at) => {
      const value = matrix.value(row, at);
      const bar = h("span", { class: "rfnb-bar", "aria-hidden": "true" }, h("i", {}));
      (bar.firstElementChild as HTMLElement).style.width = `${(100 * Math.max(0, value)) / (most || 1)}%`;
      if (matrix.sums && seen > 1 && 1 / seen <= most) {
        const even = h("u", {});
        even.style.left = `${100 / seen / most}%`;
        bar.append(even);
      }
      return h(
        "li",
        at === col ? { class: "rfnb-here" } : {},
        h("span", { class: "rfnb-card-token" }, h("bdi", {}, visible(matrix.colLabel(at))), quiet(` ${at}`)),
        bar,
        h("span", { class: "rfnb-card-number" }, inList(matrix, value)),
      );
    });
    const rest = total - top.reduce((sum, at) => sum + matrix.value(row, at), 0);
    const facts: [string, string][] = [
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
      ...(wrong ? [h("div", { class: "rfnb-wrong" }, `! ${wrong}`)] : []),
      h("ol", { class: "rfnb-card-top" }, ...bars),
      h("dl", {}, ...facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    ];
  }

  /** The same row in the heads of this layer, one below the other. */
  private heads(matrix: Matrix, row: number, around: Around): HTMLElement[] {
    const others = around.others().filter(({ matrix: other }) => row < other.rowLen && other.colLen === matrix.colLen);
    if (others.length < 2) return [];
    const shown = others.slice(0, MOST_HEADS);
    const items = shown.map(({ head, matrix: other }) => {
      const [top] = largest(other, row, 1);
      const text =
        top === undefined ? "–" : `${shorten(other.colLabel(top), 10)} ${inList(other, other.value(row, top))}`;
      const button = h(
        "button",
        { type: "button", "aria-pressed": String(head === around.head) },
        h("span", { class: "rfnb-card-head" }, around.names[head] ?? String(head)),
        this.strip(other, row, around),
        h("span", { class: "rfnb-card-number" }, text),
      );
      button.addEventListener("click", () => this.choose(head));
      return h("li", {}, button);
    });
    const more = others.length > shown.length ? [quiet(`and ${others.length - shown.length} more heads`)] : [];
    return [
      h("div", { class: "rfnb-card-title" }, "the same row in each head"),
      h("ul", { class: "rfnb-card-heads" }, ...items),
      ...more,
    ];
  }

  private strip(matrix: Matrix, row: number, { colors, scale }: Around): HTMLCanvasElement {
    const canvas = h("canvas", { "aria-hidden": "true" });
    const value = (_: number, col: number) => (matrix.hidden(row, col) ? NaN : matrix.value(row, col));
    const cells =
      context(canvas) &&
      image({ rows: 1, cols: matrix.colLen, value }, colors, scale.share, { rows: 1, cols: STRIP * 2 });
    const g = cells && prepare(canvas, STRIP, TALL);
    if (!g || !cells) return canvas;
    g.imageSmoothingEnabled = false;
    g.drawImage(cells, 0, 0, STRIP, TALL);
    return canvas;
  }
}
