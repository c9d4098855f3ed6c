// The card of one hypothesis: its text, its fate, the parts of its score, and its continuations.

import { h, on, onLeave, onResize, quiet, set } from "../dom";
import { shorten } from "../labels";
import { chance, fixed } from "../number";
import type { Place } from "./cursor";
import type { Cut, Node, Tree } from "./tree";
import { line } from "../visible_text";
import { childrenOf, cutText, pathOf, prefix, repeatOf, untold } from "./tree";
import { verdictOf } from "./verdict";

const MOST_TOKENS = 60,
  MOST_COLUMNS = 24,
  MOST_NEXT = 5,
  LONGEST = 40, // letters of a token
  BAR = 28; // pixels of the least probable token of a hypothesis

const SUMS =
  "This search sums alignments: a score covers all alignments of these labels in the beam, not one path through the " +
  "picture, and a term is its change in a step: above 0 where others joined.";

interface Piece {
  token: string;
  gain: number;
  parts: number[];
}

/** Fills the card for the place of the cursor; returns a function that cancels what waits for its size. */
export function showCard(
  card: HTMLElement,
  tree: Tree,
  place: Place | null,
  { join, live, sums }: { join: string; live: boolean; sums: boolean },
): () => void {
  if (!place) {
    card.replaceChildren(h("p.rfnb-quiet", "No hypothesis yet."));
    return () => {};
  }
  const item = place.kind === "node" ? place.node : place.cut;
  const path: Piece[] = place.kind === "node" ? pathOf(place.node) : [...pathOf(place.cut.parent), place.cut];
  const text = line(place.kind === "node" ? prefix(pathOf(place.node), join) : cutText(place.cut, join));
  const among = labels(tree, item.parent, item.step, item);
  card.replaceChildren(
    h("div.rfnb-beams-prefix", { dir: "auto" }, text || untold(item)),
    h("div.rfnb-beams-verdict", `Step ${item.step}. ${capital(verdictOf(tree, place))}.${circles(path, join)}`),
    ...(tree.parts.length ? [partsTable(tree, path)] : [tokens(path, item.score, sums)]),
    ...(sums ? [h("div.rfnb-quiet", SUMS)] : []),
    ...(among ? [h("div", quiet("best of the vocabulary in this step "), ...among)] : []),
    ...(place.kind === "node" ? [next(tree, place.node, live)] : []),
  );
  const boxes = card.querySelectorAll<HTMLElement>(".rfnb-beams-prefix, .rfnb-beams-wide");
  // After the page was laid out anyway: reading a size earlier would force a layout on every pointer move.
  const ends = [...boxes].map((box) => {
    const end = onResize(box, () => {
      end();
      if (box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1) set(box, "tabindex", "0"); // else keys could not scroll it
      if (!box.firstElementChild?.matches("table")) box.scrollTop = 1e6; // the end is new
    });
    return end;
  });
  return () => ends.forEach((end) => end());
}

