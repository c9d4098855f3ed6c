// A graph in the page: boxes and edges as SVG in the colours of the theme. Pointing at a box highlights its inputs and readers; a box with
// content opens on a click, and Escape leads back.

import type { Render } from "../context";
import { Cursor, onKeys } from "../cursor";
import { button, h, on, onLeave, onResize, quiet, set, status, svg } from "../dom";
import type { Frame } from "../frame";
import { Shell } from "../shell";
import type { Edge, Graph, GraphHead, Node } from "./layout";
import { levelsOf, middleOf, pathOf, problem, scaleOf, sentence, trail, walk } from "./layout";

const HINT = "Arrow keys lead from a box down to what reads it, up to what it reads.";
const OPENS = " Enter or a click opens one with another behind it, Escape goes back.";
const STRAND = 5,
  MARK = 7.5; // of a letter beside them

class GraphView {
  private head!: GraphHead;
  private level = 0;
  private still = false; // the pointer rests where it opened something
  private readonly unwatch: () => void;
  private readonly levels = h("span.rfnb-graph-levels", { role: "group", "aria-label": "what is shown" });
  private readonly legend = h("ul.rfnb-graph-legend", { "aria-label": "dims" });
  private readonly stage = h("div.rfnb-graph-stage");
  private readonly readout = status();
  private readonly words = h("ul");
  private readonly list = h("details.rfnb-graph-list", h("summary", "As a list"), this.words);
  private readonly shell: Shell;
  private readonly cursor = new Cursor<string>(() => this.point());

  constructor(private readonly el: HTMLElement) {
    const { legend, stage, readout, list } = this;
    this.shell = new Shell(el, [this.levels], h("div.rfnb-graph", legend, stage, readout, list));
    on(this.stage, "pointermove", ({ movementX, movementY, target }) => {
      if (movementX || movementY) this.still = false;
      if (!this.still) this.cursor.hover(nodeAt(target));
    });
    this.unwatch = onResize(this.stage, () => this.fit());
    onLeave(this.stage, () => this.cursor.hover(null));
    on(this.stage, "focusin", (event) => this.still || this.cursor.pin(nodeAt(event.target)));
    on(this.stage, "focusout", () => this.cursor.pin(null));
    on(this.stage, "click", ({ target, detail }) => {
      this.still = detail > 0; // by a pointer: the opened content is not dimmed by the resting pointer or the focus
      this.open(nodeAt(target));
    });
    onKeys(this.stage, (event) => this.key(event));
  }

  update({ head }: Frame<GraphHead>): void {
    this.head = head;
    const wrong = problem(head);
    if (!this.shell.show(head.title ?? "Graph", wrong)) return;
    this.level = Math.min(this.level, Math.max(0, levelsOf(head).length - 1));
    this.draw();
  }

  destroy(): void {
    this.unwatch();
    this.el.replaceChildren();
  }

  private get graph(): Graph | null {
    return levelsOf(this.head)[this.level]?.graph ?? null;
  }

  private show(level: number, focus = ""): void {
    this.level = level;
    this.draw();
    (this.nodeOf(focus) ?? this.nodes()[0])?.focus();
  }

  /** Opens a box. */
  private open(id: string | null): boolean {
    const opens = this.graph?.nodes.find((other) => other.id === id)?.opens;
    if (opens !== undefined) this.show(opens);
    return opens !== undefined;
  }

  /** Back to the enclosing level. */
  private close(level: number): void {
    const all = levelsOf(this.head),
      inner = trail(all, this.level).find((each) => all[each]!.up === level);
    this.show(level, all[level]!.graph.nodes.find(({ opens }) => opens === inner)?.id);
  }

