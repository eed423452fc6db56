// Follows changes that other clients make: tabs of this browser notify each other, and the page polls
// for clients elsewhere, on any replica. A poll costs the server at most a fiftieth of its time.

const MIN_WAIT = 2000;
const MAX_WAIT = 30_000;
const SHARE = 50;

/** A Follower calls look when something may have changed, while the page is visible. */
export class Follower {
  constructor(look) {
    this.look = look;
    this.channel = new BroadcastChannel('agenthost.sessions');
    this.channel.onmessage = () => this.poll();
    window.addEventListener('focus', () => this.poll());
    document.addEventListener('visibilitychange', () => this.poll());
    this.plan(MIN_WAIT);
  }

  /** announce lets the other tabs look. */
  announce() {
    this.channel.postMessage('changed');
  }

  plan(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.poll(), wait);
  }

  async poll() {
    clearTimeout(this.timer);
    if (document.hidden) return; // until it is visible again
    if (this.isPolling) { // a change during a poll may be missing in its result
      this.isStale = true;
      return;
    }
    this.isPolling = true;
    const began = performance.now();
    await this.look().catch(() => {}); // the server cannot be reached, or has no such session: ask later
    this.isPolling = false;
    const took = performance.now() - began;
    this.plan(this.isStale ? 0 : Math.min(MAX_WAIT, Math.max(MIN_WAIT, took * SHARE)));
    this.isStale = false;
  }
}
