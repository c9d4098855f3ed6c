// A view never fails its page: an error in one view becomes a sentence in it, and the other views continue.

import { h } from "./dom";

/** Does something for the view that a part belongs to; `failed` takes back what is half done. */
export function attempt(part: EventTarget | null, work: () => void, failed?: () => void): void {
  try {
    work();
  } catch (error) {
    if (failed) attempt(null, failed);
    const root = (part as Element | null)?.closest?.(".rfnb-root");
    if (!root) return;
    forgive(root);
    // What the language throws is no sentence for a reader: values of another kind than the view counts on.
    const own = (error as Error)?.constructor === Error;
    if (!own) console.warn("rfnb:", error);
    const why = own ? (error as Error).message : "its data is damaged.";
    const message = `This view cannot be drawn: ${why}`;
    root.prepend(h("p.rfnb-sentence.rfnb-failed", { role: "alert" }, message));
  }
}

/** What went wrong before is past: there is another frame. */
export const forgive = (root: Element): void => root.querySelector(":scope > .rfnb-failed")?.remove();
