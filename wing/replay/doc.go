// Package replay runs stored sessions' turns again, on an app's files and on the revision that
// answered them, and reports what the files change.
//
//	section.go   replay in app.yaml: which sessions, what to ignore, what the gate allows
//	cohort.go    which sessions: the latest ones, one of each kind first
//	tape.go      a turn's recorded answers, by agent and by call
//	live.go      live models, by a grant and with a ceiling of money
//	player.go    runs one turn on an app, with history and state as of its message
//	artifacts.go the session's files as they were
//	steps.go     what a turn did, and the first difference between two turns
//	replay.go    sessions on both revisions, and which differences count
//	report.go    counts, bounds and the lines that changed
//
// Invariants:
//   - A replay calls no model, no server and no program, unless a person grants live models or a tool. Models and tools answer from the record; tools
//     that use only the session run.
//   - A difference counts only if the revision that answered does not have it as well. A turn that
//     it does not repeat is reported as not comparable, with a reason.
//   - Only a session's first difference is evidence: later turns were answered to another past.
//   - The database is only read.
package replay
