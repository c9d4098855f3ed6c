// The beams view in the page: a toolbar, a canvas for the visible part of the tree, the card of a hypothesis, and the n-best list.

import { context, prepare } from "../canvas";
import type { Context, Render, Rendered } from "../context";
import { Cursor } from "../cursor";
import { button, h, region, select, set, setOptions, slider, status, steady, zoomOf } from "../dom";
import type { Frame } from "../frame";
import { marked } from "../handles";
import { measurer } from "../labels";
import { minus } from "../number";
import type { Scene as Sight, Spot, Tap } from "../pane";
import { Pane } from "../pane";
import type { Selection } from "../selection";
import { Shell } from "../shell";
import { showCard } from "./card";
import type { Place } from "./cursor";
import { keyOf, placeOf, sentence, start, stepOf, tip, walk } from "./cursor";
import type { Scene } from "./draw";
import { drawBase, drawTop } from "./draw";
import { hypothesisOf, whole } from "./follow";
import type { Layout, Zoom } from "./layout";
import { hit, layout } from "./layout";
import { legend } from "./legend";
import { markNbest, showNbest, winnerChanges } from "./nbest";
import { line } from "../visible_text";
import { showSteps } from "./steps";
import type { BeamsHead, Node, SeqSpec, Smaller, Tree } from "./tree";
import { problem } from "./problem";
import { grow, isWon, nbest, pathOf } from "./tree";
import { WhatIf } from "./what_if";

const CUTS = [
  ["few", 3],
  ["all", 64],
  ["none", 0],
] as const;
const MOST_HEIGHT = 560,
  BESIDE_HEIGHT = 320;
let count = 0;

class BeamsView implements Rendered<BeamsHead> {
  private head: BeamsHead = { seqs: [] };
  private tree!: Tree;
  private made!: Layout;
  private seq = 0;
  private zoom: Zoom = "auto";
  private cuts = 0; // index into CUTS
  private exponent = 0;
  private settle = (): void => {}; // cancels what waits for the size of the card
  private late = 0; // the animation frame that reports the place under the pointer
  private scrub: number | null = null; // index of the displayed smaller beam
  private ranks = new Map<Node, number>();
  private base: { made: Layout; key: string; layer: HTMLCanvasElement } | null = null;
  private followed: string | null = null; // the place of the hypothesis in linked views; null: the best one
  private readonly cursor = new Cursor<string>(() => this.moved()); // keys of places; without a place, the card describes the winner

  private readonly status = h("span.rfnb-quiet.rfnb-beams-status");
  private readonly seqSelect = select("sequence", (seq) => {
    this.choose(seq);
    this.ctx.bus.point({ seq: this.seq }, this);
  });
  private readonly cutButton = button("", () => {
    this.cuts = (this.cuts + 1) % CUTS.length;
    this.redraw();
  });
  private readonly tableButton = button(
    "Table",
    () => {
      this.steps.hidden = !this.steps.hidden;
      set(this.tableButton, "aria-pressed", !this.steps.hidden);
      this.fillTable();
    },
    { "aria-pressed": "false" },
  );
  private readonly steps = region("div.rfnb-beams-steps", "steps of the search");
  private readonly zoomButton = button("", () => {
    this.zoom = this.made.labels ? "overview" : "labels";
    this.redraw();
  });
  private readonly alpha = slider(
    { min: "0", max: "2", step: "0.1", "aria-label": "length exponent of the n-best list" },
    (value) => {
      this.exponent = value;
      this.rerank();
    },
  );
  private readonly beam = slider({ min: "0", step: "1", "aria-label": "beam size" }, (index) => {
    this.scrub = this.smaller[index] ? index : null;
    this.showBeam();
    this.redraw();
  });
  private readonly beamText = h("output");
  private readonly beamLabel = h(
    "label.rfnb-beams-alpha",
    { title: "What a smaller beam would have kept" },
    "beam ",
    this.beam,
    this.beamText,
  );
  private readonly beamNote = h("div.rfnb-beams-smaller", { role: "status" });
  private readonly alphaText = h("output");
  private readonly alphaMarks = h("datalist", { id: `rfnb-alpha-${++count}` });
  private readonly alphaNote = h("span.rfnb-beams-alpha-note");
  private readonly alphaLabel = h(
    "label.rfnb-beams-alpha",
    { title: "Sort the n-best list by score ÷ length^α" },
    "length exponent ",
    this.alpha,
    this.alphaMarks,
    this.alphaText,
    this.alphaNote,
  );
  private readonly legend = h("div.rfnb-beams-legend");
  private readonly readout = status("div.rfnb-beams-readout.rfnb-hidden");
  private readonly referenceNote = h("div.rfnb-beams-reference", { role: "note" });
  private readonly card = h("div.rfnb-beams-card", { role: "group", "aria-label": "hypothesis" });
  private readonly table = h("table.rfnb-beams-nbest");
  private readonly below = h("div.rfnb-beams-below");
  private readonly whatIf: WhatIf;
  private readonly pane: Pane;
  private readonly shell: Shell;
  private readonly unlisten: (() => void)[] = [];

