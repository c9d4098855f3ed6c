// Numbers as text. A displayed value is always the stored one, never one decoded from a colour.

/** The shortest decimal that is exactly this float32. */
export function exact(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  for (let digits = 1; digits <= 9; digits++) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return minus(String(Number(text)));
  }
  return minus(String(value));
}

/** Three significant digits, for labels. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return exact(value);
  const text = Math.abs(value) >= 0.001 || value === 0 ? String(significant(value, 3)) : value.toExponential(1);
  return minus(text);
}

const isOne = (value: number): boolean => Math.abs(Math.abs(value) - 1) <= 1e-6; // as sums of float32 are

/** Significant digits, more if the number would be rounded to 1. The mirror image of rfnb/viz/rounding.py, like the following functions. */
export function significant(value: number, digits: number): number {
  for (; ; digits++) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.abs(rounded) !== 1 || isOne(value)) return rounded;
  }
}

/** A fraction with two digits; only 0 is shown as 0, and only 1 as 1: "0.25", "<.01", ">.99". */
export function share(value: number): string {
  const text = value.toFixed(2),
    size = Math.abs(value),
    sign = value < 0 ? "−" : "";
  if (!value || isOne(value) || !(size < 0.005 || (size >= 0.995 && size < 1.005))) return minus(text);
  return size < 0.5 ? `${sign}<.01` : size < 1 ? `${sign}>.99` : minus(String(significant(value, 3)));
}

/** A fraction in percent: "43 %", "<1 %", ">99 %". */
export function percent(part: number): string {
  const whole = (100 * part).toFixed(0);
  return whole === "0" && part > 0 ? "<1 %" : whole === "100" && part < 1 && !isOne(part) ? ">99 %" : `${whole} %`;
}

/** A log probability in percent, with two digits: "52 %", "0.31 %", ">99 %". */
export const chance = (log: number): string =>
  Math.exp(log) < 0.1 ? `${(100 * Math.exp(log)).toPrecision(2)} %` : percent(Math.exp(log));

/** Two significant digits, for rounded values. */
export const rough = (value: number): string => short(Number.isFinite(value) ? significant(value, 2) : value);

/** Digits after the decimal point. */
export const fixed = (value: number, digits: number): string => minus(Number(value).toFixed(digits));

/** A number as text, or a sentence with numbers, with typographic minus signs. */
export const minus = (text: string): string => text.replace(/(?<![\w.)\]])-(?=[\d.∞])|(?<=\de)-(?=\d)/g, "−");
