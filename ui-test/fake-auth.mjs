// An authorization server, and a service that accepts its tokens, in a process of their own.
// It is a Go test, because only tests may use the fake servers.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const program = join(import.meta.dirname, '..', 'bin', 'fakeauth.test');

/** startFakeAuth starts the servers. The authorization server sends browsers to one address only. */
export const startFakeAuth = (redirect) => startServers('TestServe', redirect);

/** startFakeMCP starts them with an MCP server as the service, and with pages where people consent. */
export const startFakeMCP = (redirect) => startServers('TestServeMCP', redirect);

async function startServers(name, redirect) {
  const fake = spawn(program, [`-test.run=^${name}$`], { env: { PATH: process.env.PATH, FAKE_AUTH_REDIRECT: redirect } });
  const kill = () => fake.kill('SIGKILL');
  process.once('exit', kill);
  let log = '';
  const ended = once(fake, 'exit');
  const lines = createInterface(fake.stdout);
  const [issuer, service, record] = await new Promise((done) => lines.on('line', (line) => {
    if (line.startsWith('FAKE ')) done(line.split(' ').slice(1));
    else log += `${line}\n`;
  }));
  return {
    issuer,
    service,
    /** read returns what has happened, and expire ends all access tokens. Both are for an MCP server. */
    read: async () => (await fetch(`${record}/record`)).json(),
    expire: () => fetch(`${record}/expire`, { method: 'POST' }),
    /** stop ends the process, and throws if a request violated a standard. */
    stop: async () => {
      fake.stdin.end();
      const [status] = await ended;
      process.off('exit', kill);
      if (status !== 0) throw new Error(log);
    },
  };
}