  constructor(
    private readonly el: HTMLElement,
    private readonly ctx: Context,
  ) {
    const handlers = {
      layout: (width: number) => this.layout(width),
      paint: (g: CanvasRenderingContext2D, sight: Sight) => this.paint(g, sight),
      hover: (spot: Spot | null) => {
        this.cursor.hover(spot && this.keyAt(spot));
        this.whatIf.rest(this.cursor.at);
      },
      click: (spot: Spot) => {
        const key = this.keyAt(spot),
          again = key === this.cursor.pinned;
        this.goto(key);
        if (key === null) return;
        this.take(key);
        if (!spot.touch || again) this.whatIf.keep(key);
        else this.whatIf.rest(this.cursor.at); // the first tap only shows it
      },
      key: (event: KeyboardEvent) => this.key(event),
    };
    const attributes = { role: "application", "aria-roledescription": "beam search tree" };
    const taps: Tap[] = ctx.held ? [["w", "✕ futures", "the futures of all candidates of the step"]] : [];
    this.pane = new Pane(handlers, MOST_HEIGHT, { ...attributes, class: "rfnb-pane rfnb-beams-scroll" }, taps);
    const tools = h(
      "span.rfnb-tools",
      this.seqSelect,
      this.beamLabel,
      this.cutButton,
      this.zoomButton,
      this.tableButton,
    );
    this.whatIf = new WhatIf(
      el,
      ctx,
      () => this.tree && { tree: this.tree, seq: this.seq, head: this.head },
      () => this.offer(),
      () => {
        const { clientHeight, scrollTop } = this.pane.element;
        this.pane.relayout();
        if (this.pane.element.clientHeight === clientHeight) this.pane.element.scrollTop = scrollTop;
      },
    );
    const list = h("div.rfnb-beams-list", this.table, this.alphaLabel);
    this.below.append(this.card, list);
    const stage = h("div.rfnb-stage", this.pane.element, this.pane.pad);
    const body = h(
      "div.rfnb-beams",
      stage,
      this.steps,
      this.whatIf.told,
      this.legend,
      this.beamNote,
      this.referenceNote,
      this.readout,
      this.whatIf.edits.element,
      this.below,
    );
    this.shell = new Shell(el, [this.status, tools], body);
    set(this.alpha, "list", this.alphaMarks.id);
    if (ctx.hasChooser()) [this.seq, this.followed] = [ctx.bus.now.seq ?? 0, ctx.bus.now.hypothesis?.place ?? null];
    this.unlisten.push(
      ctx.bus.listen((selection, origin) => {
        if (origin !== this && this.tree) this.follow(selection);
      }),
      steady(this.card),
    );
    ctx.onTheme(() => this.tree && this.redraw());
  }

  update({ head }: Frame<BeamsHead>): void {
    if (!this.shell.show(head.title ?? "Beam search", problem(head))) return;
    const first = !this.tree;
    if (first) this.exponent = head.length_exponent ?? 0;
    this.alpha.value = String(this.exponent);
    if (head.compact !== this.head.compact) this.cursor.pinned = null; // the tree is of another run
    this.head = head;
    this.regrow();
    if (first) this.pane.start();
    const { hovered, pinned } = this.cursor,
      { now } = this.ctx.bus;
    if (this.ctx.held && hovered === null && pinned === null && now.step !== null) this.follow(now); // as before this frame
  }

