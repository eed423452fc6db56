// The page at /: apps and their errors, the tree, the chat, the state, and the result of
// each saved file.

import test from 'node:test';
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { apps, serve } from './host.mjs';
import { shot, tab, until } from './page/browser.mjs';
import { idle, sendMessage, start } from './page/see.mjs';

const { see, chrome, file, save } = await start('apps/hello', 'apps/pipeline', 'apps/team', 'apps/tools', 'apps/memory', 'ui-test/page/apps/desk');

see('a conversation with a call and its state change', async (page) => {
  await page.click('#apps button[data-app=hello]');
  await page.waitForSelector('#head h1:text("hello")');
  await sendMessage(page, 'My name is Ana');
  await page.waitForSelector('.text:has-text("Nice to meet you, Ana!")');
  await idle(page);
  assert.match(await page.textContent('.call'), /remember_name\(name: "Ana"\) ← \{"kept":"Ana"\}/);
  assert.match(await page.textContent('#state tr.changed'), /name"Ana"new/);
  assert.equal(await page.textContent('#state caption code'), 'user:');
  assert.match(await page.textContent('#announcement'), /hello: Nice to meet you, Ana!/);
  await page.click('.call summary');
  assert.match(await page.textContent('.call .json'), /"name": "Ana"/);
  await sendMessage(page, 'Hi');
  await page.waitForSelector('.text:has-text("Hello again, Ana!")');
  await idle(page);
  await page.reload();
  await page.waitForSelector('.text:has-text("Hello again, Ana!")');
  assert.equal(await page.locator('.event.mine').count(), 2);
}, { hash: '/#hello' });

see('a streamed response does not move when it completes', async (page) => {
  await page.waitForSelector('.node');
  await page.evaluate(() => {
    window.moved = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((e) => { window.moved += e.hadRecentInput ? 0 : e.value; })).observe({ type: 'layout-shift' });
  });
  await sendMessage(page, 'Tell me a story');
  await page.waitForSelector('.text:has-text("the whole street listened to the answer.")');
  await idle(page);
  assert.equal(await page.locator('.event:not(.mine) .text').count(), 1);
  const moved = await page.evaluate(() => window.moved);
  assert.ok(moved < 0.01, `the page moved by ${moved}`);
}, { hash: '/#desk' });

see('a call that requires approval, denied and then approved', async (page) => {
  await sendMessage(page, 'refund it');
  await page.waitForSelector('.question');
  assert.match(await page.textContent('.question'), /refund waits for approvalamount500/);
  await idle(page);
  await shot(page, 'page approval');
  await page.click('.question >> text=Deny');
  await page.waitForSelector('.answered:text("denied")');
  await idle(page);
  await sendMessage(page, 'refund it again');
  await page.click('.question >> text=Approve');
  await page.waitForSelector('.answered:text("approved")');
  await page.waitForSelector('.text:has-text("The till returned {\\"paid\\":500}.")');
  await idle(page);
  assert.match(await page.textContent('#state'), /refunded500new/);
  assert.match(await page.textContent('#state'), /app:.*refunds1new/);
}, { hash: '/#desk' });

see('long-running calls are answered later', async (page) => {
  await sendMessage(page, 'order tea');
  await page.waitForSelector('.question input');
  await idle(page);
  await page.fill('.question input', '{"status": "sent"}');
  await page.press('.question input', 'Enter');
  await page.waitForSelector('.text:has-text("sent")');
  await idle(page);
  await sendMessage(page, 'let me choose');
  await page.click('.question >> text=black');
  await page.waitForSelector('.text:has-text("You chose {\\"result\\":\\"black\\"}.")');
  await idle(page);
}, { hash: '/#desk' });

see('a failed call does not wait for an answer', async (page) => {
  await sendMessage(page, 'order nothing');
  await page.waitForSelector('.text:has-text("The order returned {\\"error\\"")');
  await idle(page);
  assert.equal(await page.locator('.question:visible').count(), 0);
}, { hash: '/#desk' });

see('user messages are plain text', async (page) => {
  const text = '<img src=x onerror=alert(1)> <b>bold</b>';
  await sendMessage(page, text);
  await page.waitForSelector('.text:has-text("You wrote: <img src=x")');
  await idle(page);
  assert.equal(await page.locator('#events img, #events p b').count(), 0);
}, { hash: '/#desk' });

