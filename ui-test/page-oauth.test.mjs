// Authorization by a user, through the page: the question has a link to the authorization
// server, which sends the browser back to the host. The host restarts in between, or the
// browser arrives at another replica. With the grant device_code the question has a code.

import test from 'node:test';
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apps, serve } from './host.mjs';
import { startFakeAuth } from './fake-auth.mjs';
import { browser, shot, tab } from './page/browser.mjs';
import { idle, sendMessage } from './page/see.mjs';

/** freePort returns a port for a host that keeps its address when it restarts. */
async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** prepare starts an authorization server for the callback at an address, and copies the app
 * that uses it. serveAt starts a replica. */
async function prepare(callback) {
  const folders = apps('ui-test/page/apps/crm');
  const auth = await startFakeAuth(`${callback}/oauth/callback`);
  writeFileSync(join(folders.dir, 'crm', '.env'), `ISSUER_URL=${auth.issuer}\nSERVICE_URL=${auth.service}\nCLIENT_SECRET=s3cret-of-client\n`);
  const keys = join(folders.dir, 'credentials.key');
  writeFileSync(keys, randomBytes(32).toString('base64'));
  const serveAt = (address) => serve(join(folders.dir, 'crm'), '--addr', address, '--public-url', callback, '--credentials-key', keys, '--session-db', `sqlite:///${join(folders.dir, 'sessions.db')}`);
  return { auth, serveAt, remove: () => folders.remove() };
}

test('a user authorizes a connection while the host restarts', async () => {
  const address = `127.0.0.1:${await freePort()}`;
  const url = `http://${address}`;
  const { auth, serveAt, remove } = await prepare(url);
  const start = () => serveAt(address);
  let host = await start();
  const chrome = await browser();
  try {
    const { page, complaints } = await tab(chrome, `${url}/#crm`);
    await page.waitForSelector('#head h1:text("crm")');
    await sendMessage(page, 'who is my contact?');
    await page.waitForSelector('.question >> text=crm needs your authorization');
    await idle(page);
    const link = page.locator('.question a');
    assert.equal(await link.textContent(), `Authorize at ${new URL(auth.issuer).host}`);
    assert.equal(await link.getAttribute('rel'), 'noopener noreferrer');
    await shot(page, 'page authorization');
    // Without an authorization, the question comes again, with another address.
    const first = await link.getAttribute('href');
    await page.click('.question button');
    await page.waitForFunction((before) => ![null, before].includes(document.querySelector('.question a')?.getAttribute('href') ?? null), first);
    await idle(page);
    await host.stop();
    host = await start();
    const [popup] = await Promise.all([page.context().waitForEvent('page'), page.locator('.question a').last().click()]);
    await popup.waitForSelector('h1:text("Authorized")');
    assert.match(await popup.textContent('p'), /The connection crm of crm is authorized for user\./);
    await shot(popup, 'page authorized');
    const used = popup.url();
    await popup.goto(used);
    assert.match(await popup.textContent('p'), /was not requested, has expired or has been used/);
    await page.locator('.question button').last().click();
    await page.waitForSelector('.event >> text=Your contact is Ada.');
    const stored = await (await fetch(`${url}/apps/crm/users/user/sessions`)).json();
    const events = JSON.stringify(await (await fetch(`${url}/apps/crm/users/user/sessions/${stored[0].id}`)).json());
    for (const secret of ['access-', 'refresh-', 'code-', 's3cret-of-client']) assert.ok(!events.includes(secret), `the session has ${secret}`);
    assert.deepEqual(complaints.filter((c) => !/Failed to load resource|ERR_|EventSource|fetch/.test(c)), []);
  } finally {
    await chrome.close();
    await host.stop();
    await auth.stop();
    remove();
  }
});

test('the answer arrives at another replica, which has the authorization from then on', async () => {
  const callback = `127.0.0.1:${await freePort()}`;
  const { auth, serveAt, remove } = await prepare(`http://${callback}`);
  const [asked, answered] = [await serveAt('127.0.0.1:0'), await serveAt(callback)];
  const chrome = await browser();
  const open = async (host) => {
    const { page } = await tab(chrome, `${host.url}/#crm`);
    await page.waitForSelector('#head h1:text("crm")');
    await sendMessage(page, 'who is my contact?');
    return page;
  };
  try {
    const page = await open(asked);
    await page.waitForSelector('.question a');
    const [popup] = await Promise.all([page.context().waitForEvent('page'), page.click('.question a')]);
    await popup.waitForSelector('h1:text("Authorized")');
    assert.ok(popup.url().startsWith(answered.url), popup.url());
    await page.click('.question button');
    await page.waitForSelector('.event >> text=Your contact is Ada.');
    await (await open(answered)).waitForSelector('.event >> text=Your contact is Ada.');
  } finally {
    await chrome.close();
    await asked.stop();
    await answered.stop();
    await auth.stop();
    remove();
  }
});

test('a user authorizes a connection with a code', async () => {
  const folders = apps('ui-test/page/apps/crm');
  const auth = await startFakeAuth('http://127.0.0.1/unused');
  writeFileSync(join(folders.dir, 'crm', '.env'), `ISSUER_URL=${auth.issuer}\nSERVICE_URL=${auth.service}\nCLIENT_SECRET=s3cret-of-client\n`);
  const file = join(folders.dir, 'crm', 'app.yaml');
  writeFileSync(file, readFileSync(file, 'utf8').replace('authorization_code', 'device_code'));
  const host = await serve(join(folders.dir, 'crm'));
  const chrome = await browser();
  try {
    const { page, complaints } = await tab(chrome, `${host.url}/#crm`);
    await page.waitForSelector('#head h1:text("crm")');
    await sendMessage(page, 'who is my contact?');
    await page.waitForSelector('.question >> text=crm needs your authorization');
    await idle(page);
    const [, code] = /^Code: ([A-Z0-9]{4}-[A-Z0-9]{4})$/.exec(await page.locator('.question p', { hasText: 'Code:' }).textContent());
    await shot(page, 'page code');
    const address = await page.locator('.question a').getAttribute('href');
    assert.equal(address, `${auth.issuer}/activate?user_code=${code}`);
    const entered = await fetch(address, { method: 'POST', body: new URLSearchParams({ user_code: code, answer: 'allow' }) });
    assert.equal(entered.status, 200);
    await page.click('.question button');
    await page.waitForSelector('.event >> text=Your contact is Ada.');
    assert.deepEqual(complaints, []);
  } finally {
    await chrome.close();
    await host.stop();
    await auth.stop();
    folders.remove();
  }
});
