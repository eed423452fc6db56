// The chat page for end users at /chat/APP: conversations, questions, files, failures, texts that
// try to be markup, several windows, a server that restarts, and a page of another origin that
// embeds it.

import test from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { apps, serve } from './host.mjs';
import { startFakeAuth } from './fake-auth.mjs';
import { findings } from './page/axe.mjs';
import { blank, shot, tab, until } from './page/browser.mjs';
import { PDF } from './page/pdf.mjs';
import { start } from './page/see.mjs';

const { see, chrome, host, save } = await start('ui-test/page/apps/helpdesk', 'ui-test/page/apps/storyteller');
const chat = { hash: '/chat/helpdesk', viewport: { width: 1280, height: 860 } };

const field = (page) => page.locator('#composer textarea');
const lastAnswer = (page) => page.locator('.from-app .text').last();

async function send(page, text) {
  await field(page).fill(text);
  await field(page).press('Enter');
}

/** ask sends a message and waits for the end of its answer. */
async function ask(page, text) {
  await send(page, text);
  await page.waitForSelector('.from-user >> text=' + text);
  await idle(page);
}

/** begin sends a message and waits until the server has it: the page shows its work before that. */
async function begin(page, text) {
  const taken = page.waitForResponse(/\/messages$/);
  await send(page, text);
  await taken;
  await page.waitForSelector('.working');
}

const idle = (page) => page.waitForSelector('#composer .send[aria-label=Send]');

see('a suggestion starts a conversation, whose answer arrives as Markdown', async (page) => {
  await page.click('.suggestions >> text=What do you show?');
  await page.waitForSelector('.from-app table');
  await idle(page);
  assert.equal(await page.locator('.from-app pre code').textContent(), "const cup = brew('green', { minutes: 3 });");
  assert.equal(await page.locator('.list [aria-current]').textContent(), 'What do you show?');
  assert.match(await page.title(), /What do you show/);
  assert.match(await page.locator('body > [role=status]').textContent(), /What I show/);
  await page.reload(); // the page finds its conversation again
  await page.waitForSelector('.from-app table');
}, chat);

see('an approval shows what runs, and its answer closes it', async (page) => {
  await ask(page, 'I want a refund');
  const question = page.locator('.ask');
  assert.equal(await question.locator('h3').textContent(), 'Refund?');
  assert.deepEqual(await question.locator('dd').allTextContents(), ['500', 'Broken pot']);
  await question.locator('text=Approve').click();
  await page.waitForSelector('.from-app >> text=500 euros');
  assert.equal(await question.locator('.outcome').textContent(), 'Approved');
  await page.reload();
  await page.waitForSelector('.ask >> text=Approved');
  assert.equal(await page.locator('.ask button').count(), 0);
}, chat);

see('choices and forms are answered, and a second window reports that they are', async (page) => {
  await ask(page, 'let me choose');
  const url = page.url();
  const other = await page.context().newPage();
  await other.goto(url);
  await other.waitForSelector('.ask');
  await page.click('.ask >> text=Green tea');
  await page.waitForSelector('.from-app >> text=You chose Green tea');
  await other.locator('.ask >> text=Black tea').click();
  await other.waitForSelector('.ask .bad >> text=already answered');
  await other.close();
  await ask(page, 'my address');
  const form = page.locator('.ask').last();
  await form.locator('[name=street]').fill('Tea Street');
  await form.locator('[name=number]').fill('7');
  await form.locator('button').click();
  await page.waitForSelector('text=Thank you, I have noted it.');
}, { ...chat, forgive: /409/ });

