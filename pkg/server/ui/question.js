// Calls that wait for the user: confirmations and long-running calls.

import { el, fold, json, callText } from './dom.js';

const CONFIRM = 'adk_request_confirmation';
const INPUT = 'adk_request_input';
const CREDENTIAL = 'adk_request_credential';

/** isQuestion reports whether a call is a request to the user instead of a tool call. */
export const isQuestion = (call) => [CONFIRM, INPUT, CREDENTIAL].includes(call.name);

/** approvalOf returns what a call asks to approve, or null. A ToolNode has the call in its payload. */
function approvalOf({ id = '', name, args = {} }) {
  if (name === CONFIRM) {
    const { originalFunctionCall: asked = {}, toolConfirmation: { hint, payload } = {} } = args;
    return { name: asked.name, args: asked.args, hint, payload };
  }
  if (name !== INPUT || !id.startsWith('wf_tool_confirmation:')) return null;
  const { tool_name: tool, args: given, confirmation_payload: payload } = args.payload ?? {};
  return { name: tool, args: given, hint: args.message, payload };
}

/** question creates a form that answers a call once. */
export function question(call, answer) {
  const form = approvalOf(call) ? confirmation(approvalOf(call)) : authorizationURL(call) ? authorization(call) : call.args?.options?.every?.((o) => typeof o === 'string') ? choice(call) : reply(call);
  const node = el('form', { class: 'question', 'data-question': call.id }, form);
  node.addEventListener('submit', async (event) => {
    event.preventDefault();
    const errorLine = node.querySelector('.bad');
    try {
      const response = read(node, event.submitter, call);
      for (const field of node.elements) field.disabled = true;
      await answer(response);
    } catch (error) {
      for (const field of node.elements) field.disabled = false;
      errorLine.textContent = error.message;
    }
  });
  return node;
}

const failure = () => el('p', { class: 'bad', role: 'alert' });
const button = (value, text, cls) => el('button', { type: 'submit', value, class: cls }, text);

function confirmation({ name, args, hint, payload }) {
  return [
    el('p', {}, el('b', {}, `${name ?? 'A call'} waits for approval`)),
    el('p', {}, el('code', {}, callText(name ?? '', args))),
    usual(hint, name) ? null : el('p', {}, hint),
    payload != null && fold('payload', () => json(payload)),
    el('div', { class: 'bar' }, button('yes', 'Approve'), button('no', 'Deny', 'quiet')), failure(),
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
  const code = call.args.authConfig.exchangedAuthCredential.oauth2.userCode;
  return [
    el('p', {}, el('b', {}, `${call.args.authConfig.credentialKey.slice('connection:'.length)} needs your authorization`)),
    el('p', {}, el('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer' }, `Authorize at ${url.host}`), ', then continue here.'),
    code ? el('p', {}, 'Code: ', el('b', {}, code)) : null,
    el('div', { class: 'bar' }, button('done', 'Continue')), failure(),
  ];
}

function choice({ name, args }) {
  return [el('p', {}, el('b', {}, `${name} asks`)), el('div', { class: 'bar' }, args.options.map((o) => button(o, o))), failure()];
}

function reply({ name, args = {} }) {
  const message = name === INPUT && args.message;
  return [
    el('p', {}, el('b', {}, message || `${name} waits for an answer`)),
    el('div', { class: 'bar' }, el('input', { name: 'answer', 'aria-label': 'Answer', placeholder: 'text, or JSON: {"status": "done"}', required: true, autocomplete: 'off' }), button('', 'Answer')), failure(),
  ];
}

function read(form, pressed, call) {
  const approval = approvalOf(call);
  if (approval) {
    const { payload } = approval;
    return { confirmed: pressed?.value === 'yes', ...(pressed?.value === 'yes' && payload != null ? { payload } : {}) };
  }
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
