// Several views below each other in one frame, e.g. all that a trace has.

import type { Render, Rendered } from "../context";
import { h } from "../dom";
import { prefixed } from "../exact";
import type { AnyHead, Block, Frame } from "../frame";
import { showIn } from "../mount";

interface Part {
  kind: string;
  head: AnyHead;
}
interface Head extends AnyHead {
  parts?: Part[];
}

export const render: Render<Head> = (el, frame, ctx) => {
  const title = h("div.rfnb-group-title");
  const body = h("div.rfnb-group");
  const parts: { root: HTMLElement; shown: Rendered<AnyHead> }[] = [];
  el.append(title, body);
  const update = ({ head, blocks }: Frame<Head>) => {
    title.textContent = head.title ?? "";
    const wanted = head.parts ?? [];
    if (!wanted.length) title.textContent += head.live ? " — waiting for events" : " — nothing recorded";
    while (parts.length > wanted.length) {
      const last = parts.pop()!;
      last.shown.destroy();
      last.root.remove();
    }
    wanted.forEach((part, index) => {
      if (!parts[index]) {
        const root = h("section.rfnb-root.rfnb-part");
        body.append(root);
        parts[index] = { root, shown: showIn(root, prefixed(ctx.exact, `${index}/`)) };
      }
      const own = { kind: part.kind, head: { link: head.link ?? "", ...part.head }, blocks: pick(blocks, `${index}/`) };
      parts[index]!.shown.update(own);
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
