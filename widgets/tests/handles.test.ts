import { afterEach, describe, expect, it, vi } from "vitest";
import attentionSmall from "../../tests/viz/fixtures/attention_small.json";
import beamsSmall from "../../tests/viz/fixtures/beams_small.json";
import cells from "../../tests/viz/fixtures/edit_handles.json";
import statesSmall from "../../tests/viz/fixtures/states_small.json";
import { ghostRows } from "../src/attention/ghost";
import type { HeldMap } from "../src/attention/handles";
import { sharpened, withWeight } from "../src/attention/row";
import type { Context } from "../src/context";
import type { AnyHead, Frame } from "../src/frame";
import { fromJson } from "../src/frame";
import type { HeldCells } from "../src/handles";
import { entriesOf, placeOf } from "../src/handles";
import type { Entry, HeldRun, RunState, Told } from "../src/run";
import { busOf } from "../src/selection";
import { palette } from "../src/theme";
import { views } from "../src/views";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

/** A run that writes down what it is asked, and says what it is told to say. */
class FakeRun implements HeldRun {
  readonly asked: object[] = [];
  said: string | null = null;
  pointed: Entry | null = null;
  before: Set<number> | null = null;
  shown: readonly Told[] = [];
  show(told: readonly Told[]) {
    if (told.length === this.shown.length && told.every((one, at) => one === this.shown[at])) return;
    this.shown = told;
    this.become({});
  }
  private readonly listeners = new Set<() => void>();
  constructor(public state: RunState) {}
  do(command: object) {
    this.asked.push(command);
    return Promise.resolve(this.said);
  }
  readonly ghosts: { asked: Record<string, unknown>; told: (told: Told) => void; ended: boolean }[] = [];
  ghost(asked: Record<string, unknown>, told: (told: Told) => void) {
    const ghost = { asked, told, ended: false };
    this.ghosts.push(ghost);
    return () => void (ghost.ended = true);
  }
  listen(changed: () => void) {
    this.listeners.add(changed);
    return () => void this.listeners.delete(changed);
  }
  become(state: Partial<RunState>) {
    this.state = { ...this.state, ...state };
    for (const changed of this.listeners) changed();
  }
}
const standing = (step: number): RunState =>
  ({
    run: 1,
    state: "paused",
    at: { path: "search", step, nth: 0 },
    runs: [{ number: 1, name: "run 1" }],
  }) as unknown as RunState;

const ends: (() => void)[] = [];
let link = 0;
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A view with a held run. */
function shown(json: unknown, more: AnyHead & Record<string, unknown>, run: HeldRun | null) {
  const root = document.createElement("div"),
    frame = fromJson(json) as Frame;
  root.className = "rfnb-root";
  document.body.append(root);
  const bus = busOf(`edits ${++link}`);
  const ctx = {
    palette: () => palette(root),
    onTheme: () => {},
    bus,
    busOf: () => bus,
    hasChooser: () => false,
    exact: { now: () => null, ask: () => Promise.resolve(null) },
    held: run,
    run,
  } as unknown as Context;
  const made = { ...frame, head: { ...frame.head, ...more } },
    view = views[frame.kind]!(root, made, ctx);
  ends.push(() => (view.destroy(), root.remove()));
  const edits = root.querySelector<HTMLElement>(".rfnb-edits")!,
    named = (text: string) => [...edits.querySelectorAll("button")].find(({ textContent }) => textContent === text)!;
  const pane = root.querySelector<HTMLElement>(".rfnb-pane")!,
    key = (name: string, on: HTMLElement = pane) =>
      on.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  return { root, edits, named, key, view, frame: made };
}
const settled = async () => {
  for (let turn = 0; turn < 9; turn++) await null; // what was promised has come
};

describe("a cell of a held run", () => {
  it.each(cells.map((cell) => [JSON.stringify(cell.place), cell] as const))("%s is what Python says", (_, cell) => {
    const held = cell.held as unknown as HeldCells;
    expect(placeOf(held, cell.row, cell.after)).toEqual(cell.place);
    expect(entriesOf(held, cell.row, cell.seq, cell.slot, cell.unit)).toEqual(cell.entries);
  });

  it("has no step where its row has none", () => {
    expect(placeOf({ path: "a", nth: 2, steps: [null, 3] }, 0)).toBeNull();
    expect(placeOf({ path: "a", nth: 2, steps: [null, 3] }, 1, 1)).toEqual({ path: "a", nth: 2, step: 4 });
  });
});

