// Opens pages in chromium and does in each what it is told: the body of an async function of `page`
// (playwright's), `axe` (a function: what axe-core finds wrong) and `go` (to another hash of the address).
//
//     node browse.mjs FILE [#HASH]    does what standard input says, and prints {result, errors, requests} as JSON;
//                                     the variable BROWSE has options
//     node browse.mjs                 the same for each line {file, hash, options, patience_ms, steps} of standard
//                                     input, a line each, or {failed}; each has a context of its own in one browser
//
// errors: what the page threw, or wrote to its console; requests: whatever it asked for but itself.
// options: playwright's of a context (viewport, colorScheme).
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-quic", "--disable-sync"],
});

const visit = async ({ file, hash = "", options = {}, steps }) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  try {
    const page = await context.newPage();
    page.setDefaultTimeout(120_000);
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
    return { result: (await act(page, axe, go)) ?? null, errors, requests };
  } finally {
    await context.close();
  }
};

const inTime = (patience_ms, visiting) => {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`it took ${patience_ms / 1000} s`)), patience_ms);
  });
  return Promise.race([visiting, late]).finally(() => clearTimeout(timer));
};

try {
  const [file, hash] = process.argv.slice(2);
  if (file) {
    let steps = "";
    for await (const chunk of process.stdin) steps += chunk;
    const options = JSON.parse(process.env.BROWSE ?? "{}");
    process.stdout.write(JSON.stringify(await visit({ file, hash, options, steps })));
  } else {
    for await (const line of createInterface({ input: process.stdin })) {
      const asked = JSON.parse(line);
      const told = await inTime(asked.patience_ms, visit(asked)).catch((error) => ({ failed: String(error.stack) }));
      process.stdout.write(JSON.stringify(told) + "\n");
    }
  }
} finally {
  await browser.close();
}
