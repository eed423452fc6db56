// The chat of the page at /: messages and responses when the app is removed, the page
// reloads, a run fails, or another window shows the same session.

import test from 'node:test';
import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { apps, serve } from './host.mjs';
import { shot, tab, until } from './page/browser.mjs';
import { idle, sendMessage, start } from './page/see.mjs';

const { see, chrome, host, file } = await start('apps/hello', 'apps/team', 'apps/tools', 'ui-test/page/apps/desk', 'ui-test/page/apps/slow', 'ui-test/page/apps/needy');

const elsewhere = mkdtempSync(join(tmpdir(), 'agenthost-ui-'));
const away = join(elsewhere, 'team');
test.after(() => rmSync(elsewhere, { recursive: true }));

const answers = (page) => page.locator('.event:not(.mine) .text').allTextContents();
const get = async (path) => (await fetch(host.url + path)).json();

// If the folder of the selected app is removed, the page does not select another app: it
// shows an error, sends nothing, and keeps the draft until the folder is back.
see('the selected app is removed and restored while the user writes a message', async (page) => {
  await page.waitForSelector('#head h1:text("team")');
  await page.fill('#message', 'please refund order 7');
  renameSync(file('team'), away);
  await page.waitForSelector('#apps button[data-app=team]', { state: 'detached' });
  assert.equal(new URL(page.url()).hash, '#team');
  await page.waitForSelector('#head h1:text("App team is gone")');
  assert.ok(await page.isDisabled('#send'));
  assert.match(await page.textContent('#blocked'), /App team is gone/);
  await page.press('#message', 'Enter');
  assert.equal(await page.inputValue('#message'), 'please refund order 7');
  assert.equal(await page.locator('.event').count(), 0);
  for (const app of ['desk', 'hello', 'slow', 'tools']) assert.deepEqual(await get(`/apps/${app}/users/user/sessions`), [], app);
  await shot(page, 'page gone');
  await page.click('#head >> text=desk');
  assert.equal(await page.inputValue('#message'), '');
  await page.evaluate(() => { location.hash = '#team'; });
  await page.waitForSelector('#head h1:text("App team is gone")');
  assert.equal(await page.inputValue('#message'), 'please refund order 7');
  renameSync(away, file('team'));
  await page.waitForSelector('#head h1:text-is("team")');
  await page.waitForSelector('.node');
  assert.ok(await page.isEnabled('#send'));
  await page.press('#message', 'Enter');
  await page.waitForSelector('.event.mine');
  await idle(page);
  assert.equal((await get('/apps/team/users/user/sessions')).length, 1);
}, { hash: '/#team' });

// The app was removed but the page has not received the change yet: the server rejects
// the message, which becomes the draft again.
see('a message to a removed app becomes the draft again', async (page) => {
  await page.waitForSelector('#head h1:text("hello")');
  await page.route('**/apps/hello/users/user/sessions', (route) => (route.request().method() === 'POST'
    ? route.fulfill({ status: 404, json: { detail: 'App not found: hello' } }) : route.continue()));
  await sendMessage(page, 'for hello alone');
  await page.waitForSelector('#events >> text=App not found: hello');
  assert.equal(await page.inputValue('#message'), 'for hello alone');
}, { hash: '/#hello', forgive: /404/ });

// Selecting another app while a message is being sent cancels the run; nothing is sent
// to the other app.
see('another app is selected while the session is being created', async (page) => {
  await page.waitForSelector('#head h1:text("hello")');
  const sent = [];
  await page.route('**/apps/hello/users/user/sessions', async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    await page.click('#apps button[data-app=desk]');
    return route.continue().catch(() => {});
  });
  page.on('request', (request) => request.url().endsWith('/run_sse') && sent.push(request.postData()));
  await sendMessage(page, 'for hello alone');
  await page.waitForSelector('#head h1:text("desk")');
  await idle(page);
  await page.waitForFunction(() => document.querySelectorAll('.event').length === 0);
  assert.deepEqual(sent, []);
}, { hash: '/#hello' });

