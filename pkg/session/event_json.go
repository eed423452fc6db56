package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"agenthost/pkg/model"
)

// emptyNode is the nodeInfo of all events outside of workflows.
const emptyNode = `{"path":""}`

// AppendEvent appends the event's JSON form to dst, as stored in databases and
// sent to clients: camelCase keys, empty fields omitted, no HTML escapes, no
// line feeds. It fails on values that JSON cannot represent, such as NaN, and
// then returns dst unchanged.
func AppendEvent(dst []byte, e *Event) ([]byte, error) { return Form{}.AppendEvent(dst, e) }

// provenanceKey is the JSON key of an event's provenance.
const provenanceKey = "provenance"

// AppendEvent is the function AppendEvent for this form.
func (f Form) AppendEvent(dst []byte, e *Event) ([]byte, error) {
	w := writer{b: dst, form: f}
	w.writeEvent(e)
	if w.err != nil {
		return dst, fmt.Errorf("encoding event %q: %w", e.ID, w.err)
	}
	return w.b, nil
}

// MarshalJSON is [AppendEvent] for encoding/json, which parses the result again
// and escapes HTML in it by default.
func (e *Event) MarshalJSON() ([]byte, error) { return AppendEvent(nil, e) }

// UnmarshalJSON decodes an event of any ADK version: keys in camelCase or
// snake_case, the timestamp as float seconds, integer milliseconds or RFC 3339,
// bytes in either base64 alphabet. Unknown fields of the event are kept in
// Extra under their camelCase names; unknown nested keys are ignored. Seq and
// Provenance are unchanged. A failure is a [FieldError].
func (e *Event) UnmarshalJSON(b []byte) error {
	r := reader{b: b}
	*e = Event{Seq: e.Seq, Provenance: e.Provenance}
	r.readEvent(e)
	return r.checkEnd()
}

// UnknownField returns a [FieldError] for the first nested key of an event's JSON
// form that UnmarshalJSON would ignore, or for invalid JSON. It returns nil if
// there is none.
func UnknownField(b []byte) error {
	r := reader{b: b, strict: true}
	r.readEvent(&Event{})
	return r.checkEnd()
}

// AppendSession appends the session's JSON form with its events to dst. It
// fails like [AppendEvent].
func AppendSession(dst []byte, s *Session) ([]byte, error) { return Form{}.AppendSession(dst, s) }

// AppendSession is the function AppendSession for this form.
func (f Form) AppendSession(dst []byte, s *Session) ([]byte, error) {
	var events []*Event
	if s.History != nil {
		events = s.Events()
	}
	return f.appendSession(dst, s, events)
}

// MarshalJSON is [AppendSession] for encoding/json.
func (s *Session) MarshalJSON() ([]byte, error) { return AppendSession(nil, s) }

// Head returns the session's JSON form for lists, with an empty list of events.
func (s *Session) Head() json.Marshaler { return sessionHead{s} }

type sessionHead struct{ s *Session }

func (h sessionHead) MarshalJSON() ([]byte, error) { return Form{}.appendSession(nil, h.s, nil) }

func (f Form) appendSession(dst []byte, s *Session, events []*Event) ([]byte, error) {
	w := writer{b: dst, form: f}
	w.openBracket('{')
	w.startField("id").writeString(s.ID)
	w.startField("appName").writeString(s.App)
	w.startField("userId").writeString(s.User)
	w.writeMapField("state", s.State.All())
	before := w.err
	w.startField("events").writeEvents(events)
	w.addErrorKey(before, "events")
	w.writeTimeField("lastUpdateTime", s.LastUpdate)
	w.closeBracket('}')
	if w.err != nil {
		return dst, fmt.Errorf("encoding session %s: %w", s.Key, w.err)
	}
	return w.b, nil
}

func (w *writer) writeEvents(es []*Event) {
	w.openBracket('[')
	for i, e := range es {
		before := w.err
		w.writeComma()
		w.writeEvent(e)
		w.addErrorIndex(before, i)
	}
	w.closeBracket(']')
}

// MarshalJSON encodes ADK's form; customMetadata is always present.
func (v ArtifactVersion) MarshalJSON() ([]byte, error) {
	var w writer
	w.openBracket('{')
	w.startField("version").writeInt(int64(v.Version))
	w.startField("canonicalUri").writeString(v.CanonicalURI)
	w.writeMapField("customMetadata", v.CustomMetadata)
	w.writeTimeField("createTime", v.Created)
	w.writeOptionalString("mimeType", v.MIMEType)
	w.closeBracket('}')
	if w.err != nil {
		return nil, fmt.Errorf("encoding artifact version %d: %w", v.Version, w.err)
	}
	return w.b, nil
}

