// The events of a session, as they come: what was said, what was called, what
// waits for an answer.

import { el, fold, block, json, callText, inline, count, short } from './dom.js';
import { fetched } from './agent.js';
import { question, isQuestion } from './question.js';

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** A Transcript draws events into an element. */
export class Transcript {
  /**
   * tools.answer(event, call, response) sends an answer, tools.request(event)
   * fetches what the model was sent, tools.artifact(name, version) a file.
   */
  constructor(root, tools) {
    Object.assign(this, { root, tools });
    this.clear();
  }

  /** clear is a session without events; hint says what to do with it. */
  clear(hint = '') {
    this.root.replaceChildren(...(hint ? [el('p', { class: 'empty' }, hint)] : []));
    this.rows = new Map();
    this.calls = new Map();
    this.turn = null;
    this.last = null;
  }

  /** add draws an event, or goes on with one that comes in pieces. */
  add(event, follow = this.atEnd()) {
    if (this.answers(event)) return;
    let row = this.rows.get(event.id);
    if (!row) {
      row = this.begin(event);
      this.rows.set(event.id, row);
    }
    if (event.content) this.fill(row, event);
    this.note(row, event);
    if (follow) this.toEnd();
  }

  /** show draws what a session holds, and ends at its end. */
  show(events) {
    for (const event of events) this.add(event, false);
    this.toEnd();
  }

  /** say puts in a line that is no event. */
  say(text, cls = 'notice') {
    const follow = this.atEnd();
    this.put(el('p', { class: cls }, text));
    this.turn = null;
    if (follow) this.toEnd();
  }

  put(node) {
    this.root.querySelector('.empty')?.remove();
    this.root.append(node);
  }

  // answers takes in what a person answered: it stands where the question was.
  answers(event) {
    const parts = event.content?.parts ?? [];
    if (event.author !== 'user' || !parts.length || !parts.every((p) => this.calls.has(p.functionResponse?.id))) return false;
    for (const part of parts) this.response(part.functionResponse, event);
    return true;
  }

  begin(event) {
    const mine = event.author === 'user';
    if (mine || this.turn?.dataset.invocation !== event.invocationId) {
      this.turn = el('div', { class: 'turn', 'data-invocation': event.invocationId });
      this.put(this.turn);
      this.last = null;
    }
    const said = el('div', { class: 'parts' });
    const meta = el('div', { class: 'meta' });
    const node = el('article', { class: mine ? 'event mine' : 'event', 'data-author': event.author },
      event.author !== this.last && !mine && el('h3', {}, event.author, event.branch?.includes('.') && el('span', { class: 'dim' }, ` ${event.branch}`)), said, meta);
    this.last = event.author;
    this.turn.append(node);
    return { node, said, meta, text: null };
  }

  // Pieces of an answer go on with the text that is there; the whole answer
  // takes their place in the same element, so that nothing moves.
  fill(row, event) {
    const parts = event.content.parts ?? [];
    if (event.partial) {
      for (const part of parts) if (typeof part.text === 'string') this.piece(row, part);
      return;
    }
    const texts = parts.filter((p) => typeof p.text === 'string');
    if (row.text && texts.length === 1 && !texts[0].thought) row.text.textContent = texts[0].text;
    else row.said.replaceChildren(...texts.filter((p) => p.text).map(textPart));
    row.said.append(...parts.filter((p) => typeof p.text !== 'string').flatMap((p) => this.part(p, event)));
    row.text = null;
  }

  piece(row, part) {
    if (row.thought !== !!part.thought || !row.text) {
      const node = textPart(part);
      row.said.append(node);
      row.text = part.thought ? node.querySelector('pre') : node;
      row.thought = !!part.thought;
    } else row.text.append(part.text);
  }

  part(part, event) {
    if (part.functionCall) return this.call(part.functionCall, event);
    if (part.functionResponse) return this.response(part.functionResponse, event);
    if (part.inlineData) return inlineData(part.inlineData);
    if (part.executableCode) return fold('code', () => block(part.executableCode.code), { class: 'call' });
    if (part.codeExecutionResult) return fold(`code: ${part.codeExecutionResult.outcome ?? ''}`, () => block(part.codeExecutionResult.output ?? ''), { class: 'call' });
    return fold(Object.keys(part).join(', '), () => json(part), { class: 'call' });
  }

