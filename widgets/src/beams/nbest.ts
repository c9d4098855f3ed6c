// The n-best list: the results of a search, each shown where it differs from the best one.

import { h, on, quiet, set } from "../dom";
import { shorten } from "../labels";
import { fixed } from "../number";
import { line } from "../visible_text";
import type { Arms, Node, Reference } from "./tree";
import { pathOf, prefix, rating, tagOf, tokensOf, untold } from "./tree";

/** A text in parts; `differs`: not in the hypothesis it is compared with. */
export interface Run {
  text: string;
  differs: boolean;
}
const SHORT = 60,
  AROUND = 2, // tokens that remain of a common part
  MOST_DIFFERENT = 12,
  MOST_LETTERS = 40; // of a token

/**
 * The text of a hypothesis, arranged to show where it differs from another one: common beginnings and ends of long texts are
 * folded. Truncated by the width of the column, all texts would look the same.
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

/** The direction of a text by its first letter, ignoring a leading "…". */
export function directionOf(text: string): "rtl" | "ltr" {
  const letter = /\p{L}/u.exec(text)?.[0];
  return letter && RIGHT_TO_LEFT.test(letter) ? "rtl" : "ltr";
}

/** Nothing is highlighted in the first one: the others are compared with it. */
const plain = (runs: Run[]): Run[] => runs.map((run) => ({ ...run, differs: false }));

function shownText(runs: Run[], join: string): (HTMLElement | string)[] {
  return runs.flatMap(({ text, differs }, index) => [
    ...(index ? [join || ""] : []),
    differs ? h("span.rfnb-beams-differs", text) : text,
  ]);
}

/** Fills the n-best table; `choose` is called with the hypothesis of a row. */
export function showNbest(
  table: HTMLElement,
  nbest: Node[],
  options: {
    ends: ([number, number] | undefined)[];
    arms?: Arms | undefined;
    ranks: Map<Node, number>; // with two searches, separate for each
    exponent: number;
    reference?: Reference | undefined;
    join: string;
    live: boolean;
    choose: (node: Node) => void;
  },
): void {
  const { exponent, ends, ranks } = options;
  const errors = (node: Node): string[] => {
    const edits = options.reference?.aligned[`${node.step},${node.slot}`];
    if (!options.reference) return [];
    return [edits === undefined ? "" : [...edits].filter((edit) => edit !== "=").length.toString()];
  };
  const heads = [
    "",
    "score",
    ...(exponent ? [`÷ length^${exponent.toFixed(1)}`] : []),
    ...(options.reference ? ["errors"] : []),
    "text",
    "",
  ];
  const most = options.arms ? 5 : 10,
    shown = nbest.filter((node) => (ranks.get(node) ?? Infinity) <= most);
  const paths = shown.map((node) => pathOf(node));
  const none = !options.live && shown.every(({ state }) => state !== "ended"); // needs no mention in each row
  const rows = shown.map((node, index) => {
    const won = ends.some((end) => end?.[0] === node.step && end?.[1] === node.slot);
    const whole = line(prefix(paths[index]!, options.join)) || untold(node),
      runs = differing(paths[index]!, paths[index ? 0 : 1], options.join);
    const edits = options.reference?.aligned[`${node.step},${node.slot}`];
    const shown =
      edits !== undefined
        ? aligned(edits, tokensOf(paths[index]!), options.reference!.labels)
        : runs.length
          ? shownText(index ? runs : plain(runs), options.join)
          : [whole];
    const states = [
      ...(won ? [options.live ? "★ best so far" : "★ winner"] : []),
      ...(node.state === "ended" || none ? [] : [options.live ? "open" : "not ended"]),
    ];
    const button = h("button.rfnb-beams-pick", { type: "button", dir: directionOf(whole) }, ...shown);
    button.title = whole;
    on(button, "click", () => options.choose(node));
    const row = h(
      "tr",
      { "data-won": won, "data-key": `${node.step},${node.slot}` },
      h("td.rfnb-beams-rank", `${tagOf(options.arms, node)}${ranks.get(node)}`),
      h("td", fixed(node.score, 3)),
      ...(exponent ? [h("td", fixed(rating(node, exponent), 3))] : []),
      ...errors(node).map((number) => h("td", number)),
      h("td.rfnb-beams-text", button),
      h("td.rfnb-quiet", ...states.flatMap((state, at) => [...(at ? [", "] : []), h("span.rfnb-whole", state)])),
    );
    return row;
  });
  const more =
    nbest.length > rows.length
      ? [h("tr", h("td"), h("td.rfnb-quiet", { colspan: "5" }, `and ${nbest.length - rows.length} more`))]
      : [];
  const held = [...table.querySelectorAll("button")].indexOf(
    (table.getRootNode() as Document).activeElement as HTMLButtonElement,
  );
  table.replaceChildren(
    h("caption", nbest.length ? "n-best list" : "n-best list: nothing yet", ...over(nbest, options.live)),
    h("thead", h("tr", ...heads.map((head) => (head ? h("th", { scope: "col" }, head) : h("td"))))),
    h("tbody", ...rows, ...more),
  );
  if (held >= 0) table.querySelectorAll("button")[held]?.focus(); // the chosen row keeps the focus
}

