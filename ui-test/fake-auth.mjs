// An authorization server, and a service that accepts its tokens, in a process of their own.
// It is a Go test, because only tests may use the fake servers.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const program = join(import.meta.dirname, '..', 'bin', 'fakeauth.test');

/** startFakeAuth starts the servers. The authorization server sends browsers to one address only. */
export async function startFakeAuth(redirect) {
  const fake = spawn(program, ['-test.run=^TestServe$'], { env: { PATH: process.env.PATH, FAKE_AUTH_REDIRECT: redirect } });
  const kill = () => fake.kill('SIGKILL');
  process.once('exit', kill);
  let log = '';
  const ended = once(fake, 'exit');
  const lines = createInterface(fake.stdout);
  const [issuer, service] = await new Promise((done) => lines.on('line', (line) => {
    if (line.startsWith('FAKE ')) done(line.split(' ').slice(1));
    else log += `${line}\n`;
  }));
  return {
    issuer,
    service,
    /** stop ends the process, and throws if a request violated a standard. */
    stop: async () => {
      fake.stdin.end();
      const [status] = await ended;
      process.off('exit', kill);
      if (status !== 0) throw new Error(log);
    },
  };
}
