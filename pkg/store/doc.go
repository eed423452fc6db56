// Package store persists sessions with their events and state, artifacts,
// memories and revisions.
//
// The portable types [Sessions], [Artifacts] and [Memories] implement every
// rule: the scopes of state keys, temp: keys, partial events, optimistic
// concurrency, names and limits, and memory search. The backends below them only
// store rows: in memory (memstore), in SQL databases (sqlstore), in key-value databases of
// the caller (examples/extend/kvstore), and for artifacts also in folders (dirstore) and in buckets
// (bucketstore). [New] opens a store over backends, storeurl.Open by URL. Package
// storetest tests a backend.
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
