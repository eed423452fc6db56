// Test hosts. Each serves copies of apps that the test may change, with sessions in
// memory, on a free port.

import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const root = join(import.meta.dirname, '..');

/** apps creates a folder with copies of apps, given by their paths in the repository. */
export function apps(...paths) {
  const dir = mkdtempSync(join(tmpdir(), 'agenthost-ui-'));
  for (const path of paths) cpSync(join(root, path), join(dir, path.split('/').pop()), { recursive: true });
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

/** serve starts a host and returns its URL. The host does not inherit API keys. */
export async function serve(dir, ...flags) {
  const host = spawn(join(root, 'bin', 'agenthost'), ['serve', dir, '--addr', '127.0.0.1:0', '--session-db', 'memory:', '--drain', '1s', '--dev', '--demo', ...flags],
    { env: { PATH: process.env.PATH, HOME: dir } });
  const kill = () => host.kill('SIGKILL');
  process.once('exit', kill);
  let log = '';
  host.stderr.on('data', (text) => { log += text; });
  const ended = new Promise((done) => host.once('exit', done)).then(() => process.off('exit', kill));
  for await (const line of createInterface(host.stdout)) {
    const url = /serves at (\S+)/.exec(line)?.[1];
    if (url) return { url, stop: () => (host.kill('SIGTERM'), ended), crash: () => (host.kill('SIGKILL'), ended), log: () => log };
  }
  throw new Error(`the host did not start:\n${log}`);
}
