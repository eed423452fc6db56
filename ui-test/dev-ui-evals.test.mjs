// The Evals tab of the official Dev UI in a headless browser: each test performs the steps of
// a user and checks the page. Screenshots are in screenshots/.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test as node } from 'node:test';
import { devUI } from './bundle.mjs';
import { apps, serve } from './host.mjs';
import { blank, browser, shot as shotOf } from './page/browser.mjs';

const folders = apps('ui-test/apps/desk');
let host, chrome, page;
const refused = [];

before(async () => {
  host = await serve(folders.dir, '--ui-dir', devUI());
  chrome = await browser();
  page = await blank(chrome, { viewport: { width: 1400, height: 700 } });
  // Block other servers: without their fonts, icons are words.
  await page.route((url) => url.hostname !== '127.0.0.1', (route) => route.abort());
  page.on('response', (r) => {
    const { pathname } = new URL(r.url());
    if (r.status() >= 400 && !pathname.endsWith('/prism-dark.css')) refused.push(`${r.status()} ${r.request().method()} ${pathname}`);
  });
  page.on('pageerror', (error) => refused.push(String(error)));
  await page.goto(`${host.url}/dev-ui/?app=desk`);
  for (const text of ['hello', 'good morning']) {
    const box = page.locator('textarea.chat-input-box');
    await box.fill(text);
    await box.press('Enter');
    await page.getByText('Hello! What can I do for you?').nth(text === 'hello' ? 0 : 1).waitFor();
  }
  await page.getByRole('tab', { name: 'Evals' }).click();
});
after(async () => {
  await chrome?.close();
  await host?.stop();
  folders.remove();
});

const shot = (name) => shotOf(page, `dev-ui evals ${name}`);

// test runs a step; all steps share one page.
const test = (name, act) => node(name, async () => {
  try {
    await act();
  } catch (error) {
    await shot(`failed ${name.slice(0, 60).replaceAll('/', ' ')}`).catch(() => {});
    throw error;
  }
});

const tab = () => page.locator('app-eval-tab');
const dialog = () => page.locator('mat-dialog-container');
const row = (name) => tab().locator('div', { hasText: new RegExp(`^\\s*${name}\\s*edit\\s*delete\\s*$`) }).last();
const icon = (within, name) => within.locator('mat-icon', { hasText: new RegExp(`^\\s*${name}\\s*$`) }).first();
const file = () => JSON.parse(readFileSync(join(folders.dir, 'desk', 'greetings.evalset.json'), 'utf8'));
const caseIDs = () => file().eval_cases.map((c) => c.eval_id);

// requested waits for the response to a request of the page during act.
async function requested(method, path, act) {
  const [response] = await Promise.all([
    page.waitForResponse((r) => r.request().method() === method && new URL(r.url()).pathname.startsWith(`/dev/apps/desk/${path}`)),
    act(),
  ]);
  assert.equal(response.status(), 200, `${method} ${path}`);
  return response;
}

// openSet opens the set from the list of all sets.
async function openSet() {
  await icon(tab(), 'home').click();
  await requested('GET', 'eval_sets/greetings/evals', () => tab().getByText('greetings', { exact: true }).first().click());
}

test('an eval set is created', async () => {
  await page.getByText('Create Evaluation Set').click();
  await dialog().locator('input').fill('greetings');
  await requested('POST', 'eval-sets', () => dialog().getByRole('button', { name: 'Create' }).click());
  await tab().getByText('greetings', { exact: true }).first().waitFor();
  assert.deepEqual(caseIDs(), []);
});

test('the session is added as a case, several times', async () => {
  await requested('GET', 'eval_sets/greetings/evals', () => tab().getByText('greetings', { exact: true }).first().click());
  for (const name of ['greeting', 'edited', 'wrong']) {
    await tab().getByText('From Current Session').click();
    await dialog().locator('input').fill(name);
    await requested('POST', 'eval_sets/greetings/add_session', () => dialog().getByRole('button', { name: 'Create' }).click());
    await row(name).waitFor();
  }
  assert.deepEqual(caseIDs(), ['greeting', 'edited', 'wrong']);
  assert.equal(file().eval_cases[0].conversation.length, 2, 'turns');
  await shot('cases');
});

