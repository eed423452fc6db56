// The browser of the tests.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

// A long timeout for machines that run other tests.
const patience = 60_000;
const shots = process.env.CI_ARTIFACTS || join(import.meta.dirname, '..', 'screenshots');

/** browser starts the Chromium that run.sh found, with more arguments. */
export function browser(...more) {
  if (!process.env.CHROMIUM) throw new Error('CHROMIUM is required: run the tests with make ui-test');
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', ...more], timeout: patience });
}

/** DEVICES are arguments for a microphone that beeps once a second and a camera that shows a clock. */
export const DEVICES = ['--use-fake-device-for-media-stream', '--autoplay-policy=no-user-gesture-required'];

/** blank opens an empty page. */
export async function blank(chrome, options = {}) {
  const context = await chrome.newContext({ viewport: { width: 1600, height: 1000 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  page.setDefaultNavigationTimeout(patience);
  return page;
}

/**
 * tab opens a page and records complaints: errors, warnings, violations of the
 * content security policy, and requests to other hosts.
 */
export async function tab(chrome, url, options = {}) {
  const page = await blank(chrome, options);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('request', (request) => {
    if (new URL(request.url()).host !== new URL(url).host && !request.url().startsWith('data:')) complaints.push(`requested ${request.url()}`);
  });
  await page.goto(url);
  return { page, complaints, close: () => page.context().close() };
}

/** shot saves a screenshot for manual review. */
export async function shot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`) });
}