see('a stop before the session is created keeps the message as a draft', async (page) => {
  await page.waitForSelector('#head h1:text("hello")');
  await page.route('**/apps/hello/users/user/sessions', (route) => (route.request().method() === 'POST' ? null : route.continue()));
  await sendMessage(page, 'never mind');
  await page.waitForSelector('#send:text("Stop")');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.interrupted:has-text("Interrupted before the message was sent.")');
  assert.equal(await page.inputValue('#message'), 'never mind');
}, { hash: '/#hello' });

see('a URL with an unknown app', async (page) => {
  await page.waitForSelector('#head h1:text("No app named nosuch")');
  assert.match(await page.textContent('#head'), /Apps of this server:.*hello/);
  assert.ok(await page.isDisabled('#send'));
  await shot(page, 'page nosuch');
  await page.click('#head >> text=hello');
  await page.waitForSelector('#head h1:text("hello")');
  assert.ok(await page.isEnabled('#send'));
}, { hash: '/#nosuch' });

// The server runs the turn to its end without the page, and the page finds it again.
see('a page reload during a response shows the rest of it', async (page) => {
  await sendMessage(page, 'wait for it');
  await page.waitForFunction(() => location.hash.split('/').length === 2);
  const events = `/apps/slow/users/user/sessions/${new URL(page.url()).hash.split('/')[1]}`;
  await until(async () => (await get(events)).events.length, 'the message is stored');
  await page.reload();
  await page.waitForSelector('#blocked:has-text("Loading the rest of this turn")');
  await page.waitForSelector('.text:has-text("At last.")');
  await idle(page);
  assert.equal(await page.locator('.event.mine').count(), 1);
  assert.equal(await page.locator('.interrupted').count(), 0);
}, { hash: '/#slow' });

see('a turn that is found again can be stopped', async (page) => {
  await sendMessage(page, 'take long');
  await page.waitForFunction(() => location.hash.split('/').length === 2);
  const events = `/apps/slow/users/user/sessions/${new URL(page.url()).hash.split('/')[1]}`;
  await until(async () => (await get(events)).events.length, 'the message is stored');
  await page.reload();
  await page.waitForSelector('#blocked:has-text("Loading the rest of this turn")');
  await page.click('#send:text("Stop")');
  await page.waitForSelector('.interrupted >> text=Retry');
  assert.equal((await get(events)).events.at(-1).errorCode, 'INVOCATION_ABORTED');
  assert.doesNotMatch(await page.textContent('#events'), /INVOCATION_ABORTED/);
}, { hash: '/#slow' });

// A stored turn without a final event and without a running invocation was interrupted.
see('a turn whose client left is shown as interrupted, with a retry', async (page) => {
  await fetch(`${host.url}/apps/slow/users/user/sessions/left`, { method: 'POST' });
  const leave = new AbortController();
  const run = fetch(`${host.url}/run_sse`, { method: 'POST', signal: leave.signal, body: JSON.stringify({ appName: 'slow', userId: 'user', sessionId: 'left', newMessage: { parts: [{ text: 'wait for it' }] } }) }).catch(() => {});
  await until(async () => (await get('/apps/slow/users/user/sessions/left')).events.length, 'the message is stored');
  leave.abort();
  await run;
  await page.evaluate(() => { location.hash = '#slow/left'; });
  await page.waitForSelector('.interrupted:has-text("This turn was interrupted before it had an answer.")');
  await shot(page, 'page interrupted');
  await page.click('.interrupted >> text=Retry');
  await page.waitForSelector('#send:text("Stop")');
  await page.waitForSelector('.text:has-text("At last.")');
  await idle(page);
  assert.equal(await page.locator('.interrupted').count(), 0);
  await page.reload();
  await page.waitForSelector('.text:has-text("At last.")');
  assert.equal(await page.locator('.event.mine').count(), 1, 'the turn is not shown twice');
  assert.equal(await page.inputValue('#message'), '', 'a sent message is not a draft');
  assert.equal(await page.locator('.interrupted').count(), 0);
}, { hash: '/#slow' });

