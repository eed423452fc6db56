// The documentation as a website: the search, by keys and by the pointer, the versions, a small screen, and no
// request to another host.

import test, { after, before } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { findings } from './page/axe.mjs';
import { browser, shot, tab } from './page/browser.mjs';

const folder = join(import.meta.dirname, '..', 'bin', 'site');
const types = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.json': 'application/json', '.svg': 'image/svg+xml', '.png': 'image/png', '.md': 'text/plain' };
let chrome;
let server;
let url;

before(async () => {
  chrome = await browser();
  server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://site').pathname));
    try {
      const content = await readFile(join(folder, path.endsWith('/') ? `${path}index.html` : path));
      response.writeHead(200, { 'Content-Type': types[extname(path)] ?? 'text/html' }).end(content);
    } catch {
      response.writeHead(404).end();
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${server.address().port}`;
});

after(async () => {
  await chrome.close();
  server.close();
});

test('the search finds a heading, and keys open it', async () => {
  const { page, complaints, close } = await tab(chrome, `${url}/`);
  try {
    await page.waitForURL(/v2\/index\.html$/);
    await page.keyboard.press('/');
    await page.keyboard.type('retention');
    await page.waitForSelector('#results [aria-selected=true]');
    const first = await page.locator('#results [role=option]').first().textContent();
    assert.match(first, /Retention/);
    await shot(page, 'docs search');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await page.waitForURL(/#retention$/);
    assert.ok(await page.locator('#retention').isVisible());
    assert.deepEqual(await findings(page), []);
    await shot(page, 'docs page');
    await page.keyboard.press('/');
    await page.keyboard.type('zzzz');
    await page.waitForSelector('text=Nothing found.');
    await page.keyboard.press('Escape');
    assert.ok(await page.locator('#results').isHidden());
    assert.deepEqual(complaints, []);
  } finally {
    await close();
  }
});

test('another version shows the same page', async () => {
  const { page, complaints, close } = await tab(chrome, `${url}/v2/operating.html`);
  try {
    await page.waitForSelector('select option:nth-child(2)', { state: 'attached' });
    assert.deepEqual(await page.locator('select option').allTextContents(), ['v2', 'v1']);
    await page.selectOption('select', 'v1');
    await page.waitForURL(/\/v1\/operating\.html$/);
    await page.goto(`${url}/v1/decisions/index.html`);
    await page.waitForSelector('select option:nth-child(2)', { state: 'attached' });
    await page.selectOption('select', 'v2');
    await page.waitForURL(/\/v2\/decisions\/index\.html$/);
    assert.deepEqual(complaints, []);
  } finally {
    await close();
  }
});

test('on a small screen the menu opens, and tables scroll by themselves', async () => {
  const { page, complaints, close } = await tab(chrome, `${url}/v2/serving.html`, { viewport: { width: 390, height: 800 } });
  try {
    assert.ok(await page.locator('nav').isHidden());
    await page.click('button.menu');
    await page.waitForSelector('nav a[aria-current=page]');
    await page.click('button.menu');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    await shot(page, 'docs small');
    assert.deepEqual(await findings(page), []);
    assert.deepEqual(complaints, []);
  } finally {
    await close();
  }
});
