// A field for the expected result of a search: why the search missed it, and what would produce it. Computed by rfnb/control/why_not.py.

import type { Context } from "../context";
import { button, h, on, quiet, status } from "../dom";
import { minus } from "../number";
import type { Command, RunState } from "../run";
import { visible } from "../visible_text";

const MOST = 12; // labels to choose from
let count = 0;

/** Completions of the label being typed: the text so far with each matching label. */
export function completions(typed: string, vocab: string[]): string[] {
  const [, before = "", begun = ""] = /^(.*\s)?(\S*)$/s.exec(typed) ?? [];
  const fits = vocab.filter((label) => label !== begun && label.toLowerCase().startsWith(begun.toLowerCase()));
  return fits.slice(0, MOST).map((label) => before + label);
}

export class WhyNot {
  private readonly list = h("datalist", { id: `rfnb-why-${++count}` });
  private readonly field = h("input.rfnb-run-field", {
    type: "text",
    "aria-label": "what was expected",
    placeholder: "labels, with spaces",
    autocomplete: "off",
  });
  private readonly said = status("div.rfnb-why-said");
  private readonly repairs = h("div.rfnb-run-row", { role: "group", "aria-label": "what would produce it" });
  private readonly form: HTMLElement;
  readonly element: HTMLElement;
  private shown = "";
  private vocab: string[] = [];

  constructor(ctx: Context, ask: (command: Command) => void) {
    this.field.setAttribute("list", this.list.id);
    this.form = h(
      "form.rfnb-run-row",
      h("label", "why not ", this.field),
      this.list,
      h("button", { type: "submit", "data-do": "why" }, "Ask"),
    );
    on(this.form, "submit", (event) => {
      event.preventDefault();
      ask({ do: "why", expected: this.field.value.trim(), seq: ctx.busOf("").now.seq ?? 0 });
    });
    on(this.field, "input", () => this.complete());
    on(this.field, "focus", () => this.complete());
    on(this.repairs, "click", ({ target }) => {
      const number = (target as HTMLElement).dataset["repair"];
      if (number) ask({ do: "repair", number: Number(number) });
    });
    this.element = h("div.rfnb-why", { hidden: "" }, this.form, this.said, this.repairs);
  }

  private complete(): void {
    this.list.replaceChildren(...completions(this.field.value, this.vocab).map((value) => h("option", { value })));
  }

  /** @param can Whether questions can be answered: a saved page has only the last answer. */
  update({ vocab, why }: RunState, can: boolean): void {
    this.element.hidden = can ? !vocab : !why?.text;
    this.form.hidden = !can;
    this.vocab = vocab ?? [];
    const key = JSON.stringify([why ?? null, can]);
    if (key === this.shown) return;
    this.shown = key;
    const answer = why ? `${why.text || "…"} ${why.causes}`.trim() : "";
    this.said.textContent = why ? visible(minus(can ? answer : `Why not ${why.expected}? ${answer}`)) : "";
    this.said.classList.toggle("rfnb-wrong", !!why?.wrong);
    const made = (why?.repairs ?? []).map(([words, makes], number) =>
      makes && can ? button(visible(words), () => {}, { "data-repair": number }) : quiet(visible(words)),
    );
    if (made.length && !can) made.unshift(quiet("what would produce it:"));
    this.repairs.replaceChildren(...made);
    this.repairs.hidden = !made.length;
  }
}
