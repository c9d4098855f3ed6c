// Presentation mode: a recording or run in the whole window, with larger type, without scrolling, with a scrubber for the steps, later steps hidden.

import type { Context } from "../context";
import { button, h, on, set } from "../dom";
import type { AnyHead, Frame } from "../frame";
import { shorten } from "../labels";

const LARGEST = 1.9, // times the usual size
  ALONE = 3.2, // of one view
  LEAST = { states: 1.7, others: 0.9 }, // larger content is cut off
  BESIDE = 2, // views below the search
  NARROW = 1000, // width of a window in which views start smaller
  ONE = 600, // width of a window with no space for two views side by side
  WIDE = 1920, // width of the window that the least sizes are for; a smaller one is closer to its viewers
  STILL = 3, // number of frames in which a view must fit
  PLAY = 900, // ms from a step to the next
  HEAD_SHARE = 0.52; // fraction of the height for the search on top
const KEYS = "← → steps · space plays · . hides the rest · 1–9 one view, 0 all · ↑ ↓ hypotheses · n notes · f leaves";

/** A part of the group in presentation mode. */
export interface Played {
  kind: string;
  head: AnyHead & { axis?: string };
  box: HTMLElement;
  root: HTMLElement;
}
interface Show {
  parts(): Played[];
  axis(): string; // of the steps
  labels(): string[]; // the label of each step of the displayed hypothesis
  hypothesis(by: number | null): void; // next or previous; null: the best
  refresh(): void; // redraws the views after the hidden steps have changed
}

