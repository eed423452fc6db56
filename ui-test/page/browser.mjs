// A browser for tests: what people see is driven as they would.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

// A machine that is busy with other tests takes its time.
const patience = 60_000;
const shots = process.env.CI_ARTIFACTS || join(import.meta.dirname, '..', 'screenshots');

/** browser is the Chromium that run.sh found. */
export function browser() {
  if (!process.env.CHROMIUM) throw new Error('the tests are run by make ui-test: it says in CHROMIUM where the browser is');
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'], timeout: patience });
}

/** blank is a page that shows nothing yet. */
export async function blank(chrome, options = {}) {
  const context = await chrome.newContext({ viewport: { width: 1600, height: 1000 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.setDefaultNavigationTimeout(patience);
  return page;
}

/**
 * tab opens a page whose every complaint counts: errors, violations of its
 * policy, requests to other hosts.
 */
export async function tab(chrome, url, options = {}) {
  const page = await blank(chrome, options);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('request', (request) => {
    if (new URL(request.url()).host !== new URL(url).host && !request.url().startsWith('data:')) complaints.push(`asked ${request.url()}`);
  });
  await page.goto(url);
  return { page, complaints, close: () => page.context().close() };
}

/** shot keeps what a page looks like, for people to look at. */
export async function shot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`) });
}
