// What-if: previews of pruned candidates, the paths of branches, their texts, and other edits.

import type { Context } from "../context";
import { coarse, h, quiet, steady } from "../dom";
import type { Change } from "../ghosts";
import { Ghosts } from "../ghosts";
import { EditPanel } from "../handles";
import type { Scene as Sight } from "../pane";
import { keptOf } from "../run";
import type { Palette } from "../theme";
import { line } from "../visible_text";
import { placeOf } from "./cursor";
import type { HeldSearch, Offered } from "./handles";
import { changeOf, offer } from "./handles";
import type { PlacedWay, Way } from "./lanes";
import { drawLanes, withLanes } from "./lanes";
import type { Layout } from "./layout";
import type { BeamsHead, Cut, Tree } from "./tree";

const HINT = "Rest on a candidate (✕) to see its future, click to keep it. w: all of a step.",
  TAP = "Tap a candidate (✕) to see its future, tap it again to keep it. ✕ futures: all of a step.";

/** The picture it belongs to. */
interface Shown {
  tree: Tree;
  seq: number;
  head: BeamsHead & { held?: HeldSearch };
}

export class WhatIf {
  readonly told = h("div.rfnb-beams-told", { "aria-live": "polite", hidden: "" });
  readonly edits: EditPanel;
  private readonly ghosts: Ghosts;
  private readonly steady = steady(this.told);
  private lanes: PlacedWay[] = [];
  private drawnWays = ""; // the lanes as text
  private hasCuts = false; // whether the picture has pruned candidates

  /** `shown`: null while nothing is displayed. `changed` is called when the run has changed, `redraw` when the lanes have. */
  constructor(
    private readonly el: HTMLElement,
    private readonly ctx: Context,
    private readonly shown: () => Shown | null,
    changed: () => void,
    private readonly redraw: () => void,
  ) {
    this.ghosts = new Ghosts(ctx, () => this.show());
    this.edits = new EditPanel(ctx, () => {
      if (!this.shown()) return;
      changed();
      this.show();
    });
  }

  /** The layout with space for lanes. */
  place(made: Layout, measure: (label: string) => number, width: number): Layout {
    this.hasCuts = made.cuts.some((row) => row.length);
    const room = this.ctx.run && this.shown()!.head.held && this.hasCuts ? 1 : 0,
      { placed, made: more } = withLanes(made, this.ways, room, measure, width);
    this.lanes = placed;
    return more;
  }

  draw(g: CanvasRenderingContext2D, made: Layout, sight: Sight, palette: Palette): void {
    drawLanes(g, made, this.lanes, sight, palette);
  }

  /** The pointer or the cursor rests on a place: after a delay, its result is requested. */
  rest(key: string | null): void {
    if (this.ctx.run) this.ghosts.rest(this.changeAt(key));
  }

  /** Makes a branch of the candidate at a place. */
  keep(key: string): void {
    const change = this.ctx.run && this.changeAt(key);
    if (change) this.edits.keep(change);
  }

  /** Shows the futures of all these candidates; returns whether there are any. */
  showAll(cuts: Cut[]): boolean {
    this.ghosts.show(cuts.flatMap((cut) => changeOf(this.offered, cut) ?? []));
    return !!this.ctx.run;
  }

  clear(): void {
    this.ghosts.clear();
  }

  /** Offers the edits at a place. */
  offer(key: string | null): void {
    const { tree, head } = this.shown()!;
    this.edits.mark(head.hands);
    offer(this.offered, key === null ? null : placeOf(tree, key));
  }

  destroy(): void {
    this.ghosts.clear();
    this.edits.destroy();
    this.steady();
  }

  private get offered(): Offered {
    const { tree, seq, head } = this.shown()!;
    return { edits: this.edits, tree, seq, held: head.held, vocab: head.vocab, loopSteps: head.loop_steps };
  }

  /** The edit that a place of the picture stands for, if any. */
  private changeAt(key: string | null): Change | null {
    const place = key === null ? null : placeOf(this.shown()!.tree, key);
    return place?.kind === "cut" ? changeOf(this.offered, place.cut) : null;
  }

  /** The lanes of ghosts, and of the branch under the pointer in the rail, else of the newest one made here. */
  private get ways(): Way[] {
    const { seq, tree, head } = this.shown()!;
    const ghosts = this.ghosts.shown.flatMap(({ at, told, ...ghost }): Way[] => {
      const place = ghost.seq === seq ? placeOf(tree, at) : null;
      if (place?.kind !== "cut") return [];
      const { step, parent, index } = place.cut,
        from = { row: step, parent: parent?.slot ?? null, cut: index };
      return [{ lane: told?.lane ?? null, difference: told?.difference, over: !!told?.over, ghost: true, from }];
    });
    const kept = keptOf(this.ctx.held),
      lane = kept?.lanes?.[seq];
    if (!kept || !lane || !head.held) return ghosts;
    const cut = tree.cuts[lane.row]?.find(
      (cut) => cut.token === lane.labels[0] && (cut.parent?.slot ?? null) === lane.parent,
    );
    const from = { row: lane.row, parent: lane.parent, cut: cut?.index ?? null };
    const difference = kept.results?.[seq]?.difference;
    const same = ({ lane: other }: Way) =>
      other?.row === lane.row && other.parent === lane.parent && other.labels.join() === lane.labels.join();
    return [{ lane, difference, over: true, ghost: false, from }, ...ghosts.filter((way) => !same(way))];
  }

  private show(): void {
    const now = this.shown();
    if (!now) return;
    const { ctx, el, ways } = this,
      { seq, head } = now,
      ghosts = this.ghosts.shown.map(({ told }) => told?.refused ?? told?.words ?? ""),
      state = ctx.held?.state,
      other = state?.runs.find(({ number }) => number === state.beside) ?? keptOf(ctx.held),
      said = ghosts.length ? ghosts : [other?.results?.[seq]?.words ?? ""];
    const words = said.filter(Boolean).map(line).join(" ");
    this.told.replaceChildren(words || (ways.length || !this.hasCuts ? "" : quiet(coarse() ? TAP : HINT)));
    this.told.hidden = !ctx.run || !(head.held ?? state?.beside);
    const over = this.ghosts.shown.flatMap(({ told }) => (told?.over && told.lane?.seq === seq ? [told] : []));
    if (head.held) ctx.run?.show(over);
    el.dataset["ghosts"] = String(this.ghosts.shown.filter(({ told }) => told?.over).length);
    el.dataset["lanes"] = ways.map(({ lane }) => lane?.labels.length ?? 0).join(" "); // the known length of each
    // The run reports every step, but the tree is laid out again only if its lanes change.
    const drawn = JSON.stringify([ways, !!ctx.run]);
    if (drawn === this.drawnWays) return;
    this.drawnWays = drawn;
    this.redraw();
  }
}
