package vertextool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/tooltest"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

const storeArgs = "data_store_id: projects/p/locations/eu/collections/c/dataStores/d"

// decodeDiscoverySearch returns the tool's args without problems.
func decodeDiscoverySearch(t *testing.T, yaml string) *discoverySearchArgs {
	t.Helper()
	kind, _ := Builtins().Lookup("DiscoveryEngineSearchTool")
	n := tooltest.ParseNode(t, yaml)
	plan, ds := kind.Decode(n)
	args := plan.Config.(*discoverySearchArgs)
	if ds = append(ds, args.Check(n)...); len(ds) > 0 {
		t.Fatal(ds)
	}
	return args
}

// roundTripper is a service that a function plays.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answerWith(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// A search is one request to the service in the location of the store, with the host token. It
// returns what ADK returns.
func TestDiscoverySearch(t *testing.T) {
	const chunks = `{"results": [{"chunk": {"content": "Tea is hot.", "documentMetadata": {"title": "Tea", "uri": "gs://b/tea", "structData": {"uri": "https://a.example.com/tea"}}}}, {"document": {}},
	 {"chunk": {"content": "Cups.", "documentMetadata": {"title": "Cups", "uri": "gs://b/cups"}}}]}`
	const documents = `{"results": [{"document": {"structData": {"title": "Tea", "link": "https://a.example.com", "price": 3, "sku": 9007199254740993}}},
	 {"document": {"derivedStructData": {"title": "Cups", "link": "l", "snippets": [{"snippet": "a"}, {"x": 1}]}}},
	 {"document": {"derivedStructData": {"title": "Pots", "extractive_answers": [{"content": "b"}]}}}]}`
	const wrongMode = `{"error": {"message": "The store requires content_search_spec.search_result_mode to be set to SearchRequest.ContentSearchSpec.SearchResultMode.DOCUMENTS"}}`
	const search = "POST https://eu-discoveryengine.googleapis.com/v1beta/projects/p/locations/eu/collections/c/dataStores/d/servingConfigs/default_config:search Bearer t0ken payer "
	const asChunks = `{"contentSearchSpec":{"chunkSpec":{"numNextChunks":0,"numPreviousChunks":0},"searchResultMode":"CHUNKS"},"query":"tea"}`
	const asDocuments = `{"contentSearchSpec":{"searchResultMode":"DOCUMENTS"},"query":"tea"}`
	for _, tt := range []struct {
		name, yaml string
		answers    []*http.Response
		want       string
		requests   []string
	}{
		{
			"chunks", storeArgs,
			[]*http.Response{answerWith(200, chunks)},
			`{"results":[{"content":"Tea is hot.","title":"Tea","url":"https://a.example.com/tea"},{"content":"Cups.","title":"Cups","url":"gs://b/cups"}],"status":"success"}`,
			[]string{search + asChunks},
		},
		{
			"documents because the store requires them", storeArgs,
			[]*http.Response{answerWith(400, wrongMode), answerWith(200, documents)},
			`{"results":[{"content":"{\"price\":3,\"sku\":9007199254740993}","title":"Tea","url":"https://a.example.com"},{"content":"a\n{\"x\":1}","title":"Cups","url":"l"},{"content":"b","title":"Pots","url":""}],"status":"success"}`,
			[]string{search + asChunks, search + asDocuments},
		},
		{
			"the settings", "search_engine_id: projects/p/locations/global/collections/c/engines/e\nfilter: 'lang: ANY(\"en\")'\nmax_results: 3\nsearch_result_mode: DOCUMENTS\ndata_store_specs: [{data_store: projects/p/d, filter: x}]",
			[]*http.Response{answerWith(200, `{}`)},
			`{"results":[],"status":"success"}`,
			[]string{`POST https://discoveryengine.googleapis.com/v1beta/projects/p/locations/global/collections/c/engines/e/servingConfigs/default_config:search Bearer t0ken payer ` +
				`{"contentSearchSpec":{"searchResultMode":"DOCUMENTS"},"dataStoreSpecs":[{"dataStore":"projects/p/d","filter":"x"}],"filter":"lang: ANY(\"en\")","pageSize":3,"query":"tea"}`},
		},
		{
			"an error of the service", storeArgs,
			[]*http.Response{answerWith(403, `{"error": {"message": "Permission denied"}}`)},
			`{"error_message":"403 Permission denied","status":"error"}`,
			[]string{search + asChunks},
		},
		{
			"an error without a message", storeArgs,
			[]*http.Response{answerWith(302, "<html>")},
			`{"error_message":"302 Found","status":"error"}`,
			[]string{search + asChunks},
		},
		{
			"a response that is too large", storeArgs,
			[]*http.Response{answerWith(200, strings.Repeat(" ", 1<<20+1))},
			"error: discovery_engine_search: reading response: response of Discovery Engine exceeds the limit of 1 MiB",
			[]string{search + asChunks},
		},
		{
			"a response that is not JSON", storeArgs,
			[]*http.Response{answerWith(200, "<html>")},
			"error: discovery_engine_search: the service's response is not valid JSON",
			[]string{search + asChunks},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests []string
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				body, _ := io.ReadAll(r.Body)
				requests = append(requests, fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("X-Goog-User-Project"), body))
				return tt.answers[len(requests)-1], nil
			})
			env := tooltest.NewEnv()
			env.HTTP = &http.Client{Transport: transport}
			it, err := decodeDiscoverySearch(t, tt.yaml).newTool(env)
			if err != nil {
				t.Fatal(err)
			}
			it.token = func(context.Context) (string, string, error) { return "t0ken", "payer", nil }
			if diff := cmp.Diff(tt.want, tooltest.RunAsText(t, it, tooltest.NewCall(map[string]any{"query": "tea"}, nil))); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.requests, requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// The mode that a store requires is found once.
