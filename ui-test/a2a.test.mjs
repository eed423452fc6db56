// The SDK of A2A for JavaScript on an app, over JSON-RPC and over REST.

import test from 'node:test';
import assert from 'node:assert/strict';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { Role, TaskState, verifyAgentCardSignature } from '@a2a-js/sdk';
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { apps, serve } from './host.mjs';

// A hook of a client, to which the app may send notifications.
const received = [];
let arrived = () => {};
const hook = createServer(async (request, response) => {
  received.push({ headers: request.headers, body: await json(request) });
  response.end();
  arrived();
}).listen(0, '127.0.0.1');
await once(hook, 'listening');
const hookHost = `127.0.0.1:${hook.address().port}`;

async function nextNotification() {
  while (!received.length) await new Promise((resolve) => { arrived = resolve; });
  return received.shift();
}

const TOKEN = 'a-token-for-tests-of-cards-0001';
const folders = apps('ui-test/page/apps/helpdesk');
appendFileSync(join(folders.dir, 'helpdesk', 'app.yaml'), `\na2a_server: {push_hosts: ["${hookHost}"]}\n`);
const host = await serve(folders.dir);
test.after(async () => {
  await host.stop();
  hook.close();
  folders.remove();
});

const message = (text, more = {}) => ({
  message: { messageId: randomUUID(), role: Role.ROLE_USER, parts: [{ content: { $case: 'text', value: text } }], ...more },
});
const textOf = (task) => task.artifacts.flatMap((a) => a.parts.map((p) => p.content.value)).join('|');

for (const transport of [new JsonRpcTransportFactory(), new RestTransportFactory()]) {
  const name = transport.protocolName;
  const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [transport], clientConfig: { preferredTransports: [name] },
  }));
  const client = await factory.createFromUrl(`${host.url}/a2a/helpdesk/`);

  test(`a turn over ${name}`, async () => {
    const task = await client.sendMessage(message('hello'));
    assert.equal(task.status.state, TaskState.TASK_STATE_COMPLETED);
    assert.equal(textOf(task), 'You wrote: hello');
    const next = await client.sendMessage(message('again', { contextId: task.contextId }));
    assert.equal(next.contextId, task.contextId);
    assert.notEqual(next.id, task.id);
  });

  test(`a stream over ${name}`, async () => {
    const kinds = [];
    let text = '';
    for await (const { payload } of client.sendMessageStream(message('tell me a story'))) {
      kinds.push(payload.$case);
      if (payload.$case !== 'artifactUpdate') continue;
      const { append, artifact } = payload.value;
      text = (append ? text : '') + artifact.parts[0].content.value;
    }
    assert.deepEqual([kinds[0], kinds[1], kinds.at(-1)], ['task', 'statusUpdate', 'statusUpdate']);
    assert.ok(kinds.length > 8, `${kinds.length} events`);
    assert.match(text, /^In a small town .* answer\.$/);
  });

  test(`a question and its answer over ${name}`, async () => {
    const asks = await client.sendMessage(message('I want a refund'));
    assert.equal(asks.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
    assert.match(asks.status.message.parts[0].content.value, /Approve the call of refund\?[^]*500/);
    const repeated = await client.sendMessage(message('why?', { taskId: asks.id, contextId: asks.contextId }));
    assert.equal(repeated.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
    const done = await client.sendMessage(message('yes', { taskId: asks.id, contextId: asks.contextId }));
    assert.equal(done.status.state, TaskState.TASK_STATE_COMPLETED);
    assert.equal((await client.getTask({ id: asks.id })).status.state, TaskState.TASK_STATE_COMPLETED);
  });

  test(`notifications over ${name}`, async () => {
    const asks = await client.sendMessage({
      ...message('I want a refund'),
      configuration: { taskPushNotificationConfig: { id: 'first', url: `http://${hookHost}/hook`, token: 'token-of-the-client', authentication: { scheme: 'Bearer', credentials: 'secret' } } },
    });
    const asked = await nextNotification();
    assert.equal(asked.headers['x-a2a-notification-token'], 'token-of-the-client');
    assert.equal(asked.headers.authorization, 'Bearer secret');
    assert.equal(asked.body.task.status.state, 'TASK_STATE_INPUT_REQUIRED');
    await client.sendMessage(message('yes', { taskId: asks.id, contextId: asks.contextId }));
    const done = await nextNotification();
    assert.equal(done.body.task.id, asks.id);
    assert.equal(done.body.task.status.state, 'TASK_STATE_COMPLETED');
    const own = { taskId: asks.id, id: 'first', tenant: '' };
    const config = await client.getTaskPushNotificationConfig(own);
    assert.equal(config.url, `http://${hookHost}/hook`);
    await client.deleteTaskPushNotificationConfig(own);
    const { configs } = await client.listTaskPushNotificationConfig({ taskId: asks.id, tenant: '', pageSize: 0, pageToken: '' });
    assert.deepEqual(configs, []);
    await assert.rejects(client.createTaskPushNotificationConfig({ taskId: asks.id, id: '', url: 'https://evil.test/', token: '', tenant: '' }), /push_hosts/);
  });

  test(`errors over ${name}`, async () => {
    await assert.rejects(client.getTask({ id: 'e-1.none' }), /not found/i);
    await assert.rejects(client.sendMessage(message('hello', { parts: [] })), /1 to 100 parts|parts/);
  });
}

test('a card for authenticated callers is signed', async () => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const own = apps('ui-test/page/apps/helpdesk');
  const secrets = apps();
  const [key, auth] = ['card.key', 'auth.yaml'].map((file) => join(secrets.dir, file));
  writeFileSync(key, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(auth, `tokens:\n- {token: ${TOKEN}, claims: {sub: ana}}\n`);
  const signing = await serve(own.dir, '--auth', auth, '--a2a-card-key', key);
  try {
    const headers = { Authorization: `Bearer ${TOKEN}`, 'Content-Type': 'application/json', 'A2A-Version': '1.0' };
    const address = `${signing.url}/a2a/helpdesk`;
    const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetExtendedAgentCard', params: {} });
    const { result } = await (await fetch(address, { method: 'POST', headers, body: call })).json();
    // In JSON, as it was sent: a card that the SDK has decoded is without its security schemes when it verifies it.
    const verify = verifyAgentCardSignature(async () => publicKey);
    for (const card of [result, await (await fetch(`${address}/extendedAgentCard`, { headers })).json()]) {
      assert.deepEqual(card.securitySchemes, { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } });
      await verify(card);
      await assert.rejects(verify({ ...card, name: 'another' }), /No valid signatures/);
    }
  } finally {
    await signing.stop();
    secrets.remove();
    own.remove();
  }
});
