// A view never breaks its page: an error in one view is shown as a sentence in it, and the other views continue.

import { h } from "./dom";

/** Runs an action of the view that a part belongs to; `failed` undoes what is half done. */
export function attempt(part: EventTarget | null, work: () => void, failed?: () => void): void {
  try {
    work();
  } catch (error) {
    if (failed) attempt(null, failed);
    const root = (part as Element | null)?.closest?.(".rfnb-root");
    if (!root) return;
    forgive(root);
    // Errors of the language are not sentences for readers: they come from values of an unexpected type.
    const own = (error as Error)?.constructor === Error;
    if (!own) console.warn("rfnb:", error);
    const why = own ? (error as Error).message : "its data is damaged.";
    const message = `This view cannot be drawn: ${why}`;
    root.prepend(h("p.rfnb-sentence.rfnb-failed", { role: "alert" }, message));
  }
}

/** Clears an earlier error, since there is a new frame. */
export const forgive = (root: Element): void => root.querySelector(":scope > .rfnb-failed")?.remove();