// The failure of a model reaches the page as a sentence; the message can be repeated.
see('an answer that is being written stays while another window continues', async (page) => {
  await ask(page, 'my address');
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.waitForSelector('.ask');
  await page.locator('.ask [name=street]').fill('Tea Street');
  await ask(other, 'hello');
  await other.close();
  await page.bringToFront();
  await page.evaluate(() => window.dispatchEvent(new Event('focus')));
  await page.waitForSelector('.from-app >> text=You wrote: hello');
  assert.equal(await page.locator('.ask [name=street]').inputValue(), 'Tea Street');
  assert.ok(await page.locator('.ask [name=street]').evaluate((field) => field === document.activeElement));
  await page.locator('.ask button').click();
  await page.waitForSelector('text=Thank you, I have noted it.');
}, chat);

see('a failed turn is reported once, in words, and can be repeated', async (page) => {
  await ask(page, 'please fail');
  assert.equal(await page.locator('.failure p').textContent(), 'Something went wrong.');
  assert.equal(await page.locator('text=Something went wrong.').filter({ visible: true }).count(), 1);
  await page.click('text=Try again');
  await idle(page);
  await page.waitForSelector('.failure');
  assert.equal(await page.locator('.from-user').count(), 1);
  await ask(page, 'hello');
  assert.equal(await lastAnswer(page).textContent(), 'You wrote: hello');
}, chat);

see('an answer is stopped, also before the server has the message', async (page) => {
  await page.route('**/messages', async (route) => { // a slow network
    await new Promise((done) => { setTimeout(done, 500); });
    await route.continue();
  });
  await send(page, 'wait for it');
  await page.click('#composer .send[aria-label=Stop]');
  await page.waitForSelector('.failure >> text=You stopped this answer.');
  await idle(page);
}, chat);

// Closing the page does not end the turn: after a reload it is found again.
see('an answer continues while the page reloads, and keeps the draft', async (page) => {
  await begin(page, 'wait for me');
  await field(page).fill('my next question');
  await page.reload();
  await page.waitForSelector('.working');
  assert.equal(await field(page).inputValue(), 'my next question');
  await page.waitForSelector('text=At last, here is the answer.');
  await idle(page);
}, chat);

see('texts that try to be markup, scripts or other directions stay text', async (page) => {
  await ask(page, 'be evil <b>now</b>');
  const answer = await lastAnswer(page).innerHTML();
  assert.doesNotMatch(answer, /<img|<script|javascript:[^<]*"/);
  assert.match(await lastAnswer(page).textContent(), /<img src=x onerror=alert\(1\)>/);
  assert.equal(await page.locator('.from-user .text').textContent(), 'be evil <b>now</b>');
  assert.equal(await page.locator('.list [aria-current] b').count(), 0);
  await ask(page, 'שלום עולם');
  assert.equal(await page.locator('.from-user .text').last().evaluate((e) => getComputedStyle(e).direction), 'rtl');
}, chat);

see('a file is sent, shown and downloaded; other types are refused', async (page) => {
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR42mNk+M+AFTAxDC0JAL4jAQ9n0mJkAAAAAElFTkSuQmCC', 'base64');
  await page.setInputFiles('input[type=file]', [{ name: 'pot \u202egnp.png', mimeType: 'image/png', buffer: png }, { name: 'run.sh', mimeType: 'application/x-sh', buffer: Buffer.from('echo') }]);
  await page.waitForSelector('#composer .bad >> text=run.sh: Files of this type cannot be sent here.');
  assert.equal(await page.locator('.chips li').count(), 1);
  await ask(page, 'here is a picture');
  await page.reload();
  await page.waitForSelector('.from-user img');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('.from-user button.file')]);
  assert.match(download.suggestedFilename(), /^pot .*png$/);
}, { ...chat, forgive: /^requested blob:/ });

