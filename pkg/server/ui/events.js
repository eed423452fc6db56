// The events of a session as they arrive: messages, calls and questions.

import { el, fold, block, json, callText, inline, count, short, copyButton } from './dom.js';
import { fetched } from './agent.js';
import { question, isQuestion } from './question.js';
import { Markdown, drawMarkdown } from './markdown.js';
import { keepVisible } from './turns.js';
import { isControl, isLive, isSpoken, spokenText } from './live_events.js';
import { microphoneIcon } from './icons.js';
import { drawArtifact, drawFile, inlineData } from './files.js';

/** A Transcript draws events into an element. */
export class Transcript {
  /**
   * tools.answer(event, call, response) responds to a call, tools.request(event)
   * fetches the model request, tools.artifact(name, version) fetches a file.
   */
  constructor(root, tools) {
    Object.assign(this, { root, tools });
    this.clear();
  }

  /** clear shows a session without events, and a hint. */
  clear(hint = '') {
    this.root.replaceChildren(...(hint ? [el('p', { class: 'empty' }, hint)] : []));
    this.rows = new Map();
    this.calls = new Map();
    this.turn = null;
    this.last = null;
    this.line = null;
    this.answer = null;
    this.spoken = new Set(); // invocations of live conversations, whose requests the server does not keep
  }

  /** add draws an event, or the next chunk of one. */
  add(event) {
    this.keepEnd(() => this.draw(event));
  }

  draw(event) {
    if (this.answers(event)) {
      this.rows.set(event.id, null);
      return;
    }
    if (event.actions?.rewindBeforeInvocationId) {
      this.rows.set(event.id, null);
      this.addNotice('The session was rewound.');
      return;
    }
    if (isLive(event)) this.spoken.add(event.invocationId);
    if (isControl(event)) {
      this.rows.set(event.id, null);
      if (event.interrupted) this.markInterrupted();
      return;
    }
    let row = this.rows.get(event.id);
    if (!row) {
      row = this.begin(event);
      this.rows.set(event.id, row);
    }
    if (isSpoken(event)) this.caption(row, event);
    if (event.content) this.fill(row, event);
    this.note(row, event);
    if (event.interrupted) this.markInterrupted();
  }

  // caption shows speech: chunks extend the text, the final transcript replaces it.
  caption(row, event) {
    if (!row.spoken) {
      row.spoken = el('span');
      row.body.append(el('p', { class: 'text spoken' }, microphoneIcon({ role: 'img', 'aria-label': 'Spoken:' }), row.spoken));
      row.node.dataset.spoken = event.partial ? 'partial' : 'final';
    }
    if (event.partial) row.spoken.append(spokenText(event));
    else if (spokenText(event)) row.spoken.textContent = spokenText(event);
    if (!event.partial) row.node.dataset.spoken = 'final';
  }

  /** finishCaptions marks captions that will not get their final transcript. */
  finishCaptions() {
    for (const node of this.root.querySelectorAll('[data-spoken=partial]')) node.dataset.spoken = 'final';
  }

  /** rename registers a row also by the ID of its final event. */
  rename(id, finalID) {
    this.rows.set(finalID, this.rows.get(id));
  }

  /** markInterrupted notes at the last answer that the user interrupted it. */
  markInterrupted() {
    const answer = this.answer;
    if (!answer || answer.isInterrupted) return;
    answer.isInterrupted = true;
    answer.meta.prepend(el('span', { class: 'chip' }, 'interrupted'));
  }

  /** show draws the stored events of a session and keeps the scroll position. */
  show(events) {
    const isAtEnd = this.atEnd();
    const { scrollTop } = this.root;
    this.clear();
    for (const event of keepVisible(events)) this.draw(event);
    this.root.scrollTop = isAtEnd ? this.root.scrollHeight : scrollTop;
  }

  /** isMissing reports whether an agent's event is not drawn yet. */
  isMissing(event) {
    return event.author !== 'user' && !this.rows.has(event.id);
  }

  /** addNotice adds a line that is not an event. */
  addNotice(text, cls = 'notice') {
    this.keepEnd(() => this.put(el('p', { class: cls }, text)));
    this.turn = null;
  }

  /** setLine sets or removes the line below the last event. */
  setLine(node) {
    this.keepEnd(() => {
      this.line?.remove();
      this.line = node;
      if (node) this.put(node);
    });
  }

  /** keepEnd draws and stays scrolled to the end if it was there. */
  keepEnd(draw) {
    const isAtEnd = this.atEnd();
    draw();
    if (isAtEnd) this.toEnd();
  }

  put(node) {
    this.root.querySelector('.empty')?.remove();
    this.root.append(node);
  }

