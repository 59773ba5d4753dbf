// Makes page.js and page.css, which are in the Python package: without npm nobody needs to.
//
//     node build.mjs FOLDER
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";

const folder = process.argv[2];
const license = await readFile("node_modules/preact/LICENSE", "utf8");
const note = license.trim().replace(/\s+/g, " ").replace("The MIT License (MIT) ", "");

await build({
  entryPoints: ["src/page.tsx", "src/page.css"],
  outdir: folder,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  // A bundle's folders are no part of it.
  absWorkingDir: process.cwd(),
  banner: { js: `/* Made by web/build.mjs. Preact: MIT License, ${note} */` },
});
const script = `${folder}/page.js`;
const text = await readFile(script, "utf8");
// It stands in an HTML file.
await writeFile(script, text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--"));
