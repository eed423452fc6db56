// The view Revisions: what serves, the files on disk against it, the rollout of a change, and the
// outcomes and differences of revisions.

import { el, block, fold, short, count } from './dom.js';
import { get, path } from './wire.js';
import { hunks } from './diff.js';
import { difference } from './apps.js';
import { escapeControls } from './text.js';
import { loading } from './sheet.js';
import { replaySessions } from './replay.js';
import { drawRollout } from './rollout.js';

const SHOWN = 50;
const MAX_DRAWN = 500;

/** loadRevisions fetches the revisions, their outcomes, the plan and the rollout. Each but the first may be missing. */
export async function loadRevisions(app) {
  const optional = (url) => get(url).catch((error) => ({ error: error.message }));
  const [list, outcomes, plan, rollout] = await Promise.all([
    get(path('dev', 'apps', app, 'revisions')), optional(`${path('apps', app, 'outcomes')}?by=revision`), optional(path('dev', 'apps', app, 'plan')), optional(path('apps', app, 'rollout'))]);
  return { app, list, outcomes, plan, rollout };
}

/** drawRevisions draws the view. */
export function drawRevisions(data, page) {
  const detail = el('div', { class: 'detail', 'aria-live': 'polite' });
  const show = (load) => detail.replaceChildren(loading(load));
  const table = new RevisionTable(data, (from, to) => show(async () => drawDiff(await get(`${path('dev', 'apps', data.app, 'revisions', 'diff')}?${new URLSearchParams({ from, to })}`))));
  const node = el('div', { class: 'columns' },
    el('div', {}, drawPlan(data.plan, { open: () => show(async () => drawDiff(data.plan, 'Files on disk')), replay: () => show(() => replaySessions(data.app)) }),
      (data.rollout.revision || data.rollout.status === 'damaged') && drawRollout(data.rollout, page),
      el('section', { 'aria-label': 'Stored revisions' }, el('h2', {}, 'Stored revisions', el('button', { type: 'button', class: 'quiet', 'data-key': 'refresh', onclick: () => page.refresh() }, 'Refresh')), table.node)),
    detail);
  if (isChanged(data.plan)) show(async () => drawDiff(data.plan, 'Files on disk'));
  else table.compare();
  return node;
}

const isChanged = (plan) => !plan.error && plan.to && plan.from && plan.from !== plan.to;

// The plan: the files on disk against what serves.

const REACH = {
  new_sessions: 'new sessions; existing sessions keep their revision',
  manual: 'every session after a manual reload',
};

function drawPlan(plan, { open, replay }) {
  const errors = plan.problems?.filter((p) => p.severity === 'error').length;
  const line = plan.error ? el('p', { class: 'dim' }, escapeControls(plan.error))
    : !plan.to ? el('p', { class: 'bad' }, `The files have ${count(errors || 1, 'error')}: they would not be activated.`, plan.serving ? ` Revision ${short(plan.serving)} keeps running.` : '')
      : plan.from === plan.to ? el('p', {}, 'The files on disk are the revision that serves.')
        : !plan.from ? el('p', {}, 'The app is new: no revision is stored.')
          : [el('p', {}, 'The files on disk differ from revision ', revision(plan.from), `: ${count(plan.files.length + (plan.moreFiles ?? 0), 'file')}, ${count(plan.changes.length, 'change')}. `,
            el('button', { type: 'button', class: 'quiet', onclick: open }, 'Show')),
          el('p', { class: 'dim' }, `They would apply to ${REACH[plan.reach] ?? 'every session from its next turn'}: ${plan.moreSessions ? 'more than ' : ''}${count(plan.sessions, 'session')}, ${plan.live} with an event in the last day.`)];
  return el('section', { 'aria-label': 'Files on disk', class: 'plan' }, el('h2', {}, 'Files on disk',
    plan.to && el('button', { type: 'button', class: 'quiet', 'data-key': 'replay', title: 'Run stored sessions on the files, with recorded answers of models and tools', onclick: replay }, 'Replay sessions')), line);
}

const revision = (id) => el('code', { title: id }, short(escapeControls(id)));

// The table: a row for each revision, with the outcomes of its turns.

const COUNTS = ['Turns', 'Failed, 95 %', 'Seconds, 95 %', 'Tool errors', 'Approved', 'Score, 95 %', 'USD'];

class RevisionTable {
  constructor({ list, outcomes }, onCompare) {
    const counted = new Map((outcomes.rows ?? []).map((r) => [r.revision ?? '', r]));
    const stored = list.revisions.map((r) => ({ id: r.revision, served: r.served, row: counted.get(r.revision) }));
    const known = new Set(stored.map((r) => r.id));
    const gone = [...counted.values()].filter((r) => !known.has(r.revision ?? '')).map((row) => ({ id: row.revision ?? '', row }));
    Object.assign(this, { serving: list.serving, more: list.more, outcomes, onCompare, rows: [...stored, ...gone], shown: SHOWN, from: stored[1]?.id ?? '', to: stored[0]?.id ?? '', isSingle: stored.length < 2, node: el('div') });
    this.draw();
  }

  compare() {
    if (!this.isSingle && this.from && this.to) this.onCompare(this.from, this.to);
  }

