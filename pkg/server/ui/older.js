// Long sessions: a turn is drawn when the user scrolls near it, and the page contains only turns
// near the visible part. The end is drawn first, so responses arrive before their calls: they wait
// for them here.

const FIRST = 60; // events at the end
const MOST = 60; // turns and notices in the page
const STEP = 4; // of them at a time, so that scrolling stays smooth
const SLICE_MS = 4;
const REACH = 1500; // pixels above and below the visible part

/** An Older holds the events of a session that are not drawn yet. */
export class Older {
  constructor(events = []) {
    const start = startOfTurn(events, events.length - FIRST);
    Object.assign(this, { events: events.slice(0, start), shown: events.slice(start), responses: new Map() });
    this.ids = new Set(this.events.map((e) => e.id));
    this.calls = new Set(this.events.flatMap((e) => (e.content?.parts ?? []).map((p) => p.functionCall?.id)).filter(Boolean));
  }

  /** keep stores a response whose call is not drawn yet, and reports whether there is one. */
  keep(response, event) {
    if (!this.calls.has(response?.id)) return false;
    this.responses.set(response.id, [...(this.responses.get(response.id) ?? []), { response, event }]);
    return true;
  }

  /** take returns the responses that wait for a call. */
  take(id) {
    const all = this.responses.get(id) ?? [];
    this.responses.delete(id);
    return all;
  }

  /** takeTurn removes the last turn from the list and returns its events. */
  takeTurn() {
    const turn = this.events.splice(startOfTurn(this.events, this.events.length - 1));
    for (const event of turn) {
      this.ids.delete(event.id);
      for (const part of event.content?.parts ?? []) this.calls.delete(part.functionCall?.id);
    }
    return turn;
  }
}

/**
 * A Window keeps the turns near the visible part in the page, at most 60. Those above and below,
 * which the user has scrolled past, wait outside of it.
 */
export class Window {
  constructor(transcript) {
    Object.assign(this, { transcript, root: transcript.root, above: [], below: [], isPlanned: false });
    this.root.addEventListener('scroll', () => this.plan(), { passive: true });
  }

  /** clear removes all turns. */
  clear() {
    Object.assign(this, { above: [], below: [] });
  }

  /** put adds a node at the end. */
  put(node) {
    if (this.below.length) this.below.push(node);
    else this.root.append(node);
  }

  /** remove removes a node, wherever it is. */
  remove(node) {
    node.remove();
    this.below = this.below.filter((n) => n !== node);
  }

  /** toEnd moves the window to the end. */
  toEnd() {
    if (this.below.length) {
      const all = [...this.root.children, ...this.below];
      this.below = [];
      this.above.push(...all.splice(0, Math.max(0, all.length - MOST)));
      this.root.replaceChildren(...all);
    }
    this.root.scrollTop = this.root.scrollHeight;
  }

  /** plan moves the window in the next frame if its border is near. */
  plan() {
    if (this.isPlanned || !this.isNear()) return;
    this.isPlanned = true;
    requestAnimationFrame(() => {
      this.isPlanned = false;
      if (this.hasAbove && this.root.scrollTop < REACH) this.moveUp();
      else if (this.isNear()) this.moveDown();
      setTimeout(() => this.plan());
    });
  }

  get hasAbove() {
    return this.above.length > 0 || this.transcript.older.events.length > 0;
  }

  isNear() {
    const { root } = this;
    return (this.hasAbove && root.scrollTop < REACH) || (this.below.length > 0 && root.scrollHeight - root.scrollTop - root.clientHeight < REACH);
  }

  /** moveUp adds turns above for some milliseconds, at least one. */
  moveUp(milliseconds = SLICE_MS) {
    const { root, transcript } = this;
    const end = performance.now() + milliseconds;
    const added = [];
    do added.unshift(...(this.above.length ? [this.above.pop()] : transcript.drawOlderTurn()));
    while (this.hasAbove && added.length < STEP && performance.now() < end);
    const fromEnd = root.scrollHeight - root.scrollTop;
    root.prepend(...added);
    root.scrollTop = root.scrollHeight - fromEnd;
    while (root.childElementCount > MOST) {
      this.below.unshift(root.lastElementChild);
      root.lastElementChild.remove();
    }
  }

  moveDown() {
    const { root } = this;
    root.append(...this.below.splice(0, STEP));
    const surplus = [...root.children].slice(0, Math.max(0, root.childElementCount - MOST));
    const { scrollHeight, scrollTop } = root;
    for (const node of surplus) node.remove();
    this.above.push(...surplus);
    root.scrollTop = scrollTop - (scrollHeight - root.scrollHeight);
  }
}

// startOfTurn returns the index of the first event of the turn at an index.
function startOfTurn(events, at) {
  let start = Math.max(0, at);
  while (start > 0 && events[start - 1].invocationId === events[start].invocationId) start--;
  return start;
}
