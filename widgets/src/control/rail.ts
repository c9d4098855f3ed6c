// The rail of a run: its branches as lines over steps, each with its edit and its result. A click shows a branch, shift-click compares it with
// the displayed one, its ring can be dragged to another step, and Delete discards it.

import type { Context } from "../context";
import { onKeys } from "../cursor";
import { coarse, h, on, onLeave, onResize, set, svg } from "../dom";
import { fixed } from "../number";
import type { Command, Entry, RunState } from "../run";
import { line, visible } from "../visible_text";

const ROW = coarse() ? 92 : 20,
  GRAPH = 240, // pixels of the lines, at most a quarter
  EDGE = 10,
  MOST_STEPS = 1e5;
const GLYPHS: Record<string, string> = {
  running: "▶",
  pausing: "…",
  paused: "‖",
  stopping: "…",
  failed: "!",
  stopped: "■",
};

interface Drag {
  entry: Entry;
  from: number; // clientX
  step: number;
}

export class Rail {
  readonly element = h("div.rfnb-rail", { role: "listbox", "aria-label": "branches", hidden: "" });
  private readonly graph = svg("svg", { "aria-hidden": "true" });
  private readonly list = h("div", { role: "presentation" });
  private shown = "";
  private now: RunState | null = null;
  private at: number | null = null; // the run with the focus
  private drag: Drag | null = null;
  private seq = 0;
  private most = 1; // the number of steps of a run
  private wide = GRAPH; // of the lines
  private readonly unwatch: () => void;

  /** `ask` sends a command; `chosen` gets the branch under the pointer. */
  constructor(
    private readonly ctx: Context,
    private readonly ask: (command: Command) => void,
  ) {
    this.element.append(this.graph as unknown as Node, this.list);
    onKeys(this.element, (event) => this.key(event));
    on(this.element, "pointermove", (event) => this.dragged(event));
    on(this.element, "pointerup", () => this.dropped());
    on(this.element, "pointercancel", () => this.ended());
    onLeave(this.element, () => this.point(null));
    this.unwatch = onResize(this.element, () => this.now && this.draw());
  }

  update(now: RunState): void {
    const seq = this.ctx.busOf("").now.seq ?? 0,
      key = JSON.stringify([now.runs, now.run, now.beside, seq]);
    this.now = now;
    this.seq = seq;
    if (key === this.shown || this.drag) return;
    this.shown = key;
    this.most = Math.max(1, ...now.runs.map(({ steps = 0 }) => Math.min(steps, MOST_STEPS)));
    this.element.hidden = now.runs.length < 2;
    const focused = this.list.contains(document.activeElement);
    this.list.replaceChildren(...now.runs.map((entry) => this.row(entry)));
    this.draw();
    if (focused) this.focus(this.at);
    this.reveal(now.run);
  }

  private row(entry: Entry): HTMLElement {
    const { now } = this,
      isShown = entry.number === now!.run,
      isBeside = entry.number === now!.beside,
      result = entry.results?.[this.seq] ?? entry.results?.[0];
    const said = result?.words || [entry.name, entry.from, entry.state].filter(Boolean).join(", ");
    const row = h(
      "div.rfnb-rail-row",
      {
        role: "option",
        "data-run": entry.number,
        "aria-selected": isShown,
        title: `${line(said)}${isShown ? "" : "\nClick: show it. Shift-click: compare it with the displayed one."}`,
        tabindex: entry.number === (this.at ?? now!.run) ? 0 : -1,
      },
      h("span.rfnb-rail-mark", isShown && now!.beside ? "A" : isBeside ? "B" : (GLYPHS[entry.state] ?? "")),
      h("b.rfnb-rail-name", line(entry.name)),
      h(`span.rfnb-rail-result${entry.far ? ".rfnb-rail-far" : ""}`, ...lettersOf(entry, this.seq)),
      h("span.rfnb-rail-score", scoreOf(entry, this.seq)),
    );
    if (isBeside) row.dataset["beside"] = "";
    const button = (text: string, title: string, command: Command) => {
      const made = h("button.rfnb-rail-do", { type: "button", tabindex: -1, "aria-hidden": true, title }, text);
      on(made, "click", (event) => {
        event.stopPropagation();
        this.ask(command);
      });
      row.append(made);
    };
    const { number } = entry;
    for (const [text, step] of [
      ["‹", entry.step! - 1],
      ["›", entry.step! + 1],
    ] as const)
      // the same as the ring and the arrow keys, for touch screens
      if (coarse() && entry.moves && step >= 0) button(text, `Move it to step ${step}`, { do: "move", number, step });
    if (!isShown) button("A|B", "Compare it with the displayed one", { do: "compare", number }); // the same as Shift
    if (entry.parent !== undefined) button("×", "Discard it", { do: "let_go", number });
    on(row, "click", (event) => this.choose(entry.number, event.shiftKey));
    on(row, "focus", () => {
      this.at = entry.number;
      this.point(entry);
    });
    on(row, "pointerenter", () => this.point(entry));
    on(row, "pointerdown", (event) => this.grab(event, entry));
    return row;
  }

  private choose(number: number, compare: boolean): void {
    const { now } = this;
    if (compare ? number !== now!.run : number !== now!.run || now!.beside)
      this.ask({ do: compare ? "compare" : "follow", number });
  }

  /** Shows the path of the branch under the pointer in the tree. */
  private point(entry: Entry | null): void {
    const { ctx, now } = this;
    ctx.held?.point(entry && entry.number !== now?.run && entry.parent === now?.run ? entry : null);
  }

