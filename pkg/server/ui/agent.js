// The panel of the agent selected in the tree.

import { el, fold } from './dom.js';
import { kindOf } from './tree.js';
import { drawRequest } from './request.js';

/** drawAgent shows an agent's settings and a preview of its next model request. */
export function drawAgent(section, agent, { preview, close }) {
  section.hidden = !agent;
  if (!agent) {
    section.replaceChildren();
    return;
  }
  const facts = [kindOf(agent), agent.model, agent.output_key && `writes ${agent.output_key}`,
    agent.include_contents === 'none' && 'without history', agent.max_iterations && `at most ${agent.max_iterations} iterations`];
  section.replaceChildren(
    el('h2', {}, agent.name, el('button', { type: 'button', class: 'quiet', 'aria-label': 'Close', onclick: close }, '×')),
    el('p', { class: 'facts' }, facts.filter(Boolean).join(' · ')),
    agent.description ? el('p', {}, agent.description) : '',
    agent.instruction ? el('pre', { class: 'instruction' }, withKeys(agent.instruction)) : '',
    agent.tools?.length ? el('p', { class: 'chips' }, 'Tools ', agent.tools.map((t) => el('code', {}, t.name))) : '',
    agent.model ? fold('The request its model would get now', () => fetched(preview)) : '');
}

/** fetched shows a request after loading it. */
export function fetched(load) {
  const node = el('div', {}, el('p', { class: 'dim' }, 'Loading…'));
  load().then((request) => node.replaceChildren(drawRequest(request)), (error) => node.replaceChildren(el('p', { class: 'bad' }, error.message)));
  return node;
}

// withKeys highlights placeholders.
function withKeys(text) {
  return text.split(/(\{[^{}\n]{1,80}\})/).map((part, i) => (i % 2 ? el('mark', {}, part) : part));
}
