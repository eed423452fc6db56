// A conversation: the sessions of one user with one app, and the run in progress.

import { fetchOK, get, frames, path, HTTPError } from './wire.js';
import { withTitle } from './titles.js';

const STOP_TRIES = 10;

/** A Conversation holds one session; a new one is created by its first message. */
export class Conversation {
  /** handlers are onEvent, onRun(running), onSessions, onCreated(session), and onStored()
   * after the server has stored a change. */
  constructor(handlers) {
    Object.assign(this, { handlers, app: '', user: 'user', id: '', sessions: [], running: null });
  }

  /** choose switches to an app without selecting a session. */
  choose(app) {
    this.leave();
    Object.assign(this, { app, id: '', sessions: [] });
  }

  get address() {
    return path('apps', this.app, 'users', this.user, 'sessions');
  }

  get sessionAddress() {
    return this.addressOf(this.id);
  }

  /** addressOf returns the address of a session of the user. */
  addressOf(id) {
    return `${this.address}/${encodeURIComponent(id)}`;
  }

  /** list fetches the sessions of the user, newest first. */
  async list() {
    const { app, user } = this;
    const all = await get(this.address);
    if (app !== this.app || user !== this.user) return;
    this.sessions = all.sort((a, b) => b.lastUpdateTime - a.lastUpdateTime);
    this.handlers.onSessions();
  }

  /** open switches to a session and fetches it with its events. */
  async open(id) {
    this.leave();
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
    const session = await (await fetchOK('PATCH', this.sessionAddress, { stateDelta })).json();
    this.handlers.onStored();
    return session;
  }

  /** rewind takes the session back to before an invocation or to an event, and returns it. */
  async rewind(to) {
    return (await fetchOK('POST', `${this.sessionAddress}/rewind?provenance=true`, to)).json();
  }

  /** fork creates a session with the events up to one of this session, and returns it. */
  async fork(eventId) {
    return (await fetchOK('POST', `${this.sessionAddress}/fork`, { eventId })).json();
  }

  /** remove deletes the session at an address. */
  async remove(address) {
    await fetchOK('DELETE', address);
    this.handlers.onStored();
    await this.list();
  }

  /**
   * run sends a message, or resumes without one, and reports each event. A new
   * session starts with state and a title. onAccepted is called once the server has the message. The run
   * continues if the page is closed. The outcome has isStopped, isAccepted, hasFailed,
   * and the error, which is '' if an event already contains it.
   */
  run({ newMessage, state, title, onAccepted, ...more }) {
    const { app, user } = this;
    return this.during(async (signal, outcome) => {
      if (!this.id) await this.create(state, title, signal);
      this.running.isSent = true;
      await this.read({ appName: app, userId: user, sessionId: this.id, newMessage, ...more }, { signal, outcome, onAccepted });
    });
  }

  /** follow reports the events after an event until the run has ended. */
  follow(lastEventId) {
    const { app, user, id } = this;
    return this.during((signal, outcome) => this.read({ appName: app, userId: user, sessionId: id }, { signal, outcome, headers: { 'Last-Event-ID': lastEventId } }));
  }

  /** create begins a session with a state and a title. */
  async create(state, title, signal) {
    const begin = withTitle(state, title);
    const made = await (await fetchOK('POST', this.address, begin ? { state: begin } : {}, { signal })).json();
    signal?.throwIfAborted();
    this.id = made.id;
    this.sessions = [made, ...this.sessions];
    this.handlers.onCreated(made);
  }

  async read(body, { signal, outcome, headers, onAccepted }) {
    const answer = await fetchOK('POST', 'run_sse?provenance=true&detach=true', body, { signal, headers });
    outcome.isAccepted = true;
    onAccepted?.();
    this.handlers.onStored();
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
        this.handlers.onStored();
      }
    }
    return outcome;
  }

  /** leave closes the connection to the run in progress, which continues without the page. */
  leave() {
    this.running?.abort();
  }

  /** stop ends the run in progress on the server. It throws an error if it cannot reach the run. */
  async stop() {
    const { running, id } = this;
    if (!running) return;
    for (let tries = 1; id && running === this.running; tries++) {
      try {
        await fetchOK('POST', `${this.addressOf(id)}/stop`);
        break;
      } catch (error) {
        // The request that starts the run may be on its way.
        if (error.status === 404 && running.isSent && tries < STOP_TRIES) await new Promise((done) => setTimeout(done, 100));
        else if (error.status === 404) throw new Error('This turn cannot be stopped: no replica runs it.');
        else throw error;
      }
    }
    running.abort();
  }
}
