package toolconfig

import (
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// BuiltinConfig is the config for a built-in tool that runs in this process.
type BuiltinConfig struct {
	Call CallConfig `yaml:",inline"`
}

// A Declarer is the tool part that declares it to the model. Tools embed it.
type Declarer struct{ Decl *genai.FunctionDeclaration }

// Declaration implements [tool.Tool].
func (d Declarer) Declaration() *genai.FunctionDeclaration { return d.Decl }

// NewDeclarer declares a tool with a JSON Schema for its parameters, nil for none.
func NewDeclarer(name, description string, schema map[string]any) Declarer {
	decl := &genai.FunctionDeclaration{Name: name, Description: description}
	if schema != nil {
		decl.ParametersJsonSchema = schema
	}
	return Declarer{decl}
}

// AddPendingNote appends the note for long-running tools to the description.
func (d Declarer) AddPendingNote() { d.Decl.Description = tool.WithPendingNote(d.Decl.Description) }

// StringListSchema returns the JSON Schema for a list of strings.
func StringListSchema(description string) map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": description}
}

var _ tool.StateConfig = (*BuiltinConfig)(nil)

// A CallConfig is the YAML for the call settings of built-in tools and agent tools.
type CallConfig struct {
	OnError string        `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	Timeout spec.Duration `yaml:"timeout" doc:"Maximum call duration."`
	Confirm ConfirmConfig `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, run_config, invocation and agent. A mapping of when and edit also lists the arguments that the person may change."`
}

// Capabilities returns the settings for a tool with this declaration. The error
// is a [spec.Diagnostics].
func (c *CallConfig) Capabilities(decl *genai.FunctionDeclaration) (tool.Capabilities, error) {
	all := tool.Capabilities{Timeout: time.Duration(c.Timeout), FailOnError: c.OnError == "fail"}
	params, err := declare.Params(decl)
	if err != nil {
		return all, spec.Diagnostics{c.Confirm.When.Errorf(0, "tool", "%s", err)}
	}
	read := Compiler{Params: params}
	read.SetConfirm(&all, &c.Confirm, decl.Name)
	return all, read.diagnostics.Err()
}

// StateUse returns how the confirmation condition uses the state.
func (c *BuiltinConfig) StateUse(*spec.Node) tool.StateUse { return ConfirmUse(c.Call.Confirm.When) }

// ObjectSchema returns the JSON Schema for an object with these properties.
func ObjectSchema(props map[string]any, required ...any) map[string]any {
	schema := map[string]any{"type": "object", "properties": props}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}
