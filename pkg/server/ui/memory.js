// Browser storage of the page: the draft of each app, and titles for sessions that were stored
// without one. With authentication it is cleared when the tab closes.

import { hasToken } from './wire.js';

const DRAFT = 'agenthost.draft.';
const NAMES = 'agenthost.names';
const KEYS = 'agenthost.keys';
const MAX_NAMES = 200;

/** loadDraft returns the unsent message of an app. */
export const loadDraft = (app) => sessionStorage.getItem(DRAFT + app) ?? '';

/** storeDraft stores it until the tab closes. */
export function storeDraft(app, text) {
  if (text) store(sessionStorage, DRAFT + app, text);
  else sessionStorage.removeItem(DRAFT + app);
}

/** rememberTitle keeps a title in this browser. */
export function rememberTitle(id, title) {
  const names = [[id, title], ...loadNames().filter(([known]) => known !== id)];
  store(area(), NAMES, JSON.stringify(names.slice(0, MAX_NAMES)));
}

/** rememberedTitle returns it, or undefined. */
export const rememberedTitle = (id) => loadNames().find(([known]) => known === id)?.[1];

/** usesKeys reports whether single keys are shortcuts. */
export const usesKeys = () => localStorage.getItem(KEYS) !== 'off';

/** setUsesKeys stores the choice for this browser. */
export const setUsesKeys = (isOn) => store(localStorage, KEYS, isOn ? 'on' : 'off');

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
  } catch { /* the quota of the browser is used up: the draft or title is lost on reload */ }
}
