package session

import (
	"errors"
	"fmt"
	"slices"

	"agenthost/internal/number"
)

// An UpdateVerb is an operation on a stored value.
type UpdateVerb string

// The verbs.
const (
	UpdateAdd    UpdateVerb = "add"    // the sum of two numbers
	UpdateAppend UpdateVerb = "append" // the list with one more element
	UpdateMax    UpdateVerb = "max"    // the greater of two numbers or strings
	UpdateMin    UpdateVerb = "min"    // the smaller
)

// UpdateVerbs returns all verbs.
func UpdateVerbs() []UpdateVerb { return []UpdateVerb{UpdateAdd, UpdateAppend, UpdateMax, UpdateMin} }

// A StateUpdate is a write whose value is computed from the stored value when the event is
// stored, such as a counter that many sessions increment. The store computes it in the
// append's transaction, and adds the result to the event's StateDelta.
type StateUpdate struct {
	Key  string
	Verb UpdateVerb
	// Value is the operand.
	Value any
	// Default is a missing key's value; nil is 0 for add, an empty list for append, and the
	// operand for max and min.
	Default any
	// Check may change or reject the result; nil accepts it.
	Check func(v any) (any, error)
}

// Apply returns the new value for the value old, which is nil for a missing
// key. An error is an [ErrInvalid].
func (u *StateUpdate) Apply(old any) (any, error) {
	if old == nil {
		old = Normalize(u.Default)
	}
	v, err := u.computeResult(old, Normalize(u.Value))
	if err == nil && u.Check != nil {
		v, err = u.Check(v)
	}
	if err != nil {
		return nil, &UpdateError{u.Key, u.Verb, err}
	}
	return v, nil
}

// An UpdateError reports that a new value cannot be computed. It is an
// [ErrInvalid].
type UpdateError struct {
	Key  string
	Verb UpdateVerb
	Err  error
}

// Error returns the verb, the key and the cause.
func (e *UpdateError) Error() string {
	return fmt.Sprintf("cannot %s state key %q: %s", e.verbPhrase(), e.Key, e.Err)
}

func (e *UpdateError) verbPhrase() string {
	switch e.Verb {
	case UpdateMax, UpdateMin:
		return "compute the " + string(e.Verb) + " of"
	}
	return string(e.Verb) + " to"
}

// Unwrap returns the cause and ErrInvalid.
func (e *UpdateError) Unwrap() []error { return []error{e.Err, ErrInvalid} }

func (u *StateUpdate) computeResult(old, v any) (any, error) {
	switch u.Verb {
	case UpdateAdd:
		return addNumbers(old, v)
	case UpdateAppend:
		return appendItem(old, v)
	case UpdateMax:
		return pickExtreme(old, v, 1)
	case UpdateMin:
		return pickExtreme(old, v, -1)
	default:
		return nil, fmt.Errorf("unknown verb %q", u.Verb)
	}
}

// addNumbers adds integers exactly; if one operand is a decimal, the sum is a float.
func addNumbers(old, v any) (any, error) {
	if old == nil {
		old = int64(0)
	}
	for name, operand := range map[string]any{"stored value": old, "operand": v} {
		if !number.Is(operand) {
			return nil, fmt.Errorf("%s must be a number, got %s", name, describeKind(operand))
		}
	}
	return number.Compute(old, number.Plus, v)
}

func appendItem(old, v any) (any, error) {
	list, ok := old.([]any)
	if !ok && old != nil {
		return nil, fmt.Errorf("stored value must be a list, got %s", describeKind(old))
	}
	return append(slices.Clone(list), v), nil
}

// pickExtreme returns the greater value for sign 1, the smaller one for -1.
func pickExtreme(old, v any, sign int) (any, error) {
	if old == nil {
		old = v
	}
	order, err := compareValues(v, old)
	if err != nil {
		return nil, err
	}
	if order*sign > 0 {
		return v, nil
	}
	return old, nil
}

// compareValues compares two numbers exactly, or two strings byte by byte.
func compareValues(a, b any) (int, error) {
	x, text := a.(string)
	y, both := b.(string)
	switch {
	case text && both:
		if x < y {
			return -1, nil
		}
		if x > y {
			return 1, nil
		}
		return 0, nil
	case !number.Is(a) || !number.Is(b):
		return 0, fmt.Errorf("both values must be numbers or strings, got %s and %s", describeKind(b), describeKind(a))
	}
	order, ok := number.Compare(a, b)
	if !ok {
		return 0, errors.New("the exponent of a number exceeds the limit of nine digits")
	}
	return order, nil
}

func describeKind(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// Update records a write computed from the stored value.
func (a *Actions) Update(u StateUpdate) { a.StateUpdates = append(a.StateUpdates, u) }

// Updated returns a key's value after these actions, given its old value.
func (a *Actions) Updated(key string, old any) (v any, written bool, err error) {
	v = old
	if set, ok := a.StateDelta[key]; ok {
		v, written = set, true
	}
	for i := range a.StateUpdates {
		if u := &a.StateUpdates[i]; u.Key == key {
			if v, err = u.Apply(v); err != nil {
				return nil, true, err
			}
			written = true
		}
	}
	return v, written, nil
}

// UpdatedKeys returns the distinct keys of the updates, sorted.
func (a *Actions) UpdatedKeys() []string {
	var keys []string
	for _, u := range a.StateUpdates {
		keys = append(keys, u.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// dropUpdates discards the updates to keys that are set.
func (a *Actions) dropUpdates(isSet func(key string) bool) {
	drops := func(u StateUpdate) bool { return isSet(u.Key) }
	if slices.ContainsFunc(a.StateUpdates, drops) {
		a.StateUpdates = slices.DeleteFunc(slices.Clone(a.StateUpdates), drops)
	}
}

// UpdatesWithoutTemp returns the updates to all but temp: keys.
func UpdatesWithoutTemp(all []StateUpdate) []StateUpdate {
	return slices.DeleteFunc(slices.Clone(all), func(u StateUpdate) bool {
		scope, _ := ScopeOf(u.Key)
		return scope == ScopeTemp
	})
}
