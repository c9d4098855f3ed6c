// Units and steps that stand out, below the picture: a line for each track, which opens to units to pin and steps to visit.

import { times } from "../list";
import { button, h, quiet } from "../dom";
import type { Scene, Track } from "./scene";
import { FLAGS, flagsOf, flagWords } from "./scene";

const MOST = 24; // units at first

/** The actions of clicks. */
export interface Acts {
  pin(track: number, unit: number): void;
  go(track: number, step: number): void;
}

/** Buttons that pin units; with many, one more button shows all. */
export function unitButtons(name: string, units: number[], unitName: string, pin: (unit: number) => void): HTMLElement {
  const pinOf = (unit: number) => button(String(unit), () => pin(unit), { "aria-label": `pin ${unitName} ${unit}` });
  const line = h("p.rfnb-states-units", quiet(`${name}: `), ...units.slice(0, MOST).map(pinOf));
  if (units.length > MOST) {
    const left = units.length - MOST;
    const more = button(
      `and ${left} more`,
      () => {
        const [first, ...others] = units.slice(MOST).map(pinOf);
        more.replaceWith(first!, ...others);
        first!.focus();
      },
      { "aria-label": `show ${left} more units` },
    );
    line.append(more);
  }
  return line;
}

/** A list for each track with findings, in one fold if there are several; open if it was before. */
export function flagged(scene: Scene, box: HTMLElement, acts: Acts): void {
  const open = new Set(
    [...box.querySelectorAll("details")].flatMap(({ open, dataset }) => (open ? [dataset["of"]] : [])),
  );
  const fold = (of: string, summary: (Node | string)[], inside: Node[]) => {
    const list = h("details", { "data-of": of }, h("summary", ...summary), ...inside);
    list.open = open.has(of);
    return list;
  };
  const lists = scene.tracks.flatMap((of, track) => {
    const found = listsOf(scene, of, track, acts);
    return of.says && found.length ? [fold(of.label, [h("b", of.title), ` ${of.says}`], found)] : [];
  });
  const bits = scene.tracks.reduce((all, track) => all | flagsOf(track, scene.steps), 0),
    several = `${flagWords(bits)}: in ${lists.length} of ${scene.tracks.length} tracks`;
  box.replaceChildren(...(lists.length > 1 ? [fold("", [several], lists)] : lists));
  box.hidden = !lists.length;
}

function listsOf(scene: Scene, of: Track, track: number, acts: Acts): HTMLElement[] {
  const all = (count: number) => times(count, (index) => index);
  return FLAGS.flatMap(([bit, word]) => {
    const units = all(of.units).filter((unit) => of.unitFlags(unit) & bit),
      steps = all(scene.steps).filter((step) => of.stepFlags(step) & bit);
    return [
      ...(units.length
        ? [unitButtons(`${of.unitName}, ${word}`, units, of.unitName, (unit) => acts.pin(track, unit))]
        : []),
      ...(steps.length ? [stepButtons(`${scene.stepName}, ${word}`, steps, (step) => acts.go(track, step))] : []),
    ];
  });
}

/** Buttons that go to ranges of steps: "2–5". */
function stepButtons(name: string, steps: number[], go: (step: number) => void): HTMLElement {
  const stretches: [first: number, last: number][] = [];
  for (const step of steps) {
    const last = stretches[stretches.length - 1];
    if (last && last[1] === step - 1) last[1] = step;
    else stretches.push([step, step]);
  }
  const buttons = stretches.slice(0, MOST).map(([first, last]) => {
    const text = first === last ? String(first) : `${first}–${last}`;
    return button(text, () => go(first), { "aria-label": `go to ${first === last ? "step" : "steps"} ${text}` });
  });
  const left = stretches.length - buttons.length;
  return h("p.rfnb-states-units", quiet(`${name}: `), ...buttons, left ? quiet(` and ${left} more`) : "");
}
