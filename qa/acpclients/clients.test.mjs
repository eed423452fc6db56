// Uses the app desk of wing/acpserver's tests with ACP's official client and with acpx, as users of
// agenthost do: `agenthost acp` over stdin and stdout. AGENTHOST is the program.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import * as acp from '@agentclientprotocol/sdk';

import { startFakeAuth } from '../../ui-test/fake-auth.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'acpclients-'));
const app = join(folder, 'desk');
const source = join(here, '../../wing/acpserver/testdata/apps/desk');
cpSync(source, app, { recursive: true });
const database = ['--session-db', `sqlite:///${join(folder, 'sessions.db')}`];
const run = promisify(execFile);
const timeout = 60_000;
after(() => rmSync(folder, { recursive: true, force: true }));

// connect starts the agent for a folder, and returns the client with the updates that it receives. answers
// has the person's answers to permissions and forms, and opens addresses.
async function connect(t, answers = {}, dir = app) {
  const agent = spawn(process.env.AGENTHOST, ['acp', dir, ...database], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(agent, 'exit');
  const updates = [];
  const asked = [];
  const completed = [];
  const client = acp.client({ name: 'test' })
    .onNotification('session/update', ({ params }) => { updates.push(params.update); })
    .onRequest('session/request_permission', ({ params }) => {
      asked.push(params);
      return { outcome: answers.permission };
    })
    .onRequest('elicitation/create', ({ params }) => {
      asked.push(params);
      return params.mode === 'url' ? answers.open(params.url) : answers.form;
    })
    .onNotification('elicitation/complete', ({ params }) => { completed.push(params.elicitationId); });
  const connection = client.connect(acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)));
  t.after(async () => {
    agent.stdin.end();
    const [code] = await ended;
    assert.equal(code, 0);
  });
  const elicitation = answers.form ? { form: {} } : answers.open ? { url: {} } : undefined;
  const opened = await connection.agent.request('initialize', { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: { elicitation } });
  const texts = () => updates.filter(({ sessionUpdate }) => sessionUpdate === 'agent_message_chunk').map(({ content }) => content.text).join('');
  return { agent: connection.agent, opened, updates, asked, completed, texts };
}

const place = { cwd: folder, mcpServers: [] };
const prompt = (sessionId, text) => ({ sessionId, prompt: [{ type: 'text', text }] });

test('a prompt streams its answer, and the session has a title', { timeout }, async (t) => {
  const { agent, opened, updates, texts } = await connect(t);
  assert.equal(opened.protocolVersion, 1);
  assert.equal(opened.agentInfo.name, 'desk');
  const { sessionId, modes } = await agent.request('session/new', place);
  assert.deepEqual(modes.availableModes.map(({ id }) => id), ['desk', 'writer']);
  assert.equal((await agent.request('session/prompt', prompt(sessionId, 'a story'))).stopReason, 'end_turn');
  assert.equal(texts(), 'one two three');
  assert.ok(updates.filter(({ sessionUpdate }) => sessionUpdate === 'agent_message_chunk').length >= 3);
  assert.equal(updates.find(({ sessionUpdate }) => sessionUpdate === 'session_info_update').title, 'a story');
  assert.deepEqual(updates.at(-1), { sessionUpdate: 'usage_update', used: 10, size: 32000 });
  const { sessions } = await agent.request('session/list', { cwd: folder });
  assert.deepEqual(sessions.filter((s) => s.sessionId === sessionId).map(({ title }) => title), ['a story']);
});

test('thoughts arrive apart from the text, and a picture comes back with the history', { timeout }, async (t) => {
  const { agent, updates } = await connect(t);
  const { sessionId } = await agent.request('session/new', place);
  const picture = { type: 'image', data: 'AAAA', mimeType: 'image/png' };
  await agent.request('session/prompt', { sessionId, prompt: [{ type: 'text', text: 'think' }, picture] });
  assert.deepEqual(updates.filter(({ sessionUpdate }) => sessionUpdate === 'agent_thought_chunk').map(({ content }) => content.text), ['It is 4.']);
  const again = await connect(t);
  await again.agent.request('session/load', { sessionId, ...place });
  assert.ok(again.updates.some(({ sessionUpdate, content }) => sessionUpdate === 'user_message_chunk' && content.data === 'AAAA'));
});

