// The scores of results as tables: cases by metrics, or cases by results.

import { el, count, inline, short } from './dom.js';
import { PASSED, FAILED, isMeasured, statusMark, statusWord, shortName, formatScore, compareScore, percent, formatTime, metricNames, mergeCases, compareCases } from './eval_score.js';

const PAGE = 200;

/** drawMatrix draws the cases of a result by metrics; open(index), if set, opens a case. */
export function drawMatrix(cases, open) {
  const names = metricNames(cases);
  const used = USED.filter(([key]) => cases.some((c) => c[key]));
  const runs = mergeCases(cases);
  const rows = cases.map((c, index) => ({ c, index }));
  const only = el('input', { type: 'checkbox' });
  const numbered = (c, index) => {
    const own = runs.get(c.id).indexes;
    return own.length > 1 ? ` · run ${own.indexOf(index) + 1}` : '';
  };
  const drawRow = ({ c, index }) => {
    const action = open && (() => open(index));
    const byName = new Map(c.metrics.map((m) => [m.metric, m]));
    return el('tr', { 'data-status': statusWord(c.status) },
      headCell([statusMark(c.status), ' ', el('span', {}, c.id || '(no ID)', numbered(c, index))], action, c.reason),
      names.map((name) => cell(byName.get(name), action, `${c.id}, ${shortName(name)}`)),
      used.map(([key]) => el('td', { class: 'dim' }, formatUsage(key, c[key]))));
  };
  const { table, body } = grid(['case', ...names.map(shortName), ...used.map(([, name]) => name)], names.length ? footOf(cases, names, used) : null);
  const list = paged(body, drawRow);
  const fill = () => list.show(only.checked ? rows.filter(({ c }) => c.status !== PASSED) : rows);
  only.addEventListener('change', fill);
  fill();
  const filter = cases.length > 5 && cases.some((c) => c.status !== PASSED) && el('label', {}, only, ' only cases that did not pass');
  return el('div', { class: 'matrix' }, drawShare(cases), filter, el('div', { class: 'scroll' }, table), list.more);
}

/** drawShare shows how many cases passed, in words and as a bar. */
export function drawShare(cases) {
  const passed = cases.filter((c) => c.status === PASSED).length;
  const failed = cases.filter((c) => c.status === FAILED).length;
  const other = cases.length - passed - failed;
  return el('p', { class: 'share' },
    el('b', {}, `${passed} of ${count(cases.length, 'case')} passed`), cases.length > 0 && ` (${percent(passed, cases.length)})`,
    failed > 0 && ` · ${failed} failed`, other > 0 && ` · ${other} not evaluated`,
    el('meter', { min: 0, max: Math.max(1, cases.length), value: passed, 'aria-hidden': 'true' }));
}

const USED = [['tokens', 'tokens'], ['costUsd', 'cost']];

function formatUsage(key, value) {
  if (!value) return '–';
  return key === 'tokens' ? String(value) : `$${value.toPrecision(2)}`;
}

// footOf has the mean score of each metric and the share of cases that passed it, and the
// sums of tokens and cost.
function footOf(cases, names, used) {
  return el('tr', {}, el('th', { scope: 'row' }, 'mean · passed'), names.map((name) => {
    const own = cases.flatMap((c) => c.metrics.filter((m) => m.metric === name));
    const scores = own.map((m) => m.score).filter((score) => typeof score === 'number');
    const mean = scores.length ? scores.reduce((a, b) => a + b, 0) / scores.length : null;
    const isCounted = own.some((m) => !isMeasured(m.metric, m.status));
    return el('td', {}, formatScore(mean), isCounted && ` · ${percent(own.filter((m) => m.status === PASSED).length, own.length)}`);
  }), used.map(([key]) => el('td', {}, formatUsage(key, cases.reduce((sum, c) => sum + (c[key] ?? 0), 0)))));
}

/**
 * drawComparison draws cases by results, oldest first. Two results are compared case by
 * case; open(result, index) opens a case.
 */
export function drawComparison(results, open) {
  const columns = results.map((r) => ({ result: r, cases: mergeCases(r.cases) }));
  const ids = [...new Set(columns.flatMap(({ cases }) => [...cases.keys()]))];
  const isPair = columns.length === 2;
  const rows = ids.map((id) => ({ id, cells: columns.map(({ cases }) => cases.get(id)), ...(isPair ? compareCases(columns[0].cases.get(id), columns[1].cases.get(id)) : {}) }));
  const only = el('input', { type: 'checkbox' });
  const drawRow = ({ id, cells, change, metrics }) => el('tr', {},
    el('th', { scope: 'row' }, id || '(no ID)'),
    cells.map((c, i) => (c ? actionCell(mergedScore(c), () => open(columns[i].result, c.indexes[0]), `${id}, ${headOf(columns[i].result)}`) : el('td', { class: 'dim' }, '–'))),
    isPair && el('td', { class: 'change', 'data-change': change }, drawChange(change), metrics.map((m) => el('div', { class: 'dim' }, `${shortName(m.name)} ${formatScore(m.before)} → ${formatScore(m.after)}`))));
  const { table, body } = grid(['case', ...results.map(headOf), ...(isPair ? ['change'] : [])], el('tr', {}, el('th', { scope: 'row' }, 'passed'),
    columns.map(({ result }) => el('td', {}, percent(result.cases.filter((c) => c.status === PASSED).length, result.cases.length))), isPair && el('td')));
  const list = paged(body, drawRow);
  const fill = () => list.show(only.checked ? rows.filter(isDifferent) : rows);
  only.addEventListener('change', fill);
  fill();
  return el('div', { class: 'matrix' }, isPair && summarize(rows), differentMetrics(results), el('label', {}, only, ' only cases that differ'), el('div', { class: 'scroll' }, table), list.more);
}

