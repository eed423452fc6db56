// The state of the session by scope, and who wrote each key. temp: keys are not shown: they exist
// only during the run, and events do not contain them.

import { el, fold, json, inline, hourOf } from './dom.js';
import { METADATA } from './titles.js';
import { findSources, addSources } from './sources.js';
import { escapeControls } from './text.js';

const SCOPES = [
  ['', 'session', 'this session'],
  ['user:', 'user:', 'all sessions of this user'],
  ['app:', 'app:', 'all users of the app'],
];

/** A StatePanel shows and edits the state and marks the changes of the last run. */
export class StatePanel {
  /** save(next, before) stores the edited state or throws an error; showEvent(id) scrolls to an event. */
  constructor(section, { save, showEvent }) {
    Object.assign(this, { save, showEvent, editor: el('div'), tables: el('div') });
    this.edit = el('button', { type: 'button', class: 'quiet', onclick: () => this.openEditor() });
    section.replaceChildren(el('h2', {}, 'State', this.edit), this.editor, this.tables);
    this.clear({}, true);
  }

  /** clear shows another session. A new session will start with values. */
  clear(values, isNew) {
    Object.assign(this, { values: { ...values }, isNew, changed: new Map(), sources: new Map() }); // changed maps keys to their previous values, undefined for new keys
    this.editor.replaceChildren();
    this.draw();
  }

  /** begin clears the marks of changed keys. */
  begin() {
    this.isNew = false;
    this.changed.clear();
    this.draw();
  }

  /** set shows the stored state, and its sources if the events of the session are known. */
  set(values, events) {
    this.values = { ...values };
    this.isNew = false;
    if (events) this.sources = findSources(events);
    this.draw();
  }

  /** apply shows the changes of an event, which is absent if the change is not stored yet. */
  apply(delta, event) {
    if (event) addSources(this.sources, event);
    for (const [key, value] of Object.entries(delta ?? {})) {
      const before = this.values[key];
      if (JSON.stringify(before) === JSON.stringify(value ?? undefined)) continue;
      if (!this.changed.has(key)) this.changed.set(key, before);
      if (value === null) delete this.values[key];
      else this.values[key] = value;
    }
    this.draw();
  }

  draw() {
    const open = new Set([...this.tables.querySelectorAll('details[open]')].map((d) => d.dataset.key));
    const keys = [...new Set([...Object.keys(this.values), ...this.changed.keys()])].filter((key) => key !== METADATA).sort();
    const scoped = SCOPES.map(([prefix, name, reach]) => [name, reach, keys.filter((key) => scopeOf(key) === prefix)]).filter(([, , own]) => own.length);
    this.edit.textContent = this.isNew ? 'Set initial state' : 'Edit';
    this.tables.replaceChildren(...scoped.map(([name, reach, own]) => el('table', {},
      el('caption', {}, el('code', {}, name), ` ${reach}${this.isNew ? ', when it begins' : ''}`),
      el('tbody', {}, own.map((key) => row(this, key, open.has(key)))))));
    if (!scoped.length) this.tables.append(el('p', { class: 'dim' }, this.isNew ? 'A new session begins with empty state.' : 'No state yet.'));
  }

  openEditor() {
    const { [METADATA]: title, ...before } = this.values; // the title is edited at the top
    const text = el('textarea', { 'aria-label': 'State as JSON', rows: 8, spellcheck: 'false' });
    const error = el('p', { class: 'bad', role: 'alert' });
    const close = () => (this.editor.replaceChildren(), this.edit.focus());
    text.value = JSON.stringify(before, null, 2);
    const submit = async (event) => {
      event.preventDefault();
      try {
        await this.save(parseState(text.value), before);
        close();
      } catch (failure) {
        error.textContent = failure.message;
      }
    };
    this.editor.replaceChildren(el('form', {
      class: 'editor', onsubmit: submit,
      onkeydown: (event) => event.key === 'Escape' && (event.stopPropagation(), close()),
    }, text, el('p', { class: 'dim' }, 'A JSON object. A key belongs to this session; with the prefix user: to all sessions of this user, with app: to all users of the app.'), error,
    el('div', { class: 'bar' }, el('button', { type: 'submit' }, 'Save'), el('button', { type: 'button', class: 'quiet', onclick: close }, 'Cancel'))));
    text.focus();
  }
}

/** diffState returns the delta between two states; null removes a key. */
export function diffState(before, after) {
  const delta = {};
  for (const key of Object.keys(before)) if (!(key in after)) delta[key] = null;
  for (const [key, value] of Object.entries(after)) if (JSON.stringify(value) !== JSON.stringify(before[key])) delta[key] = value;
  return delta;
}

function parseState(text) {
  let value;
  try {
    value = JSON.parse(text.trim() || '{}');
  } catch (error) {
    throw new Error(`not valid JSON: ${error.message}`);
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error(`state must be a JSON object, got ${inline(value, 40)}`);
  const passing = Object.keys(value).find((key) => key.startsWith('temp:'));
  if (passing !== undefined) throw new Error(`${inline(passing)} cannot be set here: temp: keys exist only during a run`);
  const nameless = Object.keys(value).find((key) => !key.slice(scopeOf(key).length));
  if (nameless !== undefined) throw new Error(`the key ${inline(nameless)} needs a name after its scope`);
  if (METADATA in value) throw new Error(`the key ${inline(METADATA)} is the session's title: edit it above the chat`);
  const empty = Object.keys(value).find((key) => value[key] === null);
  if (empty !== undefined) throw new Error(`the value of ${inline(empty)} must not be null: remove the key to delete it`);
  return value;
}

const scopeOf = (key) => SCOPES.map(([prefix]) => prefix).find((p) => p && key.startsWith(p)) ?? '';

function row(panel, key, open) {
  const { values, changed } = panel;
  const isChanged = changed.has(key);
  const isGone = !(key in values);
  const was = changed.get(key);
  return el('tr', { class: isChanged ? 'changed' : null },
    el('th', { scope: 'row' }, escapeControls(key.slice(scopeOf(key).length))),
    el('td', {}, isGone ? el('del', {}, inline(was)) : shown(key, values[key], open),
      isChanged && el('span', { class: 'was' }, isGone ? 'removed' : was === undefined ? 'new' : `was ${inline(was, 60)}`), panel.isNew ? '' : source(panel, key)));
}

// source names the writer of a key, with a button that scrolls to its event.
function source({ sources, showEvent }, key) {
  const known = sources.get(key);
  if (!known) return el('p', { class: 'source' }, scopeOf(key) ? 'written before or in another session' : 'set at the start');
  return el('p', { class: 'source' }, el('button', { type: 'button', title: 'Show the event', onclick: () => showEvent(known.eventId) }, escapeControls(known.writer)), known.time ? ` ${hourOf(known.time)}` : '');
}

function shown(key, value, open) {
  const text = inline(value, 1e6);
  if (text.length <= 90) return el('code', {}, text);
  return fold(el('code', {}, inline(value, 80)), () => (typeof value === 'string' ? el('pre', {}, value) : json(value)), { open, 'data-key': key });
}