/** The place in an address: `#step=4&hyp=2`, with `&view=1` or `&stage`. */
export function asked(
  hash = globalThis.location?.hash ?? "",
): Record<"step" | "hyp" | "view", number | null> & { stage: boolean } {
  const given = new URLSearchParams(hash.replace(/^#/, "")),
    number = (name: string, least: number) => {
      const text = given.get(name) ?? "";
      return /^\d{1,9}$/.test(text) && Number(text) >= least ? Number(text) : null;
    };
  return { step: number("step", 0), hyp: number("hyp", 1), view: number("view", 1), stage: given.has("stage") };
}

/** The frame of a view without the steps after one of its axis, which an audience has not seen yet. */
export function upTo<H extends AnyHead>(frame: Frame<H>, last: number, axis: string): Frame<H> {
  const head = frame.head as AnyHead & { axis?: string; seqs?: Record<string, unknown>[] };
  if (!head.seqs || (head.axis ?? "") !== axis) return frame;
  const few = <T>(list: unknown): T[] => (Array.isArray(list) ? (list as T[]).slice(0, last + 1) : []);
  const seqs = head.seqs.map((seq) => {
    if (frame.kind === "beams") {
      const steps = few<Record<string, unknown>>(seq["steps"]).map(({ states: _, ...step }) => step),
        best = ((seq["best"] as [number, number][]) ?? []).filter(([step]) => step <= last);
      const { reference: _, smaller: __, ...kept } = seq;
      return { ...kept, steps, best, result: "" };
    }
    const sizes = ["row_len", "len"].flatMap((name) =>
      name in seq ? [[name, Math.min(seq[name] as number, last + 1)]] : [],
    );
    const lists = ["rows", "steps", "right", "known"].flatMap((name) => (name in seq ? [[name, few(seq[name])]] : []));
    return { ...seq, ...Object.fromEntries([...sizes, ...lists]) };
  });
  return { ...frame, head: { ...frame.head, seqs, live: true } };
}

/** The frame of a search without pruned candidates: beside other views their small type is unreadable from the last row. */
export function withoutCuts<H extends AnyHead>(frame: Frame<H>): Frame<H> {
  const { seqs } = frame.head as AnyHead & { seqs?: { steps: Record<string, unknown>[] }[] };
  if (frame.kind !== "beams" || !seqs) return frame;
  const few = seqs.map((seq) => ({ ...seq, steps: seq.steps.map(({ cuts: _, ...step }) => step) }));
  return { ...frame, head: { ...frame.head, seqs: few } };
}

export class Stage {
  private readonly ticks = h("div.rfnb-stage-ticks", { role: "listbox", "aria-label": "steps" });
  private readonly said = h("span.rfnb-stage-said", { "aria-live": "polite" });
  private readonly notes = h("div.rfnb-stage-notes", { hidden: "" });
  private readonly views = h("span"); // a button for each view, which shows it alone
  private readonly bar = h(
    "div.rfnb-stage-bar",
    this.ticks,
    h("div.rfnb-stage-foot", this.said, h("span.rfnb-quiet.rfnb-stage-keys", KEYS), this.taps()),
  );
  private timer: ReturnType<typeof setInterval> | undefined;
  private fitting = 0;
  private pending = false; // views wait for their places
  private alone: number | null = null; // the view that is shown alone
  private hides = false;
  private asks = false; // hiding was requested, and follows soon
  private before: HTMLElement | null = null; // the element that had the focus
  on = false;

  constructor(
    private readonly el: HTMLElement,
    private readonly ctx: Context,
    private readonly show: Show,
  ) {
    on(el, "keydown", (event) => this.key(event), true);
    globalThis.addEventListener?.("resize", this.fitSoon);
  }

  /** The displayed part of a view's frame. */
  seen<H extends AnyHead>(frame: Frame<H>): Frame<H> {
    if (!this.on) return frame;
    const few = this.alone === null && this.played().length > 1 ? withoutCuts(frame) : frame;
    return this.hides ? upTo(few, this.step, this.show.axis()) : few;
  }

  /** The keys as buttons. */
  private taps(): HTMLElement {
    const tap = (text: string, does: string, act: () => void) =>
      button(text, () => (act(), this.el.focus({ preventScroll: true })), { "aria-label": does, title: does });
    return h(
      "span.rfnb-stage-taps",
      { role: "group", "aria-label": "stage" },
      tap("←", "the step before", () => this.go(this.step - 1)),
      tap("→", "the next step", () => this.go(this.step + 1)),
      tap("▶", "play", () => this.space()),
      tap("?", "hide what comes next", () => this.askToHide(!this.asks)),
      this.views,
      tap("✕", "leave", () => this.toggle(false)),
    );
  }

  get step(): number {
    return Math.max(0, Math.min(this.ctx.busOf(this.show.axis()).now.step ?? 0, this.count - 1));
  }

  private get count(): number {
    return this.show.labels().length;
  }

  toggle(open = !this.on): void {
    const { el } = this;
    if (open === this.on) return;
    this.on = open;
    this.alone = null;
    this.hides = this.asks = false;
    el.classList.toggle("rfnb-on-stage", open);
    if (open) {
      el.setAttribute("popover", "manual"); // above everything of the host, which may clip or move its content
      el.append(this.notes, this.bar);
      this.before = document.activeElement as HTMLElement | null;
      el.tabIndex = -1;
      el.showPopover?.();
      el.focus({ preventScroll: true });
    } else {
      this.play(false);
      el.hidePopover?.();
      for (const name of ["popover", "tabindex"]) el.removeAttribute(name);
      this.bar.remove();
      this.notes.remove();
      for (const { box } of this.show.parts()) {
        box.removeAttribute("style");
        box.hidden = false;
        for (const name of ["fits", "fitted"]) delete box.dataset[name];
      }
    }
    this.show.refresh();
    if (!open) this.before?.focus?.({ preventScroll: true }); // it may have been hidden
    this.update();
  }

  /** The views or the selection have changed. */
  update(): void {
    if (!this.on) return;
    const labels = this.show.labels(),
      at = this.step,
      all = this.played();
    this.views.replaceChildren(
      ...(all.length < 2 ? [] : all).slice(0, 9).map((_, index) => {
        const pressed = this.alone === index,
          view = button(`${index + 1}`, () => this.only(pressed ? 0 : index + 1), { "aria-pressed": pressed });
        set(view, "aria-label", `view ${index + 1} alone`);
        return view;
      }),
    );
    this.ticks.replaceChildren(
      ...labels.map((label, index) => {
        const hidden = this.hides && index > at,
          tick = button(hidden ? "?" : shorten(label, 12), () => this.point(index), {
            role: "option",
            "aria-selected": index === at,
            class: "rfnb-stage-tick",
          });
        tick.tabIndex = -1;
        if (hidden) set(tick, "aria-label", `step ${index}, hidden`);
        return tick;
      }),
    );
    this.said.textContent = labels.length
      ? `step ${at} of ${labels.length - 1}${this.hides && at < labels.length - 1 ? ": what comes next?" : ""}`
      : "";
    this.el.dataset["stageStep"] = String(at);
    this.fitSoon();
  }

  /** A tick was clicked. Ticks are recreated, which would lose the keyboard focus. */
  private point(step: number): void {
    this.go(step);
    this.el.focus({ preventScroll: true });
  }

  /** Selects a step; the one after the last of a paused run is executed. */
  go(step: number): void {
    const { run } = this.ctx;
    if (step >= this.count && run?.state.state === "paused") void run.do({ do: "step" });
    const to = Math.max(0, Math.min(step, this.count - 1));
    this.ctx.busOf(this.show.axis()).point({ step: to }, this);
    if (this.hides) this.show.refresh();
    this.update();
  }

  /** Shows one view alone, by its number from 1; 0: all. */
  only(number: number): void {
    this.alone = number && number <= this.played().length ? number - 1 : null;
    this.show.refresh();
    this.update();
  }

  private play(on: boolean): void {
    clearInterval(this.timer);
    this.timer = on
      ? setInterval(() => (this.step >= this.count - 1 ? this.play(false) : this.go(this.step + 1)), PLAY)
      : undefined;
  }

  private played(): Played[] {
    return this.show.parts().filter(({ kind, box }) => kind !== "control" && !box.matches("details:not([open])"));
  }

  private key(event: KeyboardEvent): void {
    const typed = (event.target as Element | null)?.closest?.("input, textarea, select, [contenteditable]");
    if (typed || event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event,
      acts: Record<string, () => unknown> = {
        ArrowRight: () => this.go(this.step + 1),
        ArrowLeft: () => this.go(this.step - 1),
        Home: () => this.go(0),
        End: () => this.go(this.count - 1),
        ArrowDown: () => this.hides || this.show.hypothesis(1),
        ArrowUp: () => this.hides || this.show.hypothesis(-1),
        " ": () => this.space(),
        ".": () => this.askToHide(!this.asks),
        n: () => this.note(),
        Escape: () => this.toggle(false),
      };
    const act =
      key === "f" ? () => this.toggle() : !this.on ? null : /^\d$/.test(key) ? () => this.only(Number(key)) : acts[key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  /** Hides later steps once all views have the sizes of their full content, which they keep. */
  private askToHide(hides: boolean): void {
    this.asks = hides;
    if (hides) this.whenFitted(() => this.asks && !this.hides && this.hide(true));
    else if (this.hides) this.hide(false);
  }

  private hide(hides: boolean): void {
    this.hides = hides;
    if (hides) this.show.hypothesis(null); // another one would reveal later steps
    this.show.refresh();
    this.update();
  }

  private whenFitted(act: () => void): void {
    if (!this.on) return;
    const open = this.pending || this.show.parts().some(({ box }) => box.dataset["fits"] && !box.dataset["fitted"]);
    if (open) requestAnimationFrame(() => this.whenFitted(act));
    else act();
  }

  private space(): void {
    const { run } = this.ctx,
      state = run?.state.state;
    if (run && (state === "paused" || state === "running"))
      void run.do({ do: state === "paused" ? "resume" : "pause" });
    else this.play(this.timer === undefined);
  }

  /** The presenter's notes: the text of the notebook before the cell. In a separate window, hidden from the audience, if the browser allows it. */
  private note(): void {
    const text = textBefore(this.el) || "There is no text before this cell.";
    const other = globalThis.open?.("", "rfnb-notes", "width=700,height=500");
    if (other?.document) {
      other.document.title = "Notes";
      other.document.body.textContent = text;
      other.document.body.setAttribute("style", "font: 22px/1.5 sans-serif; white-space: pre-wrap; padding: 1em");
    } else {
      this.notes.textContent = text;
      this.notes.hidden = !this.notes.hidden;
    }
  }

  private readonly fitSoon = (): void => {
    if (!this.on) return;
    cancelAnimationFrame(this.fitting);
    this.pending = true;
    this.fitting = requestAnimationFrame(() => this.place());
  };

  /** Gives each view its area, and the largest type with which it fits. */
  private place(): void {
    this.pending = false;
    const all = this.played(),
      shown = this.alone === null ? all : all.slice(this.alone, this.alone + 1),
      body = shown[0]?.box.parentElement;
    for (const { box, kind } of this.show.parts())
      box.hidden = kind === "control" || !shown.some((one) => one.box === box);
    if (!body) return;
    const area = body.getBoundingClientRect(),
      width = innerWidth - 2 * area.left,
      height = this.bar.getBoundingClientRect().top - area.top - 12,
      [head, ...rest] = shown as [Played, ...Played[]],
      wide = rest.length && head.kind === "beams",
      axis = this.show.axis(),
      own = (one: Played) => Number((one.head.axis ?? "") !== axis), // views over the same steps come first
      row = [...(wide ? rest : shown)].sort((a, b) => own(a) - own(b)).slice(0, innerWidth < ONE ? 1 : BESIDE);
    for (const { box } of shown) box.hidden ||= !row.some((one) => one.box === box) && !(wide && box === head.box);
    const tall = wide ? height * HEAD_SHARE : 0;
    if (wide) this.fit(head, 0, 0, width, tall - 10);
    row.forEach((part, index) =>
      this.fit(part, (index * width) / row.length, tall, width / row.length - 16, height - tall),
    );
  }

  /** Puts a view into an area, with the largest of some sizes at which it is completely visible. */
  private fit({ box, root, kind }: Played, left: number, top: number, width: number, height: number): void {
    const put = (zoom: number) =>
      Object.assign(box.style, {
        zoom: String(zoom),
        left: `${left / zoom}px`,
        top: `${top / zoom}px`,
        width: `${width / zoom}px`,
        maxHeight: `${height / zoom}px`,
      });
    const room = [left, top, width, height].join(),
      key = [room, root.dataset["step"], root.dataset["seq"]].join(),
      there = box.dataset["fits"] ?? "";
    if (there === key || (this.hides && there.startsWith(`${room},`))) return; // so that nothing jumps when more is revealed
    box.dataset["fits"] = key;
    delete box.dataset["fitted"];
    const least = (kind === "states" ? LEAST.states : LEAST.others) * Math.min(1, innerWidth / WIDE);
    let zoom = Math.max(least, (this.alone === null ? LARGEST : ALONE) * Math.min(1, innerWidth / NARROW));
    put(zoom);
    const shrink = (tries: number, still = 0): void => {
      requestAnimationFrame(() => {
        if (!this.on || box.dataset["fits"] !== key) return; // a later fit has started
        const over = Math.max(box.scrollHeight / Math.max(1, height / zoom), this.overflow(root)),
          fits = over <= 1.0005 || zoom <= least;
        if (!tries || (fits && still === STILL)) {
          // A pane with an unchanged size in its own pixels does not redraw by itself, and would be blurred.
          for (const pane of root.querySelectorAll(".rfnb-pane")) pane.dispatchEvent(new Event("scroll"));
          return void (box.dataset["fitted"] = "true");
        }
        if (fits) return shrink(tries, still + 1); // the view may redraw
        zoom = Math.max(least, zoom / Math.min(1.35, Math.sqrt(over) * 1.01));
        put(zoom);
        requestAnimationFrame(() => shrink(tries - 1));
      });
    };
    requestAnimationFrame(() => shrink(12));
  }

  /** The excess of a view's picture over its pane: the part that needs scrolling. */
  private overflow(root: HTMLElement): number {
    const pane = root.querySelector<HTMLElement>(".rfnb-pane");
    return pane?.clientWidth ? Math.max(pane.scrollWidth / pane.clientWidth, pane.scrollHeight / pane.clientHeight) : 1;
  }

  destroy(): void {
    this.toggle(false);
    cancelAnimationFrame(this.fitting);
    globalThis.removeEventListener?.("resize", this.fitSoon);
  }
}

/** The text of a notebook before the cell of an element. */
export function textBefore(element: Element): string {
  let cell: Element | null = element.closest(".jp-Cell, .cell");
  for (cell = cell?.previousElementSibling ?? null; cell; cell = cell.previousElementSibling)
    if (cell.matches(".jp-MarkdownCell, .text_cell"))
      return (
        cell.querySelector<HTMLElement>(".jp-RenderedMarkdown, .rendered_html")?.innerText.trim() ??
        cell.textContent?.trim() ??
        ""
      );
  return "";
}
