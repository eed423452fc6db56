// The open session: its title, and what can be done with it.

import { el, byId, confirmed } from './dom.js';
import { menuButton } from './menu.js';
import { titleOf, cleanTitle, storedTitle, METADATA } from './titles.js';
import { Deletions } from './deletions.js';
import { saveAsCase } from './eval_save.js';

/** A SessionBar shows the open session of a chat. */
export class SessionBar {
  constructor(root, chat) {
    Object.assign(this, { root, chat });
    this.deletions = new Deletions(byId('undo'), {
      remove: (address) => chat.talk.remove(address), onChange: () => chat.drawSessions(),
      onError: (error) => chat.transcript.addNotice(`The session was not deleted: ${error.message}`, 'bad'),
    });
    this.title = el('input', {
      class: 'title', 'aria-label': 'Session title', placeholder: 'New session', maxlength: 120, spellcheck: 'false', autocomplete: 'off',
      onchange: () => this.rename(), onkeydown: (event) => this.onKey(event),
    });
    const reason = () => !chat.session && 'a message begins the session';
    this.menu = menuButton('Session actions', '⋯', () => [
      { text: 'Save as case', reason: reason(), act: () => this.saveCase() },
      { text: 'Delete session', reason: reason(), act: () => this.deleteSession() },
    ]);
    root.append(this.title, el('button', { type: 'button', class: 'quiet', title: 'New session', onclick: () => chat.startSession() }, 'New'), this.menu);
  }

  /** draw shows the open session. */
  draw() {
    const { talk } = this.chat;
    const stored = talk.sessions.find((s) => s.id === talk.id) ?? { id: talk.id };
    if (document.activeElement !== this.title) this.title.value = talk.id ? titleOf(stored) : '';
    this.title.disabled = !talk.id;
  }

  onKey(event) {
    if (event.key === 'Enter') this.title.blur();
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    this.title.value = '';
    this.title.blur();
  }

  // rename stores the title; an empty one keeps the stored title.
  async rename() {
    const title = cleanTitle(this.title.value);
    try {
      if (title) await this.storeTitle(title);
    } catch (error) {
      this.chat.transcript.addNotice(`The title was not stored: ${error.message}`, 'bad');
    }
    this.draw();
  }

  /** storeTitle stores the title of the open session. */
  async storeTitle(title) {
    const { chat } = this;
    const { talk, view } = chat;
    const known = talk.sessions.find((s) => s.id === talk.id);
    if (!talk.id || title === storedTitle(known ?? {})) return;
    if (talk.running) throw new Error('wait until the current answer is complete.');
    const session = await talk.patch({ [METADATA]: { ...known?.state?.[METADATA], displayName: title } });
    if (view === chat.view) chat.loadedAt = session.lastUpdateTime;
    await talk.list();
  }

  async saveCase() {
    const { app, session, talk, page, transcript } = this.chat;
    try {
      const file = await saveAsCase({ app, user: talk.user, session, name: this.title.value });
      if (file && app === this.chat.app) page.onCase(file);
    } catch (error) {
      transcript.addNotice(error.message, 'bad');
    }
  }

  // deleteSession deletes the session unless the user undoes it within ten seconds.
  async deleteSession() {
    const { chat } = this;
    const { app, session, view, talk } = chat;
    const { user } = talk;
    const yes = await confirmed({ title: 'Delete this session?', text: `“${this.title.value}” is deleted with all its messages, state and artifacts. You can undo it for ten seconds.`, action: 'Delete' });
    if (!yes || view !== chat.view) {
      this.menu.focus();
      return;
    }
    const [address, title] = [talk.addressOf(session), this.title.value];
    chat.openSession('');
    this.deletions.add(address, title, () => {
      if (app === chat.app && user === talk.user && !chat.session && !chat.message.value) chat.openSession(session);
    });
    chat.message.focus();
  }
}
