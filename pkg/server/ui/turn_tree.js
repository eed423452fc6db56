// A session's events as a tree. A rewind deletes nothing: it moves the end of the
// conversation back, and later events begin another branch there. So each answer that
// was taken back is still in the session, next to the one that replaced it.

/** partsOf lists the parts of one kind in an event. */
export const partsOf = (event, kind) => (event.content?.parts ?? []).map((p) => p[kind]).filter(Boolean);

/** responsesOf lists the function responses in an event. */
export const responsesOf = (event) => partsOf(event, 'functionResponse');

const ROOT = null;

/** A TurnTree holds the stored events of a session, and those that follow. */
export class TurnTree {
  constructor(events = []) {
    // nodes maps the ID of each event that is not a rewind to { event, parent, children }.
    Object.assign(this, { nodes: new Map(), roots: [], firstOf: new Map(), head: ROOT });
    for (const event of events) this.add(event);
  }

  /** add appends an event to the branch at the end, or rewinds to its beginning. */
  add(event) {
    const { actions, provenance, invocationId } = event;
    // The page draws a message before the server has named its invocation.
    const sent = this.head?.event;
    if (sent && !sent.invocationId && invocationId) {
      sent.invocationId = invocationId;
      this.firstOf.set(invocationId, this.head);
    }
    if (event.partial || this.nodes.has(event.id)) return;
    if (actions?.rewindBeforeInvocationId && !provenance?.imported) {
      const after = this.nodes.get(provenance?.rewindAfterEventId);
      const before = this.firstOf.get(actions.rewindBeforeInvocationId);
      if (after) this.head = after;
      else if (before && !provenance?.rewindAfterEventId) this.head = before.parent;
      return;
    }
    const node = { event, parent: this.head, children: [] };
    (this.head?.children ?? this.roots).push(node);
    this.nodes.set(event.id, node);
    if (invocationId && !this.firstOf.has(invocationId)) this.firstOf.set(invocationId, node);
    this.head = node;
  }

  /** events lists the events that are not taken back, oldest first. */
  get events() {
    const path = [];
    for (let node = this.head; node !== ROOT; node = node.parent) path.push(node.event);
    return path.reverse();
  }

  /** turn lists the events of an invocation on its branch, oldest first. */
  turn(invocation) {
    const events = [];
    for (let node = this.firstOf.get(invocation); node?.event.invocationId === invocation; node = node === this.head ? undefined : node.children.at(-1)) events.push(node.event);
    return events;
  }

  /** message returns the text or files that the user sent in a turn, or null. */
  message(invocation) {
    const first = this.turn(invocation).find((e) => e.author === 'user' && e.content);
    return first && !responsesOf(first).length ? first.content : null;
  }

  /** versions lists the invocations that began at the same place as one, oldest first. */
  versions(invocation) {
    const first = this.firstOf.get(invocation);
    if (!first) return [];
    return [...new Set((first.parent?.children ?? this.roots).filter((n) => n.event.author === 'user').map((n) => n.event.invocationId))]
      .filter((id) => this.message(id) || id === invocation);
  }

  /** invocations lists all invocations of agents, newest first; isLive if they are not taken back. */
  get invocations() {
    const live = new Set(this.events.map((e) => e.invocationId));
    return [...this.firstOf.keys()].reverse().filter((id) => this.turn(id).some((e) => e.author !== 'user')).map((id) => ({ id, isLive: live.has(id) }));
  }

  /** lastEvent returns the ID of the last event of the branch that a turn began. */
  lastEvent(invocation) {
    let node = this.firstOf.get(invocation);
    while (node?.children.length) node = node.children.at(-1);
    return node?.event.id;
  }

  /** takenBack returns the first invocation that the last rewind took back, or undefined. */
  get takenBack() {
    return (this.head?.children ?? this.roots).at(-1)?.event.invocationId;
  }
}

/** keepVisible omits rewinds and the events that they took back. */
export const keepVisible = (events) => new TurnTree(events).events;
