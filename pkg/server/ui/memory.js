// Browser storage of the page: the draft of each app, and the first words of sessions
// as their names. With authentication it is cleared when the tab closes.

import { when } from './dom.js';
import { hasToken } from './wire.js';

const DRAFT = 'agenthost.draft.';
const NAMES = 'agenthost.names';
const MAX_NAMES = 200;
const MAX_NAME = 60;

/** loadDraft returns the unsent message of an app. */
export const loadDraft = (app) => sessionStorage.getItem(DRAFT + app) ?? '';

/** storeDraft stores it until the tab closes. */
export function storeDraft(app, text) {
  if (text) store(sessionStorage, DRAFT + app, text);
  else sessionStorage.removeItem(DRAFT + app);
}

/** rememberName names a session after the first words of its first message. */
export function rememberName(id, text) {
  const name = text.trim().split(/\s+/, 12).join(' ').slice(0, MAX_NAME);
  const names = [[id, name], ...loadNames().filter(([known]) => known !== id)];
  store(area(), NAMES, JSON.stringify(names.slice(0, MAX_NAMES)));
}

/** nameOf returns the name of a session, or its ID, with the time. */
export function nameOf(session) {
  const given = session.state?.__session_metadata__?.displayName;
  const name = typeof given === 'string' && given ? given : loadNames().find(([id]) => id === session.id)?.[1];
  return [name ?? session.id.slice(0, 12), session.lastUpdateTime && when(session.lastUpdateTime * 1000)].filter(Boolean).join(' · ');
}

const area = () => (hasToken() ? sessionStorage : localStorage);

function loadNames() {
  try {
    const names = JSON.parse(area().getItem(NAMES) ?? '[]');
    return Array.isArray(names) ? names.filter((entry) => Array.isArray(entry) && entry.length === 2) : [];
  } catch {
    return [];
  }
}

function store(area, key, text) {
  try {
    area.setItem(key, text);
  } catch { /* the quota of the browser is used up: the draft or name is lost on reload */ }
}
