// Talking: the microphone's audio goes to the app, and the audio of its answers comes back.

import { el } from '../../ui/dom.js';
import { isTemporary, socketURL } from '../../ui/live_route.js';
import { Voice } from '../../ui/voice.js';
import { isKind, Refusal, words } from './door.js';

const MAX_TITLE = 60;
const MAX_ATTEMPTS = 10; // to store the title
const WAIT_MS = 500;

// A Route is where the audio of a conversation goes.
class Route {
  constructor(door, id) {
    Object.assign(this, { door, path: door.address(id, 'voice') });
  }

  async address() {
    return { url: socketURL(this.path), protocols: ['adk', this.door.offer] };
  }

  async refusal() {
    try {
      await this.door.send('GET', this.path);
      return '';
    } catch (error) {
      return error.kind === 'offline' || isTemporary(error.status) ? '' : error.message;
    }
  }
}

/** A Talk lets the user of a chat talk. */
export class Talk {
  constructor(chat) {
    Object.assign(this, { chat, answering: null, title: '' });
    this.bar = el('div', { class: 'talk', role: 'group', 'aria-label': 'Voice', hidden: true });
    this.button = el('button', { type: 'button', class: 'icon mic' }, el('span', { class: 'sr' }, 'Talk'));
    this.voice = new Voice(this.bar, this.button, {
      begin: () => this.begin(), onChange: () => this.button.setAttribute('aria-pressed', String(this.isActive)),
      onNotice: (text, cls) => (cls === 'bad' ? chat.toast(isKind(text) ? words(text) : text) : null),
    }, { hasCamera: false });
  }

  /** mount shows the button and the bar in the form for messages. */
  mount(composer) {
    composer.box.insertBefore(this.button, composer.button);
    composer.root.prepend(this.bar);
  }

  get isActive() {
    return !!this.voice?.isActive;
  }

  setDisabled(isDisabled) {
    this.voice.setDisabled(isDisabled);
  }

  /** stop ends the conversation's audio; the conversation stays. */
  stop() {
    this.voice.stop();
  }

  /** silence stops the answer that is playing, or else ends the audio. */
  silence() {
    if (!this.voice.silence()) this.stop();
  }

  /** send sends a frame. It throws an error before there is a connection. */
  send(frame) {
    this.voice.send(frame);
  }

  /** answer answers a question. It throws a Refusal if the app does not take the answer. */
  answer(body) {
    this.answering?.reject(new Refusal('busy'));
    return new Promise((resolve, reject) => {
      this.answering = { resolve, reject };
      this.send({ answer: body });
    });
  }

  async begin() {
    const { chat } = this;
    await chat.ready;
    const { view } = chat;
    const isNew = !chat.id;
    this.title = '';
    if (isNew) await chat.create({ text: '', files: [] }, view);
    if (view !== chat.view) return null;
    return {
      route: new Route(chat.door, chat.id),
      split: (frame) => ({ audio: frame.audio ? [frame.audio] : [], rest: frame, isCut: frame.interrupted || (frame.delta && frame.from === 'user'), isOver: frame.turnComplete || frame.interrupted }),
      onEvent: (frame) => view === chat.view && this.show(frame, isNew),
      onLost: () => {},
      onEnd: () => this.finish(view, chat.id),
    };
  }

  show(frame, isNew) {
    const { chat } = this;
    if (frame.rejected) this.settle(new Refusal(frame.rejected));
    if (frame.taken) this.settle();
    chat.show(frame);
    const { message } = frame;
    if (isNew && !this.title && message?.from === 'user' && message.text) {
      this.title = message.text.trim().replace(/\s+/g, ' ').slice(0, MAX_TITLE);
      chat.list.put({ id: chat.id, title: this.title, time: Date.now() });
      chat.drawHeading();
    }
  }

  // settle ends the wait for the answer to a question.
  settle(error) {
    if (error) this.answering?.reject(error);
    else this.answering?.resolve();
    this.answering = null;
  }

  async finish(view, id) {
    const { chat, title } = this;
    this.settle(new Refusal('stopped'));
    if (view === chat.view) await chat.reload(view);
    if (title) await this.store(id, title);
  }

  // store stores the title of a new conversation, once its last run has ended.
  async store(id, title) {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      try {
        await this.chat.door.send('PATCH', this.chat.door.address(id), { title });
        return;
      } catch (error) {
        if (error.kind !== 'busy') return; // the list has the first words until it is loaded again
        await new Promise((done) => { setTimeout(done, WAIT_MS); });
      }
    }
  }
}
