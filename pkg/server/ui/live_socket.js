// The connection of a live conversation: a WebSocket that reconnects.

const RETRYABLE = [1001, 1006, 1012, 1013]; // RFC 6455: going away, lost, restart, try again later
const MAX_ATTEMPTS = 8;
const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 8000;
const STEADY_MS = 5000; // a connection that lives shorter counts as another failed attempt
const CLOSE_MS = 2000;
const MAX_PENDING = 32;
const MAX_BUFFERED = 256 * 1024;

/** A LiveSocket holds one live conversation with a session, over one or more connections. */
export class LiveSocket {
  /**
   * route has address(canResume), which resolves to { url, protocols } or throws an error with
   * isFinal, and refusal(canResume), which resolves to why the address takes no WebSocket, or to ''
   * if a retry may help. handlers: onState(state, reason) with the states connecting, live,
   * reconnecting and ended, onEvent(event), and onError(text) for a rejected frame.
   */
  constructor(route, handlers) {
    Object.assign(this, { route, handlers, state: '', pending: [], attempts: 0, canResume: false });
  }

  open() {
    this.setState('connecting');
    this.connect();
  }

  /** send delivers a request, after the reconnect if there is no connection now. */
  send(request) {
    if (this.isOpen) this.socket.send(JSON.stringify(request));
    else if (this.pending.length < MAX_PENDING) this.pending.push(request);
    else throw new Error('Too many messages wait for the connection.');
  }

  /** sendMedia delivers audio or an image, unless the connection is not fast enough. */
  sendMedia(mimeType, data) {
    if (this.isOpen && this.socket.bufferedAmount < MAX_BUFFERED) this.send({ blob: { mimeType, data } });
  }

  /** close ends the conversation; the last events still arrive. */
  close() {
    if (this.state === 'ended') return;
    clearTimeout(this.timer);
    const { socket } = this;
    if (this.isOpen) {
      socket.send(JSON.stringify({ close: true }));
      setTimeout(() => socket.close(1000), CLOSE_MS);
    } else socket?.close();
    this.end('');
  }

  get isOpen() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  async connect() {
    let address;
    try {
      address = await this.route.address(this.canResume);
    } catch (error) {
      if (error.isFinal) this.end(error.message);
      else this.retry('The server is not reachable.');
      return;
    }
    if (this.state === 'ended') return;
    const socket = this.socket = new WebSocket(address.url, address.protocols ?? []);
    socket.addEventListener('open', () => this.onOpen());
    socket.addEventListener('message', ({ data }) => this.onMessage(data));
    socket.addEventListener('close', ({ code, reason }) => this.onClose(code, reason));
  }

  onOpen() {
    this.openedAt = performance.now();
    this.setState('live');
    for (const request of this.pending.splice(0)) this.send(request);
  }

  onMessage(data) {
    const frame = JSON.parse(data);
    if (frame.goAway) return; // the server closes the connection after this turn
    if (frame.liveSessionResumptionUpdate?.newHandle) this.canResume = true;
    if (frame.error !== undefined && !frame.id) this.handlers.onError(frame.error);
    else this.handlers.onEvent(frame);
  }

  async onClose(code, reason) {
    if (this.state === 'ended') return;
    const refusal = this.openedAt ? null : await this.route.refusal(this.canResume);
    if (this.openedAt && performance.now() - this.openedAt > STEADY_MS) this.attempts = 0;
    this.openedAt = 0;
    if (code === 1000) this.end(reason);
    else if (refusal) this.end(refusal);
    else if (RETRYABLE.includes(code)) this.retry(reason);
    else this.end(reason || `The server closed the connection with code ${code}.`);
  }

  retry(reason) {
    if (this.state === 'ended') return;
    this.lastReason = reason || this.lastReason;
    if (++this.attempts > MAX_ATTEMPTS) {
      this.end(this.lastReason || 'The connection was lost, and the server is not reachable.');
      return;
    }
    this.setState('reconnecting', reason);
    const wait = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** (this.attempts - 1));
    this.timer = setTimeout(() => this.connect(), wait * (0.5 + Math.random() / 2));
  }

  setState(state, reason = '') {
    this.state = state;
    this.handlers.onState(state, reason);
  }

  end(reason) {
    if (this.state !== 'ended') this.setState('ended', reason);
  }
}
