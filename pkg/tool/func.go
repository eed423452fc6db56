package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
)

// FromFunc returns a tool that calls a Go function. In is a struct whose
// exported fields are the parameters: named by their json tags, described by
// their doc tags, optional if they are pointers or have omitempty or omitzero.
// Fields may be strings, booleans, numbers, [time.Time], any, and structs,
// slices, pointers and string maps of those. A struct without fields takes no
// parameters.
//
// Arguments that In does not declare are rejected. A result that is a JSON
// object is the response as it is, any other value becomes {"result": …}; a nil
// pointer or map becomes {"result": null}. fn must be safe for concurrent use.
// FromFunc returns an error if name or In cannot be declared.
func FromFunc[In, Out any](
	name, description string, fn func(context.Context, *Call, In) (Out, error),
) (Tool, error) {
	schema, err := structSchema(reflect.TypeFor[In]())
	if err != nil {
		return nil, fmt.Errorf("declaring tool %s: %w", name, err)
	}
	d, err := NewDeclared(name, description, schema)
	if err != nil {
		return nil, fmt.Errorf("declaring tool %s: %w", name, err)
	}
	return &funcTool[In, Out]{Declared: d, fn: fn}, nil
}

type funcTool[In, Out any] struct {
	*Declared
	fn func(context.Context, *Call, In) (Out, error)
}

// Run implements [Tool].
func (t *funcTool[In, Out]) Run(ctx context.Context, call *Call) (*Result, error) {
	call, err := t.CheckCall(call)
	if err != nil {
		return nil, err
	}
	in, err := decodeArgs[In](call.Args)
	if err != nil {
		return nil, fmt.Errorf("%s: decoding arguments: %w", t.decl.Name, err)
	}
	out, err := t.fn(ctx, call, in)
	if err != nil {
		return nil, err
	}
	v, err := convertToJSON(out)
	if err != nil {
		return nil, fmt.Errorf("%s: encoding result: %w", t.decl.Name, err)
	}
	return newResult(v), nil
}

func decodeArgs[In any](args map[string]any) (In, error) {
	var in In
	if args == nil {
		args = map[string]any{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return in, err
	}
	err = json.Unmarshal(raw, &in) // the schema has rejected arguments that In does not declare
	return in, err
}
