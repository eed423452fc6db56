package command

import (
	"context"
	"testing"
)

// The first interrupt during an answer stops the answer; another one before the answer has
// ended, and one between answers, stop the verb.
func TestInterrupter(t *testing.T) {
	verb, cancel := context.WithCancel(t.Context())
	i := &Interrupter{stopVerb: cancel}
	answer, end := i.WithStop(verb)
	i.handleInterrupt()
	if !IsAnswerStopped(answer) || verb.Err() != nil {
		t.Errorf("the first interrupt: answer %v, verb %v", context.Cause(answer), verb.Err())
	}
	i.handleInterrupt()
	if verb.Err() == nil {
		t.Error("a second interrupt does not stop the verb while the answer continues")
	}
	end()
	verb, i.stopVerb = context.WithCancel(t.Context())
	answer, end = i.WithStop(verb)
	end()
	i.handleInterrupt()
	if verb.Err() == nil || IsAnswerStopped(answer) {
		t.Errorf("an interrupt after the answer: answer %v, verb %v", context.Cause(answer), verb.Err())
	}
}
