// The arguments of a call that waits for a person: complete, as they will be used, and in a form
// where the request takes values.

import { el, fold, json } from './dom.js';
import { escapeControls } from './text.js';

const LONG = 2000;

/** drawArguments lists arguments with their whole values. */
export function drawArguments(args) {
  const entries = Object.entries(args ?? {});
  if (!entries.length) return el('p', { class: 'dim' }, 'without arguments');
  return el('dl', { class: 'args' }, entries.flatMap(([name, value]) => [el('dt', {}, escapeControls(name)), el('dd', {}, drawValue(value))]));
}

function drawValue(value) {
  const text = escapeControls(typeof value === 'string' ? value : JSON.stringify(value, null, 2));
  const shown = el('pre', {}, text);
  return text.length > LONG ? fold(`${text.slice(0, 200)}… (${text.length} characters)`, () => shown) : shown;
}

/**
 * newFields creates fields for an object's values. A JSON Schema with properties names their
 * types, choices and titles. read returns the object with the edited values, or throws an error.
 * mark marks the fields that an error names, and moves to the first one.
 */
export function newFields(values, schema = {}) {
  const names = [...new Set([...Object.keys(schema.properties ?? {}), ...Object.keys(values ?? {})])];
  const fields = names.map((name) => newField(name, values?.[name], schema.properties?.[name] ?? {}, (schema.required ?? []).includes?.(name)));
  return {
    node: el('div', { class: 'fields' }, fields.map((f) => el('label', {}, el('span', {}, escapeControls(f.title)), f.node))),
    read: () => Object.fromEntries(fields.map((f) => [f.name, f.read()]).filter(([, value]) => value !== undefined)),
    mark: (message, line) => markFields(fields, namesIn(message), line),
  };
}

// namesIn returns the words at which an error names a value: "fields X: amount: got null; note.text: …",
// "missing amount, note", "Note is not valid JSON: …".
const namesIn = (message) => new Set(message.split(/[;:,]\s+/).flatMap((part) => {
  const name = part.replace(/^missing /, '').replace(/ is not valid JSON$/, '');
  return [name, name.split('.')[0]];
}));

function markFields(fields, names, line) {
  const wrong = fields.filter((f) => names.has(f.name) || names.has(f.title));
  for (const { node } of fields) {
    node.removeAttribute('aria-invalid');
    node.removeAttribute('aria-describedby');
  }
  for (const { node } of wrong) {
    node.setAttribute('aria-invalid', 'true');
    node.setAttribute('aria-describedby', line.id);
  }
  wrong[0]?.node.focus();
}

function newField(name, value, schema, isRequired) {
  const type = schema.type ?? (value === null || value === undefined ? 'string' : Array.isArray(value) ? 'array' : typeof value);
  const title = schema.title ?? name;
  const attrs = { 'aria-label': escapeControls(title), title: schema.description, required: isRequired };
  if (type === 'boolean') {
    const node = el('input', { ...attrs, required: null, type: 'checkbox', checked: value === true });
    return { name, title, node, read: () => node.checked };
  }
  if (Array.isArray(schema.enum)) {
    const node = el('select', attrs, value == null && !isRequired ? el('option', { value: '' }, '') : null, schema.enum.map((option) => el('option', {}, String(option))));
    if (value != null) node.value = String(value);
    return { name, title, node, read: () => schema.enum.find((option) => String(option) === node.value) };
  }
  if (type === 'number' || type === 'integer') {
    const node = el('input', { ...attrs, type: 'number', step: type === 'integer' ? 1 : 'any', min: schema.minimum, max: schema.maximum, value: value ?? '' });
    return { name, title, node, read: () => (node.value === '' ? undefined : Number(node.value)) };
  }
  if (type === 'string') {
    const isLong = String(value ?? '').length > 60 || String(value ?? '').includes('\n');
    const node = el(isLong ? 'textarea' : 'input', { ...attrs, autocomplete: 'off', rows: isLong ? 3 : null, maxlength: schema.maxLength });
    node.value = value ?? '';
    return { name, title, node, read: () => (node.value === '' && value == null ? undefined : node.value) };
  }
  const node = el('textarea', { ...attrs, rows: 3, spellcheck: 'false' });
  node.value = value === undefined ? '' : JSON.stringify(value, null, 2);
  return { name, title, node, read: () => readJSON(title, node.value) };
}

function readJSON(title, text) {
  if (!text.trim()) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${title} is not valid JSON: ${error.message}`);
  }
}

/** payloadFields creates fields for the payload of a confirmation, which the tool lets a person edit. */
export function payloadFields(payload) {
  if (payload === null || typeof payload !== 'object' || Array.isArray(payload)) {
    const one = newFields({ value: payload });
    return { ...one, read: () => one.read().value ?? null };
  }
  // The question of an MCP server has the form of its answer next to it.
  const schema = Object.values(payload).map((part) => part?.requestedSchema).find((s) => s && typeof s === 'object');
  if (schema && payload.content && typeof payload.content === 'object') {
    const content = newFields(payload.content, schema);
    return { ...content, read: () => ({ ...payload, content: content.read() }) };
  }
  const all = newFields(payload);
  return { ...all, read: () => ({ ...payload, ...all.read() }) };
}
