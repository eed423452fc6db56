package session

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

func TestDecodeContent(t *testing.T) {
	tests := []struct {
		name, in string
		want     *genai.Content
	}{
		{"text", `{"role":"user","parts":[{"text":"hi"}]}`, model.UserText("hi")},
		{"without role", `{"parts":[{"text":"hi"}]}`, &genai.Content{Parts: []*genai.Part{{Text: "hi"}}}},
		{"empty", ` {} `, &genai.Content{}},
		{"no parts", `{"parts":[]}`, &genai.Content{Parts: []*genai.Part{}}},
		{"nulls", `{"role":null,"parts":null}`, &genai.Content{}},
		{
			"snake_case", `{"parts":[{"inline_data":{"mime_type":"image/png","data":"-_8"}},{"function_response":{"id":"c","name":"f","response":{"a_b":null}}}]}`,
			&genai.Content{Parts: []*genai.Part{
				{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte{0xfb, 0xff}}},
				{FunctionResponse: &genai.FunctionResponse{ID: "c", Name: "f", Response: map[string]any{"a_b": nil}}},
			}},
		},
		{
			"free maps are free", `{"parts":[{"functionCall":{"name":"f","args":{"partz":[{"txt":9007199254740993}],"f":1.0}}}]}`,
			&genai.Content{Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{
				Name: "f", Args: map[string]any{"partz": []any{map[string]any{"txt": int64(9007199254740993)}}, "f": 1.0},
			}}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeContent([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("DecodeContent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeContentErrors(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{"mistyped key", `{"parts":[{"txt":"hi"}]}`, `newMessage.parts[0].txt: unknown key (did you mean "text"?)`},
		{"mistyped in the content", `{"part":[]}`, `newMessage.part: unknown key (did you mean "parts"?)`},
		{"mistyped in snake_case", `{"parts":[{"text":"a"},{"function_cal":{}}]}`, `newMessage.parts[1].function_cal: unknown key (did you mean "function_call"?)`},
		{"nothing near", `{"parts":[{"colour":"red"}]}`, `newMessage.parts[0].colour: unknown key`},
		{"deep inside", `{"parts":[{"functionResponse":{"parts":[{"inlineData":{"mime":"a"}}]}}]}`, `newMessage.parts[0].functionResponse.parts[0].inlineData.mime: unknown key`},
		{"wrong type", `{"parts":[{"text":5}]}`, `newMessage.parts[0].text: expected a string, got a number`},
		{"not a content", `"hi"`, `newMessage: expected an object, got a string`},
		{"null", `null`, `newMessage: expected an object, got null`},
		{"nothing", ``, `newMessage: expected an object, got the end of the text`},
		{"two", `{}{}`, `newMessage: expected the end of the text, got an object`},
		{"bytes", `{"parts":[{"thoughtSignature":"?"}]}`, `newMessage.parts[0].thoughtSignature: expected base64`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeContent([]byte(tt.in), "newMessage")
			if err == nil || err.Error() != tt.want || got != nil {
				t.Errorf("DecodeContent = %v, %v, want %s", got, err, tt.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Error("the error is not ErrInvalid")
			}
		})
	}
}

func TestFieldErrorPath(t *testing.T) {
	_, err := DecodePart([]byte(`{"functionResponse":{"parts":[{"x":1}]}}`), "artifacts", 2)
	fe, ok := errors.AsType[*FieldError](err)
	if !ok {
		t.Fatalf("DecodePart: %v, want a FieldError", err)
	}
	want := &FieldError{Path: []any{"artifacts", 2, "functionResponse", "parts", 0, "x"}, Message: "unknown key"}
	if diff := cmp.Diff(want, fe); diff != "" {
		t.Errorf("DecodePart (-want +got):\n%s", diff)
	}
	if _, err := DecodePart([]byte(`{"txt":""}`)); err == nil || err.Error() != `txt: unknown key (did you mean "text"?)` {
		t.Errorf("DecodePart without keys: %v", err)
	}
}

func TestPartRoundTrip(t *testing.T) {
	got, err := DecodePart([]byte(`{"inlineData":{"data":"+/8","mimeType":"image/png"}}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := EncodePart(got)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"inlineData":{"data":"-_8=","mimeType":"image/png"}}`; string(b) != want {
		t.Errorf("EncodePart = %s, want %s", b, want)
	}
}

func TestEncodeContentErrors(t *testing.T) {
	if _, err := EncodeContent(nil); err == nil || err.Error() != "encoding content: is missing" {
		t.Errorf("EncodeContent(nil): %v", err)
	}
	if _, err := EncodePart(nil); err == nil || err.Error() != "encoding part: is missing" {
		t.Errorf("EncodePart(nil): %v", err)
	}
	c := &genai.Content{Parts: []*genai.Part{{PartMetadata: map[string]any{"c": make(chan int)}}}}
	if _, err := EncodeContent(c); err == nil || err.Error() != "encoding content: parts[0].partMetadata.c: chan int cannot be encoded as JSON" {
		t.Errorf("EncodeContent: %v", err)
	}
}

// Every field that genai has, or will have, survives, under its own key.
func TestContentFieldsRoundTrip(t *testing.T) {
	for _, p := range []any{
		new(genai.Content), new(genai.GroundingMetadata), new(genai.CitationMetadata), new(genai.LogprobsResult),
		new(genai.Transcription), new(genai.GenerateContentResponseUsageMetadata), new(Actions),
	} {
		typ := reflect.TypeOf(p).Elem()
		t.Run(typ.Name(), func(t *testing.T) {
			v := reflect.ValueOf(p).Elem()
			fill(t, v, 0)
			w := newEncoder(nil)
			w.WriteTyped(v.Addr())
			if w.Err != nil {
				t.Fatal(w.Err)
			}
			back := reflect.New(typ)
			if err := decodeStrict(w.Buf, back.Interface(), nil); err != nil {
				t.Fatalf("%v in %s", err, w.Buf)
			}
			if diff := cmp.Diff(p, back.Interface(), rawAsText()); diff != "" {
				t.Errorf("after a round trip (-want +got):\n%s\nby way of %s", diff, w.Buf)
			}
			for _, word := range []string{`"data":`, `"thoughtSignature":`, `"sdkBlob":`} {
				if i := strings.Index(string(w.Buf), word); i >= 0 && !strings.HasPrefix(string(w.Buf)[i+len(word):], `"-_8="`) {
					t.Errorf("%s is not URL-safe in %s", word, w.Buf)
				}
			}
		})
	}
}

// fill sets every field to something that is not its zero value.
func fill(t *testing.T, v reflect.Value, depth int) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") == "-" {
				continue // has no JSON form
			}
			fill(t, v.Field(i), depth+1)
		}
	case reflect.Slice:
		fillSlice(t, v, depth)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		item := reflect.New(v.Type().Elem()).Elem()
		fill(t, item, depth)
		v.SetMapIndex(reflect.ValueOf("a_key"), item)
	case reflect.Interface:
		v.Set(reflect.ValueOf(int64(depth)))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(depth))
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(int64(1500 * time.Millisecond))
		}
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.25)
	default:
		t.Fatalf("a field of type %s", v.Type())
	}
}

func fillSlice(t *testing.T, v reflect.Value, depth int) {
	t.Helper()
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes([]byte{0xfb, 0xff})
		if v.Type() != reflect.TypeFor[[]byte]() {
			v.SetBytes([]byte(`[{"id":"w"}]`))
		}
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 2, 2))
	fill(t, v.Index(0), depth)
	fill(t, v.Index(1), depth+1)
}
