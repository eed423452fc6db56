// The message box: text, files, and the draft, which outlives the page.

import { el } from '../../ui/dom.js';
import { recall, remember, words } from './door.js';
import { accepts, readFile, sizeText, typeOf } from './files.js';

const MAX_FILES = 10;

/** A Composer is the form for messages. */
export class Composer {
  /** settings are uploads, maxUpload and app; handlers: send({text, files}), stop(), draw(isDisabled). */
  constructor(root, settings, handlers) {
    Object.assign(this, { root, settings, handlers, files: [], isBusy: false, isBlocked: false, conversation: '' });
    const takesFiles = settings.uploads.length > 0;
    this.field = el('textarea', { rows: 1, placeholder: 'Write a message', 'aria-label': 'Message', dir: 'auto', maxlength: 100_000, enterkeyhint: 'send', 'aria-keyshortcuts': 'Enter' });
    this.chips = el('ul', { class: 'chips', hidden: true, 'aria-label': 'Files to send' });
    this.error = el('p', { class: 'bad', role: 'alert' });
    this.picker = el('input', { type: 'file', multiple: true, hidden: true, accept: settings.uploads.join(','), tabindex: -1, 'aria-hidden': 'true' });
    this.attach = el('button', { type: 'button', class: 'icon', title: 'Add files', 'aria-label': 'Add files', hidden: !takesFiles, onclick: () => this.picker.click() }, '+');
    this.button = el('button', { type: 'submit', class: 'main send', 'aria-label': 'Send' }, el('span', { 'aria-hidden': 'true' }, '↑'));
    this.box = el('div', { class: 'box' }, this.attach, this.field, this.button);
    root.append(this.chips, this.error, this.box, this.picker);
    this.listen(takesFiles);
    this.field.value = recall(this.draftKey);
    this.grow();
  }

  get draftKey() {
    return `agenthost-chat.draft.${this.settings.app}`;
  }

  listen(takesFiles) {
    this.root.addEventListener('submit', (event) => {
      event.preventDefault();
      this.submit();
    });
    this.field.addEventListener('input', () => {
      remember(this.draftKey, this.field.value);
      this.grow();
      this.draw();
    });
    this.field.addEventListener('keydown', (event) => {
      // Telephones have no other way to begin a line.
      const isTouch = matchMedia('(pointer: coarse)').matches;
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing || isTouch) return;
      event.preventDefault();
      if (!this.isBusy) this.submit();
    });
    this.picker.addEventListener('change', () => {
      this.add(this.picker.files);
      this.picker.value = '';
    });
    if (!takesFiles) return;
    this.field.addEventListener('paste', (event) => {
      if (!event.clipboardData.files.length) return;
      event.preventDefault();
      this.add(event.clipboardData.files);
    });
    document.addEventListener('dragover', (event) => event.preventDefault());
    document.addEventListener('drop', (event) => {
      event.preventDefault();
      this.add(event.dataTransfer.files);
    });
  }

  add(files) {
    this.error.textContent = '';
    for (const file of files) {
      const total = this.files.reduce((sum, f) => sum + f.size, 0) + file.size;
      if (!accepts(this.settings.uploads, typeOf(file))) this.error.textContent = `${file.name}: ${words('type')}`;
      else if (!file.size) this.error.textContent = `${file.name} is empty.`;
      else if (total > this.settings.maxUpload) this.error.textContent = `${file.name} is too large: files may have ${sizeText(this.settings.maxUpload)} together.`;
      else if (this.files.length === MAX_FILES) this.error.textContent = `A message may have ${MAX_FILES} files.`;
      else this.files.push(file);
    }
    this.drawChips();
    this.field.focus();
  }

  drawChips() {
    this.chips.hidden = !this.files.length;
    this.chips.replaceChildren(...this.files.map((file, i) => el('li', {}, el('span', { class: 'name', dir: 'auto' }, file.name), el('span', { class: 'dim' }, sizeText(file.size)),
      el('button', { type: 'button', class: 'icon', 'aria-label': `Remove ${file.name}`, onclick: () => { this.files.splice(i, 1); this.drawChips(); this.field.focus(); } }, '×'))));
    this.draw();
  }

  // grow fits the field to its text; the style sheet limits it.
  grow() {
    this.field.rows = Math.min(8, Math.max(1, this.field.value.split('\n').length));
  }

  /** setBusy shows Stop instead of Send while an answer arrives. */
  setBusy(isBusy) {
    this.isBusy = isBusy;
    this.draw();
  }

  /** setBlocked disables the form, for example before the user has signed in. */
  setBlocked(isBlocked) {
    this.isBlocked = isBlocked;
    this.draw();
  }

  draw() {
    const { button } = this;
    button.setAttribute('aria-label', this.isBusy ? 'Stop' : 'Send');
    button.title = this.isBusy ? 'Stop' : 'Send';
    button.firstChild.textContent = this.isBusy ? '■' : '↑';
    button.disabled = this.isBlocked || (!this.isBusy && !this.field.value.trim() && !this.files.length);
    this.field.disabled = this.isBlocked;
    this.attach.disabled = this.isBlocked;
    this.handlers.draw(this.isBlocked || this.isBusy);
  }

  /** setDraft replaces the text; the next page of this browser has it too. */
  setDraft(text) {
    this.field.value = text;
    remember(this.draftKey, text);
    this.grow();
    this.draw();
  }

  /** fail shows why a message was not sent. */
  fail(text) {
    this.error.textContent = text;
  }

  async submit() {
    if (this.isBusy) {
      this.handlers.stop();
      return;
    }
    const text = this.field.value;
    const sent = this.files;
    if (this.isBlocked || (!text.trim() && !sent.length)) return;
    this.error.textContent = '';
    let files;
    try {
      files = await Promise.all(sent.map(readFile));
    } catch {
      this.fail('A file cannot be read. Remove it and add it again.');
      return;
    }
    this.field.value = '';
    this.files = [];
    this.grow();
    this.drawChips();
    // Until the server has the message, a page that is closed keeps it as the draft.
    const isSent = await this.handlers.send({ text, files }, sent, () => remember(this.draftKey, this.field.value));
    if (isSent) return;
    if (!this.field.value) this.setDraft(text); // the draft stays
    if (!this.files.length) this.files = sent;
    this.drawChips();
  }
}
