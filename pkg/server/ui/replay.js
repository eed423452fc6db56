// The replay in the view Revisions: stored sessions on the files on disk, and the first difference of each.

import { el, count, short, dataTable } from './dom.js';
import { fetchOK, path } from './wire.js';
import { escapeControls } from './text.js';

const SHOWN = 100;

const CLASSES = {
  error: 'fails', approval: 'approval', tool: 'other tool', arguments: 'other arguments', result: 'other result', agent: 'other agent', state: 'other state', text: 'other text',
};

/** replaySessions replays an app's sessions on its files, and resolves to the drawn report. */
export async function replaySessions(app) {
  return drawReplay(await (await fetchOK('POST', path('dev', 'apps', app, 'replay'), {})).json());
}

/** drawReplay draws a report: counts, the differences, and the turns that cannot be compared. */
export function drawReplay(r) {
  const draw = (...nodes) => el('section', { 'aria-label': 'Replay', class: 'replay' }, el('h2', {}, 'Replay'), nodes);
  if (r.sessions === undefined) return draw(el('p', { class: 'bad' }, 'The files have errors: no session was replayed.'));
  if (!r.sessions) return draw(el('p', {}, 'No stored session can be replayed.'));
  const differing = Object.entries(CLASSES).filter(([key]) => r.counts[key]);
  return draw(
    el('p', { 'data-same': r.same }, `${count(r.sessions, 'session')} with ${count(r.turns, 'turn')} on revision `, el('code', { title: r.revision }, short(r.revision)), `: ${r.same} same`,
      differing.map(([key, title]) => [', ', el('b', { class: key === 'text' ? '' : 'bad' }, `${r.counts[key]} ${title}`)]), '. ',
      !r.differences.length && `At most ${+(100 * r.most).toPrecision(3)} % of the sessions differ, with 95 % confidence.`),
    r.unpaired > 0 && el('p', { class: 'dim' }, `${count(r.unpaired, 'session')} compared with the record alone: their revision is not stored.`),
    r.differences.length > 0 && drawDifferences(r), r.incomparable.length > 0 && drawIncomparable(r));
}

function drawDifferences(r) {
  const rows = r.differences.slice(0, SHOWN).map((d) => el('tr', {},
    el('th', { scope: 'row', class: d.class === 'text' ? '' : 'bad' }, CLASSES[d.class] ?? escapeControls(d.class)),
    el('td', { 'data-head': 'User' }, escapeControls(d.user)), el('td', { 'data-head': 'Session' }, escapeControls(d.session)),
    el('td', { 'data-head': 'Turn' }, d.turn), el('td', { 'data-head': 'First difference', title: d.lacks && escapeControls(d.lacks) }, escapeControls(d.place)),
    el('td', { 'data-head': 'Changed lines' }, d.lines.map((line, i) => [i > 0 && ', ', el('code', { class: 'at' }, escapeControls(line))]))));
  const more = r.differences.length - rows.length + (r.moreDifferences ?? 0);
  return el('div', {}, dataTable('Differences', ['Differs', 'User', 'Session', 'Turn', 'First difference', 'Changed lines'], rows),
    more > 0 && el('p', { class: 'dim' }, `${more} more: agenthost replay --output json has all.`));
}

function drawIncomparable(r) {
  const reasons = new Map();
  for (const { reason } of r.incomparable) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  return el('section', { 'aria-label': 'Not comparable' }, el('h3', {}, 'Not comparable'),
    el('p', { class: 'dim' }, 'The revision that answered does not repeat these turns.'),
    el('ul', {}, [...reasons].slice(0, SHOWN).map(([reason, n]) => el('li', {}, `${count(n, 'turn')}: ${escapeControls(reason)}`))));
}
