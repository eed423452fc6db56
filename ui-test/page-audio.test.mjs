// The audio of the page at /: what is sent and played, and what a user reads who cannot
// talk. page-live.test.mjs has the conversations.

import test from 'node:test';
import assert from 'node:assert/strict';
import { apps, serve } from './host.mjs';
import { browser, DEVICES, shot, tab } from './page/browser.mjs';

const folders = apps('apps/hello');
const host = await serve(folders.dir);
const machines = [];
test.after(async () => {
  await Promise.all(machines.map((chrome) => chrome.close()));
  await host.stop();
  folders.remove();
});

// onPage opens the page in a browser with arguments.
async function onPage(args, act, { url = host.url, ...options } = {}) {
  const chrome = await browser(...args);
  machines.push(chrome);
  const { page, complaints, close } = await tab(chrome, `${url}/#hello`, options);
  await page.waitForSelector('#live:enabled');
  await act(page);
  assert.deepEqual(complaints, []);
  await close();
}

// refused clicks Talk, and expects the message of the page. The conversation has ended.
async function refused(page, message) {
  await page.click('#live');
  await page.waitForSelector('#events .bad');
  assert.equal(await page.textContent('#events .bad'), message);
  assert.equal(await page.locator('#voice').isVisible(), false);
  assert.equal(await page.textContent('#live'), 'Talk');
}

test('audio is converted to 16 kHz at the same volume, without aliases', () => onPage([], async (page) => {
  const peaks = await page.evaluate(async () => {
    const { Resampler } = await import('/ui/resample.js');
    // peak is the highest sample, after the start, of a tone that was converted.
    const peak = (from, to, hertz) => {
      const samples = [];
      const resampler = new Resampler(from, to);
      for (let at = 0; at < from; at += 128) resampler.push(Float32Array.from({ length: 128 }, (_, i) => Math.sin((2 * Math.PI * hertz * (at + i)) / from)), (s) => samples.push(s));
      return { count: samples.length, peak: Math.max(...samples.slice(1000, -1000)) };
    };
    return { speech: peak(48000, 16000, 1000), odd: peak(44100, 16000, 1000), same: peak(16000, 16000, 1000), alias: peak(48000, 16000, 11000) };
  });
  for (const kind of ['speech', 'odd', 'same']) {
    assert.ok(Math.abs(peaks[kind].peak - 1) < 0.02, `${kind}: the peak is ${peaks[kind].peak}`);
    assert.ok(Math.abs(peaks[kind].count - 16000) < 100, `${kind}: ${peaks[kind].count} samples of a second`);
  }
  assert.ok(peaks.alias.peak < 0.01, `11 kHz became a tone with the peak ${peaks.alias.peak}`);
}));

test('recordings of raw samples are played as WAV', () => onPage([], async (page) => {
  const bytes = await page.evaluate(async () => {
    const { toAudioFile, toBase64 } = await import('/ui/pcm.js');
    const file = toAudioFile({ mimeType: 'audio/pcm;rate=16000', data: toBase64(new Uint8Array([1, 0, 255, 127])) });
    return { type: file.type, bytes: [...new Uint8Array(await file.arrayBuffer())] };
  });
  const file = Buffer.from(bytes.bytes);
  assert.equal(bytes.type, 'audio/wav');
  assert.equal(file.length, 48);
  assert.equal(file.toString('latin1', 0, 4) + file.toString('latin1', 8, 16), 'RIFFWAVEfmt ');
  assert.deepEqual([file.readUInt32LE(4), file.readUInt32LE(24), file.readUInt32LE(40)], [40, 16000, 4]);
}));

test('access to the microphone is denied', () => onPage(DEVICES, async (page) => {
  await refused(page, "Access to the microphone was denied. Allow it in the browser's settings of this site, then try again.");
  await shot(page, 'page voice denied');
}));

test('no microphone is connected', () => onPage(['--use-fake-ui-for-media-stream'], (page) => refused(page, 'No microphone was found. Connect one, then try again.')));

test('a page without https on another host cannot use the microphone', async () => {
  const other = await serve(folders.dir, '--allowed-hosts', 'plain.example');
  try {
    await onPage([...DEVICES, '--use-fake-ui-for-media-stream', '--host-resolver-rules=MAP plain.example 127.0.0.1'],
      (page) => refused(page, 'Browsers allow the microphone only on secure pages: open this page with https:, or on localhost.'),
      { url: `http://plain.example:${new URL(other.url).port}` });
  } finally {
    await other.stop();
  }
});
