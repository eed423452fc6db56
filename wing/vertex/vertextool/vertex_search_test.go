package vertextool

import (
	"encoding/json"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/tooltest"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Search in Vertex AI is a setting in the model's request.
func TestVertexSearch(t *testing.T) {
	for _, tt := range []struct{ kind, args, want string }{
		{
			"VertexAiSearchTool", "{search_engine_id: projects/p/e, filter: a, max_results: 3, data_store_specs: [{data_store: projects/p/d, filter: b}]}",
			`{"retrieval":{"vertexAiSearch":{"dataStoreSpecs":[{"dataStore":"projects/p/d","filter":"b"}],"engine":"projects/p/e","filter":"a","maxResults":3}}}`,
		},
		{
			"VertexAiRagRetrieval", "{name: docs, description: D., rag_corpora: [projects/p/c], similarity_top_k: 2, vector_distance_threshold: 0.5}",
			`{"retrieval":{"vertexRagStore":{"ragCorpora":["projects/p/c"],"similarityTopK":2,"vectorDistanceThreshold":0.5}}}`,
		},
	} {
		kind, _ := Builtins().Lookup(tt.kind)
		plan, ds := kind.Decode(tooltest.ParseNode(t, tt.args))
		if ds.HasErrors() {
			t.Fatal(ds)
		}
		set, err := plan.Build(t.Context(), tooltest.NewEnv())
		if err != nil {
			t.Fatal(err)
		}
		req := &model.Request{Config: &genai.GenerateContentConfig{}}
		if err := tooltest.OnlyTool(t, set).(tool.RequestEditor).EditRequest(t.Context(), tooltest.NewCall(nil, nil), req); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(req.Config.Tools[0])
		if err != nil || string(got) != tt.want {
			t.Errorf("%s = %s, %v, want %s", tt.kind, got, err, tt.want)
		}
	}
}

func TestVertexSearchErrors(t *testing.T) {
	for _, tt := range []struct{ kind, args, want string }{
		{"VertexAiSearchTool", "{}", "tool.yaml:1:1: VertexAiSearchTool requires exactly one of data_store_id and search_engine_id [tool]"},
		{"VertexAiSearchTool", "{data_store_id: a, search_engine_id: b}", "tool.yaml:1:1: VertexAiSearchTool requires exactly one of data_store_id and search_engine_id [tool]"},
		{"VertexAiSearchTool", "{data_store_id: a, data_store_specs: [{data_store: b}]}", "tool.yaml:1:38: data_store_specs require search_engine_id [tool]"},
		{"VertexAiSearchTool", "{data_store_id: a, max_results: 11}", "tool.yaml:1:33: max_results must be between 1 and 10, got 11 [tool]"},
		{"VertexAiRagRetrieval", "{}", "tool.yaml:1:1: VertexAiRagRetrieval requires rag_corpora or rag_resources [tool]"},
		{"VertexAiRagRetrieval", "{rag_corpora: [a], similarity_top_k: -1}", "tool.yaml:1:38: similarity_top_k must be positive, got -1 [tool]"},
	} {
		kind, _ := Builtins().Lookup(tt.kind)
		n := tooltest.ParseNode(t, tt.args)
		plan, ds := kind.Decode(n)
		ds = append(ds, plan.Config.(spec.Checker).Check(n)...)
		if got := tooltest.ErrorString(ds.Err()); got != tt.want {
			t.Errorf("%s %s = %s, want %s", tt.kind, tt.args, got, tt.want)
		}
	}
}
