// Runs the public MCP conformance suite on agenthost as a client: the scenarios that a revision
// requires, one after the other, and prints a line for each. The exit code is 1 if a scenario fails
// that expected.json does not list, or one passes that it lists.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance');
const expected = JSON.parse(readFileSync(join(here, 'expected.json'), 'utf8'));

// required returns the scenarios for clients in a revision's requirements.
function required(revision) {
  const text = readFileSync(join(suite, 'requirements', `${revision}.yaml`), 'utf8');
  return text.split(/^client:$/m)[1].split(/^\S/m)[0].match(/^ +- (\S+)/gm).map((line) => line.trim().slice(2));
}

let failed = 0, passed = 0, checks = 0;
for (const revision of ['2026-07-28', '2025-11-25']) {
  for (const scenario of required(revision)) {
    const run = spawnSync(process.execPath, [
      join(suite, 'dist/index.js'), 'client', '--command', `"${process.execPath}" "${join(here, 'client.mjs')}"`,
      '--scenario', scenario, '--spec-version', revision,
    ], { encoding: 'utf8', timeout: 120_000 });
    const out = run.stdout + run.stderr;
    const result = out.match(/^Passed: (\d+)\/\d+, (\d+) failed.*$/m);
    const ok = result !== null && result[2] === '0' && !out.includes('OVERALL: FAILED');
    const reason = expected[`${revision} ${scenario}`];
    console.log(`${revision} ${scenario}: ${ok ? 'passed' : 'FAILED'} ${result?.[0] ?? ''}${reason ? ` (expected to fail: ${reason})` : ''}`);
    if (ok) { passed++; checks += Number(result[1]); }
    if (ok === Boolean(reason)) {
      failed++;
      if (!ok) console.log(out);
    }
  }
}
console.log(`${passed} scenarios passed with ${checks} checks, ${Object.keys(expected).length} expected to fail, ${failed} unexpected`);
process.exitCode = failed > 0 ? 1 : 0;
