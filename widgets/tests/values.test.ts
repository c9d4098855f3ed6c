import { exactBlock } from "../src/block";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Head as AttentionHead } from "../src/attention/matrix";
import type { BeamsHead } from "../src/beams/tree";
import type { Head as CurvesHead } from "../src/curves/layout";
import type { DimsHead } from "../src/dims/layout";
import type { Head as DistributionHead } from "../src/distribution/layout";
import type { Block, Frame } from "../src/frame";
import { showIn } from "../src/mount";
import type { Head as StatesHead } from "../src/states/scene";

/** A canvas context that takes everything but positions that are no numbers. */
function context(): CanvasRenderingContext2D {
  const numbers =
    (name: string) =>
    (...given: unknown[]) => {
      for (const value of given)
        if (typeof value === "number" && !Number.isFinite(value)) throw new Error(`${name}(${given.join(", ")})`);
    };
  const own: Record<string, unknown> = {
    measureText: (text: string) => ({ width: text.length * 7 }),
    createImageData: (width: number, height: number) => ({ data: new Uint8ClampedArray(4 * width * height) }),
    putImageData: () => {},
    createLinearGradient: () => ({ addColorStop: () => {} }),
    setLineDash: () => {},
  };
  return new Proxy(
    {},
    { get: (_, name: string) => own[name] ?? numbers(name), set: () => true },
  ) as unknown as CanvasRenderingContext2D;
}

const f32 = (shape: number[], values: number[]): Block => exactBlock(Float32Array.from(values), shape);
const dim = (name: string) => ({ name, size: 3, lengths: null, kind: null, id: 0 });

/** A frame of each kind whose values are these six numbers. */
function frames(
  values: number[],
): Frame<AttentionHead | StatesHead | DistributionHead | CurvesHead | BeamsHead | DimsHead>[] {
  const [a, b, c, d, e, f] = values as [number, number, number, number, number, number];
  const finite = (value: number) => (Number.isFinite(value) ? value : null); // as in JSON
  const stats = { min: finite(a), max: finite(b), mean: finite(c), nan: 1, inf: 2, valid: 4, cells: 6, padding_odd: 1 };
  return [
    {
      kind: "attention",
      blocks: { map0: f32([1, 2, 3], values) },
      head: {
        maps: [
          { label: "w", row_dim: dim("t"), col_dim: dim("s"), block: "map0", seqs: [0], sums: true, notes: { 0: "x" } },
        ],
        seqs: [{ label: "q", rows: ["0", "1"], cols: ["0", "1"], row_len: 2, col_len: 2 }],
      },
    },
    {
      kind: "states",
      blocks: { track0: f32([1, 3, 2], values) },
      head: {
        step_dim: dim("step"),
        tracks: [{ label: "h", unit_dim: dim("unit"), block: "track0", notes: { 0: "x" } }],
        seqs: [{ label: "q", steps: ["a", "b"], len: 2 }],
      },
    },
    {
      kind: "distribution",
      blocks: {
        top: exactBlock(Int32Array.from([0, 1, 1, 0, 0, 1]), [1, 3, 2]),
        top_log_probs: f32([1, 3, 2], values),
        rest: f32([1, 3], values.slice(0, 3)),
        entropy: f32([1, 3], values.slice(3)),
        reference: exactBlock(Int32Array.from([0, 1, -1]), [1, 3]),
        log_prob: f32([1, 3], values.slice(0, 3)),
        rank: exactBlock(Int32Array.from([1, 2, 0]), [1, 3]),
      },
      head: {
        step_dim: dim("step"),
        vocab_dim: dim("label"),
        estimated_type: "logits",
        reference: true,
        tokens: { 0: "x", 1: "y" },
        seqs: [{ label: "q", steps: [], len: 3, right: 1, known: 2, loss: finite(a) }],
      },
    },
    {
      kind: "curves",
      blocks: { x0: f32([6], [0, 1, 2, 3, 4, 5]), y0: f32([6], values) },
      head: {
        x: "step",
        series: [
          { label: "loss", x: "x0", y: "y0", best: "min", log: true },
          { label: "rate", x: "x0", y: "y0", best: null },
        ],
      },
    },
    {
      kind: "beams",
      blocks: {},
      head: {
        seqs: [
          {
            label: "q",
            best: [[0, 0]],
            parts: ["lm"],
            steps: [
              [a, b],
              [c, d],
              [e, f],
            ].map((scores) => ({
              tokens: ["x", "y"],
              parents: [0, 0],
              ended: [false, false],
              scores: scores.map(finite),
              parts: [scores.map((value) => finite(value) ?? 0)],
              cuts: [{ token: "z", parent: 0, score: finite(scores[0]!), parts: [0] }],
            })),
          },
        ],
      },
    },
    {
      kind: "dims",
      blocks: {},
      head: {
        dims: [dim("a")],
        rows: [
          {
            label: "x",
            indent: 0,
            dims: [0],
            dtype: "float32",
            device: "cpu",
            note: "",
            sparse: null,
            stats,
            bytes: 24,
          },
        ],
      },
    },
  ];
}

