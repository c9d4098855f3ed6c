import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Head as AttentionHead } from "../src/attention/matrix";
import { codedBlock, exactBlock } from "../src/block";
import { Exact } from "../src/exact_values";
import type { Frame } from "../src/frame";
import { showIn } from "../src/mount";
import type { Head as StatesHead } from "../src/states/scene";

HTMLCanvasElement.prototype.getContext = () => null; // jsdom has no canvas

interface Question {
  id: number;
  version: number;
  block: string;
  start: number[];
  size: number[];
}

/** A kernel that answers when it is told to. */
class Kernel {
  readonly asked: Question[] = [];
  private heard: (message: unknown, buffers: DataView[]) => void = () => {};
  listening = false;
  readonly wire = {
    send: (message: object) => void this.asked.push(message as Question),
    listen: (heard: typeof this.heard) => {
      this.heard = heard;
      this.listening = true;
      return () => (this.listening = false);
    },
  };
  answer(id: number, ...values: number[]): void {
    const bytes = new Uint8Array(4 * values.length + 4); // of a message: not at its start
    bytes.set(new Uint8Array(Float32Array.from(values).buffer), 4);
    const buffers = values.length ? [new DataView(bytes.buffer, 4)] : [];
    this.heard({ rfnb: "exact", id }, buffers);
  }
}
const row = (second: number) => ({ block: "m", start: [0, second, 0], size: [1, 1, 3] });

describe("exact values", () => {
  let kernel: Kernel, exact: Exact;
  beforeEach(() => {
    vi.useFakeTimers();
    vi.spyOn(Math, "random").mockReturnValue(0); // of the first number of a question
    kernel = new Kernel();
    exact = new Exact(kernel.wire);
    exact.renew(4);
  });
  afterEach(() => void vi.useRealTimers());

  it("are asked for once, and known afterwards", async () => {
    const both = [exact.ask(row(1)), exact.ask(row(1))];
    expect(kernel.asked).toEqual([{ rfnb: "exact", id: 1, version: 4, ...row(1) }]);
    expect(exact.now(row(1))).toBeNull();
    kernel.answer(1, 0.5, NaN, 2);
    expect((await Promise.all(both)).map((values) => [...values!])).toEqual([
      [0.5, NaN, 2],
      [0.5, NaN, 2],
    ]);
    expect([...exact.now(row(1))!]).toEqual([0.5, NaN, 2]);
    await exact.ask(row(1));
    expect(kernel.asked.length).toBe(1);
  });

  it("of a spec before are not those of the next one", async () => {
    const late = exact.ask(row(1));
    exact.renew(5);
    expect(await late).toBeNull();
    kernel.answer(1, 1, 1, 1);
    expect(exact.now(row(1))).toBeNull();
  });

  it("are null where no kernel answers in a second, which is not asked again at once; a late answer counts", async () => {
    const asked = exact.ask(row(1));
    vi.advanceTimersByTime(1000);
    expect(await asked).toBeNull();
    expect(await exact.ask(row(2))).toBeNull();
    expect(kernel.asked.length).toBe(1);
    kernel.answer(1, 1, 2, 3);
    expect([...(await exact.ask(row(1)))!]).toEqual([1, 2, 3]);
    void exact.ask(row(2));
    expect(kernel.asked.length).toBe(2);
  });

  it("are null where there is no kernel, where it has none, and where the answer is not as long as it should be", async () => {
    const alone = new Exact(null);
    alone.renew(1);
    expect(await alone.ask(row(1))).toBeNull();
    const none = exact.ask(row(1));
    kernel.answer(1);
    const short = exact.ask(row(2));
    kernel.answer(2, 1, 2);
    expect([await none, await short]).toEqual([null, null]);
  });

  it("are asked for three at once, then only the newest", async () => {
    const all = Array.from({ length: 9 }, (_, index) => exact.ask(row(index)));
    expect(kernel.asked.map(({ start }) => start[1])).toEqual([0, 1, 2]);
    for (const id of [1, 2, 3]) kernel.answer(id, id, id, id);
    expect(kernel.asked.map(({ start }) => start[1])).toEqual([0, 1, 2, 8]);
    kernel.answer(4, 9, 9, 9);
    expect((await Promise.all(all)).map((values) => values?.[0] ?? null)).toEqual([
      1,
      2,
      3,
      null,
      null,
      null,
      null,
      null,
      9,
    ]);
  });

  it("are kept up to a number, the oldest go first", () => {
    const large = (at: number) => ({ block: "m", start: [at], size: [1 << 21] });
    for (const at of [0, 1, 2]) {
      void exact.ask(large(at));
      kernel.answer(at + 1, ...[]);
    }
    const values = new DataView(new ArrayBuffer(4 << 21));
    for (const at of [3, 4, 5]) {
      void exact.ask(large(at));
      (kernel as unknown as { heard(message: unknown, buffers: DataView[]): void }).heard(
        { rfnb: "exact", id: at + 1 },
        [values],
      );
    }
    expect([3, 4, 5].map((at) => !!exact.now(large(at)))).toEqual([false, true, true]);
  });

  it("end with the view", async () => {
    const asked = exact.ask(row(1));
    exact.destroy();
    expect([await asked, kernel.listening, vi.getTimerCount()]).toEqual([null, false, 0]);
  });
});

