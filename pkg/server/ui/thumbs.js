// The user's scores for turns: thumbs up and down.

import { el } from './dom.js';
import { thumbIcon } from './icons.js';
import { fetchOK, get } from './wire.js';

/** Thumbs keeps the scores of the open session. */
export class Thumbs {
  constructor(chat) {
    Object.assign(this, { chat, view: null, scores: new Map(), nodes: new Map() });
  }

  get address() {
    return `${this.chat.talk.sessionAddress}/feedback`;
  }

  /** draw returns the two buttons of a turn. attempt runs an action and reports its error. */
  draw(invocation, attempt) {
    if (this.view !== this.chat.view) {
      Object.assign(this, { view: this.chat.view, scores: new Map(), nodes: new Map() });
      this.load();
    }
    const thumb = (score, label) => el('button', { type: 'button', class: 'act', 'aria-label': label, title: label, onclick: () => attempt(() => this.give(invocation, score)) }, thumbIcon(score > 0));
    const node = el('span', { class: 'thumbs', role: 'group', 'aria-label': 'Feedback' }, thumb(1, 'Good answer'), thumb(-1, 'Bad answer'));
    this.nodes.set(invocation, node);
    this.mark(invocation);
    return node;
  }

  // load fetches the scores; the list has the oldest first.
  async load() {
    const { view, chat } = this;
    if (!chat.session) return;
    const all = await get(this.address).catch(() => []);
    if (view !== chat.view) return;
    for (const { invocationId, score } of all) this.scores.set(invocationId, score);
    for (const invocation of this.nodes.keys()) this.mark(invocation);
  }

  async give(invocationId, score) {
    const { view, chat } = this;
    await fetchOK('POST', this.address, { invocationId, score });
    if (view !== chat.view) return;
    this.scores.set(invocationId, score);
    this.mark(invocationId);
  }

  mark(invocation) {
    const score = this.scores.get(invocation);
    const [up, down] = this.nodes.get(invocation).children;
    up.setAttribute('aria-pressed', score > 0);
    down.setAttribute('aria-pressed', score < 0);
  }
}
