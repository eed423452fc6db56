package modeltest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
)

// eachService runs a test with each provider that has a service. The fakes reject what the
// services reject.
func eachService(t *testing.T, test func(t *testing.T, s *suiteSubject)) {
	for _, s := range suiteSubjects() {
		if !s.local {
			t.Run(s.name, func(t *testing.T) { test(t, s) })
		}
	}
}

func declareTools(names ...string) *genai.Tool {
	declared := &genai.Tool{}
	for _, name := range names {
		declared.FunctionDeclarations = append(declared.FunctionDeclarations, &genai.FunctionDeclaration{Name: name, Description: "Does."})
	}
	return declared
}

// sentNames returns the tool names in a request.
func sentNames(t *testing.T, w *wire) []string {
	t.Helper()
	var body struct {
		Tools []struct {
			Name                 string
			Function             struct{ Name string }
			FunctionDeclarations []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(w.lastRequest(t)), &body); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range body.Tools {
		names = append(names, tool.Name+tool.Function.Name)
		for _, f := range tool.FunctionDeclarations {
			names[len(names)-1] = f.Name
			names = append(names, "")
		}
	}
	var sent []string
	for _, name := range names {
		if name != "" {
			sent = append(sent, name)
		}
	}
	return sent
}

// A tool may have any name: the service gets a legal one that no other tool has, and its calls have
// the declared name.
func TestToolNames(t *testing.T) {
	declared := []string{"calendar.list", "calendar_list", "calendar:list", "", strings.Repeat("very-long", 20), strings.Repeat("very-long", 20) + "-b", "Wetter in Köln", "9lives"}
	eachService(t, func(t *testing.T, s *suiteSubject) {
		req := modeltest.ScriptInput("hi", false)
		req.Config.Tools = []*genai.Tool{declareTools(declared...)}
		llm, w := s.build(t)
		s.generateWhole(t, llm, req)
		names := sentNames(t, w)
		if len(names) != len(declared) {
			t.Fatalf("the request has the tools %q", names)
		}
		var calls []*genai.FunctionCall
		for _, name := range names {
			calls = append(calls, &genai.FunctionCall{ID: "call_" + name[:1], Name: name, Args: map[string]any{"id": "seven"}})
		}
		for _, stream := range []bool{false, true} {
			llm, _ := s.build(t, suiteReply{calls: calls})
			req.Stream = stream
			var called []string
			for _, c := range model.CallsOf(s.generateWhole(t, llm, req).Content) {
				called = append(called, c.Name)
			}
			if diff := cmp.Diff(declared, called); diff != "" {
				t.Errorf("called tools (-want +got):\n%s", diff)
			}
		}
	})
}

// A tool choice has the names that are sent.
func TestToolNamesOfChoice(t *testing.T) {
	eachService(t, func(t *testing.T, s *suiteSubject) {
		req := modeltest.ScriptInput("hi", false)
		req.Config.Tools = []*genai.Tool{declareTools("a b", "c d")}
		req.Config.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{
			Mode: genai.FunctionCallingConfigModeAny, AllowedFunctionNames: []string{"c d"},
		}}
		llm, w := s.build(t)
		s.generateWhole(t, llm, req)
		if got := w.lastRequest(t); strings.Contains(got, `"c d"`) || !strings.Contains(got, `"c_d"`) {
			t.Errorf("the request has not only c_d: %s", got)
		}
	})
}

// callTurn returns a turn with calls, as ID:NAME, and their responses.
func callTurn(calls ...string) []*genai.Content {
	ask, answer := &genai.Content{Role: genai.RoleModel}, &genai.Content{Role: genai.RoleUser}
	for i, c := range calls {
		id, name, _ := strings.Cut(c, ":")
		ask.Parts = append(ask.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: name, Args: map[string]any{"n": i}}})
		answer.Parts = append(answer.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: id, Name: name, Response: map[string]any{"n": i}}})
	}
	return []*genai.Content{model.UserText("Go."), ask, answer}
}

