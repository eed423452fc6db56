// A server of the SDK of A2A for JavaScript, over JSON-RPC and REST of both versions, each below an own path.
// Its agent does what a message orders.

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import express from 'express';
import { Role, TaskState } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';

const part = (content, more = {}) => ({ content, metadata: {}, filename: '', mediaType: '', ...more });
export const text = (value) => part({ $case: 'text', value }, { mediaType: 'text/plain' });
const data = (value) => part({ $case: 'data', value }, { mediaType: 'application/json' });
const file = (filename, mediaType, value) => part({ $case: 'raw', value: Buffer.from(value) }, { filename, mediaType });
const link = (filename, mediaType, value) => part({ $case: 'url', value }, { filename, mediaType });

// A turn publishes the events of one task.
class Turn {
  constructor(context, bus) {
    this.bus = bus;
    this.ids = { taskId: context.taskId, contextId: context.contextId };
    // The SDK's first event of a turn must be the task, also when it continues.
    bus.publish(AgentEvent.task(context.task ?? { id: context.taskId, contextId: context.contextId, artifacts: [], history: [context.userMessage], metadata: {}, status: { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: undefined } }));
    this.status('TASK_STATE_WORKING');
  }

  message(parts) {
    return { ...this.ids, messageId: randomUUID(), role: Role.ROLE_AGENT, parts, metadata: {}, extensions: [], referenceTaskIds: [] };
  }

  status(state, ...parts) {
    const message = parts.length ? this.message(parts) : undefined;
    this.bus.publish(AgentEvent.statusUpdate({ ...this.ids, status: { state: TaskState[state], message, timestamp: new Date().toISOString() }, metadata: {} }));
  }

  artifact(artifactId, parts, more = {}) {
    const artifact = { artifactId, name: '', description: '', parts, metadata: {}, extensions: [] };
    this.bus.publish(AgentEvent.artifactUpdate({ ...this.ids, artifact, append: false, lastChunk: true, metadata: {}, ...more }));
  }
}

const orders = {
  story: (turn) => {
    turn.artifact('story', [text('Once, ')], { lastChunk: false });
    turn.artifact('story', [text('it ')], { append: true, lastChunk: false });
    turn.artifact('story', [text('rained.')], { append: true });
    turn.status('TASK_STATE_COMPLETED');
  },
  files: (turn) => {
    turn.artifact('files', [text('Here.'), file('orders.csv', 'text/csv', 'a,b\n'), data({ n: 1 }), link('page.pdf', 'application/pdf', 'https://files.example/page.pdf')]);
    turn.status('TASK_STATE_COMPLETED');
  },
  ask: (turn) => {
    turn.artifact('search', [text('Two orders. ')]);
    turn.status('TASK_STATE_INPUT_REQUIRED', text('Which order?'));
  },
  login: (turn) => turn.status('TASK_STATE_AUTH_REQUIRED', text('Log in at https://login.example/.')),
  answer: (turn) => turn.status('TASK_STATE_COMPLETED', text('The answer is in the status.')),
  fail: (turn) => turn.status('TASK_STATE_FAILED', text('The disk is full.')),
  reject: (turn) => turn.status('TASK_STATE_REJECTED', text('Not on Sundays.')),
  throw: () => { throw new Error('the agent is broken'); },
};

/** startServer starts the server. The paths in its result are those of the agent cards. */
export async function startServer() {
  const canceled = [];
  const running = new Map();
  let cancels = () => {};
  const agent = {
    async execute(context, bus) {
      const words = context.userMessage.parts.map((p) => (p.content.$case === 'text' ? p.content.value : JSON.stringify(p.content.value))).join('|');
      if (words === 'direct') {
        bus.publish(AgentEvent.message({ contextId: context.contextId, taskId: '', messageId: randomUUID(), role: Role.ROLE_AGENT, parts: [text('Hello.')], metadata: {}, extensions: [], referenceTaskIds: [] }));
        return;
      }
      const turn = new Turn(context, bus);
      if (words === 'wait') {
        turn.artifact('wait', [text('Working.')], { lastChunk: false });
        await new Promise((stop) => { running.set(context.taskId, { turn, stop }); });
      } else if (orders[words]) {
        orders[words](turn);
      } else {
        turn.artifact('echo', [text(`You wrote: ${words}`)]);
        turn.status('TASK_STATE_COMPLETED');
      }
    },
    async cancelTask(taskId) {
      const { turn, stop } = running.get(taskId);
      turn.status('TASK_STATE_CANCELED');
      stop();
      canceled.push(taskId);
      cancels();
    },
  };
  const app = express();
  const server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${server.address().port}`;
  const versions = [];
  app.use((request, _, next) => {
    versions.push(request.get('A2A-Version') ?? 'none');
    next();
  });
  // Servers of one version and binding, and one without streams. The cards of both and only have a form for
  // clients of 0.3; the SDK refuses to write it for only, which has no address of 0.3.
  const bindings = {
    'jsonrpc-1': [['JSONRPC', '1.0']], 'rest-1': [['HTTP+JSON', '1.0']], 'jsonrpc-03': [['JSONRPC', '0.3']], 'rest-03': [['HTTP+JSON', '0.3']],
    whole: [['JSONRPC', '1.0']], both: [['JSONRPC', '1.0'], ['JSONRPC', '0.3']], only: [['JSONRPC', '1.0']],
  };
  for (const [path, interfaces] of Object.entries(bindings)) {
    const url = `${origin}/${path}`;
    const card = {
      name: 'desk', description: 'Answers.', version: '1.0.0', provider: undefined, documentationUrl: '', iconUrl: '',
      supportedInterfaces: interfaces.map(([protocolBinding, protocolVersion]) => ({ url, protocolBinding, protocolVersion, tenant: '' })),
      capabilities: { streaming: path !== 'whole', pushNotifications: false, extensions: [], extendedAgentCard: false },
      securitySchemes: {}, securityRequirements: [], signatures: [], skills: [], defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
    };
    const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), agent);
    const legacyCompat = { enabled: !path.endsWith('-1') };
    app.use(`/${path}/.well-known/agent-card.json`, agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }));
    const handle = interfaces[0][0] === 'JSONRPC' ? jsonRpcHandler : restHandler;
    app.use(`/${path}`, handle({ requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat }));
  }
  return {
    paths: Object.keys(bindings), versions,
    cardURL: (path) => `${origin}/${path}/.well-known/agent-card.json`,
    nextCancel: async () => {
      while (!canceled.length) await new Promise((resolve) => { cancels = resolve; });
      return canceled.shift();
    },
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