  draw() {
    const { rows, outcomes } = this;
    if (!rows.length) {
      this.node.replaceChildren(el('p', { class: 'dim' }, 'No revision is stored yet.'));
      return;
    }
    const heads = [...this.isSingle ? [] : ['From', 'To'], 'Revision', 'Served since', ...COUNTS];
    this.node.replaceChildren(
      el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Revisions and outcomes' }, el('table', {},
        el('thead', {}, el('tr', {}, heads.map((text) => el('th', { scope: 'col' }, text)))),
        el('tbody', {}, rows.slice(0, this.shown).map((r) => this.drawRow(r))))),
      rows.length > this.shown && this.shown < MAX_DRAWN ? el('button', { type: 'button', class: 'quiet', onclick: () => (this.shown = MAX_DRAWN, this.draw()) }, `Show ${Math.min(rows.length, MAX_DRAWN) - this.shown} more`) : '',
      el('p', { class: 'dim' }, [
        outcomes.error && `Outcomes: ${escapeControls(outcomes.error)}.`,
        outcomes.more && `Outcomes of the latest ${outcomes.sessions} sessions.`,
        this.more > 0 && `${count(this.more, 'older revision')} not listed.`,
        rows.length > MAX_DRAWN && `The first ${MAX_DRAWN} rows.`,
        'The intervals take turns as independent.',
      ].filter(Boolean).join(' ')));
  }

  drawRow({ id, served, row }) {
    const cells = row?.turns ? [row.turns, [percent(row.failedRate), range(row.failedInterval, percent)], mean(row.seconds, row.secondsInterval), row.toolCalls ? `${row.toolErrors} of ${row.toolCalls}` : '', row.asked ? `${row.approved} of ${row.asked}` : '',
      row.scores ? mean(row.score, row.scoreInterval) : '', row.usd ? row.usd.toPrecision(3) : ''] : [0];
    return el('tr', { 'data-serving': id === this.serving ? 'yes' : null },
      !this.isSingle && ['from', 'to'].map((side) => el('td', { class: 'tick', 'data-head': side }, served ? this.choice(side, id) : '')),
      el('th', { scope: 'row' }, id ? revision(id) : el('span', { class: 'dim' }, 'unknown'), id === this.serving && el('span', { class: 'own' }, 'serves')),
      el('td', { 'data-head': 'Served since' }, served ? el('time', { datetime: served }, formatDate(served)) : el('span', { class: 'dim' }, 'not stored')),
      COUNTS.map((head, i) => el('td', { 'data-head': head, title: i === 1 && row?.failures?.slice(0, 8).map((f) => `${escapeControls(f.code)} (${f.turns})`).join(', ') }, cells[i] ?? '')));
  }

  choice(side, id) {
    const box = el('input', { type: 'radio', name: `revision-${side}`, 'aria-label': `Compare ${side} ${short(id)}`, 'data-key': `${side} ${id}`, onchange: () => (this[side] = id, this.compare()) });
    box.checked = this[side] === id;
    return box;
  }
}

/** formatDate formats a day and time. */
export const formatDate = (time) => new Date(time).toLocaleString([], { dateStyle: 'short', timeStyle: 'short' });

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const range = (interval, format) => interval && el('span', { class: 'range' }, `${format(interval.low)} to ${format(interval.high)}`);
const mean = (value, interval) => [value.toFixed(2), range(interval, (n) => n.toFixed(2))];

// A difference of two revisions.

/** drawDiff draws a comparison: the changed fields, then the lines of the files. */
export function drawDiff(diff, title) {
  const names = [title ? revision(diff.from) : revision(diff.from), ' → ', title ? el('span', {}, title) : revision(diff.to)];
  const isSame = diff.from === diff.to;
  return el('section', { 'aria-label': 'Differences', class: 'differences' }, el('h2', {}, names),
    isSame ? el('p', { class: 'dim' }, 'Choose two different revisions.')
      : !diff.files.length && !diff.changes.length ? el('p', { class: 'dim' }, 'The files are the same; a variable or .env differs.') : '',
    diff.changes.length > 0 && el('h3', {}, 'Agents'), diff.changes.slice(0, MAX_DRAWN).map(difference),
    diff.changes.length > MAX_DRAWN && el('p', { class: 'dim' }, `${diff.changes.length - MAX_DRAWN} more changes are not shown.`),
    diff.files.length > 0 && el('h3', {}, 'Files'),
    diff.files.map((f, i) => fold([escapeControls(f.name), ' ', el('span', { class: 'dim' }, f.what)], () => drawFileChange(f), { open: i < 3 && !f.omitted })),
    diff.moreFiles > 0 && el('p', { class: 'dim' }, `${count(diff.moreFiles, 'more file')} not shown.`));
}

function drawFileChange(f) {
  if (f.omitted) return el('p', { class: 'dim' }, `No lines: ${f.omitted}.`);
  const lines = f.what === 'changed' ? hunks(f.before ?? '', f.after ?? '') : [[f.what === 'added' ? 'is' : 'was', f.after ?? f.before ?? '']];
  return el('div', { class: 'diff' }, joinLines(lines).map(([sign, text]) => block(escapeControls(text || ' '), sign)));
}

// joinLines draws neighbours with one sign as one element: a diff may have thousands of lines.
function joinLines(lines) {
  const joined = [];
  for (const [sign, text] of lines) {
    if (joined.at(-1)?.[0] === sign && sign === 'same') joined.at(-1)[1] += `\n${text}`;
    else joined.push([sign, text]);
  }
  if (joined.length <= 2000) return joined;
  return [...joined.slice(0, 2000), ['same', `… ${joined.length - 2000} more lines`]];
}
