// A conversation: the sessions of one user with one app, and the run in progress.

import { fetchOK, get, frames, path, HTTPError } from './wire.js';

const RECENT = 50;

/** A Conversation holds one session; a new one is created by its first message. */
export class Conversation {
  /** handlers are onEvent, onRun(running), onSessions and onCreated(session). */
  constructor(handlers) {
    Object.assign(this, { handlers, app: '', user: 'user', id: '', sessions: [], running: null });
  }

  /** choose switches to an app without selecting a session. */
  choose(app) {
    this.stop();
    Object.assign(this, { app, id: '', sessions: [] });
  }

  get address() {
    return path('apps', this.app, 'users', this.user, 'sessions');
  }

  get sessionAddress() {
    return `${this.address}/${encodeURIComponent(this.id)}`;
  }

  /** list fetches the recent sessions of the user, newest first. */
  async list() {
    const { app, user } = this;
    const all = await get(`${this.address}?pageSize=${RECENT}`);
    if (app !== this.app || user !== this.user) return;
    this.sessions = all.sort((a, b) => b.lastUpdateTime - a.lastUpdateTime);
    this.handlers.onSessions();
  }

  /** open switches to a session and fetches it with its events. */
  async open(id) {
    this.stop();
    this.id = id;
    return this.load();
  }

  /** load fetches the current session with its events. */
  load() {
    return get(`${this.sessionAddress}?provenance=true`);
  }

  /** state fetches the stored state. */
  async state() {
    await this.list();
    const listed = this.sessions.find((s) => s.id === this.id);
    return (listed ?? await this.load()).state;
  }

  /** patch changes the state and returns the session. */
  async patch(stateDelta) {
    return (await fetchOK('PATCH', this.sessionAddress, { stateDelta })).json();
  }

  /** rewind takes the session back to before an invocation and returns it. */
  async rewind(invocationId) {
    return (await fetchOK('POST', `${this.sessionAddress}/rewind`, { rewindBeforeInvocationId: invocationId })).json();
  }

  async remove(id) {
    await fetchOK('DELETE', `${this.address}/${encodeURIComponent(id)}`);
    if (id === this.id) this.id = '';
    await this.list();
  }

  /**
   * run sends a message, or resumes without one, and reports each event. A new
   * session starts with state. The outcome has isStopped, isAccepted, hasFailed,
   * and the error, which is '' if an event already contains it.
   */
  run({ newMessage, state, ...more }) {
    const { app, user } = this;
    return this.during(async (signal, outcome) => {
      if (!this.id) await this.create(state, signal);
      await this.read({ appName: app, userId: user, sessionId: this.id, newMessage, ...more }, { signal, outcome });
    });
  }

  /** follow reports the events after an event until the run has ended. */
  follow(lastEventId) {
    const { app, user, id } = this;
    return this.during((signal, outcome) => this.read({ appName: app, userId: user, sessionId: id }, { signal, outcome, headers: { 'Last-Event-ID': lastEventId } }));
  }

  /** create begins a session with a state. */
  async create(state, signal) {
    const made = await (await fetchOK('POST', this.address, state ? { state } : {}, { signal })).json();
    signal?.throwIfAborted();
    this.id = made.id;
    this.sessions = [made, ...this.sessions];
    this.handlers.onCreated(made);
  }

  async read(body, { signal, outcome, headers }) {
    const answer = await fetchOK('POST', 'run_sse?provenance=true', body, { signal, headers });
    outcome.isAccepted = true;
    let shown = '';
    for await (const frame of frames(answer)) {
      signal.throwIfAborted();
      if (frame.error !== undefined && !frame.id) {
        outcome.hasFailed = true;
        if (!shown || !frame.error.includes(shown)) outcome.error = frame.error;
        continue;
      }
      shown = frame.errorMessage || shown;
      this.handlers.onEvent(frame);
    }
  }

  // during tracks work as the run in progress; stop aborts it.
  async during(work) {
    const end = new AbortController();
    const outcome = { error: '', isStopped: false, isAccepted: false, hasFailed: false };
    this.running = end;
    this.handlers.onRun(true);
    try {
      await work(end.signal, outcome);
    } catch (error) {
      outcome.isStopped = end.signal.aborted;
      outcome.hasFailed = true;
      outcome.error = error instanceof HTTPError ? error.message : end.signal.aborted ? 'stopped' : 'The server is not reachable.';
    } finally {
      if (this.running === end) {
        this.running = null;
        this.handlers.onRun(false);
      }
    }
    return outcome;
  }

  /** stop ends the run in progress by closing its connection. */
  stop() {
    this.running?.abort();
  }
}
