// Package store persists sessions with their events and state, artifacts,
// memories and revisions.
//
// The portable types [Sessions], [Artifacts] and [Memories] implement every
// rule: the scopes of state keys, temp: keys, partial events, optimistic
// concurrency, names and limits, and memory search. The backends below them
// only store rows: one in memory, one for SQL databases, and for artifacts one
// in memory, one on disk, and one over buckets (Google Cloud Storage and Amazon
// S3). To add a backend, write its file, add its scheme to the table in store.go
// or artifacts_open.go, and add its URL to the table of the test suite.
//
// Events are ordered by the sequence number that they get in the transaction
// that writes them, never by the clock. An append names the version that it
// builds on (compare-and-set): if the session has changed, the append fails with
// [session.ErrStale] and changes nothing.
//
// A cache, limited by bytes, holds the histories of recent sessions. For a
// cached session [Sessions.Get] reads only the head, the state, and the events
// that the cache does not have, so the cost of a turn does not grow with the
// length of the session. All readers of a session share its history; each has
// its own state.
package store
