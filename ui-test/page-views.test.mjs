// The views next to the chat: the revisions of an app with their outcomes and differences.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { findings } from './page/axe.mjs';
import { shot } from './page/browser.mjs';
import { idle, sendMessage, start } from './page/see.mjs';

const { see, save, file } = await start('ui-test/page/apps/desk', 'ui-test/page/apps/writer');
const desk = readFileSync(file('desk', 'root_agent.yaml'), 'utf8');

/** cutOff returns the elements of the view that exceed the pane, unless they scroll in a frame. */
const cutOff = (page) => page.evaluate(() => {
  const pane = document.getElementById('app').getBoundingClientRect();
  return [...document.querySelectorAll('#views *, #view *')].filter((node) => !node.closest('.scroll')).map((node) => [node, node.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0 && (box.right > pane.right + 0.5 || box.left < pane.left - 0.5)).map(([node]) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 40)}`);
});

// reload saves the desk's instruction and waits until it serves.
async function reload(page, text) {
  const before = await page.textContent('#head .facts code');
  save(readFileSync(file('desk', 'root_agent.yaml'), 'utf8').replace(/^instruction:.*$/m, `instruction: ${text}`), 'desk', 'root_agent.yaml');
  await page.waitForFunction((id) => document.querySelector('#head .facts code').textContent !== id, before);
}

// The list has what serves, when each revision began to serve, and the outcomes of its turns with
// their intervals. The two latest ones are compared without a click.
see('revisions with outcomes and differences', async (page) => {
  await sendMessage(page, 'hello');
  await idle(page);
  const first = await page.textContent('#head .facts code');
  await reload(page, 'Answer in one word.');
  await page.click('#views >> text=Revisions');
  await page.waitForSelector('#view .diff .is >> text=Answer in one word.');
  assert.equal(await page.locator('#view tbody tr').count(), 2);
  assert.equal(await page.textContent('#view tr[data-serving] th code'), await page.textContent('#head .facts code'));
  assert.match(await page.locator('#view tbody tr', { hasText: first }).textContent(), /10\.0 %0\.0 % to 79\.3 %/);
  await page.waitForSelector('#view .plan >> text=The files on disk are the revision that serves.');
  assert.match(page.url(), /#desk\/[^/]+\/revisions$/);
  await page.locator('#view').getByLabel(`Compare from ${await page.textContent('#head .facts code')}`).check();
  await page.waitForSelector('#view >> text=Choose two different revisions.');
  await page.reload();
  await page.waitForSelector('#view .diff .is >> text=Answer in one word.');
  save('name: desk\nmodel: demo\ninstuction: <b>no</b>\n', 'desk', 'root_agent.yaml');
  await page.waitForSelector('#view .plan .bad >> text=they would not be activated');
  await page.waitForSelector('#problems .snippet');
}, { hash: '/#desk' });

// A wrong answer is corrected in the files: two clicks show both revisions' answers to the same message.
see('the answers of two revisions to one message are compared', async (page) => {
  await page.waitForSelector('#head h1:text("writer")');
  await sendMessage(page, 'what is 2+2?');
  await page.waitForSelector('text=Refund policy');
  await idle(page);
  save('- text: "The answer is <i>4</i>."\n', 'writer', 'demo.script.yaml');
  await page.waitForSelector('.notice.loaded');
  let clicks = 0;
  const click = async (locator) => (clicks++, locator.click());
  await click(page.getByRole('button', { name: 'Retry' }));
  await page.waitForSelector('text=The answer is <i>4</i>.');
  await idle(page);
  await click(page.getByRole('button', { name: 'Compare' }));
  await page.waitForSelector('.answers >> text=The answer is <i>4</i>.');
  assert.equal(clicks, 2);
  const revisions = await page.locator('.answers h3 code').allTextContents();
  assert.equal(revisions.length, 2);
  assert.notEqual(revisions[0], revisions[1]);
  assert.equal(await page.locator('.sheet i').count(), 0);
  await page.waitForSelector('.compared');
  await shot(page, 'page views answers');
}, { hash: '/#writer' });

for (const [width, height] of [[2560, 1440], [1920, 1080], [960, 900], [700, 800], [500, 800], [390, 800]]) {
  for (const colorScheme of ['light', 'dark']) {
    see(`revisions at ${width} px, ${colorScheme}`, async (page) => {
      await page.waitForSelector('#views [data-view=revisions]');
      await page.focus('#views [data-view=revisions]');
      await page.keyboard.press('Enter');
      await page.waitForSelector('#view .diff');
      assert.deepEqual(await cutOff(page), []);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
      assert.deepEqual(await findings(page), []);
      if (width >= 1920) assert.ok((await page.locator('#view').boundingBox()).width > width * 0.8, 'the view has the window');
      await shot(page, `page views revisions ${width} ${colorScheme}`);
    }, { hash: '/#writer', viewport: { width, height }, colorScheme });
  }
}

const EVIL = '<img src=x onerror="window.ran=1">\u202egpj.exe\u0007';

// A running turn is listed with a button that stops it. Names of users and sessions, and errors, always
// stay text, and 10000 rows are bounded.
see('operations stop a turn, and show hostile and many rows as text', async (page) => {
  await sendMessage(page, 'please wait');
  await page.waitForFunction(() => document.getElementById('send').textContent === 'Stop');
  await page.click('#views >> text=Operations');
  const turns = page.locator('#view [aria-label="Running turns"]');
  await turns.locator('tbody tr >> text=desk').waitFor();
  assert.match(await page.textContent('#view [aria-label="Replicas"]'), /this one/);
  await turns.getByRole('button', { name: /^Stop the turn/ }).click();
  await turns.locator('text=No turn runs.').waitFor();
  const many = Array.from({ length: 10_000 }, (_, n) => n);
  const name = `h${EVIL}`;
  await page.route('**/-/operations', (route) => route.fulfill({ json: {
    time: '2026-11-26T10:00:00Z', replicas: [{ name, here: true, turns: 1, version: EVIL, apps: many.map(() => ({ app: EVIL, revision: EVIL })) }, ...many.map((n) => ({ name: `${n}`, here: false, turns: 1 }))],
    turns: many.map(() => ({ app: EVIL, user: EVIL, session: EVIL, replica: EVIL })), usage: many.map(() => ({ name: EVIL, unit: EVIL, used: 1, max: 2 })),
    log: many.map(() => ({ time: '2026-11-26T10:00:00Z', level: 'ERROR', message: EVIL, attrs: [EVIL] })), logged: 10_000,
  } }));
  await page.locator('#view').getByRole('button', { name: 'Refresh' }).click();
  await page.waitForSelector('#view >> text=9800 more turns not shown.');
  assert.ok(await page.locator('#view *').count() < 12_000);
  assert.equal(await page.locator('#view img').count(), 0);
  assert.ok(!/[\u202e\u0007]/.test(await page.textContent('#view')), 'control characters are visible');
  assert.equal(await page.evaluate(() => window.ran), undefined);
  await shot(page, 'page views operations hostile');
}, { hash: '/#desk' });

// A changed file is replayed with one click: the first difference of each session, with the line that
// changed. Names in a report always stay text.
see('sessions are replayed on the files', async (page) => {
  save(desk, 'desk', 'root_agent.yaml');
  await page.waitForSelector('#head .facts:not(:has-text("errors"))');
  await sendMessage(page, 'hello');
  await idle(page);
  await page.click('#views >> text=Revisions');
  const replay = page.locator('#view').getByRole('button', { name: 'Replay sessions' });
  await replay.click();
  await page.waitForSelector('#view .replay [data-same]');
  assert.match(await page.textContent('#view .replay'), /At most [\d.]+ % of the sessions differ/);
  save('name: desk\nmodel: demo\ninstruction: Be kind to {customer}.\n', 'desk', 'root_agent.yaml');
  await page.waitForSelector('#view .diff .is >> text=Be kind to {customer}.');
  await replay.click();
  const row = page.locator('#view .replay tbody tr').first();
  await row.waitFor();
  assert.match(await row.textContent(), /^fails.*fails with MISSING_VALUE.*root_agent\.yaml:\d+$/);
  assert.deepEqual(await findings(page), []);
  await shot(page, 'page views replay');
  await page.setViewportSize({ width: 390, height: 800 });
  assert.deepEqual(await cutOff(page), []);
  await shot(page, 'page views replay 390');
  await page.route('**/replay', (route) => route.fulfill({ json: {
    app: EVIL, problems: [], revision: EVIL, sessions: 20_000, turns: 20_000, same: 0, counts: { tool: 10_000, [EVIL]: 1 }, most: 1,
    differences: Array.from({ length: 500 }, () => ({ user: EVIL, session: EVIL, turn: 1, class: EVIL, place: EVIL, lines: [EVIL, EVIL] })), moreDifferences: 9500,
    incomparable: Array.from({ length: 500 }, (_, n) => ({ reason: `${EVIL}${n}` })),
  } }));
  await replay.click();
  await page.waitForSelector('#view .replay >> text=9900 more');
  assert.equal(await page.locator('#view img').count(), 0);
  assert.ok(!/[\u202e\u0007]/.test(await page.textContent('#view')), 'control characters are visible');
  assert.equal(await page.evaluate(() => window.ran), undefined);
}, { hash: '/#desk' });

for (const [width, height] of [[1920, 1080], [960, 900], [700, 800], [390, 800]]) {
  for (const colorScheme of ['light', 'dark']) {
    see(`operations at ${width} px, ${colorScheme}`, async (page) => {
      await page.waitForSelector('#view [aria-label="Running turns"]');
      assert.deepEqual(await cutOff(page), []);
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
      assert.deepEqual(await findings(page), []);
      await shot(page, `page views operations ${width} ${colorScheme}`);
    }, { hash: '/#writer//operations', viewport: { width, height }, colorScheme });
  }
}
