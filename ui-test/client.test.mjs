// Conversations with the client that ADK's JavaScript tools use: sessions, streams,
// state and artifacts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { apiClient } from './bundle.mjs';
import { apps, serve } from './host.mjs';

const folders = apps('ui-test/apps/desk', 'ui-test/apps/plain');
let host, client;
const user = { appName: 'desk', userId: 'ana' };

before(async () => {
  host = await serve(folders.dir);
  client = new (await apiClient())({ backendUrl: host.url });
});
after(async () => {
  await host?.stop();
  folders.remove();
});

const textOf = (ev) => (ev.content?.parts ?? []).map((p) => p.text ?? '').join('');

async function run(sessionId, newMessage, streaming = false, stateDelta = undefined) {
  const events = [];
  for await (const ev of client.runAsync({ ...user, sessionId, newMessage, streaming, stateDelta })) events.push(ev);
  return events;
}

test('apps and sessions', async () => {
  assert.deepEqual(await client.listApps(), ['desk', 'plain']);
  const made = await client.createSession({ ...user, sessionId: 's1' });
  assert.equal(made.id, 's1');
  assert.deepEqual((await client.listSessions(user)).map((s) => s.id), ['s1']);
});

test('a turn without and with streaming', async () => {
  const whole = await run('s1', 'hello');
  assert.equal(whole.map(textOf).join('|'), 'Hello! What can I do for you?');
  const streamed = await run('s1', 'hello', true);
  assert.ok(streamed.length > 2 && streamed.slice(0, -1).every((ev) => ev.partial), 'the chunks come first');
  assert.equal(streamed.slice(0, -1).map(textOf).join(''), textOf(streamed.at(-1)));
});

test('state is written and read', async () => {
  await run('s1', 'hello', false, { tier: 'gold' });
  const session = await client.getSession({ ...user, sessionId: 's1' });
  assert.equal(session.state.tier, 'gold');
  assert.equal(session.state.last_answer, 'Hello! What can I do for you?');
  assert.equal(session.events.length, 6);
});

test('files are artifacts', async () => {
  const data = Buffer.from('buy milk').toString('base64');
  await run('s1', { role: 'user', parts: [{ text: 'keep it' }, { inlineData: { displayName: 'note.txt', mimeType: 'text/plain', data } }] });
  const artifact = { ...user, sessionId: 's1', artifactName: 'note.txt' };
  assert.deepEqual(await client.listArtifacts({ ...user, sessionId: 's1' }), ['note.txt']);
  assert.deepEqual(await client.listArtifactVersions(artifact), [0]);
  const part = await client.loadArtifact({ ...artifact, version: 0 });
  assert.equal(Buffer.from(part.inlineData.data, 'base64url').toString(), 'buy milk');
});

test('a failed run is an error, and a session is deleted', async () => {
  await assert.rejects(run('s1', 'fail'), /failed: the model is away/);
  await client.deleteSession({ ...user, sessionId: 's1' });
  await assert.rejects(client.getSession({ ...user, sessionId: 's1' }));
});
