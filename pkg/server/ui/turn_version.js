// An answer that was taken back: it is shown, and cannot be changed.

import { el } from './dom.js';
import { Transcript } from './events.js';

/** drawVersion draws the events of a turn that was taken back, with a note and a row of actions. */
export function drawVersion({ events, tools, row, note }) {
  const node = el('div', { class: 'version' });
  const transcript = new Transcript(node, { request: tools.request, artifact: tools.artifact });
  transcript.show(events);
  for (const form of node.querySelectorAll('form.question')) form.replaceWith(el('p', { class: 'answered' }, 'This request was taken back.'));
  node.append(el('p', { class: 'dim' }, note), row);
  return node;
}