test('a case is opened, edited and saved', async () => {
  await requested('GET', 'eval_sets/greetings/evals/edited', () => icon(row('edited'), 'edit').click());
  await page.locator('.edit-case-actions, button', { hasText: 'Save' }).first().waitFor();
  await page.locator('app-event-row, .message-row-container').getByText('delete', { exact: true }).first().click();
  await shot('edited case');
  await requested('PUT', 'eval_sets/greetings/evals/edited', () => page.getByRole('button', { name: 'Save' }).click());
  // The page then selects the case again, which would undo a step that is taken before.
  await page.getByText('Eval case updated').waitFor();
  const [greeting, edited] = file().eval_cases;
  assert.equal(greeting.conversation[0].final_response.parts.length, 1);
  assert.deepEqual(edited.conversation[0].final_response.parts ?? [], [], 'the response was deleted');
  assert.deepEqual(edited.session_input, greeting.session_input);
});

test('a case is deleted', async () => {
  await openSet();
  await icon(row('wrong'), 'delete').click();
  await requested('DELETE', 'eval_sets/greetings/evals/wrong', () => dialog().getByRole('button', { name: /delete/i }).click());
  await row('wrong').waitFor({ state: 'detached' });
  assert.deepEqual(caseIDs(), ['greeting', 'edited']);
});

test('the set is run with two metrics', async () => {
  await openSet();
  await row('edited').waitFor();
  await tab().getByText('Run All').click();
  for (const name of ['Tool Trajectory', 'Response Match', 'Hallucinations V1']) await dialog().getByText(name, { exact: true }).waitFor();
  await shot('metrics');
  const response = await requested('POST', 'eval_sets/greetings/run_eval', () => dialog().getByRole('button', { name: 'Start' }).click());
  assert.deepEqual(response.request().postDataJSON().evalMetrics, [
    { metricName: 'tool_trajectory_avg_score', threshold: 1 }, { metricName: 'response_match_score', threshold: 0.7 }]);
  assert.deepEqual((await response.json()).map((c) => [c.evalId, c.finalEvalStatus]).sort(), [['edited', 2], ['greeting', 1]]);
  assert.equal(readdirSync(join(folders.dir, 'desk', '.adk', 'eval_history')).length, 1, 'results');
});

test('the history has the run, and a result opens with its conversation', async () => {
  // The tab computes its history when it opens.
  await page.goto(`${host.url}/dev-ui/?app=desk`);
  await page.getByRole('tab', { name: 'Evals' }).click();
  await openSet();
  await icon(tab(), 'history').click();
  await tab().getByText('1 PASS').click();
  await tab().getByText('greeting', { exact: false }).last().waitFor();
  await shot('result');
  const [session] = await Promise.all([
    page.waitForResponse((r) => r.url().includes('/sessions/adk-eval-session-')),
    tab().getByText('edited', { exact: false }).last().click(),
  ]);
  assert.equal(session.status(), 200);
  await page.getByText('Hello! What can I do for you?').first().waitFor();
  await shot('result with conversation');
});

test('a result opens after its case was deleted', async () => {
  await openSet();
  await icon(tab(), 'list').click();
  await icon(row('edited'), 'delete').click();
  await requested('DELETE', 'eval_sets/greetings/evals/edited', () => dialog().getByRole('button', { name: /delete/i }).click());
  await openSet();
  await icon(tab(), 'history').click();
  await tab().getByText('1 PASS').click();
  await requested('GET', 'eval_sets/greetings/evals/edited', () => tab().getByText('edited', { exact: false }).last().click());
  await page.getByText('Hello! What can I do for you?').first().waitFor();
});

test('the set is deleted', async () => {
  await icon(tab(), 'home').click();
  await icon(tab(), 'delete').click();
  await requested('DELETE', 'eval_sets/greetings', () => dialog().getByRole('button', { name: /delete/i }).click());
  await tab().getByText('greetings', { exact: true }).first().waitFor({ state: 'detached' });
});

test('no request of the page failed', () => assert.deepEqual(refused, []));
