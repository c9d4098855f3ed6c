// The DOM beside the canvas: the card of one hypothesis (where its score comes from) and the n-best list.

import { h, quiet } from "../dom";
import { fixed } from "../number";
import type { Place } from "./cursor";
import type { Node, Tree } from "./tree";
import { line, visible } from "../visible";
import { cutText, pathOf, prefix, rating, untold } from "./tree";

const MOST_TOKENS = 16,
  MOST_COLUMNS = 8,
  MOST_NEXT = 4;

interface Piece {
  token: string;
  gain: number;
  parts: number[];
}

/** Fills the card for the place that the cursor is on. */
export function showCard(card: HTMLElement, tree: Tree, place: Place | null, join: string, live = false): void {
  if (!place) {
    card.replaceChildren(h("p", { class: "rfnb-quiet" }, "No hypothesis yet."));
    return;
  }
  const item = place.kind === "node" ? place.node : place.cut;
  const path: Piece[] = place.kind === "node" ? pathOf(place.node) : [...pathOf(place.cut.parent), place.cut];
  const text = line(place.kind === "node" ? prefix(pathOf(place.node), join) : cutText(place.cut, join));
  card.replaceChildren(
    h("div", { class: "rfnb-beams-prefix", dir: "auto" }, text || untold(item)),
    h("div", { class: "rfnb-beams-verdict" }, `Step ${item.step}. ${capital(item.verdict)}.`),
    ...(tree.parts.length
      ? [partsTable(tree.parts, path)]
      : [tokens(path), h("div", { class: "rfnb-beams-sum" }, sum(path, item.score))]),
    ...(place.kind === "node" ? [next(tree, place.node, live)] : []),
  );
  const prefixBox = card.firstElementChild!;
  if (prefixBox.scrollHeight > prefixBox.clientHeight + 1) prefixBox.setAttribute("tabindex", "0"); // else keys could not scroll it
  prefixBox.scrollTop = 1e6; // of a long text the end is what is new
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

function sum(path: { gain: number }[], score: number): string {
  const shown = path.slice(-4).map((part) => fixed(part.gain, 2));
  const more = path.length > 4 ? "… " : "";
  return `score ${fixed(score, 3)} = ${more}${shown.join(" ")}`;
}

/** What each model has added with each token: the columns add up to the bars, the rows to the sums. */
function partsTable(names: string[], path: Piece[]): HTMLElement {
  const shown = path.slice(-MOST_COLUMNS),
    before = path.slice(0, -MOST_COLUMNS);
  const deepest = Math.max(0.5, ...shown.map((piece) => -piece.gain));
  const cell = (value: number) => h("td", {}, fixed(value, 2));
  const row = (name: string, of: (piece: Piece) => number) => {
    const total = (pieces: Piece[]) => pieces.reduce((sum, piece) => sum + of(piece), 0);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      ...(before.length ? [cell(total(before))] : []),
      ...shown.map((piece) => cell(of(piece))),
      cell(total(path)),
    );
  };
  const bars = shown.map((piece) => {
    const bar = h("span", { class: "rfnb-beams-bar" });
    bar.style.height = `${Math.max(1, Math.min(1, -piece.gain / deepest) * 28)}px`;
    return h("td", {}, bar);
  });
  const heads = [...(before.length ? [`+${before.length}`] : []), ...shown.map((piece) => visible(piece.token)), "sum"];
  return h(
    "div",
    { class: "rfnb-beams-wide" },
    h(
      "table",
      { class: "rfnb-beams-parts" },
      h("thead", {}, h("tr", {}, h("td"), ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h(
        "tbody",
        {},
        h(
          "tr",
          { class: "rfnb-beams-bars", "aria-hidden": "true" },
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

/** One bar per token, as deep as the token is improbable: the stacked cost of the hypothesis. */
function tokens(path: { token: string; gain: number }[]): HTMLElement {
  const shown = path.slice(-MOST_TOKENS);
  const deepest = Math.max(0.5, ...shown.map((part) => -part.gain));
  const bars = shown.map((part) => {
    const bar = h("span", { class: "rfnb-beams-bar" });
    bar.style.height = `${Math.max(1, Math.min(1, -part.gain / deepest) * 28)}px`;
    const share = `${(100 * Math.exp(part.gain)).toPrecision(3)} %`;
    return h(
      "span",
      { class: "rfnb-beams-token", title: `${visible(part.token)}: log-probability ${part.gain.toFixed(3)}, ${share}` },
      h("b", {}, visible(part.token)),
      bar,
      h("small", {}, fixed(part.gain, 2)),
    );
  });
  if (path.length > shown.length) bars.unshift(quiet(`+${path.length - shown.length}`));
  return h("div", { class: "rfnb-beams-tokens", "aria-hidden": "true" }, ...bars);
}

/** What the hypothesis went on with: continuations that were kept, then the best that were cut. */
function next(tree: Tree, node: Node, live: boolean): HTMLElement {
  const cut = (tree.cuts[node.step + 1] ?? []).filter((other) => other.parent === node).slice(0, MOST_NEXT);
  const kept = node.children.slice(0, MOST_NEXT);
  if (node.state === "carried" || node.state === "ended")
    return h("div", { class: "rfnb-quiet" }, kept.length ? "Complete; it keeps its place in the beam." : "Complete.");
  if (!kept.length && !cut.length)
    return h(
      "div",
      { class: "rfnb-quiet" },
      live && node.step === tree.nodes.length - 1 ? "Nothing follows yet." : "Nothing follows.",
    );
  const item = (token: string, gain: number, fate: string) =>
    h("span", { class: "rfnb-beams-next" }, h("b", {}, visible(token)), ` ${fixed(gain, 2)} ${fate}`);
  return h(
    "div",
    {},
    quiet("goes on with "),
    ...kept.map((child) => item(child.token, child.gain, child.state === "carried" ? "carried" : "kept")),
    ...cut.map((other) => item(other.token, other.gain, other.why ?? "cut")),
  );
}

/** The text of a hypothesis; of a long one the beginning that all have in common is left out, so that one sees how they differ. */
function tail(paths: Node[][], index: number, join: string): string {
  const path = paths[index]!;
  const text = line(prefix(path, join));
  if (text.length < 60 || paths.length < 2) return text;
  let common = 0;
  while (path[common] && paths.every((other) => other[common] === path[common])) common++;
  return common > 3 ? `…${line(join + prefix(path.slice(common - 2), join))}` : text;
}

/** Fills the n-best table; `choose` is called with the hypothesis of a row. */
export function showNbest(
  table: HTMLElement,
  nbest: Node[],
  options: {
    best: [number, number] | undefined;
    exponent: number;
    join: string;
    live: boolean;
    cursor: string;
    choose: (node: Node) => void;
  },
): void {
  const { exponent, best } = options;
  const heads = ["", "score", ...(exponent ? [`÷ length^${exponent.toFixed(1)}`] : []), "text", ""];
  const shown = nbest.slice(0, 10);
  const paths = shown.map((node) => pathOf(node));
  const rows = shown.map((node, index) => {
    const won = best?.[0] === node.step && best?.[1] === node.slot;
    const here = options.cursor === `${node.step},${node.slot}`;
    const button = h(
      "button",
      { class: "rfnb-beams-pick", type: "button", dir: "auto" },
      tail(paths, index, options.join) || untold(node),
    );
    button.title = line(prefix(paths[index]!, options.join));
    button.addEventListener("click", () => options.choose(node));
    const row = h(
      "tr",
      { "data-won": String(won), ...(here ? { "aria-current": "true" } : {}) },
      h("td", { class: "rfnb-beams-rank" }, String(index + 1)),
      h("td", {}, fixed(node.score, 3)),
      ...(exponent ? [h("td", {}, fixed(rating(node, exponent), 3))] : []),
      h("td", { class: "rfnb-beams-text" }, button),
      h(
        "td",
        { class: "rfnb-quiet" },
        [
          ...(won ? [options.live ? "★ best so far" : "★ winner"] : []),
          ...(node.state === "ended" ? [] : ["open"]),
        ].join(", "),
      ),
    );
    return row;
  });
  const more =
    nbest.length > rows.length
      ? [h("tr", {}, h("td"), h("td", { colspan: "4", class: "rfnb-quiet" }, `and ${nbest.length - rows.length} more`))]
      : [];
  const held = [...table.querySelectorAll("button")].indexOf(
    (table.getRootNode() as Document).activeElement as HTMLButtonElement,
  );
  table.replaceChildren(
    h("caption", {}, nbest.length ? "n-best list" : "n-best list: nothing yet"),
    h("thead", {}, h("tr", {}, ...heads.map((head) => (head ? h("th", { scope: "col" }, head) : h("td"))))),
    h("tbody", {}, ...rows, ...more),
  );
  if (held >= 0) table.querySelectorAll("button")[held]?.focus(); // who has chosen a row stays on it
}
