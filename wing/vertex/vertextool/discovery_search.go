package vertextool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/auth/credentials"
	"google.golang.org/genai"

	"agenthost/internal/limit"
	"agenthost/internal/number"
	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// Search limits.
const (
	discoveryTimeout  = 30 * time.Second
	maxDiscoveryError = 500
)

// The service's search result modes.
const (
	modeChunks    = "CHUNKS"
	modeDocuments = "DOCUMENTS"
)

const discoveryName = "discovery_engine_search"

// discoverySearchArgs are DiscoveryEngineSearchTool's args (adk-python
// tools/discovery_engine_search_tool.py).
type discoverySearchArgs struct {
	Call        toolconfig.CallConfig                `yaml:",inline"`
	DataStore   spec.Text                            `yaml:"data_store_id" doc:"The data store: projects/P/locations/L/collections/C/dataStores/D."`
	Engine      spec.Text                            `yaml:"search_engine_id" doc:"The search engine: projects/P/locations/L/collections/C/engines/E."`
	DataStores  []*genai.VertexAISearchDataStoreSpec `yaml:"data_store_specs" doc:"The engine's data stores to search, with their filters."`
	Filter      string                               `yaml:"filter" doc:"A filter in the service's syntax."`
	MaxResults  int                                  `yaml:"max_results" doc:"Maximum results; the service's default is 10."`
	Mode        string                               `yaml:"search_result_mode" enum:"CHUNKS|DOCUMENTS" doc:"The results: document chunks, or documents, as structured data stores require. Default: chunks, or documents if the store requires them."`
	Location    spec.Text                            `yaml:"location" doc:"The service's location, such as eu; default: the store's or engine's."`
	Name        spec.Text                            `yaml:"name" doc:"The name that the model calls; default: discovery_engine_search."`
	Description string                               `yaml:"description" doc:"The tool's description for the model."`
}

var (
	_ spec.Checker       = (*discoverySearchArgs)(nil)
	_ tool.AddressConfig = (*discoverySearchArgs)(nil)
	_ tool.StateConfig   = (*discoverySearchArgs)(nil)
)

// searchResource matches a data store or an engine; the first group is its location. Names have no
// slashes and no dot segments, because they are in a URL.
var searchResource = regexp.MustCompile(`^projects/[a-z0-9][a-z0-9:.-]*/locations/([a-z0-9-]+)(?:/collections/[A-Za-z0-9_-]+)?/(?:dataStores|engines)/[A-Za-z0-9_-]+$`)

// storeName returns the data store or the engine.
func (c *discoverySearchArgs) storeName() spec.Text {
	if c.Engine.Value != "" {
		return c.Engine
	}
	return c.DataStore
}

// Check requires exactly one of a data store and an engine, with its location.
func (c *discoverySearchArgs) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	at, hasStore, hasEngine := c.storeName(), c.DataStore.Value != "", c.Engine.Value != ""
	found := searchResource.FindStringSubmatch(at.Value)
	switch {
	case hasStore == hasEngine:
		ds = append(ds, n.Errorf("tool", "DiscoveryEngineSearchTool requires exactly one of data_store_id and search_engine_id"))
	case hasStore && len(c.DataStores) > 0:
		ds = append(ds, n.Get("data_store_specs").Errorf("tool", "data_store_specs require search_engine_id"))
	case found == nil:
		ds = append(ds, at.Errorf(0, "tool", "%q is not the name of a data store or engine", at.Value).
			WithHint("write projects/PROJECT/locations/LOCATION/collections/COLLECTION/dataStores/NAME or …/engines/NAME"))
	case c.Location.Value != "" && c.Location.Value != found[1]:
		ds = append(ds, c.Location.Errorf(0, "tool", "location must be %s, as in %s, got %q", found[1], at.Value, c.Location.Value))
	}
	if c.MaxResults < 0 {
		ds = append(ds, n.Get("max_results").Errorf("tool", "max_results must be positive, got %d", c.MaxResults))
	}
	return ds
}

// StateUse returns the confirmation condition.
func (c *discoverySearchArgs) StateUse(*spec.Node) tool.StateUse {
	return toolconfig.ConfirmUse(c.Call.Confirm.When)
}

// serviceURL returns the service address in the location of the store.
func (c *discoverySearchArgs) serviceURL() string {
	host := "discoveryengine.googleapis.com"
	if found := searchResource.FindStringSubmatch(c.storeName().Value); found != nil && found[1] != "global" {
		host = found[1] + "-" + host
	}
	return "https://" + host
}

// Addresses returns the service.
func (c *discoverySearchArgs) Addresses() []spec.Text {
	return []spec.Text{serviceAddress(c.storeName(), c.serviceURL())}
}

