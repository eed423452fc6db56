// The state of the session, by how far its keys reach. Those that begin with
// temp: are never told: they end with the run, and no event has them.

import { el, fold, json, inline } from './dom.js';

const SCOPES = [
  ['', 'session', 'this session'],
  ['user:', 'user:', 'all sessions of this user'],
  ['app:', 'app:', 'everyone'],
];

/** A Sight is the state as it is seen, and what of it has changed of late. */
export class Sight {
  constructor() {
    this.clear();
  }

  clear() {
    this.values = {};
    this.changed = new Map(); // key → what it was; undefined where it was not
  }

  /** begin forgets what has changed. */
  begin() {
    this.changed.clear();
  }

  /** set is what is stored now. */
  set(values) {
    this.values = { ...values };
  }

  /** apply takes in what an event changed. */
  apply(delta) {
    for (const [key, value] of Object.entries(delta ?? {})) {
      const before = this.values[key];
      if (JSON.stringify(before) === JSON.stringify(value ?? undefined)) continue;
      if (!this.changed.has(key)) this.changed.set(key, before);
      if (value === null) delete this.values[key];
      else this.values[key] = value;
    }
  }
}

/** drawState shows the state; keys that changed with the last run are marked. */
export function drawState(section, sight) {
  const open = new Set([...section.querySelectorAll('details[open]')].map((d) => d.dataset.key));
  const keys = [...new Set([...Object.keys(sight.values), ...sight.changed.keys()])].sort();
  const scoped = SCOPES.map(([prefix, name, reach]) => [name, reach, keys.filter((key) => scopeOf(key) === prefix)]).filter(([, , own]) => own.length);
  section.replaceChildren(el('h2', {}, 'State'), ...scoped.map(([name, reach, own]) => el('table', {},
    el('caption', {}, el('code', {}, name), ` ${reach}`),
    el('tbody', {}, own.map((key) => row(key, sight, open.has(key)))))));
  if (!scoped.length) section.append(el('p', { class: 'dim' }, 'Nothing is kept yet.'));
}

const scopeOf = (key) => SCOPES.map(([prefix]) => prefix).find((p) => p && key.startsWith(p)) ?? '';

function row(key, sight, open) {
  const changed = sight.changed.has(key);
  const gone = !(key in sight.values);
  const was = sight.changed.get(key);
  return el('tr', { class: changed ? 'changed' : null },
    el('th', { scope: 'row' }, key.slice(scopeOf(key).length)),
    el('td', {}, gone ? el('del', {}, inline(was)) : shown(key, sight.values[key], open),
      changed && el('span', { class: 'was' }, gone ? 'removed' : was === undefined ? 'new' : `was ${inline(was, 60)}`)));
}

function shown(key, value, open) {
  const text = inline(value, 1e6);
  if (text.length <= 90) return el('code', {}, text);
  return fold(el('code', {}, inline(value, 80)), () => (typeof value === 'string' ? el('pre', {}, value) : json(value)), { open, 'data-key': key });
}
