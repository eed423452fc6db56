// Statuses, scores and names of evaluations.

import { el } from './dom.js';

/** The statuses of ADK. */
export const PASSED = 1;
export const FAILED = 2;
export const NOT_EVALUATED = 3;
export const INFORMATIONAL = 4;

const STATUSES = {
  [PASSED]: ['passed', '✓', 'passed'],
  [FAILED]: ['failed', '✗', 'failed'],
  [NOT_EVALUATED]: ['unknown', '?', 'not evaluated'],
  [INFORMATIONAL]: ['measured', '', 'measured'],
};

const statusOf = (status) => STATUSES[status] ?? STATUSES[NOT_EVALUATED];

/** statusWord returns the status in words. */
export const statusWord = (status) => statusOf(status)[2];

/** statusMark returns the symbol of a status, which screen readers read as a word. */
export function statusMark(status) {
  const [name, sign, word] = statusOf(status);
  return el('span', { class: 'status', 'data-status': name, title: word }, el('span', { 'aria-hidden': 'true' }, sign), el('span', { class: 'unseen' }, word));
}

const SHORT_NAMES = {
  tool_trajectory_avg_score: 'tool_trajectory',
  response_match_score: 'response_match',
  rubric_based_final_response_quality_v1: 'rubric_based_quality',
  rubric_based_tool_use_quality_v1: 'rubric_based_tool_use',
  hallucinations_v1: 'hallucinations',
  safety_v1: 'safety',
  tool_call_count_v1: 'calls/turn',
  inference_call_count_v1: 'model calls/turn',
  token_usage_v1: 'tokens/turn',
  invocation_duration_v1: 'seconds/turn',
};

/** isMeasured reports whether a metric has no threshold and never fails a case. */
export const isMeasured = (metric, status) => status === INFORMATIONAL || MEASURED.includes(metric);

const MEASURED = ['tool_call_count_v1', 'inference_call_count_v1', 'token_usage_v1', 'invocation_duration_v1'];

/** shortName returns the short name of a metric. */
export const shortName = (metric) => (Object.hasOwn(SHORT_NAMES, metric) ? SHORT_NAMES[metric] : metric);

/** formatScore rounds a score to three decimals. */
export const formatScore = (score) => (typeof score === 'number' ? String(Math.round(score * 1000) / 1000) : '–');

/** compareScore formats a score, and its threshold if it is below. */
export function compareScore({ score, threshold, status }) {
  if (status !== FAILED || typeof score !== 'number' || typeof threshold !== 'number') return formatScore(score);
  return `${formatScore(score)} < ${formatScore(threshold)}`;
}

/** percent formats a share. */
export const percent = (part, all) => (all ? `${Math.round((100 * part) / all)} %` : '–');

/** formatTime formats seconds since 1970. */
export function formatTime(seconds) {
  if (!seconds) return '';
  return new Date(seconds * 1000).toLocaleString([], { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
}

/** metricNames lists the metrics of cases in order, those without a threshold last if they have a value. */
export function metricNames(cases) {
  const names = new Map();
  for (const c of cases) {
    for (const m of c.metrics) {
      const measured = isMeasured(m.metric, m.status);
      if (!measured || typeof m.score === 'number') names.set(m.metric, measured);
    }
  }
  return [...names].sort(([, a], [, b]) => a - b).map(([name]) => name);
}

/**
 * mergeCases returns a map from the ID of a case to the results of its runs: their
 * indexes, how many passed, a status, and the mean scores by metric.
 */
export function mergeCases(cases) {
  const all = new Map();
  for (const [index, c] of cases.entries()) {
    const merged = all.get(c.id) ?? { id: c.id, indexes: [], passed: 0, statuses: [], metrics: new Map() };
    all.set(c.id, merged);
    merged.indexes.push(index);
    merged.statuses.push(c.status);
    if (c.status === PASSED) merged.passed++;
    for (const m of c.metrics) if (!isMeasured(m.metric, m.status) && typeof m.score === 'number') merged.metrics.set(m.metric, [...merged.metrics.get(m.metric) ?? [], m.score]);
  }
  for (const merged of all.values()) {
    merged.status = merged.statuses.includes(FAILED) ? FAILED : merged.statuses.includes(NOT_EVALUATED) ? NOT_EVALUATED : PASSED;
    for (const [name, scores] of merged.metrics) merged.metrics.set(name, scores.reduce((a, b) => a + b, 0) / scores.length);
  }
  return all;
}

const RANKS = { [PASSED]: 2, [NOT_EVALUATED]: 1, [FAILED]: 0 };

/**
 * compareCases returns how a case changed: better, worse, mixed, equal, new or missing,
 * and the metrics whose scores differ.
 */
export function compareCases(before, after) {
  if (!before || !after) return { change: before ? 'missing' : 'new', metrics: [] };
  const metrics = [...after.metrics].filter(([name]) => before.metrics.has(name))
    .map(([name, score]) => ({ name, before: before.metrics.get(name), after: score })).filter((m) => Math.abs(m.before - m.after) > 1e-9);
  const step = RANKS[after.status] - RANKS[before.status] || after.passed / after.indexes.length - before.passed / before.indexes.length;
  if (step) return { change: step > 0 ? 'better' : 'worse', metrics };
  const isUp = metrics.some((m) => m.after > m.before);
  const isDown = metrics.some((m) => m.after < m.before);
  return { change: isUp && isDown ? 'mixed' : isUp ? 'better' : isDown ? 'worse' : 'equal', metrics };
}
