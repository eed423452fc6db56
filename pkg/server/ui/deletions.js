// Sessions that the user deleted, until the deletion can no longer be undone. The page deletes them
// when the time is over: if it is closed before, they stay.

import { el } from './dom.js';

const UNDO_SECONDS = 10;

/** Deletions delays the deletion of sessions and offers to undo it. */
export class Deletions {
  /** remove(address) deletes a session; onChange is called when one is hidden or shown again. */
  constructor(root, { remove, onChange, onError }) {
    Object.assign(this, { root, remove, onChange, onError, hidden: new Set() });
  }

  /** has reports whether a session waits for its deletion, or is deleted. */
  has(address) {
    return this.hidden.has(address);
  }

  /** add hides a session at an address and deletes it after ten seconds. onUndo is called if the user undoes it. */
  add(address, title, onUndo) {
    let left = UNDO_SECONDS;
    const undo = el('button', { type: 'button', class: 'quiet', onclick: () => end(() => (this.show(address), onUndo())) }, `Undo (${left})`);
    const row = el('p', {}, el('span', {}, `“${title}” is deleted.`), undo);
    const timer = setInterval(() => {
      undo.textContent = `Undo (${--left})`;
      if (left <= 0) end(() => this.finish(address));
    }, 1000);
    const end = (next) => {
      clearInterval(timer);
      row.remove();
      next();
    };
    this.hidden.add(address);
    this.root.append(row);
    this.onChange();
  }

  async finish(address) {
    try {
      await this.remove(address);
    } catch (error) {
      this.show(address);
      this.onError(error);
    }
  }

  show(address) {
    this.hidden.delete(address);
    this.onChange();
  }
}
