package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A Form selects the fields in the JSON forms of events and sessions. The zero value is ADK's
// form.
type Form struct {
	// Provenance adds event provenance.
	Provenance bool
	// internal keeps the customMetadata keys that begin with [InternalMetadataPrefix].
	internal bool
}

// InternalMetadataPrefix begins the customMetadata keys that ADK reserves for its own
// components. Databases keep them; clients can neither set nor read them.
const InternalMetadataPrefix = "__adk_internal_"

// PublicMetadata returns m without the keys that begin with [InternalMetadataPrefix]. It
// does not change m, and returns m itself if there are none.
func PublicMetadata(m map[string]any) map[string]any {
	for key := range m {
		if isInternalKey(key) {
			public := maps.Clone(m)
			maps.DeleteFunc(public, func(key string, _ any) bool { return isInternalKey(key) })
			return public
		}
	}
	return m
}

func isInternalKey(key string) bool { return strings.HasPrefix(key, InternalMetadataPrefix) }

// emptyNode is the nodeInfo in all events outside workflows.
const emptyNode = `{"path":""}`

// AppendEvent appends the event's JSON form to dst, as stored in databases: camelCase
// keys, empty fields omitted, no HTML escapes, no line feeds. It fails on values that
// JSON cannot represent, such as NaN, and then returns dst unchanged.
func AppendEvent(dst []byte, e *Event) ([]byte, error) {
	return Form{internal: true}.AppendEvent(dst, e)
}

// provenanceKey is the JSON key for an event's provenance.
const provenanceKey = "provenance"

// AppendEvent is the function AppendEvent for clients: in this form, and without the
// customMetadata keys that begin with [InternalMetadataPrefix].
func (f Form) AppendEvent(dst []byte, e *Event) ([]byte, error) {
	w := encoders.Get().(*adkjson.Encoder)
	*w = adkjson.Encoder{Buf: dst, WriteCustom: writeCustom}
	f.writeEvent(w, e)
	text, err := w.Buf, w.Err
	*w = adkjson.Encoder{}
	encoders.Put(w)
	if err != nil {
		return dst, fmt.Errorf("encoding event %q: %w", e.ID, (*FieldError)(err))
	}
	return text, nil
}

// encoders are for events, the most frequent values. An encoder is always on the heap,
// because it passes itself to a function value.
var encoders = sync.Pool{New: func() any { return new(adkjson.Encoder) }}

// MarshalJSON is [Form.AppendEvent] for encoding/json, which parses the result again
// and escapes HTML in it by default.
func (e *Event) MarshalJSON() ([]byte, error) { return Form{}.AppendEvent(nil, e) }

// UnmarshalJSON decodes an event from any ADK version: keys in camelCase or snake_case, the
// timestamp as float seconds, integer milliseconds or RFC 3339, bytes in either base64
// alphabet. Unknown event fields are kept in Extra under their camelCase names; unknown
// nested keys are ignored. Seq and Provenance are unchanged. A failure is a [FieldError].
func (e *Event) UnmarshalJSON(b []byte) error {
	r := newDecoder(b)
	*e = Event{Seq: e.Seq, Provenance: e.Provenance}
	readEvent(r, e)
	return checkEnd(r)
}

// UnknownField returns a [FieldError] for the first nested key in an event's JSON form that
// UnmarshalJSON would ignore, or for invalid JSON. It returns nil if there is none.
func UnknownField(b []byte) error {
	r := newStrictDecoder(b)
	readEvent(r, &Event{})
	return checkEnd(r)
}

// AppendSession appends the session's JSON form with its events to dst, for clients. It
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

// Head returns the session's JSON form for lists, with an empty event list.
func (s *Session) Head() json.Marshaler { return sessionHead{s} }

type sessionHead struct{ s *Session }

func (h sessionHead) MarshalJSON() ([]byte, error) { return Form{}.appendSession(nil, h.s, nil) }

func (f Form) appendSession(dst []byte, s *Session, events []*Event) ([]byte, error) {
	w := newEncoder(dst)
	w.OpenBracket('{')
	w.StartField("id").WriteString(s.ID)
	w.StartField("appName").WriteString(s.App)
	w.StartField("userId").WriteString(s.User)
	w.WriteMapField("state", s.State.All())
	before := w.Err
	w.StartField("events")
	w.OpenBracket('[')
	for i, e := range events {
		valid := w.Err
		w.WriteComma()
		f.writeEvent(w, e)
		w.AddErrorIndex(valid, i)
	}
	w.CloseBracket(']')
	w.AddErrorKey(before, "events")
	w.WriteTimeField("lastUpdateTime", s.LastUpdate)
	w.CloseBracket('}')
	if w.Err != nil {
		return dst, fmt.Errorf("encoding session %s: %w", s.Key, (*FieldError)(w.Err))
	}
	return w.Buf, nil
}

