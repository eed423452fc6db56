// The snippets that the view Clients shows are run as they are, on a host without and with authentication.

import test from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findings } from './page/axe.mjs';
import { shot } from './page/browser.mjs';
import { start } from './page/see.mjs';
import { apps, serve } from './host.mjs';

const TOKEN = 'a-token-for-tests-of-snippets-0001';
const run = promisify(execFile);
const options = { env: { ...process.env, AGENTHOST_TOKEN: TOKEN }, timeout: 30_000 };
const work = mkdtempSync(join(import.meta.dirname, 'snippets-')); // next to node_modules
test.after(() => rmSync(work, { recursive: true, force: true }));

// The output of a snippet, by its language.
const ways = {
  js: async (text) => {
    const file = join(work, `${crypto.randomUUID()}.mjs`);
    writeFileSync(file, text);
    return (await run(process.execPath, [file], options)).stdout;
  },
  sh: async (text) => (await run('sh', ['-c', text], options)).stdout,
};

/** open sends an MCP client's first message to the server in an entry. */
async function open(text) {
  const [{ url, headers = {} }] = Object.values(JSON.parse(text.replace('${AGENTHOST_TOKEN}', TOKEN)).mcpServers);
  const response = await fetch(url, {
    method: 'POST', headers: { ...headers, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } } }),
  });
  return response.text();
}

for (const isOpen of [true, false]) {
  test(`snippets for clients, ${isOpen ? 'without' : 'with'} authentication`, async () => {
    const folders = apps('ui-test/page/apps/helpdesk');
    const auth = join(work, 'auth.yaml');
    writeFileSync(auth, `tokens:\n- {token: ${TOKEN}, claims: {sub: user, admin: true}}\nadmin: claims.admin ?? false\n`);
    const host = await serve(folders.dir, ...(isOpen ? [] : ['--auth', auth]));
    try {
      const headers = isOpen ? {} : { Authorization: `Bearer ${TOKEN}` };
      const { protocols } = await (await fetch(`${host.url}/apps/helpdesk/protocols`, { headers })).json();
      assert.deepEqual(protocols.map((p) => p.name), ['REST (ADK)', 'Chat page', 'MCP', 'OpenAI', 'A2A', 'AG-UI', 'ACP']);
      let count = 0;
      for (const { name, snippets } of protocols) {
        for (const { client, language, text } of snippets) {
          if (text.includes('APPDIR') || !ways[language]) continue; // acp-clients and the Go tests run the others
          assert.match(await ways[language](text), /You wrote: hello/, `${name}: ${client}`);
          count++;
        }
      }
      assert.equal(count, 5);
      assert.match(await open(protocols.find((p) => p.name === 'MCP').snippets[0].text), /"serverInfo"/);
    } finally {
      await host.stop();
      folders.remove();
    }
  });
}

const { see } = await start('ui-test/page/apps/desk');

// One click leads from the app to the addresses and the snippets; an app that does not offer a protocol names the key.
see('clients of an app', async (page) => {
  await page.click('#views >> text=Clients');
  await page.waitForSelector('#view section[aria-label="OpenAI"] >> text=npm openai');
  assert.match(page.url(), /#desk.*\/clients$/);
  assert.equal(await page.locator('#view section[data-offered=yes]').count(), 7);
  assert.deepEqual(await findings(page), []);
  await shot(page, 'page clients');
  await page.setViewportSize({ width: 390, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
  await shot(page, 'page clients 390');
  const evil = '<img src=x onerror="window.ran=1">‮';
  await page.route('**/protocols', (route) => route.fulfill({ json: { protocols: [
    { name: evil, offered: true, address: `javascript:${evil}`, snippets: [{ client: evil, language: 'sh', text: evil }] },
    { name: 'A2A', section: 'a2a_server', offered: false, address: '', snippets: [] },
  ] } }));
  await page.reload();
  await page.waitForSelector('#view >> text=Add a2a_server: {} to app.yaml to offer it.');
  assert.equal(await page.locator('#view img').count(), 0);
  assert.equal(await page.locator('#view a').count(), 0);
  assert.equal(await page.evaluate(() => window.ran), undefined);
}, { hash: '/#desk' });