func TestDiscoverySearchModeIsKept(t *testing.T) {
	requests := 0
	env := tooltest.NewEnv()
	env.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		requests++
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), modeChunks) {
			return answerWith(400, `{"error": {"message": "set search_result_mode to DOCUMENTS"}}`), nil
		}
		return answerWith(200, `{}`), nil
	})}
	it, err := decodeDiscoverySearch(t, storeArgs).newTool(env)
	if err != nil {
		t.Fatal(err)
	}
	it.token = func(context.Context) (string, string, error) { return "t0ken", "", nil }
	for range 3 {
		if got := tooltest.RunAsText(t, it, tooltest.NewCall(map[string]any{"query": "tea"}, nil)); got != `{"results":[],"status":"success"}` {
			t.Errorf("result = %s", got)
		}
	}
	if requests != 4 {
		t.Errorf("%d requests for 3 searches, want 4", requests)
	}
}

// Without credentials nothing is sent, and app tests never search.
func TestDiscoverySearchFailures(t *testing.T) {
	env := tooltest.NewEnv()
	env.HTTP = &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("sent a request") })}
	it, err := decodeDiscoverySearch(t, storeArgs).newTool(env)
	if err != nil {
		t.Fatal(err)
	}
	call := tooltest.NewCall(map[string]any{"query": "tea"}, nil)
	it.token = func(context.Context) (string, string, error) { return "", "", errors.New("no credentials") }
	if got, want := tooltest.RunAsText(t, it, call), "error: discovery_engine_search: no credentials"; got != want {
		t.Errorf("result = %s, want %s", got, want)
	}
	it.token = func(context.Context) (string, string, error) { return "t0ken", "", nil }
	if got, want := tooltest.RunAsText(t, it, call), "error: discovery_engine_search: sent a request"; got != want {
		t.Errorf("result = %s, want %s", got, want)
	}
	it.offline = true
	_, err = it.Run(t.Context(), call)
	var end *tool.EndError
	if want := "tests do not search with Vertex AI: set a response for the tool with tools: {discovery_engine_search: {return: {…}}}"; !errors.As(err, &end) || err.Error() != want {
		t.Errorf("offline error = %v, want %s", err, want)
	}
}

func TestDiscoverySearchErrors(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"{}", "tool.yaml:1:1: DiscoveryEngineSearchTool requires exactly one of data_store_id and search_engine_id [tool]"},
		{"{data_store_id: a, search_engine_id: b}", "tool.yaml:1:1: DiscoveryEngineSearchTool requires exactly one of data_store_id and search_engine_id [tool]"},
		{"{data_store_id: a, data_store_specs: [{data_store: b}]}", "tool.yaml:1:38: data_store_specs require search_engine_id [tool]"},
		{"{data_store_id: a}", `tool.yaml:1:17: "a" is not the name of a data store or engine [tool]`},
		{"{data_store_id: projects/p/locations/x.evil.com/dataStores/d}", `tool.yaml:1:17: "projects/p/locations/x.evil.com/dataStores/d" is not the name of a data store or engine [tool]`},
		{"{data_store_id: projects/p/locations/eu/dataStores/..}", `tool.yaml:1:17: "projects/p/locations/eu/dataStores/.." is not the name of a data store or engine [tool]`},
		{"{data_store_id: projects/p/locations/eu/dataStores/d, location: us}", `tool.yaml:1:65: location must be eu, as in projects/p/locations/eu/dataStores/d, got "us" [tool]`},
		{"{data_store_id: projects/p/locations/eu/dataStores/d, max_results: -1}", "tool.yaml:1:68: max_results must be positive, got -1 [tool]"},
	} {
		kind, _ := Builtins().Lookup("DiscoveryEngineSearchTool")
		n := tooltest.ParseNode(t, tt.args)
		plan, ds := kind.Decode(n)
		ds = append(ds, plan.Config.(spec.Checker).Check(n)...)
		if got, _, _ := strings.Cut(strings.Join(ds.Strings(), "\n"), "\n"); got != tt.want {
			t.Errorf("%s = %s, want %s", tt.args, got, tt.want)
		}
	}
}
