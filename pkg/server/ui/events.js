// The events of a session as they arrive: messages, calls and questions.

import { el, fold, block, json, callText, inline, count, short, copyButton } from './dom.js';
import { fetched } from './agent.js';
import { question, isQuestion } from './question.js';
import { Markdown, drawMarkdown } from './markdown.js';
import { TurnTree } from './turn_tree.js';
import { isControl, isLive, isSpoken, spokenText } from './live_events.js';
import { microphoneIcon } from './icons.js';
import { drawArtifact, drawFile, inlineData } from './files.js';
import { describeError, isAborted } from './errors.js';
import { escapeControls, cutText } from './text.js';
import { Older, Window } from './older.js';

/** A Transcript draws events into an element. */
export class Transcript {
  /**
   * tools.answer(event, call, response) responds to a call, tools.request(event)
   * fetches the model request, tools.artifact(name, version) fetches a file,
   * tools.actions(turn, tree) draws the actions of a turn, tools.why(event) explains one.
   */
  constructor(root, tools) {
    Object.assign(this, { root, tools });
    this.window = new Window(this);
    this.clear();
  }

  /** clear shows a session without events, and a hint. */
  clear(hint = '') {
    this.root.replaceChildren(...(hint ? [el('p', { class: 'empty' }, hint)] : []));
    this.window.clear();
    this.rows = new Map();
    this.calls = new Map();
    this.tree = new TurnTree();
    this.older = new Older();
    this.turn = null;
    this.actions = null; // of the turn
    this.last = null;
    this.line = null;
    this.answer = null;
    this.messages = 0; // of the user
    this.forms = new Map(); // that a person has begun to fill in, by event and call
    this.spoken = new Set(); // invocations of live conversations, whose requests the server does not keep
  }

  /** add draws an event, or the next chunk of one. */
  add(event) {
    this.keepEnd(() => this.draw(event));
  }

