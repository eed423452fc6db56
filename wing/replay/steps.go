package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/number"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// stepKind is what happens in a step.
type stepKind int

const (
	stepError stepKind = iota
	stepApproval
	stepCall
	stepResult
	stepState
	stepText
)

// A step is one thing that a turn did.
type step struct {
	kind   stepKind
	agent  string
	branch string
	// name is a call's, result's or approval's tool, a written state key, or an error code.
	name string
	// value are the arguments, the result, the state value or the text, in a canonical form.
	value string
}

// listSteps returns what a turn's events did, by branch: parallel branches have no common order.
func (r *Rules) listSteps(events []*session.Event) map[string][]step {
	all := map[string][]step{}
	for _, ev := range events {
		if ev.Partial || ev.IsFromUser() {
			continue
		}
		at := step{agent: ev.NodeName(), branch: ev.Branch}
		add := func(kind stepKind, name, value string) {
			s := at
			s.kind, s.name, s.value = kind, name, value
			all[ev.Branch] = append(all[ev.Branch], s)
		}
		if ev.Content != nil {
			r.addParts(ev, add)
		} else if ev.IsPlainResult() {
			add(stepText, "", ev.ResultText())
		}
		for _, key := range slices.Sorted(maps.Keys(ev.Actions.StateDelta)) {
			if key != session.MetadataKey && !slices.Contains(r.IgnoredState, key) {
				add(stepState, key, canonicalText(ev.Actions.StateDelta[key]))
			}
		}
		if ev.ErrorCode != "" {
			add(stepError, ev.ErrorCode, "") // messages name the model
		}
	}
	return all
}

func (r *Rules) addParts(ev *session.Event, add func(kind stepKind, name, value string)) {
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			add(stepText, "", text.String())
			text.Reset()
		}
	}
	for _, p := range ev.Content.Parts {
		switch {
		case p.FunctionCall != nil:
			flush()
			r.addCall(ev, p.FunctionCall, add)
		case p.FunctionResponse != nil && isInterim(ev, p.FunctionResponse):
		case p.FunctionResponse != nil:
			flush()
			add(stepResult, p.FunctionResponse.Name, canonicalText(p.FunctionResponse.Response))
		case !p.Thought:
			text.WriteString(p.Text)
		}
	}
	flush()
}

// addCall adds a call. A request for an approval is one of the call that waits.
func (r *Rules) addCall(ev *session.Event, c *genai.FunctionCall, add func(kind stepKind, name, value string)) {
	if a := runtime.ReadApproval(c); a != nil && runtime.IsRequest(ev, c) {
		add(stepApproval, a.Tool, "")
		return
	}
	args := maps.Clone(c.Args)
	for _, name := range r.IgnoredArgs {
		delete(args, name)
	}
	if runtime.IsRequest(ev, c) {
		args = nil // a credential request has new random values each time
	}
	if args == nil {
		args = map[string]any{}
	}
	add(stepCall, c.Name, canonicalText(args))
}

// A divergence is a turn's first difference.
type divergence struct {
	class Class
	// agent is the replayed step's, or the recorded one's if there is none.
	agent string
	// place describes the difference without texts or values: find_order → ask_user.
	place string
	// before and after are the values that differ.
	before, after string
}

// findDivergence returns the first difference between recorded and replayed steps, or nil.
func findDivergence(record, played map[string][]step) *divergence {
	branches := maps.Clone(record)
	maps.Copy(branches, played)
	for _, branch := range slices.Sorted(maps.Keys(branches)) {
		was, is := record[branch], played[branch]
		for i := range max(len(was), len(is)) {
			var before, after *step
			if i < len(was) {
				before = &was[i]
			}
			if i < len(is) {
				after = &is[i]
			}
			if d := compareSteps(before, after); d != nil {
				return d
			}
		}
	}
	return nil
}

// compareSteps returns the difference between two steps; either may be missing.
func compareSteps(before, after *step) *divergence {
	if before != nil && after != nil && *before == *after {
		return nil
	}
	d := &divergence{place: before.describeStep() + " → " + after.describeStep()}
	if before != nil {
		d.agent, d.before = before.agent, before.value
	}
	if after != nil {
		d.agent, d.after = after.agent, after.value
	}
	has := func(kind stepKind) bool {
		return before != nil && before.kind == kind || after != nil && after.kind == kind
	}
	sameKind := before != nil && after != nil && before.kind == after.kind
	sameName := sameKind && before.name == after.name
	sameAgent := sameName && before.agent == after.agent
	switch {
	case after != nil && after.kind == stepError && !sameAgent:
		d.class, d.place = ClassError, after.describeStep()
	case has(stepApproval) && !sameName:
		d.class = ClassApproval
	case has(stepCall) && !sameName:
		d.class = ClassTool
	case sameName && !sameAgent:
		d.class, d.place = ClassAgent, before.agent+" → "+after.agent
	case sameName && before.kind == stepCall:
		d.class, d.place = ClassArguments, after.name
	case sameName && before.kind == stepResult:
		d.class, d.place = ClassResult, after.name
	case sameName && before.kind == stepState:
		d.class, d.place = ClassState, after.name
	case has(stepState):
		d.class = ClassState
	case has(stepResult):
		d.class = ClassResult
	default:
		d.class = ClassText
		if sameName {
			d.place = "another text"
		}
	}
	return d
}

// canonicalText returns a JSON value in the form that equal values have in common: with sorted keys, and
// numbers by their value.
func canonicalText(v any) string {
	var b strings.Builder
	writeCanonical(&b, v)
	return b.String()
}

func writeCanonical(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Quote(key) + ":")
			writeCanonical(b, v[key])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonical(b, item)
		}
		b.WriteByte(']')
	case string:
		b.WriteString(strconv.Quote(v))
	default:
		if number.Is(v) {
			b.WriteString(canonicalNumber(v))
			return
		}
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte(err.Error())
		}
		b.Write(text)
	}
}

// canonicalNumber returns a number as people write it if that has all its digits.
func canonicalNumber(v any) string {
	key := number.Key(v)
	if f, err := strconv.ParseFloat(key, 64); err == nil {
		if text := strconv.FormatFloat(f, 'f', -1, 64); len(text) < 24 && number.Key(json.Number(text)) == key {
			return text
		}
	}
	return key
}

// describeStep describes a step without texts and values.
func (s *step) describeStep() string {
	if s == nil {
		return "nothing"
	}
	switch s.kind {
	case stepError:
		return "fails with " + s.name
	case stepApproval:
		return "approval of " + s.name
	case stepCall:
		return s.name
	case stepResult:
		return "result of " + s.name
	case stepState:
		return fmt.Sprintf("state %s", s.name)
	}
	return "text"
}
