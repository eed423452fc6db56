// The view Operations: replicas, running turns, the use of limits, and the last warnings and errors.

import { el, short, clock, count, dataTable } from './dom.js';
import { fetchOK, get, path } from './wire.js';
import { escapeControls } from './text.js';
import { formatDate } from './revisions.js';

const SHOWN = 200;

/** loadOperations fetches what runs, and what the app's turns cost today and yesterday. */
export async function loadOperations(app) {
  const [operations, cost] = await Promise.all([get('-/operations'), get(`${path('apps', app, 'outcomes')}?by=day&since=1d`).catch((error) => ({ error: error.message }))]);
  return { app, operations, cost };
}

/** drawOperations draws the view. */
export function drawOperations({ app, operations: o, cost }, page) {
  return el('div', { class: 'columns' },
    el('div', {}, drawTurns(o, page), drawReplicas(o)),
    el('div', {}, drawLog(o), drawUsage(o, app, cost)));
}

const part = (title, ...body) => el('section', { 'aria-label': title }, el('h2', {}, title), body);

// The turns, each with a button that stops it.

function drawTurns(o, page) {
  const error = el('p', { class: 'bad', role: 'alert' });
  const stop = async (turn, { currentTarget: button }) => {
    button.disabled = true;
    try {
      await fetchOK('POST', `${path('apps', turn.app, 'users', turn.user, 'sessions', turn.session)}/stop`);
      await ended(turn);
      await page.refresh();
    } catch (failure) {
      error.textContent = `The turn was not stopped: ${failure.message}`;
      button.disabled = false;
    }
  };
  const here = o.replicas.find((r) => r.here)?.name;
  const rows = o.turns.slice(0, SHOWN).map((t) => el('tr', {},
    el('th', { scope: 'row' }, el('a', { href: `#${path(t.app, t.session)}`, title: 'Open the session' }, escapeControls(t.app))),
    el('td', { class: 'long', 'data-head': 'Session' }, escapeControls(t.session), el('span', { class: 'range' }, `user ${escapeControls(t.user)}`)),
    el('td', { 'data-head': 'Since' }, t.began ? `${clock(t.began)}, ${duration(o.time, t.began)}` : ''),
    el('td', { 'data-head': 'Replica' }, t.replica === here ? 'this one' : escapeControls(t.replica)),
    el('td', {}, el('button', { type: 'button', class: 'quiet', 'aria-label': `Stop the turn of session ${escapeControls(t.session)}`, 'data-key': `stop ${t.app} ${t.user} ${t.session}`, onclick: (event) => stop(t, event) }, 'Stop'))));
  const more = o.turns.length - rows.length + (o.moreTurns ?? 0);
  return el('section', { 'aria-label': 'Running turns' },
    el('h2', {}, 'Running turns', el('button', { type: 'button', class: 'quiet', 'data-key': 'refresh', onclick: () => page.refresh() }, 'Refresh')),
    rows.length ? dataTable('Turns', ['App', 'Session', 'Since', 'Replica', ''], rows) : el('p', { class: 'dim' }, 'No turn runs.'),
    more > 0 && el('p', { class: 'dim' }, `${count(more, 'more turn')} not shown.`), error);
}

// ended waits until a stopped turn is not listed any more, for five seconds at most: it still stores
// that it was stopped.
async function ended({ app, user, session }) {
  for (let n = 0; n < 20; n++) {
    const { turns } = await get('-/operations');
    if (!turns.some((t) => t.app === app && t.user === user && t.session === session)) return;
    await new Promise((done) => { setTimeout(done, 250); });
  }
}

function duration(now, from) {
  const seconds = Math.max(0, Math.round((new Date(now) - new Date(from)) / 1000));
  return seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

// The replicas: more than turns is known only of the one that responds.

function drawReplicas(o) {
  const rows = o.replicas.slice(0, SHOWN).map((r) => el('tr', { 'data-serving': r.here ? 'yes' : null },
    el('th', { scope: 'row', class: 'long' }, el('code', {}, escapeControls(r.name)), r.here && el('span', { class: 'own' }, 'this one')),
    el('td', { 'data-head': 'Version' }, r.here ? escapeControls(r.version) : el('span', { class: 'dim' }, 'not known')),
    el('td', { 'data-head': 'Started' }, r.started ? `${formatDate(r.started)}, ${duration(o.time, r.started)}` : ''),
    el('td', { 'data-head': 'Turns' }, r.turns),
    el('td', { 'data-head': 'Heap' }, r.memory ? bytes(r.memory) : ''),
    el('td', { 'data-head': 'State' }, r.draining ? 'shutting down' : r.here ? 'running' : 'runs turns')));
  const apps = o.replicas.find((r) => r.here)?.apps ?? [];
  return part('Replicas', dataTable('Replicas', ['Replica', 'Version', 'Started', 'Turns', 'Heap', 'State'], rows),
    el('p', { class: 'dim' }, o.leases ? `Other replicas are not known: ${escapeControls(o.leases)}.` : 'Other replicas are listed while they hold a session lease. Their versions are not stored, and idle ones are not known.'),
    apps.length > 0 && el('p', { class: 'dim' }, 'This replica serves ', apps.slice(0, SHOWN).map((a, i) => [i > 0 && ', ', escapeControls(a.app), ' ', el('code', { title: a.revision }, short(escapeControls(a.revision)))])));
}

function bytes(n) {
  return n < 1 << 20 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`;
}

// The use of limits, and the cost of the app.

function drawUsage(o, app, cost) {
  const amount = (u, n) => (u.unit === 'bytes' ? bytes(n) : `${n} ${escapeControls(u.unit)}`);
  const rows = o.usage.slice(0, SHOWN).map((u) => el('tr', {},
    el('th', { scope: 'row', class: 'long' }, escapeControls(u.name)),
    el('td', { 'data-head': 'Used' }, amount(u, u.used)),
    el('td', { 'data-head': 'Limit' }, u.max ? [amount(u, u.max), ' ', el('meter', { value: u.used, max: u.max, high: u.max * 0.8, 'aria-label': `${escapeControls(u.name)}: ${u.used} of ${u.max}` })] : el('span', { class: 'dim' }, 'none'))));
  const days = (cost.rows ?? []).map((r) => `${r.day}: ${count(r.turns, 'turn')}, $${r.usd.toFixed(4)}${r.priced < r.calls ? ` for ${r.priced} of ${r.calls} model calls with a price` : ''}`);
  return part('Limits and cost', dataTable('Limits', ['Limit of', 'Used', 'Limit'], rows),
    el('p', { class: 'dim' }, o.maxRunTime ? `Turns end after ${o.maxRunTime}.` : 'Turns have no time limit.'),
    el('p', { class: 'dim' }, cost.error ? `Cost of ${app}: ${escapeControls(cost.error)}` : `Cost of ${app} by UTC day: ${days.join('; ') || 'no turn since yesterday'}.`));
}

// The log.

function drawLog(o) {
  return part('Warnings and errors', el('p', { class: 'dim' }, o.logged ? `${o.logged} since the start of this replica, the last ${o.log.length} below, newest first. Credentials are redacted where they are recognized.` : 'None since the start of this replica.'),
    el('ol', { class: 'logged' }, o.log.slice(0, SHOWN).map((e) => el('li', { 'data-level': e.level },
      el('p', {}, el('time', { datetime: e.time, title: formatDate(e.time) }, clock(e.time)), ' ', el('b', {}, escapeControls(e.level)), ' ', escapeControls(e.message)),
      e.attrs?.length && el('p', { class: 'dim' }, e.attrs.map((text) => escapeControls(text)).join(' · '))))));
}