  destroy(): void {
    for (const end of this.unlisten) end();
    cancelAnimationFrame(this.late);
    this.settle();
    this.whatIf.destroy();
    this.pane.destroy();
    this.el.replaceChildren();
  }

  private get join(): string {
    return this.head.join ?? " ";
  }
  private get smaller(): Smaller[] {
    return this.head.seqs[this.seq]?.smaller ?? [];
  }
  private get shownCuts(): number {
    return this.beside ? 0 : CUTS[this.cuts]![1];
  }
  /** Whether this is one of two runs side by side: a hypothesis is then described only when it is chosen. */
  private get beside(): boolean {
    return !!this.head.compact;
  }

  private choose(seq: number): void {
    this.seq = seq;
    this.followed = this.scrub = null;
    this.cursor.pinned = null;
    this.regrow();
  }

  private regrow(): void {
    const { seqs, live } = this.head,
      { scrollLeft, clientWidth, scrollWidth } = this.pane.element,
      atEnd = scrollLeft + clientWidth >= scrollWidth - 8;
    this.seq = Math.min(this.seq, Math.max(0, seqs.length - 1));
    const seq = seqs[this.seq] ?? { steps: [] },
      labels = seqs.map(({ label }, index) => label ?? `sequence ${index}`);
    setOptions(this.seqSelect, this.ctx.hasChooser() ? [] : labels, this.seq);
    this.tree = grow(seq, this.exponent);
    if (!this.head.held) this.whatIf.clear();
    this.cursor.hovered = null;
    if (this.cursor.pinned && !placeOf(this.tree, this.cursor.pinned)) this.cursor.pinned = null;
    if (this.followed && !placeOf(this.tree, this.followed)) this.followed = null;
    const { nodes, width } = this.tree,
      steps = `${nodes.length} step${nodes.length === 1 ? "" : "s"}`;
    const { reference } = seq as SeqSpec;
    const rank = reference?.rank === undefined ? "" : ` It was candidate ${reference.rank} of its step.`;
    this.referenceNote.textContent = reference
      ? `Reference (ref): ${line(reference.labels.join(this.join))}. ${minus(reference.text)}${rank}`
      : "";
    this.referenceNote.hidden = !reference;
    const { arms } = this.tree.spec,
      sizes = arms ? [...new Set([arms.split, width - arms.split])] : [width],
      beams = `beam${"s".repeat(sizes.length - 1)} ${sizes.join(" and ")}`,
      apart = arms ? ` · different from step ${arms.at} on` : "";
    this.status.textContent = `${steps} · ${beams}${live ? ` · ${this.ctx.held?.state?.state ?? "running"}` : ""}${apart}`;
    const data = { step: nodes.length - 1, beam: width, seq: this.seq };
    for (const [name, value] of Object.entries(data)) this.el.dataset[name] = String(value);
    this.showBeam();
    const beam = `${width} hypothes${width === 1 ? "i" : "e"}s`;
    this.pane.say(
      `Beam search, ${steps}, up to ${beam}.${arms ? ` A: ${line(arms.names[0]!)}, B: ${line(arms.names[1]!)}.` : ""} Arrow keys: left to the parent, right to the continuation, up and down within a step. Enter: attention and states follow the hypothesis.`,
    );
    this.redraw();
    this.offer();
    if (live && atEnd) this.pane.element.scrollLeft = this.pane.element.scrollWidth;
  }

  /** The slider of smaller beams, and a description of what the chosen one would have kept. */
  private showBeam(): void {
    const { smaller } = this;
    if (!smaller[this.scrub ?? 0]) this.scrub = null;
    this.beamLabel.hidden = !smaller.length;
    this.beam.max = String(smaller.length);
    this.beam.value = String(this.scrub ?? smaller.length);
    const size = this.scrub === null ? this.tree.width : smaller[this.scrub]!.size;
    this.beamText.textContent = `${size} of ${this.tree.width}`;
    set(this.beam, "aria-valuetext", this.beamText.textContent);
    this.beamNote.textContent = this.scrub === null ? "" : line(smaller[this.scrub]!.text);
    this.el.dataset["beamSize"] = String(size);
  }

