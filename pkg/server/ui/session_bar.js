// The session bar of the chat: the user, the session, and what can be done with it.

import { el, byId, confirmed } from './dom.js';
import { nameOf } from './memory.js';
import { saveAsCase } from './eval_save.js';

/** A SessionBar chooses the session of a chat. */
export class SessionBar {
  constructor(root, chat) {
    Object.assign(this, { root, chat });
  }

  /** draw shows the sessions of the chat. */
  draw() {
    const { chat, root } = this;
    const { talk } = chat;
    const isListed = talk.sessions.some((s) => s.id === talk.id);
    const choice = el('select', { 'aria-label': 'Session', onchange: (e) => chat.openSession(e.target.value) },
      el('option', { value: '' }, 'New session'),
      talk.id && !isListed && el('option', { value: talk.id }, nameOf({ id: talk.id })),
      talk.sessions.map((s) => el('option', { value: s.id }, nameOf(s))));
    choice.value = talk.id;
    const user = el('input', { 'aria-label': 'User', value: talk.user, title: 'User ID of the session', spellcheck: 'false', autocomplete: 'off', onchange: (e) => this.setUser(e.target.value.trim() || 'user') });
    const focused = ['User', 'Session'].find((name) => document.activeElement?.getAttribute('aria-label') === name);
    const action = (text, act, title) => el('button', { type: 'button', class: 'quiet', disabled: !talk.id, title, onclick: act }, text);
    root.replaceChildren(user, choice,
      action('New', () => (chat.openSession(''), chat.message.focus())),
      action('Delete', () => this.deleteSession()),
      action('Save as case', () => this.saveCase(), 'Make a case of this conversation'));
    if (focused) root.querySelector(`[aria-label=${focused}]`).focus();
  }

  setUser(user) {
    this.chat.talk.user = user;
    this.chat.open(this.chat.app, '');
  }

  async saveCase() {
    const { app, session, talk, page, transcript } = this.chat;
    const name = byId('events').querySelector('.mine .text')?.textContent ?? '';
    try {
      const file = await saveAsCase({ app, user: talk.user, session, name });
      if (file && app === this.chat.app) page.onCase(file);
    } catch (error) {
      transcript.addNotice(error.message, 'bad');
    }
  }

  async deleteSession() {
    const { session, view, talk, transcript } = this.chat;
    const listed = talk.sessions.find((s) => s.id === session) ?? { id: session };
    const yes = await confirmed({ title: 'Delete this session?', text: `“${nameOf(listed)}”: all its messages, state and artifacts are deleted. This cannot be undone.`, action: 'Delete' });
    if (!yes || view !== this.chat.view) return;
    try {
      await talk.remove(session);
      await this.chat.openSession('');
      this.chat.message.focus();
    } catch (error) {
      transcript.addNotice(error.message, 'bad');
    }
  }
}
