// The Evaluations view of the page: eval sets, runs with their progress, results, their
// cases, comparisons, and cases made of conversations.

import test from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apps, serve } from './host.mjs';
import { shot, tab } from './page/browser.mjs';
import { actOnSession, idle, sendMessage, start } from './page/see.mjs';

const { see, chrome, file, save } = await start('ui-test/page/apps/shop', 'apps/hello');

/** evaluate runs sets of the app shop with agenthost eval. */
function evaluate(...args) {
  try {
    execFileSync(join(import.meta.dirname, '..', 'bin', 'agenthost'), ['eval', file('shop'), ...args], { stdio: 'pipe' });
  } catch (error) {
    assert.equal(error.status, 1, String(error.stderr)); // a case failed
  }
}

evaluate('orders');
evaluate('orders', '--metrics', 'response_match=0.4,tool_trajectory=0.2');

/** storeResult writes a result of the app hello. */
function storeResult(time, cases) {
  const name = `hello_bad_${time}.5`;
  mkdirSync(file('hello', '.adk', 'eval_history'), { recursive: true });
  save(JSON.stringify({ eval_set_result_id: name, eval_set_result_name: name, eval_set_id: 'bad', creation_timestamp: time + 0.5, eval_case_results: cases }), 'hello', '.adk', 'eval_history', `${name}.evalset_result.json`);
}

const row = (page, name) => page.locator(`.cells tbody tr:has(th:has-text("${name}"))`);
const openResult = (page, at) => page.click(`.results li:nth-last-child(${at}) .entry`);

see('the sets with their cases, and a result by metrics', async (page) => {
  await page.waitForSelector('.lists .entry:has-text("orders.eval.yaml"):has-text("3 cases")');
  await page.waitForSelector('.lists .entry:has-text("slow.eval.yaml"):has-text("9 cases")');
  assert.deepEqual(await page.locator('.caselist tbody th').allTextContents(), ['status', 'asks_back', 'wrong_order']);
  assert.match(await page.textContent('.caselist'), /wrong_order2 turnsWhere is order 8\?/);
  await shot(page, 'page evals set');
  await openResult(page, 1);
  await page.waitForSelector('.share:has-text("1 of 3 cases passed (33 %) · 2 failed")');
  assert.match(await row(page, 'asks_back').textContent(), /response_match|0\.167 < 0\.8/);
  assert.match(await page.textContent('.cells tfoot'), /mean · passed0\.547 · 33 %/);
  await shot(page, 'page evals result');
  await page.evaluate(() => { location.hash = '#shop//evals/set/slow.eval.yaml'; });
  await page.waitForSelector('.caselist th:has-text("slow_9")');
}, { hash: '/#shop//evals' });

see('a case: the turns side by side, the calls, the reasons of the judge and the conversation', async (page) => {
  await openResult(page, 1);
  await row(page, 'wrong_order').locator('button').first().click();
  await page.waitForSelector('.casehead:has-text("wrong_order failed")');
  const first = page.locator('.pairs').first();
  assert.equal(await first.locator('.side').nth(0).locator('del').textContent(), '8');
  assert.equal(await first.locator('.side').nth(1).locator('ins').textContent(), '9');
  assert.match(await first.textContent(), /find_order\(id: "8"\) other arguments.*find_order\(id: "88"\) other arguments.*find_order\(id: "9"\) was not expected/);
  await first.locator('.call[data-call=extra] summary').click();
  await first.locator('.call[data-call=extra] .json:has-text("shipped")').waitFor();
  assert.match(await page.textContent('.metrics'), /rubric_based_quality10\.5judged by critic/);
  assert.match(await first.textContent(), /The answer is friendly\./);
  await shot(page, 'page evals case');
  await page.reload(); // the URL has the case
  await page.waitForSelector('.casehead:has-text("wrong_order failed")');
  await page.click('.talked summary');
  await page.waitForSelector('.transcript .text:has-text("Order 9 is shipped.")');
  await page.click('.crumbs >> text=Previous');
  await page.waitForSelector('.casehead:has-text("asks_back")');
  assert.match(await page.textContent('.pairs'), /It asks without a greeting\./);
  await page.click('.crumbs >> text=Back');
  await page.waitForSelector('.cells');
}, { hash: '/#shop//evals' });

