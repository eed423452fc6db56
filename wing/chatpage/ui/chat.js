// The chat page for end users.

import { el } from '../../ui/dom.js';
import { drawMarkdown } from '../../ui/markdown.js';
import { Door, Refusal, recall, remember, words } from './door.js';
import { Composer } from './compose.js';
import { Frame, isFramed } from './frame.js';
import { List } from './list.js';
import { Log } from './log.js';
import { Talk } from './talk.js';

const MAX_TITLE = 60;
const MAX_ANNOUNCED = 1000;
const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 8000;

const settings = JSON.parse(document.body.dataset.settings);
const app = document.body.dataset.base;
const announcement = el('div', { class: 'sr', role: 'status' });
const announce = (text) => { announcement.textContent = text.slice(0, MAX_ANNOUNCED); };

/** A Chat is the page. */
class Chat {
  constructor() {
    Object.assign(this, { id: '', at: '', turn: null, view: {} });
    this.door = new Door(app, settings.signIn, () => this.signIn());
    this.frame = new Frame(settings.origins, { onToken: (token) => this.useToken(token), onFocus: () => this.composer.field.focus() });
    this.build();
    this.list = new List(this.listRoot, this.toasts, {
      goneKey: `agenthost-chat.gone.${app}`, open: (id) => this.open(id), announce, fail: (error) => this.toast(error.message), more: (page) => this.loadList(page),
      rename: (id, title) => this.rename(id, title), remove: (id, isLast) => this.remove(id, isLast),
    });
    this.log = new Log(this.logRoot, {
      load: (path) => this.load(path), answer: (body, accept) => this.answer(body, accept), retry: () => this.retry(), rate: (id, score) => this.rate(id, score), earlier: (id) => this.loadEarlier(id),
    });
    this.talk = settings.voice ? new Talk(this) : null;
    this.composer = new Composer(this.form, { ...settings, app }, { send: (...message) => this.send(...message), stop: () => this.stop(), draw: (isDisabled) => this.talk?.setDisabled(isDisabled) });
    this.talk?.mount(this.composer);
    this.listen();
  }

  // The page's parts.

  build() {
    const title = el('h1', { dir: 'auto' }, settings.title);
    this.listRoot = el('ul', { class: 'list' });
    this.toasts = el('div', { class: 'toasts' });
    this.heading = el('span', { class: 'heading', dir: 'auto' });
    this.menu = el('button', { type: 'button', class: 'icon menu', 'aria-label': 'Conversations', 'aria-expanded': 'false', 'aria-controls': 'side', onclick: () => this.setSide(!this.isSideOpen) }, '☰');
    this.account = el('button', { type: 'button', class: 'quiet', hidden: true, onclick: () => this.toggleAccount() });
    this.side = el('nav', { id: 'side', 'aria-label': 'Conversations' },
      el('div', { class: 'top' }, title, el('button', { type: 'button', class: 'icon close-side', 'aria-label': 'Close the list', onclick: () => this.setSide(false) }, '×')),
      el('button', { type: 'button', class: 'new', onclick: () => this.open('') }, 'New conversation'), this.listRoot, this.account);
    this.logRoot = el('div', { id: 'log', role: 'log', 'aria-live': 'off', 'aria-label': 'Conversation', tabindex: 0 });
    this.form = el('form', { id: 'composer' });
    this.main = el('main', {},
      el('header', {}, this.menu, el('span', { class: 'app', dir: 'auto' }, settings.title), this.heading,
        el('button', { type: 'button', class: 'icon', title: 'New conversation', 'aria-label': 'New conversation', onclick: () => this.open('') }, '+'),
        isFramed ? el('button', { type: 'button', class: 'icon', 'aria-label': 'Close the chat', onclick: () => this.frame.close() }, '×') : null),
      this.logRoot, this.form);
    document.body.append(this.side, this.main, this.toasts, announcement);
    document.body.classList.toggle('framed', isFramed);
  }

