// The actions of a turn: repeat it with the same or another message, return to it, and
// read its events.

import { el } from './dom.js';
import { menuButton } from './menu.js';
import { TurnTree } from './turn_tree.js';
import { openRaw } from './turn_raw.js';
import { openWhy } from './why.js';
import { openTrace } from './trace.js';
import { Thumbs } from './thumbs.js';
import { saveAsTest } from './test_save.js';
import { drawRequest, textOf } from './request.js';
import { get } from './wire.js';
import { drawVersion } from './turn_version.js';

/** TurnActions draws the row of actions below each turn of a chat. */
export class TurnActions {
  constructor(chat) {
    Object.assign(this, { chat, thumbs: new Thumbs(chat) });
  }

  /** draw returns the actions of a turn. tree has the events of the session. */
  draw(turn, tree) {
    const { invocation } = turn.dataset;
    const hasMessage = !!tree.message(invocation);
    const act = (text, title, run) => el('button', { type: 'button', class: 'act', title, onclick: () => this.attempt(run) }, text);
    return el('div', { class: 'actions', role: 'group', 'aria-label': 'Actions of this turn' },
      this.versionSwitch(turn, tree, invocation),
      hasMessage && act('Edit', 'Change the message and run it again', () => this.edit(turn, tree)),
      hasMessage && act('Retry', 'Run the message again; this answer is kept', () => this.repeat(invocation, tree.message(invocation))),
      el('button', { type: 'button', class: 'act', title: 'The agent, its lines of YAML, and the state that it read', onclick: () => this.explain(invocation) }, 'Why'),
      el('button', { type: 'button', class: 'act', title: 'Agents, model calls, tools and waits on a time axis', onclick: () => this.trace(invocation) }, 'Trace'),
      this.thumbs.draw(invocation, (run) => this.attempt(run)),
      menuButton('More actions', '⋯', () => this.menu(turn, tree)));
  }

  menu(turn, tree) {
    const { invocation } = turn.dataset;
    const isLast = tree.turn(invocation).at(-1) === tree.head?.event;
    const text = tree.message(invocation)?.parts.map((p) => p.text).filter(Boolean).join('\n');
    return [
      ...(text && navigator.clipboard ? [{ text: 'Copy message', act: () => navigator.clipboard.writeText(text) }] : []),
      { text: 'Fork from here', act: () => this.attempt(() => this.fork(invocation)) },
      { text: 'Make a test', act: () => this.attempt(() => this.saveTest(invocation)) },
      { text: 'Make an eval case of all turns', act: () => this.chat.bar.saveCase() },
      { text: 'Rewind to here', reason: isLast && 'this is the last turn', act: () => this.attempt(() => this.rewind({ eventId: tree.turn(invocation).at(-1).id })) },
      { text: 'Take this turn back', act: () => this.attempt(() => this.rewind({ rewindBeforeInvocationId: invocation })) },
      { text: 'Events as JSON', act: () => openRaw(() => this.loadTurn(invocation)) },
    ];
  }

  // attempt runs an action between two answers, and reports its error.
  async attempt(run) {
    const { chat } = this;
    try {
      if (chat.isBusy()) throw new Error(chat.blocked || 'Wait until the current answer is complete.');
      await run();
    } catch (error) {
      chat.transcript.addNotice(error.message, 'bad');
    }
  }

  /** rewind takes the session back and draws it. It resolves to whether it is still open. */
  async rewind(to) {
    const { chat } = this;
    const { view } = chat;
    const session = await chat.talk.rewind(to);
    if (view !== chat.view) return false;
    chat.show(session);
    chat.transcript.toEnd();
    return true;
  }

  // fork continues in a new session that begins as this one, up to the end of a turn.
  async fork(invocation) {
    const { chat } = this;
    const { view, talk } = chat;
    const fork = await talk.fork((await this.loadTurn(invocation)).at(-1).id);
    if (view !== chat.view) return;
    await talk.list();
    await chat.openSession(fork.id);
    chat.transcript.addNotice('This session continues from the fork. The other one did not change.');
    chat.message.focus();
  }

  /** explain shows why the events of a turn are as they are; wanted is the first one's ID. */
  explain(invocation, wanted) {
    const { app, talk } = this.chat;
    const { sessionAddress } = talk;
    openWhy({
      load: () => this.loadTurn(invocation), wanted,
      explain: (event) => get(`dev/${sessionAddress}/events/${encodeURIComponent(event.id)}/why`),
      request: async (event) => drawRequest(await this.chat.request(event, app)),
    });
  }

  // saveTest makes a test of the session up to a turn.
  async saveTest(invocation) {
    const { sessionAddress } = this.chat.talk;
    const events = await this.loadTurn(invocation);
    const message = events.find((e) => e.author === 'user')?.content;
    saveAsTest({ sessionAddress, eventId: events.at(-1).id, name: textOf(message).trim().split(/\s+/).slice(0, 8).join(' ').slice(0, 60) || 'a conversation' });
  }

