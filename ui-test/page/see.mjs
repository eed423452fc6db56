// One server and one browser for the tests of a file; each test has its own page.

import test from 'node:test';
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apps, serve } from '../host.mjs';
import { browser, shot, tab } from './browser.mjs';

/** start serves copies of apps and returns see, which runs a test on a page. */
export async function start(...paths) {
  const folders = apps(...paths);
  const host = await serve(folders.dir);
  const chrome = await browser();
  test.after(async () => {
    await chrome.close();
    await host.stop();
    folders.remove();
  });
  const file = (...parts) => join(folders.dir, ...parts);

  /** see runs a test on a page and fails if the page logged errors. */
  function see(name, steps, options = {}) {
    test(name, async () => {
      const { page, complaints, close } = await tab(chrome, (options.url ?? host.url) + (options.hash ?? ''), options);
      try {
        await steps(page);
        assert.deepEqual(complaints.filter((c) => !(options.forgive ?? /$^/).test(c)), []);
      } catch (error) {
        await shot(page, `page failed ${name.replaceAll('/', ' ')}`);
        throw new Error([error.message, ...complaints].join('\n'), { cause: error });
      } finally {
        await close();
      }
    });
  }

  return { see, host, chrome, file, dir: folders.dir, save: (text, ...parts) => writeFileSync(file(...parts), text) };
}

/** sendMessage types and sends a message, once an app is selected. */
export async function sendMessage(page, text) {
  await page.waitForSelector('#head h1', { state: 'attached' });
  await page.fill('#message', text);
  await page.press('#message', 'Enter');
}

/** chooseApp selects an app in the list, which is in a drawer on narrow screens. */
export async function chooseApp(page, app) {
  if (await page.isVisible('#menu')) await page.click('#menu');
  await page.click(`#apps button[data-app=${app}]`);
}

/** actOnSession clicks an entry in the menu of the open session. */
export async function actOnSession(page, action) {
  await page.click('#session [aria-label="Session actions"]');
  await page.click(`[role=menuitem]:has-text("${action}")`);
}

/** idle waits until no response is in progress. */
export const idle = (page) => page.waitForFunction(() => document.getElementById('send').textContent === 'Send');
