// The microphone and the camera of the official Dev UI against the fake Live API.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { devUI } from './bundle.mjs';
import { calls, generationComplete, interrupted, modelSpeech, startFakeLive, turnComplete, userSpeech } from './fake-live.mjs';
import { apps, serve } from './host.mjs';
import { blank, browser, DEVICES, shot } from './page/browser.mjs';

const folders = apps('ui-test/page/apps/caller');
let fake, host, chrome, page;
const violations = [];
const played = { received: 0 };

before(async () => {
  fake = await startFakeLive(join(folders.dir, 'caller'));
  host = await serve(folders.dir, '--ui-dir', devUI());
  chrome = await browser(...DEVICES, '--use-fake-ui-for-media-stream');
  page = await blank(chrome, { viewport: { width: 1500, height: 950 } });
  await page.route((url) => url.hostname !== '127.0.0.1', (route) => route.abort());
  await page.addInitScript(countPlayback);
  page.on('console', (message) => /Content Security Policy|Error accessing/.test(message.text()) && violations.push(message.text()));
  page.on('websocket', (socket) => socket.on('framereceived', ({ payload }) => { played.received += (String(payload).match(/"mimeType":"audio\/pcm/g) ?? []).length; }));
  await page.goto(`${host.url}/dev-ui/?app=caller`);
  await page.locator('textarea.chat-input-box').waitFor();
});
after(async () => {
  await chrome?.close();
  await host?.stop();
  await fake?.stop();
  folders.remove();
});

// countPlayback counts the sounds that the page starts and stops.
function countPlayback() {
  window.sounds = { started: 0, stopped: 0 };
  const { start, stop } = AudioBufferSourceNode.prototype;
  AudioBufferSourceNode.prototype.start = function count(...args) { window.sounds.started++; return start.apply(this, args); };
  AudioBufferSourceNode.prototype.stop = function count(...args) { window.sounds.stopped++; return stop.apply(this, args); };
}

const button = (name) => page.locator('button.mat-mdc-icon-button', { hasText: new RegExp(`^\\s*${name}\\s*$`) }).first();
const sees = (text) => page.getByText(text, { exact: false }).last().waitFor();
const sounds = () => page.evaluate(() => window.sounds);

test('a call: the microphone reaches the model at 16 kHz, captions and audio come back', async () => {
  await button('call').click();
  const began = await fake.until((r) => r.audio > 0, 'no audio');
  const since = Date.now();
  // A busy machine delivers the audio up to a second late, which is little of six; without conversion
  // the rate would be 22000, 44100 or 48000.
  const { audioTypes, audioBytes } = await fake.until((r) => r.audio > began.audio && Date.now() - since > 6000, 'the audio stopped');
  const rate = ((audioBytes - began.audioBytes) / 2 / (Date.now() - since)) * 1000;
  assert.ok(rate > 12000 && rate < 20000, `${Math.round(rate)} samples per second of ${Object.keys(audioTypes)}`);
  await fake.send(userSpeech('Where is '), userSpeech('my order?'));
  await fake.speak(40);
  await fake.send(modelSpeech('It left yesterday.'));
  await sees('Where is my order?');
  await sees('It left yesterday.');
  await page.waitForFunction(() => window.sounds.started > 0);
  await shot(page, 'dev-ui live');
});

test('an interruption stops the playback', async () => {
  const { stopped } = await sounds();
  await fake.send(interrupted, turnComplete);
  await page.waitForFunction((before) => window.sounds.stopped > before, stopped);
  assert.equal(played.received, 40, 'chunks of audio from the model');
});

test('a tool call during the call', async () => {
  await fake.send(calls({ id: 'c1', name: 'find_order', args: { number: 7 } }), turnComplete);
  const { responses } = await fake.until((r) => r.responses?.length === 1, 'no response to the call');
  assert.deepEqual(responses, [{ status: 'on its way', number: 7 }]);
  await sees('find_order');
  await fake.send(modelSpeech('It is on its way.'), generationComplete, turnComplete);
  await sees('It is on its way.');
});

test('the camera sends images', async () => {
  await button('videocam').click();
  await fake.until((r) => r.images > 0, 'no images');
  await shot(page, 'dev-ui live camera');
});

test('the end of the call', async () => {
  await button('call_end').click();
  await button('call').waitFor();
  const { audio } = await fake.report();
  await page.waitForTimeout(600);
  assert.equal((await fake.report()).audio, audio, 'audio after the end');
  assert.deepEqual(violations, []);
  await shot(page, 'dev-ui live ended');
});
