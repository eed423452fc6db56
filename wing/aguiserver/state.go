package aguiserver

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"agenthost/pkg/session"
)

// hiddenPrefixes begin state keys that are the runtime's own: one run's values, and
// credentials.
var hiddenPrefixes = []string{session.TempPrefix, "adk_", "_adk_", "_ag_ui_"}

// isVisible reports whether clients see a state key.
func isVisible(key string) bool {
	_, name := session.ScopeOf(key)
	return !slices.ContainsFunc(hiddenPrefixes, func(prefix string) bool {
		return strings.HasPrefix(key, prefix) || strings.HasPrefix(name, prefix)
	})
}

// pathEscapes are those of a JSON Pointer (RFC 6901).
var pathEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// An operation changes a client's state (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// removal is an operation without a value.
type removal struct {
	Op   string `json:"op"`
	Path string `json:"path"`
}

// A clientState is the state as the client has it.
type clientState map[string]any

// newClientState returns a session's visible state.
func newClientState(all map[string]any) clientState {
	c := clientState{}
	for key, value := range all {
		if isVisible(key) {
			c[key] = value
		}
	}
	return c
}

// applyDelta applies an event's writes, and returns the operations that do the same at the client.
func (c clientState) applyDelta(delta map[string]any) []any {
	if len(delta) == 0 {
		return nil
	}
	var all []any
	for _, key := range slices.Sorted(maps.Keys(delta)) {
		old, has := c[key]
		value := delta[key]
		if !isVisible(key) || has && reflect.DeepEqual(old, value) {
			continue
		}
		path := "/" + pathEscapes.Replace(key)
		switch {
		case value != nil:
			c[key] = value
			all = append(all, operation{"add", path, value})
		case has:
			delete(c, key)
			all = append(all, removal{"remove", path})
		}
	}
	return all
}

// readClientState returns the changes that a client's state makes to the keys that it may write. A key
// that is missing does not change, and null removes it.
func readClientState(written []byte, allowed []string, current *session.State) (map[string]any, error) {
	if len(allowed) == 0 || len(written) == 0 || string(written) == "null" {
		return nil, nil
	}
	state, err := session.DecodeMap(written)
	if err != nil {
		return nil, newRefusal("state must be an object")
	}
	delta := map[string]any{}
	for _, key := range allowed {
		value, isSent := state[key]
		old, has := current.Get(key)
		if isSent && !(value == nil && !has) && !reflect.DeepEqual(session.Normalize(value), old) {
			delta[key] = value
		}
	}
	return delta, nil
}