  private key({ key, shiftKey }: KeyboardEvent): boolean {
    const runs = this.now?.runs ?? [],
      index = runs.findIndex(({ number }) => number === this.at),
      entry = runs[index];
    if (!entry) return false;
    if (key === "ArrowDown" || key === "ArrowUp") {
      this.focus(runs[index + (key === "ArrowDown" ? 1 : -1)]?.number ?? entry.number);
      return true;
    }
    if (key === "Home" || key === "End") {
      this.focus(runs.at(key === "Home" ? 0 : -1)!.number);
      return true;
    }
    if (key === "Enter" || key === " ") {
      this.choose(entry.number, shiftKey);
      return true;
    }
    if (key === "Delete" && entry.parent !== undefined) {
      this.focus(entry.parent);
      this.ask({ do: "let_go", number: entry.number });
      return true;
    }
    if ((key === "ArrowLeft" || key === "ArrowRight") && entry.moves) {
      const step = entry.step! + (key === "ArrowRight" ? 1 : -1);
      if (step >= 0) this.ask({ do: "move", number: entry.number, step });
      return true;
    }
    return false;
  }

  private focus(number: number | null): void {
    for (const row of this.list.children as unknown as HTMLElement[]) {
      const here = row.dataset["run"] === String(number);
      row.tabIndex = here ? 0 : -1;
      if (here) row.focus();
    }
  }

  private reveal(number: number): void {
    const index = this.now!.runs.findIndex((entry) => entry.number === number),
      { scrollTop, clientHeight } = this.element;
    if (index * ROW < scrollTop) this.element.scrollTop = index * ROW;
    else if ((index + 1) * ROW > scrollTop + clientHeight && clientHeight)
      this.element.scrollTop = (index + 1) * ROW - clientHeight;
  }

  // -- the lines -----------------------------------------------------------------------------------------------------------

  private x(step: number): number {
    return EDGE + (Math.min(step, this.most) / this.most) * (this.wide - EDGE * 2);
  }

  private draw(): void {
    const { runs, run, beside } = this.now!,
      rows = new Map(runs.map(({ number }, index) => [number, index])),
      y = (index: number) => index * ROW + ROW / 2;
    this.wide = Math.min(GRAPH, (this.element.clientWidth || 4 * GRAPH) / 4);
    this.element.style.setProperty("--rfnb-lines", `${this.wide + 4}px`);
    set(this.graph, "width", this.wide);
    set(this.graph, "height", runs.length * ROW);
    const lines = runs.flatMap((entry, index) => {
      const begin = this.x(entry.tick ?? 0),
        above = rows.get(entry.parent ?? NaN),
        chosen = entry.number === run || entry.number === beside,
        from = above === undefined ? "" : `M${begin},${y(above)}V${y(index)}`,
        way = svg(chosen ? "path.rfnb-rail-chosen" : "path", {
          d: `${from}M${begin},${y(index)}H${this.x(Math.max(entry.steps ?? 0, entry.tick ?? 0))}`,
        });
      if (above === undefined) return [way];
      const ring = svg("circle", { cx: begin, cy: y(index), r: 4.5, "data-of": entry.number });
      return [way, ring];
    });
    this.graph.replaceChildren(...lines);
  }

  private grab(event: PointerEvent, entry: Entry): void {
    const left = this.element.getBoundingClientRect().left,
      near = Math.abs(event.clientX - left - this.x(entry.tick ?? 0)) < (coarse() ? 22 : 10);
    if (!near || !entry.moves || event.button) return;
    event.preventDefault();
    this.element.setPointerCapture(event.pointerId);
    this.drag = { entry, from: event.clientX, step: entry.step! };
  }

  private dragged(event: PointerEvent): void {
    const { drag } = this;
    if (!drag) return;
    const pitch = (this.wide - EDGE * 2) / this.most,
      parent = this.now!.runs.find(({ number }) => number === drag.entry.parent),
      last = (parent?.steps ?? 1) - 1 - (drag.entry.tick! - drag.entry.step!);
    drag.step = Math.max(0, Math.min(last, drag.entry.step! + Math.round((event.clientX - drag.from) / pitch)));
    const ring = this.graph.querySelector(`[data-of="${drag.entry.number}"]`)!;
    set(ring, "cx", this.x(drag.entry.tick! + drag.step - drag.entry.step!));
  }

  private dropped(): void {
    const { drag } = this;
    this.ended();
    if (drag && drag.step !== drag.entry.step) this.ask({ do: "move", number: drag.entry.number, step: drag.step });
  }

  private ended(): void {
    if (!this.drag) return;
    this.drag = null;
    this.draw();
  }

  destroy(): void {
    this.unwatch();
    this.ctx.held?.point(null);
  }
}

/** The labels of a result; those that differ from its parent run are highlighted. */
function lettersOf({ results, text, far, state }: Entry, seq: number): (HTMLElement | string)[] {
  const result = results?.[seq] ?? results?.[0];
  if (!result) return [state === "done" ? "" : state];
  if (!result.labels.length) return far ? [h("span", line(text ?? "")), h("span", ` ${far}`)] : [line(text ?? "")];
  return result.labels.flatMap((label, index) => [
    result.edits?.[index] === "=" || !result.edits ? visible(label) : h("b", visible(label)),
    " ",
  ]);
}

function scoreOf({ results, parent }: Entry, seq: number): string {
  const { score, difference, same } = results?.[seq] ?? results?.[0] ?? {};
  if (score == null) return parent !== undefined && same ? "the same" : "";
  const apart = fixed(difference ?? 0, 2),
    far =
      difference == null || parent === undefined
        ? ""
        : Number(apart.replace("−", "-"))
          ? ` (${difference > 0 ? "+" : ""}${apart})`
          : " (±0)";
  return fixed(score, 2) + far;
}
