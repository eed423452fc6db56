// Helpers that build the page. Strings are always set as text, never as HTML, so that
// output of models, tools and users cannot become markup.

import { escapeControls, cutText } from './text.js';

const SVG = 'http://www.w3.org/2000/svg';

/** el creates an element; null and false attributes are omitted. */
export function el(tag, attrs = {}, ...children) {
  return filled(document.createElement(tag), attrs, children);
}

/** svg creates an SVG element. */
export function svg(tag, attrs = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attrs, children);
}

function filled(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs)) {
    if (value == null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c != null && c !== false));
  return node;
}

/** byId returns the element with an id. */
export const byId = (id) => document.getElementById(id);

/** fold creates a collapsible section; its body is created on first opening. */
export function fold(summary, body, attrs = {}) {
  const node = el('details', attrs, el('summary', {}, summary));
  const open = () => {
    if (!node.open || node.childElementCount > 1) return;
    node.append(el('div', { class: 'body' }, body()));
  };
  node.addEventListener('toggle', open);
  if (node.open) open();
  return node;
}

/** block shows preformatted text, of which it draws at most 200 000 characters. */
export function block(text, cls = '') {
  const [shown, cut] = cutText(String(text));
  const node = el('pre', { class: cls }, shown);
  return cut ? el('div', {}, node, el('p', { class: 'dim' }, `${cut} more characters are not shown. `, copyButton(() => text))) : node;
}

/** json shows a value as indented JSON. */
export const json = (value) => block(escapeControls(JSON.stringify(value, null, 2) ?? 'undefined'), 'json');

/** inline formats a value as JSON in one short line. */
export function inline(value, width = 80) {
  const text = escapeControls(JSON.stringify(value, (key, part) => (typeof part === 'string' ? part.slice(0, width) : part)) ?? 'undefined');
  return text.length > width ? text.slice(0, width - 1) + '…' : text;
}

/** callText formats a function call in one line. */
export function callText(name, args) {
  const list = Object.entries(args ?? {}).map(([k, v]) => `${escapeControls(k)}: ${inline(v, 40)}`).join(', ');
  return `${escapeControls(name)}(${list.length > 90 ? list.slice(0, 89) + '…' : list})`;
}

/** short abbreviates a revision. */
export const short = (revision) => (revision ?? '').slice(0, 10);

/** clock formats the time of day. */
export const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });

/** hourOf formats the hour and minute. */
export const hourOf = (time) => new Date(time).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false });

/** count formats a number with its noun. */
export const count = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

/** dataTable returns a table with a title for assistive programs, which scrolls by itself. A head may be empty. */
export const dataTable = (title, heads, rows) => el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title }, el('table', {},
  el('thead', {}, el('tr', {}, heads.map((text) => (text ? el('th', { scope: 'col' }, text) : el('td'))))),
  el('tbody', {}, rows)));

/** copyButton copies the text that read returns. */
export function copyButton(read, attrs = {}) {
  const copy = async ({ currentTarget: button }) => {
    await navigator.clipboard.writeText(read());
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  };
  // Browsers offer the clipboard to secure origins and to localhost only.
  return navigator.clipboard ? el('button', { type: 'button', class: 'copy', ...attrs, onclick: copy }, 'Copy') : null;
}

/** confirmed shows a confirmation dialog and resolves to whether the user confirmed. */
export function confirmed({ title, text, action }) {
  const dialog = el('dialog', { 'aria-labelledby': 'dialog-title' },
    el('h2', { id: 'dialog-title' }, title), el('p', {}, text),
    el('div', { class: 'bar' },
      el('button', { type: 'button', class: 'quiet', autofocus: true, onclick: () => dialog.close() }, 'Cancel'),
      el('button', { type: 'button', class: 'danger', onclick: () => dialog.close('yes') }, action)));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener('close', () => {
    dialog.remove();
    resolve(dialog.returnValue === 'yes');
  }, { once: true }));
}
