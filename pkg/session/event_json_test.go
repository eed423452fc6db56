package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/pkg/model"
)

// The headline of each file in testdata/events names its rule: in.json is decoded as
// an event, and want.json is its encoding.
func TestEventFiles(t *testing.T) {
	for _, file := range eventFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			in, want := eventFile(t, file)
			var e Event
			if err := e.UnmarshalJSON(in); err != nil {
				t.Fatalf("UnmarshalJSON: %v", err)
			}
			got := appendEvent(t, &e)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("AppendEvent (-want +got):\n%s", diff)
			}
			var again Event
			if err := again.UnmarshalJSON([]byte(got)); err != nil {
				t.Fatalf("reading what was written: %v", err)
			}
			if diff := cmp.Diff(&e, &again, rawAsText()); diff != "" {
				t.Errorf("the event read again (-want +got):\n%s", diff)
			}
		})
	}
}

func eventFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/events/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/events: %v", err)
	}
	return files
}

func eventFile(t testing.TB, file string) (in []byte, want string) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Files) != 2 || a.Files[0].Name != "in.json" || a.Files[1].Name != "want.json" {
		t.Fatalf("%s: want the parts in.json and want.json", file)
	}
	return a.Files[0].Data, strings.TrimSuffix(string(a.Files[1].Data), "\n")
}

// rawAsText compares unknown fields without their white space.
func rawAsText() cmp.Option {
	return cmp.Transformer("text", func(m json.RawMessage) string {
		var b bytes.Buffer
		if json.Compact(&b, m) != nil {
			return string(m)
		}
		return b.String()
	})
}

func appendEvent(t testing.TB, e *Event) string {
	t.Helper()
	b, err := AppendEvent(nil, e)
	if err != nil {
		t.Fatalf("AppendEvent: %v", err)
	}
	return string(b)
}

func decodeEvent(t testing.TB, text string) *Event {
	t.Helper()
	e := new(Event)
	if err := e.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatalf("UnmarshalJSON(%s): %v", text, err)
	}
	return e
}

// The wire format's example comes back byte by byte, but for the key order.
func TestSessionRoundTrip(t *testing.T) {
	text, err := os.ReadFile("testdata/session.json")
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		ID, AppName, UserID string
		State               json.RawMessage
		Events              []*Event
		LastUpdateTime      json.Number
	}
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	state, err := DecodeMap(in.State)
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{
		Key:     Key{App: in.AppName, User: in.UserID, ID: in.ID},
		History: NewHistory(in.Events), State: NewState(state),
		LastUpdate: in.Events[3].Timestamp,
	}
	got, err := AppendSession(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sorted(t, text), sorted(t, got)); diff != "" {
		t.Errorf("AppendSession (-want +got):\n%s", diff)
	}
}

