// A conversation: the sessions of one user with one app, and the run that is
// under way.

import { ask, get, frames, path, Refused } from './wire.js';

const RECENT = 50;

/** A Conversation holds one session, which begins with its first message. */
export class Conversation {
  /** tell has onEvent, onRun(running) and onSessions. */
  constructor(tell) {
    Object.assign(this, { tell, app: '', user: 'user', id: '', sessions: [], running: null });
  }

  /** choose is another app, and no session of it yet. */
  choose(app) {
    this.stop();
    Object.assign(this, { app, id: '', sessions: [] });
  }

  get address() {
    return path('apps', this.app, 'users', this.user, 'sessions');
  }

  /** list fetches the recent sessions of the user, the newest first. */
  async list() {
    const { app, user } = this;
    const all = await get(`${this.address}?pageSize=${RECENT}`);
    if (app !== this.app || user !== this.user) return;
    this.sessions = all.sort((a, b) => b.lastUpdateTime - a.lastUpdateTime);
    this.tell.onSessions();
  }

  /** open fetches a session with its events. */
  async open(id) {
    this.stop();
    this.id = id;
    return get(`${this.address}/${encodeURIComponent(id)}?provenance=true`);
  }

  /** state is what is stored now. */
  async state() {
    await this.list();
    const listed = this.sessions.find((s) => s.id === this.id);
    return (listed ?? await get(`${this.address}/${encodeURIComponent(this.id)}`)).state;
  }

  async remove() {
    await ask('DELETE', `${this.address}/${encodeURIComponent(this.id)}`);
    this.id = '';
    await this.list();
  }

  /** run sends a message and tells of each event. It returns why it failed, or ''. */
  async run(newMessage, more = {}) {
    const end = new AbortController();
    this.running = end;
    this.tell.onRun(true);
    try {
      if (!this.id) this.id = (await (await ask('POST', this.address, {}, end.signal)).json()).id;
      const body = { appName: this.app, userId: this.user, sessionId: this.id, newMessage, ...more };
      for await (const frame of frames(await ask('POST', 'run_sse?provenance=true', body, end.signal))) {
        if (end.signal.aborted) break;
        if (frame.error !== undefined && !frame.id) throw new Refused(500, frame.error);
        this.tell.onEvent(frame);
      }
      return '';
    } catch (error) {
      if (error.name === 'AbortError') return 'stopped';
      return error instanceof Refused ? error.message : 'the host does not answer';
    } finally {
      if (this.running === end) {
        this.running = null;
        this.tell.onRun(false);
      }
    }
  }

  /** stop leaves the run that is under way, which ends it. */
  stop() {
    this.running?.abort();
  }
}