  /** Whether the displayed smaller beam would have kept a hypothesis; null: none is displayed. */
  private get inside(): Scene["inside"] {
    const bit = this.scrub === null ? 0 : 1 << this.scrub;
    return bit ? ({ step, slot }) => !!((this.tree.spec.steps[step]!.inside?.[slot] ?? 0) & bit) : null;
  }

  private redraw(): void {
    this.pane.limit(this.beside ? BESIDE_HEIGHT : MOST_HEIGHT);
    this.pane.relayout();
    this.alphaLabel.hidden = !this.tree.nodes.length || !!this.tree.spec.arms; // a common exponent would rank two separate lists
    this.fillTable();
    this.rerank();
  }

  /** The buttons for the zoom level: after a resize the page may show another one. */
  private dress(): void {
    const { nodes, cuts } = this.tree;
    this.cutButton.textContent = `Cut candidates: ${CUTS[this.cuts]![0]}`;
    this.legend.textContent = legend(this.tree, this.made, this.scrub === null ? undefined : this.smaller[this.scrub]);
    this.cutButton.hidden = this.beside || !cuts.some((row) => row.length) || this.made.cells;
    this.zoomButton.textContent = this.made.labels ? "Overview" : "Labels";
    this.zoomButton.hidden = this.legend.hidden = !nodes.length;
  }

  private fillTable(): void {
    if (!this.steps.hidden) showSteps(this.steps, this.tree, this.head.seqs[this.seq]?.axis ?? "step");
  }

  private layout(width: number): Layout {
    const measure = measurer(context(document.createElement("canvas")), `bold 12px ${this.ctx.palette().font}`);
    const of = (zoom: Zoom) => layout(this.tree, { width, zoom, cuts: this.shownCuts, measure });
    let made = of(this.zoom);
    if (this.beside && this.zoom === "auto" && made.height > BESIDE_HEIGHT) made = of("overview"); // both completely visible
    this.made = this.whatIf.place(made, measure, width);
    this.dress();
    return this.made;
  }

  private rerank(): void {
    const { arms } = this.tree.spec,
      list = nbest(this.tree.nodes, this.exponent, arms);
    this.tree.nbest = list;
    this.ranks = new Map();
    const ofB = ({ step, slot }: Node) => !!arms && step >= arms.at && slot >= arms.split;
    for (const own of [false, true])
      for (const [index, node] of list.filter((node) => ofB(node) === own).entries())
        if (index < 99) this.ranks.set(node, index + 1);
    const [top] = list,
      best = this.tree.best.at(-1);
    const other = top && best && (top.step !== best[0] || top.slot !== best[1]);
    this.alphaText.textContent = this.exponent.toFixed(1) + (other ? "  another hypothesis would win" : "");
    const changes = winnerChanges(list, Number(this.alpha.max));
    this.alphaMarks.replaceChildren(...changes.map((at) => h("option", { value: at.toFixed(2) })));
    const where = changes.length
      ? `The winner changes at ${changes.map((at) => at.toFixed(2)).join(", ")}.`
      : "No exponent here changes the winner.";
    this.alphaNote.textContent = `${where} It ranks only the hypotheses that the search kept; pruned ones are not considered.`;
    const { live } = this.head;
    showNbest(this.table, list, {
      ends: [best, arms?.best.at(-1)],
      arms,
      ranks: this.ranks,
      exponent: this.exponent,
      reference: this.head.seqs[this.seq]?.reference,
      join: this.join,
      live: !!live,
      choose: (node) => {
        const key = keyOf({ kind: "node", node });
        this.goto(key);
        this.take(key);
      },
    });
    this.point();
  }

  /** The place that the person points at, or null. */
  private get pointed(): Place | null {
    return this.cursor.at === null ? null : placeOf(this.tree, this.cursor.at);
  }
  private get place(): Place | null {
    return this.pointed ?? start(this.tree);
  }

