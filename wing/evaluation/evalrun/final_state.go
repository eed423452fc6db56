package evalrun

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"agenthost/internal/number"
	"agenthost/wing/evaluation/eval"
)

// checkFinalState fails a case whose session does not have the expected values.
func (c *caseRun) checkFinalState(ctx context.Context, result *eval.CaseResult) {
	exact := c.c.FinalStateMatch == eval.StateExact
	if len(c.c.FinalState) == 0 && !exact {
		return
	}
	sess, err := c.host.Store().Sessions.Get(context.WithoutCancel(ctx), c.key, nil)
	if err != nil {
		c.failState(result, "reading the session: "+err.Error())
		return
	}
	want, err := normalizeJSON(c.c.FinalState)
	if err != nil {
		c.failState(result, "reading the expected final state: "+err.Error())
		return
	}
	got, err := normalizeJSON(sess.State.All())
	if err != nil {
		c.failState(result, "reading the final state: "+err.Error())
		return
	}
	for _, reason := range (&stateDiff{exact: exact}).compareObjects("", want, got).reasons {
		c.failState(result, reason)
	}
}

func (c *caseRun) failState(result *eval.CaseResult, reason string) {
	result.Status = eval.Failed
	c.notes = append(c.notes, &eval.Note{Reason: reason})
}

// normalizeJSON returns a state as it is decoded from JSON, without losing a digit.
func normalizeJSON(state map[string]any) (map[string]any, error) {
	text, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	return number.DecodeObject(text)
}

// A stateDiff has how a state differs from the expected one. Unless it is exact, objects may
// have keys that are not expected.
type stateDiff struct {
	exact   bool
	reasons []string
}

// maxStateReasons limits the state differences that a result lists.
const maxStateReasons = 20

func (d *stateDiff) addReason(format string, args ...any) {
	switch len(d.reasons) {
	case maxStateReasons:
		d.reasons = append(d.reasons, "final state has more differences")
	case maxStateReasons + 1:
	default:
		d.reasons = append(d.reasons, fmt.Sprintf("final state "+format, args...))
	}
}

// compareObjects adds the differences between objects; path ends with a dot, unless it is empty.
func (d *stateDiff) compareObjects(path string, want, got map[string]any) *stateDiff {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, found := got[key]
		switch {
		case !found && want[key] != nil:
			d.addReason("has no %s, expected %s", path+key, formatJSON(want[key]))
		case found:
			d.compareValues(path+key, want[key], value)
		}
	}
	if !d.exact {
		return d
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, expected := want[key]; !expected {
			d.addReason("has %s = %s, expected none", path+key, formatJSON(got[key]))
		}
	}
	return d
}

func (d *stateDiff) compareValues(path string, want, got any) {
	wantObject, isObject := want.(map[string]any)
	gotObject, gotIsObject := got.(map[string]any)
	wantList, isList := want.([]any)
	gotList, gotIsList := got.([]any)
	switch {
	case isObject && gotIsObject:
		d.compareObjects(path+".", wantObject, gotObject)
	case isList && gotIsList && len(wantList) == len(gotList):
		for i := range wantList {
			d.compareValues(fmt.Sprintf("%s[%d]", path, i), wantList[i], gotList[i])
		}
	case !number.Equal(want, got):
		d.addReason("has %s = %s, expected %s", path, formatJSON(got), formatJSON(want))
	}
}