  // answers replaces questions by their answers. It returns false for other events.
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
    const body = el('div', { class: 'parts' });
    const meta = el('div', { class: 'meta' });
    const node = el('article', { class: mine ? 'event mine' : 'event', 'data-author': event.author },
      event.author !== this.last && !mine && el('h3', {}, event.author, event.branch?.includes('.') && el('span', { class: 'dim' }, ` ${event.branch}`)), body, meta);
    this.last = event.author;
    this.turn.append(node);
    const row = { node, body, meta, isMine: mine, texts: [] };
    if (!mine) this.answer = row;
    return row;
  }

  // fill extends the drawn texts by chunks. The complete event finishes them in place,
  // so that nothing moves, or replaces them if its texts differ.
  fill(row, event) {
    const parts = event.content.parts ?? [];
    const texts = parts.filter((p) => typeof p.text === 'string' && (p.text || event.partial));
    if (event.partial) {
      for (const part of texts) this.extend(row, part);
      return;
    }
    if (row.texts.length === texts.length && texts.every((p, i) => row.texts[i].isThought === !!p.thought)) {
      for (const [i, part] of texts.entries()) row.texts[i].finish(part.text);
    } else row.body.replaceChildren(...texts.map((part) => (row.isMine ? el('p', { class: 'text' }, part.text) : part.thought ? thought(part.text) : drawMarkdown(part.text))));
    row.body.append(...parts.filter((p) => typeof p.text !== 'string').flatMap((p) => this.part(p, event)));
    row.texts = [];
  }

  extend(row, part) {
    if (row.texts.at(-1)?.isThought !== !!part.thought) row.texts.push(this.newText(row, !!part.thought));
    row.texts.at(-1).append(part.text);
  }

  newText(row, isThought) {
    if (isThought) {
      const node = thought('');
      const text = node.querySelector('pre');
      row.body.append(node);
      return { isThought, append: (chunk) => text.append(chunk), finish: (whole) => { text.textContent = whole; } };
    }
    const node = el('div', { class: 'text md' });
    row.body.append(node);
    const view = new Markdown(node, (draw) => this.keepEnd(draw));
    return { isThought, append: (chunk) => view.append(chunk), finish: (whole) => view.finish(whole) };
  }

  part(part, event) {
    if (part.functionCall) return this.call(part.functionCall, event);
    if (part.functionResponse) return this.response(part.functionResponse, event);
    if (part.inlineData) return inlineData(part.inlineData);
    if (part.fileData) return drawFile(part.fileData, this.tools.artifact);
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
    const { requestedToolConfirmations = {}, requestedAuthConfigs = {} } = event.actions ?? {};
    const waits = response.id in requestedToolConfirmations ? 'waits for approval' : response.id in requestedAuthConfigs && 'waits for a credential';
    const failed = !waits && response.response && typeof response.response === 'object' && 'error' in response.response;
    known.result.textContent = ` ← ${waits || inline(response.response)}`;
    known.result.classList.toggle('bad', failed);
    known.body?.replaceChildren(json(response.response));
    if (known.question && event.author === 'user') known.question.replaceWith(known.question = settled(response));
    else if (known.question) known.question.hidden = isFailure(response.response); // the call failed, so it needs no answer
    return [];
  }

  note(row, event) {
    if (event.partial) return;
    const { stateDelta = {}, artifactDelta = {}, transferToAgent, escalate } = event.actions ?? {};
    const keys = Object.keys(stateDelta);
    const chips = [
      transferToAgent && el('span', { class: 'chip' }, `→ ${transferToAgent}`),
      escalate && el('span', { class: 'chip' }, 'ends the loop'),
      keys.length > 0 && fold(el('span', { class: 'chip' }, `state: ${keys.length > 3 ? count(keys.length, 'key') : keys.join(', ')}`), () => json(stateDelta)),
      ...Object.entries(artifactDelta).map(([name, version]) => fold(el('span', { class: 'chip' }, `${name} v${version}`), () => drawArtifact(() => this.tools.artifact(name, version)))),
    ].filter(Boolean);
    row.meta.append(...chips);
    const text = textOf(event.content) || spokenText(event);
    if (text) row.meta.append(copyButton(() => text, { title: 'Copy this message' }) ?? '');
    if (event.output !== undefined && !event.content) row.body.append(fold(['output ', inline(event.output)], () => json(event.output), { class: 'call' }));
    if (event.errorCode || event.errorMessage) row.body.append(el('p', { class: 'bad' }, [event.errorCode, event.errorMessage].filter(Boolean).join(': ')));
    if (fromModel(event) && !this.spoken.has(event.invocationId)) row.meta.append(fold(el('span', { class: 'chip quiet' }, ['request', usage(event)].filter(Boolean).join(' · ')), () => fetched(() => this.tools.request(event))));
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

// isFailure: a call whose response has only an error was not executed.
const isFailure = (response) => !!response && typeof response === 'object' && Object.keys(response).join() === 'error';

const fromModel = (event) => event.author !== 'user' && (event.usageMetadata || event.finishReason || event.modelVersion
  || (event.content?.role === 'model' && !event.content.parts?.some((p) => p.functionCall && isQuestion(p.functionCall))));

function usage(event) {
  const { promptTokenCount: prompt, candidatesTokenCount: answer } = event.usageMetadata ?? {};
  return prompt || answer ? `${prompt ?? 0} → ${answer ?? 0} tokens` : '';
}

const textOf = (content) => (content?.parts ?? []).map((p) => (p.thought ? '' : p.text ?? '')).join('');

const thought = (text) => el('details', { class: 'thought' }, el('summary', {}, 'thought'), block(text));

const settled = (response) => el('p', { class: 'answered' }, response.response?.confirmed === true ? 'Approved' : response.response?.confirmed === false ? 'Denied' : `Answered: ${inline(response.response)}`);
