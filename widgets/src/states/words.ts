// The description of what is under the cursor of a states view.

import { h, quiet } from "../dom";
import { shorten } from "../labels";
import { exact, rough, short } from "../number";
import type { Position } from "./layout";
import type { Scene, Track } from "./scene";
import { flagWords, lineName, unitText } from "./scene";

/** The value at a position: of a unit, or of the line. */
export function valueAt(scene: Scene, { track, unit, step }: Position, row?: Float32Array | null): number {
  const of = scene.tracks[track]!;
  return unit < 0 ? (of.line[step] ?? NaN) : (row?.[unit] ?? of.value(step, unit));
}

/** The exact value under the cursor, with its step, the findings of its unit and step, and the line at the step. */
export function words(
  scene: Scene,
  at: Position,
  row: Float32Array | null = null,
  number: string | null = null,
): (Node | string)[] {
  const track = scene.tracks[at.track]!,
    about = at.unit < 0 ? track.lineAbout : track.about && !row;
  const said = (value: number) => (about ? `about ${rough(value)}` : at.unit < 0 ? short(value) : exact(value));
  const step =
    at.step < scene.len
      ? [quiet(`${scene.stepName} `), h("b", shorten(scene.stepLabel(at.step), 40)), quiet(` ${at.step}  `)]
      : [quiet(`${scene.stepName} ${at.step}  `)];
  const value = valueAt(scene, at, row);
  if (at.step >= scene.len)
    return [
      ...step,
      `past the end of ${scene.seq}${at.unit < 0 || (Number.isNaN(value) && !track.note) ? "" : `, ${track.label} ${track.unitName} ${unitText(track, at.unit)} holds ${said(value)}`}`,
      ...warned(flagWords(track.stepFlags(at.step))),
    ];
  const shown = h("b.rfnb-value", Number.isNaN(value) ? "NaN" : said(value));
  const more = beside(track, at, number);
  return [
    ...step,
    h("b", track.label),
    quiet(at.unit < 0 ? ` ${lineName(track)}  ` : ` ${track.unitName} ${unitText(track, at.unit)}  `),
    shown,
    more && "; ",
    h("span.rfnb-quiet.rfnb-others", more),
  ];
}

const warned = (words: string): Node[] => (words ? [h("span.rfnb-wrong", ` ! ${words}`)] : []);

/** Remarks beside the value. */
function beside(track: Track, { unit, step }: Position, number: string | null): string {
  const asText = (value: number, about: boolean) => (about ? `about ${rough(value)}` : short(value)),
    ofLine = (value: number) => asText(value, track.lineAbout);
  const said: string[] = [],
    flags = flagWords(track.stepFlags(step));
  if (unit >= 0) {
    const of = flagWords(track.unitFlags(unit)),
      sorted = track.numbers?.[unit];
    if (of) said.push(`this ${track.unitName} is ${of.replace(/^(NaN|infinity)/, "in places $1")}`);
    if (number && sorted !== undefined) said.push(`${number}: ${Number.isNaN(sorted) ? "none" : short(sorted)}`);
    said.push(`${lineName(track)} of the step: ${ofLine(track.line[step]!)}`);
  }
  const before = track.line[step - 1];
  if (before !== undefined)
    said.push(`before: ${ofLine(before)}`, `change: ${asText(track.change[step]!, track.changeAbout)}`);
  if (flags) said.push(`the step is ${flags.replace(/^(NaN|infinity)/, "in places $1")}`);
  return said.join(", ");
}
