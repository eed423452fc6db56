// The list of apps with their health, and the changes of their files.

import { el, fold, block, short, clock, count } from './dom.js';
import { hunks } from './diff.js';
import { escapeControls } from './text.js';

/** health returns ok, warned, waiting, held, gone, stale or down. */
export function health(app) {
  if (app.unreadable) return app.revision ? 'gone' : 'down';
  if (app.waiting) return app.held ? 'held' : 'waiting';
  if (!app.ok) return app.revision ? 'stale' : 'down';
  return app.diagnostics.length ? 'warned' : 'ok';
}

const RECENT = 5;
const MARKS = { ok: '●', warned: '●', waiting: '◐', held: '◐', gone: '▲', stale: '▲', down: '■' };

const WORDS = {
  ok: 'running',
  warned: 'running, with warnings',
  waiting: 'changed files wait for a reload',
  held: 'running, with a change that is held',
  gone: 'its folder is gone or cannot be read: the last good revision keeps running',
  stale: 'errors in the files: the last good revision keeps running',
  down: 'errors in the files: not running',
};

/** mark returns the symbol of an app's health. */
export const mark = (app) => el('span', { class: 'mark', 'data-health': health(app), title: WORDS[health(app)] }, MARKS[health(app)]);

/** drawApps draws the list of apps. */
export function drawApps(nav, apps, chosen, choose) {
  const filter = nav.querySelector('input')?.value ?? '';
  const focus = document.activeElement?.closest?.('#apps button')?.dataset.app;
  const writing = document.activeElement === nav.querySelector('input');
  const list = el('ul', {}, apps.map((app) => el('li', {}, el('button', {
    type: 'button', 'data-app': app.app, 'aria-current': app.app === chosen ? 'page' : null, onclick: () => choose(app.app),
  }, mark(app), el('span', { class: 'name' }, app.app), problemCount(app)))));
  const narrow = () => {
    const text = (field?.value ?? '').toLowerCase();
    for (const item of list.children) item.hidden = !item.textContent.toLowerCase().includes(text);
  };
  const field = apps.length > 8 ? el('input', { type: 'search', placeholder: `${apps.length} apps`, 'aria-label': 'Filter apps', oninput: narrow }) : null;
  if (field) field.value = filter;
  nav.replaceChildren(...[field, list].filter(Boolean));
  if (!apps.length) nav.append(el('p', { class: 'dim' }, 'No apps yet.'));
  narrow();
  if (writing) field?.focus();
  if (focus) list.querySelector(`[data-app="${CSS.escape(focus)}"]`)?.focus();
}

function problemCount(app) {
  const n = app.diagnostics.filter((d) => d.severity === 'error').length;
  return n > 0 && el('span', { class: 'count', title: count(n, 'error') }, n);
}

/** drawHead shows the selected app and its health. */
export function drawHead(section, app, info, reload) {
  if (!app) {
    section.replaceChildren(el('h1', {}, 'No apps yet'),
      el('p', {}, 'An app is a folder with a ', el('code', {}, 'root_agent.yaml'), ' or an ', el('code', {}, 'app.yaml'),
        ', in one of the folders that the server was started with. It appears here when it is saved.'));
    return;
  }
  section.replaceChildren(
    el('h1', {}, app.app),
    el('p', { class: 'facts' }, mark(app), ' ', WORDS[health(app)],
      app.revision && [' · revision ', el('code', { title: app.revision }, short(app.revision))],
      app.waiting && [' · new revision ', el('code', { title: app.waiting }, short(app.waiting)),
        app.held ? `: ${escapeControls(app.held)}` : [' ', el('button', { type: 'button', onclick: reload }, 'Reload now')]]),
    info?.description ? el('p', { class: 'dim' }, info.description) : '');
}

/** drawMissing is shown if the selected app was removed or never existed. */
export function drawMissing(section, name, { isGone, apps, choose }) {
  section.replaceChildren(
    el('h1', { role: 'alert' }, isGone ? `App ${name} is gone` : `No app named ${name}`),
    el('p', {}, isGone ? 'Its folder was removed or renamed. The page stays here: your draft is kept, and the chat works again when the folder is back.'
      : 'The page stays here: it shows the app when its folder appears.'),
    apps.length > 0 ? el('p', {}, 'Apps of this server:') : '',
    el('ul', { class: 'choices' }, apps.map((app) => el('li', {}, el('button', { type: 'button', class: 'quiet', onclick: () => choose(app.app) }, app.app)))));
}

