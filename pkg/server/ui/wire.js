// How the page talks to the host: ADK's API, and the stream of changes.

/** A Refused is an answer that says no. */
export class Refused extends Error {
  constructor(status, detail) {
    super(typeof detail === 'string' ? detail : detail.map((d) => `${d.loc.join('.')}: ${d.msg}`).join('; '));
    this.status = status;
  }
}

const TOKEN = 'agenthost.token';

/** keepToken is what the host is told of who asks, until the tab closes. */
export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

/** path puts parts into a path. */
export const path = (...parts) => parts.map(encodeURIComponent).join('/');

/** ask sends a request; an answer that is no 2xx is a Refused. */
export async function ask(method, url, body, signal) {
  const headers = body === undefined ? {} : { 'Content-Type': 'application/json' };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  if (answer.ok) return answer;
  const text = await answer.text();
  let detail = text || answer.statusText;
  try {
    detail = JSON.parse(text).detail ?? detail;
  } catch { /* a proxy before the host answers in its own words */ }
  throw new Refused(answer.status, detail);
}

/** get is the JSON behind an address. */
export const get = async (url) => (await ask('GET', url)).json();

/** frames are the frames of a stream of server-sent events, read from JSON. */
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
 * follow reads the stream of changes for as long as somebody looks at the page:
 * browsers allow few streams to one host, and the first frame tells all anyway.
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
      for await (const frame of frames(await ask('GET', '-/changes', undefined, end.signal))) {
        wait = 500;
        onLink(true);
        show(onFrame, frame, first);
        first = false;
      }
    } catch (error) {
      // The host is away, refuses, or nobody looks: it is asked again.
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
