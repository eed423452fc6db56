package live

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/internal/limit"
	"agenthost/internal/textlive"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// Request bounds.
const (
	maxParts     = 1000
	maxMediaType = 100
)

// requestKeys is a request's JSON form.
type requestKeys struct {
	Content        json.RawMessage `json:"content"`
	Partial        bool            `json:"partial"`
	Blob           *genai.Blob     `json:"blob"`
	ActivityStart  json.RawMessage `json:"activityStart"`
	ActivityEnd    json.RawMessage `json:"activityEnd"`
	AudioStreamEnd json.RawMessage `json:"audioStreamEnd"`
	StateDelta     map[string]any  `json:"stateDelta"`
	Close          bool            `json:"close"`
}

// DecodeRequest decodes a client request: a JSON object with at least one of content, blob,
// activityStart, activityEnd, audioStreamEnd, stateDelta and close, in camelCase or snake_case, and
// null for absent. It has at most 1000 parts, and as many values as limit.LiveRequest allows. The
// error names the key and the problem.
func DecodeRequest(text []byte) (*Request, error) {
	if err := limit.LiveRequest.CheckValues(text); err != nil {
		return nil, newRequestError(err.Error())
	}
	d := &adkjson.Decoder{Buf: text, Strict: true, Suggest: spec.Suggest}
	var k requestKeys
	d.ReadInto(&k)
	if err := d.CheckEnd(); err != nil {
		return nil, err
	}
	r := &Request{Partial: k.Partial, Blob: k.Blob, StateDelta: k.StateDelta, Close: k.Close, otherBytes: len(text)}
	if k.Blob != nil {
		r.otherBytes = max(0, len(text)-base64.StdEncoding.EncodedLen(len(k.Blob.Data)))
	}
	for _, signal := range []struct {
		key  string
		text json.RawMessage
		set  *bool
	}{
		{"activityStart", k.ActivityStart, &r.ActivityStart},
		{"activityEnd", k.ActivityEnd, &r.ActivityEnd},
		{"audioStreamEnd", k.AudioStreamEnd, &r.AudioStreamEnd},
	} {
		var err error
		if *signal.set, err = readSignal(signal.key, signal.text); err != nil {
			return nil, err
		}
	}
	if k.Content != nil {
		content, err := session.DecodeContent(k.Content, "content")
		if err != nil {
			return nil, err
		}
		r.Content = content
	}
	return r, r.validateRequest()
}

// readSignal reads a key that needs no value: an empty object, as in ADK, or a boolean.
func readSignal(key string, text json.RawMessage) (bool, error) {
	switch {
	case text == nil, string(text) == "false":
		return false, nil
	case string(text) == "true", string(text) == "{}":
		return true, nil
	}
	return false, newRequestError("expected {}", key)
}

// validateRequest rejects requests that mean nothing, and media that has no type or no data.
func (r *Request) validateRequest() error {
	signals := r.ActivityStart || r.ActivityEnd || r.AudioStreamEnd
	if r.Content == nil && r.Blob == nil && !signals && r.StateDelta == nil && !r.Close {
		return newRequestError("expected one of content, blob, activity_start, activity_end, audio_stream_end, state_delta, close")
	}
	if r.Content != nil && len(r.Content.Parts) == 0 {
		return newRequestError("expected at least one part", "content", "parts")
	}
	if r.Content != nil && len(r.Content.Parts) > maxParts {
		return newRequestError("the number of parts exceeds the limit of 1000", "content", "parts")
	}
	if err := r.checkInputs(); err != nil {
		return newRequestError(err.Error())
	}
	if r.Blob == nil {
		return nil
	}
	if !isMediaType(r.Blob.MIMEType) {
		return newRequestError(`expected a media type, such as "audio/pcm;rate=16000"`, "blob", "mime_type")
	}
	if len(r.Blob.Data) == 0 {
		return newRequestError("expected base64 data", "blob", "data")
	}
	parameters, isPCM := strings.CutPrefix(r.Blob.MIMEType, "audio/pcm")
	if !isPCM {
		return nil
	}
	if rate, ok := textlive.PCMRate(parameters); !ok || rate < minSampleRate || rate > maxSampleRate {
		return newRequestError(`expected a rate from 8000 to 48000, such as "audio/pcm;rate=16000"`, "blob", "mime_type")
	}
	if len(r.Blob.Data)%2 != 0 {
		return newRequestError("expected 16-bit samples: the number of bytes is odd", "blob", "data")
	}
	return nil
}

// isMediaType reports whether a string is a media type (RFC 9110, 8.3.1). It becomes part of
// messages to models and of file names.
func isMediaType(text string) bool {
	if len(text) > maxMediaType {
		return false
	}
	kind, _, err := mime.ParseMediaType(text)
	return err == nil && strings.Contains(kind, "/")
}

// Sampling rates that live models accept.
const (
	minSampleRate = 8000
	maxSampleRate = 48000
)

func newRequestError(message string, path ...any) error {
	return &adkjson.Error{Path: path, Message: message}
}
