// Edits in a held run, the same for all views: the place of an edit, the tools for it, and its result. rfnb/viz/edit_handles.py maps cells of a
// view to places in the run.

import type { Context } from "./context";
import { button, h, select, setOptions, status } from "./dom";
import type { Command } from "./run";
import { Stick } from "./sticky_position";
import { line, safe } from "./visible_text";

/** A step of a loop, as `run.from_step` takes it. */
export interface Place {
  path: string;
  nth: number;
  step: number;
}
/** The loop whose steps the rows of a view are: row by row, or as in `steps`. */
export interface HeldRows {
  path: string;
  nth: number;
  steps?: (number | null)[];
}
/** The entries of a cell, by names of dims. */
export interface HeldCells extends HeldRows {
  seqs: [name: string, size: number][];
  units?: [name: string, size: number][];
  slot?: string; // the dim of hypotheses
  fixed?: Record<string, number>;
  always?: Record<string, number>; // of all maps
  lacks?: Record<string, string[]>; // by row: dims that its values do not have
}
/** The edits before the step of each row. */
export type Marks = [row: number, words: string][];
/** Marks a step with an edit in a picture. */
export const MARK = "◆";
export const marked = (marks: Marks = []): Set<number> => new Set(marks.map(([row]) => row));

/** The step of a row, or (`after` 1) the one that follows it. */
export function placeOf({ path, nth, steps }: HeldRows, row: number, after = 0): Place | null {
  const step = steps ? steps[row] : row;
  return step == null ? null : { path, nth, step: step + after };
}

/** Whether the hypothesis of a cell is known if its values belong to several: otherwise an edit would change all of them. */
export const isOfOne = ({ slot, lacks }: HeldCells, row: number, at: number | null): boolean =>
  !slot || at !== null || !!lacks?.[row]?.includes(slot);

/** The entries of a cell; without a `unit` for all units, and without a `slot` for all hypotheses. */
export function entriesOf(
  held: HeldCells,
  row: number,
  seq: number | null,
  slot: number | null,
  unit: number | null = null,
): Record<string, number> {
  const found: Record<string, number> = { ...held.always, ...held.fixed };
  const unravel = (number: number | null, dims: [string, number][]) => {
    if (number !== null)
      for (const [name, size] of [...dims].reverse()) {
        found[name] = number % size;
        number = Math.floor(number / size);
      }
  };
  unravel(seq, held.seqs);
  unravel(unit, held.units ?? []);
  if (held.slot && slot !== null) found[held.slot] = slot;
  for (const name of held.lacks?.[row] ?? []) delete found[name];
  return found;
}

/** The tools at a place. */
export interface Offer {
  place: Place | null; // null: there is no such step
  make: () => (Node | string)[];
}

export class EditPanel {
  readonly element = h("div.rfnb-edits", { role: "group", "aria-label": "edits", hidden: "" });
  private readonly title = h("b");
  private readonly where = h("span");
  private readonly choice = select("the step that is changed", (index) => {
    this.chosen = index;
    this.fill();
  });
  private readonly head = h("div", this.title, " ", this.where, this.choice);
  private readonly tools = h("div.rfnb-edits-tools");
  private readonly onward = button("", () => void this.send({ do: "branch", ...this.place, paused: true }), {
    "data-do": "run-on",
  });
  private readonly refused = h("pre.rfnb-wrong", { role: "alert", hidden: "" });
  private readonly pending = status("div.rfnb-edits-pending");
  private readonly marks = h("div.rfnb-quiet");
  private readonly end: () => void;
  private stick: Stick | null = null; // once it is in a view: it opens within the visible part
  private offers: Offer[] = [];
  private chosen = 0;
  private shown = "";
  private run: number | undefined; // the run that the tools are for

  /** `changed` is called when the run has changed. */
  constructor(
    private readonly ctx: Context,
    changed: () => void,
  ) {
    this.element.append(this.refused, this.pending, this.marks);
    this.end =
      ctx.held?.listen(() => {
        changed();
        this.follow();
      }) ?? (() => {});
  }