func (w *writer) writeEvent(e *Event) {
	w.openBracket('{')
	w.writeResponse(&e.Response)
	w.startField("invocationId").writeString(e.InvocationID)
	w.startField("author").writeString(e.Author)
	w.writeOptional("actions", &e.Actions)
	w.writeNodeInfo(e)
	// An empty list means that none of the calls is answered later.
	if e.LongRunningToolIDs != nil || hasCall(e) {
		w.startField("longRunningToolIds").writeTyped(reflect.ValueOf(e.LongRunningToolIDs))
	}
	w.writeOptionalValue("output", e.Output)
	w.writeOptionalString("branch", e.Branch)
	w.startField("id").writeString(e.ID)
	w.writeTimeField("timestamp", e.Timestamp)
	w.writeExtraFields(e)
	if w.form.Provenance && e.Provenance != (Provenance{}) {
		w.startField(provenanceKey)
		w.b = e.Provenance.Append(w.b)
	}
	w.closeBracket('}')
}

// writeNodeInfo writes the path of the event's node. A nodeInfo with other
// fields is written back unchanged.
func (w *writer) writeNodeInfo(e *Event) {
	switch _, other := e.Extra["nodeInfo"]; {
	case other:
	case e.NodePath == "":
		w.startField("nodeInfo").writeLiteral(emptyNode)
	default:
		w.startField("nodeInfo").openBracket('{')
		w.startField("path").writeString(e.NodePath)
		w.closeBracket('}')
	}
}

func (w *writer) writeResponse(r *model.Response) {
	w.writeOptionalString("modelVersion", r.ModelVersion)
	w.writeOptional("content", r.Content)
	w.writeOptional("groundingMetadata", r.GroundingMetadata)
	w.writeOptionalFlag("partial", r.Partial)
	w.writeOptionalFlag("turnComplete", r.TurnComplete)
	w.writeOptionalString("finishReason", string(r.FinishReason))
	w.writeOptionalString("errorCode", r.ErrorCode)
	w.writeOptionalString("errorMessage", r.ErrorMessage)
	w.writeOptionalFlag("interrupted", r.Interrupted)
	if len(r.CustomMetadata) > 0 {
		w.writeMapField("customMetadata", r.CustomMetadata)
	}
	w.writeOptional("usageMetadata", r.UsageMetadata)
	w.writeOptional("inputTranscription", r.InputTranscription)
	w.writeOptional("outputTranscription", r.OutputTranscription)
	if r.AvgLogprobs != 0 {
		w.writeFloatField("avgLogprobs", r.AvgLogprobs)
	}
	w.writeOptional("logprobsResult", r.LogprobsResult)
	if r.CacheMetadata != nil {
		w.writeCacheMetadata(r.CacheMetadata)
	}
	w.writeOptional("citationMetadata", r.CitationMetadata)
}

// writeExtraFields writes unknown fields; known ones are written from the
// event.
func (w *writer) writeExtraFields(e *Event) {
	if len(e.Extra) == 0 {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(e.Extra)) {
		if e.fieldPointer(k) == nil && !(w.form.Provenance && k == provenanceKey) {
			before := w.err
			w.startEscapedField(k)
			w.writeRawJSON(e.Extra[k])
			w.addErrorKey(before, k)
		}
	}
}

func hasCall(e *Event) bool {
	if e.Content == nil {
		return false
	}
	for _, p := range e.Content.Parts {
		if p != nil && p.FunctionCall != nil {
			return true
		}
	}
	return false
}

func (r *reader) readEvent(e *Event) {
	r.readFields(
		func(name []byte) any { return e.fieldPointer(string(name)) },
		func(name []byte) { r.readExtraField(e, string(name)) },
	)
	if e.LongRunningToolIDs == nil && hasCall(e) {
		e.LongRunningToolIDs = []string{}
	}
}

// readExtraField keeps an unknown field unless it is null.
func (r *reader) readExtraField(e *Event, name string) {
	raw := compactJSON(r.readRawValue())
	if string(raw) == "null" || name == "nodeInfo" && e.readNodeInfo(raw) {
		return
	}
	if e.Extra == nil {
		e.Extra = map[string]json.RawMessage{}
	}
	e.Extra[name] = raw
}

// readNodeInfo decodes a nodeInfo that has only a path.
func (e *Event) readNodeInfo(raw []byte) bool {
	if string(raw) == emptyNode {
		return true
	}
	var info map[string]any
	if err := json.Unmarshal(raw, &info); err != nil || len(info) != 1 {
		return false
	}
	path, ok := info["path"].(string)
	e.NodePath = path
	return ok
}