describe("a search", () => {
  const held = { path: "search", nth: 0 };
  const [seq] = beamsSmall.head.seqs as { steps: { tokens: string[]; cuts: { token: string; parent: number }[] }[] }[];
  const seqs = [
    {
      ...seq!,
      steps: seq!.steps.map((step, at) => ({
        ...step,
        ids: step.tokens.map((_, slot) => 10 * at + slot),
        cuts: step.cuts.map((cut, index) => ({ ...cut, id: 100 * (at + 1) + index })),
      })),
    },
  ];
  const vocab = ["#", "a", "b", "ab", "a"];

  it("forces what was cut for the hypothesis that it was cut from, in a branch from its step", async () => {
    const run = new FakeRun(standing(seq!.steps.length)),
      { root, edits, named, key } = shown(beamsSmall, { held, vocab, seqs }, run);
    let cursor = "";
    for (let turn = 0; turn < 20 && !cursor.includes("cut"); turn++) {
      key(turn % 6 < 5 ? "ArrowDown" : "ArrowLeft");
      cursor = root.dataset["cursor"]!;
    }
    const [step, index] = cursor.split(",cut").map(Number) as [number, number],
      cut = seq!.steps[step]!.cuts[index]!;
    expect(edits.hidden).toBe(false);
    expect(edits.textContent).toContain(`in a branch from step ${step}`);
    named(`Force ${cut.token} alone`).click();
    const force = {
      do: "force",
      label: 100 * (step + 1) + index,
      hypothesis: step ? cut.parent : 0,
      seq: 0,
      only: true,
    };
    const edit = { do: "edit", path: "search", nth: 0, step },
      name = `${cut.token} at ${step}`;
    expect(run.asked).toEqual([{ ...edit, then: [force], name }]);
    named("Let the beam decide").click();
    expect(run.asked.at(-1)).toEqual({ ...edit, then: [{ ...force, only: false }], name: `${name}, in the beam` });
    key("Enter"); // keeps it
    expect(run.asked.at(-1)).toEqual({ ...edit, then: [force], name });
    run.said = "force: no label 7.";
    named(`Force ${cut.token} alone`).click();
    await settled();
    expect(edits.querySelector("[role=alert]")!.textContent).toBe("force: no label 7.");
    named(`Run on from step ${step}`).click();
    expect(run.asked.at(-1)).toEqual({ do: "branch", path: "search", nth: 0, step, paused: true });
  });

  it("shows what would come of a cut candidate where somebody rests, and ends that as they go on", async () => {
    vi.useFakeTimers();
    const run = new FakeRun(standing(seq!.steps.length)),
      { root, key } = shown(beamsSmall, { held, vocab, seqs }, run),
      told = () => root.querySelector(".rfnb-beams-told")!.textContent;
    const toCut = () => {
      for (let turn = 0; turn < 20 && !root.dataset["cursor"]?.includes("cut"); turn++)
        key(turn % 6 < 5 ? "ArrowDown" : "ArrowLeft");
    };
    toCut();
    vi.advanceTimersByTime(200);
    expect(run.ghosts).toEqual([]); // it only passes
    vi.advanceTimersByTime(200);
    const [step, index] = root.dataset["cursor"]!.split(",cut").map(Number) as [number, number],
      { token } = seq!.steps[step]!.cuts[index]!;
    expect(run.ghosts.map(({ asked }) => asked)).toMatchObject([
      { path: "search", nth: 0, step, seq: 0, name: `${token} at ${step}` },
    ]);
    expect(run.ghosts[0]!.asked["then"]).toMatchObject([{ do: "force", label: 100 * (step + 1) + index, only: true }]);
    const lane = {
      row: step,
      parent: 0,
      before: -1,
      labels: [token, "x"],
      scores: [-3, -4],
      ended: true,
      fell: null,
      seq: 0,
    };
    run.ghosts[0]!.told({ name: "", over: false, refused: null, lane });
    expect([told(), root.dataset["ghosts"]]).toEqual(["", "0"]);
    run.ghosts[0]!.told({ name: "", over: true, refused: null, lane, words: "With it: x.", difference: -1 });
    expect([told(), root.dataset["ghosts"]]).toEqual(["With it: x.", "1"]);
    key("ArrowUp"); // to what is kept
    expect([run.ghosts[0]!.ended, told(), root.dataset["ghosts"]]).toEqual([
      true,
      expect.stringMatching(/^Rest on a candidate/),
      "0",
    ]);
    expect(run.asked).toEqual([]); // nothing was made of it
    key("w");
    const cuts = seq!.steps[Number(root.dataset["cursor"]!.split(",")[0])]!.cuts;
    expect(run.ghosts.length).toBe(1 + Math.min(3, cuts.length));
    key("Escape");
    expect(run.ghosts.every(({ ended }) => ended)).toBe(true);
    vi.useRealTimers();
  });

  it("shows the way of the branch that is pointed at in the rail, and what came of it", () => {
    const run = new FakeRun(standing(seq!.steps.length)),
      { root } = shown(beamsSmall, { held, vocab, seqs }, run);
    const result = { labels: ["x"], score: -4, difference: -1, same: false, words: "With x at 0: x." },
      lane = { row: 0, parent: null, before: 0, labels: ["x"], scores: [-4], ended: true, fell: null },
      branch = {
        number: 2,
        name: "x at 0",
        from: "",
        state: "done",
        parent: 1,
        step: 0,
        results: [result],
        lanes: [lane],
      };
    run.pointed = branch;
    run.become({ runs: [{ number: 1, name: "run 1", from: "", state: "paused" }, branch] });
    expect(root.querySelector(".rfnb-beams-told")!.textContent).toBe("With x at 0: x.");
    run.pointed = null;
    run.become({});
    expect(root.querySelector(".rfnb-beams-told")!.textContent).toMatch(/^Rest on a candidate/);
  });

  it("offers anew what a later frame says more of, at the place that was clicked before", () => {
    const run = new FakeRun(standing(seq!.steps.length)),
      bare = [
        {
          ...seqs[0]!,
          steps: seqs[0]!.steps.map((step) => ({ ...step, cuts: step.cuts.map(({ id: _, ...cut }) => cut) })),
        },
      ],
      { root, named, key, view, frame } = shown(beamsSmall, { held, vocab, seqs: bare }, run);
    for (let turn = 0; turn < 20 && !root.dataset["cursor"]?.includes("cut"); turn++)
      key(turn % 6 < 5 ? "ArrowDown" : "ArrowLeft");
    const [step, index] = root.dataset["cursor"]!.split(",cut").map(Number) as [number, number],
      force = `Force ${seq!.steps[step]!.cuts[index]!.token} alone`;
    expect(named(force)).toBeUndefined();
    view.update({ ...frame, head: { ...frame.head, seqs } });
    expect(named(force)).toBeDefined();
  });

  it("finds any label by typing, and forces it for the hypothesis in the next step", () => {
    const last = 1,
      slot = beamsSmall.head.seqs[0]!.steps[last]!.ended.indexOf(false),
      run = new FakeRun(standing(last + 1)),
      begun = [
        {
          ...seqs[0]!,
          steps: seqs[0]!.steps.slice(0, last + 1),
          best: [
            [0, 0],
            [1, slot],
          ],
        },
      ],
      { root, edits, key } = shown(beamsSmall, { held, vocab, seqs: begun }, run);
    key("End");
    for (let turn = 0; turn < 9 && root.dataset["cursor"] !== `${last},${slot}`; turn++)
      key(turn < 4 ? "ArrowUp" : "ArrowDown");
    expect(root.dataset["cursor"]).toBe(`${last},${slot}`);
    const choice = edits.querySelector("select")!;
    expect([...choice.options].map(({ textContent }) => textContent)).toEqual([
      `in the next step, ${last + 1}`,
      `in a branch from step ${last}`,
    ]);
    const field = edits.querySelector<HTMLInputElement>("[type=search]")!,
      found = () => [...edits.querySelectorAll("[aria-label='labels to force'] button")].map((one) => one.textContent);
    const type = (text: string) => {
      field.value = text;
      field.dispatchEvent(new Event("input"));
    };
    type("b");
    expect(found()).toEqual(["b", "ab"]);
    type("a");
    expect(found()).toEqual(["a (1)", "a (4)", "ab"]);
    type("x");
    expect(edits.textContent).toContain("no such label");
    type("ab");
    key("Enter", field);
    expect(run.asked).toEqual([
      {
        do: "edit",
        path: "search",
        nth: 0,
        step: last + 1,
        then: [{ do: "force", label: 3, hypothesis: slot, seq: 0, only: true }],
        name: `ab at ${last + 1}`,
      },
    ]);
  });

  it("says what waits for the next step, and what was changed before", () => {
    const run = new FakeRun(standing(3)),
      { edits, view, frame } = shown(beamsSmall, { held, seqs }, run);
    expect(edits.hidden).toBe(true);
    run.become({ changed: ["AH forced for hypothesis 0"] } as Partial<RunState>);
    expect(edits.textContent).toContain("In the next step, 3: AH forced for hypothesis 0");
    run.become({ state: "running", changed: [] } as Partial<RunState>);
    expect(edits.hidden).toBe(true);
    view.update({ ...frame, head: { ...frame.head, hands: [[1, "a forced"]] } as AnyHead });
    expect(edits.textContent).toBe("◆ step 1: a forced");
  });

  it("does not keep what it offers of one branch in another one", () => {
    const run = new FakeRun(standing(9)),
      { key, edits, named } = shown(beamsSmall, { held, seqs }, run);
    key("Home");
    key("Enter");
    const before = edits.querySelector("button");
    run.become({ run: 2 });
    expect(edits.querySelector("button")).not.toBe(before);
    expect(named("Run on from step 0")).toBeTruthy();
  });

  it("says why no label is forced, where none is", () => {
    const { key, edits } = shown(
      beamsSmall,
      { held: { ...held, cannot: "Not here." }, seqs },
      new FakeRun(standing(9)),
    );
    key("Home");
    key("Enter");
    expect(edits.textContent).toContain("Not here.");
    expect([...edits.querySelectorAll("button")].map(({ textContent }) => textContent)).toEqual(["Run on from step 0"]);
  });
});

