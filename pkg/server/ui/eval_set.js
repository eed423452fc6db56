// An eval set: its cases, the metrics of a run, and the progress of the run.

import { el, count } from './dom.js';
import { shortName, formatScore } from './eval_score.js';
import { drawMatrix } from './eval_matrix.js';

const MAX_CASES = 500;

/**
 * drawSet shows a set with a form that runs it. locked is why it cannot be run,
 * infos are the metrics of the server, run({caseIds, metrics}) runs cases, all of them if
 * there are no IDs.
 */
export function drawSet(set, { locked, infos, run }) {
  const boxes = new Map();
  const error = el('p', { class: 'bad', role: 'alert' });
  const metrics = metricForm(set.metrics ?? [], infos);
  const button = el('button', { type: 'submit', disabled: !!locked || !set.caseList.length }, 'Run');
  const update = () => {
    const n = chosen(boxes).length;
    all.checked = n > 0 && n === boxes.size;
    all.indeterminate = n > 0 && n < boxes.size;
    button.textContent = !all.checked ? `Run ${count(n, 'case')}` : boxes.size === 1 ? 'Run the case' : `Run all ${set.caseList.length} cases`;
    button.disabled = !!locked || !n;
  };
  const all = el('input', { type: 'checkbox', 'aria-label': 'All cases', onchange: () => {
    for (const box of boxes.values()) box.checked = all.checked;
    update();
  } });
  const rows = set.caseList.slice(0, MAX_CASES).map((c) => {
    const box = el('input', { type: 'checkbox', 'aria-label': `Case ${c.id}`, onchange: update });
    box.checked = true;
    boxes.set(c.id, box);
    return el('tr', {}, el('td', { class: 'tick' }, box), el('th', { scope: 'row' }, c.id), el('td', { class: 'dim' }, c.turns ? count(c.turns, 'turn') : 'simulated user'), el('td', {}, c.message, c.ownMetrics && el('span', { class: 'own', title: 'The case has thresholds or metrics of its own' }, ' own metrics')));
  });
  const submit = (event) => {
    event.preventDefault();
    try {
      run({ caseIds: all.checked ? [] : chosen(boxes), metrics: metrics.read() });
    } catch (problem) {
      error.textContent = problem.message;
    }
  };
  const node = el('form', { class: 'set', onsubmit: submit, novalidate: true },
    set.description && el('p', {}, set.description),
    set.caseList.length
      ? el('div', { class: 'scroll' }, el('table', { class: 'caselist' }, el('thead', {}, el('tr', {}, el('th', { class: 'tick' }, all), ['case', 'turns', 'first message'].map((text) => el('th', { scope: 'col' }, text)))), el('tbody', {}, rows)))
      : el('p', { class: 'dim' }, 'The set has no cases yet: open a conversation of the chat and select “Save as case”.'),
    set.caseList.length > MAX_CASES && el('p', { class: 'dim' }, `Only the first ${MAX_CASES} cases are listed; run all of them, or use agenthost eval.`),
    el('h3', {}, 'Metrics'), metrics.node,
    set.caseList.some((c) => c.ownMetrics) && el('p', { class: 'dim' }, 'Cases with their own metrics use them, except for thresholds that you change here.'),
    locked && el('p', { class: 'locked' }, locked), error,
    el('div', { class: 'bar' }, button));
  update();
  return node;
}

const chosen = (boxes) => [...boxes].filter(([, box]) => box.checked).map(([id]) => id);

