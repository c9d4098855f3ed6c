import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ofKernel, problem, speeds, speedText, whyNot } from "../src/control/layout";
import type { Act } from "../src/control/layout";
import { fromJson } from "../src/frame";
import type { Frame } from "../src/frame";
import { mount } from "../src/mount";
import { Held, stateIn } from "../src/run";
import type { RunState } from "../src/run";
import { busOf } from "../src/selection";
import control from "../../tests/viz/fixtures/control_small.json";
import { pack } from "./packing";

const frame = (more: Partial<RunState> = {}): Frame<RunState> => {
  const made = fromJson<RunState>(control);
  return { ...made, head: { ...made.head, ...more } };
};
interface Message {
  id: string;
  do: string;
}

/** A kernel that answers when it is told to. */
class Kernel {
  readonly asked: Message[] = [];
  private heard = new Set<(message: unknown, buffers: DataView[]) => void>();
  end = () => {};
  fails = false;
  readonly wire = {
    send: (message: object) => {
      if (this.fails) throw new Error("no comm");
      this.asked.push(message as Message);
    },
    listen: (heard: (message: unknown, buffers: DataView[]) => void) => {
      this.heard.add(heard);
      return () => void this.heard.delete(heard);
    },
    onGone: (gone: () => void) => {
      this.end = gone;
      return () => (this.end = () => {});
    },
  };
  tell(message: object): void {
    for (const heard of this.heard) heard(message, []);
  }
  answer(said: string | null = null): void {
    this.tell({ rfnb: "did", id: this.asked.at(-1)!.id, said });
  }
}
const settled = () => Promise.resolve().then(() => Promise.resolve());

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe("what can be done", () => {
  const can = (state: RunState["state"], more: Partial<RunState> = {}) =>
    (["pause", "resume", "step", "steps", "stop", "branch"] as Act[]).filter(
      (act) => !whyNot(act, frame({ state, ...more }).head),
    );
  it("depends on the state", () => {
    expect(can("running")).toEqual(["pause", "step", "steps", "stop", "branch"]);
    expect(can("paused")).toEqual(["resume", "step", "steps", "stop", "branch"]);
    expect(can("pausing")).toEqual(["resume", "step", "steps", "stop", "branch"]);
    expect(can("stopping")).toEqual(["branch"]);
    expect(can("done")).toEqual(["branch"]);
    expect(can("running", { loops: [] })).not.toContain("branch");
  });

  it("says why not", () => {
    expect(whyNot("pause", frame().head)).toBe("It is paused.");
    expect(whyNot("step", frame({ state: "failed" }).head)).toBe(
      "decay is over: it has failed. Another run can continue from a step.",
    );
    expect(whyNot("branch", frame({ loops: [] }).head)).toBe("There is no step to continue from yet.");
  });

  it("is asked of a kernel that may have gone", () => {
    expect(ofKernel("answers", frame().head)).toBe("");
    expect(ofKernel(null, frame().head)).toBe("");
    expect(ofKernel("silent", frame().head)).toBe("No kernel answers, so the run takes no commands.");
    expect(ofKernel("silent", frame({ live: false }).head)).toBe("");
    expect(ofKernel("gone", frame().head)).toMatch(/^The kernel has stopped/);
  });

  it("has the speed that was set by code among the speeds", () => {
    expect(speeds(0)).toEqual([0, 50, 10, 5, 2, 1, 0.5]);
    expect(speeds(3)).toEqual([0, 50, 10, 5, 3, 2, 1, 0.5]);
    expect([0, 1, 3, 1 / 3].map(speedText)).toEqual([
      "full speed",
      "1 step per second",
      "3 steps per second",
      "0.333 steps per second",
    ]);
  });

  it("needs a state", () => {
    expect(problem(frame())).toBeNull();
    expect(problem({ kind: "control", head: { title: "x" } as RunState, blocks: {} })).toBe("This run has no state.");
  });
});

