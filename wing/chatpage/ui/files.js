// Files in messages. They are loaded with the user's credentials, so no address of a file works
// without them.

import { el } from '../../ui/dom.js';
import { canShowPDF, drawPDF } from '../../ui/pdf.js';
import { isFramed } from './frame.js';

// The types that a browser draws without running anything.
const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
const SOUNDS = /^audio\/[a-z0-9.+-]+$/;
const FILMS = /^video\/(mp4|webm)$/;

/** sizeText formats a number of bytes. */
export function sizeText(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** drawFile shows a picture, a player, or a line with a download. load(path) fetches the file. */
export function drawFile(file, load) {
  const facts = file.size ? ` ${sizeText(file.size)}` : '';
  const name = el('span', { class: 'name', dir: 'auto' }, file.name);
  if (!file.path) return el('div', { class: 'file' }, name);
  const note = el('span', { class: 'note', role: 'status' });
  const save = el('button', { type: 'button', class: 'file', title: `Download ${file.name}`, onclick: () => download(file, load, note) }, el('span', { class: 'glyph', 'aria-hidden': 'true' }, '↓'), name, el('span', { class: 'dim' }, facts), note);
  const node = el('div', { class: 'attachment' }, save);
  if (PICTURES.includes(file.type)) preview(node, file, load);
  else if (SOUNDS.test(file.type) || FILMS.test(file.type)) node.prepend(el('button', { type: 'button', class: 'quiet', onclick: (event) => play(event.currentTarget, file, load) }, `Play ${file.name}`));
  else if (file.type === 'application/pdf' && navigator.pdfViewerEnabled && !isFramed) node.prepend(el('button', { type: 'button', class: 'quiet', onclick: (event) => read(event.currentTarget, file, load, note) }, `Show ${file.name}`));
  return node;
}

// read shows a PDF file; the embedded chat is in a sandbox, where browsers have no viewer.
async function read(button, file, load, note) {
  button.disabled = true;
  const data = await load(file.path).catch(() => null);
  button.disabled = false;
  const bytes = data && new Uint8Array(data);
  if (bytes && canShowPDF(bytes)) button.replaceWith(drawPDF(bytes, file.name));
  else note.textContent = bytes ? ' This is not a PDF file.' : ' The file cannot be loaded.';
}

async function download(file, load, note) {
  note.textContent = '';
  try {
    const data = await load(file.path);
    const url = URL.createObjectURL(new Blob([data], { type: 'application/octet-stream' }));
    el('a', { href: url, download: file.name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  } catch (error) {
    note.textContent = ` ${error.message}`;
  }
}

// preview loads a picture when it comes near the window.
function preview(node, file, load) {
  const watch = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    const data = await load(file.path).catch(() => null);
    if (!data) return;
    const image = el('img', { alt: file.name });
    image.addEventListener('error', () => image.remove());
    image.src = URL.createObjectURL(new Blob([data], { type: file.type }));
    node.prepend(image);
  }, { rootMargin: '400px' });
  watch.observe(node);
}

async function play(button, file, load) {
  button.disabled = true;
  const data = await load(file.path).catch(() => null);
  button.disabled = false;
  if (!data) return;
  const player = el(FILMS.test(file.type) ? 'video' : 'audio', { controls: true, 'aria-label': file.name });
  player.src = URL.createObjectURL(new Blob([data], { type: file.type }));
  button.replaceWith(player);
  player.play().catch(() => {});
}

/** readFile reads a file of the user as base64. */
export async function readFile(file) {
  const url = await new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => fail(reader.error);
    reader.readAsDataURL(file);
  });
  return { name: file.name, type: typeOf(file), data: url.slice(url.indexOf(',') + 1) };
}

const TYPES = { txt: 'text/plain', md: 'text/markdown', csv: 'text/csv', json: 'application/json' };

/** typeOf returns the media type of a file, also of those that browsers do not know. */
export const typeOf = (file) => file.type || TYPES[file.name.split('.').pop().toLowerCase()] || 'application/octet-stream';

/** accepts reports whether a media type is in a list such as image/*. */
export const accepts = (list, type) => list.some((a) => a === type || (a.endsWith('/*') && type.startsWith(a.slice(0, -1))));
