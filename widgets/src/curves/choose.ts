// The choice of series and runs: checkboxes, and a search field for many names.

import { button, h, on, quiet } from "../dom";

const SEARCHED = 12, // the number of names from which on there is a search field
  MOST = 100; // checkboxes

export class Chooser {
  readonly element = h("details.rfnb-curves-choose");
  private chosen: Set<string> | null = null; // null: all
  private readonly off = new Set<string>(); // hidden runs
  private drawn = new Set<string>();
  private labels: string[] = [];
  private runs: string[] = [];
  private readonly summary = h("summary");
  private readonly search = h("input", { type: "search", "aria-label": "search for series", placeholder: "search" });
  private readonly only = button("Show only these", () => this.take(new Set(this.found())), { "data-do": "only" });
  private readonly every = button("Show all", () => this.take(null), { "data-do": "every" });
  private readonly finder = h("span.rfnb-curves-finder", this.search, this.only, this.every);
  private readonly series = h("div", { role: "group", "aria-label": "series" });
  private readonly ofRuns = h("div", { role: "group", "aria-label": "runs" });

  constructor(private readonly changed: () => void) {
    this.element.append(this.summary, this.ofRuns, this.finder, this.series);
    on(this.search, "input", () => this.list());
    on(this.search, "keydown", ({ key }) => key === "Enter" && this.take(new Set(this.found())));
  }

  /** Sets the names to choose from. */
  offer(labels: string[], runs: string[]): void {
    const same = (some: string[], others: string[]) => some.join("\n") === others.join("\n");
    if (same(labels, this.labels) && same(runs, this.runs)) return;
    [this.labels, this.runs] = [labels, runs];
    this.element.hidden = labels.length < 2 && runs.length < 2;
    this.finder.hidden = labels.length < SEARCHED;
    this.ofRuns.hidden = runs.length < 2;
    this.series.hidden = labels.length < 2;
    this.ofRuns.replaceChildren(
      quiet("runs: "),
      ...runs.map((run) =>
        box(run, !this.off.has(run), (on) => {
          if (on) this.off.delete(run);
          else this.off.add(run);
          this.changed();
        }),
      ),
    );
    this.list();
  }

  /** Whether a series is drawn. */
  has(label: string, run: string | null): boolean {
    return (this.chosen?.has(label) ?? true) && (run === null || !this.off.has(run));
  }

  /** Updates the count and the checkboxes. */
  say(drawn: string[]): void {
    const { labels, off, runs } = this,
      of = runs.length > 1 ? `, ${runs.length - off.size} of ${runs.length} runs` : "";
    this.summary.textContent = `${drawn.length} of ${labels.length} series${of}`;
    this.drawn = new Set(drawn);
    for (const input of this.series.querySelectorAll("input")) input.checked = this.drawn.has(input.value);
  }

  private take(chosen: Set<string> | null): void {
    if (chosen && !chosen.size) return;
    this.chosen = chosen;
    this.changed();
  }

  private found(): string[] {
    const words = this.search.value.toLowerCase().split(/\s+/);
    return this.labels.filter((label) => words.every((word) => label.toLowerCase().includes(word)));
  }

  private list(): void {
    const found = this.found(),
      left = found.length - MOST;
    this.series.replaceChildren(
      ...found.slice(0, MOST).map((label) =>
        box(label, this.drawn.has(label), () => {
          const ticked = [...this.series.querySelectorAll("input")].filter(({ checked }) => checked),
            unseen = [...(this.chosen ?? [])].filter((other) => !found.slice(0, MOST).includes(other));
          this.chosen = new Set([...ticked.map(({ value }) => value), ...unseen]);
          this.changed();
        }),
      ),
      quiet(!found.length ? "no series has such a name" : left > 0 ? `and ${left} more: search for them` : ""),
    );
  }
}

function box(name: string, ticked: boolean, changed: (on: boolean) => void): HTMLElement {
  const input = h("input", { type: "checkbox", value: name });
  input.checked = ticked;
  on(input, "change", () => changed(input.checked));
  return h("label", input, name);
}
