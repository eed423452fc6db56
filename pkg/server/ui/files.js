// Files in events: images, recordings, and artifacts.

import { el, block, json, count } from './dom.js';
import { toAudioFile } from './pcm.js';

const PICTURES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

/** inlineData shows a file that is part of an event. */
export function inlineData({ mimeType = '', data = '', displayName = '' }) {
  if (PICTURES.includes(mimeType)) return el('img', { src: `data:${mimeType};base64,${data.replaceAll('-', '+').replaceAll('_', '/')}`, alt: displayName || 'image' });
  if (mimeType.startsWith('audio/')) return audio({ mimeType, data }, displayName);
  return el('p', { class: 'dim' }, `${displayName || 'file'} (${mimeType}, ${count(Math.floor(data.length * 0.75), 'byte')})`);
}

/** drawArtifact shows an artifact when it is loaded. */
export function drawArtifact(load) {
  const node = el('div', { class: 'dim' }, 'Loading…');
  load().then((part) => node.replaceChildren(part.text !== undefined ? block(part.text) : part.inlineData ? inlineData(part.inlineData) : json(part)),
    (error) => node.replaceChildren(error.message));
  return node;
}

/**
 * drawFile shows a reference to a file. Recordings that are artifacts of the session load on
 * request: load(name, version) fetches one.
 */
export function drawFile({ fileUri = '', mimeType = '', displayName = '' }, load) {
  const stored = artifactOf(fileUri);
  const name = displayName || stored?.name || fileUri;
  if (!stored || !mimeType.startsWith('audio/')) return el('p', { class: 'dim' }, `${name} (${mimeType})`);
  const node = el('div', { class: 'recording' },
    el('button', { type: 'button', class: 'quiet', title: name, onclick: () => node.replaceChildren(drawArtifact(() => load(stored.name, stored.version))) }, 'Load the recording'));
  return node;
}

function audio(part, label) {
  const player = el('audio', { controls: true, preload: 'metadata', 'aria-label': label || 'Recording' });
  player.src = URL.createObjectURL(toAudioFile(part));
  player.addEventListener('error', () => player.replaceWith(el('p', { class: 'dim' }, `${label || 'recording'} (${part.mimeType}): the browser cannot play it`)));
  return player;
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