  /** Lists the edits so far, also without a held run. */
  mark(marks: Marks = [], step = "step"): void {
    this.marks.textContent = marks.map(([row, words]) => `${MARK} ${step} ${row}: ${line(words)}`).join("; ");
    this.follow();
  }

  /** Offers tools; if `key` and places are the same, the tools stay with their typed input. */
  offer(key: string, title: string, offers: Offer[]): void {
    const there = this.ctx.run ? offers.filter(({ place }) => place) : [],
      shown = JSON.stringify([key, there]),
      { run } = this.ctx.run?.state ?? {};
    if (shown !== this.shown || run !== this.run) {
      if (shown !== this.shown) this.refuse(null); // otherwise it may belong to a branch that was discarded
      this.shown = shown;
      this.run = run;
      this.offers = there;
      this.chosen = 0;
      this.title.textContent = title;
      this.fill();
    } else this.follow();
  }

  /** Whether the run is paused before the step of a place. */
  isAt(place: Place | null): boolean {
    const { state, at } = this.ctx.run?.state ?? {};
    return state === "paused" && at?.path === place?.path && at?.step === place?.step && at?.nth === place?.nth;
  }

  /** A button that makes an edit at the chosen place. A sentence instead of commands says why it cannot. */
  act(text: string, commands: () => Command[] | string, name?: string): HTMLButtonElement {
    return button(text, () => this.apply(commands(), name));
  }

  /** `name`: of the new branch, a description of the edit. */
  apply(commands: Command[] | string, name?: string): void {
    if (typeof commands === "string") this.refuse(commands);
    else if (this.place) this.keep({ place: this.place, then: commands, name });
  }

  /** Makes an edit: here, or in a branch, which runs beside the displayed one. */
  keep({ place, then, name }: { place: Place; then: Command[]; name?: string | undefined }): void {
    const run = this.ctx.run;
    if (run) run.before = new Set(run.state.runs.map(({ number }) => number));
    void this.send({ do: "edit", ...place, then, ...(name ? { name } : {}) });
  }

  focus(): void {
    this.tools.querySelector<HTMLElement>("button,input,[tabindex]")?.focus();
  }

  private get place(): Place | null {
    return this.offers[this.chosen]?.place ?? null;
  }

  private fill(): void {
    const { place } = this;
    this.onward.textContent = `Run on from step ${place?.step}`;
    this.tools.replaceChildren(...(this.offers[this.chosen]?.make() ?? []), this.onward);
    this.follow();
  }

  private refuse(sentence: string | null): void {
    this.refused.textContent = sentence && safe(sentence);
    this.refused.hidden = !sentence;
    if (sentence) this.element.hidden = false;
  }

  private async send(command: Command): Promise<void> {
    this.refuse(null);
    this.refuse(await this.ctx.run!.do(command));
  }

  /** Updates the panel after the run or the displayed place has changed. */
  private follow(): void {
    const { state, at, changed } = this.ctx.run?.state ?? {},
      { offers, place, marks, pending } = this;
    const words = offers.map(({ place }) =>
      this.isAt(place) ? `in the next step, ${place!.step}` : `in a branch from step ${place!.step}`,
    );
    setOptions(this.choice, words, this.chosen);
    this.where.textContent = words.length > 1 ? "" : (words[0] ?? "");
    this.onward.hidden = this.isAt(place);
    if (!place) for (const part of [this.head, this.tools]) part.remove();
    else if (!this.tools.parentElement) this.element.prepend(this.head, this.tools);
    const waits = state === "paused" && changed?.length;
    pending.textContent = waits ? `In the next step, ${at!.step}: ${changed.map(line).join("; ")}` : "";
    this.element.hidden = !place && !marks.textContent && !waits && this.refused.hidden;
    const view = place && this.element.closest<HTMLElement>(".rfnb-part, .rfnb-root");
    if (view) this.stick ??= new Stick(this.element, view, "bottom");
    this.stick?.update();
  }

  destroy(): void {
    this.stick?.destroy();
    this.end();
  }
}
