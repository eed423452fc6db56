// Package store keeps what must outlive a run: sessions with their events and
// state, artifacts, and memories.
//
// The portable types [Sessions], [Artifacts] and [Memories] know every rule: the
// scopes of state keys, temp: keys, partial events, versions and staleness,
// names and limits, what is remembered and how it is searched. Below them stand
// thin backends that only keep rows: one in memory, one for SQL databases, and
// for artifacts one in memory, one on disk, and one over buckets, of which
// Google's and Amazon's are there. To add a backend, write its file, and add its
// scheme to the table in store.go or artifacts_open.go and its URL to the table
// of the suite.
//
// Order is the sequence number that an event gets in the transaction that
// writes it, never the clock. An append names the version that it builds on;
// when the session has moved on, it fails with [session.ErrStale] and changes
// nothing.
//
// Recent sessions stay in memory, bounded by bytes. A [Sessions.Get] of one of
// them asks the database only for its head, its state, and the events that
// are newer than those at hand, so a turn costs the same however long the
// session is. The history is shared by all readers of the session; the state
// is each reader's own.
package store
