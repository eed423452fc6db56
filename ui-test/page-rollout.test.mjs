// A rollout in the view Revisions: from the saved file to the decision that a person makes.

import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apps, serve } from './host.mjs';
import { findings } from './page/axe.mjs';
import { browser, shot, tab } from './page/browser.mjs';

const folders = apps('ui-test/page/apps/stepwise');
const host = await serve(folders.dir, '--dev=false'); // developer tools publish a change at once
const chrome = await browser();
test.after(async () => {
  await chrome.close();
  await host.stop();
  folders.remove();
});

test('a change is given to half of the new sessions, paused, and taken back', async () => {
  const { page, complaints, close } = await tab(chrome, `${host.url}/#stepwise//revisions`, { viewport: { width: 1600, height: 1000 } });
  await page.waitForSelector('#view [data-serving]');
  const file = join(folders.dir, 'stepwise', 'root_agent.yaml');
  writeFileSync(file, readFileSync(file, 'utf8').replace('one word', 'two words'));
  await page.waitForFunction(async () => (await (await fetch('/apps/stepwise/rollout')).json()).status === 'running');
  await page.reload();
  await page.waitForSelector('.rollout [data-status=running] >> text=runs: 50 % of the new sessions');
  assert.match(await page.textContent('#head .facts'), /running, with a change that is held .* new revision \w+: .*50 %/);
  assert.equal(await page.locator('#head button').count(), 0, 'nothing waits for a reload');
  assert.equal(await page.locator('.rollout [aria-current=step] th').textContent(), '50 %');
  for (const [width, colorScheme] of [[1600, 'light'], [390, 'dark']]) {
    await page.setViewportSize({ width, height: 1000 });
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await findings(page), [], `${width} ${colorScheme}`);
    await shot(page, `page rollout ${width} ${colorScheme}`);
  }
  await page.click('.rollout >> text=Pause');
  await page.waitForSelector('.rollout [data-status=paused]');
  await page.click('.rollout >> text=Abort');
  await page.waitForSelector('.rollout [data-status=aborted] >> text=was taken back');
  assert.equal(await page.locator('.rollout button').count(), 1, 'a rollout that was taken back can be promoted');
  await shot(page, 'page rollout aborted');
  assert.deepEqual(complaints, []);
  await close();
});
