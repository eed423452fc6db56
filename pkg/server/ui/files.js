// Files in events: images, recordings, videos, and artifacts. Nothing that a file contains runs:
// HTML and SVG are text, and other documents are offered as downloads.

import { el, block, json, count, fold } from './dom.js';
import { toAudioFile, fromBase64 } from './pcm.js';
import { drawMarkdown } from './markdown.js';
import { escapeControls, cutText } from './text.js';
import { canShowPDF, drawPDF } from './pdf.js';
import { drawTable } from './table.js';

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** inlineData shows a file that is part of an event. */
export function inlineData({ mimeType = '', data = '', displayName = '' }) {
  const type = mimeType.toLowerCase().split(';')[0].trim();
  const name = escapeControls(displayName);
  if (PICTURES.includes(type)) return el('img', { src: `data:${type};base64,${toPlainBase64(data)}`, alt: name || 'image' });
  if (type.startsWith('audio/')) return audio({ mimeType, data }, name);
  if (type.startsWith('video/')) return video({ type, data }, name);
  return el('div', { class: 'file' }, drawContent(type, name, data), download(name, mimeType, data));
}

// drawContent shows text, and a PDF file on request; null for other files.
function drawContent(type, name, data) {
  if (isText(type)) return drawText(type, new TextDecoder().decode(fromBase64(data)));
  const isPDF = type === 'application/pdf' && canShowPDF(fromBase64(data));
  return isPDF ? fold(name || 'PDF', () => drawPDF(fromBase64(data), name || 'PDF'), { class: 'call' }) : null;
}

/** drawArtifact shows an artifact when it is loaded. */
export function drawArtifact(name, load) {
  const node = el('div', { class: 'dim' }, 'Loading…');
  load().then((part) => node.replaceChildren(part.text !== undefined ? drawText(typeOf(name), part.text) : part.inlineData ? inlineData({ displayName: name, ...part.inlineData }) : json(part)),
    (error) => node.replaceChildren(escapeControls(error.message)));
  return node;
}

/**
 * drawFile shows a reference to a file. Files that are artifacts of the session load on request:
 * load(name, version) fetches one.
 */
export function drawFile({ fileUri = '', mimeType = '', displayName = '' }, load) {
  const stored = artifactOf(fileUri);
  const name = escapeControls(displayName || stored?.name || fileUri);
  if (!stored) return el('p', { class: 'dim' }, `${name} (${mimeType})`);
  const show = () => drawArtifact(stored.name, () => load(stored.name, stored.version));
  if (!mimeType.startsWith('audio/')) return fold(`${name} (${mimeType})`, show, { class: 'call' });
  const node = el('div', { class: 'recording' },
    el('button', { type: 'button', class: 'quiet', title: name, onclick: () => node.replaceChildren(show()) }, 'Load the recording'));
  return node;
}

const isText = (type) => /^text\/|^application\/(json|xml|yaml|x-yaml|javascript)$|\+(xml|json)$/.test(type);

const typeOf = (name) => ({ md: 'text/markdown', csv: 'text/csv', tsv: 'text/tab-separated-values', json: 'application/json' })[name.split('.').pop().toLowerCase()] ?? 'text/plain';

function drawText(type, text) {
  if (type === 'text/markdown') return el('div', { class: 'text md' }, drawMarkdown(cutText(text)[0]));
  if (type === 'text/csv') return drawTable(text, ',');
  if (type === 'text/tab-separated-values') return drawTable(text, '\t');
  return block(text);
}

// download creates the file when it is clicked: a page with many files holds none of them twice.
function download(name, mimeType, data) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([fromBase64(data)], { type: 'application/octet-stream' }));
    el('a', { href: url, download: name || 'file' }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  };
  return el('p', { class: 'dim' }, `${name || 'file'} (${mimeType}, ${count(Math.floor(data.length * 0.75), 'byte')}) `, el('button', { type: 'button', class: 'quiet', onclick: save }, 'Download'));
}

const toPlainBase64 = (data) => data.replaceAll('-', '+').replaceAll('_', '/');

function audio(part, label) {
  return player('audio', URL.createObjectURL(toAudioFile(part)), part.mimeType, label || 'recording');
}

function video({ type, data }, label) {
  return player('video', URL.createObjectURL(new Blob([fromBase64(data)], { type })), type, label || 'video');
}

function player(tag, url, type, label) {
  const node = el(tag, { controls: true, preload: 'metadata', 'aria-label': label });
  node.src = url;
  node.addEventListener('error', () => node.replaceWith(el('p', { class: 'dim' }, `${label} (${type}): the browser cannot play it`)));
  return node;
}

// artifactOf reads artifact://apps/A/users/U/sessions/S/artifacts/NAME/versions/N, and the
// older artifact://A/U/S/NAME#N; null for other addresses.
function artifactOf(uri) {
  const rest = uri.startsWith('artifact://') ? uri.slice('artifact://'.length) : '';
  const long = /^apps\/[^/]+\/users\/[^/]+(?:\/sessions\/[^/]+)?\/artifacts\/(.+)\/versions\/(\d+)$/.exec(rest);
  const short = /^[^/]+\/[^/]+\/[^/]+\/(.+)#(\d+)$/.exec(rest);
  const [, name, version] = long ?? short ?? [];
  return name ? { name, version: Number(version) } : null;
}
