import { afterEach, describe, expect, it, vi } from "vitest";
import type { Frame } from "../src/frame";
import { fromJson } from "../src/frame";
import { mount } from "../src/mount";
import type { Board, Judged, QuestionHead } from "../src/question/layout";
import { judge, problem } from "../src/question/layout";
import stored from "../../tests/viz/fixtures/question_judged.json";
import { pack } from "./packing";

type Name = keyof typeof stored.specs;
const frameOf = (name: string): Frame<QuestionHead> => fromJson<QuestionHead>(stored.specs[name as Name]);

describe("what is said of an answer", () => {
  it("is what Python says of it", () => {
    const cases = stored.cases as { of: string; at: number; board: Board; first: boolean; judged: Judged }[];
    for (const { of, at, board, first, judged } of cases)
      expect(judge(frameOf(of), at, board, first), `${of} ${JSON.stringify(board)} ${first}`).toEqual(judged);
  });

  it("needs a frame that has what is asked about", () => {
    for (const name of Object.keys(stored.specs)) {
      const frame = frameOf(name);
      expect(problem(frame)).toBeNull();
      for (const field of ["steps", "answer", "cols", "col_names"] as const)
        expect(problem({ ...frame, head: { ...frame.head, [field]: null } as never })).toBe(
          "This question lacks what it asks about.",
        );
    }
    expect(problem({ ...frameOf("weights"), blocks: {} })).toBe("This question lacks what it asks about.");
  });
});