  private draw(): void {
    const { graph } = this;
    this.el.dataset["level"] = String(this.level);
    const all = levelsOf(this.head);
    this.levels.hidden = this.level === 0;
    this.levels.replaceChildren(
      ...trail(all, this.level).map((index) =>
        button(all[index]?.label ?? "", () => this.close(index), { "aria-pressed": index === this.level }),
      ),
    );
    const there = new Set(graph?.edges.flatMap(({ glyphs }) => glyphs ?? [])),
      chips = (this.head.legend ?? []).filter(({ glyph }) => there.has(glyph));
    this.legend.hidden = !chips.length;
    this.legend.replaceChildren(
      ...chips.map(({ text, glyph, hue, ragged }) =>
        h("li", { class: `rfnb-hue-${hue % 8}${ragged ? " rfnb-graph-ragged" : ""}` }, h("i", glyph), text),
      ),
    );
    this.list.hidden = !graph?.nodes.length || !this.head.levels;
    this.words.replaceChildren(...(graph?.nodes ?? []).map(({ words }) => h("li", words)));
    if (!graph) this.stage.replaceChildren(...opsTable(this.head));
    else {
      const { width, height } = graph;
      const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group" });
      set(picture, "aria-label", `${this.head.title ?? "Graph"}: ${graph.nodes.length} boxes`);
      for (const band of graph.bands)
        picture.append(
          svg("rect.rfnb-graph-band", { x: 0, y: band.y, width, height: band.height, rx: 6 }),
          svg("text.rfnb-graph-place", { x: 14, y: band.y + 18 }, band.label),
        );
      for (const edge of graph.edges) picture.append(lineOf(edge));
      for (const node of graph.nodes) picture.append(boxOf(node));
      this.stage.replaceChildren(picture);
      this.fit();
      this.nodes()[0]?.setAttribute("tabindex", "0");
    }
    this.cursor.pin(null);
  }

  /** Enlarges a small picture if there is space. */
  private fit(): void {
    const { graph } = this,
      picture = this.stage.querySelector("svg");
    if (!graph || !picture) return;
    const { width, height } = graph,
      scale = scaleOf(graph, this.stage.clientWidth - 4);
    set(picture, "width", String(Math.round(width * scale)));
    set(picture, "height", String(Math.round(height * scale)));
  }

  private nodes(): SVGGElement[] {
    return [...this.stage.querySelectorAll<SVGGElement>("[data-node]")];
  }
  private nodeOf(id: string | null): SVGGElement | undefined {
    return this.nodes().find((node) => node.dataset["node"] === id);
  }

  private point(): void {
    const { at } = this.cursor,
      { graph } = this;
    this.el.dataset["cursor"] = at ?? "";
    this.stage.classList.toggle("rfnb-graph-pointing", at !== null);
    const near = new Set<string | undefined>(at === null ? [] : [at]);
    for (const line of this.stage.querySelectorAll<SVGGElement>("[data-from]")) {
      const { from, to } = line.dataset,
        is = at !== null && (from === at || to === at);
      line.classList.toggle("rfnb-graph-near", is);
      if (is) near.add(from).add(to);
    }
    for (const node of this.nodes()) node.classList.toggle("rfnb-graph-near", near.has(node.dataset["node"]));
    const words = at === null || !graph ? "" : sentence(graph, at);
    const hint = graph?.nodes.length ? HINT + (this.head.levels ? OPENS : "") : graph ? "No calls were recorded." : "";
    this.readout.replaceChildren(words || quiet(hint));
  }

  private key({ key, ctrlKey, target }: KeyboardEvent): boolean {
    const from = nodeAt(target),
      up = levelsOf(this.head)[this.level]?.up ?? null,
      { graph } = this;
    this.still = false;
    if (ctrlKey || from === null || !graph) return false;
    if (key === "Enter" || key === " ") return this.open(from);
    if (key === "Escape" && up !== null) {
      this.close(up);
      return true;
    }
    const here = this.nodeOf(from),
      to = this.nodeOf(walk(graph, from, key));
    if (!to) return false;
    here?.setAttribute("tabindex", "-1");
    set(to, "tabindex", "0");
    to.focus();
    return true;
  }
}