describe("a row of weights", () => {
  const open = (at: number) => at !== 2;

  it("always sums to 1, the others keep their shares", () => {
    expect(withWeight([0.2, 0.6, 0, 0.2], 1, 0.2, open)).toEqual([0.4, 0.2, 0, 0.4]);
    expect(withWeight([0, 1, 0, 0], 1, 0.5, open)).toEqual([0.25, 0.5, 0, 0.25]);
    expect(withWeight([0, 1, 0], 1, 0.5, (at) => at === 1)).toEqual([0, 1, 0]);
    expect(withWeight([0.5, 0.5], 0, 7, () => true)).toEqual([1, 0]);
  });

  it("gets sharper and flatter by a temperature", () => {
    expect(sharpened([0.2, 0.8], 0.5).map((own) => Number(own.toFixed(4)))).toEqual([0.0588, 0.9412]);
    expect(sharpened([0.5, 0.25, 0.25], 1)).toEqual([0.5, 0.25, 0.25]);
  });

  it("is drawn by keys and put into the step of its row, or into the next one", () => {
    const json = fromJson(attentionSmall) as unknown as Frame<{
        maps: object[];
        seqs: { row_len: number; col_len: number }[];
      }>,
      { col_len: cols } = json.head.seqs[0]!;
    const of = { path: "search", nth: 0, attention: "att", axis: "source", widths: cols + 1, fixed: { heads: 0 } };
    const maps = json.head.maps.map((map) => ({ ...map, held: { ...of, seqs: [["batch", json.head.seqs.length]] } })),
      run = new FakeRun(standing(0)),
      { root, edits, key, named } = shown(attentionSmall, { maps } as never, run),
      rows = Number(root.dataset["step"]) + 1;
    run.become(standing(rows));
    key("ArrowRight");
    expect(edits.textContent).toContain("in a branch from step 0");
    const area = edits.querySelector<HTMLElement>(".rfnb-row")!;
    named("Focus").click();
    key("ArrowRight", area);
    key("+", area);
    key("+", area);
    key("Enter", area);
    const row = Array.from({ length: cols + 1 }, (_, col) => (col === 0 ? 0.9 : col === 1 ? 0.1 : 0));
    const [asked] = run.asked as [{ step: number; then: [{ row: number[]; entries: object }] }];
    expect(asked.step).toBe(0);
    expect(asked.then[0].row.map((own) => Number(own.toFixed(9)))).toEqual(row);
    expect(asked.then[0].entries).toEqual({ heads: 0, batch: 0 });
    key("End");
    for (let turn = 1; turn < rows; turn++) key("ArrowDown");
    expect([...edits.querySelector("select")!.options].map((one) => one.textContent)).toEqual([
      `in the next step, ${rows}`,
      `in a branch from step ${rows - 1}`,
    ]);
    const heat = edits.querySelector<HTMLInputElement>("[type=range]")!;
    heat.value = "1";
    heat.dispatchEvent(new Event("input"));
    edits.querySelector<HTMLInputElement>("[type=checkbox]")!.click();
    named("Apply").click();
    expect(run.asked.at(-1)).toEqual({
      do: "edit",
      path: "search",
      nth: 0,
      step: rows,
      then: [{ do: "attention", path: "att", entries: { batch: 0 }, sharpen: 0.5 }],
    });
    root.querySelector<HTMLElement>("[data-do=text]")!.click();
    const list = root.querySelector<HTMLElement>("[role=listbox]")!;
    key("Home", list);
    expect(edits.textContent).toContain("in a branch from step 0");
    const tools = edits.querySelector(".rfnb-row");
    list.querySelectorAll("[role=option]")[1]!.dispatchEvent(new Event("pointerover", { bubbles: true }));
    expect(edits.querySelector(".rfnb-row"), "a pointer that passes changes nothing").toBe(tools);
    key("Escape", list);
    expect(edits.hidden, "what was chosen in the text is left there too").toBe(true);
  });
});