// metricForm edits the metrics of a run: those of the set first, then added ones.
function metricForm(own, infos) {
  const list = el('ul', { class: 'thresholds' });
  const chosenNames = () => [...list.children].map((item) => item.dataset.metric);
  const choice = el('select', { 'aria-label': 'Add a metric', onchange: () => {
    const info = infos.find((i) => i.metricName === choice.value);
    if (info) add(info.metricName, defaultThreshold(info));
    list.lastElementChild?.querySelector('input').focus();
  } });
  const offer = () => choice.replaceChildren(el('option', { value: '' }, 'Add a metric…'),
    ...infos.filter((i) => !chosenNames().includes(i.metricName)).map((i) => el('option', { value: i.metricName, title: i.description }, shortName(i.metricName))));
  const add = (name, threshold, hint) => {
    const info = infos.find((i) => i.metricName === name);
    const range = info?.metricValueInfo?.interval;
    const field = el('input', { type: 'number', step: 'any', min: range?.minValue, max: range?.maxValue, required: true, 'aria-label': `Threshold of ${shortName(name)}`, value: threshold ?? '' });
    const item = el('li', { 'data-metric': name },
      el('span', { class: 'name', title: name }, shortName(name)), el('span', { 'aria-hidden': 'true' }, ' ≥ '), field,
      el('button', { type: 'button', class: 'quiet', 'aria-label': `Remove ${shortName(name)}`, onclick: () => (item.remove(), offer(), choice.focus()) }, '×'),
      el('span', { class: 'dim' }, hint ?? info?.description ?? ''));
    list.append(item);
    offer();
  };
  for (const m of own) add(m.metricName, thresholdOf(m), hintOf(m.criterion) || undefined);
  offer();
  return {
    node: el('div', { class: 'metricform' }, list, choice),
    read: () => {
      const metrics = [...list.children].map((item) => readThreshold(item.dataset.metric, item.querySelector('input'), own));
      if (!metrics.length) throw new Error('Add a metric: without one, nothing is scored.');
      const isOwn = metrics.length === own.length && metrics.every((m, i) => m.metricName === own[i].metricName && m.threshold === undefined);
      return isOwn ? [] : metrics; // those of the set, which cases may change
    },
  };
}

const thresholdOf = (m) => m.criterion?.threshold ?? m.threshold;

// defaultThreshold is four fifths of the range, as in agenthost eval.
function defaultThreshold({ metricValueInfo }) {
  const { minValue = 0, maxValue = 1 } = metricValueInfo?.interval ?? {};
  return Math.round((minValue + 0.8 * (maxValue - minValue)) * 100) / 100;
}

function hintOf(criterion) {
  const { matchType, ignoreArgs, judgeModelOptions, rubrics, expr } = criterion ?? {};
  const match = typeof matchType === 'number' ? ['', 'in order', 'any order'][matchType] : String(matchType ?? '').toLowerCase().replaceAll('_', ' ');
  return [typeof expr === 'string' && expr.slice(0, 120), match !== 'exact' && match, ignoreArgs && 'ignores arguments', judgeModelOptions?.judgeModel && `judge ${judgeModelOptions.judgeModel}`, rubrics?.length && count(rubrics.length, 'rubric')].filter(Boolean).join(' · ');
}

function readThreshold(metricName, field, own) {
  const threshold = field.valueAsNumber;
  const [min, max] = [field.min, field.max].map((text) => (text === '' ? null : Number(text)));
  if (Number.isNaN(threshold) || (min !== null && threshold < min) || (max !== null && threshold > max)) {
    field.focus();
    throw new Error(`The threshold of ${shortName(metricName)} must be a number from ${formatScore(min ?? 0)} to ${formatScore(max ?? 1)}.`);
  }
  const known = own.find((m) => m.metricName === metricName);
  if (known && threshold === thresholdOf(known)) return { metricName }; // as the set and its cases have it
  const criterion = known?.criterion;
  return { metricName, threshold, ...(criterion ? { criterion: { ...criterion, threshold } } : {}) };
}

/** drawProgress shows a run; close() removes it. */
export function drawProgress(run, { close }) {
  const done = run.cases.length;
  const text = run.error ? '' : run.isCanceled ? 'Canceled: nothing was stored.' : run.isRunning ? `${done} of ${count(run.total, 'case')}` : 'Done';
  return el('section', { class: 'progress', 'aria-label': 'Run' },
    run.error && el('p', { class: 'bad', role: 'alert' }, run.error),
    el('div', { class: 'bar' },
      !run.error && !run.isCanceled && el('progress', { max: Math.max(1, run.total), value: done, 'aria-label': 'Cases that ended' }),
      el('span', { role: 'status' }, text),
      run.isRunning ? el('button', { type: 'button', class: 'quiet', onclick: () => run.cancel() }, 'Cancel') : el('button', { type: 'button', class: 'quiet', onclick: close }, 'Close')),
    done > 0 && drawMatrix(run.cases, null));
}
