// The state of the session by scope. temp: keys are not shown: they exist only during
// the run, and events do not contain them.

import { el, fold, json, inline } from './dom.js';

const SCOPES = [
  ['', 'session', 'this session'],
  ['user:', 'user:', 'all sessions of this user'],
  ['app:', 'app:', 'all users of the app'],
];

/** A StatePanel shows and edits the state and marks the changes of the last run. */
export class StatePanel {
  /** save(next, before) stores the edited state or throws an error. */
  constructor(section, save) {
    Object.assign(this, { save, editor: el('div'), tables: el('div') });
    this.edit = el('button', { type: 'button', class: 'quiet', onclick: () => this.openEditor() });
    section.replaceChildren(el('h2', {}, 'State', this.edit), this.editor, this.tables);
    this.clear({}, true);
  }

  /** clear shows another session. A new session will start with values. */
  clear(values, isNew) {
    Object.assign(this, { values: { ...values }, isNew, changed: new Map() }); // changed maps keys to their previous values, undefined for new keys
    this.editor.replaceChildren();
    this.draw();
  }

  /** begin clears the marks of changed keys. */
  begin() {
    this.isNew = false;
    this.changed.clear();
    this.draw();
  }

  /** set shows the stored state. */
  set(values) {
    this.values = { ...values };
    this.isNew = false;
    this.draw();
  }

  /** apply shows the changes of an event. */
  apply(delta) {
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
    const keys = [...new Set([...Object.keys(this.values), ...this.changed.keys()])].sort();
    const scoped = SCOPES.map(([prefix, name, reach]) => [name, reach, keys.filter((key) => scopeOf(key) === prefix)]).filter(([, , own]) => own.length);
    this.edit.textContent = this.isNew ? 'Set initial state' : 'Edit';
    this.tables.replaceChildren(...scoped.map(([name, reach, own]) => el('table', {},
      el('caption', {}, el('code', {}, name), ` ${reach}${this.isNew ? ', when it begins' : ''}`),
      el('tbody', {}, own.map((key) => row(this, key, open.has(key)))))));
    if (!scoped.length) this.tables.append(el('p', { class: 'dim' }, this.isNew ? 'A new session begins with empty state.' : 'No state yet.'));
  }

  openEditor() {
    const before = { ...this.values };
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
    }, text, el('p', { class: 'dim' }, 'A JSON object. The prefixes user: and app: set the scope of a key.'), error,
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
  const empty = Object.keys(value).find((key) => value[key] === null);
  if (empty !== undefined) throw new Error(`the value of ${inline(empty)} must not be null: remove the key to delete it`);
  return value;
}

const scopeOf = (key) => SCOPES.map(([prefix]) => prefix).find((p) => p && key.startsWith(p)) ?? '';

function row({ values, changed }, key, open) {
  const isChanged = changed.has(key);
  const isGone = !(key in values);
  const was = changed.get(key);
  return el('tr', { class: isChanged ? 'changed' : null },
    el('th', { scope: 'row' }, key.slice(scopeOf(key).length)),
    el('td', {}, isGone ? el('del', {}, inline(was)) : shown(key, values[key], open),
      isChanged && el('span', { class: 'was' }, isGone ? 'removed' : was === undefined ? 'new' : `was ${inline(was, 60)}`)));
}

function shown(key, value, open) {
  const text = inline(value, 1e6);
  if (text.length <= 90) return el('code', {}, text);
  return fold(el('code', {}, inline(value, 80)), () => (typeof value === 'string' ? el('pre', {}, value) : json(value)), { open, 'data-key': key });
}
