// The page at / with much, slow and hostile data: it stays fast and accessible, nothing that
// others wrote runs or hides what it is, and no draft is lost.

import test from 'node:test';
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { join } from 'node:path';
import { apps, serve } from './host.mjs';
import { findings } from './page/axe.mjs';
import { shot, tab, until } from './page/browser.mjs';
import { PDF } from './page/pdf.mjs';
import { actOnSession, idle, sendMessage, start } from './page/see.mjs';

const { see, chrome, host, dir } = await start('apps/hello', 'apps/pipeline', 'apps/team', 'ui-test/page/apps/desk', 'ui-test/page/apps/writer');

async function store(app, id, events, state = {}) {
  const answer = await fetch(`${host.url}/apps/${app}/users/user/sessions`, { method: 'POST', body: JSON.stringify({ sessionId: id, state, events }) });
  assert.equal(answer.status, 200, answer.ok ? '' : await answer.text());
}

const turn = (n, author, parts, more = {}) => ({ author, invocationId: `e-${n}`, id: `${n}-${author}`, content: { role: author === 'user' ? 'user' : 'model', parts }, ...more });

for (const width of [1920, 960, 700, 390]) {
  for (const colorScheme of ['light', 'dark']) {
    see(`axe finds nothing at ${width} pixels, ${colorScheme}`, async (page) => {
      const pane = async (name) => { if (await page.isVisible('#panes')) await page.click(`#panes [data-pane=${name}]`); };
      const check = async (what) => assert.deepEqual(await findings(page), [], what);
      await page.waitForSelector('.node');
      await check('an app');
      await pane('talk');
      await sendMessage(page, 'refund it');
      await page.waitForSelector('.question');
      await idle(page);
      await check('an approval');
      if (await page.isVisible('#menu')) {
        await page.click('#menu');
        await page.waitForSelector('#sessions a');
        await check('the drawer');
        await page.keyboard.press('Escape');
      }
      await actOnSession(page, 'Delete session');
      await check('a dialog');
      await page.keyboard.press('Escape');
      await pane('app');
      await page.click('.node');
      await page.waitForSelector('#agent h2');
      await page.click('#state h2 button');
      await check('an agent, and state that is edited');
      await page.click('#views >> text=Evaluations');
      await page.waitForSelector('#evals .lists');
      await check('evaluations');
    }, { hash: '/#desk', colorScheme, viewport: { width, height: 900 } });
  }
}

// The first paint needs the HTML and the style sheets, and no script and no response of the API: these
// do not arrive here.
see('the first paint waits for the HTML and the style sheets only', async (page) => {
  const needed = [];
  await page.route('**/*', async (route) => {
    const type = route.request().resourceType();
    if (!['document', 'stylesheet'].includes(type)) return; // no response
    const response = await route.fetch();
    needed.push({ url: route.request().url(), bytes: gzipSync(await response.body()).length });
    await route.fulfill({ response });
  });
  await page.reload({ waitUntil: 'commit' });
  await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length);
  const bytes = needed.reduce((sum, one) => sum + one.bytes, 0);
  assert.ok(needed.length <= 4 && bytes < 20_000, `${needed.length} files with ${bytes} compressed bytes: ${needed.map((one) => one.url)}`);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
}, { hash: '/#hello' });

// A machine that runs other programs paints late. Then the page is compared with a file of plain text,
// which is loaded in turn with it.
see('the first paint takes less than 100 ms', async (page) => {
  const paint = async (url) => {
    await page.goto('about:blank');
    await page.goto(url);
    await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length);
    return page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
  };
  const [took, plain] = [[], []];
  for (let i = 0; i < 10 && !took.some((ms) => ms < 100); i++) {
    plain.push(await paint(`${host.url}/ui/text.js`));
    took.push(await paint(`${host.url}/#hello`));
  }
  const limit = Math.max(100, 4 * Math.min(...plain));
  assert.ok(Math.min(...took) < limit, `it took ${took.map(Math.round).join(', ')} ms, a plain file ${plain.map(Math.round).join(', ')} ms`);
}, { hash: '/#hello', forgive: /404/ });

