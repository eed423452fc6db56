// Where the time, tokens and money of a turn went: its agents, model calls, tool calls
// and waits as bars on one time axis, and two turns next to each other.

import { el, fold, json, count, short } from './dom.js';
import { openSheet, loading } from './sheet.js';
import { drawParts } from './why.js';
import { diffWords } from './diff.js';
import { cutText, escapeControls } from './text.js';

const GAP = 0.06; // width of a time between two runs, as a part of the axis

/**
 * openTrace shows the trace of a turn. source.turns() resolves to all turns of the
 * session, each with invocation, text and events; source.trace(invocation) to the spans,
 * source.request(event) and source.explain(event) to what a model received and why. With another
 * invocation, both are compared.
 */
export function openTrace(source, invocation, compared = '') {
  openSheet('Trace', loading(async () => {
    const turns = await source.turns();
    const body = el('div', { class: 'traces' });
    const choice = el('select', { 'aria-label': 'Compare with', onchange: () => draw(choice.value).catch((error) => body.replaceChildren(el('p', { class: 'bad', role: 'alert' }, error.message))) },
      el('option', { value: '' }, 'no other turn'),
      turns.filter((t) => t.invocation !== invocation).map((t) => el('option', { value: t.invocation }, t.text)));
    async function draw(other) {
      const chosen = [invocation, other].filter(Boolean).map((id) => turns.find((t) => t.invocation === id)).filter(Boolean);
      const traced = await Promise.all(chosen.map(async (turn) => ({ turn, ...await source.trace(turn.invocation) })));
      body.replaceChildren(...traced.length > 1 ? [drawAnswers(chosen), compare(traced)] : [],
        el('div', { class: 'pairs' }, traced.map((t) => drawTrace(t, source))));
    }
    choice.value = compared;
    await draw(choice.value);
    return el('div', {}, turns.length > 1 && el('label', {}, 'Compare with', choice), body);
  }));
}

function drawTrace({ turn, spans, omitted }, source) {
  if (!spans.length) return el('p', { class: 'dim' }, 'No trace: the server keeps traces only with --dev, since its start, and the latest ones.');
  const axis = newAxis(spans);
  const depth = [];
  const rows = spans.map((span, i) => {
    depth[i] = span.parent === undefined ? 0 : depth[span.parent] + 1;
    const event = turn.events.find((e) => e.id === span.event);
    return fold(drawRow(span, Math.min(depth[i], 12), axis, event), () => drawDetail(span, event, turn, source), { class: `span ${span.kind}` });
  });
  for (const { before, from, to } of axis.gaps.reverse()) rows.splice(spans.indexOf(before), 0, el('p', { class: 'span gap' }, `waited ${duration(to - from)} for an answer`));
  const sums = sum(turn, spans);
  return el('section', { class: 'trace', 'aria-label': `Trace of ${turn.text}` },
    el('h3', {}, turn.text), el('p', { class: 'facts' }, METRICS.map(([, text]) => text(sums)).filter(Boolean).join(' · ')), rows,
    omitted > 0 && el('p', { class: 'dim' }, `${omitted} more spans`));
}

// newAxis maps times to positions from 0 to 1. A time between two runs, in which the
// turn waited for a person, has a fixed width.
function newAxis(spans) {
  const parts = [];
  const gaps = [];
  for (const root of spans.filter((s) => s.parent === undefined)) {
    const last = parts.at(-1);
    if (last && root.start <= last.end) last.end = Math.max(last.end, root.end);
    else {
      if (last) gaps.push({ before: root, from: last.end, to: root.start });
      parts.push({ start: root.start, end: root.end });
    }
  }
  const active = parts.reduce((n, p) => n + p.end - p.start, 0) || 1;
  const gap = Math.min(GAP, 0.5 / Math.max(1, gaps.length));
  const width = 1 - gap * gaps.length;
  const at = (time) => {
    let done = 0;
    for (const [i, part] of parts.entries()) {
      if (time <= part.end || i === parts.length - 1) return Math.min(1, Math.max(0, done + Math.max(0, time - part.start)) / active * width + i * gap);
      done += part.end - part.start;
    }
    return 1;
  };
  return { at, gaps };
}

function drawRow(span, depth, axis, event) {
  const name = el('span', { class: 'name' }, el('b', {}, span.name), span.kind === 'run' ? '' : el('span', { class: 'dim' }, ` ${span.kind}`), span.error && el('span', { class: 'bad' }, ` ${span.error}`));
  name.style.setProperty('padding-left', `${depth * 12}px`);
  const track = el('span', { class: 'track', 'aria-hidden': 'true' }, drawBar(axis, span.start, span.end, 'bar-of'),
    span.queued && drawBar(axis, span.start, span.start + span.queued, 'wait'),
    (span.waits ?? []).map((wait) => drawBar(axis, wait.at, Math.min(span.end, wait.at + delayOf(wait)), 'wait')));
  const numbers = [duration(span.end - span.start), span.kind === 'model' && tokens(span), span.kind === 'model' && cached(event), money(span.cost)];
  return el('span', { class: 'row' }, name, track, el('span', { class: 'numbers' }, numbers.filter(Boolean).join(' · ')));
}

function drawBar(axis, from, to, cls) {
  const bar = el('span', { class: cls });
  const left = axis.at(from);
  bar.style.setProperty('left', `${left * 100}%`);
  bar.style.setProperty('width', `max(2px, ${(axis.at(to) - left) * 100}%)`);
  return bar;
}

// delayOf reads the delay of a wait, such as "waiting 8 s: …", in microseconds.
const delayOf = (wait) => Number(/^waiting ([\d.]+) s/.exec(wait.text)?.[1] ?? 0) * 1e6;

