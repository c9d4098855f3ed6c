// The findings of a brush, below the picture: units to pin, and places to visit.

import { button, h, quiet } from "../dom";
import { shorten } from "../labels";
import { times } from "../list";
import { short } from "../number";
import { unitButtons } from "./findings";
import type { Brush, Found, Place } from "./brush";
import type { Scene, SeqEntry } from "./scene";

const MOST_PLACES = 8;

/** The sentence and the buttons of a brush. */
export function panel(
  scene: Scene,
  seqs: SeqEntry[],
  brush: Brush,
  found: Found,
  pin: (unit: number) => void,
  go: (place: Place) => void,
): Node[] {
  const track = scene.tracks[brush.track]!,
    about = found.about ? "about " : "",
    sign = brush.threshold >= 0 ? "≥" : "≤";
  const labels = times(brush.stop - brush.start, (at) => scene.stepLabel(brush.start + at));
  const range = `${track.label} ${sign} ${short(brush.threshold)} in ${stepsOf(brush)} (${shorten(labels.join(" "), 40)})`;
  const others = found.here.filter((unit) => !found.only.includes(unit));
  const nodes: Node[] = [
    h(
      "p",
      h("b", `${range}: `),
      `${about}${found.here.length} of ${track.units} units on throughout, ${about}${found.only.length} of them only here.`,
    ),
  ];
  const list = (name: string, units: number[]) => {
    if (units.length) nodes.push(unitButtons(name, units, track.unitName, pin));
  };
  list("only here", found.only);
  list("also elsewhere", others);
  if (!found.here.length) return nodes;
  const places = found.places
    .slice(0, MOST_PLACES)
    .map((place) => button(`${shorten(seqs[place.seq]!.label, 24)}, ${stepsOf(place)}`, () => go(place)));
  const left = found.places.length - places.length;
  nodes.push(
    h(
      "p.rfnb-states-units",
      quiet(places.length ? "all of them are also on in: " : "all of them are on nowhere else"),
      ...places,
      ...(left > 0 ? [quiet(` and ${left} more places`)] : []),
    ),
  );
  return nodes;
}

/** "step 3", "steps 3 to 5". */
export const stepsOf = ({ start, stop }: { start: number; stop: number }): string =>
  stop === start + 1 ? `step ${start}` : `steps ${start} to ${stop - 1}`;
