package vertexstore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agenthost/internal/number"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// markKey is the key of the host record in the custom metadata of an event envelope. rawEvent does
// not have it, because other programs read that.
const markKey = "_agenthost"

// A mark is the host's record next to an event.
type mark struct {
	Provenance string `json:"provenance,omitempty"`
	// Exact is an event's JSON that doubles would change.
	Exact string `json:"exact,omitempty"`
}

// sentEvent is an appended event's body. RawEvent is the truth; the other fields are for older
// readers, and for the service, which applies the state delta.
type sentEvent struct {
	Author       string          `json:"author"`
	InvocationID string          `json:"invocationId"`
	Timestamp    string          `json:"timestamp"`
	Content      any             `json:"content,omitempty"`
	Actions      sentActions     `json:"actions"`
	ErrorCode    string          `json:"errorCode,omitempty"`
	ErrorMessage string          `json:"errorMessage,omitempty"`
	Metadata     sentMetadata    `json:"eventMetadata"`
	RawEvent     json.RawMessage `json:"rawEvent"`
}

type sentActions struct {
	SkipSummarization bool           `json:"skipSummarization,omitempty"`
	StateDelta        map[string]any `json:"stateDelta,omitempty"`
	ArtifactDelta     map[string]int `json:"artifactDelta,omitempty"`
	TransferAgent     string         `json:"transferAgent,omitempty"`
	Escalate          bool           `json:"escalate,omitempty"`
}

type sentMetadata struct {
	TurnComplete       bool           `json:"turnComplete,omitempty"`
	Interrupted        bool           `json:"interrupted,omitempty"`
	Branch             string         `json:"branch,omitempty"`
	LongRunningToolIDs []string       `json:"longRunningToolIds,omitempty"`
	CustomMetadata     map[string]any `json:"customMetadata,omitempty"`
}

// partColumns are the part fields that the service accepts. Others are only in rawEvent.
var partColumns = map[string][]string{
	"text": nil, "thought": nil, "thoughtSignature": nil, "videoMetadata": nil,
	"inlineData": {"mimeType", "data"}, "fileData": {"mimeType", "fileUri"},
	"functionCall": {"id", "name", "args"}, "functionResponse": {"id", "name", "response"},
	"executableCode": {"language", "code"}, "codeExecutionResult": {"outcome", "output"},
}

// encodeEvent returns the body for an event with its JSON.
func encodeEvent(ev *session.Event, text []byte, at time.Time) (*sentEvent, error) {
	m := mark{Provenance: string(ev.Provenance.Append(nil))}
	if !survivesDoubles(text) {
		m.Exact = string(text)
		rounded, err := roundToDoubles(text)
		if err != nil {
			return nil, fmt.Errorf("encoding event %q: %w", ev.ID, err)
		}
		text = rounded
	}
	var columns struct {
		Content      map[string]any
		ErrorCode    string
		ErrorMessage string
		TurnComplete bool
		Interrupted  bool
		Actions      struct {
			SkipSummarization, Escalate bool
			TransferToAgent             string
		}
	}
	if err := json.Unmarshal(text, &columns); err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", ev.ID, err)
	}
	body := &sentEvent{
		Author: cmp.Or(ev.Author, "agent"), InvocationID: cmp.Or(ev.InvocationID, ev.ID), Timestamp: formatTime(at),
		Actions: sentActions{
			columns.Actions.SkipSummarization, ev.Actions.StateDelta, ev.Actions.ArtifactDelta, columns.Actions.TransferToAgent, columns.Actions.Escalate,
		},
		ErrorCode: columns.ErrorCode, ErrorMessage: columns.ErrorMessage,
		Metadata: sentMetadata{columns.TurnComplete, columns.Interrupted, ev.Branch, ev.LongRunningToolIDs, map[string]any{markKey: m}},
		RawEvent: text,
	}
	if parts := selectColumns(columns.Content); parts != nil {
		body.Content = parts
	}
	return body, nil
}

// selectColumns returns the content with the fields that the service accepts.
func selectColumns(content map[string]any) map[string]any {
	var parts []any
	all, _ := content["parts"].([]any)
	for _, p := range all {
		from, _ := p.(map[string]any)
		part := map[string]any{}
		for name, inner := range partColumns {
			value, ok := from[name]
			if fields, isMap := value.(map[string]any); isMap && inner != nil {
				fields = maps.Clone(fields)
				maps.DeleteFunc(fields, func(k string, _ any) bool { return !slices.Contains(inner, k) })
				value = fields
			}
			if ok && value != nil {
				part[name] = value
			}
		}
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	if parts == nil {
		return nil
	}
	c := map[string]any{"parts": parts}
	if role, ok := content["role"].(string); ok {
		c["role"] = role
	}
	return c
}

// roundToDoubles returns an event's JSON with doubles for its numbers, and with strings for numbers
// beyond the range of doubles: the service rejects those.
func roundToDoubles(text []byte) ([]byte, error) {
	v, err := number.DecodeObject(text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(roundNumbers(v))
}

func roundNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f
		}
		return string(v)
	case []any:
		for i, item := range v {
			v[i] = roundNumbers(item)
		}
	case map[string]any:
		for key, item := range v {
			v[key] = roundNumbers(item)
		}
	}
	return v
}

