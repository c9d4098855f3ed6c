// Several views in one frame, for instance all views of a trace. Views of the same sequences share one chooser, which stays visible.

import { hypothesisOf } from "../beams/follow";
import { placeOf } from "../beams/cursor";
import { grow, nbest } from "../beams/tree";
import type { BeamsHead } from "../beams/tree";
import type { Context, Render, Rendered } from "../context";
import { button, h, on, setOptions } from "../dom";
import { prefixed } from "../exact_values";
import type { AnyHead, Block, Frame } from "../frame";
import { shorten } from "../labels";
import { showIn } from "../mount";
import type { Bus, Hypothesis, Selection } from "../selection";
import { Batch } from "./batch";
import { asked, Stage } from "./stage";
import { Stick } from "../sticky_position";
import { visible } from "../visible_text";
import type { Sequence } from "./batch";

const MOST_HYPOTHESES = 16,
  LISTED = 4; // number of views from which on their names are listed on top

interface Entry {
  held?: object;
  notes?: Record<string, string>;
  seqs?: number[];
}
interface PartHead extends AnyHead {
  key?: string;
  held?: object; // the step for commands, in a held run
  batch?: string;
  axis?: string;
  folded?: boolean; // whether it is initially closed
  seqs?: { label?: string; result?: string; note?: string }[];
  maps?: Entry[];
  tracks?: Entry[];
}
type BeamsSeq = BeamsHead["seqs"][number];
interface Head extends AnyHead {
  batch?: string;
  ordered?: boolean; // whether the parts are in the order of the frame, whenever they arrive
  parts?: { kind: string; head: PartHead }[];
}
interface Part {
  root: HTMLElement;
  box: HTMLElement; // its container: itself, or the foldable part
  shown: Rendered<AnyHead>;
  at: { prefix: string; linked: boolean }; // the current one
}

class GroupView implements Rendered<Head> {
  private readonly name = h("span");
  private readonly stageButton = button("", () => this.stage.toggle(), {
    class: "rfnb-group-stage",
    "aria-label": "on the whole window",
    "aria-keyshortcuts": "f",
    title: "on the whole window (f)",
  });
  private readonly title = h("div.rfnb-group-title", this.name, this.stageButton);
  private readonly seqSelect = h("select", { "aria-label": "sequence" });
  private readonly hypothesisSelect = h("select", { "aria-label": "hypothesis" });
  private readonly bar = h(
    "div.rfnb-group-bar",
    h("label", "sequence ", this.seqSelect),
    h("label", "hypothesis ", this.hypothesisSelect),
  );
  private readonly contents = h("nav.rfnb-group-contents", { "aria-label": "views" });
  private lived = false; // a growing recording: displayed content stays unchanged and in place
  private readonly body = h("div.rfnb-group");
  private batch: Batch | null = null; // once there are sequences to choose from
  private readonly bus: Bus;
  private readonly parts = new Map<string, Part>(); // by key: displayed parts stay in place
  private linked: Frame<PartHead>[] = [];
  private all: Sequence[] = [];
  private hypotheses: Hypothesis[] = [];
  private last: Partial<Selection> = {};
  private readonly ends: (() => void)[] = [];
  private readonly stick: Stick;
  private readonly stage: Stage;
  private frames: Frame<PartHead>[] = [];
  private wantsAddress = true;