describe("a head", () => {
  it("is away or scaled in all steps by a button or a key, and what would come of it is said before", async () => {
    vi.useFakeTimers();
    const json = fromJson(attentionSmall) as unknown as Frame<{ maps: object[]; seqs: object[] }>,
      of = { path: "generate", nth: 0, steps: [null, 3], attention: "h.1.attn", axis: "source", widths: 9 },
      more = { weights: "h.1.attn.weights", seqs: [["batch", 1]], always: { target: -1 } },
      maps = json.head.maps.map((map, head) => ({ ...map, held: { ...of, ...more, fixed: { head } } })),
      run = new FakeRun(standing(9)),
      { root, key, view, frame } = shown(attentionSmall, { maps } as never, run),
      box = root.querySelector<HTMLElement>(".rfnb-head-scale")!,
      [button, factor] = [box.querySelector("button")!, box.querySelector("input")!];
    const put = (how: object) => ({
      path: "generate",
      nth: 0,
      step: 3,
      then: [{ do: "put", place: "h.1.attn.weights", entries: { head: 0 }, lasting: true, ...how }],
    });
    const name = button.textContent!.replace("Without ", "");
    expect(name).toMatch(/^head \d$/);
    button.dispatchEvent(new Event("pointerenter"));
    expect(run.ghosts).toEqual([]);
    vi.advanceTimersByTime(400);
    expect(run.ghosts[0]!.asked).toEqual({ ...put({ value: 0 }), name: `${name} = 0`, seq: 0, rows: true });
    run.ghosts[0]!.told({ name: "", over: true, refused: null, lane: null, words: "With it: a b." });
    expect(box.textContent).toContain("With it: a b.");
    button.dispatchEvent(new Event("pointerleave"));
    expect([run.ghosts[0]!.ended, box.textContent!.includes("With it")]).toEqual([true, false]);
    button.click();
    expect(run.asked).toEqual([{ do: "edit", ...put({ value: 0 }), name: `${name} = 0` }]);
    factor.value = "0.5";
    factor.dispatchEvent(new Event("input"));
    expect(button.textContent).toBe(`${name} × 0.5`);
    key("Delete", root.querySelector<HTMLElement>(".rfnb-sheet")!);
    expect(run.asked.at(-1)).toEqual({ do: "edit", ...put({ scale: 0.5 }), name: `${name} × 0.5` });
    run.become({ runs: [...run.state.runs, { number: 7, name: `${name} × 0.5` }] } as Partial<RunState>);
    button.click();
    expect(run.asked.at(-1)).toEqual({ do: "follow", number: 7 });
    const plain = json.head.maps.map((map) => ({ ...map, held: { ...of, seqs: [["batch", 1]], fixed: {} } }));
    view.update({ ...frame, head: { ...frame.head, maps: plain } as AnyHead });
    expect(box.hidden, "without a place in a model").toBe(true);
    vi.useRealTimers();
  });
});

