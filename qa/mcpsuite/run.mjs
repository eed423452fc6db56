// Runs the public MCP conformance suite on agenthost, as a client and as a server: the scenarios that a
// revision requires, and on the server also those that it does not count. It prints a line for each. The
// exit code is 1 if a scenario fails that expected.json does not list, or one passes that it lists.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance');
const program = join(suite, 'dist/index.js');
const expected = JSON.parse(readFileSync(join(here, 'expected.json'), 'utf8'));
const revisions = ['2026-07-28', '2025-11-25'];
// Scenarios for an extension, which belong to no revision.
const extensions = ['sep-2640-skills-directory', 'sep-2640-skills-enumeration', 'sep-2640-skills-manifest'];

// required returns the scenarios for a side, client or server, in a revision's requirements.
function required(revision, side) {
  const text = readFileSync(join(suite, 'requirements', `${revision}.yaml`), 'utf8');
  return text.split(new RegExp(`^${side}:$`, 'm'))[1].split(/^\S/m)[0].match(/^ +- (\S+)/gm).map((line) => line.trim().slice(2));
}

let unexpected = 0;
const listed = new Set(Object.keys(expected));

// report prints a scenario's result. Details are printed for an unexpected failure.
function report(name, ok, counts, details) {
  const reason = expected[name];
  listed.delete(name);
  console.log(`${name}: ${ok ? 'passed' : 'FAILED'} ${counts}${reason ? ` (expected to fail: ${reason})` : ''}`);
  if (ok !== Boolean(reason)) return;
  unexpected++;
  if (!ok) console.log(details);
}

// testClient runs a revision's scenarios for clients.
function testClient(revision) {
  let passed = 0, checks = 0;
  const scenarios = required(revision, 'client');
  for (const scenario of scenarios) {
    const run = spawnSync(process.execPath, [
      program, 'client', '--command', `"${process.execPath}" "${join(here, 'client.mjs')}"`,
      '--scenario', scenario, '--spec-version', revision,
    ], { encoding: 'utf8', timeout: 120_000 });
    const out = run.stdout + run.stderr;
    const result = out.match(/^Passed: (\d+)\/\d+, (\d+) failed.*$/m);
    const ok = result !== null && result[2] === '0' && !out.includes('OVERALL: FAILED');
    if (ok) { passed++; checks += Number(result[1]); }
    report(`client ${revision} ${scenario}`, ok, result?.[0] ?? '', out);
  }
  return `client ${revision}: ${passed} of ${scenarios.length} required scenarios passed, with ${checks} checks`;
}

// startServer starts the program that serves the suite's app, and returns it with its URL.
async function startServer() {
  const server = spawn(process.env.MCPSUITE, [join(here, 'apps/everything')], { stdio: ['pipe', 'pipe', 'inherit'] });
  const url = await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error('the server did not print its URL within 30 seconds')), 30_000);
    const finish = (settle) => (value) => { clearTimeout(late); settle(value); };
    let text = '';
    server.stdout.on('data', (chunk) => {
      text += chunk;
      if (text.includes('\n')) finish(resolve)(text.trim());
    });
    server.on('error', finish(reject));
    server.on('exit', (code) => finish(reject)(new Error(`the server ended with exit code ${code}`)));
  });
  return { server, url };
}

// stopServer ends the server with its standard input.
async function stopServer(server) {
  if (server.exitCode !== null) return;
  const late = setTimeout(() => server.kill('SIGKILL'), 10_000);
  const ended = new Promise((resolve) => server.on('exit', resolve));
  server.stdin.end();
  await ended;
  clearTimeout(late);
}

// readChecks returns the checks of each scenario that the suite has written to a folder.
function readChecks(folder) {
  const results = new Map();
  for (const entry of readdirSync(folder)) {
    const scenario = entry.match(/^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/)?.[1];
    const file = join(folder, entry, 'checks.json'); // missing after a scenario that did not end
    if (scenario) results.set(scenario, existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : []);
  }
  return results;
}

// testServer runs a revision's scenarios for servers. A scenario without a successful check fails:
// the suite has skipped it.
async function testServer(revision) {
  const needed = required(revision, 'server');
  const folder = mkdtempSync(join(tmpdir(), 'mcpsuite-'));
  const { server, url } = await startServer();
  let passed = 0, checks = 0, all = 0;
  try {
    const start = (...args) => spawnSync(process.execPath, [program, 'server', '--url', url, '--output-dir', folder, ...args], { encoding: 'utf8', timeout: 240_000 });
    const run = start('--requirements', revision);
    for (const scenario of extensions) start('--scenario', scenario, '--force', '--spec-version', revision);
    const results = readChecks(folder);
    for (const scenario of new Set([...needed, ...extensions, ...results.keys()])) {
      const found = results.get(scenario) ?? [];
      const count = (status) => found.filter((check) => check.status === status).length;
      const [good, bad, warnings] = ['SUCCESS', 'FAILURE', 'WARNING'].map(count);
      const ok = good > 0 && bad === 0 && warnings === 0;
      if (ok && needed.includes(scenario)) passed++;
      const name = `server ${revision} ${scenario}`;
      if (!expected[name]) { checks += good; all += good + bad + warnings; }
      report(name, ok, `Passed: ${good}/${good + bad}, ${bad} failed, ${warnings} warnings`,
        found.length === 0 ? run.stdout + run.stderr
          : found.filter((check) => check.status !== 'SUCCESS').map((check) => `  ${check.status} ${check.id}: ${check.errorMessage ?? ''}`).join('\n'));
    }
  } finally {
    await stopServer(server);
    rmSync(folder, { recursive: true, force: true });
  }
  return `server ${revision}: ${passed} of ${needed.length} required scenarios passed, with ${checks} of ${all} checks that are not expected to fail`;
}

const summary = [];
for (const revision of revisions) summary.push(await testServer(revision));
for (const revision of revisions) summary.push(testClient(revision));
for (const name of listed) {
  unexpected++;
  console.log(`${name}: not a scenario of the suite, but in expected.json`);
}
summary.forEach((line) => console.log(line));
console.log(`${Object.keys(expected).length} scenarios expected to fail, ${unexpected} unexpected`);
process.exitCode = unexpected > 0 ? 1 : 0;
