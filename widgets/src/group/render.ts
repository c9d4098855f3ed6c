// Several views below each other in one frame, e.g. all that a trace has.

import type { Render } from "../context";
import { h } from "../dom";
import type { Block, Frame, Head } from "../frame";
import type { Shown } from "../mount";
import { showIn } from "../mount";

interface Part {
  kind: string;
  head: Head;
}

export const render: Render = (el, frame) => {
  const title = h("div", { class: "rfnb-group-title" });
  const body = h("div", { class: "rfnb-group" });
  const parts: { root: HTMLElement; shown: Shown }[] = [];
  el.append(title, body);
  const update = ({ head, blocks }: Frame) => {
    title.textContent = String(head["title"] ?? "");
    const wanted = Array.isArray(head["parts"]) ? (head["parts"] as Part[]) : [];
    if (!wanted.length) title.textContent += head["live"] ? " — waiting for events" : " — nothing recorded";
    while (parts.length > wanted.length) {
      const last = parts.pop()!;
      last.shown.destroy();
      last.root.remove();
    }
    wanted.forEach((part, index) => {
      if (!parts[index]) {
        const root = h("section", { class: "rfnb-root rfnb-part" });
        body.append(root);
        parts[index] = { root, shown: showIn(root) };
      }
      parts[index]!.shown.update({
        kind: part.kind,
        head: { link: head["link"], ...part.head },
        blocks: pick(blocks, `${index}/`),
      });
    });
  };
  update(frame);
  return {
    update,
    destroy() {
      for (const { shown } of parts) shown.destroy();
    },
  };
};

/** The blocks of one part: those whose name begins with its number. */
export function pick(blocks: Record<string, Block>, prefix: string): Record<string, Block> {
  return Object.fromEntries(
    Object.entries(blocks).flatMap(([name, block]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), block]] : [],
    ),
  );
}
