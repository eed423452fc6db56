package provider_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// The cost counts cached tokens at their own price, and thoughts as output. The usage
// stays as the service reports it.
func TestWithPrice(t *testing.T) {
	usage := &genai.GenerateContentResponseUsageMetadata{
		PromptTokenCount: 1000, CachedContentTokenCount: 400, ToolUsePromptTokenCount: 100, CandidatesTokenCount: 50, ThoughtsTokenCount: 150,
	}
	llm := provider.WithPrice(fixedResponse{&model.Response{Content: model.ModelText("hi"), UsageMetadata: usage}}, &provider.Price{Input: 2, Cached: 0.5, Output: 10})
	got, err := modeltest.Ask(t, llm, false)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"model_cost": map[string]any{"usd": 0.0036, "input_tokens": 1100, "cached_tokens": 400, "output_tokens": 200}}
	if diff := cmp.Diff(want, got[0].CustomMetadata); diff != "" || got[0].UsageMetadata != usage {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if usd, ok := model.CostOf(got[0]); usd != 0.0036 || !ok {
		t.Errorf("CostOf = %v, %v", usd, ok)
	}
	if _, ok := model.CostOf(&model.Response{}); ok {
		t.Error("a response without a price has a cost")
	}
}

func TestPriceProblems(t *testing.T) {
	for _, tt := range []struct {
		price string
		want  []string
	}{
		{"{input: 0.3, output: 2.5}", nil},
		{"{input: 0, output: 0, cached: 0}", nil},
		{"{input: -1, output: 2.5, cached: 10001}", []string{
			"input must be 0 to 10000 US dollars per million tokens", "cached must be 0 to 10000 US dollars per million tokens",
		}},
		{"{input: 1}", []string{`missing field "output" [required]`}},
	} {
		_, problems := modeltest.BuildModel(t, "{provider: gemini, model: m, price: "+tt.price+"}", nil)
		var got []string
		for _, p := range problems {
			_, text, _ := strings.Cut(p, ": ")
			got = append(got, strings.TrimSuffix(text, " [value]"))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.price, diff)
		}
	}
}

// A price list has the form of models.dev's api.json.
func TestReadPriceList(t *testing.T) {
	const openai = `"openai": {"id": "openai", "models": {"gpt-x": {"name": "X", "cost": {"input": 2.5, "output": 10, "cache_read": 1.25, "tiers": []}, "limit": {"context": 400}}, "free": {}}}`
	const google = `"google": {"models": {"gemini-x": {"cost": {"input": 1, "output": 4}}}}`
	for _, tt := range []struct {
		name, text, provider, model string
		want                        *provider.Price
		err                         string
	}{
		{"a model", "{" + openai + "}", "openai", "gpt-x", &provider.Price{Input: 2.5, Cached: 1.25, Output: 10}, ""},
		{"below providers", `{"providers": {` + openai + "}}", "openai", "gpt-x", &provider.Price{Input: 2.5, Cached: 1.25, Output: 10}, ""},
		{"another name", "{" + google + "}", "gemini", "models/gemini-x", &provider.Price{Input: 1, Cached: 1, Output: 4}, ""},
		{"a model without a price", "{" + openai + "}", "openai", "free", nil, ""},
		{"another provider", "{" + openai + "}", "azure", "gpt-x", nil, ""},
		{"syntax", "{\n  \"openai\": {,}\n}", "", "", nil, `FILE:2:14: invalid character ',' looking for beginning of object key string`},
		{"a list", "[]", "", "", nil, "FILE: price list must be a mapping of providers: json: cannot unmarshal array into Go value of type map[string]json.RawMessage"},
		{"a string as a price", `{"openai": {"models": {"gpt-x": {"cost": {"input": "2"}}}}}`, "", "", nil, "FILE: prices of openai: json: cannot unmarshal string into Go struct field .models.cost.input of type float64"},
		{"a negative limit", `{"openai": {"models": {"gpt-x": {"limit": {"output": -2}}}}}`, "", "", nil, "FILE: limit of openai/gpt-x must not be negative"},
		{"a negative price", `{"openai": {"models": {"gpt-x": {"cost": {"input": -2}}}}}`, "", "", nil, "FILE: price of openai/gpt-x must not be negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "api.json")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := provider.ReadPriceList(file)
			if got := strings.ReplaceAll(modeltest.ErrorText(err), file, "FILE"); got != tt.err {
				t.Fatalf("ReadPriceList() = %s, want %s", got, tt.err)
			}
			if diff := cmp.Diff(tt.want, l.Find(tt.provider, tt.model)); diff != "" {
				t.Errorf("Find() (-want +got):\n%s", diff)
			}
		})
	}
}

// The prompt limit is limit.input in the list, or else limit.context. Unknown models have no
// limits.
func TestFindContext(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api.json")
	const list = `{"openai": {"models": {"both": {"limit": {"context": 400, "input": 300, "output": 100}}, "whole": {"limit": {"context": 50}}, "none": {}}}}`
	if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := provider.ReadPriceList(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]provider.ContextLimits{"both": {Input: 300, Output: 100}, "whole": {Input: 50}, "none": {}, "unknown": {}} {
		if got := l.FindContext("openai", name); got != want {
			t.Errorf("FindContext(%s) = %+v, want %+v", name, got, want)
		}
	}
	if got := (*provider.PriceList)(nil).FindContext("openai", "both"); got != (provider.ContextLimits{}) {
		t.Errorf("nil list: FindContext() = %+v", got)
	}
}
