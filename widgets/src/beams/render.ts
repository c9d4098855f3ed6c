// The beams view in the page: a toolbar, a canvas that shows the part in sight of the tree, the card of a hypothesis, the n-best list.

import type { Render } from "../context";
import { h, setOptions } from "../dom";
import type { Bus, Selection } from "../selection";
import type { Palette } from "../theme";
import { showCard, showNbest } from "./card";
import type { Place } from "./cursor";
import { keyOf, placeOf, sentence, start, walk } from "./cursor";
import type { Scene } from "./draw";
import { drawBase, drawTop } from "./draw";
import type { Layout, Zoom } from "./layout";
import { hit, layout } from "./layout";
import type { BeamsHead, Node, Tree } from "./tree";
import { grow, nbest, pathOf, problem } from "./tree";

const CUTS = [
  ["few", 3],
  ["all", 64],
  ["none", 0],
] as const;
const MOST_HEIGHT = 560;
const LEGEND =
  "thick: the winner · double frame or square: complete, with its place in the n-best list · faint: died out · dotted: keeps its place";
const CUT_LEGEND = [
  [undefined, "✕\u00a0cut, with its distance to the last survivor"],
  ["blocked", "⊘\u00a0blocked"],
  ["below the threshold", "▽\u00a0below\u00a0the\u00a0threshold"],
  ["merged", "⊃\u00a0merged"],
] as const;

export const render: Render = (el, frame, ctx) => {
  const view = new BeamsView(el, ctx.palette, ctx.bus);
  ctx.onTheme(() => view.restyle());
  const update = ({ head }: typeof frame) => view.update(head as unknown as BeamsHead);
  update(frame);
  return { update, destroy: () => view.destroy() };
};

export class BeamsView {
  private head: BeamsHead = { seqs: [] };
  private tree: Tree = { nodes: [], cuts: [], best: [], nbest: [], parts: [], width: 0 };
  private made: Layout | null = null;
  private seq = 0;
  private zoom: Zoom = "auto";
  private cuts = 0; // index into CUTS
  private exponent = 0;
  private pinned: string | null = null; // key of the cursor; null follows the winner
  private hover: Place | null = null;
  private ranks = new Map<Node, number>();
  private frame = 0;
  private palette: Palette | null = null;
  private base: { made: Layout; key: string; layer: HTMLCanvasElement } | null = null;

  private readonly title = h("span", { class: "rfnb-beams-title" });
  private readonly status = h("span", { class: "rfnb-beams-quiet" });
  private readonly seqs = h("select", { "aria-label": "sequence" }) as HTMLSelectElement;
  private readonly cutButton = h("button", { type: "button" });
  private readonly zoomButton = h("button", { type: "button" });
  private readonly alpha = h("input", {
    type: "range",
    min: "0",
    max: "2",
    step: "0.1",
    "aria-label": "length exponent of the n-best list",
  }) as HTMLInputElement;
  private readonly alphaText = h("output");
  private readonly canvas = h("canvas", { "aria-hidden": "true" }) as HTMLCanvasElement;
  private readonly space = h("div", { class: "rfnb-beams-space" });
  private readonly scroller = h("div", {
    class: "rfnb-beams-scroll",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "beam search tree",
  });
  private readonly readout = h("div", { class: "rfnb-beams-readout", role: "status", "aria-live": "polite" });
  private readonly legend = h("div", { class: "rfnb-beams-legend" });
  private readonly card = h("section", { class: "rfnb-beams-card", "aria-label": "hypothesis" });
  private readonly table = h("table", { class: "rfnb-beams-nbest" });
  private readonly body = h("div", { class: "rfnb-beams-body" });
  private readonly tools = h("span", { class: "rfnb-beams-tools" }, this.seqs, this.cutButton, this.zoomButton);
  private readonly fault = h("p", { class: "rfnb-beams-fault", role: "alert" });
  private readonly exponentLabel: HTMLElement;
  private readonly watcher: ResizeObserver | null;
  private readonly unlink: (() => void) | undefined;