test('a permission continues the prompt, and a rejected call fails', { timeout }, async (t) => {
  for (const [optionId, status, text] of [['allow_once', 'completed', 'You have 500 back.'], ['reject_once', 'failed', 'No refund.']]) {
    const { agent, updates, asked, texts } = await connect(t, { permission: { outcome: 'selected', optionId } });
    const { sessionId } = await agent.request('session/new', place);
    await agent.request('session/prompt', prompt(sessionId, 'I want a refund'));
    assert.deepEqual(asked[0].toolCall.rawInput, { amount: 500 });
    assert.equal(updates.filter(({ toolCallId }) => toolCallId === asked[0].toolCall.toolCallId).at(-1).status, status);
    assert.equal(texts(), text);
  }
});

test('a question is a form', { timeout }, async (t) => {
  const { agent, asked, texts } = await connect(t, { form: { action: 'accept', content: { answer: 'black' } } });
  const { sessionId } = await agent.request('session/new', place);
  await agent.request('session/prompt', prompt(sessionId, 'choose'));
  assert.deepEqual(asked[0].requestedSchema.properties.answer.enum, ['green', 'black']);
  assert.equal(texts(), 'You chose black.');
});

// The authorization server sends the browser to a free port of the program, as it does with run.
test('the person authorizes a connection at an address, by a code, or reads both as text', { timeout }, async (t) => {
  const fake = await startFakeAuth('http://127.0.0.1/oauth/callback');
  t.after(() => fake.stop());
  const crm = (grant) => {
    const dir = mkdtempSync(join(folder, 'crm-'));
    writeFileSync(join(dir, 'app.yaml'), `connections:
  crm: {oauth2: {grant: ${grant}, issuer: "${fake.issuer}", client_id: client-of-tests, client_secret: s3cret-of-client, scopes: [read]}}
models:
  demo: {provider: scripted, script: s.yaml}
`);
    writeFileSync(join(dir, 's.yaml'), '- {when: responses.find != nil, text: "Got {responses.find.name}"}\n- {calls: [{name: find}]}\n');
    writeFileSync(join(dir, 'root_agent.yaml'), `name: clerk\nmodel: demo\ninstruction: Answer.\ntools: [{http: {name: find, url: "${fake.service}", auth: crm}}]\n`);
    return dir;
  };
  const visit = async (address) => {
    const code = new URL(address).searchParams.get('user_code');
    const response = await (code ? fetch(address, { method: 'POST', body: new URLSearchParams({ user_code: code, answer: 'allow' }) }) : fetch(address));
    assert.equal(response.status, 200);
  };

  for (const grant of ['authorization_code', 'device_code']) {
    const visits = [];
    const { agent, asked, completed, texts } = await connect(t, { open: (url) => { visits.push(visit(url)); return { action: 'accept' }; } }, crm(grant));
    const { sessionId } = await agent.request('session/new', place);
    await agent.request('session/prompt', prompt(sessionId, 'find'));
    await Promise.all(visits);
    assert.match(texts(), /^Got Ada/, grant);
    assert.deepEqual(completed, [asked[0].elicitationId]);
    await agent.request('session/prompt', prompt(sessionId, 'find'));
    assert.equal(asked.length, 1, 'authorized for the second prompt');
  }

  const later = await connect(t, { open: () => ({ action: 'decline' }) }, crm('authorization_code'));
  const { sessionId } = await later.agent.request('session/new', place);
  assert.equal((await later.agent.request('session/prompt', prompt(sessionId, 'find'))).stopReason, 'end_turn');
  assert.equal(later.texts(), '');
  await later.agent.request('session/prompt', prompt(sessionId, 'and now?'));
  assert.ok(later.asked.length >= 2, 'a later prompt shows the address again');

  const plain = await connect(t, {}, crm('authorization_code'));
  const opened = await plain.agent.request('session/new', place);
  const answer = plain.agent.request('session/prompt', prompt(opened.sessionId, 'find'));
  let shown;
  while (!(shown = /at (\S+)\. The answer continues then\./.exec(plain.texts()))) await new Promise(setImmediate);
  await visit(shown[1]);
  assert.equal((await answer).stopReason, 'end_turn');
  assert.match(plain.texts(), /Got Ada/);
});