see('a PDF file is shown in place, and another file with its type is not', async (page) => {
  await page.setInputFiles('input[type=file]', [{ name: 'bill.pdf', mimeType: 'application/pdf', buffer: Buffer.from(PDF) }, { name: 'page.pdf', mimeType: 'application/pdf', buffer: Buffer.from('<script>window.ran=1</script>') }]);
  await ask(page, 'here is a bill');
  await page.reload();
  await page.click('text=Show bill.pdf');
  await page.waitForSelector('.from-user iframe[title="bill.pdf"]');
  await page.click('text=Show page.pdf');
  await page.waitForSelector('.from-user >> text=This is not a PDF file.');
  assert.equal(await page.locator('iframe').count(), 1);
  await shot(page, 'chat pdf');
}, { ...chat, forgive: /^requested (blob|chrome-extension|chrome):/ });

see('conversations are renamed, deleted, and restored for some seconds', async (page) => {
  await ask(page, 'first words');
  await page.click('text=New conversation');
  await ask(page, 'other words');
  const item = page.locator('.list [data-conversation]', { hasText: 'first words' });
  await item.hover();
  await item.locator('[title=Rename]').click();
  await page.locator('.list input').fill('My title');
  await page.locator('.list input').press('Enter');
  const renamed = page.locator('.list [data-conversation]', { hasText: 'My title' });
  await renamed.waitFor();
  await renamed.hover();
  await renamed.locator('[title=Delete]').click();
  await page.waitForSelector('.toast >> text=Undo');
  assert.equal(await renamed.count(), 0);
  await page.click('.toast >> text=Undo');
  await renamed.waitFor();
  await renamed.hover();
  await renamed.locator('[title=Delete]').click();
  await page.reload(); // which ends the time to undo
  await page.waitForSelector('.list >> text=other words');
  assert.equal(await renamed.count(), 0);
  assert.match(await page.locator('.list').textContent(), /other words/);
}, chat);

see('an answer is rated, the rating is kept, and taken back', async (page) => {
  await ask(page, 'hello');
  const good = page.locator('.rate [aria-label="Good answer"]');
  await Promise.all([page.waitForResponse(/feedback$/), good.click()]);
  await page.reload();
  await page.waitForSelector('.rate [aria-label="Good answer"][aria-pressed=true]');
  await Promise.all([page.waitForResponse(/feedback$/), good.click()]);
  await page.reload();
  await page.waitForSelector('.rate [aria-label="Good answer"][aria-pressed=false]');
}, chat);

see('another guest does not see the conversation', async (page) => {
  await ask(page, 'a secret of mine');
  const foreign = await tab(chrome, page.url());
  await foreign.page.waitForSelector('.toast >> text=does not exist');
  assert.doesNotMatch(await foreign.page.textContent('body'), /a secret of mine/);
  await foreign.close();
}, chat);

// No response that the browser has received contains what the app keeps to itself.
see('instructions, arguments, results and state do not reach the browser', async (page) => {
  const texts = [];
  page.on('response', async (response) => texts.push(await response.text().catch(() => '')));
  await ask(page, 'where is my order');
  await ask(page, 'a little money');
  await ask(page, 'fail');
  await page.reload();
  await page.waitForSelector('.failure');
  const all = texts.join('\n');
  assert.match(all, /Your order is on its way/);
  assert.doesNotMatch(all, /SECRET/);
}, chat);