see('two results case by case', async (page) => {
  for (const at of [1, 2]) await page.check(`.results li:nth-last-child(${at}) input`);
  await page.click('.lists >> text=Compare 2');
  await page.waitForSelector('.share:has-text("1 ▲ better · 2 = equal")');
  assert.equal(await row(page, 'wrong_order').locator('.change').getAttribute('data-change'), 'better');
  await page.check('text=only cases that differ');
  assert.equal(await page.locator('.cells tbody tr').count(), 1);
  await shot(page, 'page evals comparison');
  await row(page, 'wrong_order').locator('button').last().click();
  await page.waitForSelector('.casehead:has-text("wrong_order passed")');
}, { hash: '/#shop//evals' });

see('the table is used with the keyboard', async (page) => {
  await openResult(page, 1);
  await page.waitForSelector('.cells tbody');
  await page.focus('.cells tbody button[tabindex="0"]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'asks_back, response_match: failed 0.16666666666666666');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.casehead:has-text("asks_back")');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'detail');
}, { hash: '/#shop//evals' });

see('a conversation becomes a case of a new set, then of that set', async (page) => {
  await page.click('#views >> text=Agents and chat');
  await sendMessage(page, 'Where is order 7?');
  await page.waitForSelector('.text:has-text("Order 7 is shipped.")');
  await idle(page);
  await actOnSession(page, 'Save as case');
  await page.waitForSelector('dialog.save');
  assert.equal(await page.inputValue('dialog.save [aria-label="Name of the case"]'), 'where_is_order_7');
  await shot(page, 'page evals save');
  await page.click('dialog.save >> text=Save case');
  await page.waitForSelector('.lists .entry[aria-current]:has-text("conversations.evalset.json"):has-text("1 case")');
  assert.deepEqual(await page.locator('.caselist tbody th').allTextContents(), ['where_is_order_7']);
  await page.click('#views >> text=Agents and chat');
  await actOnSession(page, 'Save as case');
  await page.click('dialog.save >> text=Save case');
  await page.waitForSelector('dialog.save .bad:has-text("already exists")');
  await page.fill('dialog.save [aria-label="Name of the case"]', 'again');
  await page.press('dialog.save [aria-label="Name of the case"]', 'Enter');
  await page.waitForSelector('.caselist th:has-text("again")');
  assert.match(readFileSync(file('shop', 'conversations.evalset.json'), 'utf8'), /"eval_id": "again"/);
}, { hash: '/#shop//evals', forgive: /status of 400/ });

see('a run case by case, its result, and a canceled run', async (page) => {
  await page.click('.lists .entry:has-text("orders.eval.yaml")');
  await page.waitForSelector('.thresholds li[data-metric^=rubric_based]');
  assert.deepEqual(await page.locator('.thresholds .name').allTextContents(), ['response_match', 'tool_trajectory', 'rubric_based_quality']);
  await page.fill('.thresholds li[data-metric=response_match_score] input', '2');
  await page.click('text=Run all 3 cases');
  await page.waitForSelector('.set .bad:has-text("The threshold of response_match must be a number from 0 to 1.")');
  await page.fill('.thresholds li[data-metric=response_match_score] input', '0.1');
  await page.click('[aria-label="Remove tool_trajectory"]');
  await page.selectOption('[aria-label="Add a metric"]', 'tool_parameter_match');
  await page.uncheck('[aria-label="Case wrong_order"]');
  const [request] = await Promise.all([page.waitForRequest((r) => r.method() === 'POST' && r.url().includes('/-/evals/')), page.click('text=Run 2 cases')]);
  assert.deepEqual(request.postDataJSON(), {
    evalCaseIds: ['status', 'asks_back'],
    evalMetrics: [{ metricName: 'response_match_score', threshold: 0.1, criterion: { threshold: 0.1 } }, { metricName: 'rubric_based_final_response_quality_v1' }, { metricName: 'tool_parameter_match', threshold: 0.8 }],
  });
  await page.waitForSelector('.detail h2:has-text("orders")');
  await page.waitForSelector('.share:has-text("1 of 2 cases passed")');
  await page.waitForSelector('.cells thead th:has-text("tool_parameter_match")');
  assert.deepEqual((await page.locator('.cells thead th').allTextContents()).slice(0, 4), ['case', 'response_match', 'rubric_based_quality', 'tool_parameter_match']);
  const results = await page.locator('.results li').count();
  await page.click('.lists .entry:has-text("slow.eval.yaml")');
  await page.click('text=Run all 9 cases');
  await page.waitForSelector('.progress [role=status]:text-matches("^[4-8] of 9 cases")');
  assert.ok(await page.locator('.progress .cells tbody tr').count() >= 4);
  await shot(page, 'page evals progress');
  await page.click('.progress >> text=Cancel');
  await page.waitForSelector('.progress:has-text("Canceled: nothing was stored.")');
  await page.click('.lists .entry:has-text("orders.eval.yaml")');
  await page.waitForSelector('.caselist th:has-text("asks_back")');
  assert.equal(await page.locator('.results li').count(), results);
  assert.match(await page.textContent('#announcement'), /1 of 2 cases passed/);
}, { hash: '/#shop//evals' });

