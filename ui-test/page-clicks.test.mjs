// Five everyday tasks on the page, counted: the browser counts the clicks and keys that it receives, and
// a task that takes more than its limit fails. A string that a person types counts one, however long it is.

import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { shot } from './page/browser.mjs';
import { idle, sendMessage, start } from './page/see.mjs';

const { see, host, save, file } = await start('ui-test/page/apps/desk', 'ui-test/page/apps/writer', 'ui-test/page/apps/till');

const counted = [];
test.after(() => console.log(`clicks and keys:\n${counted.join('\n')}`));

/** count runs a task's steps and fails above limit, the number of clicks, keys and strings. */
async function count(page, task, limit, steps) {
  await page.evaluate(() => {
    window.actions = 0;
    // The characters of a string count as one; the click that Enter causes in a form has no detail.
    addEventListener('click', (event) => { window.actions += event.isTrusted && event.detail > 0 ? 1 : 0; }, true);
    addEventListener('keydown', (event) => { window.actions += event.isTrusted && event.key.length > 1 ? 1 : 0; }, true);
  });
  let texts = 0;
  await steps(async (locator, text) => (texts++, locator.fill(text)));
  const actions = await page.evaluate(() => window.actions) + texts;
  counted.push(`${String(actions).padStart(3)} of ${limit}: ${task}`);
  assert.ok(actions > 0 && actions <= limit, `${task} takes ${actions} clicks and keys, at most ${limit} are allowed`);
  await shot(page, `page clicks ${task}`);
}

see('correct a wrong answer and keep it as a test', async (page) => {
  await page.waitForSelector('#head h1:text("writer")');
  await sendMessage(page, 'what is 2+3?');
  await page.waitForSelector('text=Refund policy');
  await idle(page);
  save('- text: "The answer is 5."\n', 'writer', 'demo.script.yaml'); // the correction, in an editor
  await page.waitForSelector('.notice.loaded');
  await count(page, 'correct an answer and keep it as a test', 4, async () => {
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.waitForSelector('text=The answer is 5.');
    await idle(page);
    await page.locator('.actions [aria-haspopup=menu]').click();
    await page.getByRole('menuitem', { name: 'Make a test' }).click();
    await page.getByRole('button', { name: 'Save test' }).click();
    await page.waitForSelector('.saved >> text=It passes.');
  });
  assert.match(readFileSync(file('writer', 'saved.test.yaml'), 'utf8'), /The answer is 5/);
}, { hash: '/#writer' });

see('find why a tool was called', async (page) => {
  await sendMessage(page, 'a little back');
  await page.waitForSelector('.call');
  await idle(page);
  await count(page, 'find why a tool was called', 2, async () => {
    await page.click('.call summary');
    await page.click('text=Why this call');
    await page.waitForSelector('.why >> text=tool calls requested by the model');
  });
}, { hash: '/#desk' });

see("compare two revisions' answers", async (page) => {
  await page.waitForSelector('#head h1:text("writer")');
  await sendMessage(page, 'what is 1+1?');
  await idle(page);
  save('- text: "The answer is 2."\n', 'writer', 'demo.script.yaml');
  await page.waitForSelector('.notice.loaded');
  await count(page, "compare two revisions' answers", 2, async () => {
    await page.getByRole('button', { name: 'Retry' }).click();
    await page.waitForSelector('text=The answer is 2.');
    await idle(page);
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.waitForSelector('.answers >> text=The answer is 2.');
  });
}, { hash: '/#writer' });

for (const [path, form] of [['/#till', 'form.question'], ['/chat/till', 'form.ask']]) {
  see(`approve with a changed amount at ${path}`, async (page) => {
    if (path === '/#till') await sendMessage(page, 'pay it back');
    else {
      await page.locator('#composer textarea').fill('pay it back');
      await page.locator('#composer textarea').press('Enter');
    }
    await page.waitForSelector(form);
    await count(page, `approve with a changed amount at ${path.replaceAll('/', ' ').trim()}`, 3, async (type) => {
      const amount = page.locator(form).getByLabel(/^amount/i);
      await amount.click();
      await type(amount, '120');
      await page.keyboard.press('Enter');
      await page.waitForSelector('text=You changed {"amount":120}.');
    });
  }, { hash: path });
}

see("find yesterday's conversation", async (page) => {
  const noon = new Date().setHours(12, 0, 0, 0) - 86_400_000;
  const turn = (author, text) => ({ author, id: author, invocationId: 'e-1', timestamp: noon / 1000, content: { role: author === 'user' ? 'user' : 'model', parts: [{ text }] } });
  const events = [turn('user', 'Hi'), turn('desk', 'The hello of yesterday')];
  const made = await fetch(`${host.url}/apps/desk/users/user/sessions`, { method: 'POST', body: JSON.stringify({ sessionId: 'yesterday', events }) });
  assert.equal(made.status, 200);
  await page.reload();
  await page.waitForSelector('#sessions h3:text("Yesterday")');
  await count(page, "find yesterday's conversation", 1, async () => {
    await page.click('#sessions h3:text("Yesterday") ~ * a');
    await page.waitForSelector('text=The hello of yesterday');
  });
}, { hash: '/#desk' });
