// Checks pages of `vmbell report` in Chromium, through Playwright: node check.mjs MODULES CHROMIUM FOLDER
//
// MODULES has node_modules with playwright-core and axe-core. FOLDER has the pages and pages.json, a list of {name,
// dots}, in which `dots` is the number of dots of each row.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [modules, executablePath, folder] = process.argv.slice(2);
const require = createRequire(join(modules, 'from.js'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// The time limit of each browser step, in milliseconds. Playwright's 30 s are too short for a screenshot on a busy machine.
const PATIENCE = 600_000;

const VIEWS = [
  { name: 'wide', width: 1280, height: 800, colorScheme: 'light', media: 'screen' },
  { name: 'wide-dark', width: 1280, height: 800, colorScheme: 'dark', media: 'screen' },
  { name: 'phone', width: 390, height: 844, colorScheme: 'light', media: 'screen' },
  // The size of A4 between margins of a centimetre.
  { name: 'paper', width: 718, height: 1046, colorScheme: 'dark', media: 'print' },
];

// A page with every fault, and what the checks have to report for it. It shows that the checks find faults at all.
const BROKEN = `<!DOCTYPE html><html lang=en><title>broken</title><main>
  <h1 style='color:#ccc;background:#fff'>Too pale</h1><div style='width:3000px'>Too wide</div>
  <svg width=100 height=20><text x=0 y=15>one</text><text x=5 y=15>other</text></svg>
  <img alt=picture src='absent.png'><script>console.log('chatter'); throw 'a fit'</script></main>`;
const FOUND = ['pixels wide, 1280 are there', 'cut: <div', 'labels collide: one and other',
  '"absent row" has undefined of 1 dots', 'axe-core: color-contrast', 'the first Tab leads to',
  'request: file://', 'error: ', 'log: chatter', 'exception: a fit'];

// Returns what a view shows. Labels and rows are read from the layout.
function shown() {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const box = element => element.getBoundingClientRect();
  const scrolls = element => {
    const around = element.parentElement.closest('.scroll');
    return around && getComputedStyle(around).overflowX === 'auto';
  };
  const isCut = element => box(element).width > 0 && !scrolls(element) && !element.classList.contains('skip')
    && (box(element).right > innerWidth + 1 || box(element).left < -1);
  const touch = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  const collisions = drawing => {
    const texts = all('text', drawing).map(text => [text.textContent.trim(), box(text)]);
    return texts.flatMap(([one, a], place) =>
      texts.slice(place + 1).filter(([, b]) => touch(a, b)).map(([other]) => one + ' and ' + other));
  };
  const drawn = {};
  for (const row of all('main > section:not(#exits):not(#overview) > .chart .rows > li')) {
    const name = row.querySelector('.name').textContent;
    drawn[name] = (drawn[name] ?? 0) + all('.line circle', row).filter(dot => box(dot).width > 0.5).length;
  }
  return {
    width: document.documentElement.scrollWidth,
    // Elements that extend past the edge of the window, except those in a box that scrolls.
    cut: all('body *').filter(isCut).map(element => element.outerHTML.slice(0, 120)).slice(0, 5),
    colliding: all('svg').flatMap(collisions).slice(0, 5),
    drawn,
  };
}

// Returns what is wrong in this view.
async function check(page, view, dots) {
  await page.setViewportSize(view);
  await page.emulateMedia(view);
  const { width, cut, colliding, drawn } = await page.evaluate(shown);
  const found = [
    ...(width > view.width ? [`the page is ${width} pixels wide, ${view.width} are there`] : []),
    ...cut.map(element => `cut: ${element}`),
    ...colliding.map(labels => `labels collide: ${labels}`),
    ...Object.entries(dots).filter(([name, count]) => drawn[name] !== count)
      .map(([name, count]) => `"${name}" has ${drawn[name]} of ${count} dots`),
  ];
  if (view.name.startsWith('wide')) {
    const { violations } = await page.evaluate(() => axe.run(document, { preload: false, resultTypes: ['violations'] }));
    found.push(...violations.flatMap(rule => rule.nodes.slice(0, 3).map(node =>
      `axe-core: ${rule.id}: ${node.target}: ${node.failureSummary}`)));
  }
  return found;
}

// The first key has to move to the link that skips the header, which becomes visible.
async function keyboard(page) {
  await page.keyboard.press('Tab');
  const focus = await page.evaluate(() => {
    const focus = document.activeElement;
    const left = focus.getBoundingClientRect().left;
    focus.blur();
    return { name: focus.className, left };
  });
  return focus.name === 'skip' && focus.left >= 0 ? [] : [`the first Tab leads to ${JSON.stringify(focus)}`];
}

// Returns what is wrong with a page in all of these views, and leaves a screenshot of each.
async function test(browser, { name, dots }, views) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE);
  const url = pathToFileURL(join(folder, `${name}.html`)).href;
  const found = [];
  page.on('request', request => request.url() === url || found.push(`request: ${request.url()}`));
  page.on('console', message => found.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', error => found.push(`exception: ${error.message ?? error}`));
  await page.goto(url);
  found.push(...await keyboard(page));
  await page.evaluate(axe);
  for (const view of views) {
    const wrong = await check(page, view, dots);
    found.push(...wrong.map(text => `${view.name}: ${text}`));
    await page.screenshot({ path: join(folder, `${name}-${view.name}.png`), fullPage: true });
  }
  const margin = { top: '1cm', bottom: '1cm', left: '1cm', right: '1cm' };
  const paper = await page.pdf({ path: join(folder, `${name}.pdf`), format: 'A4', margin });
  const sheets = paper.toString('latin1').split('/Type /Page\n').length - 1;
  if (sheets === 0) found.push('nothing is on paper');
  await page.close();
  return { found, sheets };
}

const browser = await chromium.launch({ executablePath, timeout: PATIENCE });
fs.writeFileSync(join(folder, 'broken.html'), BROKEN);
const broken = await test(browser, { name: 'broken', dots: { 'absent row': 1 } }, VIEWS.slice(0, 1));
const missed = FOUND.filter(text => !broken.found.some(found => found.includes(text)));
if (missed.length > 0) {
  console.error(`the broken page is not said to have ${JSON.stringify(missed)} but\n  ${broken.found.join('\n  ')}`);
  process.exitCode = 1;
}
for (const page of JSON.parse(fs.readFileSync(join(folder, 'pages.json')))) {
  const { found, sheets } = await test(browser, page, VIEWS);
  if (found.length > 0) {
    console.error(`${page.name}.html is wrong:\n  ${found.join('\n  ')}`);
    process.exitCode = 1;
  } else {
    console.log(`page: ${page.name} is right in ${VIEWS.length} views, and on ${sheets} sheets of paper`);
  }
}
await browser.close();
