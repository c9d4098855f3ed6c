// The content of a page's data element: bytes in base 85, and their checksum.

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=/?@^_`{|}~"; // of b85encode, without & < >

/** Decodes a text with five digits for every four bytes. */
export function bytesOf(text: string): Uint8Array {
  const digits = new Uint8Array(128).fill(255);
  [...DIGITS].forEach((digit, value) => (digits[digit.charCodeAt(0)] = value));
  const bytes = new Uint8Array((text.length / 5) * 4),
    words = new DataView(bytes.buffer);
  for (let at = 0, to = 0; at < text.length; to += 4) {
    let word = 0;
    for (const end = at + 5; at < end; at++) {
      const digit = digits[text.charCodeAt(at)] ?? 255;
      if (digit === 255) throw new Error("this is no digit of base 85");
      word = 85 * word + digit;
    }
    words.setUint32(to, word);
  }
  return bytes;
}

/** The Adler checksum, as in zlib. */
export function sumOf(bytes: Uint8Array): number {
  let [one, two] = [1, 0];
  for (let at = 0; at < bytes.length;) {
    for (const end = Math.min(at + 3000, bytes.length); at < end; at++) two += one += bytes[at]!;
    one %= 65521;
    two %= 65521;
  }
  return two * 65536 + one;
}