describe("a state", () => {
  const json = fromJson(statesSmall) as unknown as Frame<{ tracks: { unit_dim: { size: number } }[]; seqs: object[] }>;
  const held = { path: "search", nth: 0, state: "lstm.h", slot: "beam", seqs: [["batch", json.head.seqs.length]] };
  const tracks = json.head.tracks.map((track) => ({
    ...track,
    held: { ...held, units: [["unit", track.unit_dim.size]] },
  }));
  const slots_of_best = { before: [[0, 0, 1]], after: [[0, 1, 2]] };

  it("is set, scaled and pasted before the step that follows", () => {
    const run = new FakeRun(standing(2)),
      { edits, key, named } = shown(statesSmall, { tracks, slots_of_best } as never, run);
    key("ArrowRight");
    key("ArrowRight");
    expect(edits.textContent).toContain("in the next step, 2");
    named("Zero").click();
    const base = { do: "edit", path: "search", nth: 0, step: 2 },
      set = { do: "set", state: "lstm.h" };
    expect(run.asked.at(-1)).toEqual({
      ...base,
      then: [{ ...set, entries: { batch: 0, unit: 0, beam: 1 }, value: 0 }],
    });
    const [units, whose] = [...edits.querySelectorAll<HTMLSelectElement>(".rfnb-edits-tools select")] as [
      HTMLSelectElement,
      HTMLSelectElement,
    ];
    units.selectedIndex = 1;
    whose.selectedIndex = 2;
    edits.querySelector<HTMLInputElement>("[type=number]")!.value = "0.5";
    named("Scale").click();
    expect(run.asked.at(-1)).toEqual({ ...base, then: [{ ...set, entries: {}, how: "scale", amount: 0.5 }] });
    edits.querySelector<HTMLInputElement>("[type=number]")!.value = "";
    named("Set").click();
    expect(edits.querySelector("[role=alert]")!.textContent).toBe("Which number?");
  });

  it("is pasted from the step that is clicked, and not into another place that was chosen meanwhile", () => {
    const run = new FakeRun(standing(2)),
      { root, key, named } = shown(statesSmall, { tracks, slots_of_best } as never, run),
      pane = root.querySelector<HTMLElement>(".rfnb-pane")!;
    const click = (step: number) => {
      pane.scrollLeft = pane.scrollTop = 0;
      for (let y = 0; y < 400; y += 8)
        for (let clientX = 0; clientX < 900; clientX += 8) {
          const at = { clientX, clientY: y, bubbles: true };
          pane.dispatchEvent(new MouseEvent("pointermove", at));
          if (root.dataset["col"] === String(step) && root.dataset["row"] === "0")
            return pane.dispatchEvent(new MouseEvent("click", at));
        }
      throw new Error("no such step");
    };
    click(1);
    named("Paste from a step…").click();
    click(0);
    const from = { path: "search", nth: 0, step: 1 },
      entries = { batch: 0, unit: 0, beam: 1 };
    const paste = { do: "set", state: "lstm.h", how: "paste", entries, from, of: { ...entries, beam: 0 } };
    expect(run.asked).toEqual([{ do: "edit", path: "search", nth: 0, step: 2, then: [paste] }]);
    named("Paste from a step…").click();
    key("End");
    click(0);
    expect(run.asked.length).toBe(1);
    expect(root.dataset["col"]).toBe("0");
  });

  it("is not offered where it is not known which hypothesis it is of", () => {
    const { edits, key } = shown(statesSmall, { tracks } as never, new FakeRun(standing(2)));
    key("ArrowRight");
    expect(edits.querySelector("button")).toBeNull();
  });
});

