// A case of a result: its turns as expected and as they were, the reasons of scores, and
// the conversation.

import { el, fold, json, inline, count, callText } from './dom.js';
import { diffWords } from './diff.js';
import { Transcript } from './events.js';
import { isMeasured, statusMark, statusWord, shortName, formatScore, compareScore } from './eval_score.js';
import { readCalls, alignCalls, textOfContent } from './eval_turn.js';

const MAX_TEXT = 4000;
const MAX_TURNS = 50;
const MAX_EVENTS = 300;

/** drawCase shows a case of a result; it has the form of ADK. */
export function drawCase(c) {
  const notes = Array.isArray(c.notes) ? c.notes : [];
  const turns = c.evalMetricResultPerInvocation ?? [];
  const more = el('div');
  const extend = (from) => {
    more.before(...turns.slice(from, from + MAX_TURNS).map((turn, i) => drawTurn(turn, from + i, notes.filter((n) => n.turn === from + i))));
    const left = turns.length - from - MAX_TURNS;
    more.replaceChildren(...(left > 0 ? [el('button', { type: 'button', class: 'quiet', onclick: () => extend(from + MAX_TURNS) }, `Show more of ${count(left, 'turn')}`)] : []));
  };
  const node = el('div', { class: 'case' },
    drawNotes(notes.filter((n) => !n.metricName && n.turn == null), 'Why'),
    drawMetrics(c.overallEvalMetricResults ?? [], notes.filter((n) => n.turn == null), c.usage),
    !turns.length && el('p', { class: 'dim' }, 'No turns were scored.'),
    more,
    c.sessionDetails ? fold(`Conversation · ${count((c.sessionDetails.events ?? []).length, 'event')}`, () => drawConversation(c.sessionDetails), { class: 'talked' }) : el('p', { class: 'dim' }, 'The result has no conversation.'));
  extend(0);
  return node;
}

function drawMetrics(metrics, notes, usage) {
  const counted = metrics.filter((m) => !isMeasured(m.metricName, m.evalStatus));
  const measured = metrics.filter((m) => isMeasured(m.metricName, m.evalStatus) && typeof m.score === 'number');
  return [
    counted.length > 0 && el('div', { class: 'scroll' }, el('table', { class: 'metrics' },
      el('thead', {}, el('tr', {}, ['metric', 'score', 'threshold', 'reason'].map((text) => el('th', { scope: 'col' }, text)))),
      el('tbody', {}, counted.map((m) => drawMetric(m, notes.filter((n) => n.metricName === m.metricName)))))),
    el('p', { class: 'dim' }, [...measured.map((m) => `${shortName(m.metricName)} ${formatScore(m.score)}`), ...usageOf('app', usage?.turns), ...usageOf('judges', usage?.judges)].join(' · ')),
  ];
}

function usageOf(who, usage) {
  const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
  return [tokens > 0 && `${who}: ${tokens} tokens`, usage?.costUsd > 0 && `$${usage.costUsd.toPrecision(2)}`].filter(Boolean);
}

function drawMetric(m, notes) {
  const threshold = m.criterion?.threshold ?? m.threshold;
  const judges = [...new Set(notes.map((n) => n.judge).filter(Boolean))];
  return el('tr', {},
    el('th', { scope: 'row', title: m.metricName }, statusMark(m.evalStatus), ' ', shortName(m.metricName)),
    el('td', {}, formatScore(m.score)), el('td', {}, formatScore(threshold)),
    el('td', {}, judges.length > 0 && el('p', { class: 'dim' }, `judged by ${judges.join(', ')}`), drawNotes(notes), drawRubrics(m.details?.rubricScores)));
}

function drawNotes(notes, title) {
  const lines = notes.filter((n) => n.reason || n.answer);
  return lines.length > 0 && el('div', { class: 'notes' }, title && el('b', {}, `${title}: `), lines.map((n) => [
    n.reason && el('p', { class: 'text' }, longText(n.reason)),
    n.answer && fold('the answer of the judge', () => el('p', { class: 'text' }, longText(n.answer))),
  ]));
}

function drawRubrics(scores) {
  return Array.isArray(scores) && scores.length > 0 && el('ul', { class: 'rubrics' }, scores.map((s) => el('li', {},
    el('code', {}, s.rubricId ?? '?'), ` ${formatScore(s.score)}`, s.rationale && el('p', { class: 'text' }, longText(s.rationale)))));
}