function circles(path: Piece[], join: string): string {
  const tokens = path.map(({ token }) => token),
    found = repeatOf(tokens);
  if (!found) return "";
  const { start, period, times } = found,
    once = tokens.slice(start, start + period).map((token) => shorten(token, LONGEST));
  return ` It goes in circles: “${line(once.join(join))}” ${times} times in a row.`;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The distance of a token's probability from 100 %; with several models it is the score, which is not a probability. */
const lack = ({ gain }: Piece, sums: boolean): number => Math.min(1e6, Math.max(0, sums ? -gain : 1 - Math.exp(gain)));

/** A bar from 100 % down to the probability of a token, scaled to the least probable token of the hypothesis. */
function barOf(piece: Piece, path: Piece[], sums = false): HTMLElement {
  const most = Math.max(...path.map((each) => lack(each, sums))),
    bar = h("span.rfnb-beams-bar");
  bar.style.height = `${Math.max(1, most ? (lack(piece, sums) / most) * BAR : 0)}px`;
  return h("span.rfnb-beams-depth", { "aria-hidden": "true" }, bar);
}

const sumOf = (pieces: Piece[]): number => pieces.reduce((sum, piece) => sum + piece.gain, 0);
const begin = (count: number): string => `the first ${count}`;

/** The contribution of each model to each token: columns add up to the bars, rows to the sums. */
function partsTable(tree: Tree, path: Piece[]): HTMLElement {
  const names = tree.parts;
  const shown = path.slice(-MOST_COLUMNS),
    before = path.slice(0, -MOST_COLUMNS);
  const cell = (value: number) => h("td", fixed(value, 2));
  const row = (name: string, of: (piece: Piece) => number) => {
    const total = (pieces: Piece[]) => pieces.reduce((sum, piece) => sum + of(piece), 0);
    return h(
      "tr",
      h("th", { scope: "row" }, name),
      ...(before.length ? [cell(total(before))] : []),
      ...shown.map((piece) => cell(of(piece))),
      cell(total(path)),
    );
  };
  const bars = shown.map((piece) => h("td", barOf(piece, path, true)));
  const heads = [
    ...(before.length ? [begin(before.length)] : []),
    ...shown.map((piece) => shorten(piece.token, LONGEST)),
    "sum",
  ];
  return h(
    "div.rfnb-beams-wide",
    h(
      "table.rfnb-beams-parts",
      h("thead", h("tr", h("td"), ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h(
        "tbody",
        h(
          "tr.rfnb-beams-bars",
          { "aria-hidden": "true" },
          h("td"),
          ...(before.length ? [h("td")] : []),
          ...bars,
          h("td"),
        ),
        ...names.flatMap((name, at) =>
          path.some((piece) => piece.parts[at]) ? [row(name, (piece) => piece.parts[at] ?? 0)] : [],
        ),
        row("score", (piece) => piece.gain),
      ),
    ),
  );
}

/** Each token with its probability, and the running sum in tooltips and for screen readers. In very long hypotheses the beginning is one term. */
function tokens(path: Piece[], score: number, sums: boolean): HTMLElement {
  const before = path.slice(0, -MOST_TOKENS),
    shown = path.slice(-MOST_TOKENS);
  let running = sumOf(before);
  const term = (name: string, number: string, title: string, ...bar: HTMLElement[]) =>
    h("span.rfnb-beams-token", { role: "listitem", title }, h("b", name), ...bar, h("small", number));
  const text = (piece: Piece) => (sums ? fixed(piece.gain, 2) : chance(piece.gain));
  const terms = shown.map((piece) => {
    running += piece.gain;
    const token = shorten(piece.token, LONGEST),
      title = `${token}: ${chance(piece.gain)}, log probability ${fixed(piece.gain, 3)}; score so far ${fixed(running, 3)}`;
    return term(token, text(piece), title, barOf(piece, shown, sums));
  });
  if (before.length) {
    const sum = fixed(sumOf(before), 2);
    terms.unshift(term(begin(before.length), sum, `the sum of the first ${before.length} tokens: ${sum}`));
  }
  const worst = shown.reduce<Piece | null>((least, piece) => (least && least.gain <= piece.gain ? least : piece), null),
    scale = worst && !sums ? `; bars go from 100 % down to ${chance(worst.gain)}, the least probable token` : "",
    said = `score ${fixed(score, 3)}${scale}`,
    line = h("div.rfnb-beams-sum", said),
    many = shown.length > MOST_COLUMNS ? ".rfnb-beams-many" : "",
    list = h(
      `div.rfnb-beams-tokens.rfnb-beams-wide${many}`,
      { role: "list", "aria-label": "terms of the score" },
      ...terms,
    );
  on(list, "pointerover", ({ target }) => {
    line.textContent = (target as Element).closest(".rfnb-beams-token")?.getAttribute("title") ?? said;
  });
  onLeave(list, () => (line.textContent = said));
  return h("div", line, list);
}

/** The continuations of the hypothesis: the best labels of the vocabulary if known, else the kept ones and the best pruned one. */
function next(tree: Tree, node: Node, live: boolean): HTMLElement {
  const cut = (tree.cuts[node.step + 1] ?? []).filter((other) => other.parent === node).slice(0, MOST_NEXT);
  const kept = childrenOf(tree, node).slice(0, MOST_NEXT);
  if (node.state === "carried" || node.state === "ended")
    return h("div.rfnb-quiet", kept.length ? "Complete; it keeps its place in the beam." : "Complete.");
  const known = labels(tree, node, node.step + 1, null);
  if (known) return h("div", quiet("continuations: "), ...known);
  if (!kept.length && !cut.length)
    return h(
      "div.rfnb-quiet",
      live && node.step === tree.nodes.length - 1 ? "Nothing follows yet." : "Nothing follows.",
    );
  return h(
    "div",
    quiet("continuation: "),
    ...kept.map((child) => label(child.token, fixed(child.gain, 2), child.state === "carried" ? "carried" : "kept")),
    ...cut.map((other) => label(other.token, fixed(other.gain, 2), other.why ?? "cut")),
  );
}

const label = (token: string, number: string, fate: string): HTMLElement =>
  h("span.rfnb-beams-next", h("b", shorten(token, LONGEST)), ` ${number} ${fate}`);

/** The best labels of the vocabulary in a step for the continuations of `parent`, and the hypothesis of each; `here` is under the pointer. */
function labels(tree: Tree, parent: Node | null, step: number, here: Node | Cut | null): HTMLElement[] | null {
  const { next, taken } = tree.spec.steps[step] ?? {},
    best = next?.["all"] ?? next?.[parent?.slot ?? 0],
    share = taken?.[parent?.slot ?? 0];
  const found =
    best?.map(([token, value]) => {
      const of = (other: Node | Cut | null) => other?.parent === parent && other.token === token,
        node = tree.nodes[step]!.find(of),
        cut = tree.cuts[step]!.find(of);
      const fate = of(here) ? "here" : node ? `slot ${node.slot}` : cut ? (cut.why ?? "cut") : "not taken";
      return label(token, value > 0 ? fixed(value, 2) : chance(value), fate);
    }) ?? null;
  if (found && share) found.push(quiet(`; not allowed: ${chance(Math.log(share))}`));
  return found;
}
