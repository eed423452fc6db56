// A model request: that of a step, or a preview of the next one.

import { el, fold, block, json, count } from './dom.js';

/**
 * drawRequest shows a request to a model. Traces use snake_case or camelCase;
 * previews have all fields at the top level.
 */
export function drawRequest(request) {
  const { config = {} } = request;
  const system = request.systemInstruction ?? config.systemInstruction ?? config.system_instruction;
  const tools = request.tools ?? config.tools ?? [];
  const rest = Object.fromEntries(Object.entries(config).filter(([key]) => !/^(system_?instruction|tools)$/i.test(key)));
  const calls = tools.flatMap((t) => t.functionDeclarations ?? t.function_declarations ?? [{ name: Object.keys(t).join(', ') }]);
  const contents = request.contents ?? [];
  return el('div', { class: 'request' },
    el('p', { class: 'facts' }, el('code', {}, request.model || 'model'), ` · ${count(contents.length, 'content')} · ${count(calls.length, 'tool')}`),
    system && fold('System instruction', () => block(textOf(system)), { open: true }),
    contents.length > 0 && fold('Contents', () => contents.map(drawContent), { open: contents.length <= 12 }),
    calls.length > 0 && fold(`Tools: ${calls.map((c) => c.name).join(', ')}`, () => calls.map(drawTool)),
    Object.keys(rest).length > 0 && fold('Settings', () => json(rest)),
    fold('The whole request as JSON', () => json(request)));
}

/** textOf returns the text of a content or of a plain string. */
export function textOf(content) {
  if (typeof content === 'string') return content;
  return (content?.parts ?? []).map((p) => p.text ?? '').join('');
}

function drawContent(content) {
  return el('div', { class: 'content' }, el('b', {}, content.role ?? 'user'),
    el('div', {}, (content.parts ?? []).map((part) => (typeof part.text === 'string' ? block(part.text) : json(part)))));
}

function drawTool(declaration) {
  const schema = declaration.parametersJsonSchema ?? declaration.parameters_json_schema ?? declaration.parameters;
  return el('div', { class: 'content' }, el('b', {}, declaration.name),
    el('div', {}, declaration.description && el('p', {}, declaration.description), schema && json(schema)));
}