  private moved(): void {
    const place = this.pointed;
    if (place) {
      const step = stepOf(place);
      const at = this.head.loop_steps?.[step] ?? step;
      this.ctx.bus.point({ seq: this.seq, step: at, lost: !this.isShown(place) }, this);
    }
    this.point();
  }

  /** Whether linked views show the hypothesis of a place: the chosen one, else the best one. */
  private isShown(place: Place): boolean {
    const shown = this.followed === null ? null : placeOf(this.tree, this.followed);
    if (shown) {
      const { path, cut } = whole(this.tree, shown);
      return place.kind === "node" ? path.includes(place.node) : keyOf(place) === keyOf(cut);
    }
    return place.kind === "node" && isWon(this.tree, place.node);
  }

  /** Shows the hypothesis of a place in linked views; null: the best one again. */
  private take(key: string | null): void {
    const place = key === null ? null : placeOf(this.tree, key);
    const best = !place || (place.kind === "node" && isWon(this.tree, tip(this.tree, place.node)));
    this.followed = best ? null : key;
    const hypothesis = best ? null : hypothesisOf(this.tree, place, this.join, this.head.loop_steps);
    this.el.dataset["followed"] = this.followed ?? "";
    this.ctx.bus.point({ seq: this.seq, hypothesis }, this);
    this.moved();
  }

  /** Updates card, readout, table and canvas for the cursor; the picture comes first, so that the page is laid out once. */
  private point(): void {
    this.el.dataset["cursor"] = keyOf(this.place);
    this.pane.element.style.cursor = this.cursor.hovered ? "pointer" : "";
    this.pane.paintSoon();
    cancelAnimationFrame(this.late);
    if (this.cursor.hovered) this.late = requestAnimationFrame(() => this.tell());
    else this.tell();
  }

  private tell(): void {
    const { place, tree, join, inside } = this,
      { live } = this.head;
    this.below.hidden = this.beside && this.cursor.pinned === null;
    this.settle();
    this.settle = showCard(this.card, tree, place, { join, live: !!live, sums: !!this.head.seqs[this.seq]?.sums });
    const outside = place?.kind === "node" && inside && !inside(place.node);
    const words = outside ? ` Not in a beam of ${this.el.dataset["beamSize"]}.` : "";
    this.readout.textContent = place ? sentence(tree, place, join) + words : "";
    markNbest(this.table, keyOf(place));
  }

  private goto(key: string | null): void {
    if (key === null) return;
    this.cursor.pin(key);
    this.reveal();
    this.offer();
  }

  /** Offers the edits at the chosen place, not at places that the pointer only passes. */
  private offer(): void {
    this.whatIf.offer(this.cursor.pinned);
  }

  /** Highlights a linked view's step on the path of the winner, which such views show. */
  private follow({ seq, step, hypothesis }: Selection): void {
    if (seq !== null && seq !== this.seq && this.head.seqs[seq]) this.choose(seq);
    this.followed = hypothesis && placeOf(this.tree, hypothesis.place) ? hypothesis.place : null;
    this.el.dataset["followed"] = this.followed ?? "";
    const end = start(this.tree);
    const shown = this.followed ? placeOf(this.tree, this.followed) : end,
      path = shown ? whole(this.tree, shown).path : [];
    const node = path.find((other) => (this.head.loop_steps?.[other.step] ?? other.step) === step);
    this.cursor.hovered = node ? keyOf({ kind: "node", node }) : null;
    if (node) this.reveal();
    this.point();
  }

  private reveal(): void {
    const { place, made } = this;
    if (!place) return;
    const x = made.x[stepOf(place)]!,
      y = made.lanes[place.kind === "node" ? place.node.slot : (place.cut.parent?.slot ?? 0)]!;
    this.pane.reveal({ x: x - 80, y: y - 50, width: 160, height: 100 }, { left: 0, top: 0 });
  }

  private keyAt({ x, y, left, top }: Spot): string | null {
    const target = hit(this.made, x + left, y + top);
    if (!target) return null;
    return keyOf(
      target.kind === "node" ? { kind: "node", node: target.placed.node } : { kind: "cut", cut: target.placed.cut },
    );
  }

