// The fake Live API in a process of its own, which a test controls: what the model sends,
// and when. It is a Go test, because only tests may use the fake servers.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const program = join(import.meta.dirname, '..', 'bin', 'fakelive.test');
const PATIENCE = 60_000;

/** startFakeLive starts the fake, with the address in the .env of the app in a folder. */
export async function startFakeLive(app) {
  const fake = spawn(program, [], { env: { PATH: process.env.PATH, FAKE_LIVE: '1' } });
  const kill = () => fake.kill('SIGKILL');
  process.once('exit', kill);
  const waiting = [];
  const lines = createInterface(fake.stdout);
  const url = new Promise((done) => lines.on('line', (line) => {
    const [kind, text] = [line.split(' ', 1)[0], line.slice(line.indexOf(' ') + 1)];
    if (kind === 'FAKE') done(text);
    if (kind === 'REPORT') waiting.shift()(JSON.parse(text));
  }));
  const address = await url;
  writeFileSync(join(app, '.env'), `FAKE_LIVE_URL=${address}\nFAKE_LIVE_KEY=a-key-of-the-tests\n`);

  /** command sends one command and returns the report. */
  const command = async (what) => {
    const answer = new Promise((done) => waiting.push(done));
    fake.stdin.write(`${JSON.stringify(what)}\n`);
    const report = await answer;
    if (report.error) throw new Error(report.error);
    return report;
  };
  /** until waits for a report with a property. */
  const until = async (isTrue, what) => {
    for (const end = Date.now() + PATIENCE; Date.now() < end;) {
      const report = await command({});
      if (isTrue(report)) return report;
      await new Promise((done) => setTimeout(done, 50));
    }
    throw new Error(`${what}: ${JSON.stringify(await command({}))}`);
  };
  return {
    until,
    host: new URL(address).host,
    report: () => command({}),
    send: (...messages) => messages.reduce(async (before, send) => { await before; return command({ send }); }, undefined),
    speak: (hundredths) => command({ speak: hundredths }),
    close: (code) => command({ close: code }),
    stop: async () => {
      const ended = once(fake, 'exit');
      fake.stdin.end();
      await ended;
      process.off('exit', kill);
    },
  };
}

// Messages of the Live API.
const content = (serverContent) => ({ serverContent });
export const userSpeech = (text, finished) => content({ inputTranscription: { text, ...(finished ? { finished } : {}) } });
export const modelSpeech = (text) => content({ outputTranscription: { text } });
export const generationComplete = content({ generationComplete: true });
export const turnComplete = content({ turnComplete: true });
export const interrupted = content({ interrupted: true });
export const calls = (...functionCalls) => ({ toolCall: { functionCalls } });