const headOf = (result) => [result.setId, formatTime(result.time), versionOf(result)].filter(Boolean).join(' · ') || result.id;

/** versionOf returns the model and the revision of a result, if it has them. */
export function versionOf(result) {
  return [result.model?.slice(0, 60), result.revision && `revision ${short(result.revision)}`].filter(Boolean).join(' · ');
}

// differentMetrics is a warning if the results were not scored alike.
function differentMetrics(results) {
  const scored = results.map(({ cases }) => new Set(cases.flatMap((c) => c.metrics.filter((m) => !isMeasured(m.metric, m.status)).map((m) => `${shortName(m.metric)} ≥ ${formatScore(m.threshold)}`))));
  const odd = [...new Set(scored.flatMap((s) => [...s]))].filter((text) => !scored.every((s) => s.has(text)));
  return odd.length > 0 && el('p', { class: 'dim' }, `Not in all results: ${odd.slice(0, 10).join(', ')}.`);
}

function isDifferent({ change, cells }) {
  return change ? change !== 'equal' : new Set(cells.map((c) => c?.status)).size > 1;
}

function mergedScore(c) {
  return [statusMark(c.status), c.indexes.length > 1 && ` ${c.passed}/${c.indexes.length}`,
    [...c.metrics].map(([name, score]) => el('span', { class: 'score' }, `${shortName(name)} ${formatScore(score)}`))];
}

const CHANGES = { better: '▲', worse: '▼', mixed: '◆', equal: '=', new: '+', missing: '−' };
const drawChange = (change) => el('span', {}, el('span', { 'aria-hidden': 'true' }, `${CHANGES[change]} `), change);

function summarize(rows) {
  const numbers = Object.keys(CHANGES).map((change) => [change, rows.filter((r) => r.change === change).length]).filter(([, n]) => n);
  return el('p', { class: 'share' }, numbers.map(([change, n], i) => [i > 0 && ' · ', el('span', { class: 'change', 'data-change': change }, el('b', {}, n), ' ', drawChange(change))]));
}

// grid creates a table whose cells are reached with the arrow keys.
function grid(heads, foot) {
  const body = el('tbody');
  const table = el('table', { class: 'cells' },
    el('thead', {}, el('tr', {}, heads.map((text, i) => el('th', { scope: 'col', title: i ? text : null }, text)))), body, foot && el('tfoot', {}, foot));
  table.addEventListener('keydown', (event) => {
    const buttons = [...body.rows].map((row) => [...row.querySelectorAll('button')]);
    const y = buttons.findIndex((row) => row.includes(document.activeElement));
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [];
    if (y < 0 || dx === undefined) return;
    const target = buttons[y + dy]?.[buttons[y].indexOf(document.activeElement) + dx];
    if (!target) return;
    event.preventDefault();
    document.activeElement.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  });
  return { table, body };
}

// paged draws rows in portions, so that a large result does not block the page.
function paged(body, drawRow) {
  let [rows, shown] = [[], 0];
  const more = el('button', { type: 'button', class: 'quiet', onclick: () => extend() });
  const extend = () => {
    body.append(...rows.slice(shown, shown + PAGE).map(drawRow));
    shown = Math.min(rows.length, shown + PAGE);
    more.hidden = shown === rows.length;
    more.textContent = `Show ${Math.min(PAGE, rows.length - shown)} more of ${rows.length}`;
    for (const [i, button] of body.querySelectorAll('button').entries()) button.tabIndex = i ? -1 : 0;
  };
  return {
    more,
    show(all) {
      [rows, shown] = [all, 0];
      body.replaceChildren();
      extend();
      if (!all.length) body.append(el('tr', {}, el('td', { class: 'dim', colspan: 99 }, 'No cases.')));
    },
  };
}

function headCell(content, open, reason) {
  return el('th', { scope: 'row' }, open ? el('button', { type: 'button', class: 'cell', onclick: open }, content) : content, reason && el('p', { class: 'reason', title: reason }, reason));
}

function cell(m, open, label) {
  if (!m) return el('td', { class: 'dim' }, '–');
  if (isMeasured(m.metric, m.status)) return el('td', { class: 'dim' }, formatScore(m.score));
  return actionCell([statusMark(m.status), ' ', compareScore(m)], open, `${label}: ${statusWord(m.status)} ${inline(m.score ?? null)}`);
}

const actionCell = (content, open, label) => el('td', {}, !open ? content : el('button', { type: 'button', class: 'cell', 'aria-label': label, onclick: open }, content));