see('a run that the server rejects, and a second run', async (page) => {
  save('metrics: {safety: {threshold: 1, judge_model_options: {judge_model: nosuch/model}}}\ncases:\n  - {name: a, user: Hello, expect: {text: Hello}}\n', 'shop', 'rejected.eval.yaml');
  await page.reload();
  await page.click('.lists .entry:has-text("rejected.eval.yaml")');
  await page.click('text=Run the case');
  await page.waitForSelector('.progress .bad:has-text("unknown provider")');
  await shot(page, 'page evals rejected');
  await page.click('.progress >> text=Close');
  await page.waitForSelector('.progress', { state: 'detached' });
  await page.click('.lists .entry:has-text("slow.eval.yaml")');
  await page.click('text=Run all 9 cases');
  await page.click('.lists .entry:has-text("orders.eval.yaml")');
  await page.click('text=Run all 3 cases');
  await page.waitForSelector('.set .bad:has-text("A run of slow.eval.yaml is in progress")');
  await page.click('.lists .entry:has-text("slow.eval.yaml"):has-text("running")');
  await page.click('.progress >> text=Cancel');
  await page.waitForSelector('.progress:has-text("Canceled")');
}, { hash: '/#shop//evals', forgive: /status of 400/ });

for (const [width, colorScheme] of [[1280, 'dark'], [960, 'light'], [700, 'dark'], [390, 'light'], [320, 'dark']]) {
  see(`sets, results and cases fit ${width} pixels, ${colorScheme}`, async (page) => {
    const fits = async (name) => {
      assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('#evals *:not(.scroll *)')].filter((e) => e.getBoundingClientRect().right > innerWidth && e.checkVisibility()).map((e) => e.outerHTML.slice(0, 80))), []);
      await shot(page, `page evals ${width} ${name}`);
    };
    await page.click('.lists .entry:has-text("orders.eval.yaml")');
    await page.waitForSelector('.thresholds li[data-metric^=rubric_based]');
    await fits('set');
    await openResult(page, 1);
    await page.waitForSelector('.cells');
    await fits('result');
    await row(page, 'wrong_order').locator('button').first().click();
    await page.waitForSelector('.pairs');
    await fits('case');
  }, { hash: '/#shop//evals', colorScheme, viewport: { width, height: 900 } });
}

const evil = '<img src=x onerror=alert(1)><script>document.title="broken"</script>';