function drawDetail(span, event, turn, source) {
  const calls = turn.events.flatMap((e) => e.content?.parts ?? []);
  const call = span.call && calls.find((p) => p.functionCall?.id === span.call)?.functionCall;
  const response = span.call && calls.findLast((p) => p.functionResponse?.id === span.call)?.functionResponse;
  return [
    span.error && el('p', { class: 'bad' }, `Error ${span.error}`),
    span.queued > 0 && el('p', {}, `Waited ${duration(span.queued)} for the session.`),
    span.callback && el('p', {}, `Answered by the callback ${span.callback} instead of the model.`),
    (span.waits ?? []).map((wait) => el('p', {}, `${duration(wait.at - span.start)}: ${wait.text}`)),
    span.kind !== 'model' && el('p', { class: 'facts' }, `${duration(span.end - span.start)}, from ${duration(span.start)} to ${duration(span.end)}`),
    call && [el('h4', {}, 'Arguments'), json(call.args ?? {})],
    response && [el('h4', {}, 'Result'), json(response.response)],
    event && span.kind === 'tool' && fold('Lines of YAML', () => loading(async () => drawParts(await source.explain(event)))),
    event && span.kind === 'model' && [
      fold('Lines of YAML', () => loading(async () => drawParts(await source.explain(event)))),
      fold('Request', () => loading(() => source.request(event))),
      fold('Response', () => json({ content: event.content, usageMetadata: event.usageMetadata, finishReason: event.finishReason }), { open: true }),
    ],
    !event && span.kind === 'model' && el('p', { class: 'dim' }, 'This call has no event.'),
  ].flat(2).filter(Boolean);
}

// The sums of a turn.

function sum(turn, spans) {
  const models = spans.filter((s) => s.kind === 'model');
  const runs = spans.filter((s) => s.parent === undefined);
  const prompt = models.map((s) => turn.events.find((e) => e.id === s.event)?.usageMetadata?.cachedContentTokenCount ?? 0);
  const add = (list, of) => list.reduce((n, s) => n + (of(s) ?? 0), 0);
  return {
    time: add(runs, (s) => s.end - s.start), models: models.length, tools: spans.filter((s) => s.kind === 'tool').length,
    tokensIn: add(models, (s) => s.tokensIn), tokensOut: add(models, (s) => s.tokensOut), cached: add(prompt, (n) => n), cost: add(models, (s) => s.cost),
  };
}

const share = ({ cached: n, tokensIn }) => (n && tokensIn ? `${Math.round(100 * n / tokensIn)} % cached` : '');

const METRICS = [
  ['time', (s) => duration(s.time), (s) => s.time, duration],
  ['model calls', (s) => count(s.models, 'model call'), (s) => s.models, String],
  ['tool calls', (s) => count(s.tools, 'tool call'), (s) => s.tools, String],
  ['input tokens', (s) => tokens(s), (s) => s.tokensIn, String],
  ['output tokens', () => '', (s) => s.tokensOut, String],
  ['cached tokens', share, (s) => s.cached, String],
  ['cost', (s) => money(s.cost), (s) => s.cost, (n) => money(n) || '0'],
];

function compare([a, b]) {
  const [first, second] = [a, b].map(({ turn, spans }) => sum(turn, spans));
  return el('table', { class: 'compared' },
    el('thead', {}, el('tr', {}, el('td', {}), [a.turn.text, b.turn.text, 'difference'].map((text) => el('th', { scope: 'col' }, text)))),
    el('tbody', {}, METRICS.map(([name, , value, format]) => {
      const by = value(second) - value(first);
      return el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, format(value(first))), el('td', {}, format(value(second))),
        el('td', {}, by === 0 ? '=' : `${by > 0 ? '+' : '−'}${format(Math.abs(by))}`));
    })));
}

// drawAnswers draws the answers of two turns next to each other, with the words that differ
// if most do not.
function drawAnswers(turns) {
  const [before, after] = turns.map((turn) => answerOf(turn.events));
  const words = diffWords(before, after);
  const isAlike = words.reduce((n, [sign, text]) => n + (sign === 'same' ? 2 * text.length : 0), 0) > 0.3 * (before.length + after.length);
  const side = (turn, removed) => {
    const id = turn.events.findLast((e) => e.author !== 'user' && e.provenance?.revision)?.provenance.revision;
    return el('section', { 'aria-label': `Answer of ${turn.text}` }, el('h3', {}, turn.text, id && [' · revision ', el('code', { title: id }, short(escapeControls(id)))]),
      el('p', {}, words.filter(([sign]) => sign === 'same' || (sign === 'was') === removed).map(([sign, text]) => (sign === 'same' || !isAlike ? text : el(removed ? 'del' : 'ins', {}, text)))));
  };
  return el('div', { class: 'answers' }, side(turns[0], true), side(turns[1], false));
}

// answerOf returns the text that a turn answers, without the model's thoughts.
function answerOf(events) {
  const texts = events.filter((e) => e.author !== 'user').flatMap((e) => e.content?.parts ?? []).filter((p) => p.text && !p.thought).map((p) => p.text);
  return cutText(escapeControls(texts.join('\n\n')))[0] || '(no text)';
}

function duration(us) {
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms`;
  return us < 120e6 ? `${(us / 1e6).toFixed(us < 10e6 ? 2 : 1)} s` : `${Math.round(us / 60e6)} min`;
}

const tokens = ({ tokensIn = 0, tokensOut = 0 }) => (tokensIn || tokensOut ? `${tokensIn} → ${tokensOut} tokens` : '');
const money = (usd) => (usd ? `$${usd.toPrecision(2)}` : '');

function cached(event) {
  const { cachedContentTokenCount: n, promptTokenCount: all } = event?.usageMetadata ?? {};
  return n && all ? `${Math.round(100 * n / all)} % cached` : '';
}