// MarshalJSON encodes ADK's form; customMetadata is always present.
func (v ArtifactVersion) MarshalJSON() ([]byte, error) {
	w := newEncoder(nil)
	w.OpenBracket('{')
	w.StartField("version").WriteInt(int64(v.Version))
	w.StartField("canonicalUri").WriteString(v.CanonicalURI)
	w.WriteMapField("customMetadata", v.CustomMetadata)
	w.WriteTimeField("createTime", v.Created)
	w.WriteOptionalString("mimeType", v.MIMEType)
	w.CloseBracket('}')
	if w.Err != nil {
		return nil, fmt.Errorf("encoding artifact version %d: %w", v.Version, (*FieldError)(w.Err))
	}
	return w.Buf, nil
}

func (f Form) writeEvent(w *adkjson.Encoder, e *Event) {
	w.OpenBracket('{')
	f.writeResponse(w, &e.Response)
	w.StartField("invocationId").WriteString(e.InvocationID)
	w.StartField("author").WriteString(e.Author)
	w.WriteOptional("actions", &e.Actions)
	writeNodeInfo(w, e)
	// An empty list means that no call is answered later.
	if e.LongRunningToolIDs != nil || hasCall(e) {
		w.StartField("longRunningToolIds").WriteTyped(reflect.ValueOf(e.LongRunningToolIDs))
	}
	w.WriteOptionalValue("output", e.Output)
	w.WriteOptionalString("branch", e.Branch)
	w.WriteOptionalString("isolationScope", e.IsolationScope)
	w.StartField("id").WriteString(e.ID)
	w.WriteTimeField("timestamp", e.Timestamp)
	f.writeExtraFields(w, e)
	if f.Provenance && e.Provenance != (Provenance{}) {
		w.StartField(provenanceKey)
		w.Buf = e.Provenance.Append(w.Buf)
	}
	w.CloseBracket('}')
}

// writeNodeInfo writes the event's node path. A nodeInfo with other fields is written back
// unchanged.
func writeNodeInfo(w *adkjson.Encoder, e *Event) {
	switch _, other := e.Extra["nodeInfo"]; {
	case other:
	case e.NodePath == "":
		w.StartField("nodeInfo").WriteLiteral(emptyNode)
	default:
		w.StartField("nodeInfo").OpenBracket('{')
		w.StartField("path").WriteString(e.NodePath)
		if len(e.OutputFor) > 0 {
			w.StartField("outputFor").WriteTyped(reflect.ValueOf(e.OutputFor))
		}
		w.WriteOptionalFlag("messageAsOutput", e.MessageAsOutput)
		w.CloseBracket('}')
	}
}

func (f Form) writeResponse(w *adkjson.Encoder, r *model.Response) {
	w.WriteOptionalString("modelVersion", r.ModelVersion)
	w.WriteOptional("content", r.Content)
	w.WriteOptional("groundingMetadata", r.GroundingMetadata)
	// Like ADK, false is written for the complete form when a live model sent it in chunks.
	if r.Partial || completesChunks(r) {
		w.StartField("partial").WriteValue(r.Partial)
	}
	w.WriteOptionalFlag("turnComplete", r.TurnComplete)
	w.WriteOptionalString("finishReason", string(r.FinishReason))
	w.WriteOptionalString("errorCode", r.ErrorCode)
	w.WriteOptionalString("errorMessage", r.ErrorMessage)
	w.WriteOptionalFlag("interrupted", r.Interrupted)
	metadata := r.CustomMetadata
	if !f.internal {
		metadata = PublicMetadata(metadata)
	}
	if len(metadata) > 0 {
		w.WriteMapField("customMetadata", metadata)
	}
	w.WriteOptional("usageMetadata", r.UsageMetadata)
	writeTranscription(w, "inputTranscription", r.InputTranscription, r.Partial)
	writeTranscription(w, "outputTranscription", r.OutputTranscription, r.Partial)
	if r.AvgLogprobs != 0 {
		w.WriteFloatField("avgLogprobs", r.AvgLogprobs)
	}
	w.WriteOptional("logprobsResult", r.LogprobsResult)
	if r.CacheMetadata != nil {
		writeCacheMetadata(w, r.CacheMetadata)
	}
	w.WriteOptional("citationMetadata", r.CitationMetadata)
	w.WriteOptionalString("turnCompleteReason", r.TurnCompleteReason)
	w.WriteOptionalString("liveSessionId", r.LiveSessionID)
	w.WriteOptional("liveSessionResumptionUpdate", r.Resumption)
	w.WriteOptional("voiceActivity", r.VoiceActivity)
}

