// Dragging a value inside its strip, or a whole state by its norm: the result that the run would give appears beside the pointer.

import { outline, write } from "../canvas";
import type { Table } from "../color";
import { css } from "../color";
import type { Context } from "../context";
import type { Change } from "../ghosts";
import { Trial } from "../ghosts";
import { entriesOf, isOfOne } from "../handles";
import { shorten } from "../labels";
import { fixed, share, short, significant } from "../number";
import type { Grip, Scene as Sight } from "../pane";
import type { Told } from "../run";
import type { Palette } from "../theme";
import { line, visible } from "../visible_text";
import type { HeldTrack } from "./handles";
import { changedAt, putting } from "./handles";
import type { Layout, Position } from "./layout";
import type { Scene, Track } from "./scene";
import { rowOfUnit, topOf, unitText } from "./scene";

const FULL = 160, // pixels from one end of the range of a track to the other
  NOTHING = 0.02, // fraction of the range: closer to 0 it snaps to 0
  TALL = 40, // height of the text beside the pointer
  MOST = 60; // letters of the text

interface Given {
  held: HeldTrack;
  track: Track;
  value: number; // there
  line: number; // pixels of the line of the norm
  seq: number;
  slots: { before: number[]; after: number[] } | null;
}

/** Whether the result of a step can be edited: there is a step after it, and its hypothesis is known. */
export function isMovable(held: HeldTrack, step: number, slots: Given["slots"]): boolean {
  const { place, slot } = changedAt(held, step, slots);
  return !!place && isOfOne(held, step, slot);
}

/** Grips a value of a state; `changed` is called when the picture changes. */
export class Drag {
  told: Told | null = null;
  private now: { at: Position; value: number; said: string } | null = null;
  private readonly trial: Trial;

  constructor(
    ctx: Context,
    private readonly changed: () => void,
    private readonly keep: (change: Change) => void,
  ) {
    this.trial = new Trial(ctx, (told) => {
      if (!this.now) return;
      this.told = told;
      this.changed();
    });
  }

  get on(): boolean {
    return !!this.now;
  }

  grab({ held, track, value, line: tall, seq, slots }: Given, at: Position): Grip | null {
    const { unit, step } = at,
      { place, slot } = changedAt(held, step, slots);
    if (!place || !isMovable(held, step, slots) || !Number.isFinite(value)) return null;
    const entries = entriesOf(held, step, seq, slot, unit < 0 ? null : unit),
      short = shortName(track.label);
    const change = (_: number, down: number): Change => {
      const made =
          unit >= 0
            ? held.norm
              ? scaled(value, down, FULL / (track.high || 1))
              : moved(track, value, down, FULL)
            : track.gate
              ? moved(track, value, down, tall) // its line is the mean opening: all gates are moved by the same amount
              : scaled(value, down, Math.max(1, tall - 5) / topOf(track)),
        said = unit < 0 ? made.said : `${track.unitName} ${unitText(track, unit)} ${made.said}`;
      this.now = { at, value: made.value, said: `${short} ${said}` };
      this.changed();
      const then = [putting(held, entries, made.set)];
      return { at: "drag", place, then, name: `${line(short)} ${line(said)} at ${place.step}`, seq };
    };
    const over = () => {
      this.now = this.told = null;
      this.changed();
    };
    return { ...this.trial.grip(change, over, this.keep), upright: true };
  }

  stop(): void {
    this.trial.stop();
  }

  /** The dragged value, and above it the result that the run would give. */
  draw(g: CanvasRenderingContext2D, sight: Sight, scene: Scene, made: Layout, colors: Table, palette: Palette): void {
    if (!this.now) return;
    const { at, value, said } = this.now,
      track = scene.tracks[at.track]!,
      placed = made.tracks[at.track]!,
      x = made.left + placed.x + at.step * made.cell - sight.left,
      wide = Math.max(4, made.cell);
    let y: number;
    if (at.unit < 0) {
      const top = topOf(track);
      y = placed.norm + placed.normHeight - (Math.min(value, top) / top) * (placed.normHeight - 5) - sight.top;
      g.fillStyle = palette.focus;
      g.beginPath();
      g.arc(x + made.cell / 2, y, 4, 0, 7);
      g.fill();
    } else {
      const unit = placed.height / track.units,
        tall = Math.max(unit, 7);
      y = placed.strip + (rowOfUnit(track, at.unit) + 0.5) * unit - tall / 2 - sight.top;
      g.fillStyle = css(colors, (value - track.low) / (track.high - track.low || 1));
      g.fillRect(x, y, wide, tall);
      outline(g, x - 1, y - 1, wide + 2, tall + 2, palette.paper, 4);
      outline(g, x - 1, y - 1, wide + 2, tall + 2, palette.focus, 2);
    }
    this.say(g, x + made.cell / 2, y - 10, said, sight, palette);
  }

  private say(
    g: CanvasRenderingContext2D,
    middle: number,
    bottom: number,
    said: string,
    sight: Sight,
    palette: Palette,
  ): void {
    const { told } = this,
      plain = `12px ${palette.font}`,
      bold = `bold ${plain}`;
    const words: [text: string, font: string, color: string][] = told?.labels?.length
      ? told.labels.map((label, index) =>
          told.edits && told.edits[index] !== "="
            ? [visible(label), bold, palette.focus]
            : [visible(label), plain, palette.ink],
        )
      : [[told ? shorten(line(told.refused ?? told.words ?? ""), MOST) : "…", plain, palette.ink]];
    if (told?.difference != null && !told.same)
      words.push([`${told.difference > 0 ? "+" : ""}${fixed(told.difference, 2)}`, plain, palette.muted]);
    if (told && this.trial.behind) words.push(["…", plain, palette.muted]);
    const gap = 5,
      widths = words.map(([text, font]) => ((g.font = font), g.measureText(text).width)),
      total = widths.reduce((sum, width) => sum + width + gap, -gap);
    g.font = plain;
    const wide = Math.max(total, g.measureText(said).width) + 16,
      left = Math.max(2, Math.min(sight.width - wide - 2, middle - wide / 2)),
      top = bottom - TALL < 0 ? bottom + 30 : bottom - TALL;
    g.fillStyle = palette.paper;
    g.fillRect(left, top, wide, TALL);
    outline(g, left, top, wide, TALL, palette.focus, 1.25);
    write(g, said, left + 8, top + 12, plain, palette.muted);
    let x = left + 8;
    for (const [index, [text, font, color]] of words.entries()) {
      write(g, text, x, top + 28, font, color);
      x += widths[index]! + gap;
    }
  }
}

interface Made {
  value: number;
  said: string;
  set: Record<string, unknown>;
}

/** A value within the range of its track, which snaps to 0; `full` pixels are the whole range. */
function moved({ low, high }: Track, value: number, down: number, full: number): Made {
  const span = high - low,
    to = Math.max(low, Math.min(high, value - (down / full) * span)),
    kept = Math.abs(to) < NOTHING * span ? 0 : significant(to, 3);
  return { value: kept, said: `= ${short(kept)}`, set: { value: kept } };
}

/** A scaled state, by the factor that moves its norm to the pointer; the argument gives the pixels per unit. */
function scaled(norm: number, down: number, pixels: number): Made {
  const to = Math.max(0, norm - down / pixels),
    amount = norm > 0 ? significant(to / norm, 2) : 0;
  if (amount < NOTHING) return { value: 0, said: "= 0", set: { value: 0 } };
  return { value: norm * amount, said: `× ${share(amount)}`, set: { how: "scale", amount } };
}

/** The last name of a path. */
const shortName = (label: string): string => label.split(".").at(-1) || label;
