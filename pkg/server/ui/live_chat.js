// Live conversations in the chat: speech becomes events of the session.

import { byId } from './dom.js';
import { LiveRows, splitAudio, spokenText } from './live_events.js';
import { LiveRoute } from './live_route.js';
import { rememberTitle } from './memory.js';
import { titleFrom, METADATA } from './titles.js';
import { Voice } from './voice.js';

/** A LiveChat connects the voice controls with the selected session. */
export class LiveChat {
  constructor(chat) {
    this.chat = chat;
    this.voice = new Voice(byId('voice'), byId('live'), {
      begin: () => this.begin(),
      onNotice: (text, cls) => chat.transcript.addNotice(text, cls),
      onChange: () => chat.drawSend(),
    });
  }

  get isActive() {
    return this.voice.isActive;
  }

  stop() {
    this.voice.stop();
  }

  /** stopAnswer stops the answer that is playing, or else the conversation. */
  stopAnswer() {
    if (!this.voice.silence()) this.voice.stop();
  }

  setDisabled(isDisabled) {
    this.voice.setDisabled(isDisabled);
  }

  /** send delivers typed text, or an answer to a call. */
  send(content) {
    const { transcript } = this.chat;
    this.voice.send({ content });
    transcript.add({ id: `mine-${performance.now()}`, author: 'user', content });
    transcript.toEnd();
    this.nameSession(content.parts[0].text);
  }

  // nameSession names a session after its first message. The conversation holds the session, so the
  // title is stored when it ends.
  nameSession(text) {
    const { chat } = this;
    if (!text || chat.transcript.root.querySelectorAll('.mine').length !== 1) return;
    rememberTitle(chat.session, this.title = titleFrom(text));
    chat.drawSessions();
  }

  /** changeState changes the state of the session, which the conversation holds. */
  changeState(delta) {
    this.voice.send({ state_delta: delta });
  }

  // begin returns a conversation with the selected session, which it creates if
  // necessary; null if the user selected another one meanwhile.
  async begin() {
    const { chat } = this;
    const { view } = chat;
    chat.transcript.setLine(null);
    chat.state.begin();
    chat.loadedAt = 0;
    this.title = '';
    if (!chat.session) await chat.talk.create(chat.initial.get(chat.app));
    if (view !== chat.view) return null;
    const rows = new LiveRows(chat.transcript);
    return {
      route: new LiveRoute({ app: chat.app, user: chat.talk.user, id: chat.session }),
      split: splitAudio,
      onEvent: (event) => view === chat.view && this.show(event, rows),
      onLost: () => rows.finish(),
      onEnd: () => this.finish(view, rows),
    };
  }

  show(event, rows) {
    const { chat } = this;
    if (event.partial && event.errorMessage) { // a request was rejected, and the conversation continues
      chat.transcript.addNotice(event.errorMessage, 'bad');
      return;
    }
    chat.onEvent(event, rows);
    if (event.inputTranscription && !event.partial) this.nameSession(spokenText(event));
  }

  async finish(view, rows) {
    const { chat } = this;
    rows.finish();
    chat.page.lightUp('');
    if (view !== chat.view || !chat.session) return;
    const state = await chat.talk.state().catch(() => null);
    if (state && view === chat.view) chat.state.set(state);
    if (this.title && view === chat.view && !state?.[METADATA]) await chat.bar.storeTitle(this.title).catch(() => {}); // the title stays in this browser
  }
}