  /** trace shows where the time of a turn went, next to another turn if there is one. */
  trace(invocation, other) {
    const { chat } = this;
    const { app, talk: { sessionAddress } } = chat;
    openTrace({
      turns: async () => {
        const tree = new TurnTree((await chat.talk.load()).events);
        return tree.invocations.map(({ id, isLive }) => ({ invocation: id, events: tree.turn(id), text: `${textOf(tree.message(id)).slice(0, 60) || id}${isLive ? '' : ' (taken back)'}` }));
      },
      trace: (id) => get(`dev/${sessionAddress}/invocations/${encodeURIComponent(id)}/trace`),
      explain: (event) => get(`dev/${sessionAddress}/events/${encodeURIComponent(event.id)}/why`),
      request: async (event) => drawRequest(await chat.request(event, app)),
    }, invocation, other);
  }

  // loadTurn resolves to the stored events of a turn; the page has no stored form of the message just sent.
  async loadTurn(invocation) {
    return new TurnTree((await this.chat.talk.load()).events).turn(invocation);
  }


  // repeat takes a turn back and sends a message instead.
  async repeat(invocation, message) {
    if (await this.rewind({ rewindBeforeInvocationId: invocation })) await this.chat.send(message);
  }

  // edit replaces the message of a turn by a form.
  edit(turn, tree) {
    const { invocation } = turn.dataset;
    const message = tree.message(invocation);
    const mine = turn.querySelector('.mine');
    if (!mine || turn.querySelector('.edit')) return;
    const files = message.parts.filter((p) => typeof p.text !== 'string');
    const field = el('textarea', { 'aria-label': 'Message', rows: 2 });
    field.value = message.parts.map((p) => p.text).filter(Boolean).join('\n');
    const close = () => {
      form.remove();
      mine.hidden = false;
      turn.querySelector('.act').focus();
    };
    const submit = (event) => {
      event?.preventDefault();
      if (!field.value.trim() && !files.length) return;
      this.attempt(() => this.repeat(invocation, { ...message, parts: [...(field.value ? [{ text: field.value }] : []), ...files] }));
    };
    const later = tree.head?.event.invocationId !== invocation;
    const form = el('form', { class: 'edit', onsubmit: submit }, field,
      later && el('p', { class: 'dim' }, 'The turns after this one are taken back too; they stay within reach.'),
      el('div', { class: 'bar' }, el('button', { type: 'submit' }, 'Run again'), el('button', { type: 'button', class: 'quiet', onclick: close }, 'Cancel')));
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        close();
      } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) submit(event);
    });
    mine.hidden = true;
    mine.after(form);
    field.focus();
  }

  // versionSwitch returns the buttons that show the other answers of a turn.
  versionSwitch(turn, tree, shown) {
    const { invocation } = turn.dataset;
    const all = tree.versions(invocation);
    if (all.length < 2) return null;
    const at = all.indexOf(shown);
    const step = (text, label, to) => el('button', { type: 'button', class: 'act', 'aria-label': label, title: label, disabled: !all[to], onclick: () => this.view(turn, tree, all[to]) }, text);
    const compare = () => this.trace(all[Math.max(0, at - 1)], all[Math.max(1, at)]);
    return el('span', { class: 'versions' }, step('‹', 'Earlier answer', at - 1), `${at + 1}/${all.length}`, step('›', 'Later answer', at + 1),
      el('button', { type: 'button', class: 'act', title: 'Both answers with their revisions, calls, times and cost', onclick: compare }, 'Compare'));
  }

  // view shows another answer instead of a turn and those that follow it.
  view(turn, tree, shown) {
    const { chat } = this;
    const { root } = chat.transcript;
    root.querySelector(':scope > .version')?.remove();
    const isOther = shown !== turn.dataset.invocation;
    for (let node = turn; node; node = node.nextElementSibling) node.hidden = isOther;
    if (!isOther) {
      turn.querySelector('.versions .act:not(:disabled)').focus();
      return;
    }
    const all = tree.versions(turn.dataset.invocation);
    const row = el('div', { class: 'actions', role: 'group', 'aria-label': 'Actions of this answer' },
      this.versionSwitch(turn, tree, shown),
      el('button', { type: 'button', class: 'act', title: 'Continue the session from this answer; the other one is kept', onclick: () => this.attempt(() => this.rewind({ eventId: tree.lastEvent(shown) })) }, 'Use this answer'),
      el('button', { type: 'button', class: 'act', onclick: () => this.explain(shown) }, 'Why'),
      el('button', { type: 'button', class: 'act', onclick: () => this.trace(shown) }, 'Trace'),
      menuButton('More actions', '⋯', () => [
        { text: 'Fork from here', act: () => this.attempt(() => this.fork(shown)) },
        { text: 'Events as JSON', act: () => openRaw(() => this.loadTurn(shown)) },
      ]));
    const node = drawVersion({ events: tree.turn(shown), tools: chat.transcript.tools, row,
      note: `Answer ${all.indexOf(shown) + 1} was taken back. The session continues from answer ${all.indexOf(turn.dataset.invocation) + 1}.` });
    turn.before(node);
    row.querySelector('.versions .act:not(:disabled)').focus();
  }

  /** drawTakenBack returns the line below a session whose last turns were taken back, or null. */
  drawTakenBack(tree) {
    const invocation = tree.takenBack;
    if (!invocation || !tree.message(invocation)) return null;
    return el('p', { class: 'notice' }, 'Later turns were taken back. ',
      el('button', { type: 'button', class: 'act', onclick: () => this.attempt(() => this.rewind({ eventId: tree.lastEvent(invocation) })) }, 'Restore them'));
  }
}
