// The dialog that makes a case of a conversation.

import { el } from './dom.js';
import { fetchOK, get, path } from './wire.js';

const NEW = '';

/** saveAsCase asks for a name and a set, and resolves to the file of the set, or ''. */
export async function saveAsCase({ app, user, session, name }) {
  const overview = await get(path('-', 'evals', app));
  const sets = overview.sets.filter((s) => s.editable);
  const error = el('p', { class: 'bad', role: 'alert' }, overview.locked ?? '');
  const caseField = el('input', { required: true, maxlength: 200, 'aria-label': 'Name of the case', autocomplete: 'off', spellcheck: 'false', value: caseName(name) });
  const newField = el('input', { 'aria-label': 'Name of the new set', pattern: '[A-Za-z0-9_]+', maxlength: 100, autocomplete: 'off', spellcheck: 'false', placeholder: 'letters, digits and _', value: sets.length ? '' : 'conversations' });
  const choice = el('select', { 'aria-label': 'Eval set' }, sets.map((s) => el('option', { value: s.id }, `${s.id} · ${s.cases ?? '?'} cases`)), el('option', { value: NEW }, 'New set…'));
  const newRow = el('label', {}, 'New set ', newField);
  const update = () => { newRow.hidden = choice.value !== NEW; newField.required = choice.value === NEW; };
  choice.addEventListener('change', () => (update(), choice.value === NEW && newField.focus()));
  update();
  const save = el('button', { type: 'submit', disabled: !!overview.locked }, 'Save case');
  const dialog = el('dialog', { class: 'save', 'aria-labelledby': 'save-title' },
    el('h2', { id: 'save-title' }, 'Make a case of this conversation'),
    el('p', { class: 'dim' }, 'Its turns become the expected turns of the case. Edit the set to change what is expected.'),
    el('form', { onsubmit: (event) => submit(event) }, el('label', {}, 'Case ', caseField), el('label', {}, 'Set ', choice), newRow, error,
      el('div', { class: 'bar' }, el('button', { type: 'button', class: 'quiet', onclick: () => dialog.close() }, 'Cancel'), save)));

  async function submit(event) {
    event.preventDefault();
    save.disabled = true;
    error.textContent = '';
    try {
      const set = choice.value || newField.value;
      if (choice.value === NEW) await fetchOK('POST', path('dev', 'apps', app, 'eval-sets'), { evalSet: { eval_set_id: set, eval_cases: [] } });
      if (choice.value === NEW) { // a second attempt uses the set that exists now
        choice.prepend(el('option', { value: set }, set));
        choice.value = set;
        update();
      }
      await fetchOK('POST', path('dev', 'apps', app, 'eval-sets', set, 'add-session'), { evalId: caseField.value.trim(), sessionId: session, userId: user });
      dialog.close(`${set}.evalset.json`);
    } catch (failure) {
      error.textContent = failure.message;
      save.disabled = false;
    }
  }

  document.body.append(dialog);
  dialog.showModal();
  caseField.select();
  return new Promise((resolve) => dialog.addEventListener('close', () => {
    dialog.remove();
    resolve(dialog.returnValue);
  }, { once: true }));
}

// caseName derives a name from the first words of a conversation.
function caseName(text) {
  const words = text.toLowerCase().normalize('NFKD').match(/[\p{L}\p{N}]+/gu) ?? [];
  return words.slice(0, 5).join('_').slice(0, 60) || 'case_1';
}
