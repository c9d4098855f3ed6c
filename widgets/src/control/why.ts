// A field for what was expected of a search: why it was not said, and what would give it. Found by rfnb/control/why_not.py.

import type { Context } from "../context";
import { button, h, on, quiet, status } from "../dom";
import { minus } from "../number";
import type { Command, RunState } from "../run";
import { visible } from "../visible";

const MOST = 12; // labels to choose from
let count = 0;

/** What may be typed in the place of the label that is begun: all that is there with each label that begins so. */
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
  private readonly repairs = h("div.rfnb-run-row", { role: "group", "aria-label": "what would give it" });
  readonly element: HTMLElement;
  private shown = "";
  private vocab: string[] = [];

  constructor(ctx: Context, ask: (command: Command) => void) {
    this.field.setAttribute("list", this.list.id);
    const form = h(
      "form.rfnb-run-row",
      h("label", "why not ", this.field),
      this.list,
      h("button", { type: "submit", "data-do": "why" }, "Ask"),
    );
    on(form, "submit", (event) => {
      event.preventDefault();
      ask({ do: "why", expected: this.field.value.trim(), seq: ctx.busOf("").now.seq ?? 0 });
    });
    on(this.field, "input", () => this.complete());
    on(this.field, "focus", () => this.complete());
    on(this.repairs, "click", ({ target }) => {
      const number = (target as HTMLElement).dataset["repair"];
      if (number) ask({ do: "repair", number: Number(number) });
    });
    this.element = h("div.rfnb-why", { hidden: "" }, form, this.said, this.repairs);
  }

  private complete(): void {
    this.list.replaceChildren(...completions(this.field.value, this.vocab).map((value) => h("option", { value })));
  }

  update({ vocab, why }: RunState): void {
    this.element.hidden = !vocab;
    this.vocab = vocab ?? [];
    const key = JSON.stringify(why ?? null);
    if (key === this.shown) return;
    this.shown = key;
    this.said.textContent = why ? visible(minus(`${why.text || "…"} ${why.causes}`.trim())) : "";
    this.said.classList.toggle("rfnb-wrong", !!why?.wrong);
    const made = (why?.repairs ?? []).map(([words, makes], number) =>
      makes ? button(visible(words), () => {}, { "data-repair": number }) : quiet(visible(words)),
    );
    this.repairs.replaceChildren(...made);
    this.repairs.hidden = !made.length;
  }
}