// Scrolling draws turns near the visible part, so its cost does not depend on the length of the
// session.
see('10000 events scroll without a task above 50 ms', async (page) => {
  await store('writer', 'huge', Array.from({ length: 5000 }, (_, n) => [turn(n, 'user', [{ text: `Question ${n}` }]), turn(n, 'writer', [{ text: `Answer **${n}** with a list:\n\n- one\n- two` }])]).flat());
  await page.evaluate(() => { location.hash = '#writer/huge'; });
  await page.waitForSelector('.event:has-text("Answer 4999")');
  // On a machine whose other programs stop the browser, the processor's time counts, compared with the
  // time of a fixed task at this moment: it takes some 12 ms where nothing else runs.
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
  const processorTime = async () => 1000 * (await cdp.send('Performance.getMetrics')).metrics.find((m) => m.name === 'TaskDuration').value;
  await page.evaluate(() => {
    window.tasks = [];
    window.added = 0;
    new MutationObserver((records) => { for (const r of records) for (const node of r.addedNodes) window.added += node.querySelectorAll ? node.querySelectorAll('*').length + 1 : 1; }).observe(document.getElementById('events'), { childList: true, subtree: true });
    window.calibrate = () => {
      let sum = 0;
      for (let i = 0; i < 12_000_000; i++) sum = (sum * 31 + i) | 0;
      return sum;
    };
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => Math.round(e.duration)))).observe({ type: 'longtask' });
  });
  await page.evaluate(() => { for (let n = 0; n < 5; n++) window.calibrate(); }); // compiled from here on
  const [frames, fixed, added] = [[], [], []];
  for (const step of [-400, 400]) {
    for (let n = 0; n < 80; n++) {
      const before = await processorTime();
      await page.evaluate((by) => new Promise((done) => {
        document.getElementById('events').scrollTop += by;
        requestAnimationFrame(() => setTimeout(done));
      }), step);
      frames.push(await processorTime() - before);
      added.push(await page.evaluate(() => [window.added, window.added = 0][0]));
      if (n % 10 === 0) {
        const start = await processorTime();
        await page.evaluate(() => window.calibrate());
        fixed.push(await processorTime() - start);
      }
    }
    assert.ok(await page.locator('.event').count() <= 200, 'the page contains the turns near the visible part');
  }
  const tasks = await page.evaluate(() => window.tasks);
  const limit = 50 * Math.max(1, fixed.toSorted((a, b) => a - b)[fixed.length >> 1] / 12);
  assert.ok(Math.max(...added) < 500, `a frame adds ${Math.max(...added)} nodes`);
  assert.ok(tasks.length === 0 || Math.max(...frames) < limit, `tasks above 50 ms: ${tasks.join(', ')}; the longest frame took ${Math.max(...frames)} ms of processor time, the fixed task ${fixed.map(Math.round).join(', ')}`);
  if (process.env.VERBOSE) console.log({ frames: Math.max(...frames), fixed: [Math.min(...fixed), Math.max(...fixed)], added: Math.max(...added) });
  const isAtStart = await page.evaluate(async () => {
    const events = document.getElementById('events');
    for (let frame = 0; frame < 5000 && !events.textContent.includes('Question 0'); frame++) {
      events.scrollTop = 0;
      await new Promise((done) => requestAnimationFrame(done));
    }
    return events.textContent.includes('Question 0');
  });
  assert.ok(isAtStart, 'the first message is drawn');
  await sendMessage(page, 'json');
  await page.waitForSelector('.event:has-text("total")');
  await idle(page);
  assert.ok(await page.locator('.event:has-text("Answer 4999")').isVisible(), 'a message moves to the end');
}, { hash: '/#writer' });

// The answer to a call is drawn before its call, which is far above.
see('a call far above has its response', async (page) => {
  await store('writer', 'far', [
    turn('call', 'user', [{ text: 'look it up' }]), turn('call', 'writer', [{ functionCall: { id: 'c1', name: 'look_up', args: { key: 'tea' } } }]),
    ...Array.from({ length: 200 }, (_, n) => turn(n, 'user', [{ text: `Message ${n}` }])),
    { ...turn('late', 'writer', [{ functionResponse: { id: 'c1', name: 'look_up', response: { found: 7 } } }]) },
  ]);
  await page.evaluate(() => { location.hash = '#writer/far'; });
  await page.waitForSelector('.event:has-text("Message 199")');
  await page.focus('#events');
  await until(async () => await page.locator('.call').count() || page.keyboard.press('Home'), 'the call is drawn');
  assert.equal(await page.textContent('.call summary'), 'look_up(key: "tea") ← {"found":7}');
}, { hash: '/#writer' });

