// The messages of one conversation.

import { el, svg } from '../../ui/dom.js';
import { Markdown } from '../../ui/markdown.js';
import { drawFile } from './files.js';
import { drawQuestion } from './ask.js';
import { words } from './door.js';

// thumb draws a thumb up; the style sheet turns the one of a bad answer.
const thumb = () => svg('svg', { viewBox: '0 0 24 24', width: 18, height: 18, 'aria-hidden': 'true' }, svg('path', { d: 'M7 11v9H4v-9zM7 11l4-7.5c1.6 0 2.4 1 2.1 2.4L12.4 9.5h6a2 2 0 0 1 2 2.4l-1.3 6.5a2 2 0 0 1-2 1.6H7' }));

const NEAR = 80; // pixels from the end within which the log follows new text

// A long conversation costs a browser no more than a short one: beyond MOST rows, all but the last
// KEPT are removed while the end is in view, and can be loaded again.
const MOST = 300;
const KEPT = 200;
const LOCAL = 'mine-'; // begins the ids of rows that have no id of the server

/** A Log draws messages, and the text of a message as it arrives. */
export class Log {
  /**
   * handlers: load(path) fetches a file, answer(body, accept) answers a question, retry() repeats
   * the last turn, rate(id, score) rates an answer, and earlier(id) loads the messages before one.
   */
  constructor(root, handlers) {
    Object.assign(this, { root, handlers, rows: new Map(), follows: true });
    this.list = el('ol', { class: 'messages' });
    this.tail = el('div', { class: 'tail' });
    this.jump = el('button', { type: 'button', class: 'jump', hidden: true, onclick: () => this.toEnd() }, 'Latest message ↓');
    root.replaceChildren(this.list, this.tail, this.jump);
    root.addEventListener('scroll', () => {
      // Text that arrives between a frame and its scroll does not count as a scroll.
      if (root.scrollHeight - root.scrollTop - root.clientHeight < NEAR) this.follows = true;
      else if (root.scrollTop < this.top) this.follows = false;
      this.top = root.scrollTop;
      this.jump.hidden = this.follows;
    }, { passive: true });
    new ResizeObserver(() => this.follows && this.toEnd()).observe(this.list);
  }

  /** clear empties the log; welcome is shown instead of messages. */
  clear(welcome) {
    this.rows.clear();
    this.list.replaceChildren();
    this.tail.replaceChildren(...(welcome ? [welcome] : []));
    this.follows = true;
    this.jump.hidden = true;
  }

  /**
   * show draws a stored conversation. A message that has not changed stays as it is drawn, with
   * what a person has entered in its question.
   */
  show({ messages = [], before, failed }) {
    const { follows, root, root: { scrollTop } } = this;
    const drawn = new Map(this.rows);
    const focused = document.activeElement;
    this.clear();
    for (const message of messages) this.keep(drawn.get(message.id), message) || this.add(message);
    this.offerRatings();
    if (before) this.offerEarlier(before);
    this.setTail(failed ? { failed } : {});
    if (follows || !drawn.size) this.toEnd();
    else root.scrollTop = scrollTop;
    if (focused !== document.activeElement && this.list.contains(focused)) focused.focus({ preventScroll: true });
  }

  // keep appends the row of a message that has not changed, and returns whether there is one.
  keep(row, message) {
    if (row?.shows !== JSON.stringify(message)) return false;
    this.rows.set(message.id, row);
    this.list.append(row.node);
    return true;
  }

  /** prepend draws earlier messages, and keeps what is read where it is. */
  prepend({ messages = [], before }) {
    const { root } = this;
    const bottom = root.scrollHeight - root.scrollTop;
    const first = this.list.querySelector('.message');
    this.list.querySelector('.earlier')?.remove();
    for (const message of messages) this.list.insertBefore(this.draw(message).node, first);
    this.offerRatings();
    if (before) this.offerEarlier(before);
    root.scrollTop = root.scrollHeight - bottom;
  }

  /** offerRatings lets the user rate the last text of each complete answer. */
  offerRatings() {
    const rows = [...this.list.querySelectorAll('.message')];
    for (const [i, node] of rows.entries()) {
      const isLast = node.matches('.from-app') && (rows[i + 1]?.matches('.from-user') ?? true);
      const row = this.rows.get(node.dataset.id);
      if (isLast && row && !row.text.hidden && !node.querySelector('.rate')) node.append(this.drawRating(row));
    }
  }

  drawRating(row) {
    const buttons = [[1, 'Good answer'], [-1, 'Bad answer']].map(([score, name]) => el('button', { type: 'button', class: 'icon', title: name, 'aria-label': name, 'data-score': score, onclick: () => choose(row.score === score ? 0 : score) }, thumb()));
    const draw = () => buttons.forEach((button) => button.setAttribute('aria-pressed', String(Number(button.dataset.score) === row.score)));
    const choose = async (score) => {
      const before = row.score;
      row.score = score;
      draw();
      if (await this.handlers.rate(row.node.dataset.id, score)) return;
      row.score = before;
      draw();
    };
    draw();
    return el('div', { class: 'rate', role: 'group', 'aria-label': 'Rate this answer' }, buttons);
  }

