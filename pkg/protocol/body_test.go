package protocol

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agenthost/internal/adkjson"
)

// A noteBody is a body with messages.
type noteBody struct {
	Model    string         `json:"model"`
	Messages []note         `json:"messages"`
	Metadata map[string]any `json:"metadata"`
}

type note struct {
	Role    string          `json:"role"`
	ID      string          `json:"id"`
	Content json.RawMessage `json:"content"`
}

func (b *noteBody) ReadMessages(r *adkjson.Decoder) bool {
	return ReadMessages(r, &b.Messages, func(m *note, key, value []byte) (isText bool) {
		switch string(key) {
		case "role":
			m.Role, isText = ReadRole(value)
		case "id":
			m.ID, isText = ReadText(value)
		case "content":
			m.Content, isText = value, true
		}
		return isText
	})
}

// A usual body has what encoding/json reads of it, and another one is left to encoding/json.
func TestReadWithMessages(t *testing.T) {
	for body, isUsual := range map[string]bool{
		`{"messages":[{"role":"user","id":"1","content":"hi"},{"role":"assistant","content":[{"text":"ü\n"}]}]}`:                 true,
		` { "model" : "m\u0041", "messages" : [ { "role" : "us\u0065r" , "content" : "a \"b\" ü" } ], "metadata":{"a":[1.5]} } `: true,
		`{"messages":[],"model":"m"}`:             true,
		`{"model":"m","other":[{"x":1}]}`:         true,
		`{"messages":[{"content":null}]}`:         true,
		`{"messages":[{}]}`:                       true,
		`{"messages":null}`:                       false,
		`{"messages":{}}`:                         false,
		`{"messages":[null]}`:                     false,
		`{"messages":[{"role":null}]}`:            false,
		`{"messages":[{"role":7}]}`:               false,
		`{"messages":[{"Role":"user"}]}`:          false,
		`{"messages":[{"id":"1","id":"2"}]}`:      false,
		`{"messages":[{"other":1}]}`:              false,
		`{"messages":[{"id":"1"}],"messages":[]}`: false,
		`{"messages":[{"id":"1"}],"Messages":[]}`: false,
		`{"messages":[{"id":"1"}],"model":7}`:     false,
		`{"messages":[{"id":"1"}]`:                false,
		`{"messages":[{"id":"1"}]}x`:              false,
		`{"messages":[{"id":"1"]}`:                false,
		``:                                        false,
		`[]`:                                      false,
	} {
		if got := checkBody(t, []byte(body)); got != isUsual {
			t.Errorf("%s is usual: %t, want %t", body, got, isUsual)
		}
	}
}

// checkBody reads a body, and compares it with what encoding/json reads.
func checkBody(t *testing.T, body []byte) (isUsual bool) {
	t.Helper()
	var got, want noteBody
	if !readWithMessages(body, &got) {
		return false
	}
	if err := json.Unmarshal(body, &want); err != nil {
		t.Errorf("encoding/json cannot read %q: %v", body, err)
		return true
	}
	if len(got.Messages) == 0 && len(want.Messages) == 0 {
		got.Messages, want.Messages = nil, nil
	}
	if !reflect.DeepEqual(decodeContents(t, &got), decodeContents(t, &want)) {
		t.Errorf("%q: read %+v, want %+v", body, got, want)
	}
	return true
}

// decodeContents returns a body with decoded contents: the decoder has replaced bytes that are not UTF-8.
func decodeContents(t *testing.T, b *noteBody) []any {
	t.Helper()
	all := []any{b.Model, b.Metadata}
	for _, m := range b.Messages {
		var content any
		if len(m.Content) > 0 {
			if err := json.Unmarshal(m.Content, &content); err != nil {
				t.Errorf("content %q: %v", m.Content, err)
			}
		}
		all = append(all, m.Role, m.ID, content)
	}
	return all
}

// Strings with shared memory are those that ReadText returns, and later ones do not change them.
func TestStringRoom(t *testing.T) {
	var room StringRoom
	var got, want []string
	for i := range 200 {
		for _, value := range []string{`""`, fmt.Sprintf(`"m%d"`, i), `"ü"`, `"a\nb"`, `"` + strings.Repeat("x", 10*i) + `"`, `7`, `"`, ``, `null`} {
			text, isText := room.ReadText([]byte(value))
			own, isOwn := ReadText([]byte(value))
			if isText != isOwn {
				t.Errorf("%s is a string: %t, want %t", value, isText, isOwn)
			}
			got, want = append(got, text), append(want, own)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzReadWithMessages(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"user","id":"1","content":"hi"}],"model":"m"}`))
	f.Add([]byte(`{"model":"m\ud800","metadata":{"a":1},"messages":[{"content":[{"x":null}]},{"role":"\u0041"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) { checkBody(t, body) })
}
