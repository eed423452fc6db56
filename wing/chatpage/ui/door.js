// The page's client: who the user is, requests, and failures in words.

import { frames, path } from '../../ui/wire.js';

const GUEST = 'agenthost-chat.guest';
const TOKEN = 'agenthost-chat.token';
const MAX_ATTEMPTS = 5; // to sign in

/**
 * A Refusal is a failure in words for people. kind is one of the server's, or offline or signin, and
 * fields are the names of the values that the server has rejected.
 */
export class Refusal extends Error {
  constructor(kind, status = 0, fields = []) {
    super(WORDS[kind] ?? WORDS.failed);
    Object.assign(this, { kind, status, fields });
  }
}

const MAX_FIELDS = 30;

// rejectedFields reads the names of the rejected values in a response. That of a proxy may have any form.
async function rejectedFields(response) {
  const { detail } = await response.json().catch(() => null) ?? {};
  if (!Array.isArray(detail)) return [];
  return detail.slice(0, MAX_FIELDS).map((d) => d?.loc).filter((loc) => loc?.[1] === 'fields').map((loc) => String(loc[2]));
}

const WORDS = {
  busy: 'This conversation is still being answered. Wait a moment, then try again.',
  limit: 'That was too much in a short time. Wait a minute, then try again.',
  large: 'This is too large to send.',
  missing: 'This conversation does not exist any more.',
  time: 'The answer took too long.',
  unavailable: 'The service is not available right now. Try again in a moment.',
  failed: 'Something went wrong.',
  stopped: 'You stopped this answer.',
  interrupted: 'The answer was interrupted.',
  offline: 'The service cannot be reached. Check your connection.',
  type: 'Files of this type cannot be sent here.',
  answer: 'This answer does not fit the question.',
  closed: 'This question was already answered.',
  forbidden: 'You do not have access to this chat.',
  signin: 'Sign in to continue.',
};

/** words returns the sentence for a kind of failure. */
export const words = (kind) => WORDS[kind] ?? WORDS.failed;

/** isKind reports whether a string is a kind of failure. */
export const isKind = (text) => Object.hasOwn(WORDS, text);

const KINDS = { 401: 'signin', 403: 'forbidden', 404: 'missing', 409: 'busy', 413: 'large', 415: 'type', 422: 'answer', 429: 'limit', 503: 'unavailable', 504: 'time' };

// Browsers may forbid storage, for example in a frame: then values last as long as the page.
const kept = new Map();
const openStore = (name) => {
  try {
    return window[name];
  } catch {
    return null;
  }
};

/** recall reads a value that remember has kept in this browser. */
export function recall(key) {
  try {
    return openStore('localStorage')?.getItem(key) ?? kept.get(key) ?? '';
  } catch {
    return kept.get(key) ?? '';
  }
}

/** remember keeps a value in this browser; '' removes it. */
export function remember(key, value) {
  kept.set(key, value);
  try {
    if (value) openStore('localStorage')?.setItem(key, value);
    else openStore('localStorage')?.removeItem(key);
  } catch { /* full, or forbidden */ }
}

function newSecret() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('');
}

/** A Door sends the requests of one user. */
export class Door {
  /** signIn is required, optional or empty; onSignIn resolves once there may be another token. */
  constructor(base, signIn, onSignIn) {
    Object.assign(this, { base, signIn, onSignIn, token: '' });
    try {
      this.token = openStore('sessionStorage')?.getItem(TOKEN) ?? '';
    } catch { /* forbidden */ }
  }

  /** setToken uses a token for all requests; isKept keeps it until the tab closes. */
  setToken(token, isKept = false) {
    this.token = token;
    try {
      if (token && isKept) openStore('sessionStorage')?.setItem(TOKEN, token);
      else openStore('sessionStorage')?.removeItem(TOKEN);
    } catch { /* forbidden */ }
  }

  get headers() {
    if (this.token) return { Authorization: `Bearer ${this.token}` };
    let secret = recall(GUEST);
    if (!/^[0-9a-f]{32}$/.test(secret)) remember(GUEST, secret = newSecret());
    return { 'X-Chat-Guest': secret };
  }

  /** offer is the user's token, or the guest's secret, as the subprotocol of a WebSocket. */
  get offer() {
    const headers = this.headers;
    if (!this.token) return `guest.${headers['X-Chat-Guest']}`;
    const bytes = String.fromCharCode(...new TextEncoder().encode(this.token));
    return `bearer.${btoa(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')}`;
  }

  /** address returns the URL of a conversation, or of all. */
  address(id, ...more) {
    return [this.base, 'conversations', ...(id ? [path(id)] : []), ...more].join('/');
  }

  /** send sends a request again after the user has signed in again. */
  async send(method, url, body, options = {}) {
    for (let attempt = 0; ; attempt++) {
      const response = await this.fetch(method, url, body, options);
      if (response.ok) return response;
      const fields = response.status === 422 ? await rejectedFields(response) : [];
      response.body?.cancel().catch(() => {});
      if (response.status === 401 && attempt < MAX_ATTEMPTS && await this.onSignIn()) continue;
      throw new Refusal(options.kinds?.[response.status] ?? KINDS[response.status] ?? 'failed', response.status, fields);
    }
  }

  async fetch(method, url, body, { signal, keepalive } = {}) {
    const headers = this.headers;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    try {
      return await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, keepalive, referrerPolicy: 'no-referrer' });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Refusal('offline');
    }
  }

  async json(method, url, body, options) {
    return (await this.send(method, url, body, options)).json();
  }

  /** stream yields the frames of a request. */
  async* stream(method, url, body, options) {
    const response = await this.send(method, url, body, options);
    try {
      yield* frames(response);
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Refusal('offline');
    }
  }
}
