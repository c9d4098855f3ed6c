// Scales with round ticks: from values to fractions of a length.

import { times } from "../list";
import type { Curve } from "./layout";

export interface Tick {
  value: number;
  text: string;
  minor?: boolean;
}
export interface Scale {
  low: number;
  high: number;
  log: boolean;
  ticks: Tick[];
}

/** The position of a value on a scale, 0 to 1. */
export function share({ low, high, log }: Scale, value: number): number {
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

/** A scale that begins and ends at a tick, unless that wastes a quarter of the panel. It begins at 0 if that wastes little, for comparable heights. */
export function scaleOf({ y, positive }: Pick<Curve, "y" | "positive">, log: boolean, count = 4): Scale | null {
  let low = Infinity,
    high = -Infinity;
  for (let i = 0; i < y.length; i++) {
    const value = y[i]!;
    if (Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) return null;
  if (log && positive) return logScale(low, high);
  if (low === high) [low, high] = low === 0 ? [0, 1] : low > 0 ? [0, 2 * low] : [2 * low, 0];
  else if (low > 0 && low < 0.35 * high) low = 0;
  else if (high < 0 && high > 0.35 * low) high = 0;
  const step = niceStep((high - low) / count),
    room = 0.25 * (high - low);
  let first = Math.floor(low / step + 1e-6),
    last = Math.ceil(high / step - 1e-6);
  let [bottom, top] = [first * step, last * step];
  if (last - first > 2 && low - bottom > room) {
    first++;
    bottom = low - 0.15 * room;
  }
  if (last - first > 1 && top - high > room) {
    last--;
    top = high + 0.15 * room;
  }
  return { low: bottom, high: top, log: false, ticks: texts(multiples(step, first, last), step) };
}

/** The smallest of 1, 2, 5, 10, 20, ... that is not below `size`. */
export function niceStep(size: number): number {
  const power = 10 ** Math.floor(Math.log10(size));
  return ([1, 2, 5].find((step) => step * power >= size * 0.999) ?? 10) * power;
}

const multiples = (step: number, first: number, last: number): number[] =>
  times(last - first + 1, (index) => Number(((first + index) * step).toPrecision(12)));

function logScale(low: number, high: number): Scale {
  const all: number[] = [];
  for (let power = Math.floor(Math.log10(low) + 1e-9); power <= Math.ceil(Math.log10(high)); power++)
    for (const step of [1, 2, 5]) all.push(Number((step * 10 ** power).toPrecision(12)));
  const first = all.filter((value) => value <= low * 1.0001).length - 1,
    last = all.findIndex((value) => value >= high * 0.9999);
  let values = all.slice(Math.max(0, first), last + 1);
  if (values.length < 2) values = [values[0]! / 2, values[0]! * 2];
  const whole = values.filter((value) => Number.isInteger(Number(Math.log10(value).toFixed(9))));
  const strong =
    values.length <= 4 ? values : whole.length >= 2 ? thin(whole, 4) : [values[0]!, ...thin(values.slice(1), 3)];
  const ticks = values.map((value) => ({
    value,
    text: strong.includes(value) ? tickText(value, value) : "",
    minor: !strong.includes(value),
  }));
  return { low: values[0]!, high: values[values.length - 1]!, log: true, ticks };
}

const thin = (values: number[], most: number): number[] => {
  const every = Math.ceil(values.length / most);
  return values.filter((_, index) => index % every === 0);
};

/** The axis of x: from the first to the last point, with ticks inside at round numbers. */
export function xScale(at: number[], room: number, textWidth: (text: string) => number): Scale | null {
  if (!at.length) return null;
  let low = at[0]!,
    high = at[at.length - 1]!;
  if (low === high) [low, high] = [low - 1, high + 1];
  const whole = at.every(Number.isInteger);
  for (let count = 10; ; count--) {
    const step = whole ? Math.max(1, niceStep((high - low) / count)) : niceStep((high - low) / count);
    const ticks = texts(multiples(step, Math.ceil(low / step - 1e-6), Math.floor(high / step + 1e-6)), step);
    const widest = Math.max(0, ...ticks.map(({ text }) => textWidth(text)));
    if (count === 1 || (step / (high - low)) * room >= widest + 26) return { low, high, log: false, ticks };
  }
}

function texts(values: number[], step: number): Tick[] {
  const most = Math.max(...values.map(Math.abs));
  return values.map((value) => ({ value, text: tickText(value, step, most) }));
}

/** A tick as text, with as many digits as its distance to the next one requires: 0.25, 1500, 20k, 2e−4. */
export function tickText(value: number, step: number, most = Math.abs(value)): string {
  if (value === 0) return "0";
  const plain =
    most >= 1e9 || most < 1e-3
      ? power(value, step)
      : most >= 1e6 && step >= 1e5
        ? `${round(value / 1e6)}M`
        : step >= 1e3
          ? `${round(value / 1e3)}k`
          : value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  return plain.replace(/^-/, "−");
}

const round = (value: number): string => String(Number(value.toPrecision(6)));
/** With as many digits as the distance to the next tick requires. */
const power = (value: number, step: number): string => {
  const finer = Math.floor(Math.log10(Math.abs(value))) - Math.floor(Math.log10(step) + 1e-9),
    [digits, exponent] = value.toExponential(Math.min(16, Math.max(3, finer))).split("e");
  return `${Number(digits)}e${String(Number(exponent)).replace("-", "−")}`;
};