  draw(event) {
    this.tree.add(event);
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

  /** show draws the stored events of a session and keeps the scroll position, and what a person has entered in forms. */
  show(events) {
    const isAtEnd = this.atEnd();
    const fromEnd = this.root.scrollHeight - this.root.scrollTop;
    const { forms } = this;
    const focused = document.activeElement?.closest('#events form.question') && document.activeElement;
    this.clear();
    this.forms = forms;
    this.tree = new TurnTree(events);
    this.older = new Older(this.tree.events);
    for (const event of this.older.shown) this.draw(event);
    this.root.scrollTop = isAtEnd ? this.root.scrollHeight : this.root.scrollHeight - fromEnd;
    if (focused?.isConnected) focused.focus({ preventScroll: true });
    this.window.plan();
  }

  /** drawOlderTurn draws the last turn that is not drawn yet, and returns its nodes. */
  drawOlderTurn() {
    const { turn, actions, last, answer, messages, put } = this;
    const nodes = [];
    Object.assign(this, { turn: null, actions: null, last: null, put: (node) => nodes.push(node) });
    for (const event of this.older.takeTurn()) this.draw(event);
    Object.assign(this, { turn, actions, last, answer, messages: messages + nodes.filter((n) => n.querySelector('.mine')).length, put });
    return nodes;
  }

  /** isMissing reports whether some of the stored events are not drawn yet. The user's own messages are drawn before they have their ID. */
  isMissing(events) {
    const messages = events.filter((e) => e.author === 'user' && e.content?.parts?.some((p) => !p.functionResponse));
    const drawn = messages.filter((e) => !this.older.ids.has(e.id));
    return drawn.length > this.messages || events.some((e) => e.author !== 'user' && !this.rows.has(e.id) && !this.older.ids.has(e.id));
  }

  /** showEvent scrolls to an event and focuses it. */
  showEvent(id) {
    while (this.older.ids.has(id)) this.window.moveUp(0);
    const node = this.rows.get(id)?.node;
    if (!node) return;
    while (!node.isConnected && this.window.above.length) this.window.moveUp(0);
    while (!node.isConnected && this.window.below.length) this.window.moveDown();
    node.tabIndex = -1;
    node.scrollIntoView({ block: 'center' });
    node.focus({ preventScroll: true });
  }

  /** addNotice adds a line that is not an event. */
  addNotice(text, cls = 'notice') {
    this.keepEnd(() => this.put(el('p', { class: cls }, text)));
    this.turn = null;
  }

  /** setLine sets or removes the line below the last event. */
  setLine(node) {
    this.keepEnd(() => {
      if (this.line) this.window.remove(this.line);
      this.line = node;
      if (node) this.put(node);
    });
  }

  /** addToError adds a button to the error that ends the transcript, and reports whether there is one. */
  addToError(button) {
    const error = [...this.root.querySelectorAll(':scope > .bad, .turn:last-of-type .parts > .bad')].at(-1);
    if (this.line) this.window.remove(this.line);
    if (error && button) this.keepEnd(() => error.append(' ', button));
    return !!error;
  }

  /** keepEnd draws and stays scrolled to the end if it was there. */
  keepEnd(draw) {
    const isAtEnd = this.atEnd();
    draw();
    if (isAtEnd) this.toEnd();
  }

  put(node) {
    this.root.querySelector('.empty')?.remove();
    this.window.put(node);
  }

  // answers replaces questions by their answers. It returns false for other events.
  answers(event) {
    const parts = event.content?.parts ?? [];
    if (event.author !== 'user' || !parts.length || !parts.every((p) => this.calls.has(p.functionResponse?.id) || this.older.calls.has(p.functionResponse?.id))) return false;
    for (const part of parts) this.response(part.functionResponse, event);
    return true;
  }

  begin(event) {
    const mine = event.author === 'user';
    if (!mine && this.turn && !this.turn.dataset.invocation) this.turn.dataset.invocation = event.invocationId; // of the message just sent
    if (mine || this.turn?.dataset.invocation !== event.invocationId) {
      this.turn = el('div', { class: 'turn', 'data-invocation': event.invocationId });
      this.put(this.turn);
      this.actions = null;
      this.last = null;
    }
    if (this.turn.dataset.invocation) this.actions ??= this.tools.actions?.(this.turn, this.tree);
    const body = el('div', { class: 'parts' });
    const meta = el('div', { class: 'meta' });
    const node = el('article', { class: mine ? 'event mine' : 'event', 'data-author': event.author },
      event.author !== this.last && !mine && el('h3', {}, event.author, event.branch?.includes('.') && el('span', { class: 'dim' }, ` ${event.branch}`)), body, meta);
    this.last = event.author;
    if (mine && event.content?.parts?.some((p) => !p.functionResponse)) this.messages++;
    this.turn.append(node, this.actions ?? '');
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
    } else row.body.replaceChildren(...texts.flatMap((part) => drawText(row, part)));
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
    if (waits) known.question = this.form(call, event);
    for (const early of this.older.take(call.id)) this.response(early.response, early.event);
    if (isQuestion(call)) return known.question ?? [];
    return [fold([el('b', {}, callText(call.name, call.args)), result],
      () => [this.tools.why && el('p', { class: 'bar' }, el('button', { type: 'button', class: 'act', onclick: () => this.tools.why(event) }, 'Why this call')), json(call.args ?? {}), known.body = el('div', {}, known.response !== undefined ? json(known.response) : '')], { class: 'call', 'data-call': call.id }), known.question].filter(Boolean);
  }

  form(call, event) {
    const key = `${event.id} ${call.id}`;
    if (this.forms.has(key)) return this.forms.get(key);
    const form = question(call, async (response) => {
      try {
        await this.tools.answer(event, call, response);
      } catch (error) {
        if (!form.isConnected && error.message) this.addNotice(error.message, 'bad');
        throw error;
      }
    });
    for (const type of ['input', 'submit']) form.addEventListener(type, () => this.forms.set(key, form));
    return form;
  }

