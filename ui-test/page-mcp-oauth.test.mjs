// An MCP server with authorization, of which the app has nothing but the URL. The 401 leads to the
// authorization server, each user consents there, and two replicas at one address share what
// comes of it, also after restarts.

import test from 'node:test';
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { apps, serve } from './host.mjs';
import { startFakeMCP } from './fake-auth.mjs';
import { browser, shot, tab } from './page/browser.mjs';
import { idle, sendMessage } from './page/see.mjs';

const ADMIN = 'token-of-the-administrator';

/** startProxy is one address for replicas, which get its requests in turn. passed has who got which. */
async function startProxy() {
  const replicas = [];
  const passed = [];
  const proxy = createServer((from, to) => {
    const replica = replicas[passed.length % replicas.length];
    passed.push(`${from.method} ${from.url.split('?')[0]} at ${replica}`);
    const { hostname, port } = new URL(replica);
    const forwarded = request({ hostname, port, path: from.url, method: from.method, headers: from.headers }, (answer) => {
      to.writeHead(answer.statusCode, answer.headers);
      answer.pipe(to);
    });
    forwarded.on('error', () => to.destroy());
    from.pipe(forwarded);
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return { url: `http://127.0.0.1:${proxy.address().port}`, replicas, passed, stop: () => proxy.close() };
}

/** prepare starts the servers for a callback at an address, and copies the app that uses them. Its
 * MCP server has no auth until authorize adds it. */
async function prepare(url) {
  const folders = apps('ui-test/page/apps/contacts');
  const fake = await startFakeMCP(`${url}/oauth/callback`);
  const file = (...parts) => join(folders.dir, ...parts);
  const change = (name, from, to) => writeFileSync(file('contacts', name), readFileSync(file('contacts', name), 'utf8').replace(from, to));
  writeFileSync(file('contacts', '.env'), `MCP_URL=${fake.service}\n`);
  change('demo.script.yaml', 'AUTHORIZE', `authorize_oauth_${fake.service.slice('http://'.length).replaceAll(/\W/g, '_')}`);
  change('root_agent.yaml', ', auth: oauth', '');
  writeFileSync(file('credentials.key'), randomBytes(32).toString('base64'));
  writeFileSync(file('auth.yaml'), `tokens:\n- {token: ${ADMIN}, claims: {sub: ops, admin: true}}\nadmin: claims.admin ?? false\n`);
  const reached = [fake.issuer, fake.service].map((one) => `"${new URL(one).host}"`).join(', ');
  writeFileSync(file('policy.yaml'), `grants:\n  - {apps: [contacts], network: [${reached}], variables: [MCP_URL], register_clients: true}\n`);
  const shared = ['--policy', file('policy.yaml'), '--public-url', url, '--credentials-key', file('credentials.key'), '--session-db', `sqlite:///${file('sessions.db')}`];
  return {
    fake,
    file,
    authorize: () => change('root_agent.yaml', '}"}', '}", auth: oauth}'),
    serveAt: (address, ...more) => serve(file('contacts'), '--addr', address, ...shared, ...more),
    remove: folders.remove,
  };
}

/** expectNoSecrets checks what a session and the logs show. */
function expectNoSecrets(...texts) {
  for (const secret of ['access-', 'refresh-', 'code-', 'registered-secret-']) {
    for (const text of texts) assert.ok(!text.includes(secret), `${secret} in ${text}`);
  }
}

/** consent opens the address of the question, as one account, and returns the page where it ends. */
async function consent(page, account) {
  const [popup] = await Promise.all([page.context().waitForEvent('page'), page.locator('.question a').last().click()]);
  await popup.waitForSelector('h1:text("Give access?")');
  await shot(popup, `page mcp consent of ${account}`);
  await popup.click(`text=Allow as ${account}`);
  return popup;
}

test('a URL and a 401 lead to the answer of the tool, on two replicas, with restarts', async () => {
  const proxy = await startProxy();
  const { fake, file, authorize, serveAt, remove } = await prepare(proxy.url);
  const flags = ['--auth', file('auth.yaml')];
  const replicas = [await serveAt('127.0.0.1:0', ...flags), await serveAt('127.0.0.1:0', ...flags)];
  const urls = replicas.map((replica) => replica.url);
  const start = async (i) => { replicas[i] = await serveAt(new URL(urls[i]).host, ...flags); };
  const logs = () => replicas.map((replica) => replica.log()).join('');
  proxy.replicas.push(...urls);
  const chrome = await browser();
  // open signs in at a replica, as a developer who talks as a user.
  const open = async (i, user) => {
    const { page, complaints } = await tab(chrome, `${urls[i]}/#contacts`);
    await page.fill('#head input', ADMIN);
    await page.press('#head input', 'Enter');
    await page.waitForSelector('#head h1:text("contacts")');
    await page.fill('[aria-label=User]', user);
    await page.press('[aria-label=User]', 'Enter');
    return { page, complaints };
  };
  const ask = (page) => sendMessage(page, 'who is my contact?');
  const forgive = (complaint) => !/Failed to load resource|ERR_|EventSource|fetch/.test(complaint);
  try {
    const ada = await open(0, 'ada');
    const { page } = ada;
    await ask(page);
    await page.waitForSelector('text=the server requires authorization: write auth: oauth');
    await shot(page, 'page mcp 401');
    const revision = await page.textContent('#head .facts code');
    authorize();
    await page.waitForFunction((id) => document.querySelector('#head .facts code').textContent !== id, revision);
    await ask(page);
    const service = fake.service.slice('http://'.length); // users read it
    await page.waitForSelector(`.question >> text=${service} needs your authorization`);
    await idle(page);
    await shot(page, 'page mcp authorization');
    assert.equal(await page.locator('.question a').textContent(), `Authorize at ${new URL(fake.issuer).host}`);
    let log = logs();
    await replicas[0].crash();
    await start(0);
    const popup = await consent(page, 'ada');
    await popup.waitForSelector(`p:text("that talk with the user ada get access to your account at the connection ${service}")`);
    await shot(popup, 'page mcp whose account');
    await popup.click('button:text("Give access")');
    await popup.waitForSelector('h1:text("Authorized")');
    await shot(popup, 'page mcp authorized');
    assert.deepEqual(proxy.passed, [`GET /oauth/callback at ${urls[0]}`, `POST /oauth/callback at ${urls[1]}`]);
    await popup.close();

    const other = await open(1, 'ada');
    await other.page.click('.found a');
    await other.page.click('.question button');
    await other.page.waitForSelector('.event >> text=Your contact is Grace.');
    await shot(other.page, 'page mcp answer');
    await page.waitForSelector('.event >> text=Your contact is Grace.');

    const bob = await open(0, 'bob');
    await ask(bob.page);
    await bob.page.waitForSelector('.question >> text=needs your authorization');
    await idle(bob.page);
    const second = await consent(bob.page, 'bob');
    await second.click('button:text("Give access")');
    await second.waitForSelector('h1:text("Authorized")');
    await bob.page.click('.question button');
    await bob.page.waitForSelector('.event >> text=Your contact is Alan.');

    log += logs();
    await Promise.all(replicas.map((replica) => replica.stop()));
    await Promise.all([start(0), start(1)]);
    await fake.expire(); // the replicas renew the tokens
    for (const [user, i, contact] of [['ada', 0, 'Grace'], ['bob', 1, 'Alan']]) {
      const again = await open(i, user);
      await ask(again.page);
      await again.page.waitForSelector(`.event >> text=Your contact is ${contact}.`);
      assert.equal(await again.page.locator('.question').count(), 0);
    }

    const { consents, ...counts } = await fake.read();
    assert.deepEqual(counts, { calls: ['ada', 'bob', 'ada', 'bob'], clients: 1, issued: 4, refreshes: 2, refused: 2 });
    const [{ client }] = consents;
    assert.match(client, /^registered-/);
    const granted = { client, resource: fake.service, scope: 'contacts.read offline_access' };
    assert.deepEqual(consents, [{ account: 'ada', ...granted }, { account: 'bob', ...granted }]);
    const headers = { Authorization: `Bearer ${ADMIN}` };
    const read = async (path) => (await fetch(`${urls[0]}/apps/contacts/users/ada/sessions${path}`, { headers })).json();
    const sessions = await Promise.all((await read('')).map(({ id }) => read(`/${id}`)));
    expectNoSecrets(JSON.stringify(sessions), log + logs());
    assert.deepEqual([...ada.complaints, ...other.complaints, ...bob.complaints].filter(forgive), []);
  } catch (error) {
    for (const context of chrome.contexts()) for (const [i, one] of context.pages().entries()) await shot(one, `page failed mcp ${i}`);
    throw new Error(`${error.message}\n${logs()}`, { cause: error });
  } finally {
    await chrome.close();
    await Promise.all(replicas.map((replica) => replica.stop()));
    proxy.stop();
    await fake.stop();
    remove();
  }
});

test('a user of the chat page refuses first, and authorizes then', async () => {
  const proxy = await startProxy();
  const { fake, authorize, serveAt, remove } = await prepare(proxy.url);
  authorize();
  const host = await serveAt('127.0.0.1:0');
  proxy.replicas.push(host.url);
  const chrome = await browser();
  const { page, complaints } = await tab(chrome, `${proxy.url}/chat/contacts`, { viewport: { width: 1280, height: 860 } });
  const answer = async (how) => {
    const [popup] = await Promise.all([page.context().waitForEvent('page'), page.locator('.ask a').last().click()]);
    await popup.click(`button:text("${how}")`);
    return popup;
  };
  try {
    await page.fill('#composer textarea', 'who is my contact?');
    await page.press('#composer textarea', 'Enter');
    await page.waitForSelector(`.ask >> text=${fake.service.slice('http://'.length)} needs your permission`);
    await shot(page, 'chat mcp authorization');
    const refused = await answer('Refuse');
    await refused.waitForSelector('h1:text("Not authorized")');
    await refused.waitForSelector('text=the authorization server refused: access_denied');
    await shot(refused, 'chat mcp refused');
    await refused.close();
    await page.click('.ask >> text=Continue');
    await page.waitForSelector('.ask >> nth=1');
    const allowed = await answer('Allow as bob');
    await allowed.waitForSelector('h1:text("Authorized")');
    await allowed.close();
    await page.locator('.ask >> text=Continue').last().click();
    await page.waitForSelector('.from-app >> text=Your contact is Alan.');
    await shot(page, 'chat mcp answer');
    const { consents, calls } = await fake.read();
    assert.deepEqual([consents.map(({ account }) => account), calls], [['bob'], ['bob']]);
    expectNoSecrets(host.log());
    assert.deepEqual(complaints, []);
  } catch (error) {
    for (const [i, one] of page.context().pages().entries()) await shot(one, `page failed mcp chat ${i}`);
    throw new Error(`${error.message}\n${host.log()}`, { cause: error });
  } finally {
    await chrome.close();
    await host.stop();
    proxy.stop();
    await fake.stop();
    remove();
  }
});

test("on a developer's own machine the host needs no address", async () => {
  const { fake, file, authorize, remove } = await prepare('http://127.0.0.1/unused');
  authorize();
  const host = await serve(file('contacts'), '--policy', file('policy.yaml'));
  const chrome = await browser();
  try {
    const { page, complaints } = await tab(chrome, `${host.url}/#contacts`);
    await sendMessage(page, 'who is my contact?');
    await page.waitForSelector('.question >> text=needs your authorization');
    await idle(page);
    const popup = await consent(page, 'ada');
    await popup.waitForSelector('h1:text("Authorized")');
    assert.ok(popup.url().startsWith(`${host.url}/oauth/callback`), popup.url());
    await page.click('.question button');
    await page.waitForSelector('.event >> text=Your contact is Grace.');
    assert.deepEqual(complaints, []);
  } catch (error) {
    for (const context of chrome.contexts()) for (const [i, one] of context.pages().entries()) await shot(one, `page failed mcp local ${i}`);
    throw new Error(`${error.message}\n${host.log()}`, { cause: error });
  } finally {
    await chrome.close();
    await host.stop();
    await fake.stop();
    remove();
  }
});
