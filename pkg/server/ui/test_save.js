// The dialog that makes a test of a session, up to a turn.

import { el, block } from './dom.js';
import { fetchOK } from './wire.js';

/** saveAsTest asks for a name and a file, and saves the session up to an event as a test of the app. */
export function saveAsTest({ sessionAddress, eventId, name }) {
  const nameField = el('input', { required: true, maxlength: 200, 'aria-label': 'Name of the test', autocomplete: 'off', value: name });
  const fileField = el('input', { required: true, 'aria-label': 'File of the test', pattern: '[A-Za-z0-9_\\-]+\\.test\\.yaml', autocomplete: 'off', spellcheck: 'false', value: 'saved.test.yaml', title: 'A name such as saved.test.yaml' });
  const error = el('p', { class: 'bad', role: 'alert' });
  const save = el('button', { type: 'submit' }, 'Save test');
  const about = el('p', { class: 'dim' }, 'The turns up to this one become a test in the app’s folder: the messages, the answers of models and tools, and what is expected.');
  const form = el('form', { onsubmit: submit }, el('label', {}, 'Test ', nameField), el('label', {}, 'File ', fileField), error,
    el('div', { class: 'bar' }, el('button', { type: 'button', class: 'quiet', onclick: () => dialog.close() }, 'Cancel'), save));
  const dialog = el('dialog', { class: 'save', 'aria-labelledby': 'test-title' },
    el('h2', { id: 'test-title' }, 'Make a test of this conversation'),
    about, form);

  async function submit(event) {
    event.preventDefault();
    save.disabled = true;
    error.textContent = '';
    try {
      const saved = await (await fetchOK('POST', `dev/${sessionAddress}/save-test`, { name: nameField.value.trim(), file: fileField.value, eventId })).json();
      about.remove();
      form.replaceWith(drawSaved(saved, () => dialog.close()));
      dialog.querySelector('button').focus();
    } catch (failure) {
      error.textContent = failure.message;
      save.disabled = false;
    }
  }

  dialog.addEventListener('close', () => dialog.remove(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
  nameField.select();
}

function drawSaved({ file, name, text, passed, report, cutOff }, close) {
  return el('div', { class: 'saved' },
    el('p', { role: 'status', class: passed ? null : 'bad' }, `Saved as test “${name}” in ${file}. ${passed ? 'It passes.' : 'It fails with the current files:'}`),
    report && block(report),
    cutOff && el('p', { class: 'dim' }, 'The last turn has no answer and is not part of the test.'),
    block(text),
    el('div', { class: 'bar' }, el('button', { type: 'button', onclick: close }, 'Close')));
}
