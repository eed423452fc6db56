package main

import (
	"fmt"
	"time"
)

// An operation is one recorded call: a read of a version, or an append to a version.
type operation struct {
	began, ended time.Duration // since the race began
	append       bool
	// version is the version that was read, or to which the event was appended.
	version int64
	// won reports that the append was acknowledged. id is its event's ID.
	won bool
	id  string
}

// findContradictions returns the contradictions between recorded operations and the final event ID
// history. Each append names its version, so only one order is possible; it must agree with the
// clock.
func findContradictions(ops []operation, ids []string) []string {
	var problems []string
	addProblem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	appends := make([]operation, len(ids)) // by version, from 0
	seen := make([]bool, len(ids))
	for _, op := range ops {
		switch {
		case !op.append || !op.won:
		case op.version >= int64(len(ids)) || ids[op.version] != op.id:
			addProblem("event %s was acknowledged as number %d and is missing", op.id, op.version+1)
		case seen[op.version]:
			addProblem("event number %d was acknowledged twice", op.version+1)
		default:
			seen[op.version], appends[op.version] = true, op
		}
	}
	for i, ok := range seen {
		if !ok {
			addProblem("event number %d was never acknowledged", i+1)
		}
	}
	if len(problems) > 0 {
		return problems
	}
	for i := 1; i < len(appends); i++ {
		if appends[i].ended < appends[i-1].began {
			addProblem("event number %d ended before number %d began", i+1, i)
		}
	}
	return append(problems, checkClockOrder(ops, appends)...)
}

// checkClockOrder compares reads and rejected appends with the acknowledged appends. A
// read of version v ends after append v began and begins before append v+1 ended. A
// rejected append to version v ends after append v+1 began.
func checkClockOrder(ops, appends []operation) []string {
	var problems []string
	for _, op := range ops {
		v := int(op.version)
		switch {
		case op.append && op.won:
		case op.append:
			if v >= len(appends) || op.ended < appends[v].began {
				problems = append(problems, fmt.Sprintf("an append to version %d was rejected without a concurrent append", v))
			}
		case v > len(appends) || v > 0 && op.ended < appends[v-1].began:
			problems = append(problems, fmt.Sprintf("version %d was read before it was written", v))
		case v < len(appends) && appends[v].ended < op.began:
			problems = append(problems, fmt.Sprintf("version %d was read when version %d was acknowledged", v, v+1))
		}
	}
	return problems
}

// countWinners counts the versions with one acknowledged append and those with more.
func countWinners(ops []operation) (one, more int) {
	won := map[int64]int{}
	for _, op := range ops {
		if op.append && op.won {
			won[op.version]++
		}
	}
	for _, n := range won {
		if n == 1 {
			one++
		} else {
			more++
		}
	}
	return one, more
}
