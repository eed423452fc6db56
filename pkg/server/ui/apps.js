// The apps: how each is, what is wrong with its files, and what changes of them
// came to.

import { el, fold, block, short, clock, count } from './dom.js';
import { hunks } from './diff.js';

/** health is a word for how an app is: ok, warned, waiting, stale or down. */
export function health(app) {
  if (app.waiting) return 'waiting';
  if (!app.ok) return app.revision ? 'stale' : 'down';
  return app.diagnostics.length ? 'warned' : 'ok';
}

const MARKS = { ok: '●', warned: '●', waiting: '◐', stale: '▲', down: '■' };

const WORDS = {
  ok: 'serves its files',
  warned: 'serves its files, which have warnings',
  waiting: 'its files wait to be let in',
  stale: 'its files have problems: the last good revision serves on',
  down: 'its files have problems, and it does not serve',
};

/** mark is the sign of an app's health, with its words for who cannot see it. */
export const mark = (app) => el('span', { class: 'mark', 'data-health': health(app), title: WORDS[health(app)] }, MARKS[health(app)]);

/** drawApps fills the list of apps. */
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
  const field = apps.length > 8 ? el('input', { type: 'search', placeholder: `${apps.length} apps`, 'aria-label': 'Filter the apps', oninput: narrow }) : null;
  if (field) field.value = filter;
  nav.replaceChildren(...[field, list].filter(Boolean));
  if (!apps.length) nav.append(el('p', { class: 'dim' }, 'No app yet.'));
  narrow();
  if (writing) field?.focus();
  if (focus) list.querySelector(`[data-app="${CSS.escape(focus)}"]`)?.focus();
}

function problemCount(app) {
  const n = app.diagnostics.filter((d) => d.severity === 'error').length;
  return n > 0 && el('span', { class: 'count', title: count(n, 'problem') }, n);
}

/** drawHead says what the chosen app is, and how it is. */
export function drawHead(section, app, info, letIn) {
  if (!app) {
    section.replaceChildren(el('h1', {}, 'No app here yet'),
      el('p', {}, 'An app is a folder with a ', el('code', {}, 'root_agent.yaml'), ' or an ', el('code', {}, 'app.yaml'),
        ', in one of the folders that the host serves. It shows here when it is saved.'));
    return;
  }
  section.replaceChildren(
    el('h1', {}, app.app),
    el('p', { class: 'facts' }, mark(app), ' ', WORDS[health(app)],
      app.revision && [' · revision ', el('code', { title: app.revision }, short(app.revision))],
      app.waiting && [' · waiting ', el('code', { title: app.waiting }, short(app.waiting)), ' ',
        el('button', { type: 'button', onclick: letIn }, 'Let it in')]),
    info?.description ? el('p', { class: 'dim' }, info.description) : '');
}

/** drawDoor asks who looks, where the host wants to know. */
export function drawDoor(section, status, enter) {
  const field = el('input', { type: 'password', 'aria-label': 'Token', placeholder: 'token', autocomplete: 'off', required: true });
  section.replaceChildren(el('h1', {}, 'Who are you?'),
    el('p', {}, status === 403 ? 'That token is no administrator’s, and this page is theirs.' : 'This host knows its callers by a token, and shows this page to administrators.'),
    el('form', { class: 'bar', onsubmit: (event) => (event.preventDefault(), enter(field.value.trim())) }, field, el('button', { type: 'submit' }, 'Enter')));
  field.focus();
}

/** drawProblems shows each problem with its line, its caret and its way out. */
export function drawProblems(section, app) {
  const all = app?.diagnostics ?? [];
  section.hidden = !all.length;
  section.replaceChildren(el('h2', {}, count(all.length, 'problem')), el('ol', {}, all.slice(0, 100).map(problem)));
  if (all.length > 100) section.append(el('p', { class: 'dim' }, `and ${all.length - 100} more`));
}

function problem(d) {
  const place = d.line ? `${d.file}:${d.line}:${d.column}` : d.file;
  return el('li', { class: d.severity },
    el('p', {}, d.severity === 'warning' && el('b', {}, 'warning '), d.message, ' ', el('code', { class: 'rule' }, d.rule)),
    el('p', { class: 'place' }, el('button', { type: 'button', title: 'Copy the place', onclick: () => navigator.clipboard?.writeText(place) }, place)),
    d.line && d.source?.trim() ? snippet(d) : null,
    d.hint && el('p', { class: 'hint' }, d.hint));
}

// The caret hangs below the character, whatever its width.
function snippet(d) {
  const letters = [...d.source];
  const at = d.column - 1;
  return el('pre', { class: 'snippet' }, el('span', { class: 'no', 'aria-hidden': 'true' }, d.line),
    letters.slice(0, at).join(''), el('span', { class: 'at' }, letters[at] ?? ' '), letters.slice(at + 1).join(''));
}

const SAID = { loaded: 'loaded', refused: 'refused', waiting: 'waits to be let in', mended: 'mended', removed: 'removed' };

/** headline is a report in one line. */
export function headline(r) {
  if (r.what === 'refused') return r.from ? `refused: revision ${short(r.from)} serves on` : 'refused: it does not serve';
  if (r.what === 'mended') return `mended: the files are revision ${short(r.to)} again`;
  if (r.what === 'removed' || (r.what === 'loaded' && !r.from)) return r.what === 'loaded' ? `revision ${short(r.to)} serves` : SAID[r.what];
  const said = (r.changes ?? []).map((c) => (c.field ? `${c.where}: ${c.field} ${c.what}` : `${c.where} ${c.what}`));
  const what = said.length > 3 ? [...said.slice(0, 3), `${said.length - 3} more`].join(', ') : said.join(', ');
  return `${SAID[r.what]}: ${what || 'no agent says anything else'}`;
}

/** drawChanges lists what changes of the app's files came to, the newest first. */
export function drawChanges(section, reports) {
  const open = new Set([...section.querySelectorAll('details[open]')].map((d) => d.dataset.number));
  section.replaceChildren(el('h2', {}, 'Changes'),
    reports.length ? el('ol', { class: 'reports', reversed: true }, reports.toReversed().map((r) => report(r, open.has(String(r.number)))))
      : el('p', { class: 'dim' }, 'Save a file of the app, and what it changes is told here.'));
}

function report(r, open) {
  const line = [el('time', { datetime: r.time }, clock(r.time)), ' ', headline(r)];
  if (!r.changes?.length && !r.files?.length) return el('li', { 'data-what': r.what }, el('p', {}, line));
  return el('li', { 'data-what': r.what }, fold(line, () => [
    el('p', { class: 'dim' }, `${short(r.from)} → ${short(r.to)}`, r.files?.length ? ` · ${r.files.join(', ')}` : ''),
    (r.changes ?? []).map(difference),
  ], { open, 'data-number': r.number }));
}

function difference(c) {
  if (c.what !== 'changed') return el('p', {}, c.field ? `${c.where}: ${c.field} ${c.what}` : `${c.where} ${c.what}`);
  return el('figure', {}, el('figcaption', {}, `${c.where}: ${c.field}`),
    el('div', { class: 'diff' }, hunks(c.before ?? '', c.after ?? '').map(([sign, text]) => block(text || ' ', sign))));
}
