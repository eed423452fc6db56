package agentconfig

import (
	"fmt"
	"regexp"
	"slices"
)

// This file lists which package has the kinds that documents name, so that a program that does
// not list a kind reports where to find it. It has words only: no package is imported for it.

// The lists in loader.Kinds that have sources.
const (
	ModelList    = "Models"
	ToolList     = "Tools"
	BuiltinList  = "Builtins"
	ExecutorList = "Executors"
)

// A kindSource is a package function that returns kinds.
type kindSource struct {
	list string
	// function is written in Go as the package's users write it.
	function, path string
	names          []string
	// models matches model names that need no prefix; nil matches none.
	models *regexp.Regexp
}

// kindSources returns the table. A test of cmd/agenthost compares it with the program's kinds.
func kindSources() []kindSource {
	const (
		anthropic = "agenthost/wing/anthropic"
		builtin   = "agenthost/pkg/tool/builtin"
		gemini    = "agenthost/wing/gemini"
		httptool  = "agenthost/pkg/tool/httptool"
		mcptool   = "agenthost/wing/mcptool"
		ollama    = "agenthost/wing/ollama"
		openai    = "agenthost/wing/openai"
		openapi   = "agenthost/wing/openapitool"
		programs  = "agenthost/wing/programs"
		provider  = "agenthost/pkg/provider"
		skills    = "agenthost/wing/skills"
		vertex    = "agenthost/wing/vertex/vertextool"
		wasi      = "agenthost/wing/wasi"
	)
	return []kindSource{
		{ModelList, "anthropic.Kind", anthropic, []string{"anthropic"}, regexp.MustCompile(`^claude-|publishers/anthropic/`)},
		{ModelList, "gemini.Kind", gemini, []string{"gemini"}, regexp.MustCompile(`^(gemini|gemma|learnlm|models/|projects/|publishers/google/|tunedModels/)`)},
		{ModelList, "gemini.VertexKind", gemini, []string{"vertex_ai"}, nil},
		{ModelList, "gemini.ApigeeKind", gemini, []string{"apigee"}, nil},
		{ModelList, "openai.Kinds", openai, []string{
			"openai", "azure", "azure_ai", "groq", "mistral", "deepseek", "together_ai", "fireworks_ai", "openrouter", "xai", "cohere", "databricks", "ai21", "bedrock", "moonshot", "perplexity",
			"cerebras", "sambanova", "nvidia_nim", "deepinfra", "dashscope", "hosted_vllm", "lm_studio", "llamafile", "litellm_proxy", "openai_compatible",
		}, regexp.MustCompile(`^(gpt-|chatgpt-|o[1-9](-|$))`)},
		{ModelList, "ollama.Kinds", ollama, []string{"ollama", "ollama_chat"}, nil},
		{ModelList, "provider.Kinds", provider, []string{"route", "scripted"}, nil},
		{ToolList, "programs.Kinds", programs, []string{"command"}, nil},
		{ToolList, "builtin.Kinds", builtin, []string{"expr"}, nil},
		{ToolList, "httptool.Kinds", httptool, []string{"http"}, nil},
		{ToolList, "skills.Kinds", skills, []string{"skills"}, nil},
		{ToolList, "mcptool.Kinds", mcptool, []string{"mcp"}, nil},
		{ToolList, "openapitool.Kinds", openapi, []string{"openapi"}, nil},
		{BuiltinList, "builtin.Builtins", builtin, []string{
			"enterprise_web_search", "ExampleTool", "exit_loop", "get_user_choice", "google_maps_grounding", "google_search", "load_artifacts", "load_memory",
			"preload_memory", "request_input", "transfer_to_agent", "url_context",
		}, nil},
		{BuiltinList, "httptool.Builtins", httptool, []string{"load_web_page"}, nil},
		{BuiltinList, "programs.Builtins", programs, []string{"ExecuteBashTool"}, nil},
		{BuiltinList, "skills.Builtins", skills, []string{"SkillToolset"}, nil},
		{BuiltinList, "vertextool.Builtins", vertex, []string{"DiscoveryEngineSearchTool", "VertexAiLoadProfilesTool", "VertexAiRagRetrieval", "VertexAiSearchTool"}, nil},
		{BuiltinList, "mcptool.Toolsets", mcptool, []string{"MCPToolset", "McpToolset", "ToolboxToolset"}, nil},
		{BuiltinList, "openapitool.Toolsets", openapi, []string{
			"OpenAPIToolset", "GoogleApiToolset", "BigQueryApiToolset", "CalendarToolset", "DocsToolset", "GmailToolset", "SheetsToolset", "SlidesToolset", "YoutubeToolset",
		}, nil},
		{ExecutorList, "programs.Executors", programs, []string{"command", "container", "ContainerCodeExecutor"}, nil},
		{ExecutorList, "wasi.Executors", wasi, []string{"wasi"}, nil},
	}
}

// HintSource returns what a Go program must add for a kind that a list lacks; ok is false if no
// package has the kind.
func HintSource(list, name string) (hint string, ok bool) {
	for _, s := range kindSources() {
		if s.list == list && slices.Contains(s.names, name) {
			return fmt.Sprintf("in Go, add %s of package %s to %s of loader.Kinds", s.function, s.path, list), true
		}
	}
	return "", false
}

// FindProvider returns the provider that recognizes a model name without a prefix.
func FindProvider(model string) (name string, ok bool) {
	for _, s := range kindSources() {
		if s.models != nil && s.models.MatchString(model) {
			return s.names[0], true
		}
	}
	return "", false
}

// SourceNames returns a list's names in table order.
func SourceNames(list string) []string {
	var names []string
	for _, s := range kindSources() {
		if s.list == list {
			names = append(names, s.names...)
		}
	}
	return names
}
