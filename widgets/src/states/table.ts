// The numbers of a states view as tables: one for each open track, steps by units in the order of the picture.

import { table as tableOf } from "../dom";
import { shorten } from "../labels";
import { times } from "../list";
import { exact, rough, short } from "../number";
import type { Scene, Track } from "./scene";
import { flagWords, lineName, unitIn, unitText } from "./scene";

const MOST_STEPS = 200,
  MOST_UNITS = 64;

/** The numbers of steps and units of a table. */
export const tableSize = (scene: Scene, track: Track): [steps: number, units: number] => [
  Math.min(scene.len, MOST_STEPS),
  Math.min(track.units, MOST_UNITS),
];

/** A table of a track; `exactly` are the exact values [step, unit] of its first steps. */
export function table(scene: Scene, track: Track, exactly: Float32Array | null): HTMLElement {
  const [steps, units] = tableSize(scene, track),
    about = track.about && !exactly;
  const value = (step: number, unit: number) => exactly?.[step * track.units + unit] ?? track.value(step, unit);
  const said = (number: number, rounded: boolean, full: boolean) =>
    Number.isNaN(number) ? "–" : rounded ? `≈ ${rough(number)}` : full ? exact(number) : short(number);
  const rows = times(steps, (step): [string, ...string[]] => [
    `${shorten(scene.stepLabel(step))} (${step})`,
    said(track.line[step]!, track.lineAbout, false),
    said(track.change[step]!, track.changeAbout, false),
    flagWords(track.stepFlags(step)) || "–",
    ...times(units, (index) => said(value(step, unitIn(track, index)), about, true)),
  ]);
  const heads = [`${scene.stepName} ↓`, lineName(track), "change", "flags"];
  for (let index = 0; index < units; index++) {
    const unit = unitIn(track, index),
      flags = flagWords(track.unitFlags(unit));
    heads.push(`${track.unitName} ${unitText(track, unit)}${flags && ` (${flags})`}`);
  }
  const left =
    steps < scene.len || units < track.units ? ` (the first ${steps} × ${units} of ${scene.len} × ${track.units})` : "";
  return tableOf(`${track.label}, ${scene.seq}${left}${about ? ": about, rounded" : ""}`, heads, rows);
}
