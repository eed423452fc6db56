package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

type paramsConfig struct {
	P spec.ShortSchema `yaml:"p"`
}

type object = map[string]any

func objectSchema(properties object, required ...any) object {
	o := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func TestShortSchema(t *testing.T) {
	text, whole := object{"type": "string"}, object{"type": "integer"}
	tests := []struct {
		in   string
		want object
	}{
		{"{}", objectSchema(object{})},
		{"{id: string, n: integer, x: number, b: boolean, o: object, a: any}", objectSchema(object{
			"id": text, "n": whole, "x": object{"type": "number"},
			"b": object{"type": "boolean"}, "o": object{"type": "object"}, "a": object{},
		}, "id", "n", "x", "b", "o", "a")},
		{"{note: 'string?'}", objectSchema(object{"note": text})},
		{"{tags: [string], rows: [[integer]]}", objectSchema(object{
			"tags": object{"type": "array", "items": text},
			"rows": object{"type": "array", "items": object{"type": "array", "items": whole}},
		}, "tags", "rows")},
		{"{tier: {enum: [free, gold], default: free}}", objectSchema(object{
			"tier": object{"type": "string", "enum": []any{"free", "gold"}, "default": "free"},
		})},
		{"{n: {enum: [1, 2.5]}, m: {enum: [1, a], description: Either.}}", objectSchema(object{
			"n": object{"type": "number", "enum": []any{int64(1), 2.5}},
			"m": object{"enum": []any{int64(1), "a"}, "description": "Either."},
		}, "n", "m")},
		{"{who: {name: string, mail: 'string?'}}", objectSchema(object{"who": objectSchema(object{"name": text, "mail": text}, "name")}, "who")},
		{"{people: [{name: string}]}", objectSchema(object{
			"people": object{"type": "array", "items": objectSchema(object{"name": text}, "name")},
		}, "people")},
		{"{limit: {type: integer, minimum: 1, default: 5}}", objectSchema(object{
			"limit": object{"type": "integer", "minimum": int64(1), "default": int64(5)},
		})},
		{"{type: {enum: [a, b]}, properties: [string]}", objectSchema(object{
			"type":       object{"type": "string", "enum": []any{"a", "b"}},
			"properties": object{"type": "array", "items": text},
		}, "type", "properties")},
		{"{enum: string}", objectSchema(object{"enum": text}, "enum")},
		{"{type: object, properties: {a: {type: string}}, required: [a], additionalProperties: false}", object{
			"type": "object", "properties": object{"a": text}, "required": []any{"a"}, "additionalProperties": false,
		}},
		{"{properties: {a: {type: [string, 'null']}}}", object{
			"type": "object", "properties": object{"a": object{"type": []any{"string", "null"}}},
		}},
		{"{$defs: {a: {type: string}}, properties: {b: {$ref: '#/$defs/a'}, c: {items: true}}}", object{
			"type": "object", "$defs": object{"a": text},
			"properties": object{"b": object{"$ref": "#/$defs/a"}, "c": object{"items": true}},
		}},
		{"{$defs: {a: {$anchor: name, type: string}}, properties: {b: {$ref: '#name'}}}", object{
			"type": "object", "$defs": object{"a": object{"$anchor": "name", "type": "string"}},
			"properties": object{"b": object{"$ref": "#name"}},
		}},
		{"{anyOf: [{properties: {a: {x-order: 1}}}, {}], dependentRequired: {a: [b]}}", object{
			"type": "object", "anyOf": []any{object{"properties": object{"a": object{"x-order": int64(1)}}}, object{}},
			"dependentRequired": object{"a": []any{"b"}},
		}},
	}
	for _, test := range tests {
		t.Run(test.in, func(t *testing.T) {
			var v paramsConfig
			if ds := spec.Decode(parseValid(t, "p: "+test.in), &v); ds != nil {
				t.Fatalf("Decode(%s) = %v", test.in, ds)
			}
			if diff := cmp.Diff(test.want, v.P.JSON()); diff != "" {
				t.Errorf("JSON() of %s (-want +got):\n%s", test.in, diff)
			}
			compileSchema(t, v.P.JSON())
		})
	}
}

func TestShortSchema_Absent(t *testing.T) {
	var v paramsConfig
	if ds := spec.Decode(parseValid(t, "p:"), &v); ds != nil || v.P.JSON() != nil {
		t.Errorf("JSON() = %v, %v, want nil", v.P.JSON(), ds)
	}
}

// Each case lists a schema and its problems, with their hints after " -- ".
func TestShortSchema_Problems(t *testing.T) {
	types := " -- valid types: string, integer, number, boolean, object, any"
	tests := [][]string{
		{"string", "1:4: expected a mapping of fields to their types, got a string [type] -- write name: string, n: integer, tags: [string]"},
		{"[string]", "1:4: expected a mapping of fields to their types, got a list [type] -- write name: string, n: integer, tags: [string]"},
		{"{a: strng}", `1:8: unknown type "strng" [type] -- did you mean "string"?`},
		{"{a: int}", `1:8: unknown type "int" [type] -- did you mean "integer"?`},
		{"{a: Text}", `1:8: unknown type "Text" [type] -- did you mean "string"?`},
		{"{a: list}", `1:8: unknown type "list" [type] -- write a list of strings as [string]`},
		{"{a: banana}", `1:8: unknown type "banana" [type]` + types},
		{"{a: ''}", `1:8: unknown type "" [type]` + types},
		{"{a: 1}", "1:8: expected a type, got an integer [type]" + types},
		{"{a: }", "1:8: expected a type, got null [type]" + types},
		{"{a: []}", "1:8: a list must have one element type, got 0 [type] -- write [string], or {enum: [a, b]} for an enum"},
		{"{a: [string, integer]}", "1:8: a list must have one element type, got 2 [type] -- write [string], or {enum: [a, b]} for an enum"},
		{"{a: ['string?']}", "1:9: list elements cannot be optional [type]"},
		{"{a: {b: [{c: txt}]}}", `1:17: unknown type "txt" [type]` + types},
		{"{a: {enum: []}}", "1:15: enum must have at least one value [enum]"},
		{"{a: {enum: [b, ~]}}", "1:19: expected a string, a number or a boolean, got null [type]"},
		{"{a: {enum: [b, c, b]}}", `1:22: duplicate value "b" [enum]`},
		{"{a: {enum: [b], default: c}}", `1:29: the default "c" is not one of: b [schema-default]`},
		{"{a: {enum: [b], defualt: b}}", `1:20: unknown field "defualt" [unknown-field] -- did you mean "default"?`},
		{"{a: {enum: [b], description: 1}}", "1:33: expected a string, got an integer [type]"},
		{"{type: array}", `1:11: the schema must describe an object, got "array" [type]`},
		{"{type: objct}", `1:11: "objct" is not one of: string, integer, number, boolean, object, array, null [enum] -- did you mean "object"?`},
		{"{type: OBJECT}", `1:11: "OBJECT" is not one of: string, integer, number, boolean, object, array, null [enum] -- did you mean "object"?`},
		{"{type: string, name: string}", `1:11: the schema must describe an object, got "string" [type]`, `1:19: unknown JSON Schema keyword "name" [unknown-field] -- a mapping with "type:" or "properties:" is a JSON Schema; its fields go under properties:`},
		{"{type: object, requird: []}", `1:19: unknown JSON Schema keyword "requird" [unknown-field] -- did you mean "required"?`},
		{"{properties: {a: string}}", "1:21: expected a JSON Schema, got a string [type] -- short forms are not supported inside a JSON Schema: write {type: string}"},
		{"{properties: {a: {type: string, minLength: -1}}}", "1:47: expected a non-negative integer, got an integer [type]"},
		{"{properties: {a: {minimum: low}}}", "1:31: expected a number, got a string [type]"},
		{"{properties: {a: {nullable: 1}}}", "1:32: expected true or false, got an integer [type]"},
		{"{properties: {a: {title: [x]}}}", "1:29: expected a string, got a list [type]"},
		{"{type: object, $defs: {a: {$anchor: 1}}}", "1:40: expected a string, got an integer [type]"},
		{"{properties: {a: {pattern: '('}}}", "1:31: invalid regular expression: error parsing regexp: missing closing ): `(` [value]"},
		{"{properties: {a: {enum: b}}}", "1:28: expected a list, got a string [type]"},
		{"{properties: {a: {anyOf: {}}}}", "1:29: expected a list, got a mapping [type]"},
		{"{properties: {a: {type: {}}}}", "1:28: expected a type name, got a mapping [type]"},
		{"{properties: {a: {type: integer, default: x}}}", "1:46: the default must be of type integer, got a string [schema-default]"},
		{"{properties: {a: {enum: [b], default: c}}}", `1:42: the default "c" is not one of: b [schema-default]`},
		{"{properties: {a: {$ref: '#/$defs/x'}}}", `1:28: $ref #/$defs/x not found: no "$defs" [value]`},
		{"{anyOf: [{}], properties: {a: {$ref: '#/anyOf/0'}, b: {$ref: '#/anyOf/1'}}}", `1:65: $ref #/anyOf/1 not found: no "1" [value]`},
		{"{properties: {a: {type: object, default: []}}}", "1:45: the default must be of type object, got a list [schema-default]"},
		{"{properties: {a: {type: boolean, default: 1.5}}}", "1:46: the default must be of type boolean, got a number [schema-default]"},
		{"{properties: {a: {$ref: 'file:///etc/passwd'}}}", "1:28: $ref must point into the same schema [value] -- write #/$defs/NAME"},
		{"{properties: {a: {}}, required: [b]}", `1:37: warning: "b" is required but not defined under properties [schema-required]`},
		{"{properties: {a: {type: integer, minimum: 3, maximum: 2}}}", "1:46: warning: minimum 3 exceeds maximum 2: no value is valid [schema-range]"},
		{"{properties: {abc: {}}, required: [abd]}", `1:39: warning: "abd" is required but not defined under properties [schema-required] -- did you mean "abc"?`},
		{"{properties: {a: {}}, required: a}", "1:36: expected a list, got a string [type]"},
		{"{properties: {a: {properties: []}}}", "1:34: expected a mapping, got a list [type]"},
	}
	for _, test := range tests {
		var v paramsConfig
		var got []string
		for _, d := range spec.Decode(parseValid(t, "p: "+test[0]), &v) {
			line := strings.TrimPrefix(d.String(), "f.yaml:")
			if d.Hint != "" {
				line += " -- " + d.Hint
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(test[1:], got); diff != "" {
			t.Errorf("Decode(%s) (-want +got):\n%s", test[0], diff)
		}
	}
}
