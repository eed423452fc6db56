// The events of a turn as the server stores them.

import { el, fold, block, clock, count, copyButton } from './dom.js';
import { openSheet, loading } from './sheet.js';

const PAGE = 50; // events drawn at once
const MAX_TEXT = 200_000;

/** openRaw shows the events of a turn as JSON. load resolves to them. */
export function openRaw(load) {
  openSheet('Events of this turn', loading(async () => drawEvents(await load())));
}

function drawEvents(events) {
  const list = el('div', { class: 'raw' });
  let shown = 0;
  const more = el('button', { type: 'button', class: 'quiet', onclick: draw });
  function draw() {
    list.append(...events.slice(shown, shown += PAGE).map((event, i) => drawEvent(event, events.length === 1 && i === 0)));
    more.hidden = shown >= events.length;
    more.textContent = `Show ${Math.min(PAGE, events.length - shown)} more`;
  }
  draw();
  return el('div', {}, el('p', { class: 'dim' }, count(events.length, 'event')), list, more);
}

function drawEvent(event, isOpen) {
  const text = () => JSON.stringify(event, null, 2);
  return fold([el('b', {}, event.author), ` ${describeEvent(event)} `, el('time', {}, event.timestamp ? clock(event.timestamp * 1000) : '')], () => {
    const all = text();
    return [
      el('p', { class: 'bar' }, el('code', {}, event.id), copyButton(text, { title: 'Copy this event' })),
      block(escapeInvisible(all.slice(0, MAX_TEXT)), 'json'),
      all.length > MAX_TEXT && el('p', { class: 'dim' }, `The first ${MAX_TEXT} of ${all.length} characters; Copy has all.`),
    ];
  }, { open: isOpen });
}

// escapeInvisible writes characters that hide or reorder others as JSON escapes.
const escapeInvisible = (text) => text.replace(/[\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** describeEvent describes the content of an event in a few words. */
export function describeEvent(event) {
  const parts = event.content?.parts ?? [];
  const names = (kind) => parts.map((p) => p[kind]?.name).filter(Boolean).join(', ').slice(0, 120);
  if (names('functionCall')) return `calls ${names('functionCall')}`;
  if (names('functionResponse')) return `result of ${names('functionResponse')}`;
  if (event.errorCode || event.errorMessage) return `error ${event.errorCode ?? ''}`;
  const text = parts.map((p) => p.text ?? '').join(' ').trim();
  if (text) return text.length > 80 ? `${text.slice(0, 79)}…` : text;
  return Object.keys(event.actions?.stateDelta ?? {}).length ? 'state' : 'no content';
}
