// Frames as `pack` in rfnb/viz/spec.py writes them.

import { zlibSync } from "fflate";

export interface Part {
  dtype: string;
  shape: number[];
  bytes: Uint8Array;
  deflated?: boolean;
  size?: number; // what the frame says
  code?: object;
  pool?: number[];
}

export function pack(
  kind: string,
  head: object,
  blocks: Record<string, Part> = {},
  {
    version = 2,
    deflated = false,
    size,
    ascii = false,
  }: { version?: number; deflated?: boolean; size?: number; ascii?: boolean } = {},
): Uint8Array {
  const table: Record<string, object> = {};
  const parts: Uint8Array[] = [];
  let offset = 0;
  const add = (bytes: Uint8Array) => {
    const padded = new Uint8Array(Math.ceil(bytes.length / 8) * 8);
    padded.set(bytes);
    parts.push(padded);
    return padded.length;
  };
  for (const [name, { bytes, ...entry }] of Object.entries(blocks)) {
    const stored = entry.deflated ? zlibSync(bytes) : bytes;
    table[name] = { offset, size: stored.length, ...entry };
    offset += add(stored);
  }
  const json = JSON.stringify({ kind, head, blocks: table });
  const escaped = (letter: string) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const text = new TextEncoder().encode(ascii ? json.replace(/[^ -~]/g, escaped) : json); // as Python writes it
  const stored = deflated ? zlibSync(text) : text;
  const top = new Uint8Array(16);
  const view = new DataView(top.buffer);
  [stored.length, version, size ?? text.length, 0].forEach((number, at) => view.setUint32(4 * at, number, true));
  add(stored);
  const all = [top, parts.pop()!, ...parts];
  const out = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of all) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
