// The sessions of the page at /: titles, search, deletion, the sources of state, and two tabs that
// show the same session.

import assert from 'node:assert/strict';
import { shot, tab } from './page/browser.mjs';
import { actOnSession, idle, sendMessage, start } from './page/see.mjs';

const { see, chrome, host } = await start('apps/hello', 'apps/team', 'ui-test/page/apps/desk', 'ui-test/page/apps/slow', 'ui-test/page/apps/needy');

const get = async (path) => (await fetch(host.url + path)).json();
const session = (page) => new URL(page.url()).hash.split('/')[1];
const stored = (page, app) => get(`/apps/${app}/users/user/sessions/${session(page)}`);
const titles = (page) => page.locator('#sessions a span').allTextContents();

// store creates a session whose only turn is at a time, which is its last update.
async function store(app, id, time, state = {}, user = 'user') {
  const turn = (author, text) => ({ author, id: `${id}-${author}`, invocationId: `e-${id}`, timestamp: time.getTime() / 1000, content: { role: author === 'user' ? 'user' : 'model', parts: [{ text }] } });
  const made = await fetch(`${host.url}/apps/${app}/users/${user}/sessions`, { method: 'POST', body: JSON.stringify({ sessionId: id, state, events: [turn('user', 'Hi'), turn(app, 'Hello')] }) });
  assert.equal(made.status, 200, await made.text());
}

// The title is in the state under ADK's key: ADK's web client and other browsers show the same one.
see('a session is named after its first message, and renamed', async (page) => {
  await sendMessage(page, 'little   things\nfor the shop');
  await idle(page);
  assert.equal(await page.inputValue('#session .title'), 'little things for the shop');
  assert.deepEqual((await stored(page, 'desk')).state.__session_metadata__, { displayName: 'little things for the shop' });
  await page.fill('#session .title', '  Small\u202e refunds ');
  await page.press('#session .title', 'Enter');
  await page.waitForSelector('#sessions a[aria-current] span:has-text("Small⟨U+202E⟩ refunds")');
  assert.deepEqual((await stored(page, 'desk')).state.__session_metadata__, { displayName: 'Small\u202e refunds' });
  assert.equal(await page.locator('#state th:has-text("__session")').count(), 0, 'the title is not among the values');
  await page.fill('#session .title', 'not this');
  await page.press('#session .title', 'Escape');
  assert.equal(await page.inputValue('#session .title'), 'Small⟨U+202E⟩ refunds');
}, { hash: '/#desk' });

// One click opens yesterday's conversation: the list is grouped by day.
see('sessions are found by day, by words and by state', async (page) => {
  const day = (n) => new Date(new Date().setHours(12, 0, 0, 0) - n * 86_400_000);
  await store('team', 'one', day(1), { __session_metadata__: { displayName: 'Order seven' }, city: 'Oslo' });
  await store('team', 'two', day(3), { __session_metadata__: { displayName: 'Order eight' } });
  await store('team', 'three', day(30));
  await page.reload();
  await page.waitForSelector('#sessions h3');
  assert.deepEqual((await page.locator('#sessions h3').allTextContents()).slice(0, 1), ['Yesterday']);
  assert.deepEqual(await titles(page), ['Order seven', 'Order eight', 'three']);
  await page.fill('#sessions input[type=search]', 'ORDER');
  assert.deepEqual(await titles(page), ['Order seven', 'Order eight']);
  await page.fill('#sessions input[type=search]', 'oslo');
  assert.deepEqual(await titles(page), ['Order seven']);
  await page.fill('#sessions input[type=search]', 'nothing of this');
  await page.waitForSelector('#sessions .empty:has-text("No session matches.")');
  await page.fill('#sessions input[type=search]', '');
  await page.selectOption('#sessions select', 'yesterday');
  assert.deepEqual(await titles(page), ['Order seven']);
  await page.selectOption('#sessions select', 'older');
  assert.deepEqual(await titles(page), ['three']);
  await page.selectOption('#sessions select', '');
  await shot(page, 'page sessions');
  await page.click('#sessions h3:text("Yesterday") + ul a');
  await page.waitForSelector('.event:has-text("Hello")');
  assert.equal(session(page), 'one');
}, { hash: '/#team' });

see('the sessions of another user', async (page) => {
  await store('hello', 'of-ana', new Date(), {}, 'ana');
  await page.fill('#sessions .user input', 'ana');
  await page.press('#sessions .user input', 'Enter');
  await page.click('#sessions a:has-text("of-ana")');
  await page.waitForSelector('.event:has-text("Hello")');
}, { hash: '/#hello' });

