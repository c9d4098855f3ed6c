// The overview of all sequences of a recording, each with its name and a small picture, to choose from.

import { prepare } from "../canvas";
import { sequential } from "../color";
import { matrixOf, meanOf, scaleOf } from "../attention/matrix";
import type { Head as Attention, Matrix, Scale } from "../attention/matrix";
import { thumb } from "../attention/overview";
import { h, on, set } from "../dom";
import type { Frame } from "../frame";
import { shorten } from "../labels";

const SIZE = 56,
  MOST = 48,
  MOST_CELLS = 1 << 22, // for a mean of all heads; with more cells the first head is shown
  BUDGET = 8; // milliseconds of each frame

export interface Sequence {
  label: string;
  result: string; // the result of a search
  wrong: boolean;
}

/** A list of options, one for each sequence. */
export class Batch {
  readonly element = h("div", {
    class: "rfnb-batch",
    role: "listbox",
    "aria-label": "sequences",
    "aria-orientation": "horizontal",
  });
  readonly note = h("p.rfnb-quiet");
  private options: HTMLElement[] = [];
  private frame = 0;
  private dark = false;

  constructor(choose: (seq: number) => void) {
    on(this.element, "click", ({ target }) => {
      const at = this.options.indexOf((target as Element).closest<HTMLElement>(".rfnb-seq")!);
      if (at >= 0) choose(at);
    });
    on(this.element, "keydown", (event) => {
      const last = this.options.length - 1,
        at = this.options.findIndex((option) => option.tabIndex === 0);
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: last }[
        event.key
      ];
      if (to === undefined || event.ctrlKey) return;
      event.preventDefault();
      choose(Math.max(0, Math.min(last, to)));
      this.options.find((option) => option.tabIndex === 0)?.focus();
    });
  }

  /** `parts`: the views of the chosen sequence; the first one with a small form provides the picture. */
  update(all: Sequence[], chosen: number, parts: Frame[], dark: boolean): void {
    this.dark = dark;
    const few = all.length < 2 ? [] : all.slice(0, MOST);
    this.element.hidden = !few.length;
    this.note.textContent =
      few.length < all.length && few.length
        ? `The first ${few.length} of ${all.length} sequences; the list has all.`
        : "";
    this.note.hidden = !this.note.textContent;
    while (this.options.length > few.length) this.options.pop()!.remove();
    few.forEach(({ label, result, wrong }, index) => {
      const option = (this.options[index] ??= this.element.appendChild(h("div.rfnb-seq", { role: "option" })));
      const canvas = option.querySelector("canvas") ?? h("canvas", { "aria-hidden": "true" });
      option.replaceChildren(
        canvas,
        h("bdi", shorten(label, 18) + (wrong ? " !" : "")),
        ...(result ? [h("bdi.rfnb-quiet", shorten(result, 18))] : []),
      );
      option.title = result ? `${label}: ${result}` : label;
    });
    this.choose(chosen);
    this.draw(parts);
  }

  choose(chosen: number): void {
    this.options.forEach((option, index) => {
      set(option, "aria-selected", index === chosen);
      option.tabIndex = index === Math.min(chosen, this.options.length - 1) ? 0 : -1;
    });
  }

  destroy(): void {
    cancelAnimationFrame(this.frame);
  }

  /** Draws the pictures, a few in each frame: the attention of the last layer, of all its heads. */
  private draw(parts: Frame[]): void {
    cancelAnimationFrame(this.frame);
    const found = parts.find(({ kind }) => kind === "attention") as Frame<Attention> | undefined;
    let next = 0;
    const some = () => {
      const until = performance.now() + BUDGET;
      while (next < this.options.length && performance.now() < until) {
        const canvas = this.options[next]!.querySelector("canvas")!,
          matrix = found && matrixFor(found, next);
        canvas.hidden = !matrix;
        if (matrix) this.paint(canvas, matrix, scaleOf(found.head));
        next++;
      }
      if (next < this.options.length) this.frame = requestAnimationFrame(some);
    };
    this.frame = requestAnimationFrame(some);
  }

  private paint(canvas: HTMLCanvasElement, matrix: Matrix, scale: Scale): void {
    const { rowLen, colLen } = matrix,
      most = Math.max(rowLen, colLen, 1),
      ratio = globalThis.devicePixelRatio || 1,
      [width, height] = [Math.max(6, (colLen / most) * SIZE), Math.max(6, (rowLen / most) * SIZE)];
    const g = prepare(canvas, width, height),
      cells = g && thumb(matrix, sequential(this.dark), scale, { rows: height * ratio, cols: width * ratio });
    if (!g || !cells) return;
    g.imageSmoothingEnabled = false;
    g.drawImage(cells, 0, 0, width, height);
  }
}

function matrixFor(frame: Frame<Attention>, seq: number): Matrix | null {
  const { maps, layers } = frame.head,
    last = (layers?.length ?? 1) - 1;
  const own = maps.flatMap(({ at, step, seqs }, map) =>
      (at?.[0] ?? 0) === last && !step && seqs.includes(seq) ? [map] : [],
    ),
    at = maps[own[0]!]?.seqs.indexOf(seq) ?? 0,
    one = own.length ? matrixOf(frame, own[0]!, at) : null;
  return one && own.length > 1 && own.length * one.rows * one.cols < MOST_CELLS
    ? (meanOf(frame, own, at, "") ?? one)
    : one;
}
