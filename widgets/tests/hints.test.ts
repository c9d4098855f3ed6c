// What a view says can be done with it: each gesture that a hint names is tried, and no hint names one that is not known here.

import { afterEach, expect, it } from "vitest";
import attentionSmall from "../../tests/viz/fixtures/attention_small.json";
import curves from "../../tests/viz/fixtures/curves_runs.json";
import diffSmall from "../../tests/viz/fixtures/diff_small.json";
import distributionSmall from "../../tests/viz/fixtures/distribution_small.json";
import flowSmall from "../../tests/viz/fixtures/flow_small.json";
import planSmall from "../../tests/viz/fixtures/plan_small.json";
import statesSmall from "../../tests/viz/fixtures/states_small.json";
import type { Context } from "../src/context";
import type { AnyHead, Frame } from "../src/frame";
import { fromJson } from "../src/frame";
import type { HeldRun, RunState } from "../src/run";
import { busOf } from "../src/selection";
import { palette } from "../src/theme";
import { views } from "../src/views";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

const ends: (() => void)[] = [];
let link = 0;
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

function shown(json: unknown, more: AnyHead & Record<string, unknown>, held: boolean) {
  const root = document.createElement("div"),
    frame = fromJson(json) as Frame,
    asked: { then: object[] }[] = [];
  root.className = "rfnb-root";
  document.body.append(root);
  const run = {
    state: {
      run: 1,
      state: "paused",
      at: { path: "search", step: 2, nth: 0 },
      runs: [{ number: 1, name: "run 1" }],
    } as unknown as RunState,
    shown: [],
    before: null,
    do: (command: { then: object[] }) => (asked.push(command), Promise.resolve(null)),
    ghost: () => () => {},
    listen: () => () => {},
  } as unknown as HeldRun;
  const bus = busOf(`hints ${++link}`);
  const ctx = {
    palette: () => palette(root),
    onTheme: () => {},
    bus,
    busOf: () => bus,
    hasChooser: () => false,
    exact: { now: () => null, ask: () => Promise.resolve(null) },
    held: held ? run : null,
    run: held ? run : null,
  } as unknown as Context;
  const view = views[frame.kind]!(root, { ...frame, head: { ...frame.head, ...more } }, ctx);
  ends.push(() => (view.destroy(), root.remove()));
  return { root, asked, held, said: root.querySelector(".rfnb-readout")!.textContent };
}
type Shown = ReturnType<typeof shown>;

const pane = ({ root }: Shown) =>
  root.querySelector<HTMLElement>(".rfnb-pane") ?? root.querySelector<HTMLElement>("[tabindex='0']")!;
function press(view: Shown, ...keys: string[]): void {
  for (const name of keys) {
    const [key, shift] = name.split("+").reverse() as [string, string?];
    const init = name === "+" ? { key: "+" } : { key, shiftKey: !!shift };
    pane(view).dispatchEvent(new KeyboardEvent("keydown", { ...init, bubbles: true, cancelable: true }));
  }
}
/** All that a view says and how large it is. */
const looks = ({ root }: Shown): string =>
  JSON.stringify({ ...root.dataset }) +
  root.textContent +
  [...root.querySelectorAll("[style], [aria-label]")]
    .map((part) => part.getAttribute("style") + (part.getAttribute("aria-label") ?? ""))
    .join();
function changes(view: Shown, ...keys: string[]): boolean {
  const before = looks(view);
  press(view, ...keys);
  return looks(view) !== before;
}
/** Drags each place at which a pointer is on something that `fits`; whether one of them has asked the run for a change. */
function drags(view: Shown, fits: (row: string) => boolean): boolean {
  const at = (type: string, clientX: number, clientY: number, buttons = 1) =>
    pane(view).dispatchEvent(new MouseEvent(type, { clientX, clientY, bubbles: true, buttons }));
  for (let y = 0; y < 500; y += 4)
    for (let x = 0; x < 900; x += 8) {
      at("pointermove", x, y, 0);
      if (!view.root.dataset["col"] || !fits(view.root.dataset["row"]!)) continue;
      at("pointerdown", x, y);
      at("pointermove", x, y - 5);
      at("pointermove", x, y - 9);
      at("pointerup", x, y - 9);
      at("click", x, y - 9);
      if (view.asked.length) return true;
    }
  return false;
}
const walks = (view: Shown) => changes(view, "ArrowRight", "ArrowDown") || changes(view, "ArrowLeft", "ArrowUp");

