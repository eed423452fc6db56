// The official Dev UI in a headless browser: each test performs the steps of a user and
// checks the page. Screenshots are in screenshots/.
import assert from 'node:assert/strict';
import { readFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test as node } from 'node:test';
import { devUI } from './bundle.mjs';
import { apps, serve } from './host.mjs';
import { blank, browser, shot as shotOf } from './page/browser.mjs';

const folders = apps('ui-test/apps/desk', 'ui-test/apps/plain');
let host, chrome, page;
const refused = [];

before(async () => {
  host = await serve(folders.dir, '--ui-dir', devUI());
  chrome = await browser();
  page = await blank(chrome, { viewport: { width: 1500, height: 950 } });
  // Block other servers: without their fonts, icons are words.
  await page.route((url) => url.hostname !== '127.0.0.1', (route) => route.abort());
  page.on('response', (r) => {
    const { pathname } = new URL(r.url());
    if (r.status() >= 400 && !expected(pathname)) refused.push(`${r.status()} ${r.request().method()} ${pathname}`);
  });
});
after(async () => {
  await chrome?.close();
  await host?.stop();
  folders.remove();
});

// Requests of the bundle that are expected to fail: a style sheet missing in the bundle,
// Google's builder assistant app, and drawings of a draft.
const expected = (path) => path.endsWith('/prism-dark.css') || path.includes('/__adk_agent_builder_assistant/')
  || path.startsWith('/dev/apps/fresh/build_graph');

const shot = (name) => shotOf(page, `dev-ui ${name}`);

// test runs a step; all steps share one page.
const test = (name, act) => node(name, async () => {
  try {
    await act();
  } catch (error) {
    await shot(`failed ${name.slice(0, 60).replaceAll('/', ' ')}`).catch(() => {});
    throw error;
  }
});

const box = () => page.locator('textarea.chat-input-box');
const sees = (text) => page.getByText(text, { exact: false }).last().waitFor();
const sendMessage = async (text) => { await box().fill(text); await box().press('Enter'); };
// When a run ends, the page focuses its message box, so text typed at that moment goes
// there. write retries.
async function write(field, text) {
  for (let tries = 0; tries < 10; tries++) {
    await field.fill(text);
    if (await field.inputValue() === text) return;
  }
  assert.equal(await field.inputValue(), text);
}
const panel = () => page.locator('app-side-panel');
const icon = (name) => panel().locator('button.mat-mdc-icon-button', { hasText: new RegExp(`^\\s*${name}\\s*$`) }).first();
const escape = async () => { await page.keyboard.press('Escape'); await page.locator('.cdk-overlay-backdrop').waitFor({ state: 'detached' }); };

// inSelector opens the drawer that the button opens, of apps or of sessions, and returns it. The
// drawer's contents appear later than its backdrop, which covers icons of the same name elsewhere.
async function inSelector(button) {
  await button.click();
  const drawer = page.locator('mat-drawer.selector-drawer.mat-drawer-opened:not(.mat-drawer-animating)');
  await drawer.locator('.selector-drawer-header').waitFor();
  return drawer;
}
const appSelector = () => page.locator('.selector-button').first();
const sessionSelector = () => page.locator('.selector-button').nth(1);

// open opens an app.
async function open(app) {
  await page.goto(`${host.url}/dev-ui/?app=${app}`);
  await box().waitFor();
}

// The page reloads after an app is created or saved, which discards earlier input.
const reloaded = (act) => Promise.all([page.waitForEvent('load'), act()]);

// The builder opens before it has loaded the agent and its sub-agents: earlier input is
// overwritten, and saving would omit the sub-agents.
async function inBuilder(instruction, ...below) {
  await page.waitForFunction((text) => [...document.querySelectorAll('textarea')].some((area) => area.checkVisibility() && area.value === text), instruction);
  for (const name of below) await page.locator('.node-title', { hasText: name }).waitFor();
}

// requestOf returns the body of the next run that the page requests during act.
async function requestOf(act) {
  const [request] = await Promise.all([page.waitForRequest((r) => r.url().endsWith('/run_sse')), act()]);
  return request.postDataJSON();
}

test('an app is selected', async () => {
  await page.goto(`${host.url}/dev-ui/`);
  const drawer = await inSelector(appSelector());
  await drawer.getByText('desk', { exact: true }).click();
  await page.waitForURL(/\/dev-ui\/\?app=desk/);
  await box().waitFor();
  await shot('app');
});

test('a turn without, then with streaming', async () => {
  const first = await requestOf(() => sendMessage('hello'));
  assert.equal(first.streaming, false);
  await sees('Hello! What can I do for you?');
  await page.getByRole('button', { name: 'More options' }).click();
  await page.getByRole('menuitem', { name: 'Streaming' }).click();
  await escape();
  const second = await requestOf(() => sendMessage('hello again'));
  assert.equal(second.streaming, true);
  await page.getByText('Hello! What can I do for you?').nth(1).waitFor();
  assert.equal(await page.getByText('Hello! What can I do for you?').count(), 2, 'the chunks became one response');
  await shot('chat');
});

test('the inspector shows the request and the response of a model call', async () => {
  await page.getByText('Hello! What can I do for you?').first().click();
  await icon('input').click();
  await panel().getByText('systemInstruction').waitFor();
  assert.match(await panel().innerText(), /Help the user\./);
  await shot('request');
  await icon('output').click();
  await panel().getByText('finishReason').waitFor();
  assert.match(await panel().innerText(), /What can I do for you/);
  await icon('published_with_changes').click();
  await panel().getByText('last_answer').waitFor();
  await shot('response');
});