// sorted returns the JSON text with its keys in order and its numbers as they
// were.
func sorted(t *testing.T, text []byte) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSessionForms(t *testing.T) {
	s := &Session{
		Key:        Key{App: "desk", User: "u <1>", ID: "s1"},
		History:    NewHistory([]*Event{{ID: "1", Author: "user", Timestamp: time.Unix(5, 0)}}),
		State:      NewState(map[string]any{"kept": nil, "n": int64(1)}),
		LastUpdate: time.Unix(1785312000, 101_000_000),
	}
	event := `{"invocationId":"","author":"user","actions":{"stateDelta":{},"artifactDelta":{},"requestedAuthConfigs":{},"requestedToolConfirmations":{}},"nodeInfo":{"path":""},"id":"1","timestamp":5.0}`
	tests := []struct {
		name string
		in   json.Marshaler
		want string
	}{
		{"whole", s, `{"id":"s1","appName":"desk","userId":"u <1>","state":{"kept":null,"n":1},"events":[` + event + `],"lastUpdateTime":1785312000.101}`},
		{"head", s.Head(), `{"id":"s1","appName":"desk","userId":"u <1>","state":{"kept":null,"n":1},"events":[],"lastUpdateTime":1785312000.101}`},
		{"empty", &Session{}, `{"id":"","appName":"","userId":"","state":{},"events":[],"lastUpdateTime":0.0}`},
		{"artifact version", ArtifactVersion{Version: 2, CanonicalURI: "memory://x?a&b", Created: time.Unix(7, 0), MIMEType: "image/png", CustomMetadata: map[string]any{"k": 1}}, `{"version":2,"canonicalUri":"memory://x?a&b","customMetadata":{"k":1},"createTime":7.0,"mimeType":"image/png"}`},
		{"bare artifact version", ArtifactVersion{}, `{"version":0,"canonicalUri":"","customMetadata":{},"createTime":0.0}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.in.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("MarshalJSON (-want +got):\n%s", diff)
			}
		})
	}
}

// Databases keep what ADK's own components wrote; clients do not see it.
func TestInternalMetadata(t *testing.T) {
	ev := &Event{ID: "e"}
	ev.CustomMetadata = map[string]any{"__adk_internal_restored_event": true, "trace": "t"}
	public, err := Form{}.AppendEvent(nil, ev)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := AppendEvent(nil, ev)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(public); strings.Contains(text, "__adk_internal_") || !strings.Contains(text, `"trace":"t"`) {
		t.Errorf("clients get %s", text)
	}
	if !strings.Contains(string(stored), `"__adk_internal_restored_event":true`) {
		t.Errorf("databases get %s", stored)
	}
}

func TestTimestampPrecision(t *testing.T) {
	tests := []struct {
		in, want string
	}{
		{`1785312000.101`, `1785312000.101`},
		{`1785312000`, `1785312000.0`},
		{`1785312000.1234564`, `1785312000.123456`},
		{`1785312000.1234565`, `1785312000.123457`},
		{`1785312000.9999999`, `1785312001.0`},
		{`1.785312000101e9`, `1785312000.101`},
		{`1785312000101`, `1785312000.101`},
		{`100000000000`, `100000000000.0`},
		{`100000000001`, `100000000.001`},
		{`100000000001.5`, `100000000001.5`},
		{`253402300799.999999`, `253402300799.999999`},
		{`-1.25`, `-1.25`},
		{`-0.5`, `-0.5`},
		{`0`, `0.0`},
		{`null`, `0.0`},
		{`"2026-07-29T08:00:00Z"`, `1785312000.0`},
		{`"2026-07-29T10:00:00.1015+02:00"`, `1785312000.1015`},
		{`"6000-01-01T00:00:00.000001Z"`, `127174492800.000001`},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			e := decodeEvent(t, `{"timestamp":`+tt.in+`}`)
			if got := appendEvent(t, e); !strings.HasSuffix(got, `"timestamp":`+tt.want+`}`) {
				t.Errorf("timestamp %s is written as %s, want %s", tt.in, got[strings.LastIndex(got, `"timestamp"`):], tt.want)
			}
		})
	}
	if got := decodeEvent(t, `{"timestamp":1785312000.101}`).Timestamp; !got.Equal(time.UnixMicro(1785312000101000)) || got.Location() != time.UTC {
		t.Errorf("timestamp = %v, want 2026-07-29 08:00:00.101 UTC", got)
	}
}

func TestLongRunningToolIDs(t *testing.T) {
	call := &genai.Content{Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{Name: "f"}}}}
	tests := []struct {
		name string
		in   *Event
		want string
	}{
		{"no calls", &Event{}, ""},
		{"calls", &Event{Response: model.Response{Content: call}}, `"longRunningToolIds":[]`},
		{"an empty list", &Event{LongRunningToolIDs: []string{}}, `"longRunningToolIds":[]`},
		{"ids", &Event{LongRunningToolIDs: []string{"b", "a"}}, `"longRunningToolIds":["b","a"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := appendEvent(t, tt.in)
			if tt.want == "" && strings.Contains(got, "longRunning") || !strings.Contains(got, tt.want) {
				t.Errorf("AppendEvent = %s, want %q in it", got, tt.want)
			}
		})
	}
}