// The page deletes the session when it can no longer be undone, so closing the page loses nothing.
see('a deleted session can be restored for ten seconds', async (page) => {
  await sendMessage(page, 'order tea');
  await page.waitForSelector('.question');
  await idle(page);
  const id = session(page);
  const address = `${host.url}/apps/desk/users/user/sessions/${id}`;
  await page.clock.install();
  await actOnSession(page, 'Delete session');
  await page.waitForSelector('dialog[open] >> text=Delete this session?');
  await shot(page, 'page delete');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Cancel');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
  assert.equal(session(page), id);

  await actOnSession(page, 'Delete session');
  await page.click('dialog >> text="Delete"');
  await page.waitForSelector(`#sessions a[data-session="${id}"]`, { state: 'detached' });
  await page.clock.runFor(9000);
  assert.equal((await fetch(address)).status, 200, 'not yet');
  await shot(page, 'page undo');
  await page.click('#undo >> text=Undo (1)');
  await page.waitForSelector('.question');
  assert.equal(session(page), id);
  await page.clock.runFor(20_000);
  assert.equal((await fetch(address)).status, 200);

  await actOnSession(page, 'Delete session');
  await page.click('dialog >> text="Delete"');
  const [answer] = await Promise.all([page.waitForResponse((r) => r.request().method() === 'DELETE'), page.clock.runFor(10_000)]);
  assert.equal(answer.status(), 200);
  assert.equal((await fetch(address)).status, 404);
  assert.equal(await page.locator('#undo p').count(), 0);
}, { hash: '/#desk' });

see('a page that is left before the time is over deletes nothing', async (page) => {
  await sendMessage(page, 'keep me');
  await idle(page);
  const id = session(page);
  await actOnSession(page, 'Delete session');
  await page.click('dialog >> text="Delete"');
  await page.waitForSelector('#undo p');
  await page.reload();
  await page.waitForSelector(`#sessions a[data-session="${id}"]`);
}, { hash: '/#desk' });

see('each value of the state has its source, and edits follow the scopes', async (page) => {
  await page.click('#state >> text=Set initial state');
  await page.fill('#state textarea', '{"city": "Oslo", "user:name": "Ana"}');
  await page.click('#state >> text=Save');
  await page.waitForSelector('#state th:text("city")');
  await sendMessage(page, 'little things');
  await idle(page);
  const row = (key) => page.locator('#state tr', { has: page.locator(`th:text-is("${key}")`) });
  assert.match(await row('city').textContent(), /set at the start/);
  assert.match(await row('name').textContent(), /written before or in another session/);
  assert.match(await row('refunded').textContent(), /desk · refund/);
  await row('refunded').locator('.source button').click();
  assert.match(await page.evaluate(() => document.activeElement.textContent), /state: app:refunds, refunded/);
  await page.click('#state h2 button');
  for (const [text, problem] of [
    ['{"temp:x": 1}', '"temp:x" cannot be set here: temp: keys exist only during a run'],
    ['{"user:": 1}', 'the key "user:" needs a name after its scope'],
    ['{"__session_metadata__": {}}', 'is the session\'s title'],
    ['{"city": null}', 'the value of "city" must not be null'],
  ]) {
    await page.fill('#state textarea', text);
    await page.click('#state >> text=Save');
    await page.waitForSelector(`#state .bad:has-text(${JSON.stringify(problem)})`);
  }
  await page.fill('#state textarea', '{"city": "Bergen", "user:name": "Ana", "refunded": 5, "app:refunds": 1}');
  await page.click('#state >> text=Save');
  await page.waitForSelector('#state td:has-text("Bergen")');
  assert.match(await row('city').textContent(), /edited by hand/);
}, { hash: '/#desk' });

// Tabs of a browser notify each other; other clients are found by polling.
see('two tabs of one session follow each other', async (page) => {
  await sendMessage(page, 'one');
  await page.waitForSelector('.text:has-text("You wrote: one")');
  await idle(page);
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.waitForSelector('.text:has-text("You wrote: one")');
  await sendMessage(page, 'two');
  await other.waitForSelector('.text:has-text("You wrote: two")');
  await sendMessage(other, 'three');
  await page.waitForSelector('.text:has-text("You wrote: three")');
  assert.equal(await page.locator('.event.mine').count(), 3);
  await page.fill('#session .title', 'shared');
  await page.press('#session .title', 'Enter');
  await other.waitForSelector('#sessions a span:text-is("shared")');
}, { hash: '/#desk' });

see('a turn that another client starts appears', async (page) => {
  await sendMessage(page, 'hello');
  await page.waitForSelector('.text:has-text("Soon.")');
  await idle(page);
  const run = fetch(`${host.url}/run`, { method: 'POST', body: JSON.stringify({ appName: 'slow', userId: 'user', sessionId: session(page), newMessage: { parts: [{ text: 'wait for it' }] } }) });
  await page.waitForSelector('.event.mine:has-text("wait for it")');
  await page.waitForSelector('.text:has-text("At last.")');
  await run;
  await idle(page);
  assert.equal(await page.locator('.interrupted').count(), 0);
}, { hash: '/#slow' });

see('keys', async (page) => {
  await page.waitForSelector('.node');
  await page.keyboard.press('?');
  await page.waitForSelector('dialog.keylist >> text=stop the answer');
  await shot(page, 'page keys');
  await page.click('dialog >> text=Single keys');
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
  await page.keyboard.press('?');
  assert.equal(await page.locator('dialog').count(), 0, 'single keys are off');
  await page.keyboard.press('Alt+s');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Search sessions');
  await page.keyboard.press('Alt+n');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'message');
  await page.keyboard.press('Alt+a');
  await page.waitForSelector('#head h1:text("needy")');
}, { hash: '/#hello' });