/** Whether a search stopped before its winner had ended. */
function over([won]: Node[], live: boolean): HTMLElement[] {
  const steps = `${(won?.step ?? 0) + 1} step${won?.step ? "s" : ""}`;
  return live || !won || won.state === "ended"
    ? []
    : [quiet(`: the search was over after ${steps}, before the winner had ended`)];
}

/** Highlights the row of the cursor. */
export function markNbest(table: HTMLElement, cursor: string): void {
  for (const row of table.querySelectorAll<HTMLElement>("[data-key]"))
    if (row.dataset["key"] === cursor) set(row, "aria-current", "true");
    else row.removeAttribute("aria-current");
}

const KEEP = 2; // tokens around an error of a long text

/** A text aligned with the reference: substitutions, insertions and deletions are highlighted, and correct parts far from them are folded. */
export function aligned(edits: string, tokens: string[], labels: string[]): HTMLElement[] {
  const out: HTMLElement[] = [];
  const long = edits.length > 16;
  let token = 0,
    label = 0,
    folded = false;
  [...edits].forEach((edit, at) => {
    const got = edit === "d" ? "" : shorten(tokens[token++] ?? "", MOST_LETTERS),
      wanted = edit === "i" ? "" : shorten(labels[label++] ?? "", MOST_LETTERS);
    const near = [...edits.slice(Math.max(0, at - KEEP), at + KEEP + 1)].some((other) => other !== "=");
    if (long && edit === "=" && !near) {
      if (!folded) out.push(h("span", "… "));
      folded = true;
      return;
    }
    folded = false;
    if (edit === "=") out.push(h("span", `${got} `));
    else if (edit === "s")
      out.push(h("span.rfnb-beams-sub", { title: `instead of ${wanted}` }, got, h("s", wanted)), h("span", " "));
    else if (edit === "i")
      out.push(h("span.rfnb-beams-ins", { title: "one more than the reference" }, `+${got}`), h("span", " "));
    else out.push(h("span.rfnb-beams-del", { title: "missing" }, h("s", wanted)), h("span", " "));
  });
  return out;
}

/** The exponents up to `most`, with two digits, at which another hypothesis becomes the winner. */
export function winnerChanges(nodes: Node[], most: number): number[] {
  const bests = new Map<number, number>(); // among hypotheses of equal length only the best can win
  for (const { score, length } of nodes)
    bests.set(Math.max(length, 1), Math.max(score, bests.get(Math.max(length, 1)) ?? -Infinity));
  const rated = [...bests].map(([length, score]) => ({ score, length }));
  const winner = (exponent: number): number => {
    let best = 0;
    rated.forEach(({ score, length }, index) => {
      if (score / length ** exponent > rated[best]!.score / rated[best]!.length ** exponent) best = index;
    });
    return best;
  };
  const found: number[] = [];
  let before = nodes.length ? winner(0) : 0;
  for (let step = 1; step <= most * 100 && nodes.length > 1; step++) {
    const now = winner(step / 100);
    if (now !== before) found.push(step / 100);
    before = now;
  }
  return found;
}
