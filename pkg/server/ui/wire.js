// How the page talks to the server: ADK's API, and the stream of changes.

/** A Refused is an answer whose status is no 2xx. */
export class Refused extends Error {
  constructor(status, detail) {
    super(typeof detail === 'string' ? detail : detail.map((d) => `${d.loc.join('.')}: ${d.msg}`).join('; '));
    this.status = status;
  }
}

const TOKEN = 'agenthost.token';

/** keepToken stores the token for all requests, until the tab closes. */
export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

/** hasToken says whether requests are sent with a token. */
export const hasToken = () => !!sessionStorage.getItem(TOKEN);

/** path joins escaped parts to a path. */
export const path = (...parts) => parts.map(encodeURIComponent).join('/');

/** ask sends a request; an answer whose status is no 2xx is thrown as Refused. */
export async function ask(method, url, body, { signal, headers: more } = {}) {
  const headers = body === undefined ? { ...more } : { 'Content-Type': 'application/json', ...more };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  if (answer.ok) return answer;
  const text = await answer.text();
  let detail = text || answer.statusText;
  try {
    detail = JSON.parse(text).detail ?? detail;
  } catch { /* a proxy in front of the server answers in its own format */ }
  throw new Refused(answer.status, detail);
}

/** get fetches JSON. */
export const get = async (url) => (await ask('GET', url)).json();

/** frames reads a stream of server-sent events; each is JSON. */
export async function* frames(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const pieces = (rest + value).split('\n\n');
      rest = pieces.pop();
      for (const piece of pieces) {
        const data = piece.split('\n').filter((l) => l.startsWith('data:')).map((l) => l.slice(5)).join('\n');
        if (data) yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * follow reads the stream of changes while the page is visible: browsers limit the
 * connections to one server, and the first frame has the whole picture anyway.
 */
export async function follow(onFrame, onLink) {
  for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
    await seen();
    const end = new AbortController();
    const hide = () => document.hidden && end.abort();
    document.addEventListener('visibilitychange', hide);
    let first = true;
    let refused;
    try {
      for await (const frame of frames(await ask('GET', '-/changes', undefined, { signal: end.signal }))) {
        wait = 500;
        onLink(true);
        show(onFrame, frame, first);
        first = false;
      }
    } catch (error) {
      // The server is not reachable, rejects the request, or the page is hidden: retry.
      if (error instanceof Refused) refused = error;
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

function seen() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => document.addEventListener('visibilitychange', done, { once: true }));
}
