// What is under the cursor of a states view, in words.

import { h, quiet } from "../dom";
import { shorten } from "../labels";
import { exact, rough, short } from "../number";
import type { Position, Scene } from "./layout";
import { valueAt } from "./layout";

/** The value under the cursor, exactly, with its step, and the norm of the step. */
export function words(scene: Scene, at: Position, row: Float32Array | null = null): (Node | string)[] {
  const track = scene.tracks[at.track]!,
    about = at.unit < 0 ? track.normsAbout : track.about && !row;
  const said = (value: number) => (about ? `about ${rough(value)}` : at.unit < 0 ? short(value) : exact(value));
  const ofNorm = (value: number) => (track.normsAbout ? `about ${rough(value)}` : short(value));
  const step =
    at.step < scene.len
      ? [quiet(`${scene.stepName} `), h("b", {}, shorten(scene.stepLabel(at.step), 40)), quiet(` ${at.step}  `)]
      : [quiet(`${scene.stepName} ${at.step}  `)];
  const value = valueAt(scene, at, row);
  if (at.step >= scene.len)
    return [
      ...step,
      `past the end of ${scene.seq}${at.unit < 0 || (Number.isNaN(value) && !track.note) ? "" : `, ${track.label} ${track.unitName} ${at.unit} holds ${said(value)}`}`,
    ];
  const shown = h("b", { class: "rfnb-value" }, Number.isNaN(value) ? "NaN" : said(value));
  const norm = track.norms[at.step]!,
    before = track.norms[at.step - 1];
  const change = before === undefined ? "" : `, before ${ofNorm(before)}`;
  const more =
    at.unit < 0
      ? before === undefined
        ? ""
        : `before: ${ofNorm(before)}`
      : `norm of the step: ${ofNorm(norm)}${change}`;
  return [
    ...step,
    h("b", {}, track.label),
    quiet(at.unit < 0 ? " norm  " : ` ${track.unitName} ${at.unit}  `),
    shown,
    more && "; ",
    h("span", { class: "rfnb-quiet rfnb-others" }, more),
  ];
}
