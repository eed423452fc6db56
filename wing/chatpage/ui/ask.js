// Questions: approvals, choices, texts and authorizations.

import { el } from '../../ui/dom.js';
import { safeURL } from '../../ui/links.js';
import { drawMarkdown } from '../../ui/markdown.js';

const button = (value, text, cls) => el('button', { type: 'submit', value, class: cls }, text);

/** drawQuestion shows a question; answer(body) sends an answer and throws if it was not accepted. */
export function drawQuestion(question, answer) {
  const { id, kind, open, outcome } = question;
  const form = el('form', { class: 'ask', 'data-question': id, 'data-kind': kind });
  const error = el('p', { class: 'bad', role: 'alert', id: `wrong-${id}` });
  const close = (text, values) => form.replaceChildren(...headOf({ ...question, details: closedDetails(question, values) }), el('p', { class: 'outcome', dir: 'auto' }, OUTCOMES[text] ?? text));
  form.append(...headOf(question), ...(open ? fieldsOf(question) : [el('p', { class: 'outcome', dir: 'auto' }, OUTCOMES[outcome] ?? (outcome || 'No answer is needed any more'))]), error);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    error.textContent = '';
    markFields(form, [], error);
    const { body, text } = read(question, form, event.submitter);
    for (const field of form.elements) field.disabled = true;
    try {
      await answer({ question: id, ...body }, () => close(text, body.fields));
    } catch (refusal) {
      for (const field of form.elements) field.disabled = false;
      const wrong = (question.fields ?? []).filter((field) => refusal.fields?.includes(field.name));
      error.textContent = wrong.map(describeWrong).join(' ') || refusal.message;
      markFields(form, wrong, error);
    }
  });
  return form;
}

/** markFields marks the inputs with rejected values, and moves to the first one. */
function markFields(form, wrong, error) {
  for (const input of form.querySelectorAll('[aria-invalid]')) {
    input.removeAttribute('aria-invalid');
    input.removeAttribute('aria-describedby');
  }
  const inputs = wrong.map(({ name }) => form.elements[name]).filter((input) => input instanceof Element);
  for (const input of inputs) {
    input.setAttribute('aria-invalid', 'true');
    input.setAttribute('aria-describedby', error.id);
  }
  inputs[0]?.focus();
}

/** describeWrong names a field in words, and what its value must be. */
function describeWrong({ label, kind, options, whole, min, max, maxLength }) {
  const range = min != null && max != null ? ` from ${min} to ${max}` : min != null ? ` of at least ${min}` : max != null ? ` of at most ${max}` : '';
  const kinds = { number: `${whole ? 'a whole number' : 'a number'}${range}`, email: 'an e-mail address', url: 'a web address', date: 'a date', yes: 'yes or no' };
  const want = options ? 'one of the choices' : kinds[kind] ?? (maxLength != null ? `at most ${maxLength} characters` : '');
  return want ? `${label} must be ${want}.` : `${label} does not fit the question.`;
}

/** closedDetails returns what an answer let run: the details, and the fields with the values that were sent. */
function closedDetails({ kind, details = [], fields = [] }, values) {
  if (kind !== 'approve') return details;
  const shown = fields.map(({ name, label, value }) => ({ name: label, value: (values ? values[name] : value) ?? '' }));
  return [...details, ...shown.filter(({ value }) => value !== '').map(({ name, value }) => ({ name, value: String(value) }))];
}

const OUTCOMES = { approved: 'Approved', declined: 'Declined', answered: 'Answered' };

function headOf({ kind, title, text, details }) {
  const head = [];
  if (kind === 'approve') head.push(el('h3', { dir: 'auto' }, title ? `${title}?` : 'Continue?'));
  if (kind === 'authorize') head.push(el('h3', { dir: 'auto' }, `${title} needs your permission`));
  if (kind === 'wait') head.push(el('p', {}, 'This takes a while. You can come back later.'));
  if (kind === 'choose' && !text) head.push(el('h3', {}, 'Choose one'));
  if (text) head.push(drawMarkdown(text));
  if (details?.length) head.push(el('dl', {}, details.map(({ name, value }) => el('div', {}, el('dt', { dir: 'auto' }, name), el('dd', { dir: 'auto' }, value)))));
  return head;
}