see('hostile results are harmless', async (page) => {
  const turn = (text) => ({
    actual_invocation: { user_content: { parts: [{ text: evil }] }, final_response: { parts: [{ text }, { inline_data: { mime_type: 'image/svg+xml', data: 'PHN2Zz4=' } }] }, intermediate_data: { tool_uses: [{ name: evil, args: { [evil]: [evil] } }, {}] } },
    expected_invocation: { user_content: { parts: [] }, intermediate_data: { invocation_events: [{ author: evil }, { author: 'a', content: { parts: [{ function_call: { name: '__proto__', args: { __proto__: 1 } } }] } }] } },
    eval_metric_results: [{ metric_name: 'constructor', threshold: null, criterion: null, score: 1e300, eval_status: 2, details: { rubric_scores: [{ rubric_id: evil, rationale: evil, score: null }] } }],
  });
  const session = { id: evil, app_name: evil, state: {}, events: [{ id: 'e', author: evil, invocation_id: 'i', content: { role: 'model', parts: [{ text: `${evil} [x](javascript:alert(1)) ![x](http://evil.example/x.png)` }, { function_call: { id: 'c', name: 'adk_request_confirmation', args: {} } }] } }, { author: 'user' }] };
  storeResult(1785312001, [
    { eval_set_id: evil, eval_id: evil, final_eval_status: 2, overall_eval_metric_results: [{ metric_name: '__proto__', threshold: 0.5, criterion: null, score: null, eval_status: 3, details: null }, { metric_name: evil, threshold: -1e300, criterion: null, score: 5, eval_status: 2, details: null }], eval_metric_result_per_invocation: [turn('x'.repeat(3_000_000)), turn(evil)], session_id: evil, session_details: session, notes: [{ reason: evil }, { metric_name: evil, turn: 99, reason: evil, judge: evil, answer: evil }, { turn: 0, reason: evil.repeat(1000) }] },
    { final_eval_status: 3 },
    { eval_id: '', final_eval_status: 1, eval_metric_result_per_invocation: [{ actual_invocation: null, expected_invocation: null, eval_metric_results: [] }], session_details: { events: 'none' } },
  ]);
  storeResult(1785312002, []);
  save('{', 'hello', '.adk', 'eval_history', 'odd.evalset_result.json');
  save('{"eval_set_id": "wrong", "eval_cases": [{"eval_id": "a", "conversatoin": []}]}', 'hello', '<b>.evalset.json');
  await page.reload();
  await page.click('.lists .entry:has-text("<b>.evalset.json"):has-text("has errors")');
  await page.waitForSelector('.problem:has-text("unknown key (did you mean")');
  await page.click('.results .entry:has-text("odd")');
  await page.waitForSelector('.problem:has-text("invalid JSON")');
  await page.click('.results .entry[title="hello_bad_1785312002.5"]');
  await page.waitForSelector('.share:has-text("0 of 0 cases passed")');
  await page.click('.results .entry[title="hello_bad_1785312001.5"]');
  await page.waitForSelector('.share:has-text("1 of 3 cases passed (33 %) · 1 failed · 1 not evaluated")');
  await shot(page, 'page evals hostile');
  for (const index of [0, 1, 2]) {
    await page.click(`.cells tbody tr:nth-child(${index + 1}) button`);
    await page.waitForSelector('.casehead');
    if (index === 0) {
      await page.waitForSelector('text=/Show all 30000\\d+ characters/');
      await shot(page, 'page evals hostile case');
    }
    if (await page.locator('.talked').count()) await page.click('.talked > summary');
    assert.equal(await page.locator('#evals :is(img, script, svg, iframe), #evals a[href^=javascript]').count(), 0);
    await page.click('.crumbs >> text=Back');
    await page.waitForSelector('.cells');
  }
  assert.notEqual(await page.title(), 'broken');
}, { hash: '/#hello//evals', forgive: /status of 40[04]/ });

see('a result with 5000 cases opens quickly, in portions', async (page) => {
  const cases = Array.from({ length: 5000 }, (_, i) => ({
    eval_set_id: 'bad', eval_id: `case ${i}`, final_eval_status: i % 3 ? 1 : 2, session_id: 's',
    overall_eval_metric_results: ['response_match_score', 'tool_trajectory_avg_score'].map((name) => ({ metric_name: name, threshold: 0.5, criterion: null, score: i % 3 ? 1 : 0, eval_status: i % 3 ? 1 : 2, details: null })),
    eval_metric_result_per_invocation: [{ actual_invocation: { user_content: { parts: [{ text: 'Hi' }] }, final_response: { parts: [{ text: 'x'.repeat(2000) }] } }, expected_invocation: null, eval_metric_results: [] }],
  }));
  storeResult(1785312003, cases);
  await page.reload();
  await page.evaluate(() => {
    window.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((e) => { window.longest = Math.max(window.longest, e.duration); })).observe({ type: 'longtask' });
  });
  await page.click('.results .entry[title="hello_bad_1785312003.5"]');
  await page.waitForSelector('.share:has-text("3333 of 5000 cases passed")');
  assert.equal(await page.locator('.cells tbody tr').count(), 200);
  await page.click('text=Show 200 more of 5000');
  assert.equal(await page.locator('.cells tbody tr').count(), 400);
  await page.check('text=only cases that did not pass');
  assert.equal(await page.locator('.cells tbody tr').count(), 200);
  const longest = await page.evaluate(() => window.longest);
  assert.ok(longest < 1000, `the page was blocked for ${longest} ms`);
}, { hash: '/#hello//evals' });

