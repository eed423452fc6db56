// Package provider is what all vendors' models have in common: their environment and their settings
// ([Env], [CallsConfig]), and what a vendor reports about a model ([EndpointConfig], [NameConfig],
// [CredentialConfig] and others), retries, fallbacks, limits, prices and recorded calls. It has the
// models that need no vendor: scripted and route. Vendors are separate packages, such as
// wing/gemini; each has a list of kinds for the loader.
//
// Building a model does no network I/O: remote models connect on the first call, and
// scripted loads and checks its script. Checking an app therefore builds its models too,
// and reports all problems with their positions.
package provider

import (
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// Kinds lists the models that need no vendor: route and scripted. Problems that a builder
// finds in a file are a [spec.Diagnostics] error.
func Kinds() spec.Kinds[Env, model.LLM] {
	return spec.Kinds[Env, model.LLM]{RouteKind(), ScriptedKind()}
}

// RouteKind returns the kind for models that choose another model in the app.
func RouteKind() spec.Kind[Env, model.LLM] {
	return spec.NewKind("route", "Chooses another model in the app for each call by conditions.", buildRoute)
}

// ScriptedKind returns the kind for models that answer from a script.
func ScriptedKind() spec.Kind[Env, model.LLM] {
	return spec.NewKind("scripted", "Answers from a script, without network access or an API key.", buildScripted)
}