it("says why a gate is not changed where it is clicked", () => {
  const json = fromJson(statesSmall) as unknown as Frame<{ tracks: object[] }>,
    tracks = json.head.tracks.map((track) => ({ ...track, cannot: "It is computed beside." }));
  const { edits, key } = shown(statesSmall, { tracks } as never, new FakeRun(standing(2)));
  expect(edits.hidden).toBe(true);
  key("ArrowRight");
  expect([edits.hidden, edits.textContent]).toEqual([false, "It is computed beside."]);
});

describe("a matrix", () => {
  const json = fromJson(statesSmall) as unknown as Frame<{ tracks: { unit_dim: { size: number } }[]; seqs: object[] }>,
    slots_of_best = { before: [[0, 0, 1]], after: [[0, 1, 2]] };
  const of = (more: object) =>
    json.head.tracks.map((track) => {
      const units = [["head", track.unit_dim.size / 3], ["key", 3]]; // prettier-ignore
      return { ...track, held: { path: "search", nth: 0, slot: "beam", seqs: [["batch", 2]], units, ...more } };
    });
  /** What is asked where the line of the norm is dragged down, or a unit. */
  function dragged(tracks: object[], unit: string) {
    const run = new FakeRun(standing(2)),
      { root } = shown(statesSmall, { tracks, slots_of_best } as never, run),
      pane = root.querySelector<HTMLElement>(".rfnb-pane")!;
    const at = (type: string, clientX: number, clientY: number, buttons = 1) =>
      pane.dispatchEvent(new MouseEvent(type, { clientX, clientY, bubbles: true, buttons }));
    for (let y = 0; y < 400; y += 4)
      for (let x = 0; x < 900; x += 8) {
        at("pointermove", x, y, 0);
        if (root.dataset["col"] !== "1" || root.dataset["row"] !== unit) continue;
        at("pointerdown", x, y);
        at("pointermove", x, y + 6);
        at("pointerup", x, y + 6);
        return run.asked.at(-1);
      }
    throw new Error("no such place");
  }

  it("is scaled as a whole by its norm", () => {
    const entries = { batch: 0, beam: 1 };
    expect(dragged(of({ state: "s.matrix" }), "-1")).toMatchObject({
      step: 2,
      then: [{ do: "set", state: "s.matrix", entries, how: "scale", amount: expect.closeTo(0.8, 0) as number }],
    });
    const always = { time: -1 };
    expect(dragged(of({ gate: "lin.matrix", always }), "-1")).toMatchObject({
      step: 1,
      then: [{ do: "put", place: "lin.matrix", entries: { batch: 0, beam: 0, time: -1 } }],
    });
    expect((dragged(of({ gate: "lin.matrix" }), "-1") as { then: object[] }).then[0]).toHaveProperty("scale");
  });

  it("is scaled by the norm of a head, to 0 at most", () => {
    const norms = of({ gate: "lin.matrix", norm: true });
    expect((dragged(norms, "1") as { then: object[] }).then[0]).toMatchObject({ do: "put", place: "lin.matrix" });
    const run = new FakeRun(standing(2)),
      { key, named } = shown(statesSmall, { tracks: norms, slots_of_best } as never, run);
    key("ArrowRight");
    expect([named("Set"), named("Scale").textContent]).toEqual([undefined, "Scale"]);
  });

  it("is set in all of a head", () => {
    const run = new FakeRun(standing(2)),
      { edits, key, named } = shown(statesSmall, { tracks: of({ state: "s" }), slots_of_best } as never, run);
    for (const name of ["ArrowRight", "ArrowRight", "ArrowDown"]) key(name);
    const units = edits.querySelector<HTMLSelectElement>(".rfnb-edits-tools select")!;
    expect([...units.options].map(({ textContent }) => textContent)).toEqual([
      "head 0, key 1",
      "all of head 0",
      "all units",
    ]);
    units.selectedIndex = 1;
    named("Zero").click();
    expect(run.asked.at(-1)).toMatchObject({ then: [{ entries: { batch: 0, head: 0, beam: 1 }, value: 0 }] });
  });
});