describe("a question in the page", () => {
  let el: HTMLElement, shown: ReturnType<typeof mount>;
  const asked: { do: string; id: string; boards?: Board[] }[] = [];
  let hear: (message: unknown, buffers: DataView[]) => void = () => {};
  const wire = {
    send: (message: object) => void asked.push(message as never),
    listen: (heard: typeof hear) => ((hear = heard), () => {}),
  };
  const bytesOf = (name: string, more: Partial<QuestionHead> = {}) => {
    const { head, blocks } = frameOf(name),
      weights = blocks["weights"];
    const parts = weights && {
      weights: { dtype: "f32", shape: weights.shape, bytes: new Uint8Array(weights.data.slice().buffer) },
    };
    return pack("question", { ...head, ...more }, parts);
  };
  const open = (name: string, more: Partial<QuestionHead> = {}, kernel = false) => {
    asked.length = 0;
    el = document.createElement("div");
    document.body.append(el);
    shown = mount(el, bytesOf(name, more), kernel ? wire : null);
  };
  const cell = (row: number, col: number) => el.querySelector<HTMLElement>(`[data-at="${row},${col}"]`)!;
  const press = (key: string, more: KeyboardEventInit = {}) =>
    (document.activeElement ?? el).dispatchEvent(
      new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }),
    );
  const pointer = (name: string, target: HTMLElement, buttons: number) =>
    target.dispatchEvent(new MouseEvent(name, { bubbles: true, button: 0, buttons }));
  const act = (name: string) => el.querySelector<HTMLButtonElement>(`[data-do=${name}]`)!;
  const drawn = () =>
    [...el.querySelectorAll("tbody tr")].map((row) =>
      [...row.querySelectorAll("[data-at]")].map((one) => Number(one.getAttribute("aria-selected") === "true")),
    );
  const said = () => el.querySelector(".rfnb-question-said")!.textContent;
  afterEach(() => {
    vi.useRealTimers();
    shown.destroy();
    document.body.replaceChildren();
  });

  it("is drawn in by the pointer, also where it is too fast for some cells", () => {
    open("causal");
    pointer("pointerdown", cell(3, 0), 1);
    pointer("pointerover", cell(3, 3), 1);
    pointer("pointerover", cell(0, 0), 0); // the button was let go
    expect(drawn()).toEqual([
      [0, 0, 0, 0],
      [0, 0, 0, 0],
      [0, 0, 0, 0],
      [1, 1, 1, 1],
    ]);
    pointer("pointerdown", cell(3, 1), 1);
    expect(drawn()[3]).toEqual([1, 0, 1, 1]);
    act("check").click();
    expect(said()).toBe('Wrong in 7 places, one of them:\nrow 0 "the" must see column 0 "the": it is itself.');
    expect([cell(0, 0).textContent, cell(1, 0).textContent]).toEqual(["○", ""]);
    act("check").click(); // the same once more is no second try
    expect(said()).toContain("one of them");
    pointer("pointerdown", cell(0, 0), 1);
    act("check").click();
    expect(said()).toContain("Wrong in 6 places:");
    expect(cell(1, 0).textContent).toBe("○");
    pointer("pointerdown", cell(0, 0), 1);
    act("check").click();
    expect(cell(0, 0).getAttribute("aria-label")).toBe('row 0 "the", column 0 "the": not drawn, missed');
    act("clear").click();
    expect([drawn().flat().includes(1), said()]).toEqual([false, ""]);
  });

  it("is drawn in by keys, and checked by one", () => {
    open("causal");
    cell(0, 0).focus();
    press(" ");
    press("ArrowDown");
    press(" ");
    press("ArrowRight", { shiftKey: true });
    for (const _ of [0, 1]) {
      press("ArrowDown");
      press("Home");
      press(" ");
      for (let col = 0; col < Number(document.activeElement!.getAttribute("data-at")![0]); col++)
        press("ArrowRight", { shiftKey: true });
    }
    press("Enter");
    expect(said()).toBe("All 16 cells are right.");
    expect(el.querySelector<HTMLElement>(".rfnb-root")!.dataset["passed"]).toBe("true");
    expect(document.activeElement).toBe(cell(3, 3));
    expect(el.querySelectorAll("[tabindex='0'][data-at]").length).toBe(1);
  });

  it("goes on with the next step of a search when one is right", () => {
    open("lanes 0");
    cell(0, 0).focus();
    press(" ");
    press("Enter");
    expect(said()).toBe("2 stay, and 1 is picked.");
    expect(act("next").hidden).toBe(true);
    press("ArrowRight", { shiftKey: true }); // with Shift a search is not painted in
    expect(drawn()).toEqual([[1, 0, 0]]);
    press(" ");
    press("Enter");
    expect(said()).toBe("Right: the last that stays has −1.00, the best that goes −3.00: a margin of 2.00.");
    expect(document.activeElement).toBe(act("next"));
    act("next").click();
    expect(el.querySelector<HTMLElement>(".rfnb-root")!.dataset["step"]).toBe("1");
    cell(0, 0).click(); // as a screen reader does
    cell(1, 0).click();
    press("Enter");
    expect(said()).toContain("a margin of 0.00.\nThat was the last step.");
    expect([act("next").hidden, cell(0, 0).textContent]).toEqual([true, "b −0.75, rank 1 ✓"]);
  });

  it("shows sums and ranks of a search from the second miss on", () => {
    open("lanes 0");
    cell(0, 0).click();
    cell(0, 2).click();
    press("Enter");
    expect(said()).toContain("1 of the 2 that you picked goes.");
    expect(el.textContent).not.toMatch(/rank|○/);
    cell(0, 0).click();
    cell(0, 1).click();
    press("Enter");
    expect(cell(0, 0).textContent).toBe("a −0.50, rank 1 ○");
  });

  it("knows what was missed before the page was opened, and tells all of what is revealed", () => {
    const wrong = [[1, 0, 1]];
    open("lanes 0", { answer: [wrong], missed: [[[0, 1, 1]], null] });
    expect(cell(0, 1).textContent).toBe("b −1.00, rank 2 ○");
    shown.destroy();
    open("lanes 0", { answer: [wrong], missed: [wrong, null] });
    expect(cell(0, 1).textContent).toBe("b −1.00");
    shown.update(bytesOf("lanes 0", { answer: [wrong], missed: [wrong, null], revealed: true }));
    return vi.waitFor(() => expect(cell(0, 1).textContent).toBe("b −1.00, rank 2 ○"));
  });

  it("shows the weights, and the agreement of each row, when it is checked", () => {
    open("weights");
    for (const at of [
      [0, 0],
      [1, 1],
      [3, 2],
    ] as [number, number][])
      pointer("pointerdown", cell(at[0], at[1]), 1);
    expect(cell(0, 0).hasAttribute("data-weight")).toBe(false);
    act("check").click();
    expect([...el.querySelectorAll("tbody tr")].map((row) => row.lastElementChild!.textContent)).toEqual([
      "1.00",
      "0.50",
      "",
      "1.00",
    ]);
    expect(cell(1, 2).getAttribute("aria-label")).toBe('row 1, column 2 "c": not drawn, weight 0.45');
  });

  it("tells the kernel, shows what that refuses, and keeps the step where its answer comes back", async () => {
    vi.useFakeTimers();
    open("lanes 0", {}, true);
    cell(0, 0).click();
    cell(0, 1).click();
    press("Enter");
    const { id, ...message } = asked.at(-1)!;
    expect(message).toEqual({ rfnb: "do", do: "answer", boards: [[[1, 1, 0]]] });
    act("next").click();
    hear({ rfnb: "did", id, said: null }, []);
    shown.update(bytesOf("lanes 0", { answer: [[[1, 1, 0]]] }));
    vi.runAllTimers();
    expect(el.querySelector<HTMLElement>(".rfnb-root")!.dataset["step"]).toBe("1");
    press("Enter");
    hear({ rfnb: "did", id: asked.at(-1)!.id, said: "Its truth was revealed." }, []);
    await Promise.resolve().then(() => Promise.resolve());
    expect(said()).toBe("Its truth was revealed.");
  });

  it("keeps what is drawn before its answer comes back", () => {
    vi.useFakeTimers();
    open("lanes 0", {}, true);
    cell(0, 0).click();
    cell(0, 2).click();
    press("Enter");
    cell(0, 2).click();
    cell(0, 1).click();
    const now = drawn();
    shown.update(bytesOf("lanes 0", { answer: [[[1, 0, 1]]] }));
    vi.runAllTimers();
    expect(drawn()).toEqual(now);
  });

  it("keeps its step where an earlier answer comes back after a later one was given", () => {
    vi.useFakeTimers();
    open("lanes 0", {}, true);
    const [wrong, right] = [[[1, 0, 1]], [[1, 1, 0]]];
    for (const col of [0, 2]) cell(0, col).click();
    press("Enter");
    for (const col of [2, 1]) cell(0, col).click();
    press("Enter");
    act("next").click();
    cell(0, 0).click();
    cell(1, 0).click();
    const now = drawn();
    press("Enter"); // the kernel has answered none of them yet
    for (const answer of [[wrong], [right], [right, now]]) {
      shown.update(bytesOf("lanes 0", { answer }));
      vi.runAllTimers();
      expect(el.querySelector<HTMLElement>(".rfnb-root")!.dataset["step"]).toBe("1");
      expect(drawn()).toEqual(now);
    }
    shown.update(bytesOf("lanes 0", { answer: [wrong] })); // given in another page
    vi.runAllTimers();
    expect(drawn()).toEqual(wrong);
  });

  it("opens with the answer that was given, and what is said of it", () => {
    open("causal", { answer: [frameOf("causal").head.steps[0]!.solution] });
    expect(said()).toBe("All 16 cells are right.");
  });

  it("shows what is right where it is revealed without an answer, and takes none", () => {
    open("weights", { revealed: true });
    expect(drawn()).toEqual(frameOf("weights").head.steps[0]!.solution);
    expect(said()).toBe("Shown, not answered: this is the right answer.");
    expect(act("check").hidden).toBe(true);
  });
});
