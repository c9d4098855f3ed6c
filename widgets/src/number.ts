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
  const text = Math.abs(value) >= 0.001 || value === 0 ? String(Number(value.toPrecision(3))) : value.toExponential(1);
  return minus(text);
}

/** Two significant digits, for what is rounded already. */
export const rough = (value: number): string => short(Number.isFinite(value) ? Number(value.toPrecision(2)) : value);

/** So many digits after the point. */
export const fixed = (value: number, digits: number): string => minus(Number(value).toFixed(digits));

const minus = (text: string): string => text.replace(/^-/, "−");
