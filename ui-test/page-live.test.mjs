// Live conversations in the page at /, with Chromium's fake microphone and camera: the host
// runs the gemini provider, and the fake Live API sends what each test needs.

import test from 'node:test';
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { calls, generationComplete, interrupted, modelSpeech, startFakeLive, turnComplete, userSpeech } from './fake-live.mjs';
import { apps, serve } from './host.mjs';
import { browser, DEVICES, shot, tab } from './page/browser.mjs';
import { sendMessage } from './page/see.mjs';

const folders = apps('ui-test/page/apps/caller');
const elsewhere = mkdtempSync(join(tmpdir(), 'agenthost-ui-'));
const fake = await startFakeLive(join(folders.dir, 'caller'));
const chrome = await browser(...DEVICES, '--use-fake-ui-for-media-stream');
const host = await serve(folders.dir);
test.after(async () => {
  await chrome.close();
  await host.stop();
  await fake.stop();
  folders.remove();
  rmSync(elsewhere, { recursive: true });
});

// call opens the page, starts a conversation, and ends it after the steps of a test.
function call(name, steps, { url = host.url, forgive = /$^/, hash = '/#caller', ...options } = {}) {
  test(name, async () => {
    const { page, complaints, close } = await tab(chrome, url + hash, options);
    const frames = { received: 0, sent: 0 };
    page.on('websocket', (socket) => {
      socket.on('framereceived', ({ payload }) => { frames.received += (String(payload).match(/"mimeType":"audio\/pcm/g) ?? []).length; });
      socket.on('framesent', ({ payload }) => { frames.sent += (String(payload).match(/"mimeType":"audio\/pcm/g) ?? []).length; });
    });
    try {
      if (options.viewport?.width < 720) await page.click('#panes [data-pane=talk]');
      await steps(page, frames);
      assert.deepEqual(complaints.filter((c) => !forgive.test(c)), []);
    } catch (error) {
      await shot(page, `page failed ${name.replaceAll('/', ' ')}`);
      throw new Error([error.message, ...complaints, host.log().split('\n').slice(-6).join('\n')].join('\n'), { cause: error });
    } finally {
      await close();
    }
  });
}

const live = (page) => page.waitForSelector('#voice[data-state=live]');

// talk starts a conversation, and returns when the fake has received new audio.
async function talk(page) {
  const before = await fake.report();
  await page.click('#live');
  await live(page);
  return fake.until((r) => r.connections > before.connections && r.audio > before.audio + 5, 'no audio');
}

const ended = async (page) => {
  await page.click('#live');
  await page.waitForSelector('#events .notice:text("The live conversation ended.")');
  await page.waitForSelector('#voice', { state: 'hidden' });
};

call('a spoken turn: audio in both directions, captions, and an interruption', async (page, frames) => {
  const before = await talk(page);
  assert.deepEqual(Object.keys(before.audioTypes), ['audio/pcm;rate=16000']);
  assert.equal(before.audioBytes / before.audio, 1920, '60 ms');
  await fake.send(userSpeech('Where is '), userSpeech('my order'));
  await page.waitForSelector('.mine[data-spoken=partial] .spoken:has-text("Where is my order")');
  await fake.speak(300); // 30 seconds
  await fake.send(modelSpeech('It left '), modelSpeech('yesterday, and'));
  await page.waitForSelector('#voice[data-playing]');
  await page.waitForSelector('.event:not(.mine) .spoken:has-text("It left yesterday, and")');
  assert.equal(await page.locator('.event:not(.mine)').count(), 1, 'the chunks of a caption are one row');
  await shot(page, 'page voice');
  const began = Date.now(); // without the interruption, the rest of 30 seconds would play
  await fake.send(interrupted);
  await page.waitForSelector('#voice:not([data-playing])');
  assert.ok(Date.now() - began < 9000, `playback stopped after ${Date.now() - began} ms`);
  await page.waitForSelector('.event:not(.mine) .chip:text("interrupted")');
  await fake.send(userSpeech('Thanks.'), turnComplete);
  await page.waitForSelector('.mine[data-spoken=final] .spoken:has-text("Thanks.")');
  assert.equal(frames.received, 300, 'chunks of audio from the model');
  const counted = await fake.until((r) => r.audio - before.audio > 20, 'the microphone stopped');
  await ended(page);
  const after = await fake.report();
  assert.ok(Math.abs(after.audio - frames.sent) < 4 || after.audio <= frames.sent, `the page sent ${frames.sent} chunks, ${counted.audio} arrived`);
  assert.match(await page.textContent('#announcement'), /Thanks/);
  await page.reload();
  await page.waitForSelector('.mine .spoken:has-text("Where is my order")');
  await page.waitForSelector('.event:not(.mine) .spoken:has-text("It left yesterday, and")');
  assert.equal(await page.locator('.interrupted').count(), 0, 'no turn is offered again');
});

call('speech while an answer plays stops it', async (page) => {
  await talk(page);
  await fake.speak(60);
  await page.waitForSelector('#voice[data-playing]');
  await fake.send(userSpeech('Wait'));
  await page.waitForSelector('#voice:not([data-playing])');
  await fake.send(interrupted, turnComplete);
  await fake.speak(60);
  await page.waitForSelector('#voice[data-playing]');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#voice:not([data-playing])');
  await live(page);
  await page.keyboard.press('Escape');
  await page.waitForSelector('#voice', { state: 'hidden' });
});

call('tool calls, an approval, and text during a conversation', async (page) => {
  const before = await talk(page);
  await fake.send(calls({ id: 'c1', name: 'find_order', args: { number: 7 } }), turnComplete);
  await page.waitForSelector('.call:has-text("on its way")');
  await fake.until((r) => r.responses?.length === 1, 'no response to the call');
  await fake.send(calls({ id: 'c2', name: 'refund', args: { amount: 80 } }), turnComplete);
  await page.waitForSelector('.question:has-text("refund waits for approval")');
  await page.click('.question >> text=Approve');
  await page.waitForSelector('.answered:text("Approved")');
  await page.waitForSelector('.call:has-text("paid")');
  const { responses } = await fake.until((r) => JSON.stringify(r.responses).includes('"paid":80'), 'no response after the approval');
  assert.deepEqual(responses[0], { status: 'on its way', number: 7 });
  await sendMessage(page, 'And tomorrow?');
  await fake.until((r) => r.texts?.includes('And tomorrow?'), 'the text did not arrive');
  await page.waitForSelector('.mine .text:text("And tomorrow?")');
  await fake.speak(2);
  await fake.send(modelSpeech('Tomorrow we are closed.'), generationComplete, turnComplete);
  await page.waitForSelector('.event:not(.mine)[data-spoken=final]:has-text("Tomorrow we are closed.")');
  assert.ok((await fake.report()).audio > before.audio, 'the microphone stays on');
  await shot(page, 'page voice calls');
  await ended(page);
});

call('mute, camera, and keyboard', async (page) => {
  await page.waitForSelector('#live:enabled');
  await page.focus('#live');
  await page.keyboard.press('Enter');
  await live(page);
  await page.focus('#voice button:text("Mute")');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#voice button[aria-pressed=true]:text("Mute")');
  await page.waitForSelector('#voice [role=status]:text("Muted")');
  await fake.until((r) => r.streamEnds === 1, 'the end of the audio was not reported');
  const muted = await fake.report();
  await page.waitForTimeout(500);
  assert.equal((await fake.report()).audio, muted.audio, 'audio while the microphone is muted');
  await page.keyboard.press('Enter');
  await fake.until((r) => r.audio > muted.audio, 'no audio after unmuting');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#voice video:visible');
  const { images } = await fake.until((r) => r.images >= 2, 'no images');
  await page.waitForTimeout(1000);
  assert.ok((await fake.report()).images <= images + 2, 'one image per second');
  await shot(page, 'page voice camera');
  await page.click('#voice button:text("Camera")');
  await page.waitForSelector('#voice video', { state: 'hidden' });
  await ended(page);
});

for (const colorScheme of ['light', 'dark']) {
  call(`a conversation fits 390 pixels, ${colorScheme}`, async (page) => {
    await talk(page);
    await fake.send(userSpeech('Where is my order?', true));
    await fake.speak(20);
    await fake.send(modelSpeech('It left yesterday, and it is on its way to you.'));
    await page.waitForSelector('.event:not(.mine) .spoken:has-text("on its way to you")');
    await page.click('#voice button:text("Camera")');
    await page.waitForSelector('#voice video:visible');
    await shot(page, `page voice 390 ${colorScheme}`);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.equal(over, 0, `the page is ${over} pixels too wide`);
    const hidden = await page.evaluate(() => [...document.querySelectorAll('#composer button:not([hidden])')].filter((b) => b.getBoundingClientRect().right > innerWidth || b.getBoundingClientRect().bottom > innerHeight).length);
    assert.equal(hidden, 0, 'buttons outside of the page');
    await ended(page);
  }, { colorScheme, reducedMotion: 'reduce', viewport: { width: 390, height: 800 } });
}

test('a server that restarts: the conversation continues with the latest handle', async () => {
  const db = `sqlite:///${join(elsewhere, 'sessions.db')}`;
  const first = await serve(folders.dir, '--session-db', db);
  const { page, complaints, close } = await tab(chrome, `${first.url}/#caller`);
  let again;
  try {
    const before = await talk(page);
    await fake.send(userSpeech('Are you there?', true));
    await page.waitForSelector('.mine .spoken:has-text("Are you there?")');
    await first.stop();
    await page.waitForSelector('#voice[data-state=reconnecting] >> text=Reconnecting');
    await shot(page, 'page voice reconnecting');
    again = await serve(folders.dir, '--session-db', db, '--addr', new URL(first.url).host);
    await live(page);
    const after = await fake.until((r) => r.connections > before.connections && r.audio > before.audio + 20, 'no audio after the reconnect');
    assert.equal(after.handles.at(-1), `h${before.connections}`);
    await ended(page);
    assert.deepEqual(complaints.filter((c) => !/ERR_|WebSocket/.test(c)), []);
  } finally {
    await close();
    await again?.stop();
  }
});

test('a page with a token connects with a ticket, and without the token in the URL', async () => {
  const auth = join(elsewhere, 'auth.yaml');
  writeFileSync(auth, 'tokens:\n- {token: an-administrators-token, claims: {sub: user, admin: true}}\nadmin: claims.admin ?? false\n');
  const policy = join(elsewhere, 'policy.yaml'); // with authentication, apps may reach private addresses only by a grant
  writeFileSync(policy, `grants:\n- {apps: [caller], network: ["${fake.host}"]}\n`);
  const guarded = await serve(folders.dir, '--auth', auth, '--policy', policy);
  const { page, close } = await tab(chrome, `${guarded.url}/#caller`);
  const sockets = [];
  page.on('websocket', (socket) => sockets.push(new URL(socket.url())));
  try {
    await page.fill('#head input', 'an-administrators-token');
    await page.press('#head input', 'Enter');
    // The page opens the app again with the token, which ends what began before.
    await page.waitForSelector('#events >> text=Send a message to caller');
    await page.waitForSelector('#live:enabled');
    await talk(page);
    assert.equal(sockets.length, 1);
    assert.ok(sockets[0].searchParams.get('ticket'));
    assert.doesNotMatch(sockets[0].href, /an-administrators-token/);
    await ended(page);
  } finally {
    await close();
    await guarded.stop();
  }
});

call('a session that was deleted: the page shows the reason', async (page) => {
  await talk(page);
  await ended(page);
  const id = await page.evaluate(() => location.hash.split('/')[1]);
  await fetch(`${host.url}/apps/caller/users/user/sessions/${id}`, { method: 'DELETE' });
  await page.click('#live');
  await page.waitForSelector('#events .bad');
  assert.match(await page.textContent('#events .bad'), /[Ss]ession not found/);
  assert.equal(await page.locator('#voice').isVisible(), false);
}, { forgive: /404|WebSocket/ });