// HostAccount returns the data store or the engine: searches use the host's credentials.
func (c *discoverySearchArgs) HostAccount() spec.Text { return c.storeName() }

// A googleToken returns the host's access token and the project that pays, or "".
type googleToken func(ctx context.Context) (token, quota string, err error)

// A discoverySearchTool searches a data store or an engine of Vertex AI Search by its REST API.
type discoverySearchTool struct {
	toolconfig.Declarer
	capabilities tool.Capabilities
	client       *http.Client
	offline      bool
	token        googleToken
	// url is the search address, and request its body without query and mode.
	url     string
	request map[string]any
	// mode is the search result mode, or nil until the first search finds it.
	mode atomic.Pointer[string]
}

var _ tool.CapableTool = (*discoverySearchTool)(nil)

func newDiscoverySearch(_ context.Context, env tool.Env, c *discoverySearchArgs) (tool.Set, error) {
	t, err := c.newTool(env)
	if err != nil {
		return nil, err
	}
	return tool.One(t), nil
}

func (c *discoverySearchArgs) newTool(env tool.Env) (*discoverySearchTool, error) {
	name := cmp.Or(c.Name.Value, discoveryName)
	d, err := declare.Tool(name, cmp.Or(c.Description, "Searches documents with Vertex AI Search. Returns the title, URL and content of each result."),
		toolconfig.ObjectSchema(map[string]any{"query": map[string]any{"type": "string", "description": "The search query."}}, "query"))
	if err != nil {
		return nil, spec.Diagnostics{c.Name.Errorf(0, "tool", "%s", err)}
	}
	caps, err := c.Call.Capabilities(d.Declaration())
	if caps.Timeout == 0 {
		caps.Timeout = discoveryTimeout
	}
	client := http.Client{}
	if env.HTTP != nil {
		client = *env.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t := &discoverySearchTool{
		Declarer: toolconfig.Declarer{Decl: d.Declaration()}, capabilities: caps, client: &client, offline: env.Offline, token: detectGoogleToken,
		url:     c.serviceURL() + "/v1beta/" + c.storeName().Value + "/servingConfigs/default_config:search",
		request: map[string]any{},
	}
	if c.Mode != "" {
		t.mode.Store(&c.Mode)
	}
	if len(c.DataStores) > 0 {
		t.request["dataStoreSpecs"] = c.DataStores
	}
	if c.Filter != "" {
		t.request["filter"] = c.Filter
	}
	if c.MaxResults > 0 {
		t.request["pageSize"] = c.MaxResults
	}
	return t, err
}

// detectGoogleToken returns a token from the host's application default credentials. No app can
// choose them.
func detectGoogleToken(ctx context.Context) (token, quota string, err error) {
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}})
	if err != nil {
		return "", "", fmt.Errorf("no credentials for Vertex AI Search: set GOOGLE_APPLICATION_CREDENTIALS for the host, or run gcloud auth application-default login: %w", err)
	}
	got, err := found.Token(ctx)
	if err != nil {
		return "", "", fmt.Errorf("no token for Vertex AI Search: %w", err)
	}
	quota, _ = found.QuotaProjectID(ctx) // optional
	return got.Value, quota, nil
}

