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

// linear says what contradicts a session that changes by one append after the
// other: ids is its history in the end. Since every append names its version,
// one order only is possible, and it is enough to hold it against the clock.
func linear(ops []operation, ids []string) []string {
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	appends := make([]operation, len(ids)) // by version, from 0
	seen := make([]bool, len(ids))
	for _, op := range ops {
		switch {
		case !op.append || !op.won:
		case op.version >= int64(len(ids)) || ids[op.version] != op.id:
			complain("event %s was acknowledged as number %d and is not there", op.id, op.version+1)
		case seen[op.version]:
			complain("event number %d was acknowledged twice", op.version+1)
		default:
			seen[op.version], appends[op.version] = true, op
		}
	}
	for i, ok := range seen {
		if !ok {
			complain("event number %d was never acknowledged", i+1)
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	for i := 1; i < len(appends); i++ {
		if appends[i].ended < appends[i-1].began {
			complain("event number %d ended before number %d began", i+1, i)
		}
	}
	return append(wrong, againstClock(ops, appends)...)
}

// againstClock holds reads and refusals against the appends. A read of version
// v ends after append v began, and begins before append v+1 ended. A refusal of
// version v ends after append v+1 began.
func againstClock(ops, appends []operation) []string {
	var wrong []string
	for _, op := range ops {
		v := int(op.version)
		switch {
		case op.append && op.won:
		case op.append:
			if v >= len(appends) || op.ended < appends[v].began {
				wrong = append(wrong, fmt.Sprintf("an append behind version %d was refused, and nobody was faster", v))
			}
		case v > len(appends) || v > 0 && op.ended < appends[v-1].began:
			wrong = append(wrong, fmt.Sprintf("version %d was read before it was written", v))
		case v < len(appends) && appends[v].ended < op.began:
			wrong = append(wrong, fmt.Sprintf("version %d was read when version %d was acknowledged", v, v+1))
		}
	}
	return wrong
}

// winners counts the rounds by the number of appends that were acknowledged
// behind the same version.
func winners(ops []operation) (one, more int) {
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

// byTime sorts operations by their beginning.
func byTime(ops []operation) {
	slices.SortFunc(ops, func(a, b operation) int { return cmp.Compare(a.began, b.began) })
}
