// Package protocol has what the doors for clients of other protocols share: the caller, a turn for
// a client that reads it, lines, titles, and the calls that wait for a person as questions in words
// and as forms.
//
// A door translates between its wire and a [runtime.RunRequest] with its events. It adds routes by a
// [server.Extension], and imports no other door.
package protocol
