// The toolbar of a run: its state, its commands, its breakpoints and branches. Without a kernel it has no buttons.

import type { Context, Render, Rendered } from "../context";
import { button, h, on, quiet, select, set, setOptions, status } from "../dom";
import type { Frame } from "../frame";
import { visible } from "../visible_text";
import type { Command, RunState } from "../run";
import type { Act } from "./layout";
import { Rail } from "./rail";
import { WhyNot } from "./why_field";
import { KEYS, ofKernel, problem, speeds, speedText, timesText, whyNot } from "./layout";

const GLYPHS: Record<RunState["state"], string> = {
  running: "▶",
  pausing: "…",
  paused: "‖",
  stopping: "…",
  done: "✓",
  failed: "!",
  stopped: "■",
};
let focused: { run: number; act: string } | null = null; // the button: a host recreates the view when the run ends

class Toolbar implements Rendered<RunState> {
  private readonly name = h("b.rfnb-title");
  private readonly glyph = h("span.rfnb-run-glyph", { "aria-hidden": true });
  private readonly words = status("div.rfnb-run-words");
  private readonly counter = h("span.rfnb-run-counter");
  private readonly buttons = new Map<Act, HTMLButtonElement>();
  private readonly steps = field("steps at once", "number", { min: 1, value: 10 });
  private readonly speed = select("speed", (index) => this.ask({ do: "speed", value: speeds(this.now.speed)[index]! }));
  private readonly rail: Rail;
  private readonly why: WhyNot;
  private readonly when = field("pause when", "text", { placeholder: "12, nan, h.abs_max() > 5" });
  private readonly points = h("ul.rfnb-run-points");
  private from: { loop: number; step: number } | null = null; // the step to branch from: the one chosen in a view
  private readonly said = status("div.rfnb-run-said");
  private readonly kernel = h("p.rfnb-quiet");
  private readonly note = h("p.rfnb-quiet");
  private readonly sentence = h("p.rfnb-sentence", { role: "alert" });
  private readonly tools: HTMLElement;
  private readonly ends: (() => void)[] = [];
  private listening = "";
  private now!: RunState;

  constructor(
    private readonly el: HTMLElement,
    private readonly ctx: Context,
  ) {
    const make = (act: Act, text: string) => {
      const [key] = Object.entries(KEYS).find(([, of]) => of === act)!;
      const made = button(text, () => this.act(act), { "data-do": act, "aria-keyshortcuts": key });
      made.append(h("kbd", { "aria-hidden": true }, key));
      this.buttons.set(act, made);
      return made;
    };
    const form = h(
      "form.rfnb-run-row",
      h("label", "speed ", this.speed),
      h("label", "pause when ", this.when),
      h("button", { type: "submit", "data-do": "break" }, "Add"),
    );
    on(form, "submit", (event) => {
      event.preventDefault();
      if (this.when.value.trim()) this.ask({ do: "break", when: this.when.value.trim() }, () => (this.when.value = ""));
    });
    this.why = new WhyNot(ctx, (command) => this.ask(command));
    this.tools = h(
      "div",
      { role: "group", "aria-label": "run" },
      h(
        "div.rfnb-run-row",
        make("pause", "Pause"),
        make("resume", "Resume"),
        make("step", "Step"),
        h("span", make("steps", "Steps"), this.steps),
        make("stop", "Stop"),
        make("branch", "Branch"),
      ),
      form,
      this.points,
      this.said,
    );
    this.rail = new Rail(ctx, (command) => this.ask(command));
    el.append(
      h("div.rfnb-top", this.name, this.glyph, this.words, this.counter),
      this.sentence,
      this.tools,
      this.why.element,
      this.kernel,
      this.note,
      this.rail.element,
    );
    on(el, "keydown", (event) => this.key(event));
    on(el, "focusin", ({ target }) => {
      const act = (target as HTMLElement).dataset["do"];
      focused = act ? { run: this.now.run, act } : null;
    });
    on(
      el,
      "focusout",
      () => void setTimeout(() => el.isConnected && !el.contains(document.activeElement) && (focused = null)),
    );
    if (ctx.held) this.ends.push(ctx.held.listen(() => this.show()));
  }

  update(frame: Frame<RunState>): void {
    const missing = problem(frame);
    this.sentence.textContent = missing ?? "";
    this.sentence.hidden = !missing;
    if (missing) return;
    this.now = frame.head;
    this.show();
  }

