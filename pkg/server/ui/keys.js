// The list of keys.

import { el } from './dom.js';
import { usesKeys, setUsesKeys } from './memory.js';

const KEYS = [
  [['Enter'], 'send the message'],
  [['Shift', 'Enter'], 'a new line in the message'],
  [['Esc'], 'stop the answer, close what is open'],
  [['/'], 'write a message'],
  [['?'], 'this list'],
  [['Alt', 'N'], 'new session'],
  [['Alt', 'S'], 'search sessions'],
  [['Alt', 'A'], 'next app'],
  [['←', '↑', '→', '↓'], 'move in the agent tree, Enter selects'],
  [['Tab'], 'next control'],
];

/** openKeys shows the list. */
export function openKeys() {
  const dialog = el('dialog', { class: 'keylist', 'aria-labelledby': 'keys-title' },
    el('h2', { id: 'keys-title' }, 'Keys'),
    el('dl', {}, KEYS.flatMap(([keys, what]) => [el('dt', {}, keys.map((key) => el('kbd', {}, key))), el('dd', {}, what)])),
    el('label', {}, el('input', { type: 'checkbox', checked: usesKeys(), onchange: (event) => setUsesKeys(event.target.checked) }), 'Single keys (/ and ?) are shortcuts'),
    el('div', { class: 'bar' }, el('button', { type: 'button', autofocus: true, onclick: () => dialog.close() }, 'Close')));
  document.body.append(dialog);
  dialog.showModal();
  dialog.addEventListener('close', () => dialog.remove(), { once: true });
}