describe("a gate", () => {
  const json = fromJson(statesSmall) as unknown as Frame<{ tracks: { unit_dim: { size: number } }[]; seqs: object[] }>;
  const held = { path: "search", nth: 0, gate: "lstm.forget_gate", slot: "beam", seqs: [["batch", 2]] };
  const tracks = json.head.tracks.map((track) => ({
    ...track,
    gate: true,
    range: [0, 1],
    held: { ...held, units: [["unit", track.unit_dim.size]] },
  }));
  const slots_of_best = { before: [[0, 0, 1]], after: [[0, 1, 2]] };

  it("is put into the step of its row, of the slot before the choice", () => {
    const run = new FakeRun(standing(2)),
      { edits, key, named } = shown(statesSmall, { tracks, slots_of_best } as never, run);
    for (let step = 0; step < 3; step++) key("ArrowRight");
    expect(edits.textContent).toContain("in step 2: in the next step, 2");
    edits.querySelector<HTMLInputElement>("[type=number]")!.value = "0.5";
    named("Set").click();
    named("Scale").click();
    const entries = { batch: 0, unit: 0, beam: 1 },
      put = { do: "put", place: "lstm.forget_gate", entries },
      at = { do: "edit", path: "search", nth: 0, step: 2 };
    expect(run.asked).toEqual([{ value: 0.5 }, { scale: 0.5 }].map((what) => ({ ...at, then: [{ ...put, ...what }] })));
    expect(named("Add noise")).toBeUndefined();
  });

  it("is dragged in its strip, and all units of it by their mean opening", () => {
    const run = new FakeRun(standing(2)),
      { root } = shown(statesSmall, { tracks, slots_of_best } as never, run),
      pane = root.querySelector<HTMLElement>(".rfnb-pane")!;
    const at = (type: string, clientX: number, clientY: number, buttons = 1) =>
      pane.dispatchEvent(new MouseEvent(type, { clientX, clientY, bubbles: true, buttons }));
    const dragged = (unit: string) => {
      for (let y = 0; y < 400; y += 4)
        for (let x = 0; x < 900; x += 8) {
          at("pointermove", x, y, 0);
          if (root.dataset["col"] !== "1" || root.dataset["row"] !== unit) continue;
          at("pointermove", 0, 0, 0); // the page moves below a pointer that rests:
          at("pointerdown", x, y); // what is said is of what is pressed
          expect([root.dataset["col"], root.dataset["row"]]).toEqual(["1", unit]);
          at("pointermove", x, y - 5);
          at("pointermove", x, y - 600);
          at("pointerup", x, y - 600);
          at("click", x, y - 600);
          return run.asked.at(-1);
        }
      throw new Error("no such place");
    };
    const base = { do: "edit", path: "search", nth: 0, step: 1 },
      put = { do: "put", place: "lstm.forget_gate", value: 1 };
    expect(dragged("0")).toMatchObject({ ...base, then: [{ ...put, entries: { batch: 0, unit: 0, beam: 0 } }] });
    expect(dragged("-1")).toMatchObject({ ...base, then: [{ ...put, entries: { batch: 0, beam: 0 } }] });
    expect(run.ghosts.every(({ ended }) => ended)).toBe(true);
  });
});

