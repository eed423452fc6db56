// Markdown of models: headings, lists, tables, fenced code, quotes, and the inline
// markup of inline.js. It becomes DOM nodes, never HTML. A new chunk of text is parsed
// together with the last open block only. The number of elements is limited: text
// beyond it is shown as plain text.

import { el, copyButton } from './dom.js';
import { drawInline } from './inline.js';
import { parseBlocks } from './blocks.js';

const MAX_ELEMENTS = 20_000;
// While chunks arrive, drawing takes at most this share of the time.
const SHARE = 1 / 6;
const MIN_PAUSE = 16;
const MAX_PAUSE = 1000;

/** A Markdown view draws text into an element as it arrives. */
export class Markdown {
  /** around(draw) must call draw; it can preserve the scroll position. */
  constructor(root, around = (draw) => draw()) {
    Object.assign(this, { root, around });
    this.reset();
  }

  reset() {
    clearTimeout(this.timer);
    // stable is the offset of the blocks that may still change, open their nodes.
    Object.assign(this, { text: '', drawn: 0, stable: 0, open: [], elements: MAX_ELEMENTS, timer: 0, pause: 0 });
    this.root.replaceChildren();
  }

  /** append adds a chunk and schedules drawing. */
  append(chunk) {
    this.text += normalize(chunk);
    if (!this.timer) this.timer = setTimeout(() => this.drawChunks(), this.pause);
  }

  drawChunks() {
    const began = performance.now();
    this.around(() => this.draw());
    this.pause = Math.min(MAX_PAUSE, Math.max(MIN_PAUSE, (performance.now() - began) / SHARE));
  }

  /** finish draws the complete text; nodes that are already drawn stay. */
  finish(text) {
    if (normalize(text) !== this.text) {
      this.reset();
      this.text = normalize(text);
    }
    this.draw();
  }

  // draw replaces the open blocks by those of the current text.
  draw() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.drawn === this.text.length) return;
    this.drawn = this.text.length;
    for (const node of this.open) node.remove();
    this.open = [];
    const lines = this.text.slice(this.stable).split('\n');
    const blocks = this.parse(lines);
    const closed = countClosed(blocks, lines.length - 1);
    const budget = { left: this.elements };
    let stableLine = 0;
    for (const [i, block] of blocks.entries()) {
      const isFull = budget.left <= 0;
      if (i <= closed) [stableLine, this.elements] = [block.from, budget.left];
      const node = isFull ? plainText(lines.slice(block.from)) : drawBlock(block, budget);
      if (isFull || i >= closed) this.open.push(node);
      this.root.append(node);
      if (isFull) break;
    }
    for (let line = 0; line < stableLine; line++) this.stable += lines[line].length + 1;
  }

  // parse shows a response that is a JSON object as code: agents with an output_schema
  // send such responses.
  parse(lines) {
    if (this.text.startsWith('{')) return [{ kind: 'code', from: 0, lines }];
    return this.elements > 0 ? parseBlocks(lines) : [{ kind: 'plain', from: 0, lines }];
  }
}

/** drawMarkdown draws a complete text. */
export function drawMarkdown(text) {
  const node = el('div', { class: 'text md' });
  new Markdown(node).finish(text);
  return node;
}

const normalize = (text) => text.replaceAll('\r', '');

// countClosed counts the blocks that cannot change any more: the last block may
// continue and, if it starts in the incomplete last line, also the one before it.
function countClosed(blocks, lastLine) {
  const closed = blocks.length - 1;
  return Math.max(0, closed > 0 && blocks[closed].from >= lastLine ? closed - 1 : closed);
}

const plainText = (lines) => el('p', { class: 'plain' }, lines.join('\n'));

const DRAW = { heading, code, rule, quote, list, table, paragraph, plain: (block) => plainText(block.lines) };

function drawBlock(block, budget) {
  budget.left--;
  return DRAW[block.kind](block, budget);
}

function drawBlocks(parent, lines, depth, budget) {
  for (const block of parseBlocks(lines, depth)) {
    if (budget.left <= 0) {
      parent.append(plainText(lines.slice(block.from)));
      return;
    }
    parent.append(drawBlock(block, budget));
  }
}

// Headings of a response are below those of the page.
function heading({ level, text }, budget) {
  const node = el(`h${Math.min(6, level + 3)}`, { 'data-level': level });
  drawInline(node, text, budget);
  return node;
}

function code({ lines, info }, budget) {
  budget.left -= 4;
  const text = lines.join('\n');
  const name = /^[\w+#.-]{1,30}/.exec(info ?? '')?.[0];
  return el('figure', { class: 'code' }, el('figcaption', {}, name ?? '', copyButton(() => text)), el('pre', {}, el('code', {}, text)));
}

function rule() {
  return el('hr');
}

function quote({ lines, depth }, budget) {
  const node = el('blockquote');
  drawBlocks(node, lines, depth + 1, budget);
  return node;
}

function list({ isOrdered, start, items, depth }, budget) {
  const node = el(isOrdered ? 'ol' : 'ul', { start: isOrdered && start !== 1 ? start : null });
  for (const [i, item] of items.entries()) {
    if (budget.left <= 0) {
      node.append(el('li', {}, plainText(items.slice(i).flatMap((rest) => rest.lines))));
      break;
    }
    budget.left--;
    const entry = el('li', { class: item.isDone === null ? null : 'task', 'data-done': item.isDone });
    drawBlocks(entry, item.lines, depth + 1, budget);
    node.append(entry);
  }
  return node;
}

function table({ head, align, rows }, budget) {
  const body = el('tbody');
  const node = el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table' }, el('table', {}, el('thead', {}, row('th', head, align, budget)), body));
  for (const [i, cells] of rows.entries()) {
    if (budget.left <= 0) {
      node.append(plainText(rows.slice(i).map((rest) => rest.join(' | '))));
      break;
    }
    body.append(row('td', cells, align, budget));
  }
  return node;
}

function row(tag, cells, align, budget) {
  const node = el('tr');
  budget.left--;
  for (const [i, side] of align.entries()) {
    const cell = el(tag, { 'data-align': side });
    budget.left--;
    drawInline(cell, cells[i] ?? '', budget);
    node.append(cell);
  }
  return node;
}

function paragraph({ lines }, budget) {
  const node = el('p');
  drawInline(node, lines.map((line) => line.trimEnd()).join('\n'), budget);
  return node;
}