see('an event of 30 MB is cut', async (page) => {
  const lines = 'a line of a very long answer\n'.repeat(1_040_000);
  await store('writer', 'long', [turn(1, 'user', [{ text: 'all of it' }]), turn(1, 'writer', [{ text: lines }]),
    turn(2, 'user', [{ text: 'and now?' }]), turn(2, 'writer', [{ text: 'Done.' }])]);
  await page.evaluate(() => { location.hash = '#writer/long'; });
  await page.waitForSelector('.event:has-text("Done.")');
  await page.waitForSelector('.dim:has-text("29960000 more characters are not shown.")');
  await sendMessage(page, 'json');
  await idle(page);
}, { hash: '/#writer' });

const EVIL = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>\u202egpj.exe\u0007';

// Titles, keys, names, arguments and errors are what they look like: invisible characters and those
// that reorder a line are visible.
see('markup and control characters of others do not run or hide', async (page) => {
  await store('desk', 'evil', [
    turn(1, 'user', [{ text: EVIL }, { inlineData: { mimeType: 'text/html', displayName: EVIL, data: btoa('<script>window.ran=1</script>') } }, { inlineData: { mimeType: 'image/svg+xml', displayName: 'x.svg', data: btoa('<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran=1"/>') } }]),
    turn(1, 'desk', [{ text: `${EVIL} [link](javascript:window.ran=1) ![image](https://example.com/x.png)` }, { functionCall: { id: 'c', name: 'look', args: { [EVIL.slice(-9)]: EVIL } } }], { actions: { stateDelta: { [`key${EVIL.slice(-9)}`]: EVIL } } }),
    turn(2, 'user', [{ text: 'again' }]), { ...turn(2, 'desk', []), errorCode: 'X<b>', errorMessage: EVIL },
  ], { __session_metadata__: { displayName: EVIL } });
  await page.evaluate(() => { location.hash = '#desk/evil'; });
  await page.waitForSelector('.parts > .bad');
  assert.equal(await page.locator('#events img, #events script, #events svg:not(.icon), #sessions img').count(), 0);
  assert.equal(await page.locator('#events a[href^=javascript]').count(), 0);
  for (const place of ['#sessions a span', '#state th', '.parts > .bad', '.call summary', '.file .dim']) {
    const text = await page.locator(place, { hasText: '⟨U+202E⟩gpj.exe⟨U+0007⟩' }).first().textContent();
    assert.doesNotMatch(text, /[\u202e\u0007]/, place);
  }
  assert.match(await page.inputValue('#session .title'), /⟨U\+202E⟩gpj\.exe/);
  assert.match(await page.textContent('.file pre'), /<script>window\.ran=1<\/script>/, 'HTML is text');
  await page.click('.call summary');
  await page.click('#state h2 button');
  await shot(page, 'page evil');
  assert.equal(await page.evaluate(() => window.ran), undefined);
}, { hash: '/#desk' });

see('an approval shows the whole arguments, and markup in them is text', async (page) => {
  await sendMessage(page, 'refund it');
  await page.waitForSelector('.question .args');
  assert.equal(await page.textContent('.question .args'), 'amount500');
  await idle(page);
}, { hash: '/#desk' });

const data = (text) => Buffer.from(text).toString('base64');

see('files are shown by their kind', async (page) => {
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
  await store('writer', 'files', [turn(1, 'user', [{ text: 'files' },
    { inlineData: { mimeType: 'image/png', displayName: 'dot.png', data: png } },
    { inlineData: { mimeType: 'text/markdown', displayName: 'a.md', data: data('# Title\n\n**bold** <script>window.ran=1</script>') } },
    { inlineData: { mimeType: 'text/csv', displayName: 'a.csv', data: data('name,paid\n"Ana, ""A""",12.50\n<b>x</b>,3') } },
    { inlineData: { mimeType: 'application/pdf', displayName: 'a.pdf', data: data('%PDF-1.4') } },
    { inlineData: { mimeType: 'application/pdf', displayName: 'shown.pdf', data: data(PDF) } },
    { inlineData: { mimeType: 'application/pdf', displayName: 'page.pdf', data: data('<script>window.ran=1</script>') } },
    { inlineData: { mimeType: 'video/webm', displayName: 'a.webm', data: data('no video') } },
  ]), turn(1, 'writer', [{ text: 'Thanks.' }])]);
  await page.evaluate(() => { location.hash = '#writer/files'; });
  await page.waitForSelector('#events img[alt="dot.png"]');
  assert.equal(await page.textContent('.file .md [data-level="1"]'), 'Title');
  assert.deepEqual(await page.locator('.file td').allTextContents(), ['Ana, "A"', '12.50', '<b>x</b>', '3']);
  await page.waitForSelector('.dim:has-text("a.webm (video/webm): the browser cannot play it")');
  await page.click('.file summary:has-text("shown.pdf")');
  const shown = page.locator('iframe.pdf[title="shown.pdf"]');
  await shown.scrollIntoViewIfNeeded();
  assert.match(await shown.getAttribute('src'), /^blob:/);
  assert.equal(await page.locator('.file summary').count(), 2, 'a page is not shown as a PDF file');
  const [saved] = await Promise.all([page.waitForEvent('download'), page.locator('.file', { hasText: 'a.pdf' }).getByRole('button', { name: 'Download' }).click()]);
  assert.equal(saved.suggestedFilename(), 'a.pdf');
  assert.equal(readFileSync(await saved.path(), 'utf8'), '%PDF-1.4');
  await shot(page, 'page files');
}, { hash: '/#writer', forgive: /^requested (blob|chrome-extension|chrome):/ }); // from memory, by the viewer

