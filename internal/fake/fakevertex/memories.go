package fakevertex

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A storedMemory is a fact in an engine's Memory Bank.
type storedMemory struct {
	id, fact string
	scope    map[string]any
	metadata any
	updated  time.Time
}

var (
	directEvents = fields{"events": {"content": {"role": nil, "parts": partFields}, "eventId": nil, "eventTime": nil}}
	ingestFields = fields{"scope": nil, "directContentsSource": directEvents, "streamId": nil, "forceFlush": nil, "generationTriggerConfig": nil}
	// generateFields have neither an event's id nor its time.
	generateFields = fields{
		"scope": nil, "directContentsSource": {"events": {"content": {"role": nil, "parts": partFields}}},
		"directMemoriesSource": {"directMemories": {"fact": nil}}, "disableConsolidation": nil, "metadata": nil, "revisionTtl": nil,
	}
	memoryFields   = fields{"fact": nil, "scope": nil, "displayName": nil, "description": nil, "ttl": nil, "metadata": nil}
	retrieveFields = fields{
		"scope": nil, "similaritySearchParams": {"searchQuery": nil, "topK": nil}, "simpleRetrievalParams": {"pageSize": nil, "pageToken": nil},
	}
)

// serveMemories handles a request below an engine's memories. It extracts a fact from each user
// text.
func (e *engine) serveMemories(r *request, verb string) (any, *apiError) {
	switch {
	case r.method == http.MethodPost && verb == "ingestEvents":
		return e.addContents(r, ingestFields)
	case r.method == http.MethodPost && verb == "generate":
		return e.addContents(r, generateFields)
	case r.method == http.MethodPost && verb == "retrieveProfiles":
		body, err := decodeMessage(r.body, fields{"scope": nil})
		if err != nil {
			return nil, err
		}
		if _, err := readScope(body); err != nil {
			return nil, err
		}
		return map[string]any{"profiles": e.server.Profiles}, nil
	case r.method == http.MethodPost && verb == "retrieve":
		return e.retrieveMemories(r)
	case r.method == http.MethodPost && verb == "" && r.rest == "":
		return e.createMemory(r)
	case r.method == http.MethodGet && r.rest == "":
		return map[string]any{}, checkQuery(r.query, "pageSize", "pageToken", "filter")
	case r.method == http.MethodDelete && e.memories[r.rest] != nil:
		delete(e.memories, r.rest)
		return e.server.startOperation(e.server.parentName(), map[string]any{"@type": "type.googleapis.com/google.protobuf.Empty"}), nil
	}
	return nil, newError(http.StatusNotFound, "NOT_FOUND", "Memory %s not found.", r.rest)
}

func readScope(body map[string]any) (map[string]any, *apiError) {
	scope, _ := body["scope"].(map[string]any)
	if len(scope) == 0 || len(scope) > 5 {
		return nil, badRequest("The scope must have 1 to 5 keys.")
	}
	for _, v := range scope {
		if text, ok := v.(string); !ok || text == "" || strings.Contains(text, "*") {
			return nil, badRequest("Invalid scope.")
		}
	}
	return scope, nil
}

// addContents adds facts from events, each event once, or facts themselves.
func (e *engine) addContents(r *request, known fields) (any, *apiError) {
	body, err := decodeMessage(r.body, known)
	if err != nil {
		return nil, err
	}
	scope, err := readScope(body)
	if err != nil {
		return nil, err
	}
	contents, _ := body["directContentsSource"].(map[string]any)
	events, _ := contents["events"].([]any)
	for _, ev := range events {
		ev, _ := ev.(map[string]any)
		if id, _ := ev["eventId"].(string); id != "" {
			if e.ingested[id] {
				continue
			}
			e.ingested[id] = true
		}
		content, _ := ev["content"].(map[string]any)
		parts, _ := content["parts"].([]any)
		for _, p := range parts {
			part, _ := p.(map[string]any)
			if text, _ := part["text"].(string); text != "" && content["role"] == "user" {
				e.addMemory(text, scope, nil)
			}
		}
	}
	direct, _ := body["directMemoriesSource"].(map[string]any)
	facts, _ := direct["directMemories"].([]any)
	if len(facts) > 5 {
		return nil, badRequest("At most 5 direct memories are allowed.")
	}
	for _, f := range facts {
		one, _ := f.(map[string]any)
		text, _ := one["fact"].(string)
		e.addMemory(text, scope, nil)
	}
	return e.server.startOperation(e.server.parentName()+"/reasoningEngines/"+e.id, map[string]any{"generatedMemories": []any{}}), nil
}

func (e *engine) createMemory(r *request) (any, *apiError) {
	body, err := decodeMessage(r.body, memoryFields)
	if err != nil {
		return nil, err
	}
	scope, err := readScope(body)
	if err != nil {
		return nil, err
	}
	fact, _ := body["fact"].(string)
	if fact == "" {
		return nil, badRequest("fact is required.")
	}
	e.addMemory(fact, scope, body["metadata"])
	return e.server.startOperation(e.server.parentName()+"/reasoningEngines/"+e.id, map[string]any{}), nil
}

// addMemory adds a fact, or updates the scope's equal one.
func (e *engine) addMemory(fact string, scope map[string]any, metadata any) {
	for _, m := range e.memories {
		if m.fact == fact && maps.Equal(m.scope, scope) {
			m.updated = e.server.nextTime()
			return
		}
	}
	id := e.server.nextID()
	e.memories[id] = &storedMemory{id, fact, scope, metadata, e.server.nextTime()}
}

func (e *engine) retrieveMemories(r *request) (any, *apiError) {
	body, err := decodeMessage(r.body, retrieveFields)
	if err != nil {
		return nil, err
	}
	scope, err := readScope(body)
	if err != nil {
		return nil, err
	}
	similar, _ := body["similaritySearchParams"].(map[string]any)
	query, _ := similar["searchQuery"].(string)
	limit := 3.0
	if k, ok := similar["topK"].(float64); ok {
		limit = k
	}
	if simple, ok := body["simpleRetrievalParams"].(map[string]any); ok {
		limit, _ = simple["pageSize"].(float64)
	}
	if limit < 1 || limit > 100 {
		return nil, badRequest("top_k must be between 1 and 100.")
	}
	var all []*storedMemory
	for _, m := range e.memories {
		if maps.Equal(m.scope, scope) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(x, y *storedMemory) int {
		return cmp.Or(cmp.Compare(distanceOf(query, x.fact), distanceOf(query, y.fact)), y.updated.Compare(x.updated))
	})
	found := []any{}
	for _, m := range all[:min(len(all), int(limit))] {
		found = append(found, map[string]any{"memory": m.encodeJSON(e), "distance": distanceOf(query, m.fact)})
	}
	return map[string]any{"retrievedMemories": found}, nil
}

func (m *storedMemory) encodeJSON(e *engine) map[string]any {
	v := map[string]any{
		"name": e.server.parentName() + "/reasoningEngines/" + e.id + "/memories/" + m.id, "fact": m.fact, "scope": m.scope,
		"createTime": m.updated.Format(time.RFC3339Nano), "updateTime": m.updated.Format(time.RFC3339Nano),
	}
	if m.metadata != nil {
		v["metadata"] = m.metadata
	}
	return v
}

// distanceOf returns 0 for content with all words in a query, up to 1 for one with none.
func distanceOf(query, text string) float64 {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return 0
	}
	found := 0
	for _, w := range words {
		if strings.Contains(strings.ToLower(text), strings.Trim(w, "?.,!")) {
			found++
		}
	}
	return 1 - float64(found)/float64(len(words))
}
