package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An ArgsEditor has the arguments of a call that the person who confirms it may change.
type ArgsEditor struct {
	params *Params
	names  []string
}

// NewArgsEditor returns the editor for parameters with these names. The error is an
// [*UnknownParamError].
func NewArgsEditor(params *Params, names []string) (*ArgsEditor, error) {
	properties := asMap(params.schema["properties"])
	for i, name := range names {
		if properties[name] == nil {
			return nil, &UnknownParamError{Index: i, Name: name, Known: slices.Sorted(maps.Keys(properties))}
		}
	}
	return &ArgsEditor{params, names}, nil
}

// An UnknownParamError reports a name that is not one of the parameters.
type UnknownParamError struct {
	// Index is the position in the list of names.
	Index int
	Name  string
	Known []string
}

// Error names the parameter.
func (e *UnknownParamError) Error() string { return fmt.Sprintf("unknown parameter %q", e.Name) }

// Schema returns the JSON Schema for the arguments that may change. Callers must not modify it.
func (e *ArgsEditor) Schema() map[string]any {
	all, some := asMap(e.params.schema["properties"]), map[string]any{}
	var required []any
	for _, name := range e.names {
		some[name] = all[name]
		if slices.Contains(e.params.required, name) {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": some, "additionalProperties": false}
	if required != nil {
		schema["required"] = required
	}
	for _, key := range []string{"$defs", "definitions"} {
		if defs := e.params.schema[key]; defs != nil {
			schema[key] = defs
		}
	}
	return schema
}

// Select returns the arguments that may change, with the values of a call.
func (e *ArgsEditor) Select(args map[string]any) map[string]any {
	some := map[string]any{}
	for _, name := range e.names {
		if v, ok := args[name]; ok {
			some[name] = v
		}
	}
	return some
}

// EditArgs returns a call's arguments with a person's changes. It rejects a change of other
// arguments, and arguments that the tool would reject. args is not modified.
func (e *ArgsEditor) EditArgs(ctx context.Context, args, changes map[string]any) (map[string]any, error) {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if !slices.Contains(e.names, name) {
			return nil, fmt.Errorf("the argument %q cannot be changed: a person may change %s", name, strings.Join(e.names, ", "))
		}
	}
	edited := maps.Clone(args)
	if edited == nil {
		edited = map[string]any{}
	}
	maps.Copy(edited, changes)
	_, err := e.params.Check(ctx, edited)
	wrong := (*ArgsError)(nil)
	switch {
	case errors.As(err, &wrong) && len(wrong.Missing) > 0:
		return nil, fmt.Errorf("the changed arguments do not fit tool %s: missing %s", wrong.Tool, strings.Join(wrong.Missing, ", "))
	case errors.As(err, &wrong):
		return nil, fmt.Errorf("the changed arguments do not fit tool %s: %s", wrong.Tool, strings.Join(wrong.Wrong, "; "))
	}
	return edited, err
}
