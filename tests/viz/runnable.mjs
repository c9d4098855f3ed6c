// Runs programs for texts in the engine of a page: node runnable.mjs ENGINE FOLDER
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [where, folder] = process.argv.slice(2);
const { engine } = await import(pathToFileURL(where));
const { programs, texts, plain, turns, inputs } = JSON.parse(readFileSync(`${folder}/programs.json`, "utf8"));
const bytes = readFileSync(`${folder}/weights.bin`);
let at = bytes.byteOffset;
const told = Object.entries(programs).map(([name, { spec, sizes }]) => {
  const weights = sizes.map(([kind, size]) => {
    at += 4 * size;
    return new (kind === "int" ? Int32Array : Float32Array)(bytes.buffer.slice(at - 4 * size, at));
  });
  const made = engine(spec, weights, plain);
  const answers = texts.map((text) => made.answer(text, inputs));
  const rounds = [];
  for (let turn = 1; turn < turns; turn++) {
    const before = process.cpuUsage();
    for (const text of texts) made.run(text, inputs);
    const { user, system } = process.cpuUsage(before);
    rounds.push((user + system) / 1000);
  }
  return [name, { answers, missing: made.missing, plain: made.plain, cpu_ms: rounds }];
});
console.log(JSON.stringify(Object.fromEntries(told)));