/** What hints say, and whether it is so. */
const GESTURES: [said: RegExp, works: (view: Shown) => boolean][] = [
  [/Drag (?=a value|the line)|up or down to see the result of the run; dropping it keeps the result\./, ({ held }) => held],
  [/a value, or (?=the line of)/, (view) => drags(view, (row) => Number(row) >= 0)],
  [/the line of the norm,/, (view) => drags(view, (row) => row === "-1")],
  [/Drag a weight/, (view) => drags(view, (row) => row !== "")],
  [/Point at a (cell|value|label|curve|step of a path), or focus the \w+ and use the arrow keys[;,.]?/, walks],
  [/Shift and arrows choose a range of steps,/, (view) => (press(view, "Home", "Shift+ArrowRight"), !!view.root.dataset["brush"])],
  [/Enter pins a unit,/, (view) => (press(view, "Home", "ArrowUp", "Enter"), !!view.root.dataset["pins"])],
  [/\+ − and \[ \] zoom\./, (view) => changes(view, "+") && changes(view, "]")],
  [/\+ and − zoom, 0 fits\./, (view) => changes(view, "+") && changes(view, "-") && (press(view, "+"), changes(view, "0"))],
  [/f goes to the first difference,/, (view) => changes(view, "f")],
  [/n to the next path\./, (view) => changes(view, "n")],
  [/w goes to the next wrong label\./, (view) => changes(view, "w")],
]; // prettier-ignore

const head = (json: unknown) => (fromJson(json) as Frame).head as Record<string, unknown>;
const tracks = (units: [string, number][], more: object = {}, track: object = {}) => ({
  tracks: (head(statesSmall)["tracks"] as object[]).map((one) => ({
    ...one,
    ...track,
    held: { path: "search", nth: 0, state: "s", seqs: [["batch", 2]], units, ...more },
  })),
});
const maps = (more: object = {}) => ({
  maps: (head(attentionSmall)["maps"] as object[]).map((map, of) => ({
    ...map,
    held: { path: "search", nth: 0, attention: "att", axis: "source", widths: 5, seqs: [], fixed: { of }, ...more },
  })),
});
const CASES: [name: string, json: unknown, more: object, held: boolean][] = [
  ["states", statesSmall, {}, false],
  ["a state of one dim", statesSmall, tracks([["unit", 3]]), true],
  ["a matrix", statesSmall, tracks([["head", 1], ["key", 3]]), true], // prettier-ignore
  ["a state of numbers", statesSmall, tracks([]), true],
  ["a state in slots that are not known", statesSmall, tracks([["unit", 3]], { slot: "beam" }), true],
  ["a gate", statesSmall, tracks([["unit", 3]], { gate: "m.gate" }, { gate: true, range: [0, 1] }), true],
  ["what a model writes", statesSmall, tracks([["unit", 3]], { gate: "m.cell_input" }), true],
  ["norms", statesSmall, tracks([["head", 3]], { gate: "m.matrix", norm: true }), true],
  ["attention", attentionSmall, {}, false],
  ["weights", attentionSmall, maps(), true],
  ["weights in slots that are not known", attentionSmall, maps({ slot: "beam" }), true],
  ["diff", diffSmall, {}, false],
  ["a diff of what is the same", diffSmall, { mark: null, rows: (head(diffSmall)["rows"] as object[]).map((row) => ({ ...row, first: null, worst: null, differ: 0 })) }, false], // prettier-ignore
  ["distribution", distributionSmall, {}, false],
  ["a distribution without a reference", distributionSmall, { reference: null }, false],
];

it.each(CASES)("of %s are true", (_, json, more, held) => {
  const { said } = shown(json, more as never, held);
  let left = said!;
  for (const [words, works] of GESTURES) {
    if (!words.test(left)) continue;
    left = left.replace(new RegExp(words, "g"), "");
    expect(works(shown(json, more as never, held)), `${words} in “${said}”`).toBe(true);
  }
  expect(left.replace(/[\s;,.]/g, ""), "no gesture that is known here").toBe("");
});

it.each([
  ["curves", curves, ["Point at a curve, or focus the curves and use the arrow keys, Home and End"]],
  ["plan", planSmall, ["Arrow keys lead from a box down to what reads it, up to what it reads."]],
  ["flow", flowSmall, ["Arrow keys lead from a box down to what reads it, up to what it reads."]],
] as const)("of %s lead somewhere", (_, json, said) => {
  const view = shown(json, {}, false);
  for (const words of said) expect(view.said).toContain(words);
  expect(walks(view)).toBe(true);
});