  get isSideOpen() {
    return document.body.classList.contains('with-side');
  }

  setSide(isOpen) {
    document.body.classList.toggle('with-side', isOpen);
    this.menu.setAttribute('aria-expanded', String(isOpen));
    (isOpen ? this.side.querySelector('button.new') : this.menu).focus();
  }

  welcome() {
    return el('div', { class: 'welcome' }, el('h2', { dir: 'auto' }, settings.title), settings.welcome ? drawMarkdown(settings.welcome) : null,
      settings.suggestions.length ? el('ul', { class: 'suggestions' }, settings.suggestions.map((text) => el('li', {}, el('button', { type: 'button', dir: 'auto', onclick: () => this.suggest(text) }, text)))) : null);
  }

  suggest(text) {
    if (this.turn || this.composer.isBlocked) return;
    this.send({ text, files: [] }, []);
  }

  toast(text) {
    const toast = el('div', { class: 'toast', role: 'alert' }, el('span', {}, text), el('button', { type: 'button', class: 'icon', 'aria-label': 'Close', onclick: () => toast.remove() }, '×'));
    this.toasts.append(toast);
    setTimeout(() => toast.remove(), 10_000);
  }

  listen() {
    window.addEventListener('hashchange', () => this.open(hashID()));
    window.addEventListener('focus', () => this.refresh());
    document.addEventListener('visibilitychange', () => document.hidden || this.refresh());
    document.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape' || event.isComposing || this.closeSignIn) return;
      if (this.isSideOpen) this.setSide(false);
      else if (this.talk?.isActive) this.talk.silence();
      else if (this.turn) this.stop();
      else if (isFramed) this.frame.close();
    });
  }

  // The user's token.

  async start() {
    this.drawAccount();
    const id = hashID() || (isFramed ? recall(`agenthost-chat.last.${app}`) : '');
    this.log.clear(id ? null : this.welcome());
    // The first request shows whether a token is necessary: a proxy may have signed the user in.
    await this.loadList().then(() => this.composer.setBlocked(false), (error) => this.toast(error.message));
    if (settings.signIn === 'required' && !this.door.token) this.account.hidden = this.composer.isBlocked === false;
    await this.open(id, true);
  }

  useToken(token) {
    const isOther = token !== this.door.token;
    this.door.setToken(token);
    this.drawAccount();
    if (isOther && token) this.closeSignIn?.();
  }

  // signIn asks the page that embeds the chat for a token, or else the person. It resolves to
  // whether there is one.
  async signIn() {
    if (this.signingIn) return this.signingIn;
    const rejected = this.door.token;
    this.door.setToken('');
    const ask = async () => await this.frame.askToken() && this.door.token !== rejected;
    this.signingIn = (async () => await ask() || await this.askPerson())();
    try {
      return await this.signingIn;
    } finally {
      this.signingIn = null;
      this.drawAccount();
    }
  }

  // askPerson shows a dialog above the conversation, which stays as it is.
  askPerson() {
    if (!settings.signIn) return Promise.resolve(false);
    this.composer.setBlocked(settings.signIn === 'required');
    const field = el('input', { type: 'password', name: 'token', autocomplete: 'current-password', required: true, autofocus: true, 'aria-label': 'Access key', placeholder: 'Access key' });
    const form = el('form', {}, el('h2', { id: 'sign-in-title' }, 'Sign in'), el('p', {}, `Enter the access key that you have received for ${settings.title}.`), field,
      el('div', { class: 'bar' }, el('button', { type: 'submit', class: 'main' }, 'Sign in'), el('button', { type: 'button', class: 'quiet', onclick: () => dialog.close() }, settings.signIn === 'optional' ? 'Continue as a guest' : 'Not now')));
    const dialog = el('dialog', { class: 'sign-in', 'aria-labelledby': 'sign-in-title' }, form);
    this.closeSignIn = () => dialog.close('token');
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      this.door.setToken(field.value.trim(), !isFramed);
      dialog.close('token');
    });
    document.body.append(dialog);
    dialog.showModal();
    return new Promise((done) => {
      dialog.addEventListener('close', () => {
        const hasToken = dialog.returnValue === 'token';
        this.closeSignIn = null;
        dialog.remove();
        this.composer.setBlocked(!hasToken && settings.signIn === 'required');
        done(hasToken);
      });
    });
  }

  drawAccount() {
    this.account.hidden = !settings.signIn || (isFramed && !!settings.origins.length);
    this.account.textContent = this.door.token ? 'Sign out' : 'Sign in';
  }

  async toggleAccount() {
    if (this.door.token) {
      this.door.setToken('');
      remember(`agenthost-chat.last.${app}`, '');
      location.hash = '';
      location.reload();
      return;
    }
    if (await this.signIn()) this.ready = this.start();
    else this.open('');
  }

  // The conversations.

  async loadList(page = '') {
    const { conversations, next } = await this.door.json('GET', this.door.address('') + (page ? `?page=${encodeURIComponent(page)}` : ''));
    this.list.set(page ? [...this.list.all, ...conversations] : conversations, next);
    this.drawHeading();
  }

  async rename(id, title) {
    await this.door.send('PATCH', this.door.address(id), { title });
    this.list.put({ id, title, time: Date.now() });
    this.drawHeading();
  }

  remove(id, isLast) {
    return this.door.send('DELETE', this.door.address(id), undefined, { keepalive: isLast }).catch((error) => {
      if (error.status !== 404) throw error;
    });
  }

  drawHeading() {
    this.heading.textContent = this.id ? this.list.titleOf(this.id) : '';
    document.title = this.id ? `${this.list.titleOf(this.id)} – ${settings.title}` : settings.title;
  }

  /** open shows a conversation, or a new one. */
  async open(id, isFirst = false) {
    if (id === this.id && !isFirst) {
      if (!id) this.composer.field.focus();
      return;
    }
    const view = this.view = {}; // what an earlier view receives is not drawn
    this.turn?.end.abort();
    this.talk?.stop();
    Object.assign(this, { id, at: '', turn: null });
    if (hashID() !== id) history.replaceState(null, '', id ? `#${encodeURIComponent(id)}` : location.pathname + location.search);
    remember(`agenthost-chat.last.${app}`, id);
    this.list.setCurrent(id);
    this.drawHeading();
    this.composer.setBusy(false);
    if (this.isSideOpen) this.setSide(false);
    this.log.clear(id ? null : this.welcome());
    if (!id) {
      if (!isFirst) this.composer.field.focus();
      return;
    }
    await this.reload(view);
  }

  // reload draws the stored conversation, and follows a turn that is running. It waits for a server
  // that is away.
  async reload(view) {
    for (let wait = FIRST_WAIT_MS; view === this.view; wait = Math.min(wait * 2, MAX_WAIT_MS)) {
      try {
        const conversation = await this.door.json('GET', this.door.address(this.id));
        if (view !== this.view) return;
        this.at = conversation.at ?? '';
        this.list.put({ id: conversation.id, title: conversation.title || firstWords(conversation.messages), time: conversation.time });
        this.drawHeading();
        this.log.show(conversation);
        if (conversation.running) this.run((signal) => this.door.stream('GET', `${this.door.address(this.id, 'follow')}?after=${encodeURIComponent(this.at)}`, undefined, { signal }));
        return;
      } catch (error) {
        if (view !== this.view) return;
        if (!['offline', 'unavailable'].includes(error.kind)) {
          this.leave(error);
          return;
        }
        this.log.setTail({ note: `${error.message} Trying again…` });
        await new Promise((done) => { setTimeout(done, wait); });
      }
    }
  }

  leave(error) {
    if (error.status === 404) this.list.drop(this.id);
    this.open('');
    this.toast(error.message ?? words('failed'));
  }

  async loadEarlier(id) {
    const { view } = this;
    try {
      const conversation = await this.door.json('GET', `${this.door.address(this.id)}?before=${encodeURIComponent(id)}`);
      if (view === this.view) this.log.prepend(conversation);
    } catch (error) {
      this.toast(error.message);
    }
  }

  // refresh draws what happened in another window.
  async refresh() {
    const { view, id } = this;
    if (!id || this.turn || this.talk?.isActive || this.isRefreshing) return;
    this.isRefreshing = true;
    const conversation = await this.door.json('GET', this.door.address(id)).catch(() => null);
    this.isRefreshing = false;
    if (!conversation || view !== this.view || this.turn || (conversation.at === this.at && !conversation.running)) return;
    await this.reload(view);
  }

  async load(path) {
    return (await this.door.send('GET', this.door.address(this.id, path))).arrayBuffer();
  }

  // The turn in progress.

  /** send sends a message, calls onTaken once the server has it, and resolves to whether it does. */
  async send(message, uploads, onTaken) {
    await this.ready; // the page may still be opening a conversation
    const { view } = this;
    if (this.turn) return false;
    if (this.talk?.isActive) return this.sendToTalk(message, onTaken);
    try {
      if (!this.id) await this.create(message, view);
    } catch (error) {
      this.composer.fail(error.message);
      return false;
    }
    if (view !== this.view) return false;
    this.log.tail.replaceChildren();
    const mine = this.log.addMine({ text: message.text, files: uploads.map(({ name, size }) => ({ name, size })) });
    const { isAccepted, error } = await this.run((signal) => this.door.stream('POST', this.door.address(this.id, 'messages'), message, { signal }), { onTaken });
    if (isAccepted || view !== this.view) return true; // the server has it, or is about to
    mine.node.remove();
    this.composer.fail(error.message);
    return false;
  }

  // sendToTalk sends a message during a talk.
  sendToTalk({ text, files }, onTaken) {
    try {
      if (files.length) throw new Error('Files cannot be sent while you talk.');
      this.talk.send({ text });
    } catch (error) {
      this.composer.fail(error.message);
      return false;
    }
    onTaken?.();
    this.log.addMine({ text });
    return true;
  }

  async create({ text, files }, view) {
    const title = text.trim().replace(/\s+/g, ' ').slice(0, MAX_TITLE) || files[0]?.name || '';
    const made = await this.door.json('POST', this.door.address(''), { title });
    if (view !== this.view) return;
    this.log.clear(null);
    this.id = made.id;
    history.replaceState(null, '', `#${encodeURIComponent(made.id)}`);
    remember(`agenthost-chat.last.${app}`, made.id);
    this.list.put(made);
    this.list.setCurrent(made.id);
    this.drawHeading();
  }

  // answer sends the answer to a question; accept closes it once the server has taken it.
  async answer(body, accept) {
    if (this.turn) throw new Refusal('busy');
    if (this.talk?.isActive) {
      await this.talk.answer(body);
      accept();
      return;
    }
    const { view } = this;
    const kinds = { 409: 'closed', 422: 'answer' };
    const { isAccepted, error } = await this.run((signal) => this.door.stream('POST', this.door.address(this.id, 'answers'), body, { signal, kinds }), { onAnswer: accept });
    if (!isAccepted && view === this.view) throw error;
  }

  /** rate stores a rating, and resolves to whether the server has it. */
  async rate(id, score) {
    try {
      await this.door.send('POST', this.door.address(this.id, 'feedback'), { message: id, score });
      announce(score ? 'Thank you for your rating.' : 'The rating was removed.');
      return true;
    } catch (error) {
      this.toast(error.message);
      return false;
    }
  }

  async retry() {
    if (this.turn) return;
    const { view } = this;
    this.log.setTail({ working: true });
    const { isAccepted, error } = await this.run((signal) => this.door.stream('POST', this.door.address(this.id, 'retry'), {}, { signal }), { onAnswer: () => this.dropFailed() });
    if (isAccepted || view !== this.view) return;
    if (error.status === 409) await this.reload(view); // another window has repeated it
    else this.log.setTail({ failed: error.kind });
  }

  // dropFailed removes what the failed turn has drawn below its message.
  dropFailed() {
    const rows = [...this.log.list.querySelectorAll('.message')];
    const last = rows.findLastIndex((row) => row.matches('.from-user'));
    for (const row of rows.slice(last + 1)) row.remove();
  }

  // run reads a turn's frames: it calls onTaken with the first one, and onAnswer with the first one of
  // the answer. A connection that breaks does not end the turn: the page finds it again. The outcome
  // has isAccepted, and otherwise the error.
  async run(start, { onTaken, onAnswer } = {}) {
    const { view } = this;
    const turn = this.turn = { end: new AbortController() };
    turn.isStarted = new Promise((done) => { turn.start = done; });
    this.composer.setBusy(true);
    this.log.setTail({ working: true });
    this.logRoot.setAttribute('aria-busy', 'true');
    let isAccepted = false;
    let failed = '';
    let error;
    try {
      for await (const frame of start(turn.end.signal)) {
        turn.start();
        if (view !== this.view) return { isAccepted: true };
        if (frame.refused) {
          isAccepted = false;
          error = new Refusal(frame.failed, frame.failed === 'busy' ? 409 : 0);
          break;
        }
        if (!isAccepted) onTaken?.();
        if (frame.at || frame.id) {
          onAnswer?.();
          onAnswer = null;
        }
        isAccepted = true;
        failed = this.show(frame) || failed;
      }
    } catch (problem) {
      error = problem;
      if (view !== this.view) return { isAccepted };
      if (isAccepted && problem.name !== 'AbortError') failed = 'broken';
    }
    turn.start();
    if (this.turn === turn) this.turn = null;
    this.composer.setBusy(!!this.turn);
    this.logRoot.removeAttribute('aria-busy');
    this.log.setTail(failed && failed !== 'broken' ? { failed } : {});
    if (!failed && !error) this.log.offerRatings();
    if (failed === 'broken') {
      this.log.setTail({ note: 'The connection was lost. Looking for the answer…' });
      await this.reload(view);
    }
    return { isAccepted, error };
  }

  // show draws a frame, and returns the kind of failure with which it ends the turn.
  show({ at, id, from, delta, thought, message, working, tool, failed }) {
    if (at) this.at = at;
    if (delta) {
      this.log.append(id, delta, from);
      this.log.setTail({});
    }
    if (thought) this.log.setTail({ working: true, tool: 'Thinking' });
    if (message) {
      if (id) this.log.rename(id, message.id);
      this.log.add(message);
      if (message.from === 'app') announce(message.text || (message.questions ? 'A question waits for your answer.' : 'A file has arrived.'));
      this.log.setTail({});
    }
    if (working) this.log.setTail({ working, tool });
    return failed ?? '';
  }

  /** stop ends the answer in progress, here and on the server. */
  async stop() {
    const { id, turn, view } = this;
    if (!turn) return;
    announce('Stopping.');
    await turn.isStarted; // before the first frame, the server may not have the turn
    const { stopped } = await this.door.json('POST', this.door.address(id, 'stop'), {}).catch(() => ({ stopped: false }));
    if (!stopped && view === this.view && this.turn === turn) this.toast('This answer cannot be stopped now.');
  }
}

function hashID() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';
  }
}

const firstWords = (messages = []) => (messages.find((m) => m.from === 'user' && m.text)?.text ?? '').trim().replace(/\s+/g, ' ').slice(0, MAX_TITLE);

const chat = new Chat();
chat.ready = chat.start();
