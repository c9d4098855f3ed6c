// Builds the bundle into the Python package: rfnb.js (widgets), rfnb-static.js (save_html), rfnb.css.
// `python widgets/bundle.py` runs this and stamps the result.
import * as esbuild from "esbuild";
import { mkdir } from "node:fs/promises";

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
  logLevel: "warning",
};
const jobs = [
  { ...common, entryPoints: ["src/index.ts"], outfile: `${out}/rfnb.js` },
  { ...common, entryPoints: ["src/static.ts"], outfile: `${out}/rfnb-static.js` },
  { ...common, entryPoints: ["src/rfnb.css"], outfile: `${out}/rfnb.css` },
];
for (const job of jobs) {
  if (process.argv.includes("--watch")) await (await esbuild.context(job)).watch();
  else await esbuild.build(job);
}