func TestExtraKnownFieldIgnored(t *testing.T) {
	e := &Event{ID: "1", Extra: map[string]json.RawMessage{
		"id": json.RawMessage(`"forged"`), "partial": json.RawMessage(`true`), "b": json.RawMessage("{\n}"), "a": json.RawMessage(`1`),
	}}
	got := appendEvent(t, e)
	if want := `"id":"1","timestamp":0.0,"a":1,"b":{}}`; !strings.HasSuffix(got, want) || strings.Contains(got, "forged") {
		t.Errorf("AppendEvent = %s, want it to end with %s", got, want)
	}
}

func TestUnmarshalKeepsSeqOnly(t *testing.T) {
	e := &Event{ID: "old", Seq: 7, Author: "old", Extra: map[string]json.RawMessage{"a": nil}}
	if err := e.UnmarshalJSON([]byte(`{"id":"new"}`)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Event{ID: "new", Seq: 7}, e, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("UnmarshalJSON (-want +got):\n%s", diff)
	}
}

// encoding/json produces the same form; it escapes HTML unless this is disabled.
func TestEncodingJSON(t *testing.T) {
	e := &Event{ID: "<1>"}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode([]*Event{e}); err != nil {
		t.Fatal(err)
	}
	if want := "[" + appendEvent(t, e) + "]\n"; b.String() != want {
		t.Errorf("Encode = %s, want %s", b.String(), want)
	}
}