  offerEarlier(id) {
    this.list.prepend(el('li', { class: 'earlier' }, el('button', { type: 'button', class: 'quiet', onclick: () => this.handlers.earlier(id) }, 'Earlier messages')));
  }

  /** add draws a complete message, which replaces its text so far. */
  add(message) {
    const row = this.rows.get(message.id);
    if (!row) this.list.append(this.draw(message).node);
    else this.complete(row, message);
    if (this.follows && this.rows.size > MOST) this.trim();
    this.settle();
  }

  // addMine draws the message that is being sent, and returns its row.
  addMine(message) {
    const id = `${LOCAL}${performance.now()}`;
    this.add({ id, from: 'user', ...message });
    this.toEnd();
    return this.rows.get(id);
  }

  // trim removes the earliest rows. The first one that stays has an id of the server, because
  // the earlier ones are loaded by it.
  trim() {
    const nodes = [...this.list.querySelectorAll('.message')];
    const first = nodes.findIndex((node, i) => i >= nodes.length - KEPT && !node.dataset.id.startsWith(LOCAL));
    if (first < 1) return;
    for (const node of nodes.slice(0, first)) {
      this.rows.delete(node.dataset.id);
      node.remove();
    }
    this.list.querySelector('.earlier')?.remove();
    this.offerEarlier(nodes[first].dataset.id);
    this.toEnd();
  }

  draw(message) {
    const text = el('div', { class: 'text md', dir: 'auto' });
    const node = el('li', { class: `message from-${message.from}`, 'data-id': message.id }, el('h2', { class: 'sr' }, message.from === 'user' ? 'You' : 'Answer'), text);
    const row = { node, text, markdown: message.from === 'app' ? new Markdown(text, (draw) => this.around(draw)) : null, more: [] };
    if (message.id) this.rows.set(message.id, row);
    this.complete(row, message);
    return row;
  }

  complete(row, message) {
    const { text = '', thoughts, files = [], questions = [], failed, score = 0 } = message;
    Object.assign(row, { score, shows: JSON.stringify(message) });
    if (row.markdown) row.markdown.finish(text);
    else row.text.textContent = text;
    row.text.hidden = !text;
    for (const node of row.more) node.remove();
    row.more = [
      ...(thoughts ? [el('details', { class: 'thoughts' }, el('summary', {}, 'Thoughts'), el('p', { dir: 'auto' }, thoughts))] : []),
      ...files.map((file) => drawFile(file, this.handlers.load)),
      ...questions.map((question) => drawQuestion(question, this.handlers.answer)),
      ...(failed ? [el('p', { class: 'bad' }, words(failed))] : []),
    ];
    row.node.append(...row.more);
    row.node.hidden = !text && row.more.length === 0;
  }

  /** append adds a chunk to the text of a message. */
  append(id, chunk, from = 'app') {
    let row = this.rows.get(id);
    if (!row) {
      row = this.draw({ id, from });
      this.list.append(row.node);
    }
    row.node.hidden = row.text.hidden = false;
    if (row.markdown) row.markdown.append(chunk);
    else row.text.textContent += chunk;
    this.settle();
  }

  /** rename gives a message that is not complete the ID of its event. */
  rename(id, to) {
    const row = this.rows.get(id);
    if (!row || id === to) return;
    this.rows.delete(id);
    this.rows.set(to, row);
    row.node.dataset.id = to;
  }

  /** setTail shows what follows the last message: work in progress, or a failure with a retry. */
  setTail({ working, tool, failed, note }) {
    const nodes = [];
    if (working) nodes.push(el('p', { class: 'working' }, el('span', { class: 'dots', 'aria-hidden': 'true' }, el('i'), el('i'), el('i')), el('span', { class: tool ? 'dim' : 'sr' }, tool ? `${tool}…` : 'Working…')));
    if (note) nodes.push(el('p', { class: 'dim', role: 'status' }, note));
    if (failed) {
      nodes.push(el('div', { class: 'failure', role: 'alert' }, el('p', {}, words(failed)),
        el('button', { type: 'button', onclick: () => this.handlers.retry() }, 'Try again')));
    }
    this.tail.replaceChildren(...nodes);
    this.settle();
  }

  // around keeps the end in view while text is drawn.
  around(draw) {
    draw();
    this.settle();
  }

  // settle scrolls once a frame, however much has arrived in it: each scroll makes the browser lay out
  // the whole log.
  settle() {
    if (!this.follows || this.isSettling) return;
    this.isSettling = true;
    requestAnimationFrame(() => {
      this.isSettling = false;
      if (this.follows) this.toEnd();
    });
  }

  /** toEnd scrolls to the last message. */
  toEnd() {
    this.follows = true;
    this.jump.hidden = true;
    this.root.scrollTop = this.root.scrollHeight;
    this.top = this.root.scrollTop;
  }
}
