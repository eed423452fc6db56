// Text that others wrote, made safe to read: characters that are invisible or that reorder their
// line become visible, and long texts are cut.

// C0 and C1 controls without tab and line feed, bidirectional controls, zero-width characters,
// line separators, the byte order mark, and tags.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

/** escapeControls replaces such characters by their code points: names, keys and errors are what they look like. */
export const escapeControls = (text) => String(text).replace(CONTROLS, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`);

/** MAX_TEXT is the number of characters of one text that the page draws. */
export const MAX_TEXT = 200_000;

/** cutText returns at most max characters, and the number of characters that it has cut. */
export function cutText(text, max = MAX_TEXT) {
  if (text.length <= max) return [text, 0];
  const end = /[\ud800-\udbff]/.test(text[max - 1]) ? max - 1 : max;
  return [text.slice(0, end), text.length - end];
}