// A turn: the message of the user, then what was expected next to what happened.
function drawTurn(turn, index, notes) {
  const { actualInvocation: actual, expectedInvocation: expected } = turn;
  const message = textOfContent(actual?.userContent ?? expected?.userContent);
  const metrics = (turn.evalMetricResults ?? []).filter((m) => !isMeasured(m.metricName, m.evalStatus));
  return el('section', { class: 'pairs', 'aria-label': `Turn ${index + 1}` },
    el('h3', {}, `Turn ${index + 1}`, metrics.map((m) => el('span', { class: 'verdict', title: m.metricName }, statusMark(m.evalStatus), ` ${shortName(m.metricName)} ${compareScore({ score: m.score, threshold: m.criterion?.threshold ?? m.threshold, status: m.evalStatus })}`))),
    el('p', { class: 'asked' }, el('b', {}, 'user '), longText(message)),
    expected ? drawPair(expected, actual) : el('div', { class: 'sides single' }, drawSide('Actual', [...readCalls(actual).map((call) => drawCall(call, 'same')), responseOf(actual)])),
    metrics.filter((m) => m.details?.rubricScores?.length).map((m) => el('div', { class: 'notes' }, el('b', {}, shortName(m.metricName)), drawRubrics(m.details.rubricScores))),
    notes.map((n) => drawNotes([n], [n.metricName && shortName(n.metricName), n.judge && `(${n.judge})`].filter(Boolean).join(' '))));
}

const responseOf = (invocation) => el('p', { class: 'text' }, longText(textOfContent(invocation?.finalResponse) || '(no response)'));

function drawPair(expected, actual) {
  const rows = alignCalls(readCalls(expected), readCalls(actual));
  const [before, after] = [expected, actual].map((i) => textOfContent(i?.finalResponse));
  const words = diffWords(before, after);
  const side = (skip, tag) => (words.some(([status]) => status !== skip)
    ? words.filter(([status]) => status !== skip).map(([status, text]) => (status === 'same' ? longText(text) : el(tag, {}, longText(text)))) : el('span', { class: 'dim' }, '(no response)'));
  return el('div', { class: 'sides' },
    drawSide('Expected', [rows.map((row) => drawCall(row.expected, row.status === 'same' ? 'same' : row.actual ? 'changed' : 'missing')), el('p', { class: 'text' }, before ? side('is', 'del') : el('span', { class: 'dim' }, '(no response expected)'))]),
    drawSide('Actual', [rows.map((row) => drawCall(row.actual, row.status === 'same' ? 'same' : row.expected ? 'changed' : 'extra')), el('p', { class: 'text' }, side('was', before ? 'ins' : 'span'))]));
}

const drawSide = (title, content) => el('div', { class: 'side' }, el('h4', {}, title), content);

const CALLS = { same: ['', 'called as expected'], changed: ['≠', 'other arguments'], missing: ['−', 'was not called'], extra: ['+', 'was not expected'] };

function drawCall(call, status) {
  if (!call) return el('p', { class: 'gap', 'aria-hidden': 'true' }, '\u00a0');
  const [sign, word] = CALLS[status];
  return fold([el('span', { class: 'sign', 'aria-hidden': 'true' }, sign), el('code', {}, callText(cut(call.name, 80), call.args)), status !== 'same' && el('span', { class: 'dim' }, ` ${word}`)],
    () => [json(call.args ?? {}), call.response !== undefined && [el('p', { class: 'dim' }, 'response'), json(call.response)]], { class: 'call', 'data-call': status });
}

const cut = (text, width) => (String(text ?? '').length > width ? `${String(text).slice(0, width - 1)}…` : String(text ?? ''));

// longText returns the text of a value, or its beginning and a button that shows the rest.
function longText(value) {
  const text = typeof value === 'string' ? value : inline(value, MAX_TEXT);
  if (text.length <= MAX_TEXT) return text;
  const node = el('span', {}, text.slice(0, MAX_TEXT), '… ', el('button', { type: 'button', class: 'quiet', onclick: () => node.replaceChildren(text) }, `Show all ${text.length} characters`));
  return node;
}

function drawConversation(session) {
  const root = el('div', { class: 'transcript' });
  const ended = async () => { throw new Error('This conversation was part of an evaluation and has ended.'); };
  const transcript = new Transcript(root, { answer: ended, request: async () => { throw new Error('The result does not contain the requests of models.'); }, artifact: async () => { throw new Error('The result does not contain artifacts.'); } });
  const events = Array.isArray(session.events) ? session.events : [];
  transcript.show(events.slice(0, MAX_EVENTS));
  if (events.length > MAX_EVENTS) transcript.addNotice(`${events.length - MAX_EVENTS} more events are in the file of the result.`);
  return root;
}

/** drawCaseHead is the title of a case. */
export const drawCaseHead = (c) => [statusMark(c.finalEvalStatus), ` ${c.evalId || '(no ID)'} `, el('span', { class: 'dim' }, statusWord(c.finalEvalStatus))];