/** drawSignIn asks for a token and explains why the previous one was rejected. */
export function drawSignIn(section, { status, hasToken, enter }) {
  const field = el('input', { type: 'password', 'aria-label': 'Token', placeholder: 'token', autocomplete: 'off', required: true });
  const wrong = status === 403 ? 'The token is valid, but it is not an administrator’s. This page is for administrators.'
    : hasToken ? 'The server does not accept this token: it is wrong or has expired.' : '';
  section.replaceChildren(el('h1', {}, 'Sign in'),
    el('p', {}, 'This server requires authentication. Enter the token of an administrator.'),
    wrong ? el('p', { class: 'bad', role: 'alert' }, wrong) : '',
    el('form', { class: 'bar', onsubmit: (event) => (event.preventDefault(), enter(field.value.trim())) }, field, el('button', { type: 'submit' }, 'Sign in')));
  field.focus();
}

/** headline summarizes a report in one line. */
export function headline(r) {
  if (r.what === 'refused') return r.from ? `rejected: errors in the files, revision ${short(r.from)} keeps running` : 'rejected: errors in the files, not running';
  if (r.what === 'recovered') return `recovered: the files match revision ${short(r.to)} again`;
  if (r.what === 'unreadable') return r.from ? `its folder is gone or cannot be read, revision ${short(r.from)} keeps running` : 'its folder is gone or cannot be read, not running';
  if (r.what === 'removed') return 'removed';
  if (/^(gate|rollout)_/.test(r.what)) return `${r.what.replace('_', ' ')}, revision ${short(r.to)}: ${escapeControls(r.reason ?? '')}${r.by && r.what !== 'gate_passed' ? `, by ${escapeControls(r.by)}` : ''}`;
  if (r.what === 'held') return `held, revision ${short(r.to)}: ${escapeControls(r.reason ?? '')}`;
  if (r.what === 'loaded' && !r.from) return `loaded revision ${short(r.to)}`;
  const all = (r.changes ?? []).map((c) => (c.field ? `${c.where}: ${c.field} ${c.what}` : `${c.where} ${c.what}`));
  const what = all.length > 3 ? [...all.slice(0, 3), `${all.length - 3} more`].join(', ') : all.join(', ');
  return `${r.what === 'loaded' ? 'reloaded' : 'waiting for a reload'}: ${what || 'no agent changed'}`;
}

/** drawChanges lists the reloads of the app, newest first. Older ones are folded. */
export function drawChanges(section, reports) {
  const open = new Set([...section.querySelectorAll('details[open]')].map((d) => d.dataset.number));
  const list = (some) => el('ol', { class: 'reports' }, some.map((r) => report(r, open.has(String(r.number)))));
  const all = reports.toReversed();
  section.replaceChildren(el('h2', {}, 'Changes'),
    all.length ? list(all.slice(0, RECENT)) : el('p', { class: 'dim' }, 'Save a file of the app to see what it changes.'));
  if (all.length > RECENT) section.append(fold(`${all.length - RECENT} older`, () => list(all.slice(RECENT)), { open: open.has('older'), 'data-number': 'older' }));
}

function report(r, open) {
  const line = [el('time', { datetime: r.time }, clock(r.time)), ' ', headline(r)];
  if (!r.changes?.length && !r.files?.length) return el('li', { 'data-what': r.what }, el('p', {}, line));
  return el('li', { 'data-what': r.what }, fold(line, () => [
    el('p', { class: 'dim' }, `${short(r.from)} → ${short(r.to)}`, r.files?.length ? ` · ${r.files.join(', ')}` : ''),
    (r.changes ?? []).map(difference),
  ], { open, 'data-number': r.number }));
}

/** difference shows a changed field with its lines. */
export function difference(c) {
  const place = escapeControls([c.where, c.field].filter(Boolean).join(': '));
  if (c.what !== 'changed') return el('p', {}, `${place} ${c.what}`);
  return el('figure', {}, el('figcaption', {}, place),
    el('div', { class: 'diff' }, hunks(c.before ?? '', c.after ?? '').map(([sign, text]) => block(escapeControls(text) || ' ', sign))));
}
