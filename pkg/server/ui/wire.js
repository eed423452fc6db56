// The page's HTTP client: ADK's API and the change stream.

/** An HTTPError is a response whose status is not 2xx. */
export class HTTPError extends Error {
  constructor(status, detail) {
    super(describeDetail(detail) || `The server responded with status ${status}.`);
    this.status = status;
  }
}

// describeDetail returns the text of an error response. That of a proxy may have any form.
function describeDetail(detail) {
  if (!Array.isArray(detail)) return typeof detail === 'string' ? detail.trim() : JSON.stringify(detail);
  return detail.map((d) => [d?.loc?.join?.('.'), d?.msg].filter(Boolean).join(': ')).filter(Boolean).join('; ');
}

const TOKEN = 'agenthost.token';

/** REFUSED is the window's event for a request that the server does not accept without another token. */
export const REFUSED = 'agenthost:refused';

/** keepToken stores the token for all requests, until the tab closes. */
export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

/** hasToken reports whether requests are sent with a token. */
export const hasToken = () => !!sessionStorage.getItem(TOKEN);

/** path escapes and joins path segments. */
export const path = (...parts) => parts.map(encodeURIComponent).join('/');

/** fetchOK sends a request and throws an HTTPError if the status is not 2xx. */
export async function fetchOK(method, url, body, { signal, headers: more } = {}) {
  const headers = body === undefined ? { ...more } : { 'Content-Type': 'application/json', ...more };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  if (response.ok) return response;
  const text = await response.text();
  let detail = text || response.statusText;
  try {
    detail = JSON.parse(text).detail ?? detail;
  } catch { /* a proxy in front of the server responds in its own format */ }
  const error = new HTTPError(response.status, detail);
  if (error.status === 401) window.dispatchEvent(new CustomEvent(REFUSED, { detail: error }));
  throw error;
}

/** get fetches JSON. */
export const get = async (url) => (await fetchOK('GET', url)).json();

/** frames reads a stream of server-sent events; each is JSON. */
export async function* frames(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop();
      for (const block of blocks) {
        const data = block.split('\n').filter((l) => l.startsWith('data:')).map((l) => l.slice(5)).join('\n');
        if (data) yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * followChanges reads the change stream while the page is visible: browsers limit the
 * connections to a server, and the first frame is a complete snapshot anyway.
 */
export async function followChanges(onFrame, onLink) {
  for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
    await whenVisible();
    const end = new AbortController();
    const hide = () => document.hidden && end.abort();
    document.addEventListener('visibilitychange', hide);
    let first = true;
    let refused;
    try {
      for await (const frame of frames(await fetchOK('GET', '-/changes', undefined, { signal: end.signal }))) {
        wait = 500;
        onLink(true);
        show(onFrame, frame, first);
        first = false;
      }
    } catch (error) {
      // The server is not reachable, rejects the request, or the page is hidden: retry.
      if (error instanceof HTTPError) refused = error;
    }
    document.removeEventListener('visibilitychange', hide);
    if (!document.hidden) {
      onLink(false, refused);
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

function show(onFrame, frame, first) {
  try {
    onFrame(frame, first);
  } catch (error) {
    reportError(error);
  }
}

function whenVisible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener('visibilitychange', done, { once: true }));
}
