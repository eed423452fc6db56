package loader_test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestForeignModelNames covers other programs' model names: the hint is the name here.
func TestForeignModelNames(t *testing.T) {
	for written, want := range map[string]string{
		"openai:gpt-4o":                    "openai/gpt-4o",
		"anthropic:claude-sonnet-4-5":      "anthropic/claude-sonnet-4-5",
		"google-gla:gemini-2.5-flash":      "gemini/gemini-2.5-flash",
		"google_genai:gemini-2.5-flash":    "gemini/gemini-2.5-flash",
		"google_vertexai:gemini-2.5-flash": "vertex_ai/gemini-2.5-flash",
		"google/gemini-2.5-flash":          "gemini/gemini-2.5-flash",
		"azure_openai:gpt-4o":              "azure/gpt-4o",
		"mistralai:mistral-large-latest":   "mistral/mistral-large-latest",
		"x-ai/grok-4":                      "xai/grok-4",
		"vllm/Qwen/Qwen3-8B":               "hosted_vllm/Qwen/Qwen3-8B",
		"lmstudio/qwen3":                   "lm_studio/qwen3",
		"OpenAI/gpt-4o":                    "openai/gpt-4o",
		"deepseek-reasoner":                "deepseek/deepseek-reasoner",
		"mistral-small-2506":               "mistral/mistral-small-2506",
		"codestral-latest":                 "mistral/codestral-latest",
		"grok-4":                           "xai/grok-4",
		"sonar-pro":                        "perplexity/sonar-pro",
		"kimi-k2-thinking":                 "moonshot/kimi-k2-thinking",
		"qwen-max":                         "dashscope/qwen-max",
		"qwen3:8b":                         "ollama/qwen3:8b",
		"phi4":                             "ollama/phi4",
		"sonnet":                           "anthropic/claude-sonnet-4-5",
		"gpt4.1-mini":                      "openai/gpt-4.1-mini",
		"openai.gpt-oss-120b-1:0":          "bedrock/openai.gpt-oss-120b-1:0",
		"us.anthropic.claude-sonnet-4-20250514-v1:0": "litellm_proxy/bedrock/us.anthropic.claude-sonnet-4-20250514-v1:0",
	} {
		dir := filepath.Join(t.TempDir(), "app")
		write(t, filepath.Join(dir, "root_agent.yaml"), fmt.Sprintf("name: a\nmodel: %q\ninstruction: x\n", written))
		ds := check(t, dir)
		if len(ds) != 1 || ds[0].Hint != "write "+want || len(ds[0].Proposals) != 1 {
			t.Errorf("Check(model: %s) = %s, want the hint %q", written, renderText(t, ds), want)
		}
		write(t, filepath.Join(dir, "root_agent.yaml"), fmt.Sprintf("name: a\nmodel: %q\ninstruction: x\n", want))
		if ds := check(t, dir); len(ds) > 0 {
			t.Errorf("Check(model: %s) = %s, want no problem", want, renderText(t, ds))
		}
	}
}
