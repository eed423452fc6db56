// The actions of a turn in the page's chat: run it again, correct it, return to an earlier
// one, and read its events.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { shot } from './page/browser.mjs';
import { idle, sendMessage, start } from './page/see.mjs';

const { see, host, save, file } = await start('ui-test/page/apps/desk', 'ui-test/page/apps/writer');

const answers = (page) => page.locator('#events > .turn:visible .event:not(.mine) .text').allTextContents();
const turn = (page, at) => page.locator('#events > .turn:visible').nth(at);
const get = async (path) => (await fetch(host.url + path)).json();
const session = async (page) => get(`/apps/desk/users/user/sessions/${decodeURIComponent(new URL(page.url()).hash.split('/')[1])}`);

async function talk(page, ...messages) {
  for (const message of messages) {
    await sendMessage(page, message);
    await page.waitForFunction((text) => [...document.querySelectorAll('.event.mine .text')].at(-1)?.textContent === text, message);
    await idle(page);
  }
}

// choose opens the menu of a turn with the keyboard and runs an entry of it.
async function choose(page, at, entry) {
  await turn(page, at).locator('.actions [aria-haspopup=menu]').press('ArrowDown');
  await page.getByRole('menuitem', { name: entry }).press('Enter');
}

// A retry keeps the answer that it replaces: the arrows show both, and a person can
// continue the session from either.
see('retry keeps the other answer next to the new one', async (page) => {
  await talk(page, 'hello', 'and more');
  await turn(page, 0).hover();
  await turn(page, 0).getByRole('button', { name: 'Retry' }).click();
  await page.waitForSelector('.versions >> text=2/2');
  await idle(page);
  assert.deepEqual(await answers(page), ['You wrote: hello']);
  await page.getByRole('button', { name: 'Earlier answer' }).click();
  await page.waitForSelector('.version >> text=Answer 1 was taken back. The session continues from answer 2.');
  assert.equal(await page.locator('#events > .turn:visible').count(), 0);
  assert.deepEqual(await page.locator('.version .event:not(.mine) .text').allTextContents(), ['You wrote: hello']);
  await shot(page, 'page earlier answer');
  await page.getByRole('button', { name: 'Later answer' }).click();
  await page.waitForSelector('.version', { state: 'detached' });
  await page.getByRole('button', { name: 'Earlier answer' }).click();
  await page.getByRole('button', { name: 'Use this answer' }).click();
  await page.waitForSelector('.version', { state: 'detached' });
  await page.waitForSelector('.versions >> text=1/2');
  assert.deepEqual(await answers(page), ['You wrote: hello', 'You wrote: and more']); // the turn that followed is back too
  await page.reload();
  await page.waitForSelector('.versions >> text=1/2');
  assert.deepEqual(await answers(page), ['You wrote: hello', 'You wrote: and more']);
}, { hash: '/#desk' });

// A message is edited in place. Escape keeps it; Enter takes the turn back and
// runs the new text.
see('a message is edited and run again', async (page) => {
  await talk(page, 'first', 'a typo');
  await turn(page, 1).getByRole('button', { name: 'Edit' }).click();
  assert.equal(await page.inputValue('.edit textarea'), 'a typo');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('.edit').count(), 0);
  assert.ok(await page.locator('.mine >> text=a typo').isVisible());
  await turn(page, 1).getByRole('button', { name: 'Edit' }).click();
  await page.fill('.edit textarea', '<b>a fix</b>');
  await page.press('.edit textarea', 'Enter');
  await page.waitForSelector('.versions >> text=2/2');
  await idle(page);
  assert.deepEqual(await answers(page), ['You wrote: first', 'You wrote: <b>a fix</b>']);
  assert.equal(await page.locator('#events b:text-is("a fix")').count(), 0);
  const stored = await session(page);
  assert.ok(stored.events.some((e) => e.content?.parts?.[0]?.text === 'a typo')); // taken back, not deleted
}, { hash: '/#desk' });

// The menu works with the keyboard alone. A rewind can be undone as long as nothing was
// sent after it.
see('a session is rewound to a turn, and restored', async (page) => {
  await talk(page, 'one', 'two', 'three');
  await choose(page, 0, 'Rewind to here');
  await page.waitForSelector('text=Later turns were taken back.');
  assert.deepEqual(await answers(page), ['You wrote: one']);
  await page.getByRole('button', { name: 'Restore them' }).click();
  await page.waitForFunction(() => document.querySelectorAll('#events > .turn').length === 3);
  await choose(page, 2, 'Take this turn back');
  await page.waitForFunction(() => document.querySelectorAll('#events > .turn').length === 2);
  assert.deepEqual(await answers(page), ['You wrote: one', 'You wrote: two']);
  await turn(page, 1).locator('.actions [aria-haspopup=menu]').press('ArrowUp');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Events as JSON');
  await page.keyboard.press('Home');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Copy message');
  assert.equal(await page.getByRole('menuitem', { name: 'Rewind to here' }).getAttribute('aria-disabled'), 'true'); // the session ends there
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-haspopup')), 'menu');
  await page.waitForSelector('[role=menu]', { state: 'detached' });
}, { hash: '/#desk' });

