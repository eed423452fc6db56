// Package declare declares tools: a Go function with [Func], or parameters in JSON Schema with
// [Tool]. It compiles the schemas that they, agents and sessions need. The runtime validates by
// compiled schemas and does not import it.
package declare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/jsonschema"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// maxNameBytes is Gemini's limit for tool names.
const maxNameBytes = 128

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.:-]*$`)

// Tool declares a tool with its parameters' JSON Schema. A tool that takes no arguments declares no
// parameters.
func Tool(name, description string, schema map[string]any) (*tool.Declared, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if len(schema) == 0 {
		schema = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	decl := &genai.FunctionDeclaration{Name: name, Description: description, ParametersJsonSchema: schema}
	params, err := Params(decl)
	if err != nil {
		return nil, err
	}
	return tool.NewDeclared(decl, params), nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("tool name is required")
	case len(name) > maxNameBytes:
		return fmt.Errorf("tool name %q exceeds the limit of %d bytes", name, maxNameBytes)
	case !validName.MatchString(name):
		return fmt.Errorf("tool name %q must start with a letter or _, followed by letters, digits and _ . : -", name)
	}
	return nil
}

// Params compiles a declaration's parameters from ParametersJsonSchema, or else from Parameters. A
// declaration with neither accepts any arguments. The error reports an invalid schema; references
// outside the schema are rejected.
func Params(decl *genai.FunctionDeclaration) (*tool.Params, error) {
	decoded, err := tool.DecodeParams(decl)
	if err != nil {
		return nil, err
	}
	if decoded == nil {
		return (*tool.Schema)(nil).Params(decl.Name), nil
	}
	schema, err := compileSchema(decoded, decoded)
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", decl.Name, err)
	}
	return schema.Params(decl.Name), nil
}

// CheckArgs checks the arguments of one call against a declaration. See [tool.Params.Check];
// reusing [Params] is faster.
func CheckArgs(ctx context.Context, decl *genai.FunctionDeclaration, args map[string]any) (map[string]any, error) {
	p, err := Params(decl)
	if err != nil {
		return nil, err
	}
	return p.Check(ctx, args)
}

// Schema compiles a JSON Schema. References outside the schema are rejected.
func Schema(schema map[string]any) (*tool.Schema, error) {
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var decoded map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // keeps the digits
	if err := d.Decode(&decoded); err != nil {
		return nil, err
	}
	return compileSchema(schema, decoded)
}

func compileSchema(source, decoded map[string]any) (*tool.Schema, error) {
	normal := jsonschema.Normalize(decoded)
	compiled, err := jsonschema.Compile(normal)
	if err != nil {
		return nil, err
	}
	return tool.NewSchema(source, normal, compiled, Schema), nil
}

// StateSchema compiles a session state's JSON Schema, an object whose properties are the keys;
// `writable` in a property restricts who may write the key.
func StateSchema(schema map[string]any) (*tool.StateSchema, error) {
	properties := asMap(schema["properties"])
	// The schema of each key includes all definitions.
	all := jsonschema.CountParts(schema["properties"]) + len(properties)*(jsonschema.CountParts(schema["$defs"])+jsonschema.CountParts(schema["definitions"]))
	if all > jsonschema.MaxParts {
		return nil, fmt.Errorf("the keys and their definitions have %d objects and lists, which exceeds the limit of %d", all, jsonschema.MaxParts)
	}
	keys, writers := map[string]*tool.Schema{}, map[string]session.Writer{}
	for key, prop := range properties {
		prop := copyDefinitions(asMap(prop), schema)
		writer, restricted, err := cutWriter(key, prop)
		if err != nil {
			return nil, err
		}
		if restricted {
			writers[key] = writer
		}
		if restricted && len(prop) == 0 {
			keys[key] = nil // only its writer is declared
			continue
		}
		if keys[key], err = Schema(prop); err != nil {
			return nil, fmt.Errorf("the key %s: %w", key, err)
		}
	}
	return tool.NewStateSchema(keys, writers), nil
}

// cutWriter removes a key's least trusted writer from its schema. restricted is false if there is
// none.
func cutWriter(key string, prop map[string]any) (w session.Writer, restricted bool, err error) {
	scope, _ := session.ScopeOf(key)
	if scope == session.ScopeSession && strings.Contains(key, ":") {
		return 0, false, fmt.Errorf("the prefix of the key %s must be one of user:, app: and temp:, or none", key)
	}
	name, restricted := prop["writable"]
	if !restricted {
		return 0, false, nil
	}
	w, known := session.ParseWriter(fmt.Sprint(name))
	if !known {
		return 0, false, fmt.Errorf("the key %s: writable must be one of %s, got %v", key, strings.Join(session.WriterNames(), ", "), name)
	}
	delete(prop, "writable")
	return w, true, nil
}

// copyDefinitions returns part with whole's definitions.
func copyDefinitions(part, whole map[string]any) map[string]any {
	with := maps.Clone(part)
	if with == nil {
		with = map[string]any{}
	}
	for _, name := range []string{"$defs", "definitions"} {
		if defs, ok := whole[name]; ok {
			with[name] = defs
		}
	}
	return with
}

func asMap(v any) map[string]any { m, _ := v.(map[string]any); return m }
