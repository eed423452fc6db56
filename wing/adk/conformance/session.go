package conformance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"agenthost/internal/number"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// The session state keys that switch on replay and recording in a run.
const (
	ReplayKey = "_adk_replay_config"
	RecordKey = "_adk_recordings_config"
)

// compareSessions returns the differences between two sessions in any spelling, one for each
// message, or nil. Ids, times and signatures are not compared (adk-python
// _replay_validators.py).
func compareSessions(recorded, actual map[string]any) ([]string, error) {
	recordedEvents, err := normalizeEvents(recorded)
	if err != nil {
		return nil, fmt.Errorf("the recorded session: %w", err)
	}
	actualEvents, err := normalizeEvents(actual)
	if err != nil {
		return nil, fmt.Errorf("the session: %w", err)
	}
	var all []string
	if len(recordedEvents) != len(actualEvents) {
		all = append(all, fmt.Sprintf("Event count mismatch - recorded: %d, actual: %d", len(recordedEvents), len(actualEvents)))
	}
	for i := range max(len(recordedEvents), len(actualEvents)) {
		var want, got any
		if i < len(recordedEvents) {
			want = recordedEvents[i]
		}
		if i < len(actualEvents) {
			got = actualEvents[i]
		}
		if !number.Equal(want, got) {
			all = append(all, diffValues(fmt.Sprintf("recorded event %d", i), fmt.Sprintf("actual event %d", i), want, got))
		}
	}
	if want, got := normalizeHead(recorded), normalizeHead(actual); !number.Equal(want, got) {
		all = append(all, diffValues("recorded session", "actual session", want, got))
	}
	return all, nil
}

// normalizeHead returns the compared parts of a session besides its events.
func normalizeHead(s map[string]any) map[string]any {
	head := map[string]any{"appName": firstValue(s, "app_name", "appName"), "userId": firstValue(s, "user_id", "userId")}
	state, _ := s["state"].(map[string]any)
	head["state"] = withoutConfigs(state)
	return asJSON(head)
}

func firstValue(m map[string]any, keys ...string) any {
	for _, key := range keys {
		if m[key] != nil {
			return m[key]
		}
	}
	return nil
}

func withoutConfigs(state map[string]any) map[string]any {
	own := map[string]any{}
	maps.Copy(own, state)
	delete(own, ReplayKey)
	delete(own, RecordKey)
	return own
}

func normalizeEvents(s map[string]any) ([]map[string]any, error) {
	list, _ := s["events"].([]any)
	events := make([]map[string]any, len(list))
	for i, item := range list {
		raw, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("event %d is not an object", i)
		}
		var err error
		if events[i], err = normalizeEvent(raw); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
	}
	return events, nil
}

// normalizeEvent decodes an event and encodes it again, so that both spellings and defaults
// become one form, and removes what is not compared.
func normalizeEvent(raw map[string]any) (map[string]any, error) {
	b, err := json.Marshal(raw)
	if err != nil {
		return nil, err
	}
	var ev session.Event
	if err := ev.UnmarshalJSON(b); err != nil {
		return nil, err
	}
	if b, err = session.AppendEvent(nil, &ev); err != nil {
		return nil, err
	}
	var m map[string]any
	if err := number.Decode(b, &m); err != nil {
		return nil, err
	}
	for _, key := range []string{"id", "timestamp", "invocationId", "longRunningToolIds", "nodeInfo"} {
		delete(m, key)
	}
	// A flag that is false differs from one that is absent.
	for _, names := range [][]string{{"partial"}, {"interrupted"}, {"turn_complete", "turnComplete"}, {"custom_metadata", "customMetadata"}} {
		key := names[len(names)-1]
		if delete(m, key); firstValue(raw, names...) != nil {
			m[key] = firstValue(raw, names...)
		}
	}
	normalizeActions(m)
	content, _ := m["content"].(map[string]any)
	normalizeParts(content)
	return asJSON(m), nil
}

func normalizeActions(event map[string]any) {
	actions, _ := event["actions"].(map[string]any)
	if actions == nil {
		actions = map[string]any{}
		event["actions"] = actions
	}
	delete(actions, "requestedAuthConfigs")
	delete(actions, "requestedToolConfirmations")
	if summary, ok := actions["compaction"].(map[string]any); ok { // the times of its events
		delete(summary, "startTimestamp")
		delete(summary, "endTimestamp")
	}
	if state, ok := actions["agentState"].(map[string]any); ok && state[runtime.PendingCallsKey] != nil { // ids
		calls, _ := state[runtime.PendingCallsKey].([]any)
		state[runtime.PendingCallsKey] = len(calls)
	}
	delta, _ := actions["stateDelta"].(map[string]any)
	actions["stateDelta"] = withoutConfigs(delta)
	if actions["artifactDelta"] == nil {
		actions["artifactDelta"] = map[string]any{}
	}
}

// normalizeParts removes ids and signatures from a content's parts.
func normalizeParts(content map[string]any) {
	parts, _ := content["parts"].([]any)
	for _, item := range parts {
		part, _ := item.(map[string]any)
		delete(part, "thoughtSignature")
		for _, key := range []string{"functionCall", "functionResponse"} {
			if call, ok := part[key].(map[string]any); ok {
				delete(call, "id")
				deleteOriginalID(call)
			}
		}
		if blob, ok := part["inlineData"].(map[string]any); ok {
			blob["data"] = normalizeBase64(blob["data"])
		}
	}
}

// deleteOriginalID removes the id that a confirmation's call has: it is new in each run, as
// all ids.
func deleteOriginalID(call map[string]any) {
	args, _ := call["args"].(map[string]any)
	for _, key := range []string{"originalFunctionCall", "original_function_call"} {
		if original, ok := args[key].(map[string]any); ok && call["name"] == runtime.RequestConfirmation {
			delete(original, "id")
		}
	}
}

// normalizeBase64 returns the standard alphabet for both.
func normalizeBase64(v any) any {
	s, ok := v.(string)
	if !ok {
		return v
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "="))
	if err != nil {
		return v
	}
	return base64.StdEncoding.EncodeToString(b)
}

// asJSON returns a value as JSON decodes it, without losing a digit.
func asJSON(m map[string]any) map[string]any {
	b, err := json.Marshal(m)
	if err != nil {
		return m
	}
	own, err := number.DecodeObject(b)
	if err != nil {
		return m
	}
	return own
}
