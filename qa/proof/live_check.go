package main

import (
	"fmt"
	"slices"
	"strings"
)

// A liveEvent has the event fields in a live conversation that the proof compares.
type liveEvent struct {
	ID           string
	Author       string
	Partial      bool
	Interrupted  bool
	TurnComplete bool
	ErrorCode    string
	ErrorMessage string
	Content      struct {
		Parts []struct {
			Text             string
			InlineData       *struct{}
			FunctionCall     *struct{ ID string }
			FunctionResponse *struct{ ID string }
		}
	}
	InputTranscription, OutputTranscription struct{ Text string }
}

func (e *liveEvent) joinText() string {
	var b strings.Builder
	for _, p := range e.Content.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// isStored reports whether an event that a client received must be stored.
func (e *liveEvent) isStored() bool {
	for _, p := range e.Content.Parts {
		if p.InlineData != nil {
			return false
		}
	}
	return !e.Partial && e.ID != ""
}

// isAnswer reports whether the event is the full answer to a turn.
func (e *liveEvent) isAnswer(tag string) bool {
	return !e.Partial && !e.Interrupted && e.OutputTranscription.Text == fullAnswer(tag)
}

// isInput reports whether the event is what the user typed or spoke.
func (e *liveEvent) isInput(kind, tag string) bool {
	if e.Partial || e.Author != "user" {
		return false
	}
	return e.joinText() == kind+" "+tag || e.InputTranscription.Text == "spoken "+tag
}

// A liveTurn is a turn of the user, who repeats it if it gets no answer.
type liveTurn struct {
	kind, name string
	attempts   int
}

// listTags returns the tags of all attempts.
func (t *liveTurn) listTags() []string {
	var all []string
	for i := range t.attempts {
		all = append(all, fmt.Sprintf("%s.%d", t.name, i+1))
	}
	return all
}

// liveViolations counts the broken promises of live conversations.
type liveViolations struct {
	lost       int // received by the client, and not stored in this order
	doubled    int // inputs, answers, calls or responses that are stored twice
	misplaced  int // events before those that they follow
	unanswered int // turns without an answer, calls without a response
	details    []string
}

func (v *liveViolations) countAll() int { return v.lost + v.doubled + v.misplaced + v.unanswered }

func (v *liveViolations) addAll(o liveViolations) {
	v.lost += o.lost
	v.doubled += o.doubled
	v.misplaced += o.misplaced
	v.unanswered += o.unanswered
	v.details = append(v.details, o.details...)
}

func (v *liveViolations) addOne(counter *int, format string, values ...any) {
	*counter++
	v.details = append(v.details, fmt.Sprintf(format, values...))
}

// checkLiveHistory compares the stored events with the turns of the user and with the IDs of
// the events that the client received.
func checkLiveHistory(turns []*liveTurn, events []liveEvent, received []string) liveViolations {
	v := liveViolations{}
	ids, plain := map[string]bool{}, []event{}
	for _, ev := range events {
		if ids[ev.ID] {
			v.addOne(&v.doubled, "event %s is stored twice", ev.ID)
		}
		ids[ev.ID] = true
		plain = append(plain, event{ID: ev.ID})
	}
	if v.lost = countMissingIDs(received, plain); v.lost > 0 {
		v.details = append(v.details, fmt.Sprintf("%d received events are not stored in their order", v.lost))
	}
	end := -1 // of the turn before
	for _, t := range turns {
		end = t.checkTurn(&v, events, end)
	}
	return v
}

// checkTurn checks the events of a turn, which must come after a position. It returns the
// position of its end.
func (t *liveTurn) checkTurn(v *liveViolations, events []liveEvent, after int) (end int) {
	end = after
	answered := false
	for _, tag := range t.listTags() {
		input := t.findOnce(v, events, "input "+tag, func(e *liveEvent) bool { return e.isInput(t.kind, tag) })
		if input < 0 {
			continue // the user repeated it
		}
		if input < after {
			v.addOne(&v.misplaced, "input %s at %d, before the end of the turn before it at %d", tag, input, after)
		}
		answer := t.findOnce(v, events, "answer "+tag, func(e *liveEvent) bool { return e.isAnswer(tag) })
		if answer < 0 {
			end = max(end, input)
		} else {
			answered, end = true, max(end, answer)
		}
		positions := append([]int{input}, t.findCalls(v, events, tag, answer >= 0)...)
		if answer >= 0 {
			positions = append(positions, answer)
		}
		if !slices.IsSorted(positions) {
			v.addOne(&v.misplaced, "events of %s at %v", tag, positions)
		}
	}
	if !answered && t.kind != turnWait {
		v.addOne(&v.unanswered, "turn %s %s is not answered", t.kind, t.name)
	}
	return end
}

// findCalls returns the positions of the call of a turn and of its response.
func (t *liveTurn) findCalls(v *liveViolations, events []liveEvent, tag string, answered bool) []int {
	call := t.findOnce(v, events, "call "+tag, func(e *liveEvent) bool {
		return len(e.Content.Parts) > 0 && e.Content.Parts[0].FunctionCall != nil && e.Content.Parts[0].FunctionCall.ID == callID(tag)
	})
	response := t.findOnce(v, events, "response "+tag, func(e *liveEvent) bool {
		return len(e.Content.Parts) > 0 && e.Content.Parts[0].FunctionResponse != nil && e.Content.Parts[0].FunctionResponse.ID == callID(tag)
	})
	switch {
	case call < 0 && response < 0 && (t.kind != turnCall || !answered):
		return nil
	case call < 0 || response < 0:
		v.addOne(&v.unanswered, "the call of %s is at %d, its response at %d", tag, call, response)
		return nil
	}
	return []int{call, response}
}

// findOnce returns the position of the first event that matches, or -1. There must not be
// another one.
func (t *liveTurn) findOnce(v *liveViolations, events []liveEvent, what string, matches func(*liveEvent) bool) int {
	found := -1
	for i := range events {
		switch {
		case !matches(&events[i]):
		case found < 0:
			found = i
		default:
			v.addOne(&v.doubled, "%s is stored at %d and at %d", what, found, i)
		}
	}
	return found
}

// alterHistory returns the history of a conversation with an answer that is stored twice, with
// an answer before its input, without an event that the client received, and without an
// answer.
func alterHistory(turns []*liveTurn, events []liveEvent, received []string) map[string][]liveEvent {
	altered := map[string][]liveEvent{}
	for _, t := range turns {
		tag := t.lastTag()
		input := slices.IndexFunc(events, func(e liveEvent) bool { return e.isInput(t.kind, tag) })
		answer := slices.IndexFunc(events, func(e liveEvent) bool { return e.isAnswer(tag) })
		if input < 0 || answer < 0 {
			continue
		}
		again := events[answer]
		again.ID += "-again"
		altered["an answer is stored twice"] = append(slices.Clone(events), again)
		swapped := slices.Clone(events)
		swapped[input], swapped[answer] = swapped[answer], swapped[input]
		altered["an answer is stored before its input"] = swapped
		altered["an answer is missing"] = slices.Delete(slices.Clone(events), answer, answer+1)
		break
	}
	if len(received) > 0 {
		altered["a received event is missing"] = slices.DeleteFunc(slices.Clone(events), func(e liveEvent) bool { return e.ID == received[0] })
	}
	return altered
}
