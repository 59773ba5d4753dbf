// Opens a profile in speedscope, in a browser without a screen, and prints what its sandwich view says:
//
//     node speedscope.mjs PROFILE FOLDER     as JSON: {title, text, errors}
//
// FOLDER is for a script that hands the profile over, as speedscope's own command line has one.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [profile, folder] = process.argv.slice(2);
const base64 = readFileSync(profile).toString("base64");
const script = join(folder, "hand-over.js");
writeFileSync(script, `speedscope.loadFileFromBase64("profile", "${base64}")`);
const root = dirname(createRequire(import.meta.url).resolve("speedscope/package.json"));
const page_url = pathToFileURL(join(root, "dist/release/index.html"));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
});
const page = await browser.newPage();
const errors = [];
page.on("pageerror", (error) => errors.push(String(error)));
await page.goto(`${page_url}#localProfilePath=${script}`);
await page.waitForFunction(() => document.title.includes(" - speedscope"), null, { timeout: 120_000 });
await page.keyboard.press("3");
await page.waitForFunction(() => /Symbol Name[^]*%/.test(document.body.innerText));
const title = await page.title();
const text = await page.evaluate(() => document.body.innerText);
await browser.close();
console.log(JSON.stringify({ title, text, errors }));
