// The view Clients: how programs, editors and other agents reach the app, with a snippet for each.

import { el, block, copyButton } from './dom.js';
import { get, path } from './wire.js';
import { escapeControls } from './text.js';

/** loadClients fetches the protocols of an app. */
export async function loadClients(app) {
  return { app, ...await get(path('apps', app, 'protocols')) };
}

/** drawClients draws the view. */
export function drawClients({ protocols }) {
  return el('div', { class: 'clients' }, protocols.map(drawProtocol));
}

function drawProtocol(p) {
  const name = escapeControls(p.name);
  return el('section', { 'aria-label': name, 'data-offered': p.offered ? 'yes' : 'no' },
    el('h2', {}, name, !p.offered && el('span', { class: 'range' }, 'not offered')),
    p.offered ? [drawAddress(name, p.address), p.snippets.map((s) => drawSnippet(name, s))]
      : el('p', { class: 'dim' }, 'Add ', el('code', {}, `${p.section}: {}`), ' to ', el('code', {}, 'app.yaml'), ' to offer it.'));
}

function drawAddress(name, address) {
  const text = escapeControls(address);
  const isLink = /^https?:/.test(text) && name === 'Chat page';
  return el('p', { class: 'address' }, isLink ? el('a', { href: address, target: '_blank', rel: 'noreferrer' }, text) : el('code', {}, text), copyButton(() => address, { 'aria-label': `Copy the address for ${name}` }));
}

function drawSnippet(name, { client, text }) {
  const title = escapeControls(client);
  return el('figure', {},
    el('figcaption', {}, title, copyButton(() => text, { 'aria-label': `Copy the snippet for ${title}` })),
    el('div', { class: 'scroll', role: 'group', tabindex: '0', 'aria-label': `${name}: ${title}` }, block(escapeControls(text))));
}
