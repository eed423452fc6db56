// A conversation: the sessions of one user with one app, and the run in progress.

import { ask, get, frames, path, Refused } from './wire.js';

const RECENT = 50;

/** A Conversation holds one session; a new one is created by its first message. */
export class Conversation {
  /** tell has onEvent, onRun(running), onSessions and onCreated(session). */
  constructor(tell) {
    Object.assign(this, { tell, app: '', user: 'user', id: '', sessions: [], running: null });
  }

  /** choose switches to an app, without a session yet. */
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

  /** list fetches the recent sessions of the user, the newest first. */
  async list() {
    const { app, user } = this;
    const all = await get(`${this.address}?pageSize=${RECENT}`);
    if (app !== this.app || user !== this.user) return;
    this.sessions = all.sort((a, b) => b.lastUpdateTime - a.lastUpdateTime);
    this.tell.onSessions();
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

  /** state fetches what is stored now. */
  async state() {
    await this.list();
    const listed = this.sessions.find((s) => s.id === this.id);
    return (listed ?? await this.load()).state;
  }

  /** patch changes the state, and returns the session. */
  async patch(stateDelta) {
    return (await ask('PATCH', this.sessionAddress, { stateDelta })).json();
  }

  /** rewind takes the session back to before an invocation, and returns it. */
  async rewind(invocationId) {
    return (await ask('POST', `${this.sessionAddress}/rewind`, { rewindBeforeInvocationId: invocationId })).json();
  }

  async remove(id) {
    await ask('DELETE', `${this.address}/${encodeURIComponent(id)}`);
    if (id === this.id) this.id = '';
    await this.list();
  }

  /**
   * run sends a message (or, without one, resumes) and reports each event. A new
   * session begins with state. The outcome has isStopped, isAccepted, hasFailed,
   * and the error, which is '' when an event has shown it already.
   */
  run({ newMessage, state, ...more }) {
    const { app, user } = this;
    return this.during(async (signal, outcome) => {
      if (!this.id) await this.create(state, signal);
      await this.read({ appName: app, userId: user, sessionId: this.id, newMessage, ...more }, { signal, outcome });
    });
  }

  /** follow reports what comes after an event, until no run has the session. */
  follow(lastEventId) {
    const { app, user, id } = this;
    return this.during((signal, outcome) => this.read({ appName: app, userId: user, sessionId: id }, { signal, outcome, headers: { 'Last-Event-ID': lastEventId } }));
  }

  async create(state, signal) {
    const made = await (await ask('POST', this.address, state ? { state } : {}, { signal })).json();
    signal.throwIfAborted();
    this.id = made.id;
    this.sessions = [made, ...this.sessions];
    this.tell.onCreated(made);
  }

  async read(body, { signal, outcome, headers }) {
    const answer = await ask('POST', 'run_sse?provenance=true', body, { signal, headers });
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
      this.tell.onEvent(frame);
    }
  }

  // during does what a run does, which stop can end.
  async during(work) {
    const end = new AbortController();
    const outcome = { error: '', isStopped: false, isAccepted: false, hasFailed: false };
    this.running = end;
    this.tell.onRun(true);
    try {
      await work(end.signal, outcome);
    } catch (error) {
      outcome.isStopped = end.signal.aborted;
      outcome.hasFailed = true;
      outcome.error = error instanceof Refused ? error.message : end.signal.aborted ? 'stopped' : 'The server is not reachable.';
    } finally {
      if (this.running === end) {
        this.running = null;
        this.tell.onRun(false);
      }
    }
    return outcome;
  }

  /** stop ends the run in progress by closing its connection. */
  stop() {
    this.running?.abort();
  }
}