  private show(): void {
    const { held } = this.ctx,
      newest = held?.state;
    if (newest && newest.serial >= this.now.serial) this.now = newest;
    const { now } = this,
      can = !!held?.held;
    put(this.name, now.title ?? "");
    put(this.glyph, GLYPHS[now.state] ?? "");
    put(this.words, now.words);
    put(this.counter, now.state === "done" || now.state === "failed" ? "" : now.counter);
    for (const name of ["state", "steps", "run"] as const) this.el.dataset[name] = String(now[name]);
    this.el.dataset["at"] = now.at ? String(now.at.step) : "";
    put(this.kernel, ofKernel(held?.kernel ?? null, now));
    put(this.note, now.note);
    this.tools.hidden = !can;
    this.rail.update(now);
    this.why.update(now, can);
    if (!can) return;
    for (const [act, element] of this.buttons) {
      const why = whyNot(act, now);
      set(element, "aria-disabled", !!why);
      element.title = why;
    }
    setOptions(this.speed, speeds(now.speed).map(speedText), speeds(now.speed).indexOf(now.speed));
    this.showPoints();
    this.listen();
    this.showFrom();
    this.refocus();
  }

  private showPoints(): void {
    const text = JSON.stringify(this.now.points);
    if (this.points.dataset["of"] === text) return;
    this.points.dataset["of"] = text;
    const focused = this.points.contains(document.activeElement);
    this.points.replaceChildren(
      ...this.now.points.map(({ number, text: when, hits }) =>
        h(
          "li",
          { "data-point": number },
          h("code", visible(when)),
          quiet(` hit ${timesText(hits)} `),
          button("Remove", () => this.ask({ do: "unbreak", number }), { "aria-label": `Remove ${visible(when)}` }),
        ),
      ),
    );
    if (focused) (this.points.querySelector("button") ?? this.when).focus();
  }

  /** Uses the step chosen in the views of this run as the one to branch from. */
  private listen(): void {
    const axes = this.now.loops.map(({ axis }) => axis),
      wanted = JSON.stringify(axes);
    if (wanted === this.listening) return;
    this.listening = wanted;
    for (const end of this.ends.splice(this.ctx.held ? 1 : 0)) end();
    for (const [loop, axis] of axes.entries())
      this.ends.push(
        this.ctx.busOf(axis).listen(({ step }) => {
          if (step === null) return;
          this.from = { loop, step };
          this.showFrom();
        }),
      );
    this.ends.push(this.ctx.busOf("").listen(() => this.rail.update(this.now)));
  }

  /** The loop and step to branch from: the one that a view points at, else the last step of the running loop. */
  private get branching(): { loop: RunState["loops"][number]; step: number } | null {
    const { loops, at } = this.now,
      { from } = this,
      loop = loops[from?.loop ?? loops.findIndex(({ path }) => path === at?.path)] ?? loops.at(-1);
    return loop ? { loop, step: Math.min(from?.step ?? loop.last, loop.last) } : null;
  }

  private showFrom(): void {
    const { branching } = this,
      text = branching ? `Branch from step ${branching.step}` : "Branch",
      [label] = this.buttons.get("branch")!.childNodes;
    if (label!.textContent !== text) label!.textContent = text;
  }

  private key(event: KeyboardEvent): void {
    const { target, key } = event as KeyboardEvent & { target: HTMLElement };
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(target.tagName)) return;
    const act = KEYS[key];
    if (!act || this.tools.hidden) return;
    event.preventDefault();
    this.act(act);
  }

  private act(act: Act): void {
    const why = whyNot(act, this.now);
    if (why) return put(this.said, why);
    const { branching } = this,
      whole = ({ value }: HTMLInputElement) => (/^\d+$/.test(value.trim()) ? Number(value) : value);
    if (act === "steps") this.ask({ do: "step", steps: whole(this.steps) });
    else if (act === "branch") {
      const { path, runs } = branching!.loop; // the last run of a loop that ran several times
      this.ask({ do: "branch", step: branching!.step, path, nth: runs > 1 ? runs - 1 : null });
    } else this.ask({ do: act });
  }

  private ask(command: Command, done: () => void = () => {}): void {
    put(this.said, "");
    void this.ctx.run?.do(command).then((said) => {
      put(this.said, said ?? "");
      if (said === null) done();
    });
  }

  /** A host recreates the view when the output is replaced: the keyboard focus is restored. */
  private refocus(): void {
    if (focused?.run === this.now.run && document.activeElement === document.body)
      this.el.querySelector<HTMLElement>(`[data-do="${focused.act}"]`)?.focus();
  }

  destroy(): void {
    for (const end of this.ends) end();
    this.rail.destroy();
  }
}

const field = (label: string, type: string, more: Record<string, string | number>): HTMLInputElement =>
  h("input.rfnb-run-field", { type, "aria-label": label, ...more });

/** Sets a text only if it changes, so that screen readers read it once. */
function put(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = !text;
}

export const render: Render<RunState> = (el, frame, ctx) => {
  const view = new Toolbar(el, ctx);
  view.update(frame);
  return view;
};