see('the page is usable by keyboard, at all widths, in both themes', async (page) => {
  await ask(page, 'What do you show?');
  await ask(page, 'I want a refund');
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    for (const [width, height] of [[390, 844], [500, 900], [700, 900], [960, 800], [1920, 1080], [2560, 1300]]) {
      await page.setViewportSize({ width, height });
      const wide = await page.evaluate(() => [document.documentElement.scrollWidth - innerWidth, ...[...document.querySelectorAll('button:not([hidden]), .text')].filter((e) => e.checkVisibility({ visibilityProperty: true })).map((e) => e.getBoundingClientRect().right - innerWidth)]);
      assert.ok(Math.max(...wide) <= 0, `at ${width} something is cut by ${Math.max(...wide)} pixels`);
      assert.deepEqual(await findings(page), [], `${width} ${colorScheme}`);
      if ([390, 960, 1920].includes(width)) await shot(page, `chat ${width} ${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 390, height: 844 });
  await page.click('button.menu');
  await page.waitForSelector('#side .new:focus');
  await shot(page, 'chat 390 list');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.menu:focus');
  await page.click('header [title="New conversation"]');
  await page.waitForSelector('.welcome');
  assert.deepEqual(await findings(page), []);
  await shot(page, 'chat 390 welcome');
}, chat);

// The page draws the latest messages only, and more when its reader wants them.
see('a conversation of 10000 events', async (page) => {
  const began = Date.now();
  for (let turn = 0; turn < 25; turn++) {
    const answer = page.waitForResponse(/\/messages$/).then((response) => response.finished());
    await send(page, `chapter ${turn}`);
    await answer;
    await idle(page);
  }
  assert.ok(await page.locator('.message').count() <= 300);
  if (process.env.VERBOSE) console.log({ ms: Date.now() - began });
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll('.message').length === 100);
  for (let more = 2; more <= 5; more++) {
    await page.click('.earlier button');
    await page.waitForFunction((count) => document.querySelectorAll('.message').length === count, more * 100);
  }
  assert.deepEqual(await findings(page), []);
}, { ...chat, hash: '/chat/storyteller' });

see('a slow network and a server that is away keep the draft', async (page) => {
  await ask(page, 'hello');
  await page.route('**/messages', (route) => route.abort());
  await send(page, 'is anyone there');
  await page.waitForSelector('#composer .bad >> text=cannot be reached');
  assert.equal(await field(page).inputValue(), 'is anyone there');
  assert.equal(await page.locator('.from-user').count(), 1);
  await page.unroute('**/messages');
  await field(page).press('Enter');
  await page.waitForSelector('text=You wrote: is anyone there');
}, { ...chat, forgive: /ERR_FAILED/ });

// The stored conversation survives a restart; the turn that was running is offered again.
test('a turn that a restart has interrupted can be repeated', async () => {
  const folders = apps('ui-test/page/apps/helpdesk');
  const database = join(folders.dir, 'chat.db');
  const flags = ['--session-db', `sqlite:///${database}`];
  let server = await serve(folders.dir, ...flags);
  const { port } = new URL(server.url);
  const { page, close } = await tab(chrome, `${server.url}/chat/helpdesk`);
  try {
    await begin(page, 'wait for a long time');
    await server.stop();
    await page.waitForSelector('text=/lost|Trying again|interrupted|not available/');
    server = await serve(folders.dir, ...flags, '--addr', `127.0.0.1:${port}`);
    await page.waitForSelector('.failure button');
    await page.click('.failure button');
    await page.waitForSelector('text=At last, here is the answer.');
    assert.equal(await page.locator('.from-user').count(), 1);
  } catch (error) {
    await shot(page, 'page failed chat restart');
    throw new Error([error.message, server.log()].join('\n'), { cause: error });
  } finally {
    await close();
    await server.stop();
    folders.remove();
  }
});

// A message that is sent before the page is ready is sent once it is.
test('a message entered early is sent', async () => {
  const folders = apps('ui-test/page/apps/helpdesk');
  const server = await serve(folders.dir);
  const { page, close } = await tab(chrome, 'about:blank');
  try {
    let release;
    const held = new Promise((resolve) => (release = resolve));
    await page.route(/\/chat\/helpdesk\/conversations/, async (route) => {
      if (route.request().method() === 'GET') await held;
      await route.continue();
    });
    await page.goto(`${server.url}/chat/helpdesk`);
    await send(page, 'hello there');
    assert.equal(await page.locator('.from-user').count(), 0);
    release();
    await page.waitForSelector('.from-user >> text=hello there');
    assert.equal(await field(page).inputValue(), '');
  } finally {
    await close();
    await server.stop();
    folders.remove();
  }
});

// With authentication the page asks for a token, and again once it has expired.
test('a token signs in, and an expired one is replaced', async () => {
  const folders = apps('ui-test/page/apps/helpdesk');
  const auth = join(mkdtempSync(join(tmpdir(), 'agenthost-ui-')), 'auth.yaml');
  writeFileSync(auth, 'tokens:\n  - {token: token-of-ana-0123456789, claims: {sub: ana}}\n');
  const server = await serve(folders.dir, '--auth', auth);
  const { page, close } = await tab(chrome, `${server.url}/chat/helpdesk`);
  try {
    await page.fill('.sign-in input', 'wrong-token-0123456789');
    await page.click('.sign-in button.main');
    await page.waitForSelector('.sign-in input:focus');
    await page.fill('.sign-in input', 'token-of-ana-0123456789');
    await page.click('.sign-in button.main');
    await page.waitForSelector('.welcome');
    await ask(page, 'hello');
    await page.evaluate(() => sessionStorage.setItem('agenthost-chat.token', 'expired-token-0123456789'));
    await page.reload();
    await page.fill('.sign-in input', 'token-of-ana-0123456789');
    await page.click('.sign-in button.main');
    await page.waitForSelector('text=You wrote: hello');
  } catch (error) {
    await shot(page, 'page failed chat token');
    throw error;
  } finally {
    await close();
    await server.stop();
    folders.remove();
    rmSync(join(auth, '..'), { recursive: true });
  }
});

// A page of another origin embeds the chat by one script tag; one that is not listed gets nothing.
test('a listed origin embeds the chat, others do not', async () => {
  const listen = async () => {
    const web = createServer((request, response) => {
      response.setHeader('Content-Type', 'text/html');
      response.setHeader('Content-Security-Policy', `default-src 'none'; script-src ${host.url}; frame-src ${host.url}`);
      response.end(`<!doctype html><title>Shop</title><h1>Shop</h1><script src="${host.url}/chat/helpdesk/embed.js" data-label="Ask us" async></script>`);
    }).listen(0, '127.0.0.1');
    await once(web, 'listening');
    return web;
  };
  const [shop, stranger] = [await listen(), await listen()];
  const address = (web) => `http://127.0.0.1:${web.address().port}`;
  const yaml = readFileSync(join(import.meta.dirname, 'page/apps/helpdesk/app.yaml'), 'utf8');
  save(yaml.replace('chat:\n', `chat:\n  origins: ["${address(shop)}"]\n`), 'helpdesk', 'app.yaml');
  await until(async () => (await fetch(`${host.url}/chat/helpdesk`)).headers.get('content-security-policy').includes(address(shop)), 'the policy of the saved origins');
  const page = await blank(chrome, { viewport: { width: 1000, height: 800 } });
  try {
    await page.goto(address(shop));
    await page.getByRole('button', { name: 'Ask us' }).click();
    const frame = page.frameLocator('iframe');
    await frame.locator('.suggestions').waitFor();
    await frame.locator('#composer textarea').fill('hello from the shop');
    await frame.locator('#composer textarea').press('Enter');
    await frame.locator('.from-app >> text=You wrote: hello from the shop').waitFor();
    await shot(page, 'chat embedded');
    await frame.locator('[aria-label="Close the chat"]').click();
    await page.getByRole('button', { name: 'Ask us' }).click();
    await frame.locator('.from-app >> text=You wrote: hello from the shop').waitFor();
    await page.setViewportSize({ width: 390, height: 700 });
    await until(async () => { // the script receives the new size later
      const { width, height } = await page.locator('iframe').boundingBox();
      return width === 390 && height === 700;
    }, 'the chat has the size of the window');
    await page.goto(address(stranger));
    const refusal = page.waitForEvent('console', (message) => /frame-ancestors/.test(message.text()));
    await page.getByRole('button', { name: 'Ask us' }).click();
    await refusal;
    assert.equal(await frame.locator('.suggestions').count(), 0);
  } catch (error) {
    await shot(page, 'page failed chat embedded');
    throw error;
  } finally {
    await page.context().close();
    shop.close();
    stranger.close();
  }
});

// The page that embeds the chat has the token of its user; the chat asks for no other one.
test('the embedding page signs its user in', async () => {
  const folders = apps('ui-test/page/apps/helpdesk');
  const auth = join(mkdtempSync(join(tmpdir(), 'agenthost-ui-')), 'auth.yaml');
  writeFileSync(auth, 'tokens:\n  - {token: token-of-ana-0123456789, claims: {sub: ana}}\n');
  let server;
  const shop = createServer((request, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end(`<!doctype html><title>Shop</title><script src="${server.url}/chat/helpdesk/embed.js" data-token="token-of-ana-0123456789" data-open></script>`);
  }).listen(0, '127.0.0.1');
  await once(shop, 'listening');
  const file = join(folders.dir, 'helpdesk', 'app.yaml');
  writeFileSync(file, readFileSync(file, 'utf8').replace('chat:\n', `chat:\n  origins: ["http://127.0.0.1:${shop.address().port}"]\n`));
  server = await serve(folders.dir, '--auth', auth);
  const page = await blank(chrome, { viewport: { width: 1000, height: 800 } });
  try {
    await page.goto(`http://127.0.0.1:${shop.address().port}`);
    const frame = page.frameLocator('iframe');
    await frame.locator('#composer textarea').fill('hello from ana');
    await frame.locator('#composer textarea').press('Enter');
    await frame.locator('.from-app >> text=You wrote: hello from ana').waitFor();
    assert.equal(await frame.locator('dialog').count(), 0);
    const sessions = await (await fetch(`${server.url}/apps/helpdesk/users/ana/sessions`, { headers: { Authorization: 'Bearer token-of-ana-0123456789' } })).json();
    assert.equal(sessions.length, 1);
  } catch (error) {
    await shot(page, 'page failed chat embedded token');
    throw error;
  } finally {
    await page.context().close();
    await server.stop();
    shop.close();
    folders.remove();
    rmSync(join(auth, '..'), { recursive: true });
  }
});

// The user gives a permission at the authorization server, and continues in the chat.
test('a user authorizes a connection', async () => {
  const folders = apps('ui-test/page/apps/crm');
  const port = createServer().listen(0, '127.0.0.1');
  await once(port, 'listening');
  const address = `127.0.0.1:${port.address().port}`;
  port.close();
  await once(port, 'close');
  const auth = await startFakeAuth(`http://${address}/oauth/callback`);
  writeFileSync(join(folders.dir, 'crm', '.env'), `ISSUER_URL=${auth.issuer}\nSERVICE_URL=${auth.service}\nCLIENT_SECRET=s3cret-of-client\n`);
  const keys = join(folders.dir, 'credentials.key');
  writeFileSync(keys, randomBytes(32).toString('base64'));
  const server = await serve(join(folders.dir, 'crm'), '--addr', address, '--public-url', `http://${address}`, '--credentials-key', keys);
  const { page, close } = await tab(chrome, `http://${address}/chat/crm`, { viewport: { width: 1280, height: 860 } });
  try {
    await ask(page, 'who is my contact?');
    await page.waitForSelector('.ask >> text=Crm needs your permission');
    await shot(page, 'chat authorization');
    const [popup] = await Promise.all([page.context().waitForEvent('page'), page.click('.ask a')]);
    await popup.waitForSelector('h1:text("Authorized")');
    await popup.close();
    await page.click('.ask >> text=Continue');
    await page.waitForSelector('.from-app .text:not([hidden])');
    await idle(page);
    assert.equal(await page.locator('.failure').count(), 0);
  } catch (error) {
    await shot(page, 'page failed chat authorization');
    throw error;
  } finally {
    await close();
    await server.stop();
    await auth.stop();
    folders.remove();
  }
});
