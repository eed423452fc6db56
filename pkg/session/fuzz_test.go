package session

import (
	"maps"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Whatever is accepted is written in a form that is read as the same event.
func FuzzEventJSON(f *testing.F) {
	for _, file := range eventFiles(f) {
		in, want := eventFile(f, file)
		f.Add(in)
		f.Add([]byte(want))
	}
	f.Add([]byte(`{"timestamp":"2026-07-29T08:00:00+02:00","nodeInfo":{"path" : ""},"a_b":[1.0e5,{}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var e, again Event
		if e.UnmarshalJSON(in) != nil {
			return
		}
		once, err := AppendEvent(nil, &e)
		if err != nil {
			t.Fatalf("AppendEvent: %v", err)
		}
		if err := again.UnmarshalJSON(once); err != nil {
			t.Fatalf("reading %s: %v", once, err)
		}
		twice, err := AppendEvent(nil, &again)
		if err != nil {
			t.Fatalf("AppendEvent of %s: %v", once, err)
		}
		if diff := cmp.Diff(string(once), string(twice)); diff != "" {
			t.Errorf("written twice (-want +got):\n%s", diff)
		}
	})
}

// Valid client input survives decoding and encoding unchanged.
func FuzzContent(f *testing.F) {
	for _, in := range []string{
		`{"role":"user","parts":[{"text":"hi"}]}`,
		`{"parts":[{"inline_data":{"mime_type":"a","data":"+/8"}},{"fileData":{"fileUri":"gs://x"}}]}`,
		`{"parts":[{"functionResponse":{"id":"c","name":"f","response":{"a":[null,1,2.0]}}}]}`,
		`{"parts":[{"text":"v","videoMetadata":{"startOffset":"1.5s","fps":0.5}}]}`,
		`{"parts":[{"txt":""}]}`,
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := DecodeContent(in)
		if err != nil {
			return
		}
		text, err := EncodeContent(c)
		if err != nil {
			t.Fatalf("EncodeContent: %v", err)
		}
		again, err := DecodeContent(text)
		if err != nil {
			t.Fatalf("reading %s: %v", text, err)
		}
		if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the content by way of %s (-want +got):\n%s", text, diff)
		}
	})
}

// A state behaves as a plain map in which null removes a key.
func FuzzDelta(f *testing.F) {
	f.Add([]byte(`{"a":1,"user:b":null}`), []byte(`{"a":null,"b":{"c":null}}`))
	f.Add([]byte(`{}`), []byte(`{"temp:x":[],"app:y":0.5,"temp:z":null}`))
	if text, err := os.ReadFile("testdata/session.json"); err == nil {
		f.Add(text, []byte(`{"events":null}`))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		start, err := DecodeMap(first)
		if err != nil {
			return
		}
		delta, err := DecodeMap(second)
		if err != nil {
			return
		}
		want := maps.Clone(start)
		if want == nil {
			want = map[string]any{}
		}
		maps.Copy(want, delta)
		maps.DeleteFunc(want, func(k string, v any) bool {
			_, touched := delta[k]
			return touched && v == nil
		})
		s := NewState(start)
		s.Apply(delta)
		if diff := cmp.Diff(want, s.All()); diff != "" {
			t.Errorf("Apply(%s) to %s (-want +got):\n%s", second, first, diff)
		}
		for k := range WithoutTemp(delta) {
			if scope, name := ScopeOf(k); scope == ScopeTemp || scope.Prefix()+name != k {
				t.Errorf("WithoutTemp left %q", k)
			}
		}
		if diff := cmp.Diff(start, Normalize(start)); start != nil && diff != "" {
			t.Errorf("Normalize of what was read (-want +got):\n%s", diff)
		}
	})
}

// FuzzOutcome: what decodes comes back from the form that it is stored in again.
func FuzzOutcome(f *testing.F) {
	o := Outcome{Revision: "r", Protocol: "run", Day: 3, Turns: 2, Selected: true, Failures: []CodeCount{{"A B", 1}}, Agents: []AgentOutcome{{Agent: "-"}}}
	f.Add(o.Append(nil))
	f.Add([]byte("1 0 0 1 0 0 0 0 0 - - - !(selected) 0 !(selected) 1"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var first, second Outcome
		if first.Decode(in) != nil || first.IsEmpty() && first.Previous == 0 {
			return
		}
		text := first.Append(nil)
		if len(text) > maxOutcomeText {
			return
		}
		if err := second.Decode(text); err != nil {
			t.Fatalf("%q decodes, and %q does not: %v", in, text, err)
		}
		if again := second.Append(nil); string(again) != string(text) {
			t.Errorf("%q is stored as %q, and then as %q", in, text, again)
		}
	})
}
