package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"agenthost/pkg/model"
)

// emptyNode is the nodeInfo of every event that is not part of a workflow.
const emptyNode = `{"path":""}`

// AppendEvent appends the event's JSON form to dst, the one that databases keep
// and clients see: camelCase keys, empty fields absent, no HTML escapes, no
// line feeds. It fails on values that JSON cannot say, such as NaN; dst is then
// returned as it was.
func AppendEvent(dst []byte, e *Event) ([]byte, error) { return Form{}.AppendEvent(dst, e) }

// A Form is a choice of what the JSON forms of events and sessions hold. The zero
// value is ADK's.
type Form struct {
	// Provenance adds what the host knows about an event, under that name.
	Provenance bool
}

// provenanceKey is the key of an event's provenance, in a Form that has it.
const provenanceKey = "provenance"

// AppendEvent is the function of that name, in this form.
func (f Form) AppendEvent(dst []byte, e *Event) ([]byte, error) {
	w := writer{b: dst, form: f}
	w.event(e)
	if w.err != nil {
		return dst, fmt.Errorf("writing event %q: %w", e.ID, w.err)
	}
	return w.b, nil
}

// MarshalJSON is [AppendEvent] for encoding/json, which reads the answer once
// more and escapes HTML in it unless told not to.
func (e *Event) MarshalJSON() ([]byte, error) { return AppendEvent(nil, e) }

// UnmarshalJSON reads an event as any ADK writes it: keys in camelCase or
// snake_case, the timestamp as float seconds, integer milliseconds or RFC 3339,
// bytes in either base64 alphabet. Fields that an event does not have are kept
// in Extra under their camelCase names; unknown keys further inside are
// ignored. Seq and Provenance stay as they are. A failure is a [FieldError].
func (e *Event) UnmarshalJSON(b []byte) error {
	r := reader{b: b}
	*e = Event{Seq: e.Seq, Provenance: e.Provenance}
	r.event(e)
	return r.end()
}

// Overlooked says which key of an event's JSON form UnmarshalJSON would pass
// over in silence: the first that is further inside, where this version knows
// all keys. It is nil when there is none, and a [FieldError] too when the text
// is no event.
func Overlooked(b []byte) error {
	r := reader{b: b, strict: true}
	r.event(&Event{})
	return r.end()
}

// AppendSession appends the session's JSON form with its events to dst. It
// fails as [AppendEvent] does.
func AppendSession(dst []byte, s *Session) ([]byte, error) { return Form{}.AppendSession(dst, s) }

// AppendSession is the function of that name, in this form.
func (f Form) AppendSession(dst []byte, s *Session) ([]byte, error) {
	var events []*Event
	if s.History != nil {
		events = s.Events()
	}
	return f.appendSession(dst, s, events)
}

// MarshalJSON is [AppendSession] for encoding/json.
func (s *Session) MarshalJSON() ([]byte, error) { return AppendSession(nil, s) }

// Head is the session as it stands in lists: its JSON form has an empty list
// of events.
func (s *Session) Head() json.Marshaler { return head{s} }

type head struct{ s *Session }

func (h head) MarshalJSON() ([]byte, error) { return Form{}.appendSession(nil, h.s, nil) }

func (f Form) appendSession(dst []byte, s *Session, events []*Event) ([]byte, error) {
	w := writer{b: dst, form: f}
	w.open('{')
	w.field("id").text(s.ID)
	w.field("appName").text(s.App)
	w.field("userId").text(s.User)
	w.member("state", s.State.All())
	before := w.err
	w.field("events").events(events)
	w.inKey(before, "events")
	w.timeField("lastUpdateTime", s.LastUpdate)
	w.close('}')
	if w.err != nil {
		return dst, fmt.Errorf("writing session %s: %w", s.Key, w.err)
	}
	return w.b, nil
}

func (w *writer) events(es []*Event) {
	w.open('[')
	for i, e := range es {
		before := w.err
		w.comma()
		w.event(e)
		w.inItem(before, i)
	}
	w.close(']')
}