see('an error shows its caret within a second, and its fix shows the change', async (page) => {
  await page.waitForSelector('#head h1:text("team")');
  const good = readFileSync(file('team', 'root_agent.yaml'), 'utf8');
  const slip = good.replace('instruction: Find', 'instuction: Find');
  // Ten attempts, for busy machines.
  const took = [];
  for (let i = 0; i < 10 && !took.some((ms) => ms < 1000); i++) {
    save(good, 'team', 'root_agent.yaml');
    await page.waitForSelector('#problems', { state: 'hidden' });
    const began = Date.now();
    save(slip, 'team', 'root_agent.yaml');
    await page.waitForSelector('#problems .snippet .at');
    took.push(Date.now() - began);
  }
  assert.ok(Math.min(...took) < 1000, `the caret took ${took.join(', ')} ms`);
  assert.match(await page.textContent('#problems'), /unknown field "instuction"/);
  assert.equal(await page.textContent('#problems li:has-text("unknown field") .snippet .at'), 'i');
  assert.match(await page.textContent('#problems .hint'), /did you mean "instruction"/);
  assert.match(await page.textContent('#head'), /the last good revision keeps running/);
  await shot(page, 'page broken');
  save(good.replace('transfer to the specialist for it', 'transfer to the specialist for it.\n  Be kind'), 'team', 'root_agent.yaml');
  await page.waitForSelector('#problems', { state: 'hidden' });
  await page.waitForSelector('#changes li[data-what=loaded] >> text=agent front_desk: instruction changed');
  await page.click('#changes li[data-what=loaded] summary');
  assert.match(await page.textContent('#changes .diff .is'), /Be kind/);
  await shot(page, 'page fixed');
  save(good, 'team', 'root_agent.yaml');
  await page.waitForSelector('#changes li[data-what=loaded]:nth-child(1) >> text=agent front_desk: instruction changed');
}, { hash: '/#team' });

see('an app with manual reload is reloaded by the user', async (page) => {
  writeFileSync(file('hello', 'app.yaml'), readFileSync(file('hello', 'app.yaml'), 'utf8') + 'reload: {sessions: manual}\n');
  await page.waitForSelector('#changes li[data-what=loaded] >> text=reload added');
  save(readFileSync(file('hello', 'root_agent.yaml'), 'utf8').replace('one friendly sentence', 'two friendly sentences'), 'hello', 'root_agent.yaml');
  await page.waitForSelector('#head >> text=wait for a reload');
  await shot(page, 'page waiting');
  await page.click('#head >> text=Reload now');
  await page.waitForSelector('#head >> text=running');
  await page.waitForSelector('.node[data-changed]');
}, { hash: '/#hello' });

see('a response is stopped with the keyboard', async (page) => {
  await page.waitForSelector('.node');
  await page.keyboard.press('/');
  await page.keyboard.type('wait for it');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#send:text("Stop")');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.interrupted:has-text("interrupted")');
  await idle(page);
}, { hash: '/#desk' });

see('a new folder adds an app, and removing it removes the app', async (page) => {
  await page.waitForSelector('#head h1:text("hello")');
  mkdirSync(file('fresh'));
  save('name: fresh\nmodel: nosuch\n', 'fresh', 'root_agent.yaml');
  await page.click('#apps button[data-app=fresh]');
  assert.match(await page.textContent('#head'), /not running/);
  rmSync(file('fresh'), { recursive: true });
  await page.waitForSelector('#apps button[data-app=fresh]', { state: 'detached' });
}, { hash: '/#hello' });

see('the tree, an agent, and its model request', async (page) => {
  await page.waitForSelector('.node[data-agent=critic]');
  await sendMessage(page, 'a haiku about rain');
  await idle(page);
  await page.focus('.node[data-agent=pipeline]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#agent h2:text("writer")');
  assert.match(await page.textContent('#agent .instruction'), /follows this outline:\s+\{outline\}/);
  await page.click('#agent summary');
  await page.waitForSelector('#agent .request');
  await page.click('.event[data-author=writer] summary:has-text("request")');
  await page.waitForSelector('.event[data-author=writer] .request');
  assert.match(await page.textContent('.event[data-author=writer] .request'), /Write one short paragraph/);
  await shot(page, 'page pipeline');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#agent', { state: 'hidden' });
}, { hash: '/#pipeline' });