  response(response, event) {
    const known = this.calls.get(response.id);
    if (!known && this.older.keep(response, event)) return [];
    if (!known) return fold([el('b', {}, `${escapeControls(response.name)} ←`), ` ${inline(response.response)}`], () => json(response.response), { class: 'call' });
    known.response = response.response;
    const { requestedToolConfirmations = {}, requestedAuthConfigs = {} } = event.actions ?? {};
    const waits = response.id in requestedToolConfirmations ? 'waits for approval' : response.id in requestedAuthConfigs && 'waits for a credential';
    const failed = !waits && response.response && typeof response.response === 'object' && 'error' in response.response;
    known.result.textContent = ` ← ${waits || inline(response.response)}`;
    known.result.classList.toggle('bad', failed);
    known.body?.replaceChildren(json(response.response));
    if (known.question && event.author === 'user') known.question.replaceWith(known.question = settled(response, known.call));
    else if (known.question) known.question.hidden = isFailure(response.response); // the call failed, so it needs no answer
    return [];
  }

  note(row, event) {
    if (event.partial) return;
    const { stateDelta = {}, artifactDelta = {}, transferToAgent, escalate } = event.actions ?? {};
    const keys = Object.keys(stateDelta);
    const chips = [
      isAborted(event) && el('span', { class: 'chip' }, 'interrupted'),
      transferToAgent && el('span', { class: 'chip' }, `→ ${transferToAgent}`),
      escalate && el('span', { class: 'chip' }, 'ends the loop'),
      keys.length > 0 && fold(el('span', { class: 'chip' }, `state: ${keys.length > 3 ? count(keys.length, 'key') : keys.map(escapeControls).join(', ')}`), () => json(stateDelta)),
      ...Object.entries(artifactDelta).map(([name, version]) => fold(el('span', { class: 'chip' }, `${escapeControls(name)} v${version}`), () => drawArtifact(name, () => this.tools.artifact(name, version)))),
    ].filter(Boolean);
    row.meta.append(...chips);
    const text = textOf(event.content) || spokenText(event);
    if (text && !row.isMine) row.meta.append(copyButton(() => text, { title: 'Copy this message' }) ?? '');
    if (event.output !== undefined && !event.content) row.body.append(fold(['output ', inline(event.output)], () => json(event.output), { class: 'call' }));
    const problem = isAborted(event) ? '' : describeError(event);
    if (problem) row.body.append(el('p', { class: 'bad', title: event.errorCode }, escapeControls(problem)));
    if (fromModel(event) && !this.spoken.has(event.invocationId)) row.meta.append(fold(el('span', { class: 'chip quiet' }, ['request', usage(event)].filter(Boolean).join(' · ')), () => fetched(() => this.tools.request(event))));
    const revision = event.provenance?.revision;
    if (revision) row.node.title = `${event.author} · revision ${short(revision)}`;
  }

  atEnd() {
    return !this.window.below.length && this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight < 60;
  }

  toEnd() {
    this.window.toEnd();
  }
}

function drawText(row, part) {
  const [text, cut] = cutText(part.text);
  const node = row.isMine ? el('p', { class: 'text' }, text) : part.thought ? thought(text) : drawMarkdown(text);
  return cut ? [node, el('p', { class: 'dim' }, `${cut} more characters are not shown.`)] : [node];
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

/** changesOf returns the arguments that an approval has changed, in words. */
function changesOf(response, call) {
  const before = call.name === 'adk_request_confirmation' ? call.args?.toolConfirmation?.payload : call.args?.payload?.confirmation_payload;
  const after = response.response.payload;
  if (!after || typeof after !== 'object' || Array.isArray(after)) return '';
  const changed = Object.entries(after).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before?.[name] ?? null));
  return changed.length ? ` with ${changed.map(([name, value]) => `${escapeControls(name)}: ${inline(value)}`).join(', ')}` : '';
}

const settled = (response, call) => el('p', { class: 'answered' }, response.response?.confirmed === true ? `Approved${changesOf(response, call)}` : response.response?.confirmed === false ? 'Denied' : `Answered: ${inline(response.response)}`);
