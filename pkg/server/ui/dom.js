// What the page is made with. Text is only ever set as text, never as HTML:
// what models, tools and people say cannot become a part of the page.

const SVG = 'http://www.w3.org/2000/svg';

/** el makes an element; attributes that are null or false are left out. */
export function el(tag, attrs = {}, ...children) {
  return filled(document.createElement(tag), attrs, children);
}

/** svg makes an element of a drawing. */
export function svg(tag, attrs = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attrs, children);
}

function filled(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs)) {
    if (value == null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c != null && c !== false));
  return node;
}

/** byId is the element of the page with an id. */
export const byId = (id) => document.getElementById(id);

/** fold is a part that opens; its body is made when it first does. */
export function fold(summary, body, attrs = {}) {
  const node = el('details', attrs, el('summary', {}, summary));
  const open = () => {
    if (!node.open || node.childElementCount > 1) return;
    node.append(el('div', { class: 'body' }, body()));
  };
  node.addEventListener('toggle', open);
  if (node.open) open();
  return node;
}

/** block shows a long text as it is written. */
export const block = (text, cls = '') => el('pre', { class: cls }, text);

/** json shows a value for reading. */
export const json = (value) => block(JSON.stringify(value, null, 2), 'json');

/** inline is a value in one short line, so that a list of them can be read. */
export function inline(value, width = 80) {
  const text = JSON.stringify(value) ?? 'undefined';
  return text.length > width ? text.slice(0, width - 1) + '…' : text;
}

/** call is a function call as people write it. */
export function callText(name, args) {
  const list = Object.entries(args ?? {}).map(([k, v]) => `${k}: ${inline(v, 40)}`).join(', ');
  return `${name}(${list.length > 90 ? list.slice(0, 89) + '…' : list})`;
}

/** short is a revision as far as people read it. */
export const short = (revision) => (revision ?? '').slice(0, 10);

/** clock is the time of day. */
export const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false });

/** when is the time of day, and the day where it is another one. */
export function when(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return at.toLocaleString([], today ? { hour: '2-digit', minute: '2-digit', hour12: false } : { dateStyle: 'short' });
}

/** count is a number with its word. */
export const count = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;
