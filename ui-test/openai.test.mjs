// OpenAI's own client on the models that apps are.

import test from 'node:test';
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI from 'openai';
import { apps, serve } from './host.mjs';

const folders = apps('ui-test/page/apps/helpdesk');
const tooled = {
  'app.yaml': 'models: {demo: {provider: scripted, script: demo.script.yaml}}\nopenai_server: {client_tools: true}\n',
  'root_agent.yaml': 'name: tooled\nmodel: demo\ninstruction: Answer.\n',
  'demo.script.yaml': '- {when: responses.get_weather != nil, text: "It is {responses.get_weather.sky} there."}\n- {calls: [{name: get_weather, args: {city: Rome}}]}\n',
};
mkdirSync(join(folders.dir, 'tooled'));
for (const [file, text] of Object.entries(tooled)) writeFileSync(join(folders.dir, 'tooled', file), text);
const host = await serve(folders.dir);
const client = new OpenAI({ baseURL: `${host.url}/v1`, apiKey: 'none' });
test.after(async () => {
  await host.stop();
  folders.remove();
});

const user = (content) => ({ role: 'user', content });

test('the models are the apps', async () => {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  assert.deepEqual(ids, ['helpdesk', 'tooled']);
  assert.equal((await client.models.retrieve('helpdesk')).object, 'model');
});

test('a conversation is one session', async () => {
  const messages = [user('hello')];
  const { data, response } = await client.chat.completions.create({ model: 'helpdesk', messages }).withResponse();
  assert.equal(data.choices[0].message.content, 'You wrote: hello');
  messages.push(data.choices[0].message, user('again'));
  const next = await client.chat.completions.create({ model: 'helpdesk', messages }).withResponse();
  const session = response.headers.get('x-conversation-id');
  assert.equal(next.response.headers.get('x-conversation-id'), session);
  const { events } = await (await fetch(`${host.url}/apps/helpdesk/users/user/sessions/${session}`)).json();
  assert.equal(events.length, 4);
});