/** What waits for a promise that is settled has gone on. */
const settled = async () => {
  for (let turn = 0; turn < 9; turn++) await Promise.resolve();
};

/** A map of 2 x 4 weights, of which two share a byte. */
function weights(): Frame<AttentionHead> {
  const code = { kind: "sqrt", low: 0, high: 1 } as const;
  return {
    kind: "attention",
    blocks: { m: codedBlock(Uint8Array.of(126, 0, 252, 63), [1, 2, 4], code, [1, 1, 2]) },
    head: {
      title: "t",
      thinned: "The page has the largest of each.",
      seqs: [{ label: "s", rows: ["x", "y"], cols: ["a", "b", "c", "d"], row_len: 2, col_len: 4 }],
      maps: [
        { label: "m", row_dim: { name: "target" }, col_dim: { name: "source" }, block: "m", seqs: [0], sums: true },
      ],
    },
  };
}

describe("what is said of values that are not exact", () => {
  const exactly = Float32Array.of(0.2501, 0.1, 0.3999, 0.25);
  let root: HTMLElement;
  const press = (key: string) =>
    root.querySelector(".rfnb-pane")!.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  beforeEach(() => document.body.replaceChildren((root = document.createElement("div"))));

  it("is about that in a map, until the kernel has answered", async () => {
    let answer: (values: Float32Array | null) => void = () => {};
    let known: Float32Array | null = null;
    const kernel = { now: () => known, ask: () => new Promise<Float32Array | null>((done) => (answer = done)) };
    showIn(root, kernel).update(weights());
    press("Home");
    const readout = root.querySelector(".rfnb-readout")!;
    expect(readout.querySelector(".rfnb-value")!.textContent).toBe("about 0.25");
    expect(readout.textContent).toContain("most of this row, about: a 0.25");
    expect(readout.textContent).not.toContain("sums to");
    known = exactly;
    answer(exactly);
    await settled();
    expect(readout.querySelector(".rfnb-value")!.textContent).toBe("0.2501");
    expect(readout.textContent).toContain("most of this row: c 0.40, a 0.25, d 0.25");
    expect(root.querySelector(".rfnb-thinned")!.textContent).toContain(
      "The page has the largest of each. Numbers in texts",
    );
  });

  it("is about that in a table, until the kernel has answered", async () => {
    const all = Float32Array.of(...exactly, ...exactly);
    for (const values of [null, all]) {
      showIn(root, { now: () => null, ask: () => Promise.resolve(values) }).update(weights());
      root.querySelector<HTMLElement>("[data-do=table]")!.click();
      const cells = () => [...root.querySelectorAll("td")].slice(0, 3).map((cell) => cell.textContent);
      expect(cells()).toEqual(["≈ 0.25", "≈ 0.25", "≈ 0"]);
      await settled();
      if (values) expect(cells()).toEqual(["0.2501", "0.1000", "0.3999"]);
      else expect(cells()).toEqual(["≈ 0.25", "≈ 0.25", "≈ 0"]);
      expect(root.querySelector("caption")!.textContent).toBe(values ? "m, s" : "m, s: about, rounded");
      root.replaceChildren();
    }
  });

  it("is about that in states, and the norm is exact where its block is there", async () => {
    const code = { kind: "linear", low: -1, high: 1 } as const;
    const blocks = {
      h: codedBlock(Uint8Array.of(126, 252), [1, 1, 2], code),
      "h/line": exactBlock(Float32Array.of(0.9375), [1, 1]),
      "h/change": exactBlock(Float32Array.of(NaN), [1, 1]),
    };
    const head: StatesHead = {
      title: "t",
      step_dim: { name: "step" },
      tracks: [{ label: "h", unit_dim: { name: "unit" }, block: "h" }],
      seqs: [{ label: "s", steps: ["a"], len: 1 }],
    };
    let known: Float32Array | null = null;
    const kernel = { now: () => known, ask: () => Promise.resolve(known) };
    showIn(root, kernel).update({ kind: "states", head, blocks });
    press("Home");
    press("ArrowDown");
    const readout = root.querySelector(".rfnb-readout")!;
    expect(readout.textContent).toContain("about 1");
    expect(readout.textContent).toContain("norm of the step: 0.938");
    known = Float32Array.of(0.0625, 0.96875);
    press("Home");
    expect(readout.querySelector(".rfnb-value")!.textContent).toBe("0.96875");
  });

  it("asks for the blocks of a part of a group by the names that the kernel has", () => {
    const asked: string[] = [];
    const kernel = {
      now: () => null,
      ask: ({ block }: { block: string }) => (asked.push(block), Promise.resolve(null)),
    };
    const { kind, head, blocks } = weights();
    const frame = { kind: "group", head: { parts: [{ kind, head }] }, blocks: { "0/m": blocks["m"]! } };
    showIn(root, kernel).update(frame as Frame);
    press("Home");
    expect(new Set(asked)).toEqual(new Set(["0/m"]));
  });
});