  constructor(
    private readonly root: HTMLElement,
    private readonly colors: () => Palette,
    private readonly bus: Bus | null = null,
  ) {
    root.setAttribute("data-kind", "beams");
    this.space.append(this.canvas);
    this.scroller.append(this.space);
    this.exponentLabel = h(
      "label",
      { class: "rfnb-beams-alpha", title: "Sort the n-best list by score ÷ length^α" },
      "length exponent ",
      this.alpha,
      this.alphaText,
    );
    const bar = h(
      "div",
      { class: "rfnb-beams-bar-top" },
      this.title,
      this.status,
      h("span", { class: "rfnb-beams-fill" }),
      this.tools,
    );
    const side = h("div", { class: "rfnb-beams-list" }, this.table, this.exponentLabel);
    this.body.append(
      this.scroller,
      this.legend,
      this.readout,
      h("div", { class: "rfnb-beams-below" }, this.card, side),
    );
    root.append(h("div", { class: "rfnb-beams" }, bar, this.fault, this.body));
    this.listen();
    this.watcher = typeof ResizeObserver === "undefined" ? null : new ResizeObserver(() => this.relayout());
    this.watcher?.observe(this.scroller);
    this.unlink = bus?.listen((selection, origin) => {
      if (origin !== this) this.follow(selection);
    });
  }

  /** Shows a spec; a bad one becomes a sentence. */
  update(head: BeamsHead): void {
    const wrong = problem(head);
    this.fault.textContent = wrong ?? "";
    this.fault.hidden = !wrong;
    this.body.hidden = this.tools.hidden = !!wrong;
    if (wrong) return;
    if (!this.head.seqs.length) this.exponent = head.length_exponent ?? 0;
    this.head = head;
    this.seq = Math.min(this.seq, Math.max(0, head.seqs.length - 1));
    this.alpha.value = String(this.exponent);
    setOptions(
      this.seqs,
      head.seqs.map((seq, index) => seq.label ?? `sequence ${index}`),
      this.seq,
    );
    this.regrow();
  }

  destroy(): void {
    this.watcher?.disconnect();
    this.unlink?.();
    this.root.replaceChildren();
    cancelAnimationFrame(this.frame); // last: taking a focused element out of the page is a blur
  }

  /** Colours may have changed. */
  restyle(): void {
    this.palette = null;
    this.relayout();
  }

  private get join(): string {
    return this.head.join ?? " ";
  }
  private get shownCuts(): number {
    return CUTS[this.cuts]![1];
  }