  call(call, event) {
    const waits = (event.longRunningToolIds ?? []).includes(call.id);
    const result = el('span', { class: 'result' });
    const known = { call, event, result, response: undefined, question: null };
    this.calls.set(call.id, known);
    if (waits) known.question = question(call, (response) => this.tools.answer(event, call, response));
    if (isQuestion(call)) return known.question ?? [];
    return [fold([el('b', {}, callText(call.name, call.args)), result],
      () => [json(call.args ?? {}), known.body = el('div', {}, known.response !== undefined ? json(known.response) : '')], { class: 'call', 'data-call': call.id }), known.question].filter(Boolean);
  }

  response(response, event) {
    const known = this.calls.get(response.id);
    if (!known) return fold([el('b', {}, `${response.name} ←`), ` ${inline(response.response)}`], () => json(response.response), { class: 'call' });
    known.response = response.response;
    const waits = response.id in (event.actions?.requestedToolConfirmations ?? {});
    const failed = !waits && response.response && typeof response.response === 'object' && 'error' in response.response;
    known.result.textContent = ` ← ${waits ? 'waits for approval' : inline(response.response)}`;
    known.result.classList.toggle('bad', failed);
    known.body?.replaceChildren(json(response.response));
    if (known.question && event.author === 'user') known.question.replaceWith(known.question = settled(response));
    else if (known.question) known.question.hidden = isFailure(response.response); // nobody answers it later
    return [];
  }

  note(row, event) {
    if (event.partial) return;
    const { stateDelta = {}, artifactDelta = {}, transferToAgent, escalate, rewindBeforeInvocationId } = event.actions ?? {};
    const keys = Object.keys(stateDelta);
    const chips = [
      transferToAgent && el('span', { class: 'chip' }, `→ ${transferToAgent}`),
      escalate && el('span', { class: 'chip' }, 'ends the loop'),
      rewindBeforeInvocationId && el('span', { class: 'chip' }, 'rewound'),
      keys.length > 0 && fold(el('span', { class: 'chip' }, `state: ${keys.length > 3 ? count(keys.length, 'key') : keys.join(', ')}`), () => json(stateDelta)),
      ...Object.entries(artifactDelta).map(([name, version]) => fold(el('span', { class: 'chip' }, `${name} v${version}`), () => artifact(() => this.tools.artifact(name, version)))),
    ].filter(Boolean);
    row.meta.append(...chips);
    if (event.output !== undefined && !event.content) row.said.append(fold(['output ', inline(event.output)], () => json(event.output), { class: 'call' }));
    if (event.errorCode || event.errorMessage) row.said.append(el('p', { class: 'bad' }, [event.errorCode, event.errorMessage].filter(Boolean).join(': ')));
    if (fromModel(event)) row.meta.append(fold(el('span', { class: 'chip quiet' }, ['request', usage(event)].filter(Boolean).join(' · ')), () => fetched(() => this.tools.request(event))));
    const revision = event.provenance?.revision;
    if (revision) row.node.title = `${event.author} · revision ${short(revision)}`;
  }

  atEnd() {
    return this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight < 60;
  }

  toEnd() {
    this.root.scrollTop = this.root.scrollHeight;
  }
}

// A call whose answer is an error and nothing else was not carried out.
const isFailure = (response) => !!response && typeof response === 'object' && Object.keys(response).join() === 'error';

const fromModel = (event) => event.author !== 'user' && (event.usageMetadata || event.finishReason || event.modelVersion
  || (event.content?.role === 'model' && !event.content.parts?.some((p) => p.functionCall && isQuestion(p.functionCall))));

function usage(event) {
  const { promptTokenCount: prompt, candidatesTokenCount: answer } = event.usageMetadata ?? {};
  return prompt || answer ? `${prompt ?? 0} → ${answer ?? 0} tokens` : '';
}

function textPart(part) {
  if (part.thought) return el('details', { class: 'thought' }, el('summary', {}, 'thought'), block(part.text));
  return el('p', { class: 'text' }, part.text);
}

function inlineData({ mimeType = '', data = '', displayName = '' }) {
  if (PICTURES.includes(mimeType)) return el('img', { src: `data:${mimeType};base64,${data.replaceAll('-', '+').replaceAll('_', '/')}`, alt: displayName || 'picture' });
  return el('p', { class: 'dim' }, `${displayName || 'file'} (${mimeType}, ${count(Math.floor(data.length * 0.75), 'byte')})`);
}

function artifact(load) {
  const node = el('div', { class: 'dim' }, 'asking …');
  load().then((part) => node.replaceChildren(part.text !== undefined ? block(part.text) : part.inlineData ? inlineData(part.inlineData) : json(part)),
    (error) => node.replaceChildren(error.message));
  return node;
}

const settled = (response) => el('p', { class: 'answered' }, response.response?.confirmed === true ? 'approved' : response.response?.confirmed === false ? 'denied' : `answered: ${inline(response.response)}`);
