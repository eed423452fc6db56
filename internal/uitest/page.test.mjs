// The page at /: the apps and their problems, the tree, the chat, the state, and
// what each save of a file came to.

import test from 'node:test';
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { apps, serve, browser, tab, shot } from './browser.mjs';

const folders = apps('apps/hello', 'apps/pipeline', 'apps/team', 'apps/tools', 'apps/memory', 'internal/uitest/apps/desk');
const host = await serve(folders.dir);
const chrome = await browser();

test.after(async () => {
  await chrome.close();
  await host.stop();
  folders.remove();
});

const file = (...parts) => join(folders.dir, ...parts);
const save = (text, ...parts) => writeFileSync(file(...parts), text);

/** see runs a test on a page, which must not have complained. */
function see(name, steps, options = {}) {
  test(name, async () => {
    const { page, complaints, close } = await tab(chrome, host.url + (options.hash ?? ''), options);
    try {
      await steps(page);
      assert.deepEqual(complaints.filter((c) => !(options.forgive ?? /$^/).test(c)), []);
    } catch (error) {
      await shot(page, `failed ${name}`);
      throw new Error([error.message, ...complaints].join('\n'), { cause: error });
    } finally {
      await close();
    }
  });
}

async function say(page, text) {
  await page.fill('#message', text);
  await page.press('#message', 'Enter');
}

const idle = (page) => page.waitForFunction(() => document.getElementById('send').textContent === 'Send');

see('a conversation, with its call and what it changed', async (page) => {
  await page.click('#apps button[data-app=hello]');
  await page.waitForSelector('#head h1:text("hello")');
  await say(page, 'My name is Ana');
  await page.waitForSelector('.text:text("Nice to meet you, Ana!")');
  await idle(page);
  assert.match(await page.textContent('.call'), /remember_name\(name: "Ana"\) ← \{"kept":"Ana"\}/);
  assert.match(await page.textContent('#state tr.changed'), /name"Ana"new/);
  assert.equal(await page.textContent('#state caption code'), 'user:');
  assert.match(await page.textContent('#said'), /hello: Nice to meet you, Ana!/);
  await page.click('.call summary');
  assert.match(await page.textContent('.call .json'), /"name": "Ana"/);
  await say(page, 'Hi');
  await page.waitForSelector('.text:text("Hello again, Ana!")');
  await idle(page);
  await page.reload();
  await page.waitForSelector('.text:text("Hello again, Ana!")');
  assert.equal(await page.locator('.event.mine').count(), 2);
}, { hash: '/#hello' });

see('an answer that is streamed, and nothing moves when it is whole', async (page) => {
  await say(page, 'Tell me a story');
  await page.waitForSelector('.text:text("the whole street listened to the answer.")');
  await idle(page);
  assert.equal(await page.locator('.event:not(.mine) .text').count(), 1);
}, { hash: '/#desk' });

see('a call that waits for approval, denied and then approved', async (page) => {
  await say(page, 'refund it');
  await page.waitForSelector('.question');
  assert.match(await page.textContent('.question'), /refund waits for approval.*refund\(amount: 500\)/);
  await idle(page);
  await shot(page, 'approval');
  await page.click('.question >> text=Deny');
  await page.waitForSelector('.answered:text("denied")');
  await idle(page);
  await say(page, 'refund it again');
  await page.click('.question >> text=Approve');
  await page.waitForSelector('.answered:text("approved")');
  await page.waitForSelector('.text:text("The till says {\\"paid\\":500}.")');
  await idle(page);
  assert.match(await page.textContent('#state'), /refunded500new/);
  assert.match(await page.textContent('#state'), /app:.*refunds1new/);
}, { hash: '/#desk' });

see('calls that are answered later', async (page) => {
  await say(page, 'order tea');
  await page.waitForSelector('.question input');
  await idle(page);
  await page.fill('.question input', '{"status": "sent"}');
  await page.press('.question input', 'Enter');
  await page.waitForSelector('.text:text("sent")');
  await idle(page);
  await say(page, 'let me choose');
  await page.click('.question >> text=black');
  await page.waitForSelector('.text:text("You chose {\\"result\\":\\"black\\"}.")');
  await idle(page);
}, { hash: '/#desk' });

see('what people say is text', async (page) => {
  const text = '<img src=x onerror=alert(1)> <b>bold</b>';
  await say(page, text);
  await page.waitForSelector('.text:text("I heard: <img src=x")');
  await idle(page);
  assert.equal(await page.locator('#events img, #events p b').count(), 0);
}, { hash: '/#desk' });

see('a slip shows its caret within a second, and its mending what changed', async (page) => {
  await page.waitForSelector('#head h1:text("team")');
  const good = readFileSync(file('team', 'root_agent.yaml'), 'utf8');
  const slip = good.replace('instruction: Find', 'instuction: Find');
  const began = Date.now();
  save(slip, 'team', 'root_agent.yaml');
  await page.waitForSelector('#problems .snippet .at');
  assert.ok(Date.now() - began < 1000, `the caret took ${Date.now() - began} ms`);
  assert.match(await page.textContent('#problems'), /unknown field "instuction"/);
  assert.equal(await page.textContent('#problems li:has-text("unknown field") .snippet .at'), 'i');
  assert.match(await page.textContent('#problems .hint'), /did you mean "instruction"/);
  assert.match(await page.textContent('#head'), /the last good revision serves on/);
  await shot(page, 'broken');
  save(good.replace('hand over to whom it concerns', 'hand over to whom it concerns.\n  Be kind'), 'team', 'root_agent.yaml');
  await page.waitForSelector('#problems', { state: 'hidden' });
  await page.waitForSelector('#changes li[data-what=loaded] >> text=agent front_desk: instruction changed');
  await page.click('#changes li[data-what=loaded] summary');
  assert.match(await page.textContent('#changes .diff .is'), /Be kind/);
  await shot(page, 'mended');
  save(good, 'team', 'root_agent.yaml');
  await page.waitForSelector('#changes li[data-what=loaded]:nth-child(1) >> text=agent front_desk: instruction changed');
}, { hash: '/#team' });

see('a new folder is a new app, and a removed one is none', async (page) => {
  await page.waitForSelector('#head h1:text("hello")');
  mkdirSync(file('fresh'));
  save('name: fresh\nmodel: nosuch\n', 'fresh', 'root_agent.yaml');
  await page.click('#apps button[data-app=fresh]');
  assert.match(await page.textContent('#head'), /it does not serve/);
  rmSync(file('fresh'), { recursive: true });
  await page.waitForSelector('#apps button[data-app=fresh]', { state: 'detached' });
}, { hash: '/#hello' });

for (const width of [360, 820, 1600]) {
  for (const colorScheme of ['light', 'dark']) {
    see(`it fits ${width} pixels, ${colorScheme}`, async (page) => {
      await page.waitForSelector('#head h1:text("desk")');
      if (width === 360) await page.click('#panes [data-pane=talk]');
      await say(page, 'a little, please');
      await idle(page);
      await say(page, 'refund it all');
      await page.waitForSelector('.question');
      await idle(page);
      await shot(page, `${width} ${colorScheme}`);
      if (width === 360) {
        await page.click('#panes [data-pane=app]');
        await shot(page, `${width} ${colorScheme} app`);
      }
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `the page is ${over} pixels too wide`);
    }, { hash: '/#desk', colorScheme, viewport: { width, height: width === 360 ? 760 : 1000 } });
  }
}
