// Opens the pages of a report in Chromium without a network, and fails on defects that a reader
// would notice: script errors, network requests, horizontal scrolling, charts that are not drawn,
// problems of accessibility.
// scripts/lab-report-test.sh runs it: node look.mjs PAGES MODULES SHOTS
import { createRequire } from "node:module";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [pages, modules, shots] = process.argv.slice(2).map((path) => resolve(path));
const require = createRequire(join(modules, "package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const chromium = ["/usr/bin/chromium", "/usr/bin/google-chrome"].find((path) => existsSync(path));
if (!chromium) throw new Error("no chromium: apt-get install chromium");

const wrong = [];
const names = readdirSync(pages).filter((name) => name.endsWith(".html")).sort();
if (names.length < 8) wrong.push(`only ${names.length} pages in ${pages}`);
mkdirSync(shots, { recursive: true });

const browser = await puppeteer.launch({
  executablePath: chromium,
  args: ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND", "--allow-file-access-from-files=false"],
});
let violations = 0;
for (const name of names) {
  for (const [width, scheme] of [[390, "light"], [390, "dark"], [1280, "light"], [1280, "dark"]]) {
    const at = `${name} at ${width} px, ${scheme}`;
    const page = await browser.newPage();
    const say = (text) => wrong.push(`${at}: ${text}`);
    page.on("console", (message) => ["error", "warn"].includes(message.type()) && say(`console: ${message.text()}`));
    page.on("pageerror", (error) => say(`script: ${error.message}`));
    page.on("request", (request) => /^(file|data):/.test(request.url()) || say(`asks for ${request.url()}`));
    page.on("dialog", (dialog) => { say("a dialog: content ran as script"); dialog.dismiss(); });
    await page.setOfflineMode(true);
    await page.setViewport({ width, height: 900, deviceScaleFactor: 1, isMobile: width < 500, hasTouch: width < 500 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(pathToFileURL(join(pages, name)).href, { waitUntil: "load" });
    const shot = join(shots, `${name.replace(/\.html$/, "").slice(0, 60)}-${width}-${scheme}`);
    const isWide = () => page.evaluate(() => document.scrollingElement.scrollWidth);
    const closed = await isWide();
    if (closed > width) say(`scrolls sideways: ${closed} px`);
    await page.screenshot({ path: `${shot}.png`, fullPage: true });

    // With all <details> open, every chart must be drawn and fit the width.
    await page.evaluate(() => document.querySelectorAll("details").forEach((element) => { element.open = true; }));
    await new Promise((done) => setTimeout(done, 100));
    const open = await isWide();
    if (open > width) say(`scrolls sideways with details open: ${open} px`);
    const empty = await page.evaluate(() => [...document.querySelectorAll("script[data-for]")]
      .map((script) => document.getElementById(script.dataset.for))
      .filter((element) => !element.querySelector("svg path[d]") || element.clientHeight < 50)
      .map((element) => element.getAttribute("aria-label")));
    if (empty.length) say(`charts not drawn: ${empty.join("; ")}`);
    if (/\bNaN\b|Infinity|undefined/.test(await page.evaluate(() => document.body.innerText))) say("NaN, Infinity or undefined in its text");

    await page.evaluate(axe);
    const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
    for (const violation of found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact))) {
      violations += 1;
      say(`axe ${violation.id} (${violation.impact}): ${violation.nodes.length} times, ${violation.nodes[0].html.slice(0, 200)} ${violation.nodes[0].failureSummary}`);
    }
    if (width === 390) await page.screenshot({ path: `${shot}-open.png`, fullPage: true });

    // With the keyboard, the first Tab must reach the link that skips to the content.
    await page.evaluate(() => scrollTo(0, 0));
    await page.keyboard.press("Tab");
    if (!(await page.evaluate(() => document.activeElement.classList.contains("skip")))) say("the first Tab is not the skip link");
    await page.keyboard.press("Enter");
    if (!(await page.evaluate(() => location.hash === "#main"))) say("the skip link does not lead to the content");
    await page.close();
  }
  // Without script, no chart may leave an empty area, and each figure must have its sentence and
  // table.
  const page = await browser.newPage();
  await page.setJavaScriptEnabled(false);
  await page.goto(pathToFileURL(join(pages, name)).href, { waitUntil: "load" });
  const silent = await page.$$eval("figure", (figures) => figures.filter((figure) =>
    figure.querySelector(".chart").offsetHeight > 0 || !figure.querySelector("figcaption").textContent.trim() || !figure.querySelector("table")).length);
  if (silent) wrong.push(`${name} without script: ${silent} figures have no sentence, no table, or an empty chart`);
  await page.close();
}

// The chart for a README must work on its own in both colour schemes.
const chart = join(pages, "../chart.svg");
if (existsSync(chart)) {
  for (const scheme of ["light", "dark"]) {
    const page = await browser.newPage();
    page.on("request", (request) => /^(file|data):/.test(request.url()) || wrong.push(`chart.svg asks for ${request.url()}`));
    await page.setOfflineMode(true);
    await page.setViewport({ width: 640, height: 460 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(pathToFileURL(chart).href);
    await page.screenshot({ path: join(shots, `chart-${scheme}.png`) });
    const beyond = await page.evaluate(() => [...document.querySelectorAll("text")]
      .filter((text) => { const box = text.getBoundingClientRect(); return box.left < 0 || box.right > 640 || box.bottom > 460; })
      .map((text) => text.textContent));
    if (beyond.length) wrong.push(`chart.svg, ${scheme}: beyond its edge: ${beyond.join("; ")}`);
    await page.close();
  }
} else {
  wrong.push(`no ${chart}`);
}

// With the keyboard, a curve can be hidden and shown again by the button with its name.
const page = await browser.newPage();
await page.goto(pathToFileURL(join(pages, names.find((name) => name.includes("iibench") && name.startsWith("workload")))).href);
const count = () => page.$$eval(".chart svg path", (paths) => paths.length);
if (await page.$(".names button")) {
  await page.focus(".names button");
  const before = await count();
  await page.keyboard.press("Space");
  const after = await count();
  if (!(after < before)) wrong.push(`a hidden curve is still drawn: ${before}, then ${after} paths`);
  await page.keyboard.press("Space");
  if ((await count()) !== before) wrong.push("a curve that is shown again is not drawn");
} else {
  wrong.push("no names of curves to press");
}
await browser.close();

console.log(`${names.length} pages at 390 and 1280 px, light and dark; screenshots in ${shots}`);
console.log(`axe-core: ${violations} serious or critical findings`);
if (wrong.length) {
  console.error([...new Set(wrong)].join("\n"));
  process.exit(1);
}