// completesChunks reports whether a live response repeats its chunks as a whole: a
// transcript, or the merged text, which has no model version.
func completesChunks(r *model.Response) bool {
	if t := cmp.Or(r.InputTranscription, r.OutputTranscription); t != nil && r.Content == nil {
		return t.Finished
	}
	return r.LiveSessionID != "" && r.ModelVersion == "" && r.Content != nil &&
		r.Content.Role == genai.RoleModel && len(r.Content.Parts) == 1 && r.Content.Parts[0].Text != ""
}

// writeTranscription writes a transcription. A chunk has finished: false, as in ADK.
func writeTranscription(w *adkjson.Encoder, name string, t *genai.Transcription, partial bool) {
	if t == nil {
		return
	}
	w.WriteOptional(name, t)
	if end := len(w.Buf) - 1; partial && !t.Finished && t.Text != "" && w.Err == nil {
		w.Buf = append(w.Buf[:end], `,"finished":false}`...)
	}
}

// writeExtraFields writes unknown fields; known ones are written from the
// event.
func (f Form) writeExtraFields(w *adkjson.Encoder, e *Event) {
	if len(e.Extra) == 0 {
		return
	}
	for _, k := range slices.Sorted(maps.Keys(e.Extra)) {
		if e.fieldPointer(k) == nil && !(f.Provenance && k == provenanceKey) {
			before := w.Err
			w.StartEscapedField(k)
			w.WriteRawJSON(e.Extra[k])
			w.AddErrorKey(before, k)
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

func readEvent(r *adkjson.Decoder, e *Event) {
	r.ReadFields(
		func(name []byte) any { return e.fieldPointer(string(name)) },
		func(_, name []byte) { readExtraField(r, e, string(name)) },
	)
	if e.LongRunningToolIDs == nil && hasCall(e) {
		e.LongRunningToolIDs = []string{}
	}
}

// readExtraField keeps an unknown field unless it is null.
func readExtraField(r *adkjson.Decoder, e *Event, name string) {
	raw := adkjson.CompactJSON(r.ReadRawValue())
	if string(raw) == "null" || name == "nodeInfo" && e.readNodeInfo(raw) {
		return
	}
	if e.Extra == nil {
		e.Extra = map[string]json.RawMessage{}
	}
	e.Extra[name] = raw
}

// readNodeInfo decodes a nodeInfo without unknown fields.
func (e *Event) readNodeInfo(raw []byte) bool {
	if string(raw) == emptyNode {
		return true
	}
	var info struct {
		Path            string   `json:"path"`
		OutputFor       []string `json:"outputFor"`
		MessageAsOutput bool     `json:"messageAsOutput"`
		// adk-python keeps its events in snake_case.
		SnakeOutputFor       []string `json:"output_for"`
		SnakeMessageAsOutput bool     `json:"message_as_output"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&info); err != nil || info.Path == "" {
		return false
	}
	e.NodePath, e.OutputFor = info.Path, append(info.OutputFor, info.SnakeOutputFor...)
	e.MessageAsOutput = info.MessageAsOutput || info.SnakeMessageAsOutput
	return true
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
	case "isolationScope":
		return &e.IsolationScope
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
	case "turnCompleteReason":
		return &e.TurnCompleteReason
	case "liveSessionId":
		return &e.LiveSessionID
	case "liveSessionResumptionUpdate":
		return &e.Resumption
	case "voiceActivity":
		return &e.VoiceActivity
	default:
		return nil
	}
}

// writeActions writes the four maps that every event has, and the other fields
// that are set.
func writeActions(w *adkjson.Encoder, a *Actions) {
	w.OpenBracket('{')
	w.WriteOptionalFlag("skipSummarization", a.SkipSummarization)
	w.WriteMapField("stateDelta", a.StateDelta)
	w.StartField("artifactDelta").WriteTypedMap(reflect.ValueOf(a.ArtifactDelta))
	w.WriteOptionalString("transferToAgent", a.TransferToAgent)
	w.WriteOptionalFlag("escalate", a.Escalate)
	w.WriteMapField("requestedAuthConfigs", a.RequestedAuthConfigs)
	before := w.Err
	w.StartField("requestedToolConfirmations").WriteTypedMap(reflect.ValueOf(a.RequestedToolConfirmations))
	w.AddErrorKey(before, "requestedToolConfirmations")
	w.WriteOptional("compaction", a.Compaction)
	w.WriteOptionalFlag("endOfAgent", a.EndOfAgent)
	// An empty agent state is a checkpoint; nil is none.
	if a.AgentState != nil {
		w.WriteMapField("agentState", a.AgentState)
	}
	w.WriteOptionalString("rewindBeforeInvocationId", a.RewindBeforeInvocationID)
	w.WriteOptionalValue("route", a.Route)
	if len(a.RenderUIWidgets) > 0 {
		before := w.Err
		w.StartField("renderUiWidgets").WriteRawJSON(a.RenderUIWidgets)
		w.AddErrorKey(before, "renderUiWidgets")
	}
	w.WriteOptionalValue("setModelResponse", a.SetModelResponse)
	w.CloseBracket('}')
}

func writeConfirmation(w *adkjson.Encoder, c *Confirmation) {
	w.OpenBracket('{')
	w.StartField("hint").WriteString(c.Hint)
	w.StartField("confirmed").WriteValue(c.Confirmed)
	w.WriteOptionalValue("payload", c.Payload)
	w.CloseBracket('}')
}

func writeCompaction(w *adkjson.Encoder, c *Compaction) {
	w.OpenBracket('{')
	w.WriteFloatField("startTimestamp", c.StartTimestamp)
	w.WriteFloatField("endTimestamp", c.EndTimestamp)
	before := w.Err
	w.StartField("compactedContent").WritePointer(reflect.ValueOf(c.CompactedContent))
	w.AddErrorKey(before, "compactedContent")
	w.CloseBracket('}')
}

// Append appends the JSON form to dst.
func (p Provenance) Append(dst []byte) []byte {
	w := encoders.Get().(*adkjson.Encoder)
	*w = adkjson.Encoder{Buf: dst}
	w.OpenBracket('{')
	w.WriteOptionalString("revision", p.Revision)
	w.WriteOptionalFlag("imported", p.Imported)
	w.WriteOptionalString("skipped", p.Skipped)
	w.WriteOptionalString("rewindAfterEventId", p.RewindAfter)
	w.WriteOptionalFlag("taskResult", p.TaskResult)
	w.WriteOptionalFlag("unresumable", p.Unresumable)
	w.WriteOptionalFlag("unverified", p.Unverified)
	w.CloseBracket('}')
	text := w.Buf
	*w = adkjson.Encoder{}
	encoders.Put(w)
	return text
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

// newEncoder returns an event encoder that appends to dst.
func newEncoder(dst []byte) *adkjson.Encoder {
	return &adkjson.Encoder{Buf: dst, WriteCustom: writeCustom}
}

// newDecoder returns an event decoder.
func newDecoder(b []byte) *adkjson.Decoder {
	return &adkjson.Decoder{Buf: b, FindField: commonField}
}

// newStrictDecoder returns a decoder that rejects unknown keys.
func newStrictDecoder(b []byte) *adkjson.Decoder {
	return &adkjson.Decoder{Buf: b, FindField: commonField, Strict: true, Suggest: spec.Suggest}
}

// checkEnd returns a decoder's first error as a FieldError.
func checkEnd(r *adkjson.Decoder, keys ...any) error {
	if err := r.CheckEnd(keys...); err != nil {
		return (*FieldError)(err)
	}
	return nil
}

// writeCustom writes the types with their own rules.
func writeCustom(w *adkjson.Encoder, p any) bool {
	switch p := p.(type) {
	case *genai.Content:
		writeContent(w, p)
	case *genai.Part:
		writePart(w, p)
	case *genai.FunctionCall:
		writeFunctionCall(w, p)
	case *genai.FunctionResponse:
		writeFunctionResponse(w, p)
	case *Actions:
		writeActions(w, p)
	case *Confirmation:
		writeConfirmation(w, p)
	case *Compaction:
		writeCompaction(w, p)
	default:
		return false
	}
	return true
}