see('a turn started by another client is followed to its end', async (page) => {
  await fetch(`${host.url}/apps/slow/users/user/sessions/shared`, { method: 'POST' });
  const run = fetch(`${host.url}/run`, { method: 'POST', body: JSON.stringify({ appName: 'slow', userId: 'user', sessionId: 'shared', newMessage: { parts: [{ text: 'wait for it' }] } }) });
  await until(async () => (await get('/apps/slow/users/user/sessions/shared')).events.length, 'the message is stored');
  await page.evaluate(() => { location.hash = '#slow/shared'; });
  await page.waitForSelector('#blocked:has-text("Loading the rest of this turn")');
  await page.waitForSelector('.text:has-text("At last.")');
  await run;
  await idle(page);
  assert.equal(await page.locator('.interrupted').count(), 0);
}, { hash: '/#slow' });

see('a turn that ended after a tool call is shown as interrupted', async (page) => {
  const turn = (id, author, parts, more = {}) => ({ id, author, invocationId: 'e-1', content: { role: author === 'user' ? 'user' : 'model', parts }, ...more });
  const call = { functionCall: { id: 'c1', name: 'order', args: {} } };
  const response = { functionResponse: { id: 'c1', name: 'order', response: { ok: true } } };
  await fetch(`${host.url}/apps/desk/users/user/sessions`, { method: 'POST', body: JSON.stringify({ sessionId: 'cut', events: [turn('a', 'user', [{ text: 'order it' }]), turn('b', 'desk', [call]), turn('c', 'desk', [response])] }) });
  await page.evaluate(() => { location.hash = '#desk/cut'; });
  await page.waitForSelector('.interrupted:has-text("This answer was interrupted.") >> text=Retry');
}, { hash: '/#desk' });

see('an error is shown once, with a retry', async (page) => {
  await sendMessage(page, 'fail, please');
  await page.waitForSelector('#events .bad');
  await page.waitForSelector('.bad:has-text("come back later") >> text=Retry');
  await shot(page, 'page error');
  const text = await page.textContent('#events');
  assert.equal(text.split('come back later').length - 1, 1, text);
  await page.reload();
  await page.waitForSelector('#events .bad');
  assert.equal((await page.textContent('#events')).split('come back later').length - 1, 1);
}, { hash: '/#slow' });

// Whatever a server or a proxy responds, the page shows a message.
for (const [name, response, want] of [
  ['an empty body', { status: 502, body: '' }, /Bad Gateway|status 502/],
  ['an empty detail', { status: 500, json: { detail: '' } }, /status 500/],
  ['an empty list', { status: 422, json: { detail: [] } }, /status 422/],
  ['an object', { status: 400, json: { detail: { reason: 'quota' } } }, /quota/],
  ['a list of another form', { status: 400, json: { detail: [null, { msg: 'too long' }] } }, /^too long$/],
]) {
  see(`an error response with ${name} shows a message`, async (page) => {
    await page.route('**/run_sse*', (route) => route.fulfill(response));
    await sendMessage(page, 'hello');
    await page.waitForSelector('#events > .bad');
    assert.match(await page.textContent('#events > .bad'), want);
  }, { hash: '/#hello', forgive: /Failed to load resource/ });
}

see('an error without an event is shown once', async (page) => {
  await sendMessage(page, 'hello');
  await page.waitForSelector('#events .bad');
  await idle(page);
  assert.equal((await page.textContent('#events')).split('Context variable not found').length - 1, 1);
}, { hash: '/#needy' });

