// Tables in text with separators (CSV, TSV).

import { el, block } from './dom.js';
import { escapeControls, cutText } from './text.js';

const MAX_ROWS = 500;
const MAX_COLUMNS = 50;

/** drawTable shows the first rows of a table. The first row has its headings. */
export function drawTable(text, separator) {
  const rows = parseRows(cutText(text)[0], separator);
  if (!rows.length) return block(text);
  const [head, ...body] = rows.map((cells) => cells.slice(0, MAX_COLUMNS).map(escapeControls));
  const isWhole = rows.length <= MAX_ROWS && rows.every((cells) => cells.length <= MAX_COLUMNS) && cutText(text)[1] === 0;
  return el('div', { class: 'md' },
    el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table' }, el('table', {},
      el('thead', {}, el('tr', {}, head.map((cell) => el('th', { scope: 'col' }, cell)))),
      el('tbody', {}, body.slice(0, MAX_ROWS).map((cells) => el('tr', {}, cells.map((cell) => el('td', {}, cell))))))),
    isWhole ? '' : el('p', { class: 'dim' }, `The first ${MAX_ROWS} rows and ${MAX_COLUMNS} columns. Download the file for all.`));
}

// parseRows reads cells, which may be quoted: "" is a quote in one.
function parseRows(text, separator) {
  const rows = [];
  let [row, cell, isQuoted] = [[], '', false];
  const endRow = () => {
    row.push(cell);
    if (row.length > 1 || cell) rows.push(row);
    [row, cell] = [[], ''];
  };
  for (let at = 0; at < text.length && rows.length <= MAX_ROWS; at++) {
    const c = text[at];
    if (isQuoted && c === '"' && text[at + 1] === '"') cell += text[++at];
    else if (c === '"' && (isQuoted || !cell)) isQuoted = !isQuoted;
    else if (isQuoted || (c !== separator && c !== '\n' && c !== '\r')) cell += c;
    else if (c === separator) {
      row.push(cell);
      cell = '';
    } else if (c === '\n') endRow();
  }
  endRow();
  return rows;
}
