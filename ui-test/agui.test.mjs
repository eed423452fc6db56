// AG-UI's own client on apps. HttpAgent verifies the order of events, and each event is checked by the
// protocol's schema.

import test from 'node:test';
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { HttpAgent } from '@ag-ui/client';
import { EventSchemas } from '@ag-ui/core/schemas';
import { apps, serve } from './host.mjs';

const folders = apps();
const desk = {
  'app.yaml': 'models: {demo: {provider: scripted, script: demo.script.yaml}}\nagui_server: {client_tools: true, client_instructions: true, client_state: [city], agents: [writer]}\n',
  'root_agent.yaml': `name: desk
model: demo
instruction: "Answer. {temp:client_instructions?} {city?}"
tools:
  - expr:
      name: refund
      description: Pays money back.
      params: {amount: number}
      value: '{"paid": args.amount}'
      set: {paid: args.amount, "a/b~c": args.amount}
      confirm: {when: args.amount > 100, edit: [amount]}
  - name: get_user_choice
  - name: request_input
sub_agents:
  - {name: writer, model: demo, description: Writes notes., instruction: Write a note.}
`,
  'demo.script.yaml': `- {when: agent == "writer", text: "A note."}
- {when: responses.refund != nil, text: "Refund: {responses.refund}."}
- {when: responses.get_weather != nil, text: "It is {responses.get_weather.sky} there."}
- {when: responses.get_user_choice != nil, text: "You chose {responses.get_user_choice.result}."}
- {when: responses.adk_request_input != nil, text: "To {responses.adk_request_input.street}."}
- {when: user contains "little refund", calls: [{name: refund, args: {amount: 5}}]}
- {when: user contains "refund", calls: [{name: refund, args: {amount: 500}}]}
- {when: user contains "weather", calls: [{name: get_weather, args: {city: Rome}}]}
- {when: user contains "choose", calls: [{name: get_user_choice, args: {options: [Green, Black]}}]}
- {when: user contains "where to", calls: [{name: adk_request_input, args: {message: "Where to?", response_schema: {type: object, properties: {street: {type: string}}, required: [street]}}}]}
- {when: user contains "note", calls: [{name: transfer_to_agent, args: {agent_name: writer}}]}
- {when: user contains "story", text: "Once, in a town, it rained.", chunks: 3}
- {when: user contains "think", thought: "It is 4.", text: "4"}
- {when: user contains "sign", text: "Signed. ", parts: [{text: "Twice.", thoughtSignature: AQID}]}
- {when: user contains "fail", error: {code: 400, message: the model is broken}}
- {when: instruction contains "Rome", text: "In Rome."}
- {when: instruction contains "French", text: "Bonjour"}
- {text: "You wrote: {user}"}
`,
};
const crew = {
  'app.yaml': `models: {demo: {provider: scripted, script: demo.script.yaml}}
agui_server: {agents: [critic]}
`,
  'root_agent.yaml': `name: crew
model: demo
instruction: Answer.
tools:
  - agent: {agent: {name: counter, model: demo, instruction: Count.}}
sub_agents:
  - name: team
    agent_class: SequentialAgent
    sub_agents:
      - name: both
        agent_class: ParallelAgent
        sub_agents:
          - {name: left, model: demo, instruction: Write.}
          - {name: right, model: demo, instruction: Write.}
      - {name: critic, model: demo, description: Reviews., instruction: Review.}
  - {name: helper, model: demo, description: Helps., instruction: Help., mode: single_turn}
  - name: clerk
    model: demo
    instruction: Ask.
    tools:
      - expr: {name: pay, params: {n: number}, value: args.n, confirm: true}
`,
  'demo.script.yaml': `- {when: agent == "counter" and user == "fail", error: {code: 400, message: the model is broken}}
- {when: agent == "counter", text: "Three."}
- {when: agent == "helper", text: "Helped."}
- {when: agent == "left", text: "Left."}
- {when: agent == "right", text: "Right."}
- {when: agent == "critic", text: "Fine."}
- {when: agent == "clerk" and responses.pay != nil, text: "Paid."}
- {when: agent == "clerk", calls: [{name: pay, args: {n: 1}}]}
- {when: responses.counter != nil or responses.helper != nil, text: "Done."}
- {when: user contains "miscount", calls: [{name: counter, args: {request: fail}}]}
- {when: user contains "count", calls: [{name: counter, args: {request: x}}]}
- {when: user contains "help", calls: [{name: helper, args: {request: x}}]}
- {when: user contains "team", calls: [{name: transfer_to_agent, args: {agent_name: team}}]}
- {when: user contains "pay", calls: [{name: transfer_to_agent, args: {agent_name: clerk}}]}
- {text: "Hello."}
`,
};
for (const [name, files] of Object.entries({ desk, crew })) {
  mkdirSync(join(folders.dir, name));
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folders.dir, name, file), text);
}
const host = await serve(folders.dir);
test.after(async () => {
  await host.stop();
  folders.remove();
});

