package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// An operation is what one caller saw of a session: a read of a version, or an
// append behind a version.
type operation struct {
	began, ended time.Duration // since the beginning of the race
	append       bool
	// version is the one that was read, or that the append was built on.
	version int64
	// won says that the append was acknowledged, and id is its event's.
	won bool
	id  string
}

// findContradictions says what contradicts a session that changes by one append after the
// other: ids is its history in the end. Since every append names its version,
// one order only is possible, and it is enough to hold it against the clock.
func findContradictions(ops []operation, ids []string) []string {
	var problems []string
	addProblem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	appends := make([]operation, len(ids)) // by version, from 0
	seen := make([]bool, len(ids))
	for _, op := range ops {
		switch {
		case !op.append || !op.won:
		case op.version >= int64(len(ids)) || ids[op.version] != op.id:
			addProblem("event %s was acknowledged as number %d and is not there", op.id, op.version+1)
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

// checkClockOrder holds reads and refusals against the appends. A read of version
// v ends after append v began, and begins before append v+1 ended. A refusal of
// version v ends after append v+1 began.
func checkClockOrder(ops, appends []operation) []string {
	var problems []string
	for _, op := range ops {
		v := int(op.version)
		switch {
		case op.append && op.won:
		case op.append:
			if v >= len(appends) || op.ended < appends[v].began {
				problems = append(problems, fmt.Sprintf("an append behind version %d was refused, and nobody was faster", v))
			}
		case v > len(appends) || v > 0 && op.ended < appends[v-1].began:
			problems = append(problems, fmt.Sprintf("version %d was read before it was written", v))
		case v < len(appends) && appends[v].ended < op.began:
			problems = append(problems, fmt.Sprintf("version %d was read when version %d was acknowledged", v, v+1))
		}
	}
	return problems
}

// countWinners counts the rounds by the number of appends that were acknowledged
// behind the same version.
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

// sortByStart sorts operations by their beginning.
func sortByStart(ops []operation) {
	slices.SortFunc(ops, func(a, b operation) int { return cmp.Compare(a.began, b.began) })
}
