// The chat with the selected app: sessions, events, message box and state.

import { el, byId } from './dom.js';
import { fetchOK, get, path } from './wire.js';
import { Conversation } from './conversation.js';
import { Transcript } from './events.js';
import { StatePanel, diffState } from './state.js';
import { findOpenTurn, isQuestionOpen } from './turns.js';
import { keepVisible } from './turn_tree.js';
import { TurnActions } from './turn_actions.js';
import { rememberTitle, loadDraft, storeDraft } from './memory.js';
import { titleFrom, storedTitle } from './titles.js';
import { SessionBar } from './session_bar.js';
import { SessionList } from './session_list.js';
import { Follower } from './follow.js';
import { isSpoken, spokenText } from './live_events.js';
import { LiveChat } from './live_chat.js';

/** A Chat is a conversation with the selected app. */
export class Chat {
  /**
   * page.lightUp(name) marks the agent that works, page.onActive(name) the one that answered last, page.onSession() is called after the
   * session has changed, page.onChoice() when the user starts one, page.onCase(file) after it became a case of an eval set, and
   * page.isResumable() reports whether the app is resumable.
   */
  constructor(page) {
    const { answer, request, artifact } = this;
    const bound = Object.fromEntries(Object.entries({ answer, request, artifact }).map(([name, f]) => [name, f.bind(this)]));
    Object.assign(this, { page, blocked: '', initial: new Map(), message: byId('message') });
    this.talk = new Conversation({ onEvent: (e) => this.onEvent(e), onRun: (r) => this.onRun(r), onSessions: () => this.drawSessions(), onCreated: () => this.onCreated(), onStored: () => this.follower.announce() });
    this.turns = new TurnActions(this);
    this.transcript = new Transcript(byId('events'), { ...bound, actions: (turn, tree) => this.turns.draw(turn, tree), why: (event) => this.turns.explain(event.invocationId, event.id) });
    this.bar = new SessionBar(byId('session'), this);
    this.list = new SessionList(byId('sessions'), this);
    this.follower = new Follower(() => this.sync());
    this.live = new LiveChat(this);
    this.state = new StatePanel(byId('state'), { save: (next, before) => this.saveState(next, before), showEvent: (id) => this.transcript.showEvent(id) });
    this.listen();
  }

  get app() {
    return this.talk.app;
  }

  get session() {
    return this.talk.id;
  }

  /** open switches to an app and a session, or a new session. Each app has its own draft. */
  open(app, session) {
    this.talk.choose(app);
    this.message.value = loadDraft(app);
    this.openSession(session);
    if (app) this.talk.list().catch(() => {});
  }

  /** startSession begins a session, which its first message creates. */
  startSession() {
    this.openSession('');
    this.page.onChoice();
    this.message.focus();
  }

  drawSessions() {
    this.bar.draw();
    this.list.draw();
  }

  /** setBlocked sets the reason why messages cannot be sent; '' if they can. */
  setBlocked(reason) {
    this.blocked = reason;
    byId('talk').toggleAttribute('data-blocked', !!reason);
    this.drawSend();
  }

  /** notify adds a line to a chat that has events. */
  notify(text, cls) {
    if (byId('events').querySelector('.turn')) this.transcript.addNotice(text, cls);
  }

  async openSession(id) {
    const { app } = this;
    const view = this.view = {}; // results requested by an earlier view are not drawn
    this.talk.leave();
    this.live.stop();
    this.isFollowing = false;
    this.loadedAt = 0;
    this.talk.id = id;
    this.page.onActive('');
    this.transcript.clear(!id && app && `Send a message to ${app}. Each answer uses the files as last saved.`);
    this.state.clear(id ? {} : this.initial.get(app), !id);
    this.drawSessions();
    this.page.onSession();
    if (!id) return;
    try {
      const session = await this.talk.load();
      if (view !== this.view) return;
      this.show(session);
      this.transcript.toEnd();
    } catch (error) {
      if (view !== this.view) return;
      this.talk.id = '';
      this.transcript.addNotice(error.message, 'bad');
    }
  }

  // show draws a stored session. If its last turn is incomplete, it may still be
  // running, here or in another window: follow its events.
  show(session) {
    this.transcript.show(session.events);
    this.page.onActive(this.transcript.tree.events.findLast((e) => e.author !== 'user')?.author ?? '');
    this.state.set(session.state, session.events);
    this.loadedAt = session.lastUpdateTime;
    const first = session.events.map((e) => e.author === 'user' && (e.content?.parts?.[0]?.text || spokenText(e))).find(Boolean);
    if (first && !storedTitle(session)) rememberTitle(session.id, titleFrom(first));
    this.drawSessions();
    this.transcript.setLine(this.turns.drawTakenBack(this.transcript.tree));
    const turn = this.openTurn = findOpenTurn(session.events);
    if (turn?.hasFailed) this.offerRetry(turn);
    else if (turn) this.followTurn(turn);
  }