const nodeAt = (target: EventTarget | null): string | null =>
  (target instanceof Element && target.closest<SVGGElement>("[data-node]")?.dataset["node"]) || null;

function boxOf(node: Node): SVGGElement {
  const { id, shape, lines, words, x, y, width, height, wrong } = node,
    flat = shape === "op" || shape === "fold";
  const box = svg("g", {
    "data-node": id,
    tabindex: -1,
    class: `rfnb-graph-node rfnb-graph-${shape}${wrong ? " rfnb-graph-wrong" : ""}`,
  });
  set(box, "role", shape === "fold" ? "button" : "img");
  set(box, "aria-label", shape === "fold" ? `${lines.join(" ")}: ${words}` : words); // the name of a button is its text
  const at = { x: x - width / 2, y: y - height / 2, width, height, rx: flat ? 4 : height / 2 };
  if (shape === "fold") box.append(svg("rect.rfnb-graph-behind", { ...at, x: at.x + 4, y: at.y + 4 }));
  box.append(svg("rect", at));
  const top = y + 4 - 7.5 * (lines.length - 1);
  lines.forEach((line, index) => {
    const text = svg("text", { x, y: top + 15 * index, class: index ? "rfnb-graph-more" : "" }, line);
    // Fonts differ between pages: text that is wider than at layout time is compressed into its box.
    if (line.length * (index ? 6.2 : 7.4) > width - 8) {
      set(text, "textLength", width - 10);
      set(text, "lengthAdjust", "spacingAndGlyphs");
    }
    box.append(text, " ");
  });
  return box;
}

function lineOf(edge: Edge): SVGGElement {
  const { from, to, path, form, label, hues = [], glyphs = [], ragged = [] } = edge,
    back = form === "lines";
  const group = svg("g", { "data-from": from, "data-to": to, class: back ? "rfnb-graph-back" : "rfnb-graph-line" });
  if (!hues.length) group.append(svg("path", { d: pathOf(edge) }));
  hues.forEach((hue, index) => {
    const look = `rfnb-graph-strand rfnb-hue-${hue % 8}${ragged[index] ? " rfnb-graph-ragged" : ""}`;
    group.append(svg("path", { d: pathOf(edge, (index - (hues.length - 1) / 2) * STRAND), class: look }));
  });
  const [x, y] = path.at(-1)!;
  group.append(svg("path.rfnb-graph-tip", { d: `M${x - 4} ${y - 2}L${x} ${y + 5}L${x + 4} ${y - 2}Z` }));
  const [mx, my] = middleOf(edge);
  let left = mx + (hues.length / 2) * STRAND + 3;
  glyphs.forEach((glyph, index) => {
    group.append(svg("text", { x: left, y: my + 3, class: `rfnb-graph-glyph rfnb-hue-${hues[index]! % 8}` }, glyph));
    left += MARK * glyph.length + 3;
  });
  if (label && back) {
    const lane = Math.max(...path.map(([px]) => px)),
      ys = path.map(([, py]) => py),
      middle = (Math.min(...ys) + Math.max(...ys)) / 2;
    group.append(svg("text.rfnb-graph-said", { transform: `translate(${lane + 4} ${middle}) rotate(-90)` }, label));
  }
  return group;
}

/** A graph with too many ops for a picture, as a table. */
function opsTable(head: GraphHead): HTMLElement[] {
  return (head.places ?? []).flatMap(({ name, meaning, ops }) => [
    h("p", `${name}: ${meaning}${ops.length ? "" : " (nothing)"}`),
    h(
      "table.rfnb-graph-table",
      h(
        "tbody",
        ...ops.map((op) =>
          h(
            "tr",
            h("th", { scope: "row" }, `#${op.id.replace(/^op/, "")} ${op.name}`),
            h("td", op.dims),
            h("td", op.code),
          ),
        ),
      ),
    ),
  ]);
}

export const render: Render<GraphHead> = (el, frame) => {
  const view = new GraphView(el);
  view.update(frame);
  return view;
};
