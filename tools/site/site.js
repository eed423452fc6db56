// The search, the versions and the menu for small screens. Without scripts the pages read as well.

const { base, version } = document.body.dataset;
const MAX_RESULTS = 20;
const CONTEXT = 140;

const field = document.querySelector('input[type=search]');
const list = document.querySelector('#results');
let index;

const load = () => (index ??= fetch(`${base}search.json`).then((response) => response.json()));

// score returns how well an entry matches all words; 0 without one of them.
function score(entry, words) {
  let sum = 0;
  for (const word of words) {
    const at = { title: entry.title.toLowerCase().indexOf(word), page: entry.page.toLowerCase().indexOf(word), text: entry.text.toLowerCase().indexOf(word) };
    if (at.title < 0 && at.page < 0 && at.text < 0) return 0;
    sum += (at.title === 0 ? 30 : at.title > 0 ? 20 : 0) + (at.page >= 0 ? 8 : 0) + (at.text >= 0 ? 3 : 0);
  }
  return /^(decisions\/|changelog)/.test(entry.address) ? sum / 4 : sum; // for authors, and for a look back
}

// fill writes text into a node, with the words marked.
function fill(node, text, words) {
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|')})`, 'gi');
  for (const [i, part] of text.split(pattern).entries()) {
    if (i % 2 === 0) node.append(part);
    else node.append(Object.assign(document.createElement('mark'), { textContent: part }));
  }
}

function draw(entry, words, number) {
  const row = document.createElement('li');
  row.setAttribute('role', 'option');
  row.id = `result-${number}`;
  const link = Object.assign(document.createElement('a'), { href: base + entry.address, tabIndex: -1 });
  const title = document.createElement('span');
  fill(title, entry.page === entry.title ? entry.title : `${entry.page}: ${entry.title}`, words);
  const text = document.createElement('small');
  const at = Math.max(0, entry.text.toLowerCase().indexOf(words[0]) - CONTEXT / 3);
  fill(text, (at > 0 ? '… ' : '') + entry.text.slice(at, at + CONTEXT), words);
  link.append(title, text);
  row.append(link);
  return row;
}

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const entries = words.length ? await load() : [];
  if (words.join(' ') !== field.value.toLowerCase().split(/\s+/).filter(Boolean).join(' ')) return; // changed meanwhile
  const found = entries.map((entry) => ({ entry, rank: score(entry, words) })).filter(({ rank }) => rank).sort((a, b) => b.rank - a.rank).slice(0, MAX_RESULTS);
  list.replaceChildren(...found.map(({ entry }, i) => draw(entry, words, i)));
  if (words.length && !found.length) list.append(Object.assign(document.createElement('p'), { textContent: 'Nothing found.' }));
  setOpen(words.length > 0);
  if (found.length) select(0);
}

function setOpen(isOpen) {
  list.hidden = !isOpen;
  field.setAttribute('aria-expanded', String(isOpen));
  if (!isOpen) field.removeAttribute('aria-activedescendant');
}

const selected = () => list.querySelector('[aria-selected=true]');

function select(number) {
  const rows = [...list.querySelectorAll('[role=option]')];
  const row = rows[(number + rows.length) % rows.length];
  selected()?.removeAttribute('aria-selected');
  row.setAttribute('aria-selected', 'true');
  row.scrollIntoView({ block: 'nearest' });
  field.setAttribute('aria-activedescendant', row.id);
}

field.addEventListener('focus', load);
field.addEventListener('input', search);
field.addEventListener('keydown', (event) => {
  const row = selected();
  if (event.key === 'Escape') {
    setOpen(false);
  } else if (row && ['ArrowDown', 'ArrowUp'].includes(event.key)) {
    event.preventDefault();
    select(Number(row.id.split('-')[1]) + (event.key === 'ArrowDown' ? 1 : -1));
  } else if (event.key === 'Enter') {
    event.preventDefault();
    if (row) location.href = row.querySelector('a').href;
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || /^(input|select|textarea)$/i.test(document.activeElement.tagName)) return;
  event.preventDefault();
  field.focus();
});
document.addEventListener('click', (event) => { if (!event.target.closest('header')) setOpen(false); });
list.addEventListener('click', () => setOpen(false));

const menu = document.querySelector('nav');
document.querySelector('button.menu').addEventListener('click', (event) => {
  const isOpen = menu.classList.toggle('open');
  event.target.setAttribute('aria-expanded', String(isOpen));
});

const versions = document.querySelector('select');
fetch(`${base}../versions.json`).then((response) => response.json()).then((names) => {
  versions.replaceChildren(...names.map((name) => new Option(name, name, false, name === version)));
  versions.addEventListener('change', async () => {
    const page = location.pathname.split('/').slice(-(base.split('/').length)).join('/');
    const other = `${base}../${versions.value}/`;
    const { ok } = await fetch(other + page, { method: 'HEAD' });
    location.href = other + (ok ? page : 'index.html');
  });
}, () => { versions.hidden = true; });
