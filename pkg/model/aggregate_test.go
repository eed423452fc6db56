package model

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
)

func chunk(parts ...*genai.Part) *Response {
	return &Response{Partial: true, Content: &genai.Content{Role: genai.RoleModel, Parts: parts}}
}

func text(s string) *genai.Part    { return &genai.Part{Text: s} }
func thought(s string) *genai.Part { return &genai.Part{Text: s, Thought: true} }

func call(name string) *genai.Part {
	return &genai.Part{FunctionCall: &genai.FunctionCall{Name: name}}
}

func TestAggregatorParts(t *testing.T) {
	signed := func(p *genai.Part, signature string) *genai.Part {
		p.ThoughtSignature = []byte(signature)
		return p
	}
	tests := []struct {
		name   string
		chunks []*Response
		want   []*genai.Part
	}{
		{"texts are joined", []*Response{chunk(text("The next ")), chunk(text("ferry"))}, []*genai.Part{text("The next ferry")}},
		{"texts of one chunk", []*Response{chunk(text("a"), text("b"))}, []*genai.Part{text("ab")}},
		{"thoughts stay apart", []*Response{chunk(thought("hm")), chunk(thought("m")), chunk(text("yes"))}, []*genai.Part{thought("hmm"), text("yes")}},
		{"a thought between texts", []*Response{chunk(text("a")), chunk(thought("b")), chunk(text("c"))}, []*genai.Part{text("a"), thought("b"), text("c")}},
		{"calls keep their order", []*Response{chunk(call("one")), chunk(text("and")), chunk(call("two"), call("three"))}, []*genai.Part{call("one"), text("and"), call("two"), call("three")}},
		{"texts around a call are not joined", []*Response{chunk(text("a"), call("f"), text("b"))}, []*genai.Part{text("a"), call("f"), text("b")}},
		{"the last signature counts", []*Response{chunk(signed(text("a"), "1")), chunk(signed(text("b"), "2"))}, []*genai.Part{signed(text("ab"), "2")}},
		{"a signature without text", []*Response{chunk(thought("a")), chunk(signed(text(""), "s"))}, []*genai.Part{thought("a"), signed(text(""), "s")}},
		{"empty texts vanish", []*Response{chunk(text("a")), chunk(text(""))}, []*genai.Part{text("a")}},
		{"a chunk without content", []*Response{chunk(text("a")), {}, chunk(text("b"))}, []*genai.Part{text("ab")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var a Aggregator
			for _, p := range tt.chunks {
				a.Add(p)
			}
			whole := a.Whole()
			if whole.Partial {
				t.Error("Whole().Partial = true, want false")
			}
			if diff := cmp.Diff(tt.want, whole.Content.Parts); diff != "" {
				t.Errorf("Whole().Content.Parts (-want +got):\n%s", diff)
			}
		})
	}
}

// Parts with data other than text are kept, including fields that a newer genai
// version adds.
func TestAggregatorKeepsEveryKindOfPart(t *testing.T) {
	part := reflect.TypeFor[genai.Part]()
	for i := range part.NumField() {
		f := part.Field(i)
		t.Run(f.Name, func(t *testing.T) {
			p := &genai.Part{}
			v := reflect.ValueOf(p).Elem().Field(i)
			switch v.Kind() {
			case reflect.Pointer:
				v.Set(reflect.New(v.Type().Elem()))
			case reflect.String:
				v.SetString("x")
			case reflect.Bool:
				p.Text = "x"
				v.SetBool(true)
			case reflect.Slice:
				v.SetBytes([]byte("x"))
			case reflect.Map:
				v.Set(reflect.ValueOf(map[string]any{"k": "v"}))
			}
			var a Aggregator
			a.Add(chunk(p))
			if diff := cmp.Diff([]*genai.Part{p}, a.Whole().Content.Parts); diff != "" {
				t.Errorf("Whole().Content.Parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAggregatorFields(t *testing.T) {
	usage := &genai.GenerateContentResponseUsageMetadata{TotalTokenCount: 7}
	more := &genai.GenerateContentResponseUsageMetadata{TotalTokenCount: 9}
	grounding := &genai.GroundingMetadata{WebSearchQueries: []string{"ferry"}}
	citation := &genai.CitationMetadata{}
	logprobs := &genai.LogprobsResult{}
	input, output := &genai.Transcription{Text: "in"}, &genai.Transcription{Text: "out"}

	tests := []struct {
		name   string
		chunks []*Response
		want   *Response
	}{
		{"nothing was added", nil, nil},
		{"an empty answer", []*Response{{}}, &Response{}},
		{
			"the last usage counts",
			[]*Response{{UsageMetadata: usage}, {UsageMetadata: more}, {}},
			&Response{UsageMetadata: more},
		},
		{
			"fields of earlier chunks are kept",
			[]*Response{
				{
					ModelVersion: "m-1", FinishReason: genai.FinishReasonStop, GroundingMetadata: grounding,
					CitationMetadata: citation, LogprobsResult: logprobs, AvgLogprobs: -0.5,
					InputTranscription: input, OutputTranscription: output,
					CustomMetadata: map[string]any{"k": "v"}, TurnComplete: true, Interrupted: true,
				},
				{},
			},
			&Response{
				ModelVersion: "m-1", FinishReason: genai.FinishReasonStop, GroundingMetadata: grounding,
				CitationMetadata: citation, LogprobsResult: logprobs, AvgLogprobs: -0.5,
				InputTranscription: input, OutputTranscription: output,
				CustomMetadata: map[string]any{"k": "v"}, TurnComplete: true, Interrupted: true,
			},
		},
		{
			"code and message of an error belong together",
			[]*Response{{ErrorCode: "SAFETY", ErrorMessage: "blocked"}, {ErrorCode: "OTHER"}, {ModelVersion: "m-1"}},
			&Response{ErrorCode: "OTHER", ModelVersion: "m-1"},
		},
		{
			"the default role is model",
			[]*Response{{Content: &genai.Content{Parts: []*genai.Part{text("a")}}}},
			&Response{Content: ModelText("a")},
		},
		{
			"the role of an earlier chunk is kept",
			[]*Response{
				{Content: UserText("a")},
				{Content: &genai.Content{Parts: []*genai.Part{text("b")}}},
			},
			&Response{Content: UserText("ab")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var a Aggregator
			for _, p := range tt.chunks {
				a.Add(p)
			}
			if diff := cmp.Diff(tt.want, a.Whole()); diff != "" {
				t.Errorf("Whole() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAggregatorAddAfterWhole(t *testing.T) {
	var a Aggregator
	a.Add(chunk(text("a")))
	first := a.Whole()
	a.Add(chunk(call("f")))
	if got := len(first.Content.Parts); got != 1 {
		t.Errorf("the first answer has %d parts after the second, want 1", got)
	}
	if diff := cmp.Diff([]*genai.Part{text("a"), call("f")}, a.Whole().Content.Parts); diff != "" {
		t.Errorf("Whole().Content.Parts (-want +got):\n%s", diff)
	}
}
