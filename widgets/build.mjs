// Builds the bundle into the Python package: rfnb.js (widgets), rfnb-static.js (save_html), rfnb-static-<kind>.js (stored outputs, which have a
// script each: with the one kind of view that is in them), rfnb.css, and rfnb-drawn.css without questions; rfnb-page.js (a page that runs
// its model), rfnb-engine.js (the engine of that alone, for tests).
// `python widgets/bundle.py` runs this and stamps the result.
import * as esbuild from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile } from "node:fs/promises";
import { privateNames } from "./private.mjs";
import { self } from "./self.mjs";

const at = process.argv.indexOf("--outdir");
const out = at > 0 ? process.argv[at + 1] : "../rfnb/viz/static";
await mkdir(out, { recursive: true });
const common = {
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  charset: "utf8",
  inject: ["src/globals.ts"],
  plugins: [self],
  mangleProps: new RegExp(`^(${privateNames(".").join("|")})$`),
  logLevel: "warning",
  // Modules of one page share the selection if they mean the same by it.
  define: {
    SELECTION: JSON.stringify(
      createHash("sha256")
        .update(await readFile("src/selection.ts"))
        .digest("hex")
        .slice(0, 12),
    ),
  },
};
// The folder of each kind, as views.ts has it; a group has all, branches too.
const list = await readFile("src/views.ts", "utf8");
const folders = Object.fromEntries(
  [...list.matchAll(/^import \{ render as (\w+) \} from "\.\/(\w+)\/render"/gm)].map(([, name, folder]) => [
    name,
    folder,
  ]),
);
const KINDS = [...list.matchAll(/^  (\w+)(?:: (\w+))?,$/gm)]
  .map(([, kind, name]) => ((folders[kind] = folders[name ?? kind]), kind))
  .filter((kind) => kind !== "group" && kind !== "branches");
const RUNNING = ["attention", "beams", "control", "distribution", "group", "states"]; // what a page that runs its model draws
const only = (...kinds) => ({
  name: "only",
  setup(build) {
    const lines = kinds.map((kind) => `import { render as ${kind} } from "./${folders[kind] ?? kind}/render";`);
    build.onLoad({ filter: /src\/views\.ts$/ }, () => ({
      contents: `${lines.join("\n")}\nexport const views = { ${kinds.join(", ")} };`,
      loader: "ts",
      resolveDir: "src",
    }));
  },
});
// Where there is no kernel, nothing is held or tried: no ghosts, no lanes of them, nothing that is dragged.
const handless = {
  name: "handless",
  setup(build) {
    const nothing = (filter, contents) => build.onLoad({ filter }, () => ({ contents, loader: "ts" }));
    nothing(
      /src\/\w+\/handles\.ts$/,
      "export const offer = () => null, changeOf = offer, effectOf = offer, open = offer;",
    );
    nothing(/src\/attention\/scale\.ts$/, "export class HeadScale { element = ''; show() {} keep() {} destroy() {} }");
    nothing(/src\/ghosts\.ts$/, "export class Ghosts { shown = []; rest() {} show() {} clear() {} }");
    nothing(
      /src\/beams\/lanes\.ts$/,
      "export const withLanes = (made) => ({ made, placed: [] }), drawLanes = () => {};",
    );
    nothing(
      /src\/\w+\/drag\.ts$/,
      "export const BESIDE = 0, isMovable = () => false; export class Drag { told = null; on = false; row = -1; grab() { return null; } draw() {} stop() {} }",
    );
  },
};
const jobs = [
  { ...common, entryPoints: ["src/index.ts"], outfile: `${out}/rfnb.js` },
  {
    ...common,
    format: "iife",
    entryPoints: ["src/static.ts"],
    outfile: `${out}/rfnb-static.js`,
    plugins: [handless, self],
  },
  ...KINDS.map((kind) => ({
    ...common,
    format: "iife",
    entryPoints: ["src/static.ts"],
    outfile: `${out}/rfnb-static-${kind}.js`,
    plugins: [only(kind), handless, self],
  })),
  {
    ...common,
    format: "iife",
    entryPoints: ["src/page/page.ts"],
    outfile: `${out}/rfnb-page.js`,
    plugins: [only(...RUNNING), self],
  },
  { ...common, inject: [], plugins: [], entryPoints: ["src/engine/node.ts"], outfile: `${out}/rfnb-engine.js` },
  { ...common, inject: [], plugins: [], entryPoints: ["src/rfnb.css"], outfile: `${out}/rfnb.css` },
  { ...common, inject: [], plugins: [], entryPoints: ["src/drawn.css"], outfile: `${out}/rfnb-drawn.css` },
];
for (const job of jobs) {
  if (process.argv.includes("--watch")) await (await esbuild.context(job)).watch();
  else await esbuild.build(job);
}
