// Package rollout gives a change to some new sessions first, watches their outcomes, and takes the change back by itself.
//
//	section.go     rollout in app.yaml: a plan with steps and conditions
//	condition.go   above(failed, 0.1), worse(usd > stable.p90.usd, 0.1)
//	state.go       a rollout's stored state, one row for each app
//	damage.go      a stored state that cannot be read
//	decide.go      what a state and new sessions lead to, pure functions
//	split.go       the revision for a session, from a snapshot of the states
//	build_failures.go  revisions that cannot be loaded
//	admit.go       whether a loaded revision serves
//	events.go      what happened, for people and clients
//	describe.go    a revision's place in rollouts, in words
//	controller.go  one decider per rollout, by a lease in the row
//
// Invariants:
//   - A row changes by compare-and-set, so that two replicas never decide twice. A decider that is
//     killed has decided all or nothing.
//   - Each session is counted once, ordered by their start, when its wait is over. That
//     is what makes the sequential tests exact.
//   - A share that grows only adds sessions to the new revision: a session's place in the order is a
//     hash of its unit and the rollout's salt.
//   - A session stays on its revision, because reload.sessions is new_sessions.
package rollout
