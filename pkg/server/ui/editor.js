// Links that open a line of an app's files in the user's editor.

import { el } from './dom.js';

const KEY = 'agenthost.editor';

// The editors, with the URL that opens a file. Path segments are escaped.
const EDITORS = {
  vscode: { name: 'VS Code', url: (file, line, col) => `vscode://file${file}:${line}:${col}` },
  cursor: { name: 'Cursor', url: (file, line, col) => `cursor://file${file}:${line}:${col}` },
  windsurf: { name: 'Windsurf', url: (file, line, col) => `windsurf://file${file}:${line}:${col}` },
  vscodium: { name: 'VSCodium', url: (file, line, col) => `vscodium://file${file}:${line}:${col}` },
  zed: { name: 'Zed', url: (file, line, col) => `zed://file${file}:${line}:${col}` },
  idea: { name: 'IntelliJ IDEA', url: (file, line, col) => `idea://open?file=${file}&line=${line}&column=${col}` },
};

const chosen = () => {
  const key = localStorage.getItem(KEY);
  return Object.hasOwn(EDITORS, key) ? key : 'vscode';
};

/** editorURL returns the URL that opens a place, FILE:LINE:COLUMN in a folder, or null. */
export function editorURL(folder, place, editor = chosen()) {
  const [, file, line, col = '1'] = /^(.+?):(\d{1,9})(?::(\d{1,9}))?$/.exec(place) ?? [];
  if (!folder || !file || /^[/\\]|(^|[/\\])\.\.([/\\]|$)/.test(file)) return null;
  const whole = `${folder}/${file}`.replaceAll('\\', '/');
  const escaped = (whole.startsWith('/') ? whole : `/${whole}`).split('/').map(encodeURIComponent).join('/').replace(/^\/([A-Za-z])%3A\//, '/$1:/');
  return EDITORS[editor].url(escaped, line, col);
}

/** placeLink shows a place; if the server has given the folder, as a link to the editor. */
export function placeLink(folder, place) {
  const code = el('code', { class: 'at' }, place);
  const link = editorURL(folder, place) && el('a', { href: editorURL(folder, place), title: `Open in ${EDITORS[chosen()].name}`, 'data-place': place }, code);
  return link ?? code;
}

/** editorChoice lets the user choose the editor of the links in a node. */
export function editorChoice(folder, node) {
  const choice = el('select', { 'aria-label': 'Editor', onchange: () => {
    localStorage.setItem(KEY, choice.value);
    for (const link of node.querySelectorAll('a[data-place]')) Object.assign(link, { href: editorURL(folder, link.dataset.place), title: `Open in ${EDITORS[choice.value].name}` });
  } }, Object.entries(EDITORS).map(([key, { name }]) => el('option', { value: key }, name)));
  choice.value = chosen();
  return el('label', {}, 'Places open in', choice);
}
