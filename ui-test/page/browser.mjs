// The browser of the tests.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

// A long timeout for machines that run other tests.
const patience = Number(process.env.UI_TIMEOUT || 60_000);
const shots = process.env.CI_ARTIFACTS || join(import.meta.dirname, '..', 'screenshots');

/** browser starts the Chromium that run.sh found, with more arguments. */
export function browser(...more) {
  if (!process.env.CHROMIUM) throw new Error('CHROMIUM is required: run the tests with make ui-test');
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', ...more], timeout: patience });
}

/** DEVICES are arguments for a microphone that beeps once a second and a camera that shows a clock. */
export const DEVICES = ['--use-fake-device-for-media-stream', '--autoplay-policy=no-user-gesture-required'];

/** until polls until isTrue resolves to something true, which it returns. It fails after the timeout of all waits. */
export async function until(isTrue, what) {
  for (const end = Date.now() + patience; Date.now() < end;) {
    const value = await isTrue();
    if (value) return value;
    await new Promise((done) => { setTimeout(done, 20); });
  }
  throw new Error(`${what}: still not true after ${patience} ms`);
}

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