  constructor(
    el: HTMLElement,
    private readonly ctx: Context,
  ) {
    this.bus = ctx.busOf("");
    el.append(this.title, this.contents, this.body);
    on(this.seqSelect, "change", () => this.bus.point({ seq: Number(this.seqSelect.value) }, {}));
    on(this.hypothesisSelect, "change", () => {
      const hypothesis = this.hypotheses[this.hypothesisSelect.selectedIndex - 1] ?? null;
      this.bus.point({ seq: this.seq, hypothesis }, {});
    });
    this.ends.push(
      this.bus.listen(({ seq, hypothesis }) => {
        if (seq === this.last.seq && hypothesis === this.last.hypothesis) return;
        this.last = { seq, hypothesis };
        this.choose();
        this.stage.update();
      }),
    );
    this.stick = new Stick(this.bar, el, "top");
    this.stage = new Stage(el, ctx, {
      parts: () =>
        this.frames.flatMap(({ kind, head }, index) => {
          const part = this.parts.get(keyOf(kind, head, index));
          return part ? [{ kind, head, root: part.root, box: part.box }] : [];
        }),
      axis: () => this.stepped()?.head.axis ?? "",
      labels: () => this.labels(),
      hypothesis: (by) => {
        const all = this.ranked(),
          at = all.findIndex(({ place }) => place === this.bus.now.hypothesis?.place);
        this.take(by === null ? 0 : Math.max(0, Math.min(Math.max(0, at) + by, all.length - 1)));
      },
      refresh: () => this.refresh(),
    });
    globalThis.addEventListener?.("hashchange", this.follow);
  }

  /** The part whose steps the scrubber controls: the search, else the first one over steps. */
  private stepped(): Frame<PartHead> | undefined {
    const { frames } = this;
    return (
      frames.find(({ kind }) => kind === "beams") ??
      frames.find(({ kind, head }) => kind !== "control" && head.axis !== undefined)
    );
  }

  /** The hypotheses of the search, best first. */
  private ranked(): Hypothesis[] {
    const head = this.frames.find(({ kind }) => kind === "beams")?.head as BeamsHead | undefined,
      seq = head?.seqs[this.seq];
    if (!head || !seq) return [];
    const tree = grow(seq, head.length_exponent);
    return nbest(tree.nodes, head.length_exponent ?? 0).map(({ step, slot }) =>
      hypothesisOf(tree, placeOf(tree, `${step},${slot}`)!, head.join ?? " ", head.loop_steps),
    );
  }

  /** Shows a hypothesis, by its rank from 0. */
  private take(rank: number): void {
    this.bus.point({ seq: this.seq, hypothesis: rank ? (this.ranked()[rank] ?? null) : null }, {});
  }

  /** The label of each step of the displayed hypothesis. */
  private labels(): string[] {
    const part = this.stepped(),
      seq = part?.head.seqs?.[this.seq] as (BeamsSeq & { rows?: string[]; row_len?: number; len?: number }) | undefined;
    if (!part || !seq) return [];
    if (part.kind === "beams")
      return (
        this.bus.now.hypothesis?.labels ?? (seq.best ?? []).map(([step, slot]) => seq.steps[step]?.tokens[slot] ?? "")
      );
    const labels = seq.rows ?? (seq.steps as unknown as string[]) ?? [];
    return labels.slice(0, seq.row_len ?? seq.len ?? labels.length);
  }

  /** Redraws the parts: presentation mode hides some of them. */
  private refresh(): void {
    this.frames.forEach((frame, index) => {
      const part = this.parts.get(keyOf(frame.kind, frame.head, index));
      part?.shown.update(this.stage.seen(frame));
    });
  }

  /** Goes to the place in the address of the page: `#step=4&hyp=2`. */
  private readonly follow = (): void => {
    const { step, hyp, view, stage } = asked();
    if (hyp !== null) this.take(hyp - 1);
    if (step !== null && step < this.labels().length)
      this.ctx.busOf(this.stepped()!.head.axis ?? "").point({ step }, {});
    if (stage || view !== null) this.stage.toggle(true);
    if (view !== null) this.stage.only(view);
  };

