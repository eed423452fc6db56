// The writer of each state key, read from the session's events.

import { keepVisible } from './turn_tree.js';

/** findSources maps keys to the last event that wrote them. */
export function findSources(events) {
  const sources = new Map();
  for (const event of keepVisible(events)) addSources(sources, event);
  return sources;
}

/** addSources adds the keys that an event wrote. */
export function addSources(sources, event) {
  if (event.partial) return;
  for (const key of Object.keys(event.actions?.stateDelta ?? {})) sources.set(key, sourceOf(event));
}

function sourceOf(event) {
  const tools = (event.content?.parts ?? []).map((p) => p.functionResponse?.name).filter(Boolean);
  // A change between two runs is an invocation of its own, whose ID begins with p-.
  const isEdit = event.author === 'user' && event.invocationId?.startsWith('p-');
  return { writer: isEdit ? 'edited by hand' : [event.author, ...new Set(tools)].join(' · '), time: event.timestamp * 1000, eventId: event.id };
}