  private regrow(): void {
    const seq = this.head.seqs[this.seq] ?? { steps: [] };
    const atEnd = this.scroller.scrollLeft + this.scroller.clientWidth >= this.scroller.scrollWidth - 8;
    this.tree = grow(seq, this.exponent, this.head.threshold);
    this.hover = null;
    if (this.pinned && !placeOf(this.tree, this.pinned)) this.pinned = null;
    this.title.textContent = this.head.title ?? "Beam search";
    const lanes = this.tree.width,
      reasons = new Set(this.tree.cuts.flatMap((row) => row.map((cut) => cut.why)));
    this.legend.textContent = [
      LEGEND,
      ...(seq.blank ? [`“${seq.blank}”\u00a0no new label`] : []),
      ...CUT_LEGEND.flatMap(([why, words]) => (reasons.has(why) ? [words] : [])),
    ].join(" · ");
    const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? "" : "s"}`;
    this.status.textContent = `${count(this.tree.nodes.length, "step")} · beam ${lanes}${this.head.live ? " · running" : ""}`;
    this.seqs.value = String(this.seq);
    this.root.setAttribute("data-step", String(this.tree.nodes.length - 1));
    this.root.setAttribute("data-beam", String(lanes));
    this.root.setAttribute("data-seq", String(this.seq));
    const all = this.tree.nodes.length;
    this.scroller.setAttribute(
      "aria-label",
      `Beam search, ${count(all, "step")}, up to ${count(lanes, "hypothesis").replace("hypothesiss", "hypotheses")}. Arrow keys: left to the parent, right to the continuation, up and down within a step.`,
    );
    this.relayout();
    if (this.head.live && atEnd) this.scroller.scrollLeft = this.scroller.scrollWidth;
  }

  private relayout(): void {
    const width = this.scroller.clientWidth || 800;
    const g = this.canvas.getContext("2d");
    const font = this.theme().font;
    const measure = (label: string) => {
      if (!g) return label.length * 7.2;
      g.font = `bold 12px ${font}`;
      return g.measureText(label).width;
    };
    this.made = layout(this.tree, { width, zoom: this.zoom, cuts: this.shownCuts, measure: memo(measure) });
    this.space.style.width = `${Math.ceil(this.made.width)}px`;
    this.space.style.height = `${Math.ceil(this.made.height)}px`;
    this.scroller.style.height = `${Math.min(MOST_HEIGHT, Math.ceil(this.made.height) + (this.made.width > width ? 16 : 2))}px`;
    this.cutButton.textContent = `Cut candidates: ${CUTS[this.cuts]![0]}`;
    this.cutButton.hidden = !this.tree.cuts.some((row) => row.length);
    this.zoomButton.hidden = this.legend.hidden = this.exponentLabel.hidden = !this.tree.nodes.length;
    this.zoomButton.textContent = this.made.labels ? "Overview" : "Labels";
    this.rerank();
  }

  private rerank(): void {
    const list = nbest(this.tree.nodes, this.exponent);
    this.tree.nbest = list;
    this.ranks = new Map(list.slice(0, 99).map((node, index) => [node, index + 1]));
    const [top] = list;
    const best = this.tree.best[this.tree.best.length - 1];
    const other = top && best && (top.step !== best[0] || top.slot !== best[1]);
    this.alphaText.textContent = this.exponent.toFixed(1) + (other ? "  another hypothesis would win" : "");
    this.point();
  }

  private get place(): Place | null {
    return this.hover ?? (this.pinned ? placeOf(this.tree, this.pinned) : start(this.tree));
  }

  /** The cursor moved: card, readout, table and canvas follow. */
  private point(): void {
    const place = this.place;
    const key = keyOf(place);
    this.root.setAttribute("data-cursor", key);
    showCard(this.card, this.tree, place, this.join, this.head.live);
    this.readout.textContent = place ? sentence(place, this.join, this.tree.parts) : "";
    showNbest(this.table, this.tree.nbest, {
      best: this.tree.best[this.tree.best.length - 1],
      exponent: this.exponent,
      join: this.join,
      live: !!this.head.live,
      cursor: key,
      choose: (node) => this.moveTo({ kind: "node", node }),
    });
    this.paintSoon();
  }

  private moveTo(place: Place): void {
    this.pinned = keyOf(place);
    this.hover = null;
    this.reveal(place);
    this.tell(place);
    this.point();
  }

  private tell(place: Place): void {
    const { step } = place.kind === "node" ? place.node : place.cut;
    const lost = place.kind === "cut" || !this.tree.best.some(([at, slot]) => at === step && slot === place.node.slot);
    this.bus?.point({ seq: this.seq, step, lost }, this);
  }

  /** Another view points at a step: mark it on the path of the winner, of which such views are. */
  private follow({ seq, step }: Selection): void {
    if (seq !== null && seq !== this.seq && this.head.seqs[seq]) {
      this.seq = seq;
      this.pinned = null;
      this.regrow();
    }
    const base = start(this.tree);
    const node =
      step === null ? undefined : pathOf(base?.kind === "node" ? base.node : null).find((other) => other.step === step);
    this.hover = node ? { kind: "node", node } : null;
    if (this.hover) this.reveal(this.hover);
    this.point();
  }

  private reveal(place: Place): void {
    if (!this.made) return;
    const step = place.kind === "node" ? place.node.step : place.cut.step;
    const x = this.made.x[step]!,
      y = this.made.lanes[place.kind === "node" ? place.node.slot : (place.cut.parent?.slot ?? 0)]!;
    const box = this.scroller;
    if (x - 80 < box.scrollLeft) box.scrollLeft = x - 120;
    else if (x + 80 > box.scrollLeft + box.clientWidth) box.scrollLeft = x + 120 - box.clientWidth;
    if (y - 50 < box.scrollTop) box.scrollTop = y - 60;
    else if (y + 50 > box.scrollTop + box.clientHeight) box.scrollTop = y + 60 - box.clientHeight;
  }

  private listen(): void {
    this.seqs.addEventListener("change", () => {
      this.seq = Number(this.seqs.value);
      this.pinned = null;
      this.regrow();
      this.bus?.point({ seq: this.seq }, this);
    });
    this.cutButton.addEventListener("click", () => {
      this.cuts = (this.cuts + 1) % CUTS.length;
      this.relayout();
    });
    this.zoomButton.addEventListener("click", () => {
      this.zoom = this.made?.labels ? "overview" : "labels";
      this.relayout();
    });
    this.alpha.addEventListener("input", () => {
      this.exponent = Number(this.alpha.value);
      this.rerank();
    });
    this.scroller.addEventListener("scroll", () => this.paintSoon());
    this.scroller.addEventListener("focus", () => this.paintSoon());
    this.scroller.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") {
        this.pinned = null;
        this.point();
        return;
      }
      const to = walk(this.tree, this.place, event.key, this.shownCuts);
      if (!to) return;
      event.preventDefault();
      event.stopPropagation();
      this.moveTo(to);
    });
    const at = (event: MouseEvent): Place | null => {
      const box = this.scroller.getBoundingClientRect();
      const target =
        this.made &&
        hit(
          this.made,
          event.clientX - box.left + this.scroller.scrollLeft,
          event.clientY - box.top + this.scroller.scrollTop,
        );
      return !target
        ? null
        : target.kind === "node"
          ? { kind: "node", node: target.placed.node }
          : { kind: "cut", cut: target.placed.cut };
    };
    this.scroller.addEventListener("pointermove", (event) => {
      const place = at(event);
      if (keyOf(place) === keyOf(this.hover)) return;
      this.hover = place;
      this.scroller.style.cursor = place ? "pointer" : "";
      if (place) this.tell(place);
      this.point();
    });
    this.scroller.addEventListener("pointerleave", () => {
      if (this.hover) {
        this.hover = null;
        this.point();
      }
    });
    this.scroller.addEventListener("click", (event) => {
      const place = at(event);
      if (place) this.moveTo(place);
    });
  }

  private theme(): Palette {
    this.palette ??= this.colors();
    return this.palette;
  }

  private paintSoon(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    const g = this.canvas.getContext("2d");
    if (!g || !this.made) return;
    const { clientWidth: width, clientHeight: height } = this.scroller;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const place = this.place;
    const shown = this.pinned !== null || this.hover !== null ? place : null; // the winner needs no second marking
    const path = new Set<Node>(shown ? pathOf(shown.kind === "node" ? shown.node : shown.cut.parent) : []);
    const scene = {
      left: this.scroller.scrollLeft,
      top: this.scroller.scrollTop,
      width,
      height,
      path,
      cursor: keyOf(shown),
      ranks: this.ranks,
    };
    this.drawScene(g, scene, ratio);
  }

  /** The picture below the cursor is drawn once per layout and scroll position; with pills there is little in sight, so always. */
  private drawScene(g: CanvasRenderingContext2D, scene: Scene, ratio: number): void {
    const made = this.made!,
      palette = this.theme();
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const key = [scene.left, scene.top, this.canvas.width, this.canvas.height, ratio].join();
    if (made.labels || this.base?.made !== made || this.base.key !== key) {
      const layer = made.labels ? this.canvas : document.createElement("canvas");
      if (!made.labels) {
        layer.width = this.canvas.width;
        layer.height = this.canvas.height;
      }
      const below = layer.getContext("2d")!;
      below.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawBase(below, made, scene, palette);
      this.base = made.labels ? null : { made, key, layer };
    }
    if (this.base) g.drawImage(this.base.layer, 0, 0);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawTop(g, made, scene, palette);
  }
}

function memo(measure: (label: string) => number): (label: string) => number {
  const known = new Map<string, number>();
  return (label) => {
    let width = known.get(label);
    if (width === undefined) known.set(label, (width = measure(label)));
    return width;
  };
}