  update({ head, blocks }: Frame<Head>): void {
    this.name.textContent = head.title ?? "";
    const wanted = head.parts ?? [];
    this.stageButton.hidden = !wanted.length;
    if (!wanted.length) this.name.textContent += head.live ? " — waiting for events" : " — nothing recorded";
    const frames = wanted.map((part, index) => ({
      kind: part.kind,
      head: { link: head.link ?? "", ...part.head },
      blocks: pick(blocks, `${index}/`),
    }));
    const of = (part: PartHead) =>
      head.batch !== undefined && part.batch === head.batch ? (part.seqs?.length ?? 0) : 0;
    const count = Math.max(0, ...frames.map((part) => of(part.head)));
    const keys = frames.map(({ kind, head }, index) => keyOf(kind, head, index));
    this.frames = frames;
    this.lived ||= !!head.live;
    const grows = (this.lived || this.bus.order.size > 0) && !head.ordered; // or it is reopened after it has grown
    for (const [key, { root, box, shown }] of this.parts)
      if (!keys.includes(key) || (!grows && (root !== box) !== !!frames[keys.indexOf(key)]!.head.folded)) {
        shown.destroy();
        box.remove();
        this.parts.delete(key);
      }
    this.linked = frames.filter((part) => count > 1 && of(part.head) === count);
    this.all = Array.from({ length: count }, (_, seq) => sequence(this.linked, seq));
    if (grows) for (const key of keys) this.bus.order.add(key);
    const order = !grows ? keys : [...this.bus.order].filter((key) => keys.includes(key));
    for (const key of order) {
      const index = keys.indexOf(key),
        frame = frames[index]!,
        at = { prefix: `${index}/`, linked: this.linked.includes(frame) },
        there = this.parts.get(key);
      if (there) Object.assign(there.at, at);
      const part = there ?? this.open(key, at, frame.head);
      part.shown.update(frame);
    }
    this.arrange(order);
    this.list(
      !!head.ordered,
      order.map((key) => [frames[keys.indexOf(key)]!.head.title ?? key, key]),
    );
    this.choose();
    this.showBatch();
    if (this.stage.on) this.refresh();
    this.stage.update();
    if (this.wantsAddress && this.labels().length) {
      this.wantsAddress = false;
      this.follow();
    }
  }

  private showBatch(): void {
    const { ctx, all } = this;
    if (all.length < 2 && !this.batch) return;
    if (!this.batch) {
      this.batch = new Batch((seq) => this.bus.point({ seq }, {}));
      this.body.before(this.batch.element, this.batch.note);
      ctx.onTheme(() => this.showBatch());
    }
    this.batch.update(all, this.seq, this.linked, ctx.palette().dark);
  }

  private get seq(): number {
    return Math.max(0, Math.min(this.bus.now.seq ?? 0, this.all.length - 1));
  }

  private open(key: string, at: Part["at"], { folded, title }: PartHead): Part {
    const root = h("section.rfnb-root.rfnb-part"),
      exact = prefixed(this.ctx.exact, () => at.prefix),
      box = folded ? h("details.rfnb-fold", h("summary", visible(title ?? key)), root) : root;
    if (key.startsWith("control "))
      this.title.before(box); // buttons are above the content they control
    else this.body.append(box);
    const part = { root, box, at, shown: showIn(root, exact, () => at.linked, this.ctx.held) };
    this.parts.set(key, part);
    return part;
  }

  /** Puts the parts in the order of the frame; parts already in place are not touched, so that no focus is lost. */
  private arrange(keys: string[]): void {
    let next: Element | null = null;
    for (const key of [...keys].reverse()) {
      const { box } = this.parts.get(key)!;
      if (box.parentElement !== this.body) continue;
      if (box.nextElementSibling !== next) this.body.insertBefore(box, next);
      next = box;
    }
  }

  /** The names of many views as links, so that readers know of all of them. */
  private list(shut: boolean, names: [title: string, key: string][]): void {
    const shown = names.filter(([, key]) => !key.startsWith("control "));
    this.contents.hidden = shut || shown.length < LISTED; // the views of a run fit on a screen
    const texts = shown.map(([title]) => shorten(title, 48));
    if (this.contents.textContent === texts.join("")) return;
    this.contents.replaceChildren(
      ...shown.map(([title, key], index) =>
        button(
          texts[index]!,
          () => {
            const { box } = this.parts.get(key)!;
            if (box instanceof HTMLDetailsElement) box.open = true;
            box.scrollIntoView({ block: "start" });
          },
          { title: visible(title) },
        ),
      ),
    );
  }

