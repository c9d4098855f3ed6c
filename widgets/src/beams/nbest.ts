// The n-best list: what a search found, each where it differs from the best.

import { h } from "../dom";
import { shorten } from "../labels";
import { fixed } from "../number";
import { line } from "../visible";
import type { Node } from "./tree";
import { pathOf, prefix, rating, tokensOf, untold } from "./tree";

/** A text in parts; `differs`: other than in the hypothesis it is compared with. */
export interface Run {
  text: string;
  differs: boolean;
}
const SHORT = 60,
  AROUND = 2, // tokens that are left of what two have in common
  MOST_DIFFERENT = 12,
  MOST_LETTERS = 40; // of a token

/**
 * The text of a hypothesis so that it is seen where it differs from another: of a long one, what both have in common at the begin and at the end
 * is folded. Cut by the width of its column, all would look the same.
 */
export function differing(path: Node[], other: Node[] | undefined, join: string): Run[] {
  const cut = (token: string) => (token.length > MOST_LETTERS ? shorten(token, MOST_LETTERS) : token);
  const own = tokensOf(path).map(cut),
    than = other ? tokensOf(other).map(cut) : [],
    text = line(own.join(join));
  const runs = (from: number, to: number, differs = false): Run => ({
    text: line(own.slice(from, to).join(join)),
    differs,
  });
  const folded = text.length >= SHORT,
    between = { text: "…", differs: false };
  if (!than.length && !folded) return text ? [runs(0, own.length)] : [];
  let first = 0,
    last = 0;
  while (first < Math.min(own.length, than.length) && own[first] === than[first]) first++;
  while (last < Math.min(own.length, than.length) - first && own.at(-1 - last) === than.at(-1 - last)) last++;
  const end = own.length - last,
    half = MOST_DIFFERENT / 2;
  const from = folded ? Math.max(0, first - AROUND) : 0,
    to = folded ? Math.min(own.length, end + AROUND) : own.length;
  const middle =
    folded && end - first > MOST_DIFFERENT
      ? [runs(first, first + half, true), between, runs(end - half, end, true)]
      : [runs(first, end, true)];
  const all = [
    ...(from ? [between] : []),
    runs(from, first),
    ...middle,
    runs(end, to),
    ...(to < own.length ? [between] : []),
  ];
  return all.filter((run) => run.text);
}

const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u;

/** The direction of a text, by its first letter: not by the "…" that stands before it. */
export function directionOf(text: string): "rtl" | "ltr" {
  const letter = /\p{L}/u.exec(text)?.[0];
  return letter && RIGHT_TO_LEFT.test(letter) ? "rtl" : "ltr";
}

/** Nothing is marked in the first: the others differ from it. */
const plain = (runs: Run[]): Run[] => runs.map((run) => ({ ...run, differs: false }));

function shownText(runs: Run[], join: string): (HTMLElement | string)[] {
  return runs.flatMap(({ text, differs }, index) => [
    ...(index ? [join || ""] : []),
    differs ? h("span", { class: "rfnb-beams-differs" }, text) : text,
  ]);
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
    const whole = line(prefix(paths[index]!, options.join)) || untold(node),
      runs = differing(paths[index]!, paths[index ? 0 : 1], options.join);
    const shown = runs.length ? shownText(index ? runs : plain(runs), options.join) : [whole];
    const button = h("button", { class: "rfnb-beams-pick", type: "button", dir: directionOf(whole) }, ...shown);
    button.title = whole;
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
