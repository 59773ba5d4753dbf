// Opens a page in chromium and does what standard input says: the body of an async function of `page`
// (playwright's), `axe` (a function: what axe-core finds wrong) and `go` (to another hash of the address).
//
//     node browse.mjs FILE [#HASH]    prints {result, errors, requests} as JSON
//
// errors: what the page threw, or wrote to its console; requests: whatever it asked for but itself.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [file, hash = ""] = process.argv.slice(2);
const options = JSON.parse(process.env.BROWSE ?? "{}");
let steps = "";
for await (const chunk of process.stdin) steps += chunk;

const folder = await mkdtemp(join(tmpdir(), "browse-"));
const browser = await chromium.launchPersistentContext(folder, {
  executablePath: process.env.CHROMIUM,
  viewport: { width: 1280, height: 800 },
  ...options,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-quic", "--disable-sync"],
});
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(120_000); // the machine may be busy
  const url = pathToFileURL(file).href;
  const errors = [];
  const requests = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => errors.push(message.text()));
  page.on("dialog", (dialog) => {
    errors.push(dialog.message());
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (request.url().split("#")[0] !== url) requests.push(request.url());
  });
  await page.goto(url + hash);
  await page.waitForFunction("window.ready");
  const axe = async () => {
    await page.evaluate(await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
    const found = await page.evaluate("axe.run()");
    return found.violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}: ${node.failureSummary}`));
  };
  const go = (hash) =>
    page.evaluate((to) => {
      if (location.hash === to) return undefined;
      return new Promise((done) => {
        addEventListener("hashchange", () => requestAnimationFrame(() => requestAnimationFrame(done)), { once: true });
        location.hash = to;
      });
    }, hash);
  const act = new Function("page", "axe", "go", `return (async () => { ${steps} })()`);
  const result = (await act(page, axe, go)) ?? null;
  process.stdout.write(JSON.stringify({ result, errors, requests }));
} finally {
  await browser.close();
  await rm(folder, { recursive: true, force: true });
}
