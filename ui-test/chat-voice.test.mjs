// Talking on the chat page, with Chromium's fake microphone: the host runs the gemini provider, and
// the fake Live API sends what each test needs.

import test from 'node:test';
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { calls, interrupted, modelSpeech, startFakeLive, turnComplete, userSpeech } from './fake-live.mjs';
import { apps, serve } from './host.mjs';
import { findings } from './page/axe.mjs';
import { browser, DEVICES, shot, tab } from './page/browser.mjs';

const folders = apps('ui-test/page/apps/caller');
writeFileSync(join(folders.dir, 'caller', 'app.yaml'), 'chat: {title: Shop, voice: true, welcome: Press the microphone and ask.}\nmodels:\n  phone: {provider: gemini, model: gemini-live-2.5-flash-native-audio, base_url: "${env:FAKE_LIVE_URL}", api_key: "${secret:FAKE_LIVE_KEY}"}\n');
const fake = await startFakeLive(join(folders.dir, 'caller'));
const chrome = await browser(...DEVICES, '--use-fake-ui-for-media-stream');
const host = await serve(folders.dir);
test.after(async () => {
  await chrome.close();
  await host.stop();
  await fake.stop();
  folders.remove();
});

function talk(name, steps, { forgive = /$^/, ...options } = {}) {
  test(name, async () => {
    const { page, complaints, close } = await tab(chrome, `${host.url}/chat/caller`, { viewport: { width: 1280, height: 860 }, ...options });
    try {
      await steps(page);
      assert.deepEqual(complaints.filter((c) => !forgive.test(c)), []);
    } catch (error) {
      await shot(page, `chat failed ${name.replaceAll('/', ' ')}`);
      throw new Error([error.message, ...complaints, host.log().split('\n').slice(-6).join('\n')].join('\n'), { cause: error });
    } finally {
      await close();
    }
  });
}

const mic = '#composer .mic';

// begin starts to talk, and returns when the fake has received new audio.
async function begin(page) {
  const before = await fake.report();
  await page.click(mic);
  await page.waitForSelector('.talk[data-state=live]');
  return fake.until((r) => r.connections > before.connections && r.audio > before.audio + 5, 'no audio');
}

talk('a spoken turn has captions and sound, an interruption, and stays in the conversation', async (page) => {
  await begin(page);
  await fake.send(userSpeech('Where is '), userSpeech('my order'));
  await page.waitForSelector('.from-user .text:text-is("Where is my order")');
  await fake.speak(60);
  await fake.send(modelSpeech('It left '), modelSpeech('yesterday, and'));
  await page.waitForSelector('.talk[data-playing]');
  await page.waitForSelector('.from-app:has-text("It left yesterday, and")');
  assert.equal(await page.locator('.from-app').count(), 1, 'the chunks of a caption are one message');
  assert.deepEqual(await findings(page), []);
  await shot(page, 'chat voice');
  await fake.send(interrupted);
  await page.waitForSelector('.talk:not([data-playing])');
  await fake.send(userSpeech('Thanks.'), turnComplete);
  await page.waitForSelector('.from-user:has-text("Thanks.")');
  await page.click(mic);
  await page.waitForSelector('.talk', { state: 'hidden' });
  await page.waitForSelector('.list [aria-current]:has-text("Where is my order")');
  await page.reload();
  await page.waitForSelector('.from-user:has-text("Where is my order")');
  assert.equal(await page.locator('.failure').count(), 0, 'no turn is offered again');
});

talk('an approval and a written message during the talk', async (page) => {
  await begin(page);
  await fake.send(calls({ id: 'c2', name: 'refund', args: { amount: 80 } }), turnComplete);
  await page.click('.ask >> text=Approve');
  await page.waitForSelector('.ask .outcome:text("Approved")');
  await fake.until((r) => JSON.stringify(r.responses).includes('"paid":80'), 'no response after the approval');
  await page.fill('#composer textarea', 'And tomorrow?');
  await page.press('#composer textarea', 'Enter');
  await fake.until((r) => r.texts?.includes('And tomorrow?'), 'the text did not arrive');
  await page.waitForSelector('.from-user .text:text-is("And tomorrow?")');
  await fake.send(modelSpeech('Tomorrow we are closed.'), turnComplete);
  await page.waitForSelector('.from-app:has-text("Tomorrow we are closed.")');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.talk', { state: 'hidden' });
  await page.waitForSelector('.from-user .text:text-is("And tomorrow?")');
  await page.waitForSelector('.from-app:has-text("Tomorrow we are closed.")');
});

talk('mute on a telephone, and a model that leaves', async (page) => {
  await begin(page);
  const before = await fake.report();
  await page.click('.talk >> text=Mute');
  await page.waitForSelector('.talk [role=status]:text("Muted")');
  await fake.until((r) => r.streamEnds > before.streamEnds, 'the end of the audio was not reported');
  await shot(page, 'chat voice 390');
  const { width } = await page.locator('#composer').boundingBox();
  assert.ok(width <= 390 && await page.evaluate(() => document.documentElement.scrollWidth) <= 390, 'nothing is cut');
  await fake.close(1007);
  await page.waitForSelector('.toast:has-text("Something went wrong.")');
  await page.waitForSelector('.talk', { state: 'hidden' });
}, { viewport: { width: 390, height: 780 } });