see('the words of a diff are those of both texts, whatever they contain', async (page) => {
  const wrong = await page.evaluate(async () => {
    const { diffWords } = await import('/ui/diff.js');
    const parts = ['order ', '7', ' is', '  shipped', '.', '\n', 'Ä', '漢字', '👍🏽', '<b>', ' ', 'e\u0301', '', '\ud800'];
    let seed = 1;
    const next = (n) => (seed = (seed * 48271) % 2147483647) % n;
    const text = () => Array.from({ length: next(12) }, () => parts[next(parts.length)]).join('');
    const join = (words, skip) => words.filter(([status]) => status !== skip).map(([, word]) => word).join('');
    return Array.from({ length: 2000 }, () => [text(), text()]).filter(([a, b]) => join(diffWords(a, b), 'is') !== a || join(diffWords(a, b), 'was') !== b);
  });
  assert.deepEqual(wrong, []);
});

see('calls are paired in order, then by name; the order of arguments does not matter', async (page) => {
  const rows = await page.evaluate(async () => {
    const { alignCalls } = await import('/ui/eval_turn.js');
    const call = (name, args) => ({ name, args });
    const expected = [call('find', { a: 1, b: { c: 2, d: [3] } }), call('pay', { sum: 1 }), call('send', {})];
    const actual = [call('log'), call('find', { b: { d: [3], c: 2 }, a: 1 }), call('pay', { sum: 2 })];
    return alignCalls(expected, actual).map((row) => [row.status, row.expected?.name, row.actual?.name]);
  });
  assert.deepEqual(rows, [['different', undefined, 'log'], ['same', 'find', 'find'], ['different', 'pay', 'pay'], ['different', 'send', undefined]]);
});

see('a case is better by its status, then by the share of passed runs, then by its scores', async (page) => {
  const changes = await page.evaluate(async () => {
    const { mergeCases, compareCases } = await import('/ui/eval_score.js');
    const run = (status, ...scores) => ({ id: 'a', status, metrics: scores.map((score, i) => ({ metric: `m${i}`, score, status })) });
    const compare = (before, after) => compareCases(mergeCases(before).get('a'), mergeCases(after).get('a')).change;
    return [
      compare([run(2, 0.1)], [run(1, 0.1)]), compare([run(1, 0.5)], [run(3)]), compare([run(2, 0), run(1, 1)], [run(2, 0), run(2, 0)]),
      compare([run(1, 0.5)], [run(1, 0.6)]), compare([run(1, 0.5, 0.5)], [run(1, 0.6, 0.4)]), compare([run(1, 0.5)], [run(1, 0.5)]), compare([run(1)], []), compare([], [run(1)]),
    ];
  });
  assert.deepEqual(changes, ['better', 'worse', 'worse', 'better', 'mixed', 'equal', 'missing', 'new']);
});

test('without --dev, sets can be read, and the page shows how to change them', async () => {
  const some = apps('ui-test/page/apps/shop');
  const host = await serve(some.dir, '--dev=false');
  const { page, complaints, close } = await tab(chrome, `${host.url}/#shop//evals`);
  try {
    await page.waitForSelector('.lists .locked:has-text("Start the server with --dev")');
    assert.ok(await page.isDisabled('text=Run all 3 cases'));
    await shot(page, 'page evals locked');
    await page.click('#views >> text=Agents and chat');
    await sendMessage(page, 'Where is order 7?');
    await idle(page);
    await actOnSession(page, 'Save as case');
    await page.waitForSelector('dialog.save .bad:has-text("--dev")');
    assert.ok(await page.isDisabled('dialog.save >> text=Save case'));
    assert.deepEqual(complaints, []);
  } finally {
    await close();
    await host.stop();
    some.remove();
  }
});