// The raw events are those of the server.
see('the events of a turn are shown as JSON', async (page) => {
  await talk(page, 'order tea');
  await choose(page, 0, 'Events as JSON');
  await page.waitForSelector('.sheet >> text=calls order');
  assert.equal(await page.locator('.sheet summary').count(), 4);
  await page.locator('.sheet summary').nth(1).click();
  const stored = await session(page);
  const shown = JSON.parse(await page.locator('.sheet pre.json').first().textContent());
  assert.equal(shown.id, stored.events.find((e) => e.content.parts[0].functionCall).id);
  await shot(page, 'page raw events');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.sheet', { state: 'detached' });
}, { hash: '/#desk' });

// A fork is a session of its own, with the state as it was at the end of the turn.
see('a session is forked from a turn', async (page) => {
  await talk(page, 'a little back', 'thanks');
  const source = await session(page);
  assert.equal(source.state.refunded, 5);
  await talk(page, 'a little back');
  await choose(page, 1, 'Fork from here');
  await page.waitForSelector('text=This session continues from the fork.');
  const fork = await session(page);
  assert.notEqual(fork.id, source.id);
  assert.deepEqual(await answers(page), ['The till returned {"paid":5}.', 'You wrote: thanks']);
  assert.equal(fork.state['app:refunds'], 2); // shared with the source
  await talk(page, 'goodbye');
  assert.deepEqual(await answers(page), ['The till returned {"paid":5}.', 'You wrote: thanks', 'You wrote: goodbye']);
  assert.equal((await get(`/apps/desk/users/user/sessions/${source.id}`)).events.at(-1).content.parts[0].text, 'The till returned {"paid":5}.');
}, { hash: '/#desk' });

// The reason of a tool call is two clicks away: open the call, ask why.
see('a tool call is explained', async (page) => {
  await talk(page, 'a little back');
  const clicks = [() => page.click('.call summary'), () => page.click('text=Why this call')];
  for (const click of clicks) await click();
  await page.waitForSelector('.why >> text=tool calls requested by the model');
  assert.match(await page.textContent('.why'), /agent desk \(LlmAgent\) root_agent\.yaml:1:1/);
  assert.match(await page.textContent('.why'), /tool refund root_agent\.yaml:10:\d+/);
  assert.match(await page.textContent('.why'), /Pay back what is too much/);
  const link = page.locator('.why a >> text=root_agent.yaml:1:1');
  const place = () => link.evaluate((node) => node.parentElement.href);
  assert.match(await place(), /^vscode:\/\/file\/.*\/desk\/root_agent\.yaml:1:1$/);
  await page.getByLabel('Editor').selectOption('idea');
  assert.match(await place(), /^idea:\/\/open\?file=\/.*\/desk\/root_agent\.yaml&line=1&column=1$/);
  await page.getByRole('button', { name: /result of refund/ }).click();
  await page.waitForSelector('.why >> text=app:refunds');
  await shot(page, 'page why');
  await page.click('.sheet [aria-label=Close]');
  assert.equal(await page.evaluate(() => localStorage.getItem('agenthost.editor')), 'idea');
}, { hash: '/#desk' });

// A trace shows the agents, model calls and tools of a turn; a click shows what a model
// received and where that is written. Two turns are compared.
see('the trace of a turn, and of two', async (page) => {
  await talk(page, 'a little back', 'hello <i>you</i>');
  await turn(page, 0).hover();
  await turn(page, 0).getByRole('button', { name: 'Trace' }).click();
  await page.waitForSelector('.trace');
  assert.deepEqual(await page.locator('.span .name').allTextContents(), ['run', 'desk agent', 'scripted model', 'refund tool', 'scripted model']);
  await page.locator('.span.tool > summary').click();
  assert.deepEqual(JSON.parse(await page.locator('.span.tool pre').first().textContent()), { amount: 5 });
  await page.locator('.span.model > summary').first().press('Enter');
  await page.locator('.span.model >> text=Lines of YAML').first().click();
  await page.waitForSelector('.span.model >> text=instruction root_agent.yaml:4:14');
  await page.locator('.span.model summary:text("Request")').first().click();
  await page.waitForSelector('.span.model >> text=System instruction');
  await page.getByLabel('Compare with').selectOption({ label: 'hello <i>you</i>' });
  await page.waitForSelector('.compared');
  assert.equal(await page.locator('.trace').count(), 2);
  assert.match(await page.textContent('.compared'), /tool calls10−1/);
  assert.equal(await page.locator('.sheet i').count(), 0);
  await shot(page, 'page trace compared');
}, { hash: '/#desk' });