  /** Updates the choosers to the choice made here or in a view. */
  private choose(): void {
    const { seq, all } = this,
      { hypothesis } = this.bus.now;
    const name = ({ label, wrong }: Sequence) => label + (wrong ? " !" : "");
    setOptions(this.seqSelect, all.map(name), seq);
    this.batch?.choose(seq);
    const beams = this.linked.find(({ kind }) => kind === "beams") as Frame<BeamsHead> | undefined,
      head = beams?.head,
      tree =
        head?.seqs[seq] && this.linked.some((part) => "best" in part.head)
          ? grow(head.seqs[seq]!, head.length_exponent)
          : null;
    const places = tree ? nbest(tree.nodes, head!.length_exponent ?? 0).map(({ step, slot }) => `${step},${slot}`) : [];
    const [first = "", ...others] = places.slice(0, MOST_HYPOTHESES),
      of = (key: string) => hypothesisOf(tree!, placeOf(tree!, key)!, head!.join ?? " ", head!.loop_steps);
    this.hypotheses = others.map(of);
    const there = hypothesis && this.hypotheses.findIndex(({ place }) => place === hypothesis.place);
    if (hypothesis && there! < 0) this.hypotheses.push(hypothesis); // one outside the list
    const texts = this.hypotheses.map(({ text }, index) => `${index + 2}: ${shorten(text, 40)}`);
    setOptions(
      this.hypothesisSelect,
      tree && first ? [`best: ${shorten(of(first).text, 40)}`, ...texts] : [],
      hypothesis ? this.hypotheses.findIndex(({ place }) => place === hypothesis.place) + 1 : 0,
    );
    if (all.length < 2 && !this.hypotheses.length) this.bar.remove();
    else if (!this.bar.parentElement) this.title.after(this.bar);
  }

  destroy(): void {
    this.stage.destroy();
    globalThis.removeEventListener?.("hashchange", this.follow);
    for (const end of this.ends) end();
    for (const { shown } of this.parts.values()) shown.destroy();
    this.batch?.destroy();
    this.stick.destroy();
  }
}

/** The key of a part across frames. */
const keyOf = (kind: string, { key }: PartHead, index: number): string => `${kind} ${key ?? index}`;

/** The name of a sequence if all views agree, else its number; the result of its search; whether it has a fault. */
function sequence(parts: Frame<PartHead>[], seq: number): Sequence {
  const entries = parts.map(({ head }) => head.seqs![seq]!),
    names = new Set(entries.flatMap(({ label }) => (label && !/^sequence \d+$/.test(label) ? [label] : [])));
  const wrong = parts.some(
    ({ head }, index) =>
      !!entries[index]!.note ||
      [...(head.maps ?? []), ...(head.tracks ?? [])].some(({ notes, seqs }) => notes?.[seqs ? seqs.indexOf(seq) : seq]),
  );
  const [name] = names;
  return {
    label: names.size === 1 ? name! : names.size ? String(seq + 1) : (entries[0]?.label ?? String(seq + 1)),
    result: entries.map(({ result }) => result).find(Boolean) ?? "",
    wrong,
  };
}

/** The blocks of one part: those whose name begins with its number. */
export function pick(blocks: Record<string, Block>, prefix: string): Record<string, Block> {
  return Object.fromEntries(
    Object.entries(blocks).flatMap(([name, block]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), block]] : [],
    ),
  );
}

export const render: Render<Head> = (el, frame, ctx) => {
  const view = new GroupView(el, ctx);
  view.update(frame);
  return view;
};
