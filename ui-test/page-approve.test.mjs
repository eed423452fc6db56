// Approvals whose arguments a person may change (confirm: edit), on the developer page and on the chat
// page: the call runs as changed, the model reads the change, and wrong values are rejected in words.

import assert from 'node:assert/strict';
import { shot } from './page/browser.mjs';
import { idle, sendMessage, start } from './page/see.mjs';

const { see, host } = await start('ui-test/page/apps/till');
const get = async (path) => (await fetch(host.url + path)).json();

/** setField fills a field of a form with a value that its input would not accept from a keyboard. */
const setField = (form, name, value) => form.getByLabel(name, { exact: true }).evaluate((input, text) => { input.type = 'text'; input.removeAttribute('max'); input.value = text; }, value);

const noMarkup = async (page, root) => {
  assert.equal(await page.locator(`${root} :is(b:text-is("pot"), img, script)`).count(), 0);
  assert.equal(await page.evaluate(() => window.ran), undefined);
};

see('a changed amount runs, and the model and why report the change', async (page) => {
  await sendMessage(page, 'pay it back');
  const form = page.locator('form.question');
  await form.waitFor();
  await idle(page);
  assert.deepEqual(await form.locator('.args dt').allTextContents(), ['to'], 'other arguments do not change');
  assert.equal(await form.getByLabel('amount').inputValue(), '500');
  assert.equal(await form.getByLabel('note').inputValue(), 'Broken <b>pot</b>');
  await form.getByLabel('amount').fill('120');
  await form.getByLabel('amount').press('Enter');
  await page.waitForSelector('.answered >> text=Approved with amount: 120');
  await page.waitForSelector('.event:not(.mine) >> text=You changed {"amount":120}.');
  await idle(page);
  const { id, state, events } = (await get(`/apps/till/users/user/sessions/${decodeURIComponent(new URL(page.url()).hash.split('/')[1])}`));
  assert.equal(state.refunded, 120);
  assert.ok(id && events.some((e) => e.content?.parts?.[0]?.functionCall?.args?.amount === 500), "the model's call stays as it was made");
  await noMarkup(page, '#events');
  await page.getByRole('button', { name: 'Why' }).last().click();
  await page.getByRole('button', { name: /result of refund/ }).last().click();
  await page.waitForSelector('.why .edited >> text=user user changed amount: it ran with {"amount":120');
  await shot(page, 'page approve why');
  await page.click('.sheet [aria-label=Close]');
  await page.reload();
  await page.waitForSelector('.answered >> text=Approved with amount: 120');
}, { hash: '/#till' });

see('wrong values are rejected in words at their field, and the form keeps what was entered', async (page) => {
  await sendMessage(page, 'pay it back');
  const form = page.locator('form.question');
  await form.waitFor();
  await idle(page);
  const amount = form.getByLabel('amount');
  for (const value of ['', '1001', '-1']) {
    await amount.fill(value);
    await form.locator('text=Approve').last().click();
    assert.ok(await amount.evaluate((input) => !input.validity.valid && input.validationMessage.length > 5), value);
  }
  await form.getByLabel('note').fill('Two pots');
  await form.getByLabel('urgent').check();
  const reject = async (name, value, words) => {
    await setField(form, name, value);
    await form.getByRole('button', { name: 'Approve' }).click();
    await form.locator('.bad', { hasText: words }).waitFor();
    await idle(page);
    const field = form.getByLabel(name, { exact: true });
    assert.ok(await field.isEnabled());
    assert.equal(await field.inputValue(), value, 'the rejected value can be corrected');
    assert.equal(await field.getAttribute('aria-invalid'), 'true');
    assert.ok(await field.evaluate((input) => input === document.activeElement && document.getElementById(input.getAttribute('aria-describedby')).textContent.includes(input.getAttribute('aria-label'))));
    assert.equal(await form.locator('[aria-invalid]').count(), 1);
    assert.equal(await form.getByLabel('urgent').isChecked(), true, 'edits of other fields are kept');
    assert.equal(await page.locator('#events .bad:visible').count(), 1, 'the reason appears once');
    await noMarkup(page, '#events');
  };
  await reject('amount', '<b>much</b>', 'the changed arguments do not fit tool refund: amount: got null, want number');
  await reject('amount', '2000', 'amount: maximum');
  assert.equal(await form.getByLabel('note').inputValue(), 'Two pots');
  await setField(form, 'amount', '70');
  await reject('note', 'long '.repeat(20), 'note: maxLength');
  await shot(page, 'page approve wrong');
  await setField(form, 'note', '<img src=x onerror=window.ran=1>');
  await setField(form, 'amount', '70');
  await form.getByRole('button', { name: 'Approve' }).click();
  await page.waitForSelector('.event:not(.mine) >> text=Paid 70 to Ana');
  await noMarkup(page, '#events');
}, { hash: '/#till', forgive: /400/ });