  private key({ key, ctrlKey }: KeyboardEvent): boolean {
    if (ctrlKey) return false;
    if (key === "w" && this.place) {
      const { tree, shownCuts } = this,
        cuts = tree.cuts[stepOf(this.place)]!.slice(0, shownCuts);
      return this.whatIf.showAll(cuts);
    }
    if (key === "Escape") {
      if (this.ctx.run) this.ctx.run.before = null;
      this.whatIf.clear();
      this.cursor.pin(null);
      this.take(null);
      this.offer();
      return true;
    }
    if (key === "Enter" && this.place) {
      this.goto(keyOf(this.place));
      this.take(keyOf(this.place));
      if (this.place.kind === "cut") this.whatIf.keep(keyOf(this.place));
      else this.whatIf.edits.focus();
      return true;
    }
    const to = walk(this.tree, this.place, key, this.shownCuts);
    if (to) {
      this.goto(keyOf(to));
      this.whatIf.rest(this.cursor.at);
    }
    return !!to;
  }

  /** The nodes on the path of the reference. */
  private referenceOf(): Scene["reference"] {
    const reference = this.head.seqs[this.seq]?.reference;
    if (!reference) return null;
    const path = reference.path.flatMap(([step, slot]) => this.tree.nodes[step]?.[slot] ?? []);
    return {
      path: new Set(path),
      last: path.at(-1) ?? null,
      pruning: reference.fell === undefined ? "" : "until here",
    };
  }

  /** Where the displayed smaller beam loses the winner, and its result instead. */
  private smallerOf(): Scene["smaller"] {
    const shown = this.scrub === null ? undefined : this.smaller[this.scrub];
    if (shown?.lost === undefined) return null;
    const { nodes, won } = this.tree,
      at = (step: number, slot: number | undefined) => nodes[step]?.[slot ?? -1] ?? null,
      best = shown.best ? at(...shown.best) : null;
    return { lost: at(shown.lost, won[shown.lost]), best: pathOf(best), words: `lost with ${shown.size}` };
  }

  /** The layer below the cursor is cached per layout and scroll position; with pills little is visible, so it is always drawn. */
  private paint(g: CanvasRenderingContext2D, sight: Sight): void {
    const { made, ranks, pointed } = this,
      seq = this.head.seqs[this.seq],
      palette = this.ctx.palette();
    const end = start(this.tree),
      won = end?.kind === "node" ? end : null;
    const chosen = this.followed === null ? null : placeOf(this.tree, this.followed);
    const path = pointed
      ? pathOf(pointed.kind === "node" ? pointed.node : pointed.cut.parent)
      : chosen && whole(this.tree, chosen).path; // the winner is highlighted already
    const rail = path ?? (won ? pathOf(won.node) : []);
    const scene: Scene = {
      ...sight,
      best: [...this.tree.best, ...(seq?.arms?.best ?? [])].flatMap(
        ([step, slot]) => this.tree.nodes[step]?.[slot] ?? [],
      ),
      arms: seq?.arms,
      path: new Set(path),
      cursor: keyOf(pointed),
      ranks,
      rail,
      axis: seq?.axis ?? "step",
      editedSteps: marked(this.head.hands),
      reference: this.referenceOf(),
      inside: this.inside,
      smaller: this.smallerOf(),
    };
    if (made.labels) drawBase(g, made, scene, palette);
    else {
      const key = JSON.stringify([sight, globalThis.devicePixelRatio, zoomOf(this.pane.element), palette, this.scrub]);
      if (this.base?.made !== made || this.base.key !== key) {
        const layer = document.createElement("canvas");
        drawBase(prepare(layer, sight.width, sight.height, this.pane.element)!, made, scene, palette);
        this.base = { made, key, layer };
      }
      g.drawImage(this.base.layer, 0, 0, sight.width, sight.height);
    }
    this.whatIf.draw(g, made, sight, palette);
    drawTop(g, made, scene, palette);
  }
}

export const render: Render<BeamsHead> = (el, frame, ctx) => {
  const view = new BeamsView(el, ctx);
  view.update(frame);
  return view;
};