// Capabilities returns the document's settings.
func (t *discoverySearchTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run searches. A service error is a result with the status error, as in ADK.
func (t *discoverySearchTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	args, err := declare.CheckArgs(ctx, t.Declaration(), call.Args)
	if err != nil {
		return nil, err
	}
	if t.offline {
		return nil, &tool.EndError{Err: fmt.Errorf("tests do not search with Vertex AI: set a response for the tool with tools: {%s: {return: {…}}}", t.Declaration().Name)}
	}
	query, _ := args["query"].(string)
	results, err := t.searchStore(ctx, query)
	if failed := (*serviceError)(nil); errors.As(err, &failed) {
		return &tool.Result{Response: map[string]any{"status": "error", "error_message": failed.Error()}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Declaration().Name, err)
	}
	return &tool.Result{Response: map[string]any{"status": "success", "results": results}}, nil
}

// searchStore finds the store's mode with its first search: chunks, unless the service requires
// documents.
func (t *discoverySearchTool) searchStore(ctx context.Context, query string) ([]any, error) {
	mode := modeChunks
	known := t.mode.Load()
	if known != nil {
		mode = *known
	}
	results, err := t.searchIn(ctx, query, mode)
	failed := (*serviceError)(nil)
	if known == nil && errors.As(err, &failed) && requiresDocuments.MatchString(failed.message) {
		mode = modeDocuments
		results, err = t.searchIn(ctx, query, mode)
	}
	if known == nil && err == nil {
		t.mode.Store(&mode)
	}
	return results, err
}

var requiresDocuments = regexp.MustCompile(`(?i)search_result_mode.*DOCUMENTS`)

// A serviceError is the service's error response.
type serviceError struct {
	status  int
	message string
}

// Error returns the status and the message.
func (e *serviceError) Error() string { return fmt.Sprintf("%d %s", e.status, e.message) }

func (t *discoverySearchTool) searchIn(ctx context.Context, query, mode string) ([]any, error) {
	content := map[string]any{"searchResultMode": mode}
	if mode == modeChunks {
		content["chunkSpec"] = map[string]any{"numPreviousChunks": 0, "numNextChunks": 0}
	}
	request := map[string]any{"query": query, "contentSearchSpec": content}
	for key, value := range t.request {
		request[key] = value
	}
	raw, err := t.sendRequest(ctx, request)
	if err != nil {
		return nil, err
	}
	var got searchResponse
	if err := number.Decode(raw, &got); err != nil {
		return nil, errors.New("the service's response is not valid JSON")
	}
	results := []any{}
	for _, r := range got.Results {
		switch {
		case mode == modeDocuments && r.Document != nil:
			results = append(results, r.Document.toResult())
		case mode == modeChunks && r.Chunk != nil:
			results = append(results, r.Chunk.toResult())
		}
	}
	return results, nil
}

// sendRequest sends a request with the host's token, and returns the response body.
func (t *discoverySearchTool) sendRequest(ctx context.Context, request map[string]any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	token, quota, err := t.token(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", toolhttp.UserAgent)
	req.Header.Set("Authorization", "Bearer "+token)
	if quota != "" {
		req.Header.Set("X-Goog-User-Project", quota)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, toolhttp.UnwrapURLError(err)
	}
	defer resp.Body.Close()
	raw, err := limit.Search.ReadAll(resp.Body)
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, newServiceError(resp.StatusCode, raw)
	case err != nil:
		return nil, fmt.Errorf("reading response: %w", err)
	}
	return raw, nil
}

func newServiceError(status int, raw []byte) *serviceError {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(raw, &body) // the status is the message then
	message := cmp.Or(body.Error.Message, http.StatusText(status))
	return &serviceError{status, strings.ToValidUTF8(message[:min(len(message), maxDiscoveryError)], "")}
}

// A searchResponse is what the tool reads from a response.
type searchResponse struct {
	Results []struct {
		Chunk    *searchChunk    `json:"chunk"`
		Document *searchDocument `json:"document"`
	} `json:"results"`
}

type searchChunk struct {
	Content  string `json:"content"`
	Metadata struct {
		Title string         `json:"title"`
		URI   string         `json:"uri"`
		Data  map[string]any `json:"structData"`
	} `json:"documentMetadata"`
}

// toResult returns the result for the model. A uri in the document's data has priority, as in ADK.
func (c *searchChunk) toResult() map[string]any {
	uri, ok := c.Metadata.Data["uri"].(string)
	if !ok {
		uri = c.Metadata.URI
	}
	return map[string]any{"title": c.Metadata.Title, "url": uri, "content": c.Content}
}

type searchDocument struct {
	Data    map[string]any `json:"structData"`
	Derived struct {
		Title    string `json:"title"`
		Link     string `json:"link"`
		Snippets []any  `json:"snippets"`
		Answers  []any  `json:"extractive_answers"`
	} `json:"derivedStructData"`
}

// toResult returns the result for the model: the fields of a structured document as JSON, or
// snippets or answers from another document.
func (d *searchDocument) toResult() map[string]any {
	if len(d.Data) > 0 {
		title, _ := d.Data["title"].(string)
		uri, ok := d.Data["uri"].(string)
		link, _ := d.Data["link"].(string)
		rest := map[string]any{}
		for key, value := range d.Data {
			if key != "title" && key != "uri" && (key != "link" || ok) {
				rest[key] = value
			}
		}
		if !ok {
			uri = link
		}
		content, _ := json.Marshal(rest) // was JSON
		return map[string]any{"title": title, "url": uri, "content": string(content)}
	}
	lines := textsOf(d.Derived.Snippets, "snippet")
	if len(lines) == 0 {
		lines = textsOf(d.Derived.Answers, "content")
	}
	return map[string]any{"title": d.Derived.Title, "url": d.Derived.Link, "content": strings.Join(lines, "\n")}
}

// textsOf returns a member from each object in a list, or else the element as JSON.
func textsOf(list []any, member string) []string {
	var all []string
	for _, element := range list {
		object, _ := element.(map[string]any)
		text, ok := object[member].(string)
		if !ok || text == "" {
			raw, _ := json.Marshal(element) // was JSON
			text = string(raw)
		}
		all = append(all, text)
	}
	return all
}
