// What is around the picture of a view.

import { h } from "./dom";
import { safe } from "./visible_text";

/** A title with what is beside it, and below it the picture, or a sentence where there is none. */
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

  /** Whether there is a picture: not if there is a sentence about what is missing. */
  show(title: string, missing: string | null): boolean {
    this.title.textContent = safe(title);
    this.sentence.textContent = safe(missing ?? "");
    this.sentence.hidden = !missing;
    for (const element of [...this.beside, this.picture]) element.hidden = !!missing;
    return !missing;
  }
}
