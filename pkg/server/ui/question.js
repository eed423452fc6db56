// Calls that wait for the user: confirmations and long-running calls.

import { el } from './dom.js';
import { drawArguments, newFields, payloadFields } from './arguments.js';
import { escapeControls } from './text.js';

const CONFIRM = 'adk_request_confirmation';
const INPUT = 'adk_request_input';
const CREDENTIAL = 'adk_request_credential';

/** isQuestion reports whether a call is a request to the user instead of a tool call. */
export const isQuestion = (call) => [CONFIRM, INPUT, CREDENTIAL].includes(call.name);

/** approvalOf returns what a call asks to approve, or null. A ToolNode has the call in its payload. */
function approvalOf({ id = '', name, args = {} }) {
  if (name === CONFIRM) {
    const { originalFunctionCall: asked = {}, toolConfirmation: { hint, payload } = {}, editableArgs } = args;
    return { name: asked.name, args: asked.args, hint, payload, editable: editableArgs };
  }
  if (name !== INPUT || !id.startsWith('wf_tool_confirmation:')) return null;
  const { tool_name: tool, args: given, confirmation_payload: payload, editableArgs } = args.payload ?? {};
  return { name: tool, args: given, hint: args.message, payload, editable: editableArgs };
}

/** question creates a form that answers a call once. */
export function question(call, answer) {
  const approval = approvalOf(call);
  const schema = call.name === INPUT && call.args?.response_schema;
  // The values that the answer takes: those of a payload, or those that the question describes.
  const fields = approval ? approvalFields(approval) : schema?.type === 'object' && schema.properties ? newFields({}, schema) : null;
  const form = approval ? confirmation(approval, fields) : authorizationURL(call) ? authorization(call) : call.args?.options?.every?.((o) => typeof o === 'string') ? choice(call) : reply(call, fields);
  const node = el('form', { class: 'question', 'data-question': call.id }, form);
  node.addEventListener('submit', async (event) => {
    event.preventDefault();
    const errorLine = node.querySelector('.bad');
    errorLine.textContent = '';
    if (fields) fields.mark('', errorLine);
    try {
      const response = read(node, event.submitter, call, fields);
      for (const field of node.elements) field.disabled = true;
      await answer(response);
    } catch (error) {
      for (const field of node.elements) field.disabled = false;
      errorLine.textContent = escapeControls(error.message);
      if (fields) fields.mark(error.message, errorLine);
    }
  });
  return node;
}

/** approvalFields creates the fields for what an approval may change: the call's arguments, or a tool's payload. */
function approvalFields({ payload, editable }) {
  if (editable && typeof editable === 'object') {
    const fields = newFields(payload ?? {}, editable);
    // A box that is not checked changes nothing if the call leaves the argument out.
    const read = () => {
      const values = Object.entries(fields.read()).filter(([name, value]) => value !== false || payload?.[name] != null);
      const removed = Object.keys(payload ?? {}).map((name) => [name, null]);
      return Object.fromEntries([...removed, ...values]);
    };
    return { ...fields, read };
  }
  return payload != null && payloadFields(payload);
}

let failures = 0;
const failure = () => el('p', { class: 'bad', role: 'alert', id: `failure-${failures++}` });
const button = (value, text, cls) => el('button', { type: 'submit', value, class: cls }, text);

// Arguments that may change are fields; the others are shown as the call has them.
function confirmation({ name, args, hint, editable }, fields) {
  const fixed = Object.entries(args ?? {}).filter(([key]) => !(editable?.properties && Object.hasOwn(editable.properties, key)));
  return [
    el('p', {}, el('b', {}, `${escapeControls(name ?? 'A call')} waits for approval`)),
    editable && !fixed.length ? null : drawArguments(Object.fromEntries(fixed)),
    usual(hint, name) ? null : el('p', {}, escapeControls(hint)),
    fields && fields.node,
    el('div', { class: 'bar' }, button('yes', 'Approve'), el('button', { type: 'submit', value: 'no', class: 'quiet', formnovalidate: true }, 'Deny')), failure(),
  ];
}

// ADK's default sentence has no information.
const usual = (hint, name) => !hint || hint.startsWith(`Please approve or reject the tool call ${name}()`);

/** authorizationURL returns where the user authorizes a connection, whose tokens the host receives. */
function authorizationURL({ name, args }) {
  const { credentialKey, exchangedAuthCredential } = args?.authConfig ?? {};
  if (name !== CREDENTIAL || !credentialKey?.startsWith?.('connection:')) return null;
  const url = URL.parse(exchangedAuthCredential?.oauth2?.authUri ?? '');
  return ['https:', 'http:'].includes(url?.protocol) ? url : null;
}

function authorization(call) {
  const url = authorizationURL(call);
  const { credentialKey, exchangedAuthCredential: { oauth2: { userCode: code, service } } } = call.args.authConfig;
  return [
    el('p', {}, el('b', {}, `${escapeControls(service ?? credentialKey.slice('connection:'.length))} needs your authorization`)),
    el('p', {}, el('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer' }, `Authorize at ${url.host}`), ', then continue here.'),
    code ? el('p', {}, 'Code: ', el('b', {}, code)) : null,
    el('div', { class: 'bar' }, button('done', 'Continue')), failure(),
  ];
}

function choice({ name, args }) {
  return [el('p', {}, el('b', {}, `${escapeControls(name)} asks`)), el('div', { class: 'bar' }, args.options.map((o) => button(o, escapeControls(o)))), failure()];
}

function reply({ name, args = {} }, fields) {
  const message = name === INPUT && args.message;
  return [
    el('p', {}, el('b', {}, escapeControls(message || `${name} waits for an answer`))),
    fields ? [fields.node, el('div', { class: 'bar' }, button('', 'Answer')), failure()] : [el('div', { class: 'bar' }, el('input', { name: 'answer', 'aria-label': 'Answer', placeholder: 'text, or JSON: {"status": "done"}', required: true, autocomplete: 'off' }), button('', 'Answer')), failure()],
  ];
}

function read(form, pressed, call, fields) {
  if (approvalOf(call)) {
    const isApproved = pressed?.value === 'yes';
    return { confirmed: isApproved, ...(isApproved && fields ? { payload: fields.read() } : {}) };
  }
  if (fields) return fields.read();
  if (call.name === CREDENTIAL && !form.elements.answer) return {};
  if (!form.elements.answer) return { result: pressed.value };
  const text = form.elements.answer.value.trim();
  if (!text.startsWith('{')) return { result: text };
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`not valid JSON: ${error.message}`);
  }
}