test('a session of run is loaded with its history, continued and deleted', { timeout }, async (t) => {
  await run(process.env.AGENTHOST, ['run', app, 'hello', '--session', 'began', ...database]);
  const { agent, updates, texts } = await connect(t);
  await agent.request('session/load', { sessionId: 'began', ...place });
  assert.equal(updates[0].sessionUpdate, 'user_message_chunk');
  assert.equal(texts(), 'Turn 1: hello');
  await agent.request('session/prompt', prompt('began', 'again'));
  assert.match(texts(), /Turn 2: again$/);
  await agent.request('session/delete', { sessionId: 'began' });
  await assert.rejects(agent.request('session/load', { sessionId: 'began', ...place }), { code: -32002 });
});

test('a mode chooses the agent', { timeout }, async (t) => {
  const { agent, texts } = await connect(t);
  const { sessionId } = await agent.request('session/new', place);
  await agent.request('session/set_mode', { sessionId, modeId: 'writer' });
  await agent.request('session/prompt', prompt(sessionId, 'hello'));
  assert.equal(texts(), 'A note: hello');
});

test('a prompt is cancelled', { timeout }, async (t) => {
  const { agent } = await connect(t);
  const { sessionId } = await agent.request('session/new', place);
  const answer = agent.request('session/prompt', prompt(sessionId, 'wait'));
  await agent.notify('session/cancel', { sessionId });
  assert.equal((await answer).stopReason, 'cancelled');
});

test('a saved file applies to a later prompt', { timeout }, async (t) => {
  const { agent, texts } = await connect(t);
  const { sessionId } = await agent.request('session/new', place);
  writeFileSync(join(app, 'demo.script.yaml'), '- text: "New."\n');
  do await agent.request('session/prompt', prompt(sessionId, 'hello')); while (!texts().endsWith('New.'));
  cpSync(join(source, 'demo.script.yaml'), join(app, 'demo.script.yaml'));
});

test('acpx runs a prompt, approves a call, and continues a session', { timeout }, async () => {
  const acpx = async (...args) => {
    const command = `${process.env.AGENTHOST} acp ${app} ${database.join(' ')}`;
    const { stdout } = await run(process.execPath, [join(here, 'node_modules/acpx/dist/cli.js'), '--agent', command, '--format', 'json', '--cwd', folder, ...args],
      { env: { ...process.env, HOME: folder } });
    return stdout.trim().split('\n').map((line) => JSON.parse(line));
  };
  const textOf = (lines) => lines.filter(({ params }) => params?.update?.sessionUpdate === 'agent_message_chunk').map(({ params }) => params.update.content.text).join('');
  assert.equal(textOf(await acpx('exec', 'a story')), 'one two three');
  assert.equal(textOf(await acpx('--approve-all', 'exec', 'I want a refund')), 'You have 500 back.');
  await assert.rejects(acpx('--deny-all', 'exec', 'I want a refund'), ({ code, stdout }) => code === 5 && stdout.includes('"status":"failed"')); // acpx's exit code for a rejected permission
  await acpx('sessions', 'new');
  try {
    assert.equal(textOf(await acpx('hello')), 'Turn 1: hello');
    assert.equal(textOf(await acpx('again')), 'Turn 2: again');
  } finally {
    await acpx('sessions', 'close');
  }
});