see('the active agent is marked after a transfer', async (page) => {
  await page.waitForSelector('.node[data-agent=front_desk]');
  await sendMessage(page, 'I want a refund');
  await idle(page);
  const active = await page.locator('.node[data-active]').getAttribute('data-agent');
  assert.equal(active, await page.locator('.event:not(.mine)').last().getAttribute('data-author'));
  assert.match(await page.getAttribute('.node[data-active]', 'aria-label'), / active /);
  await page.reload();
  await page.waitForSelector(`.node[data-active][data-agent=${active}]`);
  await page.keyboard.press('Alt+n');
  await page.waitForSelector('.node[data-active]', { state: 'detached' });
}, { hash: '/#team' });

see('a tree of 300 agents', async (page) => {
  mkdirSync(join(dir, 'crowd'));
  const agents = Array.from({ length: 299 }, (_, n) => `- {name: agent_${n}, instruction: Answer.}`).join('\n');
  writeFileSync(join(dir, 'crowd', 'root_agent.yaml'), `name: crowd\nmodel: gemini-flash-latest\ninstruction: Transfer.\nsub_agents:\n${agents}\n`);
  await page.click('#apps button[data-app=crowd]');
  await page.waitForSelector('.node[data-agent=agent_298]', { state: 'attached' });
  const tree = await page.locator('.tree').boundingBox();
  assert.ok(tree.height < 700, `the tree is ${tree.height} pixels high`);
  await shot(page, 'page crowd');
  rmSync(join(dir, 'crowd'), { recursive: true });
  await page.waitForSelector('#head h1:text("App crowd is gone")');
}, { hash: '/#hello' });

// The token is rejected in the middle of work: the message becomes the draft, and signing in keeps it.
test('a token that expires keeps the draft', async () => {
  const some = apps('apps/hello');
  const auth = join(some.dir, '..', `${some.dir.split('/').pop()}-auth.yaml`);
  writeFileSync(auth, 'tokens:\n- {token: an-administrators-token, claims: {sub: ops, admin: true}}\nadmin: claims.admin ?? false\n');
  const guarded = await serve(some.dir, '--auth', auth);
  const { page, close } = await tab(chrome, guarded.url);
  try {
    await page.fill('#head input', 'an-administrators-token');
    await page.press('#head input', 'Enter');
    await page.waitForSelector('#head h1:text("hello")');
    await page.evaluate(() => sessionStorage.setItem('agenthost.token', 'an-expired-token'));
    await sendMessage(page, 'do not lose this');
    await page.waitForSelector('#head h1:text("Sign in")');
    assert.equal(await page.inputValue('#message'), 'do not lose this');
    await page.fill('#head input', 'an-administrators-token');
    await page.press('#head input', 'Enter');
    await page.waitForSelector('#head h1:text("hello")');
    assert.equal(await page.inputValue('#message'), 'do not lose this');
  } finally {
    await close();
    await guarded.stop();
    some.remove();
    rmSync(auth);
  }
});

// A slow network: the page shows that it waits, and a message is sent once.
see('a slow network', async (page) => {
  let runs = 0;
  await page.route('**/run_sse*', async (route) => {
    runs++;
    await new Promise((done) => setTimeout(done, 1500));
    await route.continue();
  });
  await sendMessage(page, 'slowly');
  await page.waitForSelector('.event.mine:has-text("slowly")');
  await page.waitForSelector('#send:text("Stop")');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.text:has-text("You wrote: slowly")');
  await idle(page);
  assert.equal(runs, 1);
}, { hash: '/#desk' });
