// A strip of small maps to choose from: all heads and layers at one glance.

import { image } from "../canvas";
import type { Table } from "../color";
import { h } from "../dom";
import type { Frame } from "../frame";
import type { Head, Scale } from "./layout";
import { matrixOf } from "./layout";

const MOST = 96,
  SIZE = 52;

export class Thumbs {
  readonly element = h("div", { class: "rfnb-thumbs", role: "group", "aria-label": "maps" });

  constructor(private readonly choose: (map: number) => void) {}

  update(frame: Frame<Head>, seq: number, chosen: number, scale: Scale, colors: Table): void {
    const { maps } = frame.head;
    this.element.hidden = maps.length < 2 || maps.length > MOST;
    if (this.element.hidden) return;
    while (this.element.children.length > maps.length) this.element.lastElementChild!.remove();
    maps.forEach((map, index) => {
      let button = this.element.children[index] as HTMLButtonElement | undefined;
      if (!button) {
        button = h(
          "button",
          { type: "button", class: "rfnb-thumb" },
          h("span", { class: "rfnb-thumb-box" }),
          h("span", { class: "rfnb-thumb-label" }),
        );
        button.addEventListener("click", () => this.choose(index));
        this.element.append(button);
      }
      button.setAttribute("aria-pressed", String(index === chosen));
      button.title = map.label;
      button.lastElementChild!.textContent = map.notes ? `${map.label} !` : map.label;
      const matrix = matrixOf(frame, index, Math.min(seq, map.seqs.length - 1));
      const cells =
        matrix &&
        image({ rows: matrix.rowLen, cols: matrix.colLen, value: matrix.value }, colors, scale.share, {
          rows: SIZE * 2,
          cols: SIZE * 2,
        });
      if (!cells || !matrix) return;
      const fit = SIZE / Math.max(matrix.rowLen, matrix.colLen);
      cells.style.width = `${Math.max(6, matrix.colLen * fit)}px`;
      cells.style.height = `${Math.max(6, matrix.rowLen * fit)}px`;
      button.firstElementChild!.replaceChildren(cells);
    });
  }
}
