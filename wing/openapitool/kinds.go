package openapitool

import (
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Kinds lists the tool kind openapi.
func Kinds() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("openapi", "Provides the operations in an OpenAPI document, or in a Google discovery document, as tools.", newConfigSet),
	}
}

// Toolsets lists ADK's toolsets, which documents name by `name:`. A is the type of OpenAPIToolset's
// credential settings: the one in agenthost/wing/connection, or [connection.UnsupportedADKAuth].
// google makes the connections for Google API toolsets; nil if the program has no connections.
func Toolsets[A connection.ADKAuth](google connection.Google) spec.Kinds[tool.Env, tool.Set] {
	return append(googleKinds(google),
		spec.NewKind("OpenAPIToolset", "Provides the operations of an OpenAPI document as tools, in ADK's syntax.", newADKSet[A]),
	)
}

// googleKinds lists ADK's toolsets for Google's APIs (adk-python
// tools/google_api_tool/google_api_toolsets.py).
func googleKinds(google connection.Google) spec.Kinds[tool.Env, tool.Set] {
	kinds := spec.Kinds[tool.Env, tool.Set]{
		spec.NewKindFrom("GoogleApiToolset", "Provides a Google API's operations as tools, by its discovery document.",
			func() *anyGoogleConfig { return &anyGoogleConfig{Google: googleConfig{google: google}} }, newAnyGoogleSet),
	}
	for _, api := range []googleAPI{
		{kind: "BigQueryApiToolset", title: "BigQuery", name: "bigquery", version: "v2"},
		{kind: "CalendarToolset", title: "Google Calendar", name: "calendar", version: "v3"},
		{kind: "DocsToolset", title: "Google Docs", name: "docs", version: "v1"},
		{kind: "GmailToolset", title: "Gmail", name: "gmail", version: "v1"},
		{kind: "SheetsToolset", title: "Google Sheets", name: "sheets", version: "v4"},
		{kind: "SlidesToolset", title: "Google Slides", name: "slides", version: "v1"},
		{kind: "YoutubeToolset", title: "YouTube", name: "youtube", version: "v3"},
	} {
		kinds = append(kinds, spec.NewKindFrom(api.kind, "Provides the operations of "+api.title+" as tools, by its discovery document.",
			func() *googleConfig { return &googleConfig{api: api, google: google} }, newGoogleSet))
	}
	return kinds
}