test('a server without apps, and the first app', async () => {
  const none = apps();
  const empty = await serve(none.dir);
  const { page, complaints, close } = await tab(chrome, empty.url);
  try {
    await page.waitForSelector('h1:text("No apps yet")');
    await shot(page, 'page empty');
    mkdirSync(join(none.dir, 'first'));
    writeFileSync(join(none.dir, 'first', 'root_agent.yaml'), 'name: first\nmodel: gemini-flash-latest\ninstruction: Be brief.\n');
    await page.waitForSelector('#head h1:text("first")');
    assert.deepEqual(complaints, []);
  } finally {
    await close();
    await empty.stop();
    none.remove();
  }
});

test('a server that stops and starts again', async () => {
  const some = apps('apps/hello');
  const first = await serve(some.dir);
  const { page, close } = await tab(chrome, first.url);
  try {
    await page.waitForSelector('#link:text("Connected")');
    await first.stop();
    await page.waitForSelector('#link:text("Server not reachable, retrying")');
    const again = await serve(some.dir, '--addr', new URL(first.url).host);
    await page.waitForSelector('#link:text("Connected")');
    await again.stop();
  } finally {
    await close();
    some.remove();
  }
});

test('a server at its limit of open pages', async () => {
  const some = apps('apps/hello');
  const host = await serve(some.dir);
  const full = new AbortController();
  const streams = await Promise.all(Array.from({ length: 64 }, () => fetch(`${host.url}/-/changes`, { signal: full.signal })));
  assert.deepEqual([...new Set(streams.map((f) => f.status))], [200]);
  const { page, close } = await tab(chrome, host.url, { viewport: { width: 360, height: 760 } });
  try {
    await page.waitForSelector('#link:text("too many open change streams")');
    assert.match(await page.getAttribute('#link', 'title'), /\(limit \d+\), retry later$/);
    await shot(page, 'page full');
    const top = await page.locator('#top').boundingBox();
    assert.ok(top.height < 110, `the line at the top is ${top.height} pixels high`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
    full.abort();
    await page.waitForSelector('#link:text("Connected")');
  } finally {
    full.abort();
    await close();
    await host.stop();
    some.remove();
  }
});

test('fifty apps, a long instruction and 500 events', async () => {
  const many = apps();
  for (let i = 0; i < 50; i++) {
    mkdirSync(join(many.dir, `app${i}`));
    writeFileSync(join(many.dir, `app${i}`, 'root_agent.yaml'), `name: agent${i}\nmodel: gemini-flash-latest\ninstruction: |\n${'  Answer the question about {topic?}, and no more than once.\n'.repeat(i ? 1 : 400)}`);
  }
  const host = await serve(many.dir);
  const events = Array.from({ length: 500 }, (_, i) => ({
    author: i % 2 ? 'agent0' : 'user', invocationId: `e-${i >> 1}`, id: `id-${i}`,
    content: { role: i % 2 ? 'model' : 'user', parts: [{ text: `This is message number ${i}. `.repeat(1 + (i % 7)) }] },
  }));
  const made = await fetch(`${host.url}/apps/app0/users/user/sessions`, { method: 'POST', body: JSON.stringify({ sessionId: 'long', events }) });
  assert.equal(made.status, 200, host.log());
  const { page, complaints, close } = await tab(chrome, `${host.url}/#app0/long`);
  try {
    await page.waitForSelector('.event .text:has-text("number 499")');
    await page.waitForFunction(() => {
      const [end, box] = [[...document.querySelectorAll('.event')].at(-1), document.getElementById('events')].map((e) => e.getBoundingClientRect());
      return end.bottom <= box.bottom && end.top > box.top;
    });
    assert.ok(await page.locator('.event').count() < 200, 'the beginning is drawn when the user scrolls to it');
    await page.focus('#events');
    await until(async () => await page.locator('.event:has-text("number 0.")').count() || page.keyboard.press('Home'), 'the first message is drawn');
    assert.equal(await page.locator('#apps li').count(), 50);
    await page.click('.node[data-agent=agent0]');
    await page.fill('#apps input', 'app4');
    assert.equal(await page.locator('#apps li:visible').count(), 11);
    await shot(page, 'page many');
    assert.deepEqual(complaints, []);
  } finally {
    await close();
    await host.stop();
    many.remove();
  }
});
