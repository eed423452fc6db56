// A sheet over the page: details that need more room than the chat has.

import { el } from './dom.js';

/** openSheet shows a node in a sheet, until the user closes it, and returns its dialog. */
export function openSheet(title, ...body) {
  const dialog = el('dialog', { class: 'sheet', 'aria-labelledby': 'sheet-title' },
    el('header', {}, el('h2', { id: 'sheet-title' }, title),
      el('button', { type: 'button', class: 'quiet', 'aria-label': 'Close', onclick: () => dialog.close() }, '×')),
    el('div', { class: 'sheet-body', tabindex: 0 }, body));
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close()); // outside of the sheet
  dialog.addEventListener('close', () => dialog.remove(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector('.sheet-body').focus();
  return dialog;
}

/** loading shows a placeholder until the node that load resolves to, or its error. */
export function loading(load) {
  const node = el('div', { 'aria-live': 'polite' }, el('p', { class: 'dim' }, 'Loading…'));
  load().then((shown) => node.replaceChildren(shown), (error) => node.replaceChildren(el('p', { class: 'bad', role: 'alert' }, error.message)));
  return node;
}
