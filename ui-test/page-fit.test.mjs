// The page at common widths: full screen, half a screen next to an editor, and phone. No
// error, caret, hint, tree or response is cut off.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { shot } from './page/browser.mjs';
import { chooseApp, idle, sendMessage, start } from './page/see.mjs';

const { see, file, save } = await start('apps/hello', 'apps/pipeline', 'ui-test/page/apps/desk', 'ui-test/page/apps/writer');

const good = readFileSync(file('pipeline', 'root_agent.yaml'), 'utf8');
save(`${good.replace('description: Writes a short text', 'description: Writes a short text, in as many words as it takes, {')}instuction: a line that is long enough to be cut off wherever the page is narrow, and then some more words of it\n`, 'hello', 'root_agent.yaml');

const panes = async (page, pane) => {
  if (await page.isVisible('#panes')) await page.click(`#panes [data-pane=${pane}]`);
};

/** cutOff returns the elements of a selector that exceed the page or their pane. */
const cutOff = (page, selector) => page.evaluate((sought) => [...document.querySelectorAll(sought)].flatMap((element) => {
  const box = element.getBoundingClientRect();
  const pane = (element.closest('#app, #talk') ?? document.body).getBoundingClientRect();
  if (box.width === 0) return [];
  return box.right > pane.right + 0.5 || box.left < pane.left - 0.5 || element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== 'inline'
    ? [`${element.tagName}.${element.getAttribute('class')} ${Math.round(box.left)}..${Math.round(box.right)} of ${Math.round(pane.left)}..${Math.round(pane.right)}, scrolls ${element.scrollWidth} of ${element.clientWidth}: ${element.textContent.slice(0, 40)}`] : [];
}), selector);

for (const width of [2560, 1920, 1280, 960, 700, 500, 390, 320]) {
  for (const colorScheme of ['light', 'dark']) {
    see(`problems, tree and chat fit ${width} pixels, ${colorScheme}`, async (page) => {
      const name = `page ${width} ${colorScheme}`;
      await page.waitForSelector('#problems .snippet .at');
      assert.deepEqual(await cutOff(page, '#problems *, #head *, #apps li'), []);
      const carets = await page.evaluate(() => [...document.querySelectorAll('.snippet .at')].map((at) => {
        const [caret, pane] = [at.getBoundingClientRect(), document.getElementById('app').getBoundingClientRect()];
        return caret.width > 0 && caret.right <= pane.right;
      }));
      assert.ok(carets.length > 0 && carets.every(Boolean));
      await shot(page, `${name} problems`);
      await chooseApp(page, 'pipeline');
      await page.waitForSelector('.node[data-agent=critic]');
      assert.deepEqual(await cutOff(page, '.tree, .tree svg, .node rect'), []);
      await panes(page, 'talk');
      const chrome = await page.locator('#events').boundingBox();
      assert.ok(chrome.y < 60, `${chrome.y} pixels are above the first message: more than one row`);
      if (width >= 1920) assert.ok(chrome.width > width * 0.35, `the chat has ${chrome.width} of ${width} pixels`);
      await sendMessage(page, 'Tea in winter');
      await idle(page);
      await panes(page, 'app');
      await page.waitForSelector('#state th');
      assert.deepEqual(await cutOff(page, '#state table, #changes *'), []);
      await shot(page, `${name} tree`);
      await chooseApp(page, 'desk');
      await page.waitForSelector('#head h1:text("desk")');
      await panes(page, 'talk');
      await sendMessage(page, 'refund it all');
      await page.waitForSelector('.question');
      await idle(page);
      assert.deepEqual(await cutOff(page, '#talk *, #top *:not(.title)'), []);
      await shot(page, `${name} chat`);
      await panes(page, 'app');
      await chooseApp(page, 'writer');
      await panes(page, 'talk');
      await page.waitForSelector('#session .title');
      await sendMessage(page, 'What is the refund policy?');
      await page.waitForSelector('.md .task');
      await idle(page);
      assert.deepEqual(await cutOff(page, '.md > :not(.scroll, .code)'), []);
      await shot(page, `${name} markdown`);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `the page is ${over} pixels too wide`);
    }, { hash: '/#hello', colorScheme, viewport: { width, height: width < 720 ? 800 : 1000 } });
  }
}
