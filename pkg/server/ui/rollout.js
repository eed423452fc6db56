// The rollout in the view Revisions: how far a change is, what was counted, and what a person can decide.

import { el, short, clock, dataTable } from './dom.js';
import { fetchOK, path } from './wire.js';
import { escapeControls } from './text.js';
import { formatDate } from './revisions.js';

/** drawRollout draws a rollout. */
export function drawRollout(r, page) {
  return el('section', { 'aria-label': 'Rollout', class: 'rollout' }, el('h2', {}, 'Rollout'), drawStatus(r), drawActions(r, page), drawSteps(r), drawConditions(r), drawEvents(r));
}

const percent = (share) => `${+(100 * share).toPrecision(4)} %`;

function drawStatus(r) {
  const words = { running: `runs: ${percent(r.share)} of the new sessions`, paused: `is paused at ${percent(r.share)} of the new sessions`, promoted: 'serves all new sessions', aborted: 'was taken back', damaged: 'has a row that cannot be read' };
  const row = (title, id, n, more) => el('tr', {},
    el('th', { scope: 'row' }, title), el('td', {}, el('code', { title: id }, short(escapeControls(id)))),
    el('td', { 'data-head': 'Counted sessions' }, n, more));
  const extra = [r.counted.selected && `${r.counted.selected} selected by an expression`, r.counted.uncompared && `${r.counted.uncompared} not compared`].filter(Boolean).join(', ');
  return el('div', {},
    el('p', { 'data-status': r.status }, 'The new revision ', el('b', {}, words[r.status] ?? escapeControls(r.status)), r.reason ? ` (${escapeControls(r.reason)})` : '', '.'),
    dataTable('Revisions', ['', 'Revision', 'Counted sessions'], [
      row('Stable', r.stable, r.counted.stable), row('New', r.revision, r.counted.draft, extra && el('span', { class: 'range' }, extra)),
    ]));
}

function drawActions(r, page) {
  const error = el('p', { class: 'bad', role: 'alert' });
  const act = async (action, { currentTarget: button }) => {
    button.disabled = true;
    try {
      await fetchOK('POST', `${path('apps', r.app)}/rollout`, { action });
      await page.refresh();
    } catch (failure) {
      error.textContent = `Nothing was changed: ${failure.message}`;
      button.disabled = false;
    }
  };
  const button = (action, title, about) => el('button', { type: 'button', class: 'quiet', title: about, 'data-key': action, onclick: (event) => act(action, event) }, title);
  return el('div', {}, el('p', { class: 'buttons' },
    r.status === 'running' && button('pause', 'Pause', 'Keep the share; conditions can still take the change back'),
    r.status === 'paused' && button('resume', 'Resume', 'Wait for sessions once more'),
    r.status !== 'promoted' && button('promote', 'Promote', 'All new sessions on the new revision'),
    ['running', 'paused', 'damaged'].includes(r.status) && button('abort', 'Abort', 'All new sessions on the stable revision')), error);
}

function drawSteps(r) {
  const rows = (r.steps ?? []).map((s, i, all) => {
    const isCurrent = s.began && !all[i + 1]?.began && r.next;
    const until = isCurrent ? `not before ${clock(r.next)}${r.missing ? `, ${r.missing} more sessions` : ''}` : '';
    return el('tr', { 'data-serving': isCurrent ? 'yes' : null, 'aria-current': isCurrent ? 'step' : null },
      el('th', { scope: 'row' }, percent(s.share)), el('td', { 'data-head': 'For' }, s.for ?? ''), el('td', { 'data-head': 'Sessions' }, s.min),
      el('td', { 'data-head': 'Began' }, s.began ? formatDate(s.began) : ''), el('td', { 'data-head': 'Ends' }, until));
  });
  return el('section', { 'aria-label': 'Steps' }, el('h3', {}, 'Steps'), dataTable('Steps', ['Share', 'For', 'Sessions', 'Began', 'Ends'], rows));
}

/** drawEvents draws what happened from the gate to the end, the latest last. */
function drawEvents(r) {
  const rows = (r.events ?? []).map((e) => el('tr', { 'data-kind': e.kind },
    el('th', { scope: 'row' }, e.kind.replace('_', ' ')), el('td', { 'data-head': 'Time' }, formatDate(e.time)), el('td', { 'data-head': 'Revision' }, el('code', { title: e.revision }, short(escapeControls(e.revision)))),
    el('td', { 'data-head': 'Share' }, percent(e.share)), el('td', { 'data-head': 'By' }, escapeControls(e.by ?? '')), el('td', { 'data-head': 'Reason', class: 'long' }, escapeControls(e.reason ?? ''))));
  return rows.length > 0 && el('section', { 'aria-label': 'Events' }, el('h3', {}, 'Events'), dataTable('Events', ['Event', 'Time', 'Revision', 'Share', 'By', 'Reason'], rows));
}

function drawConditions(r) {
  const of = (hits, all) => (all ? `${hits} of ${all}` : 'none');
  const rows = (r.conditions ?? []).map((c) => el('tr', {},
    el('th', { scope: 'row', class: 'long' }, el('code', {}, escapeControls(c.condition)), c.percentile ? el('span', { class: 'range' }, `p90 is ${+c.percentile.toPrecision(4)}`) : ''),
    el('td', { 'data-head': 'New' }, of(c.hits, c.sessions)), el('td', { 'data-head': 'Stable' }, of(c.stableHits, c.stableSessions)),
    el('td', { 'data-head': 'Verdict' }, c.exceeded ? el('b', { class: 'bad' }, 'exceeded') : c.sessions ? 'ok' : el('span', { class: 'dim' }, 'no sessions'))));
  return el('section', { 'aria-label': 'Conditions' }, el('h3', {}, 'Conditions'), dataTable('Conditions', ['Condition', 'New', 'Stable', 'Verdict'], rows));
}
