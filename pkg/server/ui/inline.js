// Inline Markdown: emphasis, code spans, links. The parser builds DOM nodes from
// text and never HTML; markup in the source stays text. It runs in linear time:
// every scan is bounded, and delimiters are matched as in CommonMark
// (openers_bottom), so that hostile input costs no more than its length.

import { newLink, readTarget, safeURL, trimURL } from './links.js';

const MAX_NESTING = 12;

const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", '#39': "'", nbsp: '\u00a0' };
const EMPHASIS = { '*': ['em', 'strong'], _: ['em', 'strong'], '~': ['del', 'del'] };

const SPECIAL = /[\\`*_~[\]!<&]|https?:\/\//g;
const ENTITY = /&(amp|lt|gt|quot|apos|nbsp|#39);/y;
const AUTOLINK = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const BREAK = /<br ?\/?>/iy;
const BARE_URL = /https?:\/\/[^\s<>"`|\\]{1,2000}/y;
const ESCAPABLE = /[!-/:-@[-`{-~\n]/;
const SPACE = /\s/;
const PUNCTUATION = /[\p{P}\p{S}]/u;

/** drawInline appends text with inline markup to parent; budget limits the elements. */
export function drawInline(parent, text, budget) {
  new Inline(text, budget).parse().appendTo(parent);
}

const matchAt = (pattern, text, at) => {
  pattern.lastIndex = at;
  return pattern.exec(text);
};

// An Inline holds the parsed segments as a linked list: each is text, an element,
// or a run of delimiters that may still become an element.
class Inline {
  constructor(text, budget) {
    Object.assign(this, { text, budget, head: { next: null, prev: null }, brackets: [], lastDelimiter: null, runs: null, tooDeep: false });
    this.tail = this.head;
  }

  parse() {
    const { text } = this;
    for (let at = 0; at < text.length;) {
      const hit = this.budget.left > 0 ? matchAt(SPECIAL, text, at) : null;
      if (!hit) {
        this.addText(text.slice(at));
        break;
      }
      if (hit.index > at) this.addText(text.slice(at, hit.index));
      at = this.parseSpecial(hit.index);
    }
    this.matchEmphasis(null);
    return this;
  }

  /** parseSpecial handles the character at an offset and returns the next one. */
  parseSpecial(at) {
    const c = this.text[at];
    if (c === '\\') return this.parseEscape(at);
    if (c === '`') return this.parseCode(at);
    if (c === '*' || c === '_' || c === '~') return this.parseDelimiters(at, c);
    if (c === '[') return this.openBracket(at, 1);
    if (c === '!') return this.text[at + 1] === '[' ? this.openBracket(at, 2) : this.addLiteral(at, 1);
    if (c === ']') return this.closeBracket(at);
    if (c === '<') return this.parseAngle(at);
    if (c === '&') return this.parseEntity(at);
    return this.parseBareURL(at);
  }

  addText(text) {
    return this.add({ text, depth: 0 });
  }

  addLiteral(at, length) {
    this.addText(this.text.slice(at, at + length));
    return at + length;
  }

  addNode(node, depth = 1) {
    this.budget.left--;
    return this.add({ node, depth });
  }

  add(segment) {
    segment.prev = this.tail;
    segment.next = null;
    this.tail.next = segment;
    this.tail = segment;
    return segment;
  }

  parseEscape(at) {
    const c = this.text[at + 1];
    if (c === undefined || !ESCAPABLE.test(c)) return this.addLiteral(at, 1);
    this.addText(c);
    return at + 2;
  }

  parseCode(at) {
    const length = runLength(this.text, at, '`');
    const end = this.findRun(length, at + length);
    if (end < 0) return this.addLiteral(at, length);
    let code = this.text.slice(at + length, end).replaceAll('\n', ' ');
    if (code.length > 2 && code.startsWith(' ') && code.endsWith(' ')) code = code.slice(1, -1);
    const node = document.createElement('code');
    node.textContent = code;
    this.addNode(node);
    return end + length;
  }

  // findRun returns the start of the next run of exactly length backticks. Runs are
  // found once; passed ones are dropped.
  findRun(length, from) {
    if (!this.runs) {
      this.runs = new Map();
      for (const run of this.text.matchAll(/`+/g)) {
        if (!this.runs.has(run[0].length)) this.runs.set(run[0].length, { starts: [], at: 0 });
        this.runs.get(run[0].length).starts.push(run.index);
      }
    }
    const same = this.runs.get(length);
    while (same && same.at < same.starts.length && same.starts[same.at] < from) same.at++;
    return same?.starts[same.at] ?? -1;
  }

  parseDelimiters(at, char) {
    const count = runLength(this.text, at, char);
    const segment = this.addText(this.text.slice(at, at + count));
    const before = this.text[at - 1] ?? ' ';
    const after = this.text[at + count] ?? ' ';
    const [left, right] = [isFlanking(after, before), isFlanking(before, after)];
    const inWord = char === '_';
    const delimiter = {
      char, count, total: count, segment, next: null, prev: this.lastDelimiter,
      canOpen: left && (!inWord || !right || PUNCTUATION.test(before)),
      canClose: right && (!inWord || !left || PUNCTUATION.test(after)),
    };
    if (char === '~' && count > 2) return at + count;
    if (this.lastDelimiter) this.lastDelimiter.next = delimiter;
    this.lastDelimiter = delimiter;
    return at + count;
  }

  openBracket(at, length) {
    const segment = this.addText(this.text.slice(at, at + length));
    this.brackets.push({ segment, delimiter: this.lastDelimiter });
    return at + length;
  }

  // closeBracket turns the text after the last open bracket into a link.
  // Images become links too: the page loads nothing from other servers.
  closeBracket(at) {
    const open = this.brackets.pop();
    const target = open && this.text[at + 1] === '(' ? readTarget(this.text, at + 2) : null;
    if (!target) return this.addLiteral(at, 1);
    this.matchEmphasis(open.delimiter);
    const url = safeURL(target.url);
    if (!url) this.addText(` (${target.url})`);
    else if (this.isTooDeep(open.segment, null)) return this.addLiteral(at, 1);
    else this.wrapLink(newLink(url), open);
    open.segment.text = '';
    return target.end;
  }

  // wrapLink moves the text after a bracket into a link; links do not nest.
  wrapLink(link, open) {
    const depth = this.wrap(link, open.segment, null);
    for (const inner of link.querySelectorAll('a')) inner.replaceWith(...inner.childNodes);
    if (!link.hasChildNodes()) link.textContent = link.title;
    this.addNode(link, depth);
    if (open.segment.text === '[') this.brackets.length = 0;
  }

  parseAngle(at) {
    const link = matchAt(AUTOLINK, this.text, at);
    const url = link && safeURL(link[1]);
    if (url) {
      this.addLink(url, link[1]);
      return at + link[0].length;
    }
    const newline = matchAt(BREAK, this.text, at);
    if (!newline) return this.addLiteral(at, 1);
    this.addText('\n');
    return at + newline[0].length;
  }

  parseEntity(at) {
    const hit = matchAt(ENTITY, this.text, at);
    if (!hit) return this.addLiteral(at, 1);
    this.addText(ENTITIES[hit[1]]);
    return at + hit[0].length;
  }

  parseBareURL(at) {
    const hit = matchAt(BARE_URL, this.text, at);
    const text = hit ? trimURL(hit[0]) : '';
    const url = safeURL(text);
    if (!url) return this.addLiteral(at, 4);
    this.addLink(url, text);
    return at + text.length;
  }

  addLink(url, text) {
    const link = newLink(url);
    link.textContent = text;
    this.addNode(link);
  }

  // wrap moves the segments between from and to into an element; a null to is the end
  // of the list. It returns the depth of the element.
  wrap(element, from, to) {
    const depth = appendSegments(element, from.next, to);
    from.next = to;
    if (to) to.prev = from;
    else this.tail = from;
    return depth + 1;
  }

  // isTooDeep disables nesting once it is too deep, so that segments are not visited
  // again and again.
  isTooDeep(from, to) {
    for (let p = from.next; p !== to && !this.tooDeep; p = p.next) this.tooDeep = p.depth >= MAX_NESTING;
    return this.tooDeep;
  }

  // matchEmphasis turns the delimiters after bottom into elements.
  matchEmphasis(bottom) {
    const floors = new Map(); // after this delimiter there is no opener for such a closer
    let closer = bottom ? bottom.next : this.firstDelimiter();
    while (closer) {
      if (!closer.canClose) {
        closer = closer.next;
        continue;
      }
      const kind = `${closer.char}${closer.canOpen}${closer.total % 3}${closer.char === '~' ? closer.count : ''}`;
      const floor = floors.has(kind) ? floors.get(kind) : bottom;
      let opener = closer.prev;
      while (opener && opener !== bottom && opener !== floor && !isPair(opener, closer)) opener = opener.prev;
      if (!opener || opener === bottom || opener === floor) {
        floors.set(kind, closer.prev);
        const { next } = closer;
        if (!closer.canOpen) this.drop(closer);
        closer = next;
      } else closer = this.emphasize(opener, closer);
    }
    while (this.lastDelimiter && this.lastDelimiter !== bottom) this.drop(this.lastDelimiter);
  }

  firstDelimiter() {
    let first = this.lastDelimiter;
    while (first?.prev) first = first.prev;
    return first;
  }

  // emphasize turns a pair into an element and returns the next delimiter.
  emphasize(opener, closer) {
    for (let d = closer.prev; d !== opener; d = closer.prev) this.drop(d);
    const use = closer.char === '~' ? closer.count : Math.min(opener.count, closer.count, 2);
    if (this.budget.left <= 0 || this.isTooDeep(opener.segment, closer.segment)) {
      this.drop(opener);
      const { next } = closer;
      this.drop(closer);
      return next;
    }
    const element = document.createElement(EMPHASIS[closer.char][use - 1]);
    const depth = this.wrap(element, opener.segment, closer.segment);
    const segment = { node: element, depth, prev: opener.segment, next: closer.segment };
    opener.segment.next = closer.segment.prev = segment;
    this.budget.left--;
    this.shorten(opener, use);
    this.shorten(closer, use);
    if (opener.count === 0) this.drop(opener);
    if (closer.count > 0) return closer;
    const { next } = closer;
    this.drop(closer);
    return next;
  }

  shorten(delimiter, by) {
    delimiter.count -= by;
    delimiter.segment.text = delimiter.segment.text.slice(by);
  }

  drop(delimiter) {
    if (delimiter.prev) delimiter.prev.next = delimiter.next;
    if (delimiter.next) delimiter.next.prev = delimiter.prev;
    else this.lastDelimiter = delimiter.prev;
  }

  appendTo(parent) {
    appendSegments(parent, this.head.next, null);
  }
}

// appendSegments adds segments up to another one and merges adjacent texts. It returns
// their depth.
function appendSegments(parent, from, to) {
  let [depth, text] = [0, ''];
  const flush = () => {
    if (text) parent.appendChild(document.createTextNode(text));
    text = '';
  };
  for (let p = from; p && p !== to; p = p.next) {
    depth = Math.max(depth, p.depth);
    if (!p.node) text += p.text;
    else {
      flush();
      parent.appendChild(p.node);
    }
  }
  flush();
  return depth;
}

function runLength(text, at, char) {
  let end = at;
  while (text[end] === char) end++;
  return end - at;
}

// A run of delimiters flanks text if the inner character is not a space, and not
// punctuation unless the outer character is a space or punctuation.
const isFlanking = (inside, outside) => !SPACE.test(inside) && (!PUNCTUATION.test(inside) || SPACE.test(outside) || PUNCTUATION.test(outside));

function isPair(opener, closer) {
  if (opener.char !== closer.char || !opener.canOpen) return false;
  if (opener.char === '~') return opener.count === closer.count;
  const either = opener.canClose || closer.canOpen;
  return !(either && (opener.total + closer.total) % 3 === 0 && (opener.total % 3 !== 0 || closer.total % 3 !== 0));
}
