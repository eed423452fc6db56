package runtime

import (
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// StateSchemaConfig is the YAML of a state schema.
type StateSchemaConfig struct{ Schema *tool.StateSchema }

// DecodeSpec decodes a short schema or a JSON Schema of an object, whose keys may
// restrict their writers.
func (s *StateSchemaConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	var written spec.StateSchema
	if at := CodeRef(n); at != nil {
		return spec.Diagnostics{schemaCodeError(at)}
	}
	ds := written.DecodeSpec(n)
	if ds.HasErrors() {
		return ds
	}
	whole := written.JSON()
	properties, _ := whole["properties"].(map[string]any)
	for key, at := range written.Writers() {
		if _, known := session.ParseWriter(at.Value); !known {
			ds = append(ds, unknownWriterError(at))
			continue
		}
		if prop, ok := properties[key].(map[string]any); ok {
			prop["writable"] = at.Value
		}
	}
	if ds.HasErrors() {
		return ds
	}
	schema, err := tool.NewStateSchema(whole)
	if err != nil {
		return append(ds, n.Errorf("state-schema", "%s", err))
	}
	s.Schema = schema
	return ds
}

func unknownWriterError(at *spec.Node) spec.Diagnostic {
	d := at.Errorf("state-schema", "writable must be one of %s, got %q", strings.Join(session.WriterNames(), ", "), at.Value)
	if near := spec.Suggest(at.Value, session.WriterNames()); near != "" {
		d = d.WithHint("did you mean %q?", near)
	}
	return d
}

// SchemaSpec describes the forms.
func (s *StateSchemaConfig) SchemaSpec() map[string]any {
	forms := (&inputSchema{}).SchemaSpec()
	var names []any
	for _, name := range session.WriterNames() {
		names = append(names, name)
	}
	forms["additionalProperties"] = map[string]any{"properties": map[string]any{"writable": map[string]any{
		"enum":        names,
		"description": "Who can write the key: client (the default) means everyone, agent the app's agents, tools and callbacks and administrators, admin only administrators.",
	}}}
	return forms
}

// CheckWriter returns an error for the first key of a delta that the
// state_schema does not let the writer write.
func (a *App) CheckWriter(w session.Writer, delta map[string]any) error {
	if err := a.state.CheckWriter(w, delta); err != nil {
		return failf(CodeForbidden, err, "%s", err)
	}
	return nil
}

// Writable returns the least trusted writer of a state key, and whether the app's
// state_schema declares it.
func (a *App) Writable(key string) (by session.Writer, declared bool) { return a.state.Writable(key) }

// lookupState returns the value of a state key, or its default.
func (r *run) lookupState(key string) (any, bool) {
	if v, ok := r.sess.State.Get(key); ok {
		return v, true
	}
	return r.app.state.Default(key)
}

// stateWithDefaults returns a copy of the state with defaults for missing keys.
func (r *run) stateWithDefaults() map[string]any {
	all := r.sess.State.All()
	r.app.state.AddDefaults(all)
	return all
}

// storeOutputValue sets the agent's output key to an answer. If the value does not
// match the type of the key, it makes ev an error event.
func (a *LLMAgent) storeOutputValue(s *tool.StateSchema, ev *session.Event, v any) *RunError {
	checked, err := s.Check(a.opts.OutputKey, v)
	if err != nil {
		return rejectOutput(ev, err, "the answer of agent %s cannot be stored: %s", a.AgentName, err)
	}
	ev.Actions.SetState(a.opts.OutputKey, checked)
	return nil
}

// rejectOutput makes ev an error event, unless it already is one.
func rejectOutput(ev *session.Event, err error, format string, args ...any) *RunError {
	failure := failf(CodeOutputInvalid, err, format, args...)
	if ev.ErrorCode == "" {
		ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
	}
	return failure
}

// checkWrites rejects all writes of a tool call if one of them violates the state
// schema.
func (s *step) checkWrites(actions *session.Actions) error {
	err := s.inv.run.app.state.CheckDelta(actions.StateDelta)
	if err != nil {
		*actions = session.Actions{ArtifactDelta: actions.ArtifactDelta}
	}
	return err
}
