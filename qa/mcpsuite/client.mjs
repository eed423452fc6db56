// The client command of the public MCP conformance suite: it writes an app whose scripted model
// calls the scenario's tools, runs it with `agenthost run`, answers the server's questions, and
// opens the authorization pages as a user's browser does. AGENTHOST is the program.
import { spawn } from 'node:child_process';
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}');
const authorizes = scenario.startsWith('auth/');

// calls returns the tools that the scenario's model calls.
function calls() {
  if (context.toolCalls) return context.toolCalls;
  if (authorizes) return [{ name: 'test-tool', arguments: {} }];
  return {
    tools_call: [{ name: 'add_numbers', arguments: { a: 2, b: 3 } }],
    'http-invalid-tool-headers': [{ name: 'valid_tool', arguments: { region: 'eu' } }],
    'elicitation-sep1034-client-defaults': [{ name: 'test_client_elicitation_defaults', arguments: {} }],
    'sse-retry': [{ name: 'test_reconnection', arguments: {} }],
    'sep-2322-client-request-state': ['echo_state', 'no_state', 'unrelated', 'no_result_type'].map((name) => ({ name: `test_mrtr_${name}`, arguments: {} })),
  }[scenario] ?? [];
}

// connection returns the scenario's own connection, or null where the server's metadata is enough.
function connection() {
  const settings = { grant: 'authorization_code', resource: url };
  if (scenario === 'auth/basic-cimd') return { ...settings, client_id: 'https://conformance-test.local/client-metadata.json' };
  if (!context.client_id) return null;
  return { ...settings, client_id: context.client_id, ...(context.client_secret && { client_secret: context.client_secret }) };
}

// write writes the app and the policy. JSON is YAML too.
function write(dir) {
  const own = connection();
  const mcp = { url, elicitation: true, ...(authorizes && { auth: own ? 'server' : 'oauth' }) };
  const authorize = own ? 'authorize_server' : `authorize_oauth_${url.replace(/^\w+:\/\//, '').replace(/\/$/, '').toLowerCase().replace(/[^a-z0-9]/g, '_')}`;
  // One call in each step: the next question comes after the answer to the last.
  const called = calls();
  const script = called.map((call, i) => ({
    ...(i > 0 && { when: `responses["${called[i - 1].name}"] != nil` }), calls: [{ name: call.name, args: call.arguments }],
  })).reverse();
  if (called.length > 0) script.unshift({ when: `responses["${called.at(-1).name}"] != nil`, text: 'done' });
  if (authorizes) script.splice(1, 0, { when: `responses["${authorize}"] == nil`, calls: [{ name: authorize, args: {} }] });
  if (script.length === 0) script.push({ text: 'hello' });
  mkdirSync(join(dir, 'app'));
  for (const [name, value] of Object.entries({
    'app/root_agent.yaml': { name: 'desk', model: 'demo', instruction: 'Use the tools.', tools: [{ mcp }] },
    'app/app.yaml': { models: { demo: { provider: 'scripted', script: 'demo.script.yaml' } }, ...(own && { connections: { server: { oauth2: own } } }) },
    'app/demo.script.yaml': script,
    'policy.yaml': { grants: [{ network: ['localhost', '127.0.0.1', '::1'], register_clients: true }] },
  })) writeFileSync(join(dir, name), JSON.stringify(value));
}

// respond reacts to the program's output: it opens an address that needs the user, and answers a
// question of the server.
function respond(line, input) {
  const address = line.match(/^\s+(https?:\/\/\S+)$/);
  if (address) fetch(address[1]).catch((err) => console.error(`${address[1]}: ${err}`));
  const form = line.match(/^approve .*\[y\/n, or the answer as JSON, such as (\{.*\})\] $/);
  if (!form) return;
  const fields = JSON.parse(form[1]);
  for (const name of Object.keys(fields)) fields[name] ??= true;
  input.write(`${JSON.stringify(fields)}\n`);
}

const dir = mkdtempSync(join(tmpdir(), 'mcpsuite-'));
try {
  write(dir);
  const run = spawn(process.env.AGENTHOST, ['run', join(dir, 'app'), '--policy', join(dir, 'policy.yaml'), '--session-db', 'memory:', '--authorize']);
  run.stdin.write('go\n');
  if (authorizes) run.stdin.end();
  // A scenario whose server keeps failing must not wait for more input.
  const end = setTimeout(() => run.kill(), 25_000);
  let rest = '';
  const read = (chunk) => {
    process.stdout.write(chunk);
    rest += chunk;
    const lines = rest.split('\n');
    rest = lines.pop();
    lines.forEach((line) => respond(line, run.stdin));
    if (rest.endsWith('] ')) { respond(rest, run.stdin); rest = ''; }
    if (lines.some((line) => line === 'done' || line === 'hello')) run.stdin.end();
  };
  run.stdout.on('data', read);
  run.stderr.on('data', read);
  process.exitCode = await new Promise((resolve) => run.on('close', resolve));
  clearTimeout(end);
} finally {
  rmSync(dir, { recursive: true, force: true });
}
