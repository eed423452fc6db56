package spec_test

import (
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/spec"
)

type modelConfig struct {
	Config *genai.GenerateContentConfig `yaml:"generate_content_config"`
}

// API structs accept snake_case, as in ADK's YAML, and camelCase, as in the API's JSON.
func TestDecode_API(t *testing.T) {
	budget := int32(100)
	timeout := 30 * time.Second
	tests := []struct {
		name, in string
		want     genai.GenerateContentConfig
	}{
		{"numbers", "{temperature: 0.5, top_p: 1, max_output_tokens: 256, seed: 7}", genai.GenerateContentConfig{
			Temperature: new(float32(0.5)), TopP: new(float32(1)), MaxOutputTokens: 256, Seed: new(int32(7)),
		}},
		{"camel case", "{topK: 3, responseMimeType: application/json}", genai.GenerateContentConfig{
			TopK: new(float32(3)), ResponseMIMEType: "application/json",
		}},
		{"lists", "{stop_sequences: [a, b], response_modalities: [TEXT]}", genai.GenerateContentConfig{
			StopSequences: []string{"a", "b"}, ResponseModalities: []string{"TEXT"},
		}},
		{"enums are strings", "safety_settings: [{category: HARM_CATEGORY_HARASSMENT, threshold: BLOCK_NONE}]", genai.GenerateContentConfig{
			SafetySettings: []*genai.SafetySetting{{Category: genai.HarmCategoryHarassment, Threshold: genai.HarmBlockThresholdBlockNone}},
		}},
		{"enums in other spellings", "{thinking_config: {thinking_level: high}, safety_settings: [{category: types.HarmCategory.HARM_CATEGORY_HARASSMENT, threshold: block_none}], service_tier: ServiceTier.FLEX}", genai.GenerateContentConfig{
			ThinkingConfig: &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevelHigh}, ServiceTier: genai.ServiceTierFlex,
			SafetySettings: []*genai.SafetySetting{{Category: genai.HarmCategoryHarassment, Threshold: genai.HarmBlockThresholdBlockNone}},
		}},
		{"nested", "thinking_config: {include_thoughts: true, thinking_budget: 100}", genai.GenerateContentConfig{
			ThinkingConfig: &genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: &budget},
		}},
		{"milliseconds", "http_options: {timeout: 30000, api_version: v1, headers: {a: b, c: [d, e]}}", genai.GenerateContentConfig{
			HTTPOptions: &genai.HTTPOptions{Timeout: &timeout, APIVersion: "v1", Headers: http.Header{"A": {"b"}, "C": {"d", "e"}}},
		}},
		{"duration", "http_options: {timeout: 30s}", genai.GenerateContentConfig{
			HTTPOptions: &genai.HTTPOptions{Timeout: &timeout},
		}},
		{"schema", "response_schema: {type: OBJECT, properties: {a: {type: ARRAY, min_items: 2, items: {type: STRING}}}}", genai.GenerateContentConfig{
			ResponseSchema: &genai.Schema{Type: genai.TypeObject, Properties: map[string]*genai.Schema{
				"a": {Type: genai.TypeArray, MinItems: new(int64(2)), Items: &genai.Schema{Type: genai.TypeString}},
			}},
		}},
		{"any", "response_json_schema: {type: object}", genai.GenerateContentConfig{ResponseJsonSchema: map[string]any{"type": "object"}}},
		{"bytes", "system_instruction: {parts: [{inline_data: {mime_type: a/b, data: aGk=}}]}", genai.GenerateContentConfig{
			SystemInstruction: &genai.Content{Parts: []*genai.Part{{InlineData: &genai.Blob{MIMEType: "a/b", Data: []byte("hi")}}}},
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got genai.GenerateContentConfig
			if ds := spec.Decode(parseValid(t, test.in), &got); ds != nil {
				t.Fatalf("Decode(%q) = %v", test.in, ds)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Decode(%q) (-want +got):\n%s", test.in, diff)
			}
		})
	}
}

// Numbers that the API's JSON quotes may be quoted, and only those.
func TestDecode_QuotedNumbers(t *testing.T) {
	var v genai.SlidingWindow
	if ds := spec.Decode(parseValid(t, "target_tokens: '12'"), &v); ds != nil || v.TargetTokens == nil || *v.TargetTokens != 12 {
		t.Errorf("target_tokens: '12' = %v, %v", v.TargetTokens, ds)
	}
	ds := spec.Decode(parseValid(t, "target_tokens: 'many'"), &v)
	if diff := cmp.Diff([]string{"f.yaml:1:16: expected an integer, got a string [type]"}, problemLines(ds)); diff != "" {
		t.Errorf("target_tokens: many (-want +got):\n%s", diff)
	}
}

func TestDecode_APIProblems(t *testing.T) {
	var v modelConfig
	ds := spec.Decode(parseValid(t, `generate_content_config:
  temprature: 0.5
  topP: 1
  top_p: 2
  max_output_tokens: 3000000000
  thinking_config: {thinkingBudgets: 1}
  stop_sequences: stop
`), &v)
	want := []string{
		`f.yaml:2:3: unknown field "temprature" [unknown-field]`,
		`f.yaml:4:3: "top_p" and "topP" are the same field [duplicate-key]`,
		`f.yaml:5:22: must be between -2147483648 and 2147483647, got 3000000000 [limit]`,
		`f.yaml:6:21: unknown field "thinkingBudgets" [unknown-field]`,
		`f.yaml:7:19: expected a list, got a string [type]`,
	}
	if diff := cmp.Diff(want, problemLines(ds)); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

// Each name is the JSON name in snake_case and is unique within its struct.
func TestFields_API(t *testing.T) {
	want := map[string]string{
		"httpOptions": "http_options", "topP": "top_p", "responseMimeType": "response_mime_type",
		"responseJsonSchema": "response_json_schema", "temperature": "temperature", "serviceTier": "service_tier",
	}
	got := map[string]string{}
	seen := map[string]bool{}
	for _, f := range spec.Fields(reflect.TypeFor[genai.GenerateContentConfig]()) {
		camel := f.Alias
		if camel == "" {
			camel = f.Name
		}
		if _, ok := want[camel]; ok {
			got[camel] = f.Name
		}
		if seen[f.Name] {
			t.Errorf("two fields are named %s", f.Name)
		}
		seen[f.Name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Fields (-want +got):\n%s", diff)
	}
}
