package live_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/wing/live"
)

// Requests are read in both spellings, and both base64 alphabets.
func TestDecodeRequest(t *testing.T) {
	for text, want := range map[string]*live.Request{
		`{"blob":{"mime_type":"audio/pcm;rate=16000","data":"AAEC_w=="}}`: {Blob: &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: []byte{0, 1, 2, 0xff}}},
		`{"blob":{"mimeType":"image/jpeg","data":"/9j/"}}`:                {Blob: &genai.Blob{MIMEType: "image/jpeg", Data: []byte{0xff, 0xd8, 0xff}}},
		`{"content":{"role":"user","parts":[{"text":"hi"}]}}`:             {Content: model.UserText("hi")},
		`{"content":{"parts":[{"text":"a"}]},"partial":true}`:             {Content: &genai.Content{Parts: []*genai.Part{{Text: "a"}}}, Partial: true},
		`{"activity_start":{}}`:                                           {ActivityStart: true},
		`{"activityEnd":{},"blob":null}`:                                  {ActivityEnd: true},
		`{"audio_stream_end":true}`:                                       {AudioStreamEnd: true},
		`{"state_delta":{"lang":"de"}}`:                                   {StateDelta: map[string]any{"lang": "de"}},
		`{"close":true}`:                                                  {Close: true},
	} {
		got, err := live.DecodeRequest([]byte(text))
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(live.Request{})); err != nil || diff != "" {
			t.Errorf("DecodeRequest(%s): %v\n%s", text, err, diff)
		}
	}
}

// An invalid request has an error that names the place.
func TestDecodeRequestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`hello`:                        `expected an object, got 'h' at byte 0`,
		`[]`:                           `expected an object, got a list`,
		`{}`:                           `expected one of content, blob, activity_start, activity_end, audio_stream_end, state_delta, close`,
		`{"contents":{}}`:              `contents: unknown key (did you mean "content"?)`,
		`{"content":{"text":"x"}}`:     `content.text: unknown key`,
		`{"content":{"parts":[]}}`:     `content.parts: expected at least one part`,
		`{"activity_start":3}`:         `activityStart: expected {}`,
		`{"blob":{"data":"AAEC"}}`:     `blob.mime_type: expected a media type, such as "audio/pcm;rate=16000"`,
		`{"blob":{"mime_type":"a/b"}}`: `blob.data: expected base64 data`,
		`{"blob":{"mime_type":"audio/pcm;rate=5","data":"AAA="}}`:                   `blob.mime_type: expected a rate from 8000 to 48000, such as "audio/pcm;rate=16000"`,
		`{"blob":{"mime_type":"audio/pcm","data":"AAAA"}}`:                          `blob.data: expected 16-bit samples: the number of bytes is odd`,
		`{"blob":{"mime_type":"audio/pcm","data":"*"}}`:                             `blob.data: expected base64`,
		`{"blob":{"mime_type":"audio/pcm;rate=96000","data":"AAA="}}`:               `blob.mime_type: expected a rate from 8000 to 48000, such as "audio/pcm;rate=16000"`,
		`{"blob":{"mime_type":"audio/pcm;rate=1e4","data":"AAA="}}`:                 `blob.mime_type: expected a rate from 8000 to 48000, such as "audio/pcm;rate=16000"`,
		`{"blob":{"mime_type":"audio/../x","data":"AAA="}}`:                         `blob.mime_type: expected a media type, such as "audio/pcm;rate=16000"`,
		`{"blob":{"mime_type":"a/` + strings.Repeat("b", 200) + `","data":"AAA="}}`: `blob.mime_type: expected a media type, such as "audio/pcm;rate=16000"`,
		`{"activity_start":{},"activity_end":{}}`:                                   manyInputs,
		`{"audio_stream_end":true,"blob":{"mime_type":"a/b","data":"AAA="}}`:        manyInputs,
		`{"content":{"parts":[` + strings.Repeat(`{"text":"a"},`, 1000) + `{}]}}`:   `content.parts: the number of parts exceeds the limit of 1000`,
		`{"content":{"parts":[` + strings.Repeat(`{},`, 1<<20) + `{}]}}`:            `live request exceeds the limit of 100000 values`,
		`{"state_delta":{"a":[` + strings.Repeat(`[],`, 1<<20) + `[]]}}`:            `live request exceeds the limit of 100000 values`,
	} {
		if _, err := live.DecodeRequest([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("DecodeRequest(%.100s): %v, want %s", text, err, want)
		}
	}
	deep := `{"state_delta":{"a":` + strings.Repeat("[", 20_000)
	if _, err := live.DecodeRequest([]byte(deep)); err == nil || !strings.HasSuffix(err.Error(), ": nesting exceeds the limit of 1000") {
		t.Errorf("deep JSON: %.100v", err)
	}
}