  async followTurn(turn) {
    const { view } = this;
    this.isFollowing = true;
    const before = this.transcript.rows.size;
    const { isStopped } = await this.talk.follow(turn.lastEventId);
    if (view !== this.view) return;
    this.isFollowing = false;
    this.drawSend();
    if (isStopped) return;
    if (this.transcript.rows.size > before) await this.sync(true);
    else this.offerRetry(turn);
  }

  // offerRetry shows that the last turn is incomplete and offers to repeat it:
  // resumable apps resume, others rewind and receive the message again.
  offerRetry(turn, text) {
    const note = text || (turn.hasFailed ? 'This turn failed.' : turn.hasAnswer ? 'This answer was interrupted.' : 'This turn was interrupted before it had an answer.');
    const isResumable = this.page.isResumable() && !turn.hasFailed;
    const action = isResumable ? ['Resume', 'Continue where the turn stopped'] : ['Retry', 'Take the turn back and send its message again'];
    const again = isResumable ? () => this.resume(turn) : () => this.retry(turn);
    const canRepeat = isResumable || turn.message;
    const button = canRepeat && el('button', { type: 'button', class: 'quiet', title: action[1], onclick: again }, action[0]);
    if (turn.hasFailed && !text && this.transcript.addToError(button)) return;
    this.transcript.setLine(el('p', { class: 'interrupted', role: 'status' }, note, button || ' Send a message to continue.'));
  }

  async retry(turn) {
    if (this.isBusy()) return;
    this.transcript.setLine(null);
    try {
      await this.turns.repeat(turn.invocationId, turn.message);
    } catch (error) {
      this.offerRetry(turn, error.message);
    }
  }

  async resume(turn) {
    if (this.isBusy()) return;
    await this.run({ invocationId: turn.invocationId });
  }

  isBusy() {
    return !!this.talk.running || this.live.isActive || !!this.blocked;
  }

  /** send runs a message of the user in the selected app. */
  async send(content) {
    this.transcript.setLine(null);
    this.transcript.add({ id: `mine-${performance.now()}`, author: 'user', content });
    this.transcript.toEnd();
    await this.run({ newMessage: content });
  }

  // run returns the outcome; isQuiet leaves a rejection to the caller.
  async run({ isQuiet, ...request }) {
    const { app, view } = this;
    const text = request.newMessage?.parts?.[0]?.text;
    this.transcript.setLine(null);
    this.state.begin();
    this.loadedAt = 0;
    const outcome = await this.talk.run({ streaming: byId('streaming').checked, state: this.initial.get(app), title: titleFrom(text ?? ''), ...request });
    if (!outcome.isAccepted && !outcome.isStopped && text && !this.isLeaving) this.restoreDraft(app, text);
    if (view !== this.view) return outcome;
    if (outcome.error && !outcome.isStopped && (outcome.isAccepted || !isQuiet)) this.transcript.addNotice(outcome.error, 'bad');
    if (outcome.isStopped) await this.showStopped(outcome, text);
    if (!this.session || view !== this.view) return outcome;
    if (outcome.hasFailed && !outcome.isStopped) await this.offerRetryOfFailed(view);
    const state = await this.talk.state().catch(() => null);
    if (state && view === this.view) this.state.set(state);
    return outcome;
  }

  // showStopped shows the stored events of a stopped turn. A message that was not
  // stored becomes the draft again.
  async showStopped(outcome, text) {
    const { app, view } = this;
    this.openTurn = null;
    await this.sync(true);
    if (outcome.isAccepted || this.openTurn || view !== this.view || !text) return;
    this.restoreDraft(app, text);
    this.transcript.setLine(el('p', { class: 'interrupted', role: 'status' }, 'Interrupted before the message was sent.'));
  }

  // restoreDraft makes a message that the server did not accept the draft again.
  restoreDraft(app, text) {
    if (app !== this.app) storeDraft(app, loadDraft(app) || text);
    else if (!this.message.value) this.setDraft(text);
  }

  // offerRetryOfFailed offers to repeat a turn whose error is already shown.
  async offerRetryOfFailed(view) {
    const session = await this.talk.load().catch(() => null);
    const turn = session && findOpenTurn(session.events);
    if (turn && view === this.view && !this.talk.running) this.offerRetry({ ...turn, hasFailed: true });
  }

  // sync shows changes made elsewhere, such as in another window.
  async sync(isChanged = false) {
    const { session, view } = this;
    if (!this.app || this.talk.running || this.live.isActive) return;
    if (!session) {
      await this.talk.list();
      return;
    }
    try {
      if (!isChanged && await this.isCurrent()) return;
      const stored = await this.talk.load();
      if (view !== this.view || this.talk.running || this.live.isActive) return;
      this.loadedAt = stored.lastUpdateTime;
      if (isChanged || this.transcript.isMissing(keepVisible(stored.events))) this.show(stored);
      else this.state.set(stored.state, stored.events);
    } catch (error) {
      if (error.status === 404 && view === this.view && !this.blocked) this.transcript.setLine(el('p', { class: 'interrupted' }, 'This session was deleted.'));
    }
  }

  // isCurrent compares update times, so that a long session is not fetched on every poll.
  async isCurrent() {
    const { session, loadedAt } = this;
    await this.talk.list();
    return this.talk.sessions.some((s) => s.id === session && s.lastUpdateTime === loadedAt);
  }