// Whatever a model once called, and however often IDs appear: this and all later turns
// work.
func TestOddCallsInHistory(t *testing.T) {
	for name, turns := range map[string][][]*genai.Content{
		"illegal name":                {callTurn("c1:find\" q=\"milk")},
		"no name":                     {callTurn("c1:")},
		"long name":                   {callTurn("c1:" + strings.Repeat("x", 450))},
		"one ID of two calls":         {callTurn("call_0:find", "call_0:find")},
		"IDs that recur in each turn": {callTurn("find0:find"), callTurn("find0:find"), callTurn("find0:find", "find1:find")},
		"long ID":                     {callTurn(strings.Repeat("i", 200) + ":find")},
		"illegal ID":                  {callTurn("terminal 0\n:find")},
		"call without a response":     {callTurn("c1:find")[:2]},
		"response without a call":     {callTurn("c1:find")[2:]},
		"response before its call":    {{callTurn("c1:find")[2], callTurn("c1:find")[1]}},
		"response after another message": {{
			callTurn("c1:find")[1], model.UserText("Wait."), callTurn("c1:find")[2],
		}},
		"call of the user": {{{Role: genai.RoleUser, Parts: callTurn("c1:find")[1].Parts}}},
		"response of the model": {{
			callTurn("c1:find")[1], {Role: genai.RoleModel, Parts: callTurn("c1:find")[2].Parts},
		}},
		"no role": {{{Parts: []*genai.Part{{Text: "hi"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			eachService(t, func(t *testing.T, s *suiteSubject) {
				llm, _ := s.build(t)
				req := modeltest.ScriptInput("", false)
				req.Contents = nil
				for _, turn := range turns {
					req.Contents = append(req.Contents, turn...)
					s.generateWhole(t, llm, req)
					req.Contents = append(req.Contents, model.ModelText("Done."), model.UserText("And now?"))
					s.generateWhole(t, llm, req)
				}
			})
		})
	}
}

// Each response stays with its call, also if two calls have one ID.
func TestResponsesStayWithCalls(t *testing.T) {
	eachService(t, func(t *testing.T, s *suiteSubject) {
		llm, w := s.build(t)
		req := modeltest.ScriptInput("", false)
		req.Contents = callTurn("same:find", "same:find", "same:list", ":find", ":list")
		s.generateWhole(t, llm, req)
		body := w.lastRequest(t)
		at := -1
		for _, mark := range []string{"0", "1", "2", "3", "4"} {
			next := strings.LastIndex(body, `{"n":`+mark+`}`)
			if escaped := strings.LastIndex(body, `{\"n\":`+mark+`}`); escaped > next {
				next = escaped
			}
			if next <= at {
				t.Fatalf("the response %s is not next to its call: %s", mark, body)
			}
			at = next
		}
	})
}

// A call whose ID the conversation has, or another call in the response, loses it: the runtime
// assigns one.
func TestRecurringIDs(t *testing.T) {
	llm, _ := newSubject(t, "openai").build(t, suiteReply{calls: []*genai.FunctionCall{
		{ID: "call_0", Name: "find"}, {ID: "call_1", Name: "find"}, {ID: "call_1", Name: "find"},
	}})
	req := modeltest.ScriptInput("", false)
	req.Contents = callTurn("call_0:find")
	got, err := modeltest.Collect(llm.Generate(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range model.CallsOf(got[0].Content) {
		ids = append(ids, c.ID)
	}
	if diff := cmp.Diff([]string{"", "call_1", ""}, ids); diff != "" {
		t.Errorf("IDs (-want +got):\n%s", diff)
	}
}

func newSubject(t *testing.T, name string) *suiteSubject {
	t.Helper()
	for _, s := range suiteSubjects() {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no provider %s", name)
	return nil
}

// A note replaces a file that the service does not take: the model reads it, and all
// later turns work.
func TestFilesLeftOut(t *testing.T) {
	blob := func(kind, data string) *genai.Part {
		return &genai.Part{InlineData: &genai.Blob{MIMEType: kind, Data: []byte(data)}}
	}
	file := func(kind, uri string) *genai.Part {
		return &genai.Part{FileData: &genai.FileData{MIMEType: kind, FileURI: uri}}
	}
	chat := []string{"openai", "deepseek", "mistral", "openai_compatible"}
	others := []string{"anthropic", "anthropic_vertex", "ollama", "openai_responses"}
	all := append([]string{"gemini", "vertex", "openrouter"}, append(chat, others...)...)
	for _, tt := range []struct {
		part  *genai.Part
		names []string
		want  string
	}{
		{blob("video/mp4", "film"), append(chat, others...), "[a file of type video/mp4 was left out: this service does not take files of this type]"},
		{blob("application/zip", "PK"), all, "[a file of type application/zip was left out: this service does not take files of this type]"},
		{blob("application/pdf", "%PDF-1.7"), []string{"ollama"}, "[a file of type application/pdf was left out: this service does not take files of this type]"},
		{blob("audio/wav", "RIFF"), others, "[a file of type audio/wav was left out: this service does not take files of this type]"},
		{blob("image/png", ""), all, "[a file of type image/png was left out: it is empty]"},
		{blob("text/plain", "\n"), all, "[a file of type text/plain was left out: it is empty]"},
		{blob("image/png", "hi"), append(chat, others...), "[a file of type image/png was left out: its data is not of this type]"},
		{blob("application/pdf", "hi"), append(chat, "gemini", "anthropic"), "[a file of type application/pdf was left out: its data is not of this type]"},
		{blob("", "\x00\x01\x02"), all, "[a file was left out: its type is unknown]"},
		{file("application/pdf", "gs://b/x.pdf"), append(chat, others...), `[the file \"gs://b/x.pdf\" of type application/pdf was left out: this service does not load files from this address]`},
		{file("application/pdf", "https://x.example/a.pdf"), chat, `[the file \"https://x.example/a.pdf\" of type application/pdf was left out: this service does not load files of this type]`},
		{file("", "https://x.example/a"), []string{"vertex", "anthropic"}, `[the file \"https://x.example/a\" was left out: its type is unknown]`},
		{file("image/png", "file:///etc/passwd"), all, `[the file \"file:///etc/passwd\" of type image/png was left out: this service does not load files from this address]`},
		{file("image/png", ""), all, `[a file of type image/png was left out: it has no address]`},
	} {
		for _, name := range tt.names {
			t.Run(tt.want+"/"+name, func(t *testing.T) {
				llm, w := newSubject(t, name).build(t)
				req := modeltest.ScriptInput("", false)
				for _, parts := range [][]*genai.Part{{tt.part}, {{Text: "Look:"}, tt.part}} {
					req.Contents = append(req.Contents, &genai.Content{Role: genai.RoleUser, Parts: parts}, model.ModelText("I see."))
				}
				req.Contents = append(req.Contents[1:], model.UserText("And now?"))
				if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
					t.Fatal(err)
				}
				if got := w.lastRequest(t); strings.Count(got, tt.want) != 2 {
					t.Errorf("the request has no two notes %s: %s", tt.want, got)
				}
			})
		}
	}
}

// A file in a tool's response is left out with a note in the response.
func TestFilesOfResponsesLeftOut(t *testing.T) {
	const want = `"files_left_out":["[the file \"a.mp4\" of type video/x was left out: this service does not take files of this type]"]`
	for _, name := range []string{"openai", "openai_responses", "anthropic", "ollama"} {
		t.Run(name, func(t *testing.T) {
			llm, w := newSubject(t, name).build(t)
			req := modeltest.ScriptInput("", false)
			req.Contents = callTurn("c1:film")
			req.Contents[2].Parts[0].FunctionResponse.Parts = []*genai.FunctionResponsePart{{InlineData: &genai.FunctionResponseBlob{
				MIMEType: "video/x", Data: []byte("film"), DisplayName: "a.mp4",
			}}}
			if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			quoted, _ := json.Marshal(want)
			if got := w.lastRequest(t); !strings.Contains(got, string(quoted[1:len(quoted)-1])) {
				t.Errorf("the request has no %s: %s", want, got)
			}
		})
	}
}

// A file without a type gets the type of its data or of its address suffix; an image always gets
// the type of its data.
func TestFileTypes(t *testing.T) {
	for _, tt := range []struct {
		part *genai.Part
		want string
	}{
		{&genai.Part{InlineData: &genai.Blob{Data: []byte(modeltest.PngData)}}, "data:image/png;base64,"},
		{&genai.Part{InlineData: &genai.Blob{MIMEType: "image/jpeg", Data: []byte(modeltest.PngData)}}, "data:image/png;base64,"},
		{&genai.Part{InlineData: &genai.Blob{Data: []byte("notes")}}, `"notes"`},
		{&genai.Part{InlineData: &genai.Blob{Data: []byte(modeltest.PdfData)}}, "data:application/pdf;base64,"},
		{&genai.Part{FileData: &genai.FileData{FileURI: "https://x.example/a.PNG?v=1"}}, `"image_url":{"url":"https://x.example/a.PNG?v=1"}`},
	} {
		llm, w := newSubject(t, "openai").build(t)
		req := modeltest.ScriptInput("", false)
		req.Contents[0].Parts = []*genai.Part{tt.part}
		if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
			t.Fatal(err)
		}
		if got := w.lastRequest(t); !strings.Contains(got, tt.want) {
			t.Errorf("the request has no %s: %s", tt.want, got)
		}
	}
}

// As a conversation grows, what was sent stays the same: prompt caches work.
func TestRequestsGrowAtTheirEnd(t *testing.T) {
	eachService(t, func(t *testing.T, s *suiteSubject) {
		llm, w := s.build(t)
		req := modeltest.ScriptInput("", false)
		req.Contents = nil
		req.Config.Tools = []*genai.Tool{declareTools("a.b", "a_b")}
		before := ""
		for _, turn := range [][]string{{"0:a.b", "0:x y"}, {"0:x_y", ":a_b"}, {"1:", "0:x y"}, {"0:a.b"}} {
			req.Contents = append(req.Contents, callTurn(turn...)...)
			req.Contents[len(req.Contents)-3].Parts = append(req.Contents[len(req.Contents)-3].Parts, &genai.Part{InlineData: &genai.Blob{MIMEType: "video/x", Data: []byte("film")}})
			s.generateWhole(t, llm, req)
			body := conversationOf(t, w)
			if !strings.HasPrefix(body, before) {
				t.Fatalf("the request\n%s\ndoes not begin with\n%s", body, before)
			}
			before = strings.TrimSuffix(body, "]")
			req.Contents = append(req.Contents, model.ModelText("Done."))
		}
	})
}

// conversationOf returns a request's conversation, without cache marks.
func conversationOf(t *testing.T, w *wire) string {
	t.Helper()
	var body struct{ Messages, Input, Contents []any }
	if err := json.Unmarshal([]byte(strings.ReplaceAll(w.lastRequest(t), `"cache_control":{"type":"ephemeral"},`, "")), &body); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(append(append(body.Messages, body.Input...), body.Contents...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Services reject parameters whose root is not a plain object: all get one, with all branches'
// properties.
func TestParameterRoots(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{
			"plain", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`,
			`{"additionalProperties":false,"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`,
		},
		{"no properties", `{"type":"object"}`, `{"properties":{},"type":"object"}`},
		{"no type", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		{"true", `true`, `{"properties":{},"type":"object"}`},
		{"null", `{"type":["object","null"],"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
		{"required without a property", `{"type":"object","properties":{"a":{}},"required":["a","b"]}`, `{"properties":{"a":{}},"required":["a"],"type":"object"}`},
		{
			"alternatives of required",
			`{"type":"object","description":"Finds.","properties":{"a":{},"b":{}},"required":["a"],"anyOf":[{"required":["b"]},{"required":["a"]}]}`,
			`{"description":"Finds.\nThe arguments must also match this JSON Schema: {\"anyOf\":[{\"required\":[\"b\"]},{\"required\":[\"a\"]}]}","properties":{"a":{},"b":{}},"required":["a"],"type":"object"}`,
		},
		{
			"alternatives of properties",
			`{"oneOf":[{"properties":{"id":{"type":"string"},"n":{"const":1}},"required":["id","n"]},{"properties":{"id":{"type":"integer"}},"required":["id"]}]}`,
			`{"description":"The arguments must also match this JSON Schema: {\"oneOf\":[{\"properties\":{\"id\":{\"type\":\"string\"},\"n\":{\"const\":1}},\"required\":[\"id\",\"n\"]},{\"properties\":{\"id\":{\"type\":\"integer\"}},\"required\":[\"id\"]}]}",` +
				`"properties":{"id":{"anyOf":[{"type":"string"},{"type":"integer"}]},"n":{"const":1}},"required":["id"],"type":"object"}`,
		},
		{
			"all of several",
			`{"type":"object","allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}],"additionalProperties":false}`,
			`{"description":"The arguments must also match this JSON Schema: {\"allOf\":[{\"properties\":{\"a\":{}},\"required\":[\"a\"]},{\"properties\":{\"b\":{}},\"required\":[\"b\"]}]}","properties":{"a":{},"b":{}},"required":["a","b"],"type":"object"}`,
		},
		{
			"reference", `{"$ref":"#/$defs/in","$defs":{"in":{"type":"object","properties":{"a":{"$ref":"#/$defs/s"}},"required":["a"]},"s":{"type":"string"}}}`,
			`{"$defs":{"in":{"properties":{"a":{"$ref":"#/$defs/s"}},"required":["a"],"type":"object"},"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}},"required":["a"],"type":"object"}`,
		},
		{
			"references to one schema", `{"type":"object","anyOf":[{"$ref":"#/$defs/in"},{"$ref":"#/$defs/in"}],"$defs":{"in":{"properties":{"a":{}},"required":["a"]}}}`,
			`"properties":{"a":{}},"required":["a"],"type":"object"}`,
		},
		{"reference to itself", `{"$ref":"#"}`, `{"properties":{},"type":"object"}`},
		{"reference elsewhere", `{"$ref":"https://x.example/s.json"}`, `{"properties":{},"type":"object"}`},
		{
			"condition", `{"type":"object","properties":{"a":{}},"not":{"required":["a"]}}`,
			`{"description":"The arguments must also match this JSON Schema: {\"not\":{\"required\":[\"a\"]}}","properties":{"a":{}},"type":"object"}`,
		},
		{
			"too long to describe", `{"type":"object","enum":["` + strings.Repeat("x", 3000) + `"]}`, `{"properties":{},"type":"object"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var schema any
			if err := json.Unmarshal([]byte(tt.schema), &schema); err != nil {
				t.Fatal(err)
			}
			eachService(t, func(t *testing.T, s *suiteSubject) {
				llm, w := s.build(t)
				req := modeltest.ScriptInput("hi", false)
				req.Config.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "f", ParametersJsonSchema: schema}}}}
				s.generateWhole(t, llm, req)
				if got := w.lastRequest(t); !strings.Contains(got, tt.want) {
					t.Errorf("the request has no %s: %s", tt.want, got)
				}
			})
			if raw, _ := json.Marshal(schema); !json.Valid(raw) || len(raw) != len(mustCompact(t, tt.schema)) {
				t.Errorf("the schema was changed to %s", raw)
			}
		})
	}
}

// Claude's API rejects parameters with some names: they are in the description, and a call
// has them as the model wrote them.
func TestParameterNames(t *testing.T) {
	llm, w := newSubject(t, "anthropic").build(t, suiteReply{calls: []*genai.FunctionCall{{Name: "f", Args: map[string]any{"$filter": "x"}}}})
	req := modeltest.ScriptInput("hi", false)
	req.Config.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "f", ParametersJsonSchema: map[string]any{
		"type": "object", "description": "Lists.", "additionalProperties": false, "required": []any{"$filter", "top"},
		"properties": map[string]any{"$filter": map[string]any{"type": "string"}, "top": map[string]any{"type": "integer"}},
	}}}}}
	got, err := modeltest.Collect(llm.Generate(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	if calls := model.CallsOf(got[0].Content); len(calls) != 1 || calls[0].Args["$filter"] != "x" {
		t.Errorf("calls = %+v, want one with $filter", calls)
	}
	const want = `{"description":"Lists.\nOther arguments are: {\"$filter\":{\"type\":\"string\"}}","properties":{"top":{"type":"integer"}},"required":["top"],"type":"object"}`
	if body := w.lastRequest(t); !strings.Contains(body, want) {
		t.Errorf("the request has no %s: %s", want, body)
	}
}

func mustCompact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
