// Links in model responses: allowed URLs and their syntax.

const SCHEMES = ['http:', 'https:', 'mailto:'];
const MAX_URL = 2000;
const MAX_TITLE = 500;
const MAX_PARENTHESES = 8;

/** safeURL returns the URL if links may use it, otherwise null. */
export function safeURL(text) {
  if (!/^(https?:\/\/|mailto:)/i.test(text)) return null;
  try {
    const url = new URL(text);
    return SCHEMES.includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** newLink creates a link that opens in a new tab and sends no referrer. */
export function newLink(url) {
  const link = document.createElement('a');
  link.href = url;
  link.title = url;
  link.target = '_blank';
  link.rel = 'noopener noreferrer nofollow';
  return link;
}

/** readTarget parses (url "title") after the parenthesis; the title is ignored. */
export function readTarget(text, at) {
  let pos = skipBlanks(text, at);
  let url;
  if (text[pos] === '<') {
    const end = text.slice(pos + 1, pos + MAX_URL).search(/[<>\n]/);
    if (end < 0 || text[pos + 1 + end] !== '>') return null;
    url = text.slice(pos + 1, pos + 1 + end);
    pos += end + 2;
  } else {
    const end = endOfURL(text, pos);
    if (end < 0) return null;
    url = text.slice(pos, end);
    pos = end;
  }
  pos = skipBlanks(text, pos);
  if (text[pos] === '"' || text[pos] === "'") {
    const end = text.slice(pos + 1, pos + MAX_TITLE).indexOf(text[pos]);
    if (end < 0) return null;
    pos = skipBlanks(text, pos + end + 2);
  }
  return text[pos] === ')' ? { url, end: pos + 1 } : null;
}

function endOfURL(text, from) {
  let open = 0;
  for (let pos = from; pos < text.length && pos - from < MAX_URL; pos++) {
    const c = text[pos];
    if (c === '(' && ++open > MAX_PARENTHESES) return -1;
    if (c === ')' && open-- === 0) return pos;
    if (c <= ' ') return open === 0 ? pos : -1;
  }
  return -1;
}

function skipBlanks(text, at) {
  let pos = at;
  while (pos - at < 100 && (text[pos] === ' ' || text[pos] === '\n')) pos++;
  return pos;
}

/** trimURL removes the punctuation of the surrounding sentence. */
export function trimURL(text) {
  const endings = text.includes('(') ? '.,;:!?*_~\'"]}' : '.,;:!?*_~\'"]})';
  let end = text.length;
  while (end > 0 && endings.includes(text[end - 1])) end--;
  return text.slice(0, end);
}
