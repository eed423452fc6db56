// The list of sessions: found by title, text and day.

import { el, hourOf } from './dom.js';
import { path } from './wire.js';
import { titleOf } from './titles.js';

const SHOWN = 100;
const DAY = 86_400_000;

const TIMES = [
  ['', 'Any time', () => true],
  ['today', 'Today', (age) => age === 0],
  ['yesterday', 'Yesterday', (age) => age === 1],
  ['week', 'Last 7 days', (age) => age < 7],
  ['older', 'Older', (age) => age >= 7],
];

/** A SessionList draws the sessions of a chat, and those that its search and time select. */
export class SessionList {
  constructor(root, chat) {
    Object.assign(this, { root, chat, shown: SHOWN, drawn: '' });
    this.search = el('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search sessions', spellcheck: 'false', autocomplete: 'off', oninput: () => this.draw(true) });
    this.time = el('select', { 'aria-label': 'Time', onchange: () => this.draw(true) }, TIMES.map(([value, name]) => el('option', { value }, name)));
    this.user = el('input', { 'aria-label': 'User', title: 'User ID of the sessions', spellcheck: 'false', autocomplete: 'off', onchange: () => this.setUser(this.user.value.trim() || 'user') });
    this.found = el('div', { class: 'found' });
    root.append(
      el('h2', {}, 'Sessions', el('button', { type: 'button', class: 'quiet', title: 'New session', onclick: () => chat.startSession() }, 'New')),
      el('div', { class: 'bar' }, this.search, this.time), this.found, el('label', { class: 'user' }, 'User', this.user));
  }

  /** draw lists the sessions, if they differ from the drawn ones. */
  draw(isFiltered = false) {
    const { talk, bar: { deletions } } = this.chat;
    if (isFiltered) this.shown = SHOWN;
    this.root.hidden = !talk.app;
    if (document.activeElement !== this.user) this.user.value = talk.user;
    const hits = talk.sessions.filter((s) => !deletions.has(talk.addressOf(s.id)) && this.matches(s));
    const state = JSON.stringify([talk.app, talk.id, this.shown, this.time.value, new Date().toDateString(), hits.map((s) => [s.id, s.lastUpdateTime, titleOf(s)])]);
    if (state === this.drawn) return;
    this.drawn = state;
    const focused = this.found.contains(document.activeElement) ? document.activeElement.dataset.session : undefined;
    const days = Map.groupBy(hits.slice(0, this.shown), (s) => dayOf(s.lastUpdateTime * 1000));
    this.found.replaceChildren(
      ...[...days].flatMap(([day, some]) => [el('h3', {}, day), el('ul', {}, some.map((s) => this.row(s)))]),
      hits.length > this.shown ? el('button', { type: 'button', class: 'quiet more', onclick: () => { this.shown += SHOWN; this.draw(); } }, `${hits.length - this.shown} more`) : '',
      hits.length ? '' : el('p', { class: 'dim empty' }, talk.sessions.length ? 'No session matches.' : 'No sessions yet.'));
    if (focused) this.found.querySelector(`[data-session="${CSS.escape(focused)}"]`)?.focus();
  }

  row(session) {
    const { talk } = this.chat;
    const time = session.lastUpdateTime * 1000;
    return el('li', {}, el('a', { href: `#${path(talk.app, session.id)}`, 'data-session': session.id, 'aria-current': session.id === talk.id ? 'page' : null, title: titleOf(session) },
      el('span', {}, titleOf(session)), el('time', { datetime: new Date(time).toISOString() }, hourOf(time))));
  }

  // matches compares with the title, the ID and the state.
  matches(session) {
    const [, , isIn] = TIMES.find(([value]) => value === this.time.value);
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!isIn(ageOf(session.lastUpdateTime * 1000))) return false;
    if (!words.length) return true;
    const text = `${titleOf(session)} ${session.id} ${JSON.stringify(session.state ?? {})}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }

  setUser(user) {
    this.chat.talk.user = user;
    this.chat.open(this.chat.app, '');
  }
}

// ageOf counts midnights since a time.
function ageOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  return time >= midnight ? 0 : Math.ceil((midnight - time) / DAY);
}

function dayOf(time) {
  const age = ageOf(time);
  if (age < 2) return age === 0 ? 'Today' : 'Yesterday';
  return new Date(time).toLocaleDateString([], age < 7 ? { weekday: 'long' } : { dateStyle: 'medium' });
}
