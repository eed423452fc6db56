// The chat in a frame of another page: its token and its state.

/** isFramed reports whether another page embeds this one. */
export const isFramed = window.parent !== window;

const NAME = 'agenthost-chat';
const PATIENCE_MS = 10_000;

/** A Frame talks with the page that embeds the chat. It listens to the app's origins only. */
export class Frame {
  /** handlers: onToken(token), onFocus(). */
  constructor(origins, handlers) {
    Object.assign(this, { origins, handlers, waiting: [] });
    if (!isFramed) return;
    window.addEventListener('message', (event) => this.receive(event));
    this.post({ type: 'ready' });
  }

  // post sends to each origin that may embed the chat: the browser delivers only to the page's own.
  post(message) {
    for (const origin of this.origins) window.parent.postMessage({ name: NAME, ...message }, origin);
  }

  receive({ source, origin, data }) {
    if (source !== window.parent || !this.origins.includes(origin) || data?.name !== NAME) return;
    if (data.type === 'token' && typeof data.token === 'string') {
      this.handlers.onToken(data.token);
      for (const done of this.waiting.splice(0)) done(!!data.token);
    }
    if (data.type === 'focus') this.handlers.onFocus();
  }

  /** askToken asks the page for a token, and resolves to whether it has one. */
  askToken() {
    if (!isFramed || !this.origins.length) return Promise.resolve(false);
    return new Promise((done) => {
      this.waiting.push(done);
      this.post({ type: 'needs-token' });
      setTimeout(() => done(false), PATIENCE_MS);
    });
  }

  /** close asks the page to hide the chat. */
  close() {
    this.post({ type: 'close' });
  }
}