test('the user confirms a call', async () => {
  await sendMessage('refund');
  await page.getByText('Confirmed').click();
  await shot('confirmation');
  await page.getByRole('button', { name: 'Submit' }).click();
  await sees('The refund is done.');
});

test('the user answers a long-running call', async () => {
  await sendMessage('choose');
  await write(page.getByPlaceholder('Enter your response...'), 'tea');
  await page.locator('app-long-running-response button').click();
  await sees('You chose {"result":"tea"}.');
  await shot('long-running');
});

test('the graph of an event, and of the app', async () => {
  await page.getByText('You chose').last().click();
  await icon('account_tree').click();
  for (const name of ['desk', 'refund', 'get_user_choice', 'archive']) {
    await panel().locator('svg text', { hasText: name }).first().waitFor({ state: 'attached' });
  }
  await page.locator('span.mat-mdc-tooltip-trigger', { hasText: /^\s*account_tree\s*$/ }).first().click();
  await sees('Agent Structure:');
  const dialog = page.locator('app-agent-structure-graph-dialog');
  await dialog.locator('svg text', { hasText: 'archive' }).waitFor({ state: 'attached' });
  await shot('graph');
  await dialog.getByText('close', { exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
});

test('traces: agents, model calls and tool calls of each invocation', async () => {
  await page.getByRole('radio', { name: 'Traces' }).click();
  await page.getByText('call_llm').first().waitFor();
  const text = await page.locator('body').innerText();
  assert.match(text, /INVOCATION ID:\s+e-/);
  assert.match(text, /Total latency: [\d.]+/);
  assert.match(text, /refund/);
  await page.getByText('call_llm').first().click();
  await shot('traces');
  await page.getByRole('radio', { name: 'Events' }).click();
});

test('state and artifacts', async () => {
  await page.locator('input[type=file]').setInputFiles({ name: 'note.txt', mimeType: 'text/plain', buffer: Buffer.from('buy milk') });
  await sendMessage('keep it');
  await page.getByText('Hello! What can I do for you?').nth(2).waitFor();
  // The page shows the files of the user's own message after it has read the session.
  await page.reload();
  await page.getByText('Hello! What can I do for you?').nth(2).waitFor();
  await page.getByRole('tab', { name: 'State' }).click();
  await panel().getByText('last_answer').waitFor();
  await shot('state');
  await page.getByRole('tab', { name: 'Artifacts' }).click();
  await panel().getByText('note.txt').first().waitFor();
  await shot('artifacts');
  await page.getByRole('tab', { name: 'Info' }).click();
});

test('sessions: a new one, back to the first one, and one is deleted', async () => {
  await page.getByRole('button', { name: 'New Session' }).click();
  await sendMessage('hello from the second session');
  await sees('What can I do');
  await inSelector(sessionSelector());
  const items = page.locator('app-session-tab .session-item');
  await items.nth(1).waitFor();
  await shot('sessions');
  await items.filter({ hasNotText: 'second session' }).first().click();
  await sees('You chose {"result":"tea"}.');
  const url = new URL(page.url());
  await inSelector(sessionSelector());
  await items.filter({ hasText: 'second session' }).hover();
  await items.filter({ hasText: 'second session' }).locator('button[title="Delete session"]').click();
  await page.locator('mat-dialog-container').getByRole('button', { name: /delete/i }).click();
  await items.filter({ hasText: 'second session' }).waitFor({ state: 'detached' });
  const left = await (await fetch(`${host.url}/apps/desk/users/user/sessions`)).json();
  assert.deepEqual(left.map((s) => s.id), [url.searchParams.get('session')]);
});

// saved clicks the button and waits for the reload.
async function saved(app) {
  const [answer] = await Promise.all([
    page.waitForResponse((r) => r.url().endsWith(`/dev/apps/${app}/builder/save`)),
    reloaded(() => page.locator('button.save-button').click()),
  ]);
  assert.equal(answer.status(), 200);
}

test('the visual builder changes an app, and the next turn uses the change', async () => {
  const file = () => readFileSync(join(folders.dir, 'plain', 'root_agent.yaml'), 'utf8');
  const before = file();
  await open('plain');
  await page.locator('span.mat-mdc-tooltip-trigger', { hasText: /^\s*edit\s*$/ }).first().click();
  await page.getByText('Configuration', { exact: true }).waitFor();
  await inBuilder('Be brief.', 'helping');
  await write(page.locator('textarea').filter({ visible: true }).first(), 'Be brief and kind.');
  await shot('builder');
  await saved('plain');
  assert.deepEqual(file().split('\n'), before.replace('Be brief.', 'Be brief and kind.').split('\n'), 'nothing else changed');
  await open('plain');
  await sendMessage('what?');
  await sees('My instruction: Be brief and kind.');
  await shot('built');
});

test('the visual builder creates an app', async () => {
  const drawer = await inSelector(appSelector());
  await drawer.getByText('add', { exact: true }).click();
  await write(page.locator('app-add-item-dialog input'), 'fresh');
  await reloaded(() => page.locator('app-add-item-dialog').getByText('Create', { exact: true }).click());
  await page.waitForURL(/app=fresh.*mode=builder/);
  await inBuilder('You are the root agent that coordinates other agents.');
  await saved('fresh');
  assert.ok(existsSync(join(folders.dir, 'fresh', 'root_agent.yaml')));
  assert.ok((await (await fetch(`${host.url}/list-apps`)).json()).includes('fresh'));
  await box().waitFor();
  await shot('created');
});

test('no request of the page failed', () => assert.deepEqual(refused, []));