see('a new session starts with initial state, and its state can be edited', async (page) => {
  await page.click('#state >> text=Set initial state');
  await page.fill('#state textarea', '{"team": "red"');
  await page.click('#state >> text=Save');
  await page.waitForSelector('#state .bad:has-text("not valid JSON")');
  await page.fill('#state textarea', '["red"]');
  await page.click('#state >> text=Save');
  await page.waitForSelector('#state .bad:has-text("state must be a JSON object")');
  await shot(page, 'page state');
  await page.fill('#state textarea', '{"team": "red", "user:lang": "pt"}');
  await page.click('#state >> text=Save');
  await page.waitForSelector('#state th:text("team")');
  await sendMessage(page, 'hello');
  await page.waitForSelector('.text:has-text("The team is red")');
  await idle(page);
  await page.click('#state h2 button:text("Edit")');
  assert.deepEqual(JSON.parse(await page.inputValue('#state textarea')), { team: 'red', 'user:lang': 'pt' });
  await page.fill('#state textarea', '{"team": "blue"}');
  await page.click('#state >> text=Save');
  await page.waitForSelector('#state td:has-text("blue")');
  const [app, session] = new URL(page.url()).hash.slice(1).split('/');
  assert.deepEqual((await get(`/apps/${app}/users/user/sessions/${session}`)).state, { team: 'blue', __session_metadata__: { displayName: 'hello' } });
  await sendMessage(page, 'again');
  await page.waitForSelector('.text:has-text("The team is blue")');
}, { hash: '/#needy' });

// Both windows offer the approval; the second one then shows the decision and its result.
see('an approval given in another window is not sent again', async (page) => {
  await sendMessage(page, 'refund it');
  await page.waitForSelector('.question >> text=Approve');
  await idle(page);
  const other = await tab(chrome, page.url());
  try {
    await other.page.waitForSelector('.question >> text=Approve');
    await page.click('.question >> text=Approve');
    await page.waitForSelector('.text:has-text("The till returned {\\"paid\\":500}.")');
    await idle(page);
    await other.page.click('.question >> text=Approve');
    await other.page.waitForSelector('.notice:has-text("already answered in another window")');
    assert.deepEqual(await answers(other.page), await answers(page));
    await sendMessage(page, 'a little more');
    await idle(page);
    await page.waitForSelector('.text:has-text("The till returned {\\"paid\\":5}.")');
    await other.page.evaluate(() => window.dispatchEvent(new Event('focus')));
    await other.page.waitForSelector('.text:has-text("The till returned {\\"paid\\":5}.")');
    const asked = [];
    other.page.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await Promise.all([other.page.waitForResponse('**/sessions'), other.page.evaluate(() => window.dispatchEvent(new Event('focus')))]);
    assert.deepEqual(asked, ['/apps/desk/users/user/sessions'], 'a session that did not change is not fetched');
    assert.deepEqual(other.complaints, []);
  } finally {
    await other.close();
  }
}, { hash: '/#desk' });

see('a message can be copied', async (page) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await sendMessage(page, 'one');
  await page.click('.event:not(.mine) .copy');
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'You wrote: one');
}, { hash: '/#desk' });

test('a server with authentication reports why a token is rejected', async () => {
  const some = apps('apps/tools');
  const auth = join(some.dir, '..', `${some.dir.split('/').pop()}-auth.yaml`);
  writeFileSync(auth, 'tokens:\n- {token: an-administrators-token, claims: {sub: ops, admin: true}}\n- {token: the-token-of-ana-a-user, claims: {sub: ana}}\nadmin: claims.admin ?? false\n');
  const guarded = await serve(some.dir, '--auth', auth);
  const { page, complaints, close } = await tab(chrome, guarded.url);
  const enter = async (token) => {
    await page.fill('#head input', token);
    await page.press('#head input', 'Enter');
  };
  try {
    await page.waitForSelector('#link:text("Sign-in required")');
    await page.waitForSelector('#head h1:text("Sign in")');
    assert.equal(await page.locator('#head .bad').count(), 0, 'no token yet, so none is wrong');
    assert.ok(await page.isDisabled('#send'));
    await enter('a-wrong-token');
    await page.waitForSelector('#head .bad:has-text("The server does not accept this token")');
    await shot(page, 'page sign in');
    await enter('the-token-of-ana-a-user');
    await page.waitForSelector('#head .bad:has-text("not an administrator")');
    await enter('an-administrators-token');
    await page.waitForSelector('#head h1:text("tools")');
    await page.reload();
    await page.waitForSelector('#head h1:text("tools")');
    assert.deepEqual(complaints.filter((c) => !/40[13]/.test(c)), []);
  } finally {
    await close();
    await guarded.stop();
    some.remove();
  }
});