// MarshalJSON writes ADK's form; customMetadata is always there.
func (v ArtifactVersion) MarshalJSON() ([]byte, error) {
	var w writer
	w.open('{')
	w.field("version").int(int64(v.Version))
	w.field("canonicalUri").text(v.CanonicalURI)
	w.member("customMetadata", v.CustomMetadata)
	w.timeField("createTime", v.Created)
	w.optionalText("mimeType", v.MIMEType)
	w.close('}')
	if w.err != nil {
		return nil, fmt.Errorf("writing artifact version %d: %w", v.Version, w.err)
	}
	return w.b, nil
}

func (w *writer) event(e *Event) {
	w.open('{')
	w.response(&e.Response)
	w.field("invocationId").text(e.InvocationID)
	w.field("author").text(e.Author)
	w.optional("actions", &e.Actions)
	w.nodeInfo(e)
	// A list without ids says that none of the calls is answered later.
	if e.LongRunningToolIDs != nil || hasCall(e) {
		w.field("longRunningToolIds").typed(reflect.ValueOf(e.LongRunningToolIDs))
	}
	w.optionalValue("output", e.Output)
	w.optionalText("branch", e.Branch)
	w.field("id").text(e.ID)
	w.timeField("timestamp", e.Timestamp)
	w.extra(e)
	if w.form.Provenance && e.Provenance != (Provenance{}) {
		w.field(provenanceKey)
		w.b = e.Provenance.Append(w.b)
	}
	w.close('}')
}

// nodeInfo writes the path of the event's node; whatever else another version
// says of the node is written as it came.
func (w *writer) nodeInfo(e *Event) {
	switch _, other := e.Extra["nodeInfo"]; {
	case other:
	case e.NodePath == "":
		w.field("nodeInfo").literal(emptyNode)
	default:
		w.field("nodeInfo").open('{')
		w.field("path").text(e.NodePath)
		w.close('}')
	}
}

func (w *writer) response(r *model.Response) {
	w.optionalText("modelVersion", r.ModelVersion)
	w.optional("content", r.Content)
	w.optional("groundingMetadata", r.GroundingMetadata)
	w.flag("partial", r.Partial)
	w.flag("turnComplete", r.TurnComplete)
	w.optionalText("finishReason", string(r.FinishReason))
	w.optionalText("errorCode", r.ErrorCode)
	w.optionalText("errorMessage", r.ErrorMessage)
	w.flag("interrupted", r.Interrupted)
	if len(r.CustomMetadata) > 0 {
		w.member("customMetadata", r.CustomMetadata)
	}
	w.optional("usageMetadata", r.UsageMetadata)
	w.optional("inputTranscription", r.InputTranscription)
	w.optional("outputTranscription", r.OutputTranscription)
	if r.AvgLogprobs != 0 {
		w.floatField("avgLogprobs", r.AvgLogprobs)
	}
	w.optional("logprobsResult", r.LogprobsResult)
	if r.CacheMetadata != nil {
		w.cacheMetadata(r.CacheMetadata)
	}
	w.optional("citationMetadata", r.CitationMetadata)
}

// extra writes the fields that this version does not know; what it knows comes
// from the event itself.
func (w *writer) extra(e *Event) {
	if len(e.Extra) == 0 {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(e.Extra)) {
		if e.place(k) == nil && !(w.form.Provenance && k == provenanceKey) {
			before := w.err
			w.key(k)
			w.raw(e.Extra[k])
			w.inKey(before, k)
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

func (r *reader) event(e *Event) {
	r.fields(
		func(name []byte) any { return e.place(string(name)) },
		func(name []byte) { r.extra(e, string(name)) },
	)
	if e.LongRunningToolIDs == nil && hasCall(e) {
		e.LongRunningToolIDs = []string{}
	}
}

// extra keeps a field that this version does not know, unless it says nothing.
func (r *reader) extra(e *Event, name string) {
	raw := compact(r.raw())
	if string(raw) == "null" || name == "nodeInfo" && e.readNodeInfo(raw) {
		return
	}
	if e.Extra == nil {
		e.Extra = map[string]json.RawMessage{}
	}
	e.Extra[name] = raw
}

// readNodeInfo takes over a nodeInfo that has nothing but a path.
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

// place returns where the field of that name in the JSON form is kept, or nil
// for a name that is not known. A flat list.
func (e *Event) place(name string) any {
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