describe("a held run", () => {
  it("is there for views when the kernel has answered, and has the newest state", async () => {
    const kernel = new Kernel(),
      held = new Held(kernel.wire),
      told = vi.fn();
    held.listen(told);
    held.renew(frame({ serial: 7 }).head);
    expect(kernel.asked).toMatchObject([{ rfnb: "do", do: "look" }]);
    expect(held.held).toBeNull();
    kernel.answer();
    expect(held.held).toBe(held);
    kernel.tell({ rfnb: "run", head: frame({ serial: 9, words: "new" }).head });
    held.renew(frame({ serial: 8, words: "old" }).head); // a picture that was made before
    expect(held.state.words).toBe("new");
    expect(told).toHaveBeenCalled();
    const did = held.do({ do: "force", label: "AH" });
    expect(kernel.asked.at(-1)).toMatchObject({ do: "force", label: "AH", run: 2 });
    kernel.tell({ rfnb: "did", id: "another page", said: null });
    kernel.answer("No label AH.");
    expect(await did).toBe("No label AH.");
    held.destroy();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("is silent where there is no kernel, late where one is busy, and gone where it has ended", async () => {
    const kernel = new Kernel(),
      held = new Held(kernel.wire);
    held.renew(frame().head);
    vi.advanceTimersByTime(2000);
    expect([held.kernel, held.held]).toEqual(["silent", null]);
    expect(kernel.asked.length).toBe(2); // what it said first may wait behind a cell
    kernel.answer();
    expect(held.kernel).toBe("answers");
    vi.advanceTimersByTime(100_000);
    expect(kernel.asked.length).toBe(2);
    const did = held.do({ do: "pause" });
    vi.advanceTimersByTime(2000);
    expect([held.kernel, held.held]).toEqual(["late", held]);
    kernel.answer();
    expect([held.kernel, await did]).toEqual(["answers", null]);
    const lost = held.do({ do: "step" });
    kernel.fails = true;
    kernel.end();
    expect([held.kernel, held.held]).toEqual(["gone", null]);
    expect(await lost).toBe("The kernel has stopped, and the run with it.");
    expect(await held.do({ do: "step" })).toBe("The kernel has stopped, and the run with it.");
    held.destroy();
  });

  it("is late, not silent, where its kernel says how far it is and hears nothing yet", () => {
    const kernel = new Kernel(),
      held = new Held(kernel.wire);
    held.renew(frame({ serial: 1 }).head);
    kernel.tell({ rfnb: "run", head: frame({ serial: 2 }).head });
    expect(held.kernel).toBe("asked");
    vi.advanceTimersByTime(1000);
    expect(held.kernel).toBe("silent");
    kernel.tell({ rfnb: "run", head: frame({ serial: 3 }).head });
    expect([held.kernel, held.held, held.state.serial]).toEqual(["late", held, 3]);
    vi.advanceTimersByTime(2000);
    expect(kernel.asked.length).toBe(3); // it goes on asking
    kernel.answer();
    expect(held.kernel).toBe("answers");
    held.destroy();
  });

  it("is found in a frame of its own and in a group", () => {
    const alone = frame();
    expect(stateIn(alone)).toBe(alone.head);
    const parts = [{ kind: "control", head: alone.head }];
    expect(stateIn({ kind: "group", head: { parts } as object })).toBe(alone.head);
    expect(stateIn({ kind: "states", head: {} })).toBeNull();
  });
});

describe("the toolbar", () => {
  let kernel: Kernel, el: HTMLElement, shown: ReturnType<typeof mount>;
  const open = (more: Partial<RunState> = {}, answers = true) => {
    kernel = new Kernel();
    el = document.createElement("div");
    document.body.append(el);
    shown = mount(el, pack("control", frame(more).head), kernel.wire);
    if (answers) kernel.answer();
  };
  afterEach(() => shown.destroy());
  const press = (name: string) => el.querySelector<HTMLElement>(`[data-do=${name}]`)!.click();
  const said = () => el.querySelector(".rfnb-run-said")!.textContent;

  it("says the state, and has no buttons before a kernel answers", () => {
    open({}, false);
    const tools = el.querySelector<HTMLElement>("[role=group]")!;
    expect(tools.hidden).toBe(true);
    expect(el.textContent).toContain('Paused before step 3 of "decoder.search": breakpoint h.abs_max() > 5.');
    expect(el.textContent).toContain("step 3 of 14");
    kernel.answer();
    expect(tools.hidden).toBe(false);
  });

  it("says by how much values change in a part of its own, which a narrow rail does not cut", () => {
    const result = { labels: [], score: null, difference: null, same: false, words: "" },
      entry = { from: "", state: "done", results: [result], text: "values change by up to", far: "0.5" };
    open({ run: 1, runs: [1, 2].map((number) => ({ ...entry, number, name: `run ${number}` })) });
    const shown = [...el.querySelectorAll(".rfnb-rail-far")];
    expect(shown.map(({ textContent }) => textContent)).toEqual(Array(2).fill("values change by up to 0.5"));
    expect(shown.map(({ lastElementChild: last }) => last!.textContent)).toEqual([" 0.5", " 0.5"]);
  });

  it("asks for what is clicked, with its fields", async () => {
    open();
    const input = (label: string) => el.querySelector<HTMLInputElement>(`[aria-label="${label}"]`)!;
    press("step");
    input("steps at once").value = "4";
    press("steps");
    press("stop");
    press("branch");
    input("pause when").value = " nan ";
    el.querySelector("form")!.dispatchEvent(new Event("submit", { cancelable: true }));
    const speed = el.querySelector<HTMLSelectElement>("[aria-label=speed]")!;
    speed.selectedIndex = 6;
    speed.dispatchEvent(new Event("change"));
    el.querySelector<HTMLElement>("[data-point='3'] button")!.click();
    const row = (run: number) => el.querySelector<HTMLElement>(`.rfnb-rail-row[data-run="${run}"]`)!;
    row(2).click(); // which is shown already
    row(1).click();
    row(1).dispatchEvent(new MouseEvent("click", { shiftKey: true, bubbles: true }));
    const asked = kernel.asked.slice(1).map(({ id, ...fields }) => fields);
    const of = { rfnb: "do", run: 2 };
    expect(asked).toEqual([
      { ...of, do: "step" },
      { ...of, do: "step", steps: 4 },
      { ...of, do: "stop" },
      { ...of, do: "branch", step: 3, path: "decoder.search", nth: 1 },
      { ...of, do: "break", when: "nan" },
      { ...of, do: "speed", value: 0.5 },
      { ...of, do: "unbreak", number: 3 },
      { ...of, do: "follow", number: 1 },
      { ...of, do: "compare", number: 1 },
    ]);
    expect(new Set(kernel.asked.map(({ id }) => id)).size).toBe(10);
  });

  it("says why it was not done, or why a button does nothing", async () => {
    open();
    press("step");
    kernel.answer("It cannot.");
    await settled();
    expect(said()).toBe("It cannot.");
    press("pause");
    expect(said()).toBe("It is paused.");
    expect(el.querySelector("[data-do=pause]")!.getAttribute("aria-disabled")).toBe("true");
    expect(kernel.asked.length).toBe(2);
  });

  it("works by keys, but not in a field", () => {
    open();
    const key = (target: Element, name: string) =>
      target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
    key(el.querySelector("[data-do=step]")!, "s");
    key(el.querySelector("[data-do=step]")!, "r");
    key(el.querySelector("[aria-label='pause when']")!, "x");
    expect(kernel.asked.slice(1).map((one) => one.do)).toEqual(["step", "resume"]);
  });

  it("goes on from the step that is chosen in a view of the same axis", () => {
    open({ link: "here" });
    const branch = () => el.querySelector("[data-do=branch]")!.firstChild!.textContent;
    expect(branch()).toBe("Branch from step 3"); // where it is
    busOf("here", "target").point({ step: 2 }, {});
    expect(branch()).toBe("Branch from step 2");
    press("branch");
    expect(kernel.asked.at(-1)).toMatchObject({ step: 2, path: "decoder.search", nth: 1 });
    busOf("here", "target").point({ step: 99 }, {}); // beyond what there is
    expect(branch()).toBe("Branch from step 3");
  });

  it("shows a state at once that comes as a message", () => {
    open();
    kernel.tell({
      rfnb: "run",
      head: frame({ serial: 8, state: "done", words: "Done after 14 steps.", live: false }).head,
    });
    const root = el.querySelector<HTMLElement>("[data-kind=control]")!;
    expect(root.dataset["state"]).toBe("done");
    expect(el.textContent).toContain("Done after 14 steps.");
  });

  it("says that the kernel has stopped, and has no buttons then", () => {
    open();
    kernel.fails = true;
    kernel.end();
    expect(el.querySelector<HTMLElement>("[role=group]")!.hidden).toBe(true);
    expect(el.textContent).toContain("The kernel has stopped, and the run with it.");
  });

  it("keeps the focus where the host makes it anew", () => {
    open();
    el.querySelector<HTMLElement>("[data-do=resume]")!.focus();
    el.remove();
    shown.destroy();
    open({ serial: 9 });
    expect((document.activeElement as HTMLElement).dataset["do"]).toBe("resume");
  });
});
