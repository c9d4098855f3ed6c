// The frame around the picture of a view: title, tools, notes.

import { h } from "./dom";
import { safe } from "./visible_text";

/** A title with its tools, and below it the picture, or a sentence instead. */
export class Shell {
  private readonly title = h("b.rfnb-title");
  private readonly sentence = h("p.rfnb-sentence", { role: "alert" });

  constructor(
    el: HTMLElement,
    private readonly beside: HTMLElement[],
    private readonly picture: HTMLElement,
  ) {
    el.append(h("div.rfnb-top", this.title, ...beside), this.sentence, picture);
  }

  /** Shows the picture, or a sentence about missing data. */
  show(title: string, missing: string | null): boolean {
    this.title.textContent = safe(title);
    this.sentence.textContent = safe(missing ?? "");
    this.sentence.hidden = !missing;
    for (const element of [...this.beside, this.picture]) element.hidden = !!missing;
    return !missing;
  }
}
