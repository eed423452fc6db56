// Why an event of a turn is as it is: the agent and its lines of YAML, the instruction,
// the state that was read and its writers, and the tools.

import { el, fold, inline, short, block } from './dom.js';
import { escapeControls } from './text.js';
import { openSheet, loading } from './sheet.js';
import { describeEvent } from './turn_raw.js';
import { placeLink, editorChoice } from './editor.js';

const MAX_EVENTS = 500; // in the list

/**
 * openWhy explains the events of a turn. load resolves to them, explain(event) to an
 * explanation, and request(event) to the request of a model. wanted is the ID of the event
 * that is explained first; without it, the last one.
 */
export function openWhy({ load, explain, request, wanted }) {
  openSheet('Why', loading(async () => {
    const events = (await load()).filter((e) => e.author !== 'user' || e.content);
    const first = events.find((e) => e.id === wanted) ?? events.at(-1);
    if (!first) return el('p', { class: 'dim' }, 'This turn has no events.');
    const body = el('div', { class: 'why' });
    const listed = events.length > MAX_EVENTS ? [...new Set([...events.slice(0, MAX_EVENTS), first])] : events;
    const buttons = listed.map((event) => el('button', { type: 'button', class: 'act', onclick: () => choose(event) }, el('b', {}, event.author), ` ${describeEvent(event)}`));
    function choose(event) {
      for (const [i, button] of buttons.entries()) button.setAttribute('aria-pressed', listed[i] === event);
      body.replaceChildren(loading(async () => drawExplanation(await explain(event), () => request(event))));
    }
    choose(first);
    return el('div', {}, el('div', { class: 'steps', role: 'group', 'aria-label': 'Events of this turn' }, buttons,
      events.length > listed.length && el('p', { class: 'dim' }, `${events.length - listed.length} more events`)), body);
  }));
}

function drawExplanation(x, request) {
  const at = (place) => placeLink(x.folder, place);
  const node = el('div', {});
  const isOld = x.revision && x.serving && x.revision !== x.serving;
  const sections = [
    section('Produced by', drawOrigin(x, at)),
    isOld && el('p', { class: 'dim' }, `Places are those of revision ${short(x.revision)}. The app has revision ${short(x.serving)} now, so lines may have moved.`),
    x.rollout && section('Rollout', el('p', {}, escapeControls(x.rollout))),
    x.instructions.map((text) => section([text.field, ' ', at(text.at)], block(text.text, 'instruction'))),
    x.read.length > 0 && section('Read', drawKeys(x.read, at)),
    x.wrote.length > 0 && section('Wrote', drawKeys(x.wrote, at)),
    x.callbacks.length > 0 && section('Callbacks that apply', el('ul', {}, x.callbacks.map((c) => el('li', {}, el('code', {}, c.name), ` ${c.does ?? ''} `, at(c.at))))),
    x.agent && section('Definition', drawYAML(x.agent.yaml, at)),
    x.agent?.model && x.author !== 'user' && !x.description.startsWith('tool responses') && fold('Model request', () => loading(request)),
    x.unknown.length > 0 && section('Not known', el('ul', { class: 'dim' }, x.unknown.map((text) => el('li', {}, text)))),
    x.folder && x.agent && editorChoice(x.folder, node),
  ];
  node.append(el('p', { class: 'facts' }, `${x.description} · event `, el('code', {}, x.event)), ...sections.flat().filter(Boolean));
  return node;
}

/** drawParts shows the agent, model and tools of an explanation, and the parts of the instruction. */
export function drawParts(x) {
  const at = (place) => placeLink(x.folder, place);
  return el('div', { class: 'why' }, drawOrigin(x, at), x.instructions.map((text) => section([text.field, ' ', at(text.at)], block(text.text, 'instruction'))));
}

const section = (title, ...body) => el('section', {}, el('h3', {}, title), body);

function drawOrigin(x, at) {
  if (x.author === 'user') return el('p', {}, 'the user');
  const { agent, modelVersion } = x;
  const model = agent?.model;
  return el('ul', {},
    el('li', {}, `agent ${x.author}`, agent && [` (${agent.class}) `, at(agent.at)]),
    model && !x.description.startsWith('tool responses') && el('li', {}, `model ${model.name} `, at(model.at), model.does && [', configured at ', at(model.does)], modelVersion && `; reported version ${modelVersion}`),
    x.tools.map((tool) => el('li', {}, 'tool ', el('code', {}, tool.name), ' ', tool.at && at(tool.at), tool.edited && el('p', { class: 'edited' }, escapeControls(tool.edited)))));
}

function drawKeys(keys, at) {
  return el('table', {}, el('tbody', {}, keys.map((k) => el('tr', {},
    el('th', { scope: 'row' }, k.key),
    el('td', {}, k.value === null ? el('span', { class: 'dim' }, 'no value') : el('code', {}, inline(k.value, 200)), k.by && el('span', { class: 'was' }, k.by),
      el('span', { class: 'places' }, (k.at ?? []).map((place) => [at(place), ' '])))))));
}

// drawYAML shows the effective definition; each line ends with its place as a comment.
function drawYAML(yaml, at) {
  return el('pre', {}, yaml.replace(/\n$/, '').split('\n').flatMap((line) => {
    const [, text, place] = /^(.*?)\s+# (\S.*:\d+)$/.exec(line) ?? [];
    return place ? [text, '  ', at(place), '\n'] : [line, '\n'];
  }));
}