test('a picture and a document are parts of the message', async () => {
  const content = [
    { type: 'text', text: 'look' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
    { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0x' } },
  ];
  const { response } = await client.chat.completions.create({ model: 'helpdesk', messages: [user(content)] }).withResponse();
  const { events } = await (await fetch(`${host.url}/apps/helpdesk/users/user/sessions/${response.headers.get('x-conversation-id')}`)).json();
  assert.deepEqual(events[0].content.parts.slice(1).map(({ inlineData: { mimeType, data } }) => [mimeType, data]), [['image/png', 'AAAA'], ['application/pdf', 'JVBERi0x']]);
});

test('a stream has the text in chunks, a reason and the usage', async () => {
  const stream = client.chat.completions.stream({ model: 'helpdesk', stream_options: { include_usage: true }, messages: [user('tell me a story')] });
  let chunks = 0;
  stream.on('content', () => { chunks++; });
  const { choices: [{ message, finish_reason: reason }], usage } = await stream.finalChatCompletion();
  assert.match(message.content, /^In a small town .* answer\.$/);
  assert.ok(chunks > 5, `${chunks} chunks`);
  assert.equal(reason, 'stop');
  assert.equal(usage.total_tokens, 0);
});

test('an approval is a question, and the next message answers it', async () => {
  const messages = [user('I want a refund')];
  const { choices: [{ message }] } = await client.chat.completions.create({ model: 'helpdesk', messages });
  assert.match(message.content, /Approve the call of refund\?[^]*500[^]*Answer yes or no/);
  const answer = await client.chat.completions.create({ model: 'helpdesk', messages: [...messages, message, user('Yes')] });
  assert.match(answer.choices[0].message.content, /500 euros/);
});

test("a client's tool is called, and its result ends the turn", async () => {
  const runner = client.chat.completions.runTools({
    model: 'tooled', messages: [user('the weather?')],
    tools: [{ type: 'function', function: { name: 'get_weather', description: 'The weather.', parameters: { type: 'object', properties: { city: { type: 'string' } } }, parse: JSON.parse, function: ({ city }) => JSON.stringify({ sky: city === 'Rome' ? 'sunny' : 'unknown' }) } }],
  });
  assert.equal(await runner.finalContent(), 'It is sunny there.');
  const tools = [{ type: 'function', name: 'get_weather', parameters: { type: 'object', properties: {} } }];
  const asked = await client.responses.create({ model: 'tooled', tools, input: 'weather' });
  const { call_id: id, arguments: args } = asked.output[0];
  assert.equal(args, '{"city":"Rome"}');
  const answer = await client.responses.create({ model: 'tooled', tools, previous_response_id: asked.id, input: [{ type: 'function_call_output', call_id: id, output: '{"sky":"grey"}' }] });
  assert.equal(answer.output_text, 'It is grey there.');
});

test('a response continues the one before it, and is found again', async () => {
  const first = await client.responses.create({ model: 'helpdesk', input: 'hello' });
  assert.equal(first.output_text, 'You wrote: hello');
  const next = await client.responses.create({ model: 'helpdesk', input: 'again', previous_response_id: first.id });
  assert.equal(next.output_text, 'You wrote: again');
  assert.equal((await client.responses.retrieve(first.id)).output_text, 'You wrote: hello');
  const branch = await client.responses.create({ model: 'helpdesk', input: 'another way', previous_response_id: first.id });
  assert.equal(branch.output_text, 'You wrote: another way');
});

test('a response streams, and its approval is answered as one of an MCP server', async () => {
  const words = [];
  const stream = client.responses.stream({ model: 'helpdesk', input: 'tell me a story' });
  stream.on('response.output_text.delta', ({ delta }) => words.push(delta));
  const response = await stream.finalResponse();
  assert.equal(words.join(''), response.output_text);
  assert.match(response.output_text, /^In a small town .* answer\.$/);
  const refund = await client.responses.create({ model: 'helpdesk', input: 'I want a refund' });
  const { id, type, name, arguments: args } = refund.output[0];
  assert.deepEqual([type, name, JSON.parse(args).amount], ['mcp_approval_request', 'refund', 500]);
  const done = await client.responses.create({ model: 'helpdesk', previous_response_id: refund.id, input: [{ type: 'mcp_approval_response', approval_request_id: id, approve: true }] });
  assert.match(done.output_text, /500 euros/);
});

test('the input of a response is listed, and a deleted response is not found', async () => {
  const { id } = await client.responses.create({ model: 'helpdesk', input: 'hello' });
  const texts = [];
  for await (const item of client.responses.inputItems.list(id, { order: 'asc' })) texts.push(item.content[0].text);
  assert.deepEqual(texts, ['hello']);
  await client.responses.delete(id);
  await assert.rejects(client.responses.retrieve(id), OpenAI.NotFoundError);
  await assert.rejects(client.responses.create({ model: 'helpdesk', input: 'more', previous_response_id: id }), (error) => error.code === 'previous_response_not_found');
});

test('errors are those that the client names, and a failed turn is not repeated', async () => {
  await assert.rejects(client.chat.completions.create({ model: 'none', messages: [user('x')] }), (error) => error instanceof OpenAI.NotFoundError && error.code === 'model_not_found');
  await assert.rejects(client.chat.completions.create({ model: 'helpdesk', n: 2, messages: [user('x')] }), (error) => error instanceof OpenAI.BadRequestError && error.param === 'n');
  const before = await sessions();
  await assert.rejects(client.chat.completions.create({ model: 'helpdesk', messages: [user('fail')] }), (error) => error.status === 502);
  assert.equal(await sessions(), before + 1);
});

const sessions = async () => (await (await fetch(`${host.url}/apps/helpdesk/users/user/sessions`)).json()).length;

test('a response in the background is polled', async () => {
  let answer = await client.responses.create({ model: 'helpdesk', input: 'hello', background: true });
  while (['queued', 'in_progress'].includes(answer.status)) answer = await client.responses.retrieve(answer.id);
  assert.equal(answer.status, 'completed');
  assert.equal(answer.output_text, 'You wrote: hello');
  await assert.rejects(client.responses.cancel(answer.id), /Only a response in progress/);
});

test('a response in the background is streamed in chunks', async () => {
  const words = [];
  let last;
  for await (const event of await client.responses.create({ model: 'helpdesk', input: 'tell me a story', background: true, stream: true })) {
    if (event.type === 'response.output_text.delta') words.push(event.delta);
    last = event;
  }
  assert.equal(last.type, 'response.completed');
  assert.equal(words.join(''), last.response.output[0].content[0].text);
});