  // Tools of the events.

  // answer responds to a call unless another window already did. The form stays until the server has
  // taken the answer, and gets the reason if it does not.
  async answer(event, call, response) {
    if (this.talk.running) throw new Error('Wait until the current answer is complete.');
    if (this.blocked) throw new Error(this.blocked);
    const { view } = this;
    const stored = await this.talk.load();
    if (view !== this.view) return;
    if (!isQuestionOpen(stored.events, call.id)) {
      this.show(stored);
      this.transcript.addNotice('This call was already answered in another window.');
      return;
    }
    const parts = [{ functionResponse: { id: call.id, name: call.name, response } }];
    if (this.live.isActive) {
      this.live.send({ role: 'user', parts });
      return;
    }
    const resume = this.page.isResumable() ? { invocationId: event.invocationId } : {};
    const content = { role: 'user', parts };
    const onAccepted = () => view === this.view && this.transcript.add({ id: `mine-${performance.now()}`, author: 'user', content });
    const outcome = await this.run({ newMessage: content, onAccepted, isQuiet: true, ...resume });
    if (outcome.isAccepted || view !== this.view) return;
    await this.sync(true); // another window may have answered it
    throw new Error(outcome.error);
  }

  async request(event, app = this.app) {
    const trace = await get(path('dev', 'apps', app, 'debug', 'trace', event.id)).catch((error) => {
      throw error.status === 404 ? new Error('Request not found: the server keeps only the latest ones.') : error;
    });
    const text = trace['gcp.vertex.agent.llm_request'];
    if (!text) throw new Error('The server keeps requests only with --dev.');
    return JSON.parse(text);
  }

  artifact(name, version) {
    return get(`${this.talk.address}/${path(this.session, 'artifacts', ...name.split('/'), 'versions')}/${version}`);
  }

  /** preview returns the next request of an agent's model. */
  async preview(agent) {
    const body = { agent, userId: this.talk.user, sessionId: this.session, text: this.message.value };
    return (await fetchOK('POST', path('apps', this.app, 'preview'), body)).json();
  }

  async saveState(next, before) {
    if (!this.session) {
      this.initial.set(this.app, next);
      this.state.clear(next, true);
      return;
    }
    if (this.talk.running) throw new Error('Wait until the current answer is complete.');
    const delta = diffState(before, next);
    if (!Object.keys(delta).length) return;
    if (this.live.isActive) {
      this.live.changeState(delta);
      this.state.begin();
      this.state.apply(delta);
      return;
    }
    const session = await this.talk.patch(delta);
    this.state.begin();
    this.state.apply(delta);
    if (session.id === this.session) this.state.set(session.state, session.events);
  }

  // Callbacks of the run.

  onEvent(event, rows = this.transcript) { // rows of a live conversation
    rows.add(event);
    if (event.partial) {
      this.page.lightUp(event.author);
      return;
    }
    this.state.apply(event.actions?.stateDelta, event);
    const agent = event.actions?.transferToAgent ?? event.author;
    if (agent !== 'user') this.page.onActive(agent);
    this.page.lightUp(agent);
    const text = isSpoken(event) ? spokenText(event) : event.author !== 'user' && (event.content?.parts ?? []).map((p) => (p.thought ? '' : p.text ?? '')).join('');
    if (text) byId('announcement').textContent = `${event.author}: ${text}`;
  }

  onCreated() {
    this.page.onSession();
    this.drawSessions();
  }

  onRun(running) {
    this.drawSend();
    byId('events').setAttribute('aria-busy', running);
    if (!running) this.page.lightUp('');
  }

  // The message box.

  drawSend() {
    byId('send').textContent = this.talk.running ? 'Stop' : 'Send';
    byId('send').disabled = !this.talk.running && !!this.blocked;
    this.live.setDisabled(!!this.blocked || !!this.talk.running || !this.app);
    const reason = this.isFollowing && this.talk.running ? 'Loading the rest of this turn…' : this.blocked;
    byId('blocked').textContent = reason;
    byId('blocked').hidden = !reason;
  }

  setDraft(text) {
    this.message.value = text;
    storeDraft(this.app, text);
  }

  /** stop ends the answer in progress. */
  stop() {
    this.talk.stop().catch((error) => this.transcript.addNotice(error.message, 'bad'));
  }

  submit() {
    if (this.talk.running) {
      this.stop();
      return;
    }
    const text = this.message.value;
    if (!text.trim() || this.blocked || !this.app) return;
    try {
      if (this.live.isActive) this.live.send({ role: 'user', parts: [{ text }] });
      else this.send({ role: 'user', parts: [{ text }] });
      this.setDraft('');
    } catch (error) {
      this.transcript.addNotice(error.message, 'bad');
    }
  }

  listen() {
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    this.message.addEventListener('input', () => storeDraft(this.app, this.message.value));
    this.message.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.talk.running) this.submit();
    });
    window.addEventListener('beforeunload', () => { this.isLeaving = true; }); // a page reload aborts the run, but the server has the message
  }
}
