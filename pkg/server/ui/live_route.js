// Where a live conversation of the developer page connects to.

import { fetchOK, hasToken, HTTPError } from './wire.js';

const TEMPORARY = [408, 425, 426, 429]; // HTTP 426: the address is right, and takes WebSockets

/** isTemporary reports whether a request with an HTTP status may succeed later. */
export const isTemporary = (status) => status >= 500 || TEMPORARY.includes(status);

/** socketURL returns an address of this server for a WebSocket. */
export function socketURL(address) {
  const url = new URL(address, document.baseURI);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url;
}

/** A LiveRoute is the route of a session: { app, user, id }. */
export class LiveRoute {
  constructor(session) {
    this.session = session;
  }

  query(canResume) {
    const { app, user, id } = this.session;
    const query = new URLSearchParams({ app_name: app, user_id: user, session_id: id });
    if (canResume) query.set('session_resumption_handle', 'latest');
    return query;
  }

  // WebSockets of browsers send no headers, so a page with a token asks for a ticket first.
  async address(canResume) {
    const query = this.query(canResume);
    try {
      if (hasToken()) query.set('ticket', (await (await fetchOK('POST', `run_live/ticket?${query}`)).json()).ticket);
    } catch (error) {
      error.isFinal = error instanceof HTTPError && error.status < 500;
      throw error;
    }
    return { url: socketURL(`run_live?${query}`) };
  }

  // Browsers do not report why a WebSocket was not opened: the same request without an upgrade has
  // the same checks.
  async refusal(canResume) {
    try {
      await fetchOK('GET', new URL(`run_live?${this.query(canResume)}`, document.baseURI));
      return '';
    } catch (error) {
      return error instanceof HTTPError && !isTemporary(error.status) ? error.message : '';
    }
  }
}