see('a form keeps what was entered while another client writes to the session', async (page) => {
  await sendMessage(page, 'pay it back');
  const form = page.locator('form.question');
  await form.waitFor();
  await idle(page);
  await form.getByLabel('amount').fill('33');
  const sessionId = decodeURIComponent(new URL(page.url()).hash.split('/')[1]);
  const body = { appName: 'till', userId: 'user', sessionId, newMessage: { role: 'user', parts: [{ text: 'are you there' }] } };
  await (await fetch(`${host.url}/run_sse`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })).text();
  await page.waitForSelector('.event.mine >> text=are you there');
  const first = form.first();
  assert.equal(await first.getByLabel('amount').inputValue(), '33');
  assert.ok(await first.getByLabel('amount').evaluate((input) => input === document.activeElement));
  await first.getByRole('button', { name: 'Approve' }).click();
  await page.waitForSelector('.answered >> text=Approved with amount: 33');
}, { hash: '/#till' });

see('an unchanged approval runs the call as the model made it, and a denial runs nothing', async (page) => {
  await sendMessage(page, 'pay it back');
  await page.locator('.question').getByRole('button', { name: 'Approve' }).click();
  await page.waitForSelector('text=as I proposed.');
  await idle(page);
  assert.equal(await page.locator('.answered').textContent(), 'Approved');
  await page.keyboard.press('Alt+n');
  await page.waitForSelector('.event', { state: 'detached' });
  await sendMessage(page, 'pay it back');
  await page.locator('.question').getByLabel('amount').fill('7');
  await page.locator('.question').getByRole('button', { name: 'Deny' }).click();
  await page.waitForSelector('text=I paid nothing.');
}, { hash: '/#till' });

const chat = { hash: '/chat/till', viewport: { width: 1280, height: 860 } };

async function ask(page, text) {
  await page.locator('#composer textarea').fill(text);
  await page.locator('#composer textarea').press('Enter');
  await page.locator('form.ask').waitFor();
  await page.waitForSelector('#composer .send[aria-label=Send]');
  return page.locator('form.ask').last();
}

see('chat: a changed amount runs, and the closed approval lists it', async (page) => {
  const form = await ask(page, 'I want a refund');
  assert.deepEqual(await form.locator('dt').allTextContents(), ['To']);
  await form.getByLabel('Amount').fill('120');
  await form.getByLabel('Urgent').check();
  await form.locator('text=Approve').click();
  await page.waitForSelector('.from-app >> text=You changed {"amount":120,"urgent":true}.');
  const closed = async () => [await form.locator('dt').allTextContents(), await form.locator('dd').allTextContents()];
  const want = [['To', 'Amount', 'Note', 'Urgent'], ['Ana <img src=x onerror=window.ran=1>', '120', 'Broken <b>pot</b>', 'true']];
  assert.deepEqual(await closed(), want);
  await shot(page, 'chat approve changed');
  await page.reload();
  await page.waitForSelector('.ask >> text=Approved');
  assert.deepEqual(await closed(), want);
  await noMarkup(page, '#log');
}, chat);

see('chat: wrong values are rejected in words', async (page) => {
  const form = await ask(page, 'I want a refund');
  const amount = form.getByLabel('Amount');
  for (const value of ['', '1001', '-1']) {
    await amount.fill(value);
    await form.locator('text=Approve').click();
    assert.ok(await amount.evaluate((input) => !input.validity.valid), value);
  }
  await amount.evaluate((input) => { input.type = 'text'; input.removeAttribute('max'); input.value = '2000'; });
  await form.locator('text=Approve').click();
  const reject = async (field, words) => {
    await form.locator('text=Approve').click();
    await form.locator('.bad', { hasText: words }).waitFor();
    assert.ok(await field.evaluate((input) => input === document.activeElement && input.getAttribute('aria-invalid') === 'true'));
    assert.equal(await form.locator('[aria-invalid]').count(), 1);
  };
  await reject(amount, /^Amount must be a number from 0 to 1000\.$/);
  await shot(page, 'chat approve wrong');
  await amount.fill('<b>much</b>');
  await reject(amount, /^Amount must be a number from 0 to 1000\.$/);
  assert.equal(await amount.inputValue(), '<b>much</b>');
  await amount.fill('60');
  await form.getByLabel('Note').evaluate((input) => { input.removeAttribute('maxlength'); input.value = 'long '.repeat(20); });
  await reject(form.getByLabel('Note'), /^Note must be at most 80 characters\.$/);
  await form.getByLabel('Note').fill('<script>window.ran=1</script>');
  await form.locator('text=Approve').click();
  await page.waitForSelector('.from-app >> text=Paid 60 to Ana');
  await noMarkup(page, '#log');
}, { ...chat, forgive: /422/ });

for (const [width, height] of [[390, 844], [1920, 1080]]) {
  for (const colorScheme of ['light', 'dark']) {
    see(`the forms fit ${width} px, ${colorScheme}`, async (page) => {
      const fits = async (name) => {
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) <= 0, name);
        await shot(page, `${name} approve ${width} ${colorScheme}`);
      };
      await ask(page, 'I want a refund');
      await fits('chat');
      await page.goto(`${host.url}/#till`);
      if (width < 720) await page.click('#panes [data-pane=talk]');
      await sendMessage(page, 'pay it back');
      await page.waitForSelector('.question');
      await idle(page);
      await fits('page');
    }, { ...chat, viewport: { width, height }, colorScheme });
  }
}
