// Package provider implements the language models: gemini, anthropic, openai_compatible
// and scripted. Each is a kind with a config struct ([Kinds]) and a constructor for Go
// callers ([NewGemini], [NewAnthropic], [NewOpenAI], [NewScripted]). One test suite
// verifies that all of them implement [model.LLM].
//
// Building a model does no network I/O: remote models connect on the first call, and
// scripted loads and checks its script. Checking an app therefore builds its models too,
// and reports all problems with their positions.
package provider

import (
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// Kinds lists the providers of models in app.yaml. Problems that a builder finds in a
// file are a [spec.Diagnostics] error.
func Kinds() spec.Kinds[Env, model.LLM] {
	kinds := spec.Kinds[Env, model.LLM]{
		spec.NewKind("gemini", "Gemini, through the Gemini API or Vertex AI.", buildGemini),
		spec.NewKind("anthropic", "Claude, through Anthropic's API or Vertex AI.", buildAnthropic),
		spec.NewKind("vertex_ai", "Gemini and Claude on Vertex AI.", buildVertex),
	}
	for _, v := range chatVendors() {
		kinds = append(kinds, newChatKind(v))
	}
	for _, name := range []string{ollamaName, "ollama_chat"} {
		kinds = append(kinds, spec.NewKind(name, "Ollama, by default on this machine.", buildOllama))
	}
	return append(kinds,
		spec.NewKind("route", "Chooses another model of the app for each call by conditions.", buildRoute),
		spec.NewKind("apigee", "Models behind an Apigee proxy, at the address in APIGEE_PROXY_URL.", buildApigee),
		spec.NewKind("scripted", "Answers from a script, without network access or an API key.", buildScripted),
	)
}