// survivesDoubles reports whether an event's JSON is the same after all its numbers were doubles.
func survivesDoubles(text []byte) bool {
	var v map[string]any
	if json.Unmarshal(text, &v) != nil {
		return false
	}
	again, err := json.Marshal(v)
	if err != nil {
		return false
	}
	ev := &session.Event{}
	if ev.UnmarshalJSON(again) != nil {
		return false
	}
	back, err := session.AppendEvent(nil, ev)
	return err == nil && bytes.Equal(back, text)
}

func formatTime(at time.Time) string {
	return at.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

// receivedEvent is an event in a response.
type receivedEvent struct {
	Name          string
	Author        string
	InvocationID  string `json:"invocationId"`
	Timestamp     time.Time
	Content       json.RawMessage
	Actions       map[string]json.RawMessage
	ErrorCode     string
	ErrorMessage  string
	EventMetadata map[string]json.RawMessage
	RawEvent      json.RawMessage
}

// decodeEvent returns an event without its sequence number, and its JSON size.
func (r *receivedEvent) decodeEvent() (*session.Event, int64, error) {
	ev := &session.Event{}
	var custom map[string]json.RawMessage
	if raw := r.EventMetadata["customMetadata"]; raw != nil {
		if err := json.Unmarshal(raw, &custom); err != nil {
			return nil, 0, r.wrapDamage(err)
		}
	}
	var m mark
	isOwn := custom[markKey] != nil && json.Unmarshal(custom[markKey], &m) == nil
	text := []byte(m.Exact)
	switch {
	case len(text) > 0:
	case len(r.RawEvent) > 2:
		text = r.RawEvent
	default:
		var err error
		if text, err = r.joinColumns(custom); err != nil {
			return nil, 0, r.wrapDamage(err)
		}
	}
	if err := ev.UnmarshalJSON(text); err != nil {
		return nil, 0, r.wrapDamage(err)
	}
	if m.Provenance != "" {
		var err error
		if ev.Provenance, err = session.DecodeProvenance([]byte(m.Provenance)); err != nil {
			return nil, 0, r.wrapDamage(err)
		}
	}
	if !isOwn {
		ev.Author, ev.InvocationID, ev.Timestamp = r.Author, r.InvocationID, r.Timestamp.UTC().Truncate(time.Microsecond)
		ev.Actions.StateDelta = session.WithoutTemp(ev.Actions.StateDelta)
	}
	if ev.ID == "" {
		ev.ID = lastSegment(r.Name)
	}
	if ev.ID == "" {
		return nil, 0, r.wrapDamage(errors.New("it has no id"))
	}
	size, err := session.AppendEvent(nil, ev)
	return ev, int64(len(size)), err
}

func (r *receivedEvent) wrapDamage(err error) error {
	return backend.NewDamagedError(err, "event %s", lastSegment(r.Name))
}

// joinColumns returns an event's JSON without rawEvent, as ADK reads it.
func (r *receivedEvent) joinColumns(custom map[string]json.RawMessage) ([]byte, error) {
	v := map[string]any{}
	for name, value := range r.EventMetadata {
		v[name] = value
	}
	actions := map[string]any{}
	for name, value := range r.Actions {
		if name == "transferAgent" {
			name = "transferToAgent"
		}
		actions[name] = value
	}
	rest := map[string]json.RawMessage{}
	for name, value := range custom {
		switch name {
		case "_compaction":
			actions["compaction"] = value
		case "_usage_metadata":
			v["usageMetadata"] = value
		case markKey:
		default:
			rest[name] = value
		}
	}
	delete(v, "customMetadata")
	if len(rest) > 0 {
		v["customMetadata"] = rest
	}
	if r.Content != nil {
		v["content"] = r.Content
	}
	if r.ErrorCode != "" {
		v["errorCode"] = r.ErrorCode
	}
	if r.ErrorMessage != "" {
		v["errorMessage"] = r.ErrorMessage
	}
	v["actions"], v["timestamp"] = actions, formatTime(r.Timestamp)
	return json.Marshal(v)
}

func lastSegment(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// maxExact is the largest integer up to which doubles represent all integers.
const maxExact = 1 << 53

// checkCells rejects state that the service would change: its numbers are doubles.
func checkCells(cells []store.StateWrite) error {
	for _, c := range cells {
		if found := findInexact(c.Value); found != "" {
			return fmt.Errorf("state key %q: Vertex AI stores numbers as doubles, which cannot represent %s: store it as a string: %w", c.Key, found, session.ErrInvalid)
		}
	}
	return nil
}

// findInexact returns the first number in a value that a double cannot represent.
func findInexact(v any) string {
	switch v := v.(type) {
	case int64:
		if v > maxExact || v < -maxExact {
			return fmt.Sprint(v)
		}
	case json.Number:
		return v.String() // a number that a double keeps is a float64
	case []any:
		for _, item := range v {
			if found := findInexact(item); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if found := findInexact(v[k]); found != "" {
				return found
			}
		}
	}
	return ""
}