const manyInputs = `expected only one of blob, activity_start, activity_end and audio_stream_end: send each in a separate request`

// A request that cannot be sent returns an error, and no part is sent or stored.
func TestTranslateErrors(t *testing.T) {
	answer := &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: "1", Name: "f"}}
	for _, c := range []struct {
		request live.Request
		want    string
	}{
		{live.Request{ActivityStart: true, ActivityEnd: true, Content: model.UserText("hi")}, manyInputs},
		{live.Request{ActivityEnd: true, Blob: &genai.Blob{MIMEType: "audio/pcm"}}, manyInputs},
		{live.Request{Content: model.ModelText("I agree")}, `the content's role must be user, got "model"`},
		{live.Request{Content: &genai.Content{Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{Name: "f"}}}}}, "the content must not contain a function call"},
		{live.Request{Content: &genai.Content{Parts: []*genai.Part{answer, {Text: "hi"}}}}, "the content must contain either function responses or other parts, not both"},
		{live.Request{Content: &genai.Content{Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{Name: "f"}}}}}, "a function response must have the id of its call"},
	} {
		if _, err := live.Translate(&c.request, model.LiveTraits{}); err == nil || err.Error() != c.want {
			t.Errorf("Translate: %v, want %s", err, c.want)
		}
	}
}

// The texts that wait in a queue are bounded by their size, not only by their number.
func TestQueueBytes(t *testing.T) {
	q := live.NewQueue()
	r, err := live.DecodeRequest([]byte(`{"content":{"parts":[{"text":"` + strings.Repeat("a", live.MaxQueuedBytes/2) + `"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	full, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("full"))
	if err := errors.Join(q.Send(full, r), q.Send(full, r)); err == nil || err.Error() != "full" {
		t.Errorf("sending two long texts: %v", err)
	}
	q.Next()
	if err := q.Send(full, r); err != nil {
		t.Error(err)
	}
}

// Whatever a client sends, decoding ends with a request that means something, or an error.
func FuzzDecodeRequest(f *testing.F) {
	f.Add(`{"blob":{"mime_type":"audio/pcm;rate=16000","data":"AAEC_w=="},"state_delta":{"a":[1]}}`)
	f.Add(`{"content":{"role":"user","parts":[{"functionResponse":{"id":"1","name":"n","response":{}}}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := live.DecodeRequest([]byte(text))
		if (r == nil) != (err != nil) && err == nil {
			t.Fatal("neither a request nor an error")
		}
		if err == nil {
			_, _ = live.Translate(r, model.LiveTraits{})
		}
	})
}

// A 40 ms chunk is decoded in a few microseconds.
func BenchmarkDecodeRequest(b *testing.B) {
	text := []byte(`{"blob":{"mime_type":"audio/pcm;rate=16000","data":"` + strings.Repeat("AAEC", 428) + `"}}`)
	for b.Loop() {
		if _, err := live.DecodeRequest(text); err != nil {
			b.Fatal(err)
		}
	}
}
