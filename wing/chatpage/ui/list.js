// The list of the user's conversations: new, rename, delete with undo.

import { el } from '../../ui/dom.js';
import { recall, remember } from './door.js';

const UNDO_MS = 8000;

/** A List shows conversations and changes them. */
export class List {
  /** handlers: goneKey, open(id), rename(id, title), remove(id, isLast) deletes for good, announce(text), and fail(error). */
  constructor(root, toasts, handlers) {
    Object.assign(this, { root, toasts, handlers, all: [], current: '', leaving: new Map(), next: '' });
    this.gone = recall(handlers.goneKey).split(' ').filter(Boolean);
    remember(handlers.goneKey, '');
    window.addEventListener('pagehide', () => { // what was deleted stays deleted, also if these requests come late
      remember(handlers.goneKey, [...this.leaving.keys()].join(' '));
      for (const id of [...this.leaving.keys()]) this.finish(id, true);
    });
  }

  /** set replaces the list. */
  set(conversations, next = '') {
    this.all = conversations.filter((c) => !this.gone.includes(c.id));
    this.next = next;
    for (const id of this.gone.splice(0)) this.handlers.remove(id, false).catch(() => {});
    this.draw();
  }

  /** put adds a conversation, or moves it to the top. */
  put(conversation) {
    const known = this.all.find((c) => c.id === conversation.id);
    this.all = [{ ...known, ...conversation, title: conversation.title || known?.title || '' }, ...this.all.filter((c) => c.id !== conversation.id)];
    this.draw();
  }

  /** drop removes a conversation that no longer exists. */
  drop(id) {
    this.all = this.all.filter((c) => c.id !== id);
    this.draw();
  }

  setCurrent(id) {
    this.current = id;
    this.draw();
  }

  titleOf(id) {
    return this.all.find((c) => c.id === id)?.title || 'Conversation';
  }

  draw() {
    const focus = document.activeElement?.closest?.('[data-conversation]')?.dataset.conversation;
    const shown = this.all.filter((c) => !this.leaving.has(c.id));
    let day = '';
    const items = [];
    for (const conversation of shown) {
      if (dayOf(conversation.time) !== day) items.push(el('li', { class: 'day' }, el('h3', {}, day = dayOf(conversation.time))));
      items.push(this.drawItem(conversation));
    }
    this.root.replaceChildren(...(items.length ? items : [el('li', { class: 'dim none' }, 'No conversations yet.')]),
      ...(this.next ? [el('li', {}, el('button', { type: 'button', class: 'quiet', onclick: () => this.handlers.more(this.next) }, 'Earlier conversations'))] : []));
    if (focus) this.root.querySelector(`[data-conversation="${CSS.escape(focus)}"] button`)?.focus();
  }

  drawItem({ id, title }) {
    const name = title || 'Conversation';
    return el('li', { 'data-conversation': id },
      el('button', { type: 'button', class: 'name', dir: 'auto', title: name, 'aria-current': id === this.current ? 'page' : null, onclick: () => this.handlers.open(id) }, name),
      el('button', { type: 'button', class: 'icon', title: 'Rename', 'aria-label': `Rename ${name}`, onclick: () => this.edit(id, name) }, '✎'),
      el('button', { type: 'button', class: 'icon', title: 'Delete', 'aria-label': `Delete ${name}`, onclick: () => this.remove(id) }, '×'));
  }

  // edit replaces an entry by a field until the title is entered.
  edit(id, name) {
    const item = this.root.querySelector(`[data-conversation="${CSS.escape(id)}"]`);
    const field = el('input', { value: name, maxlength: 200, dir: 'auto', 'aria-label': 'Title of the conversation' });
    let isDone = false;
    const end = async (isKept) => {
      if (isDone) return;
      isDone = true;
      const title = field.value.trim();
      if (isKept && title && title !== name) {
        const before = this.all;
        this.all = this.all.map((c) => (c.id === id ? { ...c, title } : c));
        await this.handlers.rename(id, title).catch((error) => {
          this.all = before;
          this.handlers.fail(error);
        });
      }
      this.draw();
      this.root.querySelector(`[data-conversation="${CSS.escape(id)}"] button`)?.focus();
    };
    field.addEventListener('keydown', (event) => {
      if (event.isComposing) return;
      if (event.key === 'Enter') end(true);
      if (event.key === 'Escape') {
        event.stopPropagation();
        end(false);
      }
    });
    field.addEventListener('blur', () => end(true));
    item.replaceChildren(field);
    field.focus();
    field.select();
  }

  // remove hides a conversation, and deletes it once it can no longer be undone.
  remove(id) {
    const timer = setTimeout(() => this.finish(id), UNDO_MS);
    const toast = el('div', { class: 'toast' }, el('span', {}, 'Conversation deleted.'), el('button', { type: 'button', onclick: () => this.restore(id) }, 'Undo'));
    this.leaving.set(id, { timer, toast, wasCurrent: id === this.current });
    this.toasts.append(toast);
    this.handlers.announce('Conversation deleted. It can be undone.');
    this.draw();
    if (id === this.current) this.handlers.open('');
    toast.querySelector('button').focus();
  }

  restore(id) {
    const { timer, toast, wasCurrent } = this.leaving.get(id);
    clearTimeout(timer);
    toast.remove();
    this.leaving.delete(id);
    this.draw();
    if (wasCurrent) this.handlers.open(id);
    this.root.querySelector(`[data-conversation="${CSS.escape(id)}"] button`)?.focus();
  }

  finish(id, isLast = false) {
    const { timer, toast } = this.leaving.get(id);
    clearTimeout(timer);
    toast.remove();
    this.handlers.remove(id, isLast).then(() => {
      this.leaving.delete(id);
      this.drop(id);
    }, (error) => {
      this.leaving.delete(id);
      this.draw();
      this.handlers.fail(error);
    });
  }
}

function dayOf(time) {
  const at = new Date(time);
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(time).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  return at.toLocaleDateString([], days < 300 ? { month: 'long', day: 'numeric' } : { dateStyle: 'medium' });
}