const weather = { name: 'get_weather', description: 'The weather.', parameters: { type: 'object', properties: { city: { type: 'string' } } } };

/** thread returns a client with a thread of its own, which checks each event. */
function thread(path = '', app = 'desk') {
  const agent = new HttpAgent({ url: `${host.url}/apps/${app}/ag-ui${path}`, threadId: crypto.randomUUID() });
  const events = [];
  agent.subscribe({ onEvent: ({ event }) => { EventSchemas.parse(event); events.push(event); } });
  return {
    agent,
    types: () => events.map(({ type }) => type),
    all: (type) => events.filter((event) => event.type === type),
    write(content) { agent.addMessage({ id: crypto.randomUUID(), role: 'user', content }); return this.run(); },
    async run(parameters) {
      events.length = 0;
      const { newMessages } = await agent.runAgent(parameters);
      return newMessages;
    },
    /** answer resumes the thread's interrupts with a payload each. */
    answer(...payloads) {
      return this.run({ resume: agent.pendingInterrupts.map(({ id }, i) => ({ interruptId: id, status: 'resolved', payload: payloads[i] })) });
    },
  };
}

test('text arrives in chunks, in the order of the protocol', async () => {
  const t = thread();
  const [message] = await t.write('a story');
  assert.equal(message.content, 'Once, in a town, it rained.');
  assert.deepEqual(t.types(), ['RUN_STARTED', 'STATE_SNAPSHOT', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END', 'STATE_SNAPSHOT', 'RUN_FINISHED']);
  assert.equal(t.all('RUN_STARTED')[0].protocolVersion, '1.0');
});

test('a picture is a part of the message, in the session and in the thread', async () => {
  const t = thread();
  const picture = { type: 'image', source: { type: 'data', value: 'AAAA', mimeType: 'image/png' } };
  await t.write([{ type: 'text', text: 'look' }, picture]);
  const { events } = await (await fetch(`${host.url}/apps/desk/users/user/sessions/${t.agent.threadId}`)).json();
  assert.equal(events[0].content.parts[1].inlineData.data, 'AAAA');
  assert.deepEqual(t.agent.messages[0].content[1], picture);
});

test('a thread is a session: a message runs once, and an edit undoes what follows', async () => {
  const t = thread();
  await t.write('one');
  await t.write('two');
  const session = async () => (await (await fetch(`${host.url}/apps/desk/users/user/sessions/${t.agent.threadId}`)).json()).events.length;
  assert.equal(await session(), 4);
  t.agent.setMessages(t.agent.messages.slice(0, 2));
  const [message] = await t.write('instead');
  assert.equal(message.content, 'You wrote: instead');
  const reader = new HttpAgent({ url: t.agent.url, threadId: t.agent.threadId });
  await reader.runAgent();
  assert.deepEqual(reader.messages.map(({ content }) => content), ['one', 'You wrote: one', 'instead', 'You wrote: instead']);
  assert.deepEqual(reader.messages.map(({ id }) => id), t.agent.messages.map(({ id }) => id));
});

test('thoughts are reasoning', async () => {
  const t = thread();
  const messages = await t.write('think');
  assert.deepEqual(messages.map(({ role, content }) => [role, content]), [['reasoning', 'It is 4.'], ['assistant', '4']]);
});

test("a model's signatures are carried", async () => {
  const t = thread();
  await t.write('sign');
  assert.deepEqual(t.all('REASONING_ENCRYPTED_VALUE').map(({ subtype, entityId, encryptedValue }) => [subtype, entityId, encryptedValue]), [['message', t.agent.messages.at(-1).id, 'AQID']]);
  assert.equal(t.agent.messages.at(-1).encryptedValue, 'AQID');
  const [message] = await t.write('hello');
  assert.equal(message.content, 'You wrote: hello');
});

test('tools run on the host, and the state follows', async () => {
  const t = thread();
  const messages = await t.write('a little refund');
  assert.deepEqual(messages.map(({ role }) => role), ['assistant', 'tool', 'assistant']);
  assert.equal(messages[0].toolCalls[0].function.arguments, '{"amount":5}');
  assert.equal(messages[1].content, '{"paid":5}');
  assert.deepEqual(t.all('STATE_DELTA')[0].delta.map(({ path }) => path), ['/a~1b~0c', '/paid']);
  assert.deepEqual(t.agent.state, { paid: 5, 'a/b~c': 5 });
});

test("a client's state and context reach the agent", async () => {
  const t = thread();
  t.agent.setState({ city: 'Rome', paid: 9, 'app:x': 1 });
  const [message] = await t.write('hello');
  assert.equal(message.content, 'In Rome.');
  assert.deepEqual(t.agent.state, { city: 'Rome' });
  const french = thread();
  french.agent.addMessage({ id: 'm', role: 'user', content: 'hello' });
  const [bonjour] = await french.run({ context: [{ description: 'Language', value: 'French' }] });
  assert.equal(bonjour.content, 'Bonjour');
});

test("a client's tool ends the run, and its result continues it", async () => {
  const t = thread();
  t.agent.addMessage({ id: 'm', role: 'user', content: 'the weather?' });
  const [{ toolCalls: [call] }] = await t.run({ tools: [weather] });
  assert.equal(call.function.name, 'get_weather');
  assert.deepEqual(t.all('RUN_FINISHED')[0].outcome, { type: 'success', pendingToolCallIds: [call.id] });
  t.agent.addMessage({ id: 'r', role: 'tool', toolCallId: call.id, content: '{"sky":"sunny"}' });
  const [message] = await t.run({ tools: [weather] });
  assert.equal(message.content, 'It is sunny there.');
});

for (const [name, payload, paid] of [
  ['approved', { approved: true }, '"paid":500'],
  ['edited', { approved: true, editedArgs: { amount: 200 } }, '"paid":200'],
  ['rejected', { approved: false }, 'error'],
]) {
  test(`a call that waits for approval is ${name}`, async () => {
    const t = thread();
    await t.write('a refund');
    assert.deepEqual(t.types().slice(-3), ['STATE_SNAPSHOT', 'MESSAGES_SNAPSHOT', 'RUN_FINISHED']);
    const [interrupt] = t.agent.pendingInterrupts;
    const call = t.agent.messages.at(-1).toolCalls[0];
    assert.deepEqual([interrupt.reason, interrupt.toolCallId], ['tool_call', call.id]);
    assert.ok(interrupt.responseSchema.properties.editedArgs.properties.amount);
    await assert.rejects(t.agent.runAgent(), /pending interrupt/);
    await t.answer(payload);
    const results = t.all('TOOL_CALL_RESULT');
    assert.deepEqual(results.map(({ toolCallId }) => toolCallId), [call.id]);
    assert.match(results[0].content, new RegExp(paid));
    assert.deepEqual(t.all('TOOL_CALL_START'), []);
    assert.deepEqual(t.agent.pendingInterrupts, []);
  });
}

test('an answer that does not match its schema leaves the interrupt open', async () => {
  const t = thread();
  await t.write('where to');
  const [interrupt] = t.agent.pendingInterrupts;
  assert.equal(interrupt.reason, 'input_required');
  await t.answer({ city: 'Rome' });
  assert.match(t.all('RUN_ERROR')[0].message, /street/);
  const messages = await t.run({ resume: [{ interruptId: interrupt.id, status: 'resolved', payload: { street: 'Tea' } }] });
  assert.equal(messages.at(-1).content, 'To Tea.');
});

test('a choice is an enum', async () => {
  const t = thread();
  await t.write('let me choose');
  assert.deepEqual(t.agent.pendingInterrupts[0].responseSchema.enum, ['Green', 'Black']);
  const messages = await t.answer('Black');
  assert.equal(messages.at(-1).content, 'You chose Black.');
});

test('another agent is a step, and has a route of its own', async () => {
  const t = thread();
  await t.write('a note');
  assert.deepEqual(t.all('STEP_STARTED').map(({ stepName }) => stepName), ['writer']);
  const writer = thread('/agents/writer');
  const [message] = await writer.write('hello');
  assert.equal(message.content, 'A note.');
});

test('subagents are announced, and what they write names them', async () => {
  const t = thread('', 'crew');
  await t.write('the team');
  const started = t.all('SUBAGENT_STARTED');
  const [team, both] = started;
  assert.deepEqual(started.map(({ name }) => name).sort(), ['both', 'critic', 'left', 'right', 'team']);
  const call = t.all('TOOL_CALL_START').find(({ toolCallName }) => toolCallName === 'transfer_to_agent');
  assert.deepEqual([team.name, team.parentToolCallId, team.parentMessageId], ['team', call.toolCallId, call.parentMessageId]);
  const parents = Object.fromEntries(started.map(({ name, parentSubagentRunId: id }) => [name, id]));
  assert.deepEqual(parents, { team: undefined, both: team.subagentRunId, critic: team.subagentRunId, left: both.subagentRunId, right: both.subagentRunId });
  assert.equal(started.find(({ name }) => name === 'critic').description, 'Reviews.');
  assert.equal(t.all('SUBAGENT_FINISHED').length, 5);
  const names = Object.fromEntries(started.map(({ name, subagentRunId: id }) => [id, name]));
  const written = Object.fromEntries(t.agent.messages.filter(({ role, content }) => role === 'assistant' && content).map((m) => [names[m.subagentRunId], m.content]));
  assert.deepEqual(written, { left: 'Left.', right: 'Right.', critic: 'Fine.' });
});

test('a task and an agent tool are subagents of their call', async () => {
  for (const [words, name] of [['help', 'helper'], ['count', 'counter']]) {
    const t = thread('', 'crew');
    await t.write(words);
    const [call] = t.all('TOOL_CALL_START');
    const [started] = t.all('SUBAGENT_STARTED');
    assert.deepEqual([started.name, started.parentToolCallId], [name, call.toolCallId]);
    assert.deepEqual(t.all('SUBAGENT_FINISHED').map(({ subagentRunId: id }) => id), [started.subagentRunId]);
  }
});

test('an agent tool that fails ends with its error, and the run continues', async () => {
  const t = thread('', 'crew');
  await t.write('miscount');
  const [started] = t.all('SUBAGENT_STARTED');
  const errors = t.all('SUBAGENT_ERROR').map(({ subagentRunId: id, message }) => [id, message]);
  assert.deepEqual(errors, [[started.subagentRunId, 'model scripted failed: the model is broken']]);
  assert.deepEqual(t.all('SUBAGENT_FINISHED'), []);
  assert.deepEqual(t.all('RUN_FINISHED').map(({ outcome }) => outcome), [{ type: 'success' }]);
  assert.equal(t.agent.messages.at(-1).content, 'Done.');
});

test('a subagent with an interrupt is suspended, and keeps its messages', async () => {
  const t = thread('', 'crew');
  await t.write('pay');
  const [started] = t.all('SUBAGENT_STARTED');
  const [finished] = t.all('SUBAGENT_FINISHED');
  const { interrupts: [interrupt] } = t.all('RUN_FINISHED')[0].outcome;
  assert.deepEqual(finished.outcome, { type: 'suspended', interruptIds: [interrupt.id] });
  assert.equal(interrupt.subagentRunId, started.subagentRunId);
  assert.ok(t.agent.messages.some(({ subagentRunId: id }) => id === started.subagentRunId));
});

test('a failed run has an error with a code, and the next one works', async () => {
  const t = thread();
  await t.write('fail');
  assert.deepEqual(t.all('RUN_ERROR').map(({ message, code }) => [message, code]), [['model scripted failed: the model is broken', 'INVALID_ARGUMENT']]);
  assert.equal(t.types().at(-1), 'RUN_ERROR');
  const [message] = await t.write('hello');
  assert.equal(message.content, 'You wrote: hello');
  await assert.rejects(new HttpAgent({ url: `${host.url}/apps/none/ag-ui` }).runAgent(), (error) => error.status === 404 && error.payload.code === 'NOT_FOUND');
});

test('an endpoint has capabilities', async () => {
  const { tools, humanInTheLoop: human } = await (await fetch(`${host.url}/apps/desk/ag-ui/capabilities`)).json();
  assert.deepEqual([tools.clientProvided, human.interrupts, human.approveWithEdits], [true, true, true]);
  const { multiAgent } = await (await fetch(`${host.url}/apps/crew/ag-ui/capabilities`)).json();
  assert.deepEqual(multiAgent, { supported: true, delegation: true, handoffs: true, subagents: [{ name: 'critic', description: 'Reviews.' }] });
});
