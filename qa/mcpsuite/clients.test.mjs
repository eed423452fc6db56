// Calls the app in apps/desk with MCP's official clients and with the inspector's command line, as
// users of agenthost do: `agenthost serve` over HTTP, and `agenthost mcp` over stdin and stdout.
// AGENTHOST is the program.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OldStdioTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as OldHTTPTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const here = dirname(fileURLToPath(import.meta.url));
const app = join(here, 'apps/desk');
const folder = mkdtempSync(join(tmpdir(), 'mcpclients-'));
const stdio = { command: process.env.AGENTHOST, args: ['mcp', app, '--session-db', 'memory:'] };
const timeout = 60_000;
let server, url;

// The host serves the app on a free port, which it prints.
before(async () => {
  server = spawn(process.env.AGENTHOST, ['serve', app, '--addr', '127.0.0.1:0', '--session-db', 'memory:'], { stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  url = await new Promise((resolve, reject) => {
    for (const stream of [server.stdout, server.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        lines.push(line);
        const address = line.match(/serves at (http:\S+)/)?.[1];
        if (address) resolve(`${address}/apps/desk/mcp`);
      });
    }
    server.on('error', reject);
    server.on('exit', () => reject(new Error(`agenthost serve has ended:\n${lines.join('\n')}`)));
  });
}, { timeout });

after(async () => {
  const ended = new Promise((resolve) => server.on('exit', resolve));
  if (server.exitCode === null && server.kill()) await ended;
  rmSync(folder, { recursive: true, force: true });
});

// newClient returns a function that creates a client of the package for 2026-07-28. The mode is how
// it finds the revision.
const newClient = (mode) => (answer) => {
  const client = new Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} }, versionNegotiation: { mode } });
  client.setRequestHandler('elicitation/create', answer);
  return client;
};

const newOldClient = (answer) => {
  const client = new OldClient({ name: 'test', version: '1' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, answer);
  return client;
};

// Each client with each transport. Old clients call with a second argument, the schema of a result.
const clients = {
  'client 2.4.0, 2026-07-28': { create: newClient({ pin: '2026-07-28' }), revision: '2026-07-28' },
  'client 2.4.0, auto': { create: newClient('auto'), revision: '2026-07-28' },
  'client 2.4.0, legacy': { create: newClient('legacy'), revision: '2025-11-25' },
  'sdk 1.32.2': { create: newOldClient, revision: '2025-11-25', old: true },
};
const transports = {
  HTTP: (old) => new (old ? OldHTTPTransport : StreamableHTTPClientTransport)(new URL(url)),
  stdio: (old) => new (old ? OldStdioTransport : StdioClientTransport)({ ...stdio, stderr: 'ignore' }),
};

for (const [name, { create, revision, old = false }] of Object.entries(clients)) {
  for (const [transport, open] of Object.entries(transports)) {
    test(`${name}, ${transport}`, { timeout }, async (t) => {
      const questions = [], answers = [];
      const client = create(async (request) => {
        questions.push(request.params);
        return answers.shift();
      });
      await client.connect(open(old));
      t.after(() => client.close());
      // The clients drop a notification that they read together with the result, so that the test
      // counts the messages.
      const notified = [], receive = client.transport.onmessage;
      client.transport.onmessage = (message, extra) => {
        if (message.method === 'notifications/progress') notified.push(message.params.progress);
        receive(message, extra);
      };
      const call = async (tool, args) => {
        const options = { onprogress: () => {} };
        const params = { name: tool, arguments: args };
        const result = await (old ? client.callTool(params, undefined, options) : client.callTool(params, options));
        return { ...result, text: result.content.filter((c) => c.type === 'text').map((c) => c.text).join('') };
      };
      const has = { client, call, questions, answers, notified };
      if (!old) assert.equal(client.getNegotiatedProtocolVersion(), revision);
      await t.test('describes the server', () => testServer(has));
      await t.test('lists and calls tools, with progress', () => testTools(has));
      await t.test('continues a conversation by its handle', () => testHandle(has));
      await t.test('answers a question', () => testQuestion(has));
      await t.test('reads resources and artifacts', () => testResources(has));
      if (!old) await t.test('lists skills and verifies their files', () => testSkills(has));
      await t.test('renders a prompt and completes its arguments', () => testPrompt(has));
      await t.test('reports errors', () => testErrors(has));
    });
  }
}

async function testServer({ client }) {
  assert.equal(client.getServerVersion().name, 'desk');
  assert.equal(client.getInstructions(), 'Ask the desk about orders.');
  for (const capability of ['tools', 'resources', 'prompts', 'completions']) assert.ok(client.getServerCapabilities()[capability], capability);
}

async function testTools({ client, call, notified }) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => `${tool.name}: ${tool.description}`), ['desk: Answers questions about orders.', 'write_note: Writes a note.']);
  assert.deepEqual(tools[0].inputSchema.required, ['request']);
  assert.equal((await call('write_note', { request: 'save it' })).text, 'It is saved.');
  assert.ok(notified.length >= 2 && notified.every((n, i) => i === 0 || n > notified[i - 1]), `progress ${notified}`);
}

async function testHandle({ call }) {
  const first = await call('desk', { request: 'hello' });
  const { answer, session } = first.structuredContent;
  assert.equal(answer, first.text);
  const turn = Number(answer.match(/^Turn (\d+): hello$/)?.[1]);
  const second = await call('desk', { request: 'again', session });
  assert.equal(second.text, `Turn ${turn + 1}: again`);
  assert.equal(second.structuredContent.session, session);
}

