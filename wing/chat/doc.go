// Package chat is a conversation with a person at a terminal: an editor for messages, the answers
// above it, and a status line below. It has no apps and no models: the caller reads messages,
// prints answers, and hands in the commands that a person can type.
//
// # The screen
//
// Finished lines belong to the terminal: they are printed once and scroll away as in any program, so
// that searching, selecting and copying work as usual. Only the region below them is redrawn: the
// unfinished end of an answer, the editor, and the status line or a menu. A change rewrites the rows
// that differ, in one write, so that nothing flickers. The region never exceeds the terminal's
// height, because rows that have scrolled away cannot be redrawn.
//
// # Control characters
//
// Text from models, tools and files reaches the terminal only through [Terminal.Out],
// [Terminal.Err], [Answer] and the editor. They show control characters and those that change the
// text direction as \x1b or \u202e.
package chat