// fieldPointer returns a pointer to the field with a JSON name, or nil for an
// unknown name.
func (e *Event) fieldPointer(name string) any {
	switch name {
	case "id":
		return &e.ID
	case "invocationId":
		return &e.InvocationID
	case "author":
		return &e.Author
	case "branch":
		return &e.Branch
	case "timestamp":
		return &e.Timestamp
	case "actions":
		return &e.Actions
	case "longRunningToolIds":
		return &e.LongRunningToolIDs
	case "output":
		return &e.Output
	case "content":
		return &e.Content
	case "partial":
		return &e.Partial
	case "turnComplete":
		return &e.TurnComplete
	case "interrupted":
		return &e.Interrupted
	case "finishReason":
		return &e.FinishReason
	case "errorCode":
		return &e.ErrorCode
	case "errorMessage":
		return &e.ErrorMessage
	case "modelVersion":
		return &e.ModelVersion
	case "usageMetadata":
		return &e.UsageMetadata
	case "groundingMetadata":
		return &e.GroundingMetadata
	case "citationMetadata":
		return &e.CitationMetadata
	case "inputTranscription":
		return &e.InputTranscription
	case "outputTranscription":
		return &e.OutputTranscription
	case "avgLogprobs":
		return &e.AvgLogprobs
	case "logprobsResult":
		return &e.LogprobsResult
	case "customMetadata":
		return &e.CustomMetadata
	case "cacheMetadata":
		return &e.CacheMetadata
	default:
		return nil
	}
}

// writeActions writes the four maps that every event has, and the other fields
// that are set.
func (w *writer) writeActions(a *Actions) {
	w.openBracket('{')
	w.writeOptionalFlag("skipSummarization", a.SkipSummarization)
	w.writeMapField("stateDelta", a.StateDelta)
	w.startField("artifactDelta").writeTypedMap(reflect.ValueOf(a.ArtifactDelta))
	w.writeOptionalString("transferToAgent", a.TransferToAgent)
	w.writeOptionalFlag("escalate", a.Escalate)
	w.writeMapField("requestedAuthConfigs", a.RequestedAuthConfigs)
	w.writeRequestedConfirmations(a)
	w.writeOptional("compaction", a.Compaction)
	w.writeOptionalFlag("endOfAgent", a.EndOfAgent)
	// An empty agent state is a checkpoint; nil is none.
	if a.AgentState != nil {
		w.writeMapField("agentState", a.AgentState)
	}
	w.writeOptionalString("rewindBeforeInvocationId", a.RewindBeforeInvocationID)
	w.writeOptionalValue("route", a.Route)
	if len(a.RenderUIWidgets) > 0 {
		before := w.err
		w.startField("renderUiWidgets").writeRawJSON(a.RenderUIWidgets)
		w.addErrorKey(before, "renderUiWidgets")
	}
	w.writeOptionalValue("setModelResponse", a.SetModelResponse)
	w.closeBracket('}')
}

func (w *writer) writeRequestedConfirmations(a *Actions) {
	before := w.err
	w.startField("requestedToolConfirmations").writeTypedMap(reflect.ValueOf(a.RequestedToolConfirmations))
	w.addErrorKey(before, "requestedToolConfirmations")
}

func (w *writer) writeConfirmation(c *Confirmation) {
	w.openBracket('{')
	w.startField("hint").writeString(c.Hint)
	w.startField("confirmed").writeValue(c.Confirmed)
	w.writeOptionalValue("payload", c.Payload)
	w.closeBracket('}')
}

func (w *writer) writeCompaction(c *Compaction) {
	w.openBracket('{')
	w.writeFloatField("startTimestamp", c.StartTimestamp)
	w.writeFloatField("endTimestamp", c.EndTimestamp)
	before := w.err
	w.startField("compactedContent").writePointer(reflect.ValueOf(c.CompactedContent))
	w.addErrorKey(before, "compactedContent")
	w.closeBracket('}')
}

// Append appends the JSON form to dst.
func (p Provenance) Append(dst []byte) []byte {
	w := writer{b: dst}
	w.openBracket('{')
	w.writeOptionalString("revision", p.Revision)
	w.writeOptionalFlag("imported", p.Imported)
	w.writeOptionalString("skipped", p.Skipped)
	w.writeOptionalString("rewindAfterEventId", p.RewindAfter)
	w.writeOptionalFlag("unverified", p.Unverified)
	w.closeBracket('}')
	return w.b
}

// DecodeProvenance decodes the output of Append.
func DecodeProvenance(text []byte) (p Provenance, err error) {
	if string(text) == "{}" {
		return p, nil
	}
	if err = json.Unmarshal(text, &p); err != nil {
		err = fmt.Errorf("decoding provenance: %w", err)
	}
	return p, err
}
