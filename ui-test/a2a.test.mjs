// The SDK of A2A for JavaScript on an app, over JSON-RPC and over REST.

import test from 'node:test';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { Role, TaskState } from '@a2a-js/sdk';
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { apps, serve } from './host.mjs';

const folders = apps('ui-test/page/apps/helpdesk');
const host = await serve(folders.dir);
test.after(async () => {
  await host.stop();
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

  test(`errors over ${name}`, async () => {
    await assert.rejects(client.getTask({ id: 'e-1.none' }), /not found/i);
    await assert.rejects(client.sendMessage(message('hello', { parts: [] })), /1 to 100 parts|parts/);
  });
}