function fieldsOf(question) {
  const { kind, options = [], fields = [], url, code } = question;
  switch (kind) {
    case 'approve':
      return [...fields.map(drawField), el('div', { class: 'bar' }, button('yes', 'Approve', 'main'), el('button', { type: 'submit', value: 'no', formnovalidate: true }, 'Decline'))];
    case 'choose':
      return [el('div', { class: 'bar options' }, options.map((option) => el('button', { type: 'submit', value: option, dir: 'auto' }, option)))];
    case 'text':
      return [el('div', { class: 'bar' }, el('input', { name: 'text', required: true, autocomplete: 'off', dir: 'auto', 'aria-label': 'Your answer', placeholder: 'Your answer' }), button('', 'Send', 'main'))];
    case 'fields':
      return [...fields.map(drawField), el('div', { class: 'bar' }, button('', 'Send', 'main'))];
    case 'authorize': {
      const safe = safeURL(url ?? '');
      if (!safe) return [];
      return [
        el('p', {}, 'You give the permission at ', el('b', {}, new URL(safe).host), ', and come back here.'),
        code ? el('p', {}, 'Enter this code there: ', el('b', { class: 'code' }, code)) : null,
        el('div', { class: 'bar' }, el('a', { class: 'button main', href: safe, target: '_blank', rel: 'noopener noreferrer' }, 'Give permission'), button('done', 'Continue')),
      ].filter(Boolean);
    }
    default:
      return [];
  }
}

const TYPES = { number: 'number', email: 'email', url: 'url', date: 'date' };

function drawField({ name, label, kind, options, required, value, whole, min, max, maxLength, hint }) {
  const note = hint ? el('small', { dir: 'auto' }, hint) : null;
  const attrs = { name, required: required && kind !== 'yes', dir: 'auto', autocomplete: 'off' };
  if (kind === 'yes') return el('label', { class: 'check' }, el('input', { type: 'checkbox', name, checked: value === true }), el('span', {}, label), note);
  if (options) {
    const select = el('select', attrs, required ? null : el('option', { value: '' }, ''), options.map((o) => el('option', { value: o }, o)));
    if (value != null) select.value = String(value);
    return el('label', {}, el('span', {}, label), select, note);
  }
  const text = String(value ?? '');
  const isLong = kind === 'text' && (text.length > 60 || text.includes('\n'));
  const input = el(isLong ? 'textarea' : 'input', { ...attrs, type: isLong ? null : TYPES[kind] ?? 'text', rows: isLong ? 3 : null, step: whole ? 1 : 'any', min, max, maxlength: maxLength });
  input.value = text;
  return el('label', {}, el('span', {}, label), input, note);
}

/** readFields returns the values of a form; null for a value that the user has removed. */
function readFields(fields, form) {
  const values = {};
  for (const { name, kind, required, value } of fields) {
    const input = form.elements[name];
    if (kind === 'yes') {
      if (input.checked || required || value != null) values[name] = input.checked;
    } else if (input.value !== '') values[name] = kind === 'number' ? Number(input.value) : input.value;
    else if (required) values[name] = '';
    else if (value != null) values[name] = null;
  }
  return values;
}

// read returns the body of an answer, and the answer in words.
function read({ kind, fields }, form, pressed) {
  switch (kind) {
    case 'approve': {
      const approve = pressed?.value === 'yes';
      return { body: { approve, ...(approve && fields?.length ? { fields: readFields(fields, form) } : {}) }, text: approve ? 'approved' : 'declined' };
    }
    case 'choose':
      return { body: { text: pressed?.value ?? '' }, text: pressed?.value };
    case 'text':
      return { body: { text: form.elements.text.value }, text: form.elements.text.value };
    case 'fields':
      return { body: { fields: readFields(fields, form) }, text: 'answered' };
    default:
      return { body: {}, text: 'answered' };
  }
}
