// A host of its own for each test: the apps are a copy that the test may change,
// sessions are in memory, and the port is whatever is free.
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const here = import.meta.dirname;
const binary = join(here, '..', 'bin', 'agenthost');

// start serves a copy of the apps, and returns when it does.
export async function start(...flags) {
  const dir = mkdtempSync(join(tmpdir(), 'agenthost-ui-'));
  const apps = join(dir, 'apps');
  cpSync(join(here, 'apps'), apps, { recursive: true });
  const port = await freePort();
  const child = spawn(binary, ['serve', apps, '--addr', `127.0.0.1:${port}`, '--session-db', 'memory:', ...flags],
    { cwd: dir, env: { PATH: process.env.PATH, HOME: dir, GOOGLE_API_KEY: 'none' }, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.stderr.on('data', (text) => { log += text; });
  const served = new Promise((resolve) => child.stdout.once('data', () => resolve(true)));
  if (!await Promise.race([served, ended.then(() => false)])) throw new Error(`serve ended:\n${log}`);
  return {
    url: `http://127.0.0.1:${port}`,
    apps,
    log: () => log,
    async stop() {
      child.kill('SIGTERM');
      await ended;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