async function testQuestion({ call, questions, answers }) {
  for (const [answer, want] of [
    [{ action: 'accept', content: { confirmed: true } }, 'You have 500 back.'],
    [{ action: 'accept', content: { confirmed: false } }, 'No refund.'],
    [{ action: 'decline' }, 'No refund.'],
  ]) {
    answers.push(answer);
    assert.equal((await call('desk', { request: 'I want a refund' })).text, want);
    const asked = questions.pop();
    assert.match(asked.message, /^Approve the call of refund\?/);
    assert.deepEqual(Object.keys(asked.requestedSchema.properties), ['confirmed']);
    assert.equal(questions.length, 0);
  }
}

async function testResources({ client, call }) {
  const { resources } = await client.listResources();
  assert.deepEqual(resources.map((r) => [r.uri, r.mimeType]), [['docs://returns', 'text/markdown'], ['skill://refund-letter/SKILL.md', 'text/markdown']]);
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.deepEqual(resourceTemplates.map((r) => r.uriTemplate).sort(), ['artifact://{session}/{+name}', 'docs://orders/{id}', 'skill://{name}/{+file}']);
  const read = async (uri) => {
    const { contents: [found] } = await client.readResource({ uri });
    return found.text ?? Buffer.from(found.blob, 'base64').toString();
  };
  assert.equal(await read('docs://returns'), 'Goods can be returned within 30 days.');
  assert.equal(await read('docs://orders/17'), 'Order 17 is on its way.');
  const saved = (await call('write_note', { request: 'save it' })).content.find((c) => c.type === 'resource_link');
  assert.equal(await read(saved.uri), 'hello');
  await assert.rejects(read('docs://missing'), /not found/i);
}

async function testSkills({ client }) {
  const skills = new SkillsClient(client);
  assert.ok(skills.supported && skills.directoryRead);
  const { skills: [skill], ttlMs } = await skills.list();
  assert.equal(ttlMs, 5000);
  assert.equal(skill.uri, 'skill://refund-letter/SKILL.md');
  assert.deepEqual((await skills.get(skill.uri)).skill, skill);
  const manifest = await skills.read(skill);
  assert.ok(manifest.verified && manifest.body.includes('Write a letter with the amount.'));
  for (const [file, text] of [['references/style.md', 'Write short sentences.\n'], ['references/own words.txt', '']]) {
    const read = await skills.read(skill, file);
    assert.ok(read.verified);
    assert.equal(Buffer.from(read.bytes).toString(), text);
  }
  const { resources } = await skills.readDirectory('skill://refund-letter');
  assert.deepEqual(resources.map((r) => [r.name, r.mimeType]), [['SKILL.md', 'text/markdown'], ['references', 'inode/directory']]);
  await assert.rejects(skills.get('skill://missing/SKILL.md'), /unknown skill/);
  await assert.rejects(client.readResource({ uri: 'skill://refund-letter/../app.yaml' }), /not found/i);
}

async function testPrompt({ client }) {
  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map((p) => p.name), ['greet']);
  const { messages } = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada', language: 'French' } });
  assert.equal(messages[0].content.text, 'Greet Ada in French.');
  const { completion } = await client.complete({ ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'language', value: 'fr' } });
  assert.deepEqual(completion.values, ['French']);
}

async function testErrors({ client, call }) {
  const unknown = await call('desk', { request: 'hello', session: 'nope' });
  assert.ok(unknown.isError);
  assert.equal(unknown.text, 'unknown session "nope": omit session to start a new conversation');
  await assert.rejects(client.getPrompt({ name: 'greet', arguments: {} }), /argument "name" is required/);
}

// inspect runs the inspector's command line and returns the JSON that it prints.
async function inspect(target, ...args) {
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(here, 'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js'), '--cli', ...target, ...args,
  ], { env: { ...process.env, HOME: folder }, timeout });
  return JSON.parse(stdout);
}

test('inspector 2.12.0', { timeout: 4 * timeout }, async (t) => {
  for (const [name, target] of [['HTTP', () => [url, '--transport', 'http']], ['stdio', () => [stdio.command, ...stdio.args]]]) {
    await t.test(name, async () => {
      const { tools } = await inspect(target(), '--method', 'tools/list', '--strict');
      assert.deepEqual(tools.map((tool) => tool.name), ['desk', 'write_note']);
      const result = await inspect(target(), '--method', 'tools/call', '--tool-name', 'desk', '--tool-arg', 'request=hello');
      assert.equal(result.structuredContent.answer, 'Turn 1: hello');
      const { contents } = await inspect(target(), '--method', 'resources/read', '--uri', 'docs://returns');
      assert.equal(contents[0].text, 'Goods can be returned within 30 days.');
      const report = await inspect(target(), '--method', 'skills/list', '--verify', '--require-digests');
      assert.equal(report.uri, 'skill://refund-letter/SKILL.md', JSON.stringify(report));
      const { messages } = await inspect(target(), '--method', 'prompts/get', '--prompt-name', 'greet', '--prompt-args', 'name=Ada', 'language=French');
      assert.equal(messages[0].content.text, 'Greet Ada in French.');
    });
  }
});
