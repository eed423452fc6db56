// Titles of sessions. They are in the state under ADK's key, so that ADK's web client shows the
// same ones; sessions without a title have the first words of their first message.

import { rememberedTitle } from './memory.js';
import { escapeControls } from './text.js';

/** METADATA is the state key with a session's title. The app does not use it. */
export const METADATA = '__session_metadata__';

const MAX_TITLE = 120;

/** titleFrom returns the first words of a message. */
export const titleFrom = (text) => cleanTitle(text.trim().split(/\s+/, 12).join(' ').slice(0, 60));

/** cleanTitle returns a title as it is stored: one line, at most 120 characters. */
export const cleanTitle = (text) => [...text.replace(/\s+/g, ' ').trim()].slice(0, MAX_TITLE).join('');

/** withTitle adds a title to a state. */
export const withTitle = (state, title) => (title ? { ...state, [METADATA]: { ...state?.[METADATA], displayName: title } } : state);

/** storedTitle returns the title in a session's state, or ''. */
export function storedTitle(session) {
  const title = session.state?.[METADATA]?.displayName;
  return typeof title === 'string' ? cleanTitle(title) : '';
}

/** titleOf returns what to call a session: its title, or else a part of its ID. */
export const titleOf = (session) => escapeControls(storedTitle(session) || rememberedTitle(session.id) || session.id.slice(0, 12));
