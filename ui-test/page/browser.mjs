// A browser and a host for tests: what people see is driven as they would.

import { spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

/** root is the repository. */
export const root = join(import.meta.dirname, '..', '..');
const shots = join(import.meta.dirname, '..', 'screenshots');

/** apps makes a folder of copies of apps, by their paths from the repository. */
export function apps(...paths) {
  const dir = mkdtempSync(join(tmpdir(), 'uitest-'));
  for (const path of paths) cpSync(join(root, path), join(dir, path.split('/').pop()), { recursive: true });
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

/** serve starts the host, and says where it serves. */
export async function serve(dir, ...flags) {
  const host = spawn(join(root, 'bin', 'agenthost'), ['serve', dir, '--addr', '127.0.0.1:0', '--session-db', 'memory:', '--drain', '1s', '--dev', '--demo', ...flags]);
  let log = '';
  host.stderr.on('data', (text) => { log += text; });
  const ended = new Promise((done) => host.on('exit', done));
  for await (const line of createInterface(host.stdout)) {
    const url = /serves at (\S+)/.exec(line)?.[1];
    if (url) return { url, stop: () => (host.kill('SIGTERM'), ended), log: () => log };
  }
  throw new Error(`the host did not start:\n${log}`);
}

/** browser is Chromium as the system has it. */
export function browser() {
  const at = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((p) => p && existsSync(p));
  if (!at) throw new Error('there is no Chromium: apt-get install chromium, or say where it is by CHROMIUM=');
  return chromium.launch({ executablePath: at, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/**
 * tab opens a page whose every complaint counts: errors, violations of its
 * policy, requests to other hosts.
 */
export async function tab(chrome, url, options = {}) {
  const context = await chrome.newContext({ viewport: { width: 1600, height: 1000 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(5_000);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('request', (request) => {
    if (new URL(request.url()).host !== new URL(url).host && !request.url().startsWith('data:')) complaints.push(`asked ${request.url()}`);
  });
  await page.goto(url);
  return { page, complaints, close: () => context.close() };
}

/** shot keeps what the page looks like, for people to look at. */
export async function shot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `page ${name}.png`) });
}
