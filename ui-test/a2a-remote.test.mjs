// Remote agents (RemoteA2aAgent) on servers of the SDK of A2A for JavaScript.

import test from 'node:test';
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { startServer } from './a2a-server.mjs';
import { apps, serve } from './host.mjs';

const server = await startServer();
const folders = apps();
for (const path of server.paths) {
  mkdirSync(join(folders.dir, path));
  writeFileSync(join(folders.dir, path, 'root_agent.yaml'), `agent_class: RemoteA2aAgent\nname: front\nagent_card: ${server.cardURL(path)}\n`);
}
const host = await serve(folders.dir, '--auto-create-session');
test.after(async () => {
  await host.stop();
  folders.remove();
  server.stop();
});

/** send runs a turn, and yields its events. A message is a string, or a content. */
async function* send(appName, sessionId, message, streaming = true) {
  const newMessage = typeof message === 'string' ? { role: 'user', parts: [{ text: message }] } : message;
  const response = await fetch(`${host.url}/run_sse`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ appName, userId: 'ana', sessionId, newMessage, streaming }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  for await (const line of createInterface(Readable.fromWeb(response.body))) {
    if (line.startsWith('data: ')) yield JSON.parse(line.slice('data: '.length));
  }
}

const describe = (p) => p.text ?? (p.inlineData && `${p.inlineData.mimeType} ${p.inlineData.displayName ?? ''} ${Buffer.from(p.inlineData.data, 'base64')}`)
  ?? (p.fileData && `${p.fileData.mimeType} ${p.fileData.fileUri}`) ?? `${p.functionCall.name}: ${p.functionCall.args.message}`;
/** answer returns the parts of a turn's complete events, and its error. */
async function answer(...turn) {
  const all = [];
  for await (const ev of send(...turn)) {
    if (ev.error) all.push(`error: ${ev.error}`);
    else if (!ev.partial && !ev.errorCode) all.push(...ev.content.parts.map(describe));
  }
  return all;
}

for (const path of ['jsonrpc-1', 'rest-1', 'jsonrpc-03', 'rest-03', 'whole']) {
  test(`a turn and a direct message: ${path}`, async () => {
    assert.deepEqual(await answer(path, 'turn', 'hello'), ['You wrote: hello']);
    assert.deepEqual(await answer(path, 'turn', 'direct'), ['Hello.']);
    assert.deepEqual(await answer(path, 'turn', 'again', false), ['You wrote: again']);
    assert.deepEqual(await answer(path, 'turn', 'answer'), ['The answer is in the status.']);
  });

  test(`a streamed answer: ${path}`, async () => {
    const chunks = [];
    let whole;
    for await (const ev of send(path, 'story', 'story')) {
      if (ev.partial) chunks.push(ev.content.parts[0].text);
      else whole = ev.content.parts.map(describe);
    }
    assert.deepEqual(whole, ['Once, it rained.']);
    assert.deepEqual(chunks, path === 'whole' ? [] : ['Once, ', 'it ', 'rained.']);
  });

  test(`a question and its answer: ${path}`, async () => {
    let call;
    const asked = [];
    for await (const ev of send(path, 'ask', 'ask')) {
      if (ev.partial) continue;
      asked.push(...ev.content.parts.map(describe));
      call = ev.content.parts.find((p) => p.functionCall)?.functionCall ?? call;
    }
    assert.deepEqual(asked, ['Two orders. ', 'adk_request_input: Which order?']);
    const reply = { role: 'user', parts: [{ functionResponse: { id: call.id, name: call.name, response: { result: 'the blue one' } } }] };
    assert.deepEqual(await answer(path, 'ask', reply), ['You wrote: the blue one']);
    assert.deepEqual(await answer(path, 'ask', 'thanks'), ['You wrote: thanks']);
    assert.deepEqual(await answer(path, 'login', 'login'), ['adk_request_input: Log in at https://login.example/.']);
  });

  test(`files and data: ${path}`, async () => {
    // Files of 0.3 over REST are Base64 twice in a2a-go and once in this SDK.
    const file = path === 'rest-03' ? [] : ['text/csv orders.csv a,b\n'];
    assert.deepEqual(await answer(path, 'files', 'files'), ['Here.', ...file, 'text/plain  <a2a_datapart_json>{"n":1}</a2a_datapart_json>', 'application/pdf https://files.example/page.pdf']);
    const data = Buffer.from('buy milk').toString('base64');
    const [sent] = await answer(path, 'files', { role: 'user', parts: [{ text: 'keep it' }, { inlineData: { displayName: 'note.txt', mimeType: 'text/plain', data } }] });
    assert.match(sent, /^You wrote: keep it\|/);
  });

  test(`errors: ${path}`, async () => {
    for (const [order, want] of Object.entries({
      fail: /the task was ended with an error: The disk is full\./,
      reject: /the task was rejected: Not on Sundays\./,
      throw: /the agent is broken/,
    })) {
      const all = await answer(path, `error-${order}`, order);
      assert.equal(all.length, 1, all.join());
      assert.match(all[0], want);
    }
  });

  // Without a stream, the task's ID arrives with its end.
  if (path === 'whole') continue;
  test(`a stopped run cancels the task: ${path}`, async () => {
    const stop = () => fetch(`${host.url}/apps/${path}/users/ana/sessions/wait/stop`, { method: 'POST' });
    for await (const ev of send(path, 'wait', 'wait')) if (ev.partial) await stop();
    assert.ok(await server.nextCancel());
  });
}

for (const path of ['both', 'only']) {
  test(`a server with cards of both versions is used with 1.0: ${path}`, async () => {
    server.versions.length = 0;
    assert.deepEqual(await answer(path, 'version', 'hello'), ['You wrote: hello']);
    assert.deepEqual(new Set(server.versions), new Set(['1.0']));
  });
}