const HUGE = 3e38,
  TINY = 1e-45;
const VALUES: [string, number[]][] = [
  ["NaN", [NaN, NaN, NaN, NaN, NaN, NaN]],
  ["infinity", Array(6).fill(Infinity) as number[]],
  ["minus infinity", Array(6).fill(-Infinity) as number[]],
  ["both", [Infinity, -Infinity, 1, 0, NaN, 2]],
  ["up to infinity", [1, 1e10, 1e20, 1e30, HUGE, Infinity]],
  ["huge", [HUGE, -HUGE, HUGE, 0, 1, -1]],
  ["denormal", [TINY, 2 * TINY, 0, -TINY, TINY, TINY]],
  ["all equal", Array(6).fill(0.25) as number[]],
  ["zeros", [0, -0, 0, 0, 0, 0]],
];
const KINDS = ["attention", "states", "distribution", "curves", "beams", "dims"];

describe.each(KINDS)("%s", (kind) => {
  let root: HTMLElement;
  beforeEach(() => {
    document.body.replaceChildren((root = document.createElement("div")));
    HTMLCanvasElement.prototype.getContext = context as never;
    vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(600);
    vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(400);
    vi.stubGlobal("requestAnimationFrame", (work: () => void) => {
      work();
      return 1;
    });
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
  });

  it.each(VALUES)("draws %s, and says it under the cursor", (name, values) => {
    const shown = showIn(root),
      frame = frames(values)[KINDS.indexOf(kind)]!;
    shown.update(frame);
    shown.update({ ...frame, head: { ...frame.head, live: true } });
    const alerts = () =>
      [...root.querySelectorAll("[role=alert]")]
        .filter((alert) => !(alert as HTMLElement).hidden)
        .map((alert) => alert.textContent);
    expect(alerts().filter((text) => !/^No /.test(text!))).toEqual([]);
    const said = new Set<string>();
    for (const at of root.querySelectorAll<HTMLElement>("[tabindex='0']")) {
      for (const key of [
        "Home",
        ...Array(6).fill("ArrowRight"),
        "ArrowDown",
        ...Array(6).fill("ArrowLeft"),
        "ArrowDown",
        "+",
        "-",
        "End",
      ]) {
        at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        said.add([...root.querySelectorAll("[role=status]")].map((one) => one.textContent).join(" "));
      }
    }
    for (const button of root.querySelectorAll("button")) button.click();
    expect(alerts().filter((text) => !/^No /.test(text!))).toEqual([]);
    if (kind === "beams" || kind === "dims") return; // their numbers are in JSON, where what is none is null
    const all = [...said].join(" ");
    if (values.some(Number.isNaN)) expect(all).toMatch(/NaN|not computed/);
    if (values.includes(Infinity)) expect(all).toContain("∞");
    if (values.includes(-Infinity)) expect(all).toContain("−∞");
    if (name === "denormal") expect(all).toMatch(/e−45/);
  });

  it("draws nothing", () => {
    const empty = frames([0, 0, 0, 0, 0, 0])[KINDS.indexOf(kind)]!;
    const blocks = Object.fromEntries(
      Object.entries(empty.blocks).map(([name, { shape }]) => [
        name,
        f32(
          shape.map((size, at) => (at === shape.length - 1 ? 0 : size)),
          [],
        ),
      ]),
    );
    showIn(root).update({ ...empty, blocks });
    expect(
      [...root.querySelectorAll("[role=alert]")]
        .map((alert) => alert.textContent)
        .filter((text) => text?.includes("cannot be drawn: ")),
    ).toEqual([]);
  });
});