// A score is kept with the turn, and shown again after a reload.
see('a turn gets a thumb', async (page) => {
  await talk(page, 'hello');
  await page.getByRole('button', { name: 'Bad answer' }).click();
  await page.waitForSelector('[aria-label="Bad answer"][aria-pressed=true]');
  await page.getByRole('button', { name: 'Good answer' }).click();
  await page.waitForSelector('[aria-label="Good answer"][aria-pressed=true]');
  await page.reload();
  await page.waitForSelector('[aria-label="Good answer"][aria-pressed=true]');
  assert.equal(await page.getAttribute('[aria-label="Bad answer"]', 'aria-pressed'), 'false');
  const { id } = await session(page);
  assert.deepEqual((await get(`/apps/desk/users/user/sessions/${id}/feedback`)).map((f) => f.score), [1]);
}, { hash: '/#desk' });

// A wrong answer is corrected in the files, run again and kept as a test, with four clicks.
see('a wrong answer is corrected and kept as a test', async (page) => {
  await page.waitForSelector('#head h1:text("writer")');
  await sendMessage(page, 'what is {2+2}?');
  await page.waitForSelector('text=Refund policy');
  await idle(page);
  save('- text: "The answer is 4."\n', 'writer', 'demo.script.yaml');
  await page.waitForSelector('.notice.loaded');
  let clicks = 0;
  const click = async (locator) => (clicks++, locator.click());
  await click(page.getByRole('button', { name: 'Retry' }));
  await page.waitForSelector('text=The answer is 4.');
  await idle(page);
  await click(page.locator('.actions [aria-haspopup=menu]'));
  await click(page.getByRole('menuitem', { name: 'Make a test' }));
  assert.equal(await page.inputValue('[aria-label="Name of the test"]'), 'what is {2+2}?');
  await click(page.getByRole('button', { name: 'Save test' }));
  await page.waitForSelector('.saved >> text=Saved as test “what is {2+2}?” in saved.test.yaml. It passes.');
  assert.equal(clicks, 4);
  assert.match(readFileSync(file('writer', 'saved.test.yaml'), 'utf8'), /^- name: "what is \{2\+2\}\?"\n/);
  await shot(page, 'page saved test');
  await page.getByRole('button', { name: 'Close' }).click();
  await click(page.locator('.actions [aria-haspopup=menu]'));
  await click(page.getByRole('menuitem', { name: 'Make a test' }));
  await click(page.getByRole('button', { name: 'Save test' }));
  await page.waitForSelector('text=The app has a test named "what is {2+2}?": choose another name');
}, { hash: '/#writer', forgive: /409/ });

// The sheets and the menu fit a phone and half a screen, in both color schemes.
for (const [width, height] of [[390, 800], [960, 900], [1920, 1080]]) {
  for (const colorScheme of ['light', 'dark']) {
    see(`a turn at ${width} px, ${colorScheme}`, async (page) => {
      if (width < 720) await page.click('#panes [data-pane=talk]');
      await talk(page, 'a little back', 'a word that is as long as a sentence: '.repeat(6) + 'x'.repeat(90), '\u202Eorder <img src=x>');
      const fits = async (name) => {
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, name);
        await shot(page, `page turn ${name} ${width} ${colorScheme}`);
      };
      await turn(page, 2).locator('.actions [aria-haspopup=menu]').click();
      await fits('menu');
      await page.keyboard.press('Escape');
      await turn(page, 2).getByRole('button', { name: 'Trace' }).click();
      await page.getByLabel('Compare with').selectOption({ label: 'a little back' });
      await page.waitForSelector('.compared');
      await page.locator('.span.model > summary').first().click();
      await fits('trace');
      await page.click('.sheet [aria-label=Close]');
      await turn(page, 2).getByRole('button', { name: 'Why' }).click();
      await page.waitForSelector('.why section');
      await fits('why');
      await page.click('.sheet [aria-label=Close]');
      await turn(page, 2).getByRole('button', { name: 'Edit' }).click();
      await fits('edit');
    }, { hash: '/#desk', viewport: { width, height }, colorScheme });
  }
}
