// Package codec validates the keys and values that package store's backends write.
package codec

import (
	"encoding/json"
	"fmt"
	"math"

	"agenthost/pkg/session"
)

// maxDepth bounds the nesting in a state value.
const maxDepth = 100

// CanonicalizeState returns a copy of a state delta in which every value is what a
// database would give back, see [session.Normalize]. Keys and values that
// cannot be stored are ErrInvalid.
func CanonicalizeState(delta map[string]any) (map[string]any, error) {
	if len(delta) == 0 {
		return delta, nil
	}
	c := make(map[string]any, len(delta))
	for k, v := range delta {
		if err := CheckText("state key", k, MaxKey); err != nil {
			return nil, err
		}
		v = session.Normalize(v)
		if err := checkValue(v, 0); err != nil {
			return nil, fmt.Errorf("state key %q: %w", k, err)
		}
		c[k] = v
	}
	return c, nil
}

// checkValue rejects normalized values that JSON cannot represent.
func checkValue(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("value exceeds the nesting limit of %d: %w", maxDepth, session.ErrInvalid)
	}
	switch v := v.(type) {
	case nil, bool, string, int64, json.Number:
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v is not a JSON number: %w", v, session.ErrInvalid)
		}
		return nil
	case []any:
		for _, item := range v {
			if err := checkValue(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, item := range v {
			if err := checkValue(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%T is not a JSON value: %w", v, session.ErrInvalid)
	}
}

// CloneValue copies the lists and maps in a normalized value.
func CloneValue(v any) any {
	switch v := v.(type) {
	case []any:
		c := make([]any, len(v))
		for i, item := range v {
			c[i] = CloneValue(item)
		}
		return c
	case map[string]any:
		return CloneMap(v)
	default:
		return v
	}
}

// CloneMap copies a map with normalized values.
func CloneMap(m map[string]any) map[string]any {
	c := make(map[string]any, len(m))
	for k, v := range m {
		c[k] = CloneValue(v)
	}
	return c
}
