// Text of tokens in which every character is visible and none has an effect. The same as rfnb/viz/visible_text.py, tested with the same file.

const UNSEEN =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\p{Cs}\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\u{e0000}-\u{e007f}]/gu;

function mark(letter: string): string {
  const code = letter.codePointAt(0)!;
  if (code < 32) return String.fromCharCode(0x2400 + code);
  return code === 127 ? "␡" : code === 160 ? "⍽" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** Replaces invisible characters, and those that affect their surroundings, by marks; line breaks and tabs stay. */
export const safe = (text: string): string => text.replace(UNSEEN, mark);

/** The same on one line. Values that are not text are converted. */
export const line = (given: string): string =>
  safe((typeof given === "string" ? given : (JSON.stringify(given) ?? "")).replace(/\n/g, "⏎").replace(/\t/g, "⇥"));

/** A token: leading, trailing, repeated and unusual spaces are visible, too. */
export const visible = (token: string): string =>
  line(token)
    .replace(/^ +| +$| {2,}/g, (spaces) => "␣".repeat(spaces.length))
    .replace(/[\xa0\u2000-\u200a\u202f\u205f\u3000]/g, mark) || "∅";
