// Package vertextool provides the tools that need Vertex AI services.
package vertextool

import (
	"context"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Builtins lists the Vertex AI tools, which documents name by `name:`.
func Builtins() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("DiscoveryEngineSearchTool", "Lets the model search a Vertex AI Search data store or engine, with the host's credentials; models call it discovery_engine_search.", newDiscoverySearch),
		spec.NewKind("VertexAiLoadProfilesTool", "Lets the model read the user's profiles in Vertex AI's Memory Bank; models call it load_profiles.", newLoadProfiles),
		spec.NewKind("VertexAiRagRetrieval", "Lets models on Vertex AI search RAG corpora.", newRAGRetrieval),
		spec.NewKind("VertexAiSearchTool", "Lets models on Vertex AI search a Vertex AI Search data store or engine.", newVertexSearch),
	}
}

// newRetrieval returns a tool that lets a model on Vertex AI search one of the service's stores. An
// agent may have several.
func newRetrieval(name string, retrieval *genai.Retrieval) tool.Set {
	return tool.One(tool.NewModelTool(name,
		func(*genai.Tool) bool { return false },
		func() *genai.Tool { return &genai.Tool{Retrieval: retrieval} }))
}

// vertexSearchArgs are VertexAiSearchTool's args (adk-python tools/vertex_ai_search_tool.py).
type vertexSearchArgs struct {
	DataStore  spec.Text                            `yaml:"data_store_id" doc:"The data store: projects/P/locations/L/collections/C/dataStores/D."`
	Engine     spec.Text                            `yaml:"search_engine_id" doc:"The search engine: projects/P/locations/L/collections/C/engines/E."`
	DataStores []*genai.VertexAISearchDataStoreSpec `yaml:"data_store_specs" doc:"The engine's data stores to search, with their filters."`
	Filter     string                               `yaml:"filter" doc:"A filter in the service's syntax."`
	MaxResults int                                  `yaml:"max_results" doc:"Maximum results; the service's default is 10."`
	Bypass     bool                                 `yaml:"bypass_multi_tools_limit" doc:"Whether the tool becomes DiscoveryEngineSearchTool if the agent has other tools, which some models do not allow besides a search."`
}

var (
	_ spec.Checker           = (*vertexSearchArgs)(nil)
	_ tool.AddressConfig     = (*vertexSearchArgs)(nil)
	_ tool.ReplaceableConfig = (*vertexSearchArgs)(nil)
)

// Replacement returns the tool that the agent calls itself, if the limit is to be bypassed.
func (c *vertexSearchArgs) Replacement() (kind, setting string) {
	if !c.Bypass {
		return "", ""
	}
	return "DiscoveryEngineSearchTool", "bypass_multi_tools_limit"
}

// Check requires exactly one of a data store and an engine.
func (c *vertexSearchArgs) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	switch hasStore, hasEngine := c.DataStore.Value != "", c.Engine.Value != ""; {
	case hasStore == hasEngine:
		ds = append(ds, n.Errorf("tool", "VertexAiSearchTool requires exactly one of data_store_id and search_engine_id"))
	case hasStore && len(c.DataStores) > 0:
		ds = append(ds, n.Get("data_store_specs").Errorf("tool", "data_store_specs require search_engine_id"))
	}
	if at := n.Get("max_results"); c.MaxResults < 0 || c.MaxResults > 10 {
		ds = append(ds, at.Errorf("tool", "max_results must be between 1 and 10, got %d", c.MaxResults))
	}
	return ds
}

// Addresses returns the service: an app that may not reach it cannot read its data through a
// model either.
func (c *vertexSearchArgs) Addresses() []spec.Text {
	at := c.DataStore
	if c.Engine.Value != "" {
		at = c.Engine
	}
	return []spec.Text{serviceAddress(at, "https://discoveryengine.googleapis.com")}
}

// serviceAddress returns a service address at the position of a setting.
func serviceAddress(at spec.Text, url string) spec.Text {
	at.Value = url
	return at
}

func newVertexSearch(_ context.Context, _ tool.Env, c *vertexSearchArgs) (tool.Set, error) {
	search := &genai.VertexAISearch{Datastore: c.DataStore.Value, Engine: c.Engine.Value, DataStoreSpecs: c.DataStores, Filter: c.Filter}
	if n := int32(c.MaxResults); n > 0 {
		search.MaxResults = &n
	}
	return newRetrieval("VertexAiSearchTool", &genai.Retrieval{VertexAISearch: search}), nil
}

// ragRetrievalArgs are VertexAiRagRetrieval's args (adk-python
// tools/retrieval/vertex_ai_rag_retrieval.py).
type ragRetrievalArgs struct {
	Name        string                             `yaml:"name" doc:"Accepted for ADK; models do not see it."`
	Description string                             `yaml:"description" doc:"Accepted for ADK; models do not see it."`
	Corpora     []spec.Text                        `yaml:"rag_corpora" doc:"The corpora: projects/P/locations/L/ragCorpora/C."`
	Resources   []*genai.VertexRAGStoreRAGResource `yaml:"rag_resources" doc:"Corpora with the files to search."`
	TopK        int                                `yaml:"similarity_top_k" doc:"The number of results."`
	Threshold   *float64                           `yaml:"vector_distance_threshold" doc:"The results' maximum vector distance."`
}

var (
	_ spec.Checker       = (*ragRetrievalArgs)(nil)
	_ tool.AddressConfig = (*ragRetrievalArgs)(nil)
)

// Check requires a corpus.
func (c *ragRetrievalArgs) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if len(c.Corpora) == 0 && len(c.Resources) == 0 {
		ds = append(ds, n.Errorf("tool", "VertexAiRagRetrieval requires rag_corpora or rag_resources"))
	}
	if c.TopK < 0 {
		ds = append(ds, n.Get("similarity_top_k").Errorf("tool", "similarity_top_k must be positive, got %d", c.TopK))
	}
	return ds
}

// Addresses returns the service.
func (c *ragRetrievalArgs) Addresses() []spec.Text {
	var at spec.Text
	if len(c.Corpora) > 0 {
		at = c.Corpora[0]
	}
	return []spec.Text{serviceAddress(at, "https://aiplatform.googleapis.com")}
}

func newRAGRetrieval(_ context.Context, _ tool.Env, c *ragRetrievalArgs) (tool.Set, error) {
	store := &genai.VertexRAGStore{RAGResources: c.Resources, VectorDistanceThreshold: c.Threshold}
	for _, corpus := range c.Corpora {
		store.RAGCorpora = append(store.RAGCorpora, corpus.Value)
	}
	if k := int32(c.TopK); k > 0 {
		store.SimilarityTopK = &k
	}
	return newRetrieval("VertexAiRagRetrieval", &genai.Retrieval{VertexRAGStore: store}), nil
}
