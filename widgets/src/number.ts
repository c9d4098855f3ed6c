// Numbers as text. A value shown is always the stored one, never one that went through a colour.

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

/** So many significant digits, more where the number would be 1 and is not. The mirror image of rfnb/viz/rounding.py, as what follows. */
export function significant(value: number, digits: number): number {
  for (; ; digits++) {
    const rounded = Number(value.toPrecision(digits));
    if (Math.abs(rounded) !== 1 || isOne(value)) return rounded;
  }
}

/** A part of 1 with two digits, of which nothing but 0 is 0, and nothing but 1 is 1: "0.25", "<.01", ">.99". */
export function share(value: number): string {
  const text = value.toFixed(2),
    size = Math.abs(value),
    sign = value < 0 ? "−" : "";
  if (!value || isOne(value) || !(size < 0.005 || (size >= 0.995 && size < 1.005))) return minus(text);
  return size < 0.5 ? `${sign}<.01` : size < 1 ? `${sign}>.99` : minus(String(significant(value, 3)));
}

/** A part of 1 in percent: "43 %", "<1 %", ">99 %". */
export function percent(part: number): string {
  const whole = (100 * part).toFixed(0);
  return whole === "0" && part > 0 ? "<1 %" : whole === "100" && part < 1 && !isOne(part) ? ">99 %" : `${whole} %`;
}

/** What a log probability is in percent, with two digits: "52 %", "0.31 %", ">99 %". */
export const chance = (log: number): string =>
  Math.exp(log) < 0.1 ? `${(100 * Math.exp(log)).toPrecision(2)} %` : percent(Math.exp(log));

/** Two significant digits, for what is rounded already. */
export const rough = (value: number): string => short(Number.isFinite(value) ? significant(value, 2) : value);

/** So many digits after the point. */
export const fixed = (value: number, digits: number): string => minus(Number(value).toFixed(digits));

/** A number as text, or a sentence with numbers, with real minus signs: as pictures have them. */
export const minus = (text: string): string => text.replace(/(?<![\w.)\]])-(?=[\d.∞])|(?<=\de)-(?=\d)/g, "−");
