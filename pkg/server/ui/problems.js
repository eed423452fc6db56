// The errors and warnings of an app's files, with line, caret and hint.

import { el, count } from './dom.js';

const MAX_SHOWN = 100;
const MAX_OPEN_WARNINGS = 3;

/**
 * drawProblems lists the problems of the server's folders, then the errors and the
 * warnings of the app; long lists of warnings are folded.
 */
export function drawProblems(section, app, folders = []) {
  const all = app?.diagnostics ?? [];
  const opened = new Map([...section.querySelectorAll('details')].map((d) => [d.dataset.severity, d.open]));
  const group = (severity, isOpen) => {
    const some = all.filter((d) => (d.severity === 'warning') === (severity === 'warning'));
    return some.length > 0 && el('details', { 'data-severity': severity, open: opened.get(severity) ?? isOpen(some.length) },
      el('summary', {}, el('h2', {}, count(some.length, severity))),
      el('ol', {}, some.slice(0, MAX_SHOWN).map(problem)),
      some.length > MAX_SHOWN && el('p', { class: 'dim' }, `and ${some.length - MAX_SHOWN} more`));
  };
  section.hidden = !all.length && !folders.length;
  section.replaceChildren(...[folders.length > 0 && el('div', { class: 'folders', role: 'alert' }, folders.flatMap(folderProblems)), group('error', () => true), group('warning', (n) => n <= MAX_OPEN_WARNINGS)].filter(Boolean));
}

function folderProblems(folder) {
  const name = () => ['Folder ', el('b', {}, folder.name)];
  return [
    folder.unreadable && el('p', {}, name(), ` cannot be read: ${folder.unreadable}. Its apps keep their last good revision. They are reloaded when it is back.`),
    ...(folder.problems ?? []).map((text) => el('p', {}, name(), `: ${text}`)),
  ].filter(Boolean);
}

function problem(d) {
  const place = d.line ? `${d.file}:${d.line}:${d.column}` : d.file;
  return el('li', { class: d.severity },
    el('p', {}, d.severity === 'warning' && el('b', {}, 'warning '), d.message, ' ', el('code', { class: 'rule' }, d.rule)),
    el('p', { class: 'place' }, el('button', { type: 'button', title: 'Copy the location', onclick: () => navigator.clipboard?.writeText(place) }, place)),
    d.line && d.source?.trim() ? snippet(d) : null,
    d.hint && el('p', { class: 'hint' }, d.hint));
}

// The caret is below its character, however the line wraps.
function snippet(d) {
  const characters = [...d.source];
  const at = d.column - 1;
  return el('pre', { class: 'snippet' }, el('span', { class: 'no', 'aria-hidden': 'true' }, d.line),
    characters.slice(0, at).join(''), el('span', { class: 'at' }, characters[at] ?? ' '), characters.slice(at + 1).join(''));
}