func TestAppendEventErrors(t *testing.T) {
	ring := map[string]any{}
	ring["self"] = ring
	delta := func(v any) *Event {
		return &Event{ID: "1", Actions: Actions{StateDelta: map[string]any{"ok": 1, "x": v}}}
	}
	parts := func(ps ...*genai.Part) *Event {
		return &Event{ID: "1", Response: model.Response{Content: &genai.Content{Parts: ps}}}
	}
	tests := []struct {
		name string
		in   *Event
		want string
	}{
		{"not a number", delta(math.NaN()), `encoding event "1": actions.stateDelta.x: NaN is not a JSON number`},
		{"infinity in a list", delta([]any{1, math.Inf(1)}), `encoding event "1": actions.stateDelta.x[1]: +Inf is not a JSON number`},
		{"a channel", delta(map[string]any{"c": make(chan int)}), `encoding event "1": actions.stateDelta.x.c: chan int cannot be encoded as JSON`},
		{"a made-up number", delta(json.Number("1x")), `encoding event "1": actions.stateDelta.x: "1x" is not a JSON number`},
		{"a nil part", parts(&genai.Part{Text: "a"}, nil), `encoding event "1": content.parts[1]: is missing`},
		{"a bad argument", parts(&genai.Part{FunctionCall: &genai.FunctionCall{Args: map[string]any{"f": math.NaN()}}}), `encoding event "1": content.parts[0].functionCall.args.f: NaN is not a JSON number`},
		{"a time beyond the years", &Event{ID: "1", Timestamp: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, `encoding event "1": timestamp: time 10000-01-01 00:00:00 +0000 UTC is outside the years 1 to 9999`},
		{"a broken extra", &Event{ID: "1", Extra: map[string]json.RawMessage{"x": json.RawMessage("{")}}, `encoding event "1": x: invalid JSON: unexpected end of JSON input`},
		{"a nil confirmation", &Event{ID: "1", Actions: Actions{RequestedToolConfirmations: map[string]*Confirmation{"c": nil}}}, `encoding event "1": actions.requestedToolConfirmations.c: is missing`},
		{"an empty compaction", &Event{ID: "1", Actions: Actions{Compaction: &Compaction{}}}, `encoding event "1": actions.compaction.compactedContent: is missing`},
		{"bad widgets", &Event{ID: "1", Actions: Actions{RenderUIWidgets: json.RawMessage("[")}}, `encoding event "1": actions.renderUiWidgets: invalid JSON: unexpected end of JSON input`},
		{"a bad average", &Event{ID: "1", Response: model.Response{AvgLogprobs: math.NaN()}}, `encoding event "1": avgLogprobs: NaN is not a JSON number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AppendEvent([]byte("before"), tt.in)
			if err == nil || err.Error() != tt.want {
				t.Errorf("AppendEvent: %v, want %s", err, tt.want)
			}
			if string(got) != "before" {
				t.Errorf("AppendEvent = %q, want what was there", got)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Error("the error is not ErrInvalid")
			}
		})
	}

	_, err := AppendEvent(nil, delta(ring))
	if err == nil || !strings.HasSuffix(err.Error(), ": nesting exceeds the limit of 1000") {
		t.Errorf("AppendEvent of a map that holds itself: %.80v…, want nesting exceeds the limit of 1000", err)
	}
}

func TestAppendSessionErrors(t *testing.T) {
	key := Key{App: "a", User: "u", ID: "s"}
	tests := []struct {
		name string
		in   *Session
		want string
	}{
		{"state", &Session{Key: key, State: NewState(map[string]any{"k": math.NaN()})}, "encoding session a/u/s: state.k: NaN is not a JSON number"},
		{"event", &Session{Key: key, History: NewHistory([]*Event{{}, {Actions: Actions{Route: math.NaN()}}})}, "encoding session a/u/s: events[1].actions.route: NaN is not a JSON number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := AppendSession(nil, tt.in); err == nil || err.Error() != tt.want {
				t.Errorf("AppendSession: %v, want %s", err, tt.want)
			}
		})
	}
	_, err := ArtifactVersion{Version: 3, CustomMetadata: map[string]any{"k": math.NaN()}}.MarshalJSON()
	if want := "encoding artifact version 3: customMetadata.k: NaN is not a JSON number"; err == nil || err.Error() != want {
		t.Errorf("ArtifactVersion.MarshalJSON: %v, want %s", err, want)
	}
}

func TestUnmarshalErrors(t *testing.T) {
	tests := []struct {
		in, want string
	}{
		{``, `expected an object, got the end of the text`},
		{`null`, `expected an object, got null`},
		{`[]`, `expected an object, got a list`},
		{`{"id":5}`, `id: expected a string, got a number`},
		{`{"id":"a"} x`, `expected the end of the text, got 'x' at byte 11`},
		{`{"id":"a",}`, `expected a string, got '}' at byte 10`},
		{`{"id" "a"}`, `expected a colon, got a string`},
		{`{"id":"a" "b":1}`, `expected a comma or '}', got a string`},
		{`{"id":"a`, `id: unterminated string`},
		{`{"id":"a\`, `id: unterminated string`},
		{`{"id":"a\x"}`, `id: unknown escape 'x' at byte 9`},
		{`{"id":"\u12`, `id: unterminated string`},
		{`{"id":"\u12zz"}`, `id: expected four hexadecimal digits at byte 9`},
		{"{\"id\":\"a\nb\"}", `id: control character in a string at byte 8`},
		{"{\"id\":\"\\n\nb\"}", `id: control character in a string at byte 9`},
		{`{"partial":1}`, `partial: expected true or false, got a number`},
		{`{"partial":"true"}`, `partial: expected true or false, got a string`},
		{`{"timestamp":true}`, `timestamp: expected a number, got a boolean`},
		{`{"timestamp":"noon"}`, `timestamp: expected seconds or a time such as 2026-07-29T08:00:00Z, got "noon"`},
		{`{"timestamp":9e99}`, `timestamp: the time 9e99 is outside the years 1 to 9999`},
		{`{"timestamp":253402300800000}`, `timestamp: the time 253402300800000 is outside the years 1 to 9999`},
		{`{"timestamp":253402300800.5}`, `timestamp: the time 253402300800.5 is outside the years 1 to 9999`},
		{`{"timestamp":99999999999999999999}`, `timestamp: the time 99999999999999999999 is outside the years 1 to 9999`},
		{`{"timestamp":"0000-01-01T00:00:00Z"}`, `timestamp: the time 0000-01-01T00:00:00Z is outside the years 1 to 9999`},
		{`{"actions":{"stateDelta":[]}}`, `actions.stateDelta: expected an object, got a list`},
		{`{"actions":{"state_delta":{"a":[1,tru]}}}`, `actions.state_delta.a[1]: expected true or false, got 't' at byte 34`},
		{`{"actions":{"artifactDelta":{"a":1.5}}}`, `actions.artifactDelta.a: expected an integer, got 1.5`},
		{`{"actions":{"requestedToolConfirmations":{"c":null}}}`, `actions.requestedToolConfirmations.c: expected an object, got null`},
		{`{"usageMetadata":{"totalTokenCount":3000000000}}`, `usageMetadata.totalTokenCount: the number 3000000000 is out of range`},
		{`{"usageMetadata":{"totalTokenCount":"1"}}`, `usageMetadata.totalTokenCount: expected a number, got a string`},
		{`{"avgLogprobs":true}`, `avgLogprobs: expected a number, got a boolean`},
		{`{"timestamp":"\q"}`, `timestamp: unknown escape 'q' at byte 15`},
		{`{"content":{"parts":[{"thoughtSignature":1}]}}`, `content.parts[0].thoughtSignature: expected a string, got a number`},
		{`{"content":{"parts":[{"videoMetadata":{"startOffset":1}}]}}`, `content.parts[0].videoMetadata.startOffset: expected a string, got a number`},
		{`{"avgLogprobs":1e999}`, `avgLogprobs: the number 1e999 is out of range`},
		{`{"avgLogprobs":-}`, `avgLogprobs: invalid number at byte 15`},
		{`{"avgLogprobs":1.}`, `avgLogprobs: invalid number at byte 15`},
		{`{"avgLogprobs":01}`, `expected a comma or '}', got a number`},
		{`{"content":{"parts":[null]}}`, `content.parts[0]: expected an object, got null`},
		{`{"content":{"parts":{}}}`, `content.parts: expected a list, got an object`},
		{`{"content":{"parts":[{"inlineData":{"data":"a"}}]}}`, `content.parts[0].inlineData.data: expected base64`},
		{`{"content":{"parts":[{"videoMetadata":{"startOffset":"soon"}}]}}`, `content.parts[0].videoMetadata.startOffset: expected a duration such as "3.5s", got "soon"`},
		{`{"longRunningToolIds":[null]}`, `longRunningToolIds[0]: expected a string, got null`},
		{`{"other":nope}`, `other: expected a value, got 'n' at byte 9`},
		{`{"other":[1 2]}`, `other: expected a comma or ']', got a number`},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			err := new(Event).UnmarshalJSON([]byte(tt.in))
			if err == nil || err.Error() != tt.want {
				t.Errorf("UnmarshalJSON(%s): %v, want %s", tt.in, err, tt.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Error("the error is not ErrInvalid")
			}
		})
	}
}

// Each part of an event that is as deep as an event may be is read again.
func TestUnmarshalDepth(t *testing.T) {
	deep := func(n int) string {
		return `{"customMetadata":{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
	}
	e := decodeEvent(t, deep(adkjson.MaxDepth-1))
	if _, err := AppendEvent(nil, e); err != nil {
		t.Errorf("AppendEvent of what was just read: %v", err)
	}
	if _, err := AppendEvent(nil, decodeEvent(t, deep(adkjson.MaxDepth))); err == nil {
		t.Error("AppendEvent of a value that is too deep succeeds")
	}
	for _, in := range []string{deep(2 * adkjson.MaxDepth), strings.Repeat(`{"a":`, 1_000_000), `{"x":` + strings.Repeat("[", 1_000_000)} {
		err := new(Event).UnmarshalJSON([]byte(in))
		if err == nil || !strings.HasSuffix(err.Error(), ": nesting exceeds the limit of 1000") {
			t.Errorf("UnmarshalJSON of %.20s…: %.60v, want nesting exceeds the limit of 1000", in, err)
		}
	}
}

// Events from adk-go and adk-js, one in each form, are read and written without loss.
func TestADKEvents(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "adk_events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e Event
		if err := e.UnmarshalJSON(line); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		once := appendEvent(t, &e)
		if twice := appendEvent(t, decodeEvent(t, once)); once != twice {
			t.Errorf("written again it is %s, want %s", twice, once)
		}
	}
}

// Encoding an event into a buffer with enough room allocates nothing.
func TestAppendEventAllocations(t *testing.T) {
	for name, ev := range map[string]*Event{"text": textEvent(), "call": callEvent()} {
		buf := make([]byte, 0, 4<<10)
		n := testing.AllocsPerRun(100, func() {
			if _, err := AppendEvent(buf, ev); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