describe("where a ghost would look", () => {
  const json = fromJson(attentionSmall) as unknown as Frame<{ maps: object[]; seqs: object[] }>,
    held = { path: "search", nth: 0, attention: "att", axis: "source", widths: 5, seqs: [], units: [] };
  const maps = json.head.maps.map((map, head) => ({ ...map, held: { ...held, fixed: { heads: head } } }));
  const told = (seq: number, heads: number, path = "att"): Told => ({
    name: "EY at 1",
    over: true,
    refused: null,
    lane: { row: 1, parent: 0, before: 0, labels: ["EY", "R"], scores: [-1, -2], ended: true, fell: null, seq },
    attention: [{ path, fixed: { heads }, rows: [[1, 0], [0, 1]] }], // prettier-ignore
  });

  it("is rows below its own map, of its own sequence, and goes with it", () => {
    const run = new FakeRun(standing(2)),
      { root } = shown(attentionSmall, { maps } as never, run),
      pane = root.querySelector<HTMLElement>(".rfnb-stage .rfnb-pane-space")!,
      before = pane.style.height;
    const rows = () => root.dataset["ghosts"];
    expect(rows()).toBe("");
    run.show([told(0, 0)]);
    expect(rows()).toBe("EY R");
    expect(parseFloat(pane.style.height)).toBeGreaterThan(parseFloat(before) + 20);
    run.show([told(0, 0), told(0, 0)]);
    expect(rows()).toBe("EY R EY R");
    for (const other of [told(1, 0), told(0, 1), told(0, 0, "another")]) {
      run.show([other]);
      expect(rows(), JSON.stringify(other)).toBe("");
      expect(pane.style.height).toBe(before);
    }
    run.show([told(0, 0)]);
    run.show([]);
    expect([rows(), pane.style.height]).toEqual(["", before]);
  });

  it("is the mean of the rows of all heads, in the mean of their maps", () => {
    const attention = [0, 1].map((heads) => ({
      path: "att",
      fixed: { heads },
      rows: [
        [1 - heads, heads],
        [0.5, 0.5],
      ],
    }));
    const run = { shown: [{ ...told(0, 0), attention }] } as unknown as HeldRun,
      both = maps.slice(0, 2).map((map) => map.held) as unknown as HeldMap[];
    expect(ghostRows(run, both, 0).map(({ label, weights }) => [label, weights])).toEqual([
      ["EY", [0.5, 0.5]],
      ["R", [0.5, 0.5]],
    ]);
    expect(ghostRows(run, [both[1]], 0)[0]!.weights).toEqual([0, 1]);
    const third = { ...both[0]!, fixed: { heads: 2 } };
    expect(ghostRows(run, [...both, third], 0), "one of them is not told").toEqual([]);
    expect(ghostRows(run, [both[0], undefined], 0), "one of them is not of the run").toEqual([]);
    expect(ghostRows(run, both, 1)).toEqual([]);
  });
});

describe("a page without a run", () => {
  it.each([
    ["beams", beamsSmall, { held: { path: "search", nth: 0 }, vocab: ["a"] }],
    ["states", statesSmall, {}],
    ["attention", attentionSmall, {}],
  ])("has no handles in its %s", (_, json, more) => {
    const { edits, key } = shown(json, more as never, null);
    key("ArrowRight");
    key("Enter");
    expect(edits.hidden).toBe(true);
    expect(edits.querySelector("button,select,input")).toBeNull();
    vi.restoreAllMocks();
  });
});
