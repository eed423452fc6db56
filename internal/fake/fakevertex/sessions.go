package fakevertex

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An engine is a reasoning engine with its sessions, their shared state, and its memories.
type engine struct {
	server   *Server
	id       string
	sessions map[string]*storedSession
	app      map[string]any
	users    map[string]map[string]any
	memories map[string]*storedMemory
	// ingested are the ids of events that the Memory Bank has.
	ingested map[string]bool
}

type storedSession struct {
	id, user         string
	name             string
	created, updated time.Time
	expires          time.Time
	labels           any
	display          any
	own              map[string]any
	events           []*storedEvent
	hidden           int // reads that are answered with 404
}

type storedEvent struct {
	at   time.Time
	body map[string]any
}

// A request is an HTTP request below an engine's sessions.
type request struct {
	method, rest string
	query        url.Values
	body         []byte
}

// defaultLifetime is how long a session without a ttl exists.
const defaultLifetime = 365 * 24 * time.Hour

var (
	sessionID = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	label     = regexp.MustCompile(`^[a-z0-9_-]{0,64}$`)
)

func (e *engine) serveSessions(r *request) (any, *apiError) {
	id, rest, _ := strings.Cut(r.rest, "/")
	id, verb, _ := strings.Cut(id, ":")
	switch {
	case r.method == http.MethodPost && id == "":
		return e.createSession(r)
	case r.method == http.MethodGet && id == "":
		return e.listSessions(r)
	}
	s := e.sessions[id]
	if s == nil || r.method == http.MethodGet && rest == "" && s.hidden > 0 {
		if s != nil {
			s.hidden--
		}
		return nil, newError(http.StatusNotFound, "NOT_FOUND", "Session %s/reasoningEngines/%s/sessions/%s not found.", e.server.parentName(), e.id, id)
	}
	switch {
	case r.method == http.MethodPost && verb == "appendEvent":
		return e.appendEvent(s, r.body)
	case r.method == http.MethodGet && rest == "events":
		return e.listEvents(s, r)
	case r.method == http.MethodGet && rest == "" && verb == "":
		return e.encodeSession(s), nil
	case r.method == http.MethodDelete && rest == "" && verb == "":
		delete(e.sessions, id)
		return e.server.startOperation(e.server.parentName(), map[string]any{"@type": "type.googleapis.com/google.protobuf.Empty"}), nil
	}
	return nil, newError(http.StatusNotFound, "NOT_FOUND", "Method not found.")
}

func (e *engine) createSession(r *request) (any, *apiError) {
	body, err := decodeMessage(r.body, sessionFields)
	if err != nil {
		return nil, err
	}
	if err := checkQuery(r.query, "sessionId"); err != nil {
		return nil, err
	}
	id := r.query.Get("sessionId")
	switch {
	case id == "":
		id = e.server.nextID()
	case !sessionID.MatchString(id):
		return nil, badRequest("Invalid session id %q: it must match [a-z]([a-z0-9-]{0,61}[a-z0-9])?.", id)
	case e.sessions[id] != nil:
		return nil, newError(http.StatusConflict, "ALREADY_EXISTS", "Session %s already exists.", id)
	}
	now := e.server.nextTime()
	s := &storedSession{
		id: id, name: e.server.parentName() + "/reasoningEngines/" + e.id + "/sessions/" + id, created: now, updated: now,
		expires: now.Add(defaultLifetime), labels: body["labels"], display: body["displayName"], own: map[string]any{}, hidden: e.server.HiddenReads,
	}
	if s.user, _ = body["userId"].(string); s.user == "" {
		return nil, badRequest("user_id is required.")
	}
	if err := s.setLifetime(body); err != nil {
		return nil, err
	}
	if all, _ := s.labels.(map[string]any); all != nil {
		for k, v := range all {
			if text, ok := v.(string); !ok || !label.MatchString(k) || !label.MatchString(text) {
				return nil, badRequest("Invalid label %q.", k)
			}
		}
	}
	state, _ := body["sessionState"].(map[string]any)
	e.sessions[id] = s
	e.mergeState(s, state)
	return e.server.startOperation(s.name, map[string]any{"@type": "type.googleapis.com/google.cloud.aiplatform.v1beta1.Session", "name": s.name}), nil
}

// setLifetime applies a request's ttl or expireTime.
func (s *storedSession) setLifetime(body map[string]any) *apiError {
	ttl, hasTTL := body["ttl"].(string)
	expires, hasTime := body["expireTime"].(string)
	if hasTTL && hasTime {
		return badRequest("Only one of ttl and expire_time may be set.")
	}
	if hasTTL {
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(ttl, "s"), 64)
		if err != nil || !strings.HasSuffix(ttl, "s") {
			return badRequest("Invalid ttl %q.", ttl)
		}
		s.expires = s.created.Add(time.Duration(seconds * float64(time.Second)))
	}
	if hasTime {
		at, err := time.Parse(time.RFC3339Nano, expires)
		if err != nil {
			return badRequest("Invalid expire_time %q.", expires)
		}
		s.expires = at
	}
	if s.expires.Before(s.created.Add(24 * time.Hour)) {
		return badRequest("The expiration must be at least 24 hours after the creation.")
	}
	return nil
}

// mergeState splits a delta by scope and merges it key by key.
func (e *engine) mergeState(s *storedSession, delta map[string]any) {
	if e.users[s.user] == nil {
		e.users[s.user] = map[string]any{}
	}
	for k, v := range delta {
		switch {
		case strings.HasPrefix(k, "app:"):
			e.app[k] = v
		case strings.HasPrefix(k, "user:"):
			e.users[s.user][k] = v
		case strings.HasPrefix(k, "temp:"):
		default:
			s.own[k] = v
		}
	}
}

func (e *engine) encodeSession(s *storedSession) map[string]any {
	v := map[string]any{
		"name": s.name, "userId": s.user,
		"createTime": s.created.Format(time.RFC3339Nano), "updateTime": s.updated.Format(time.RFC3339Nano), "expireTime": s.expires.Format(time.RFC3339Nano),
	}
	state := map[string]any{}
	for _, part := range []map[string]any{e.app, e.users[s.user], s.own} {
		maps.Copy(state, part)
	}
	if len(state) > 0 {
		v["sessionState"] = state
	}
	if s.labels != nil {
		v["labels"] = s.labels
	}
	if s.display != nil {
		v["displayName"] = s.display
	}
	return v
}

var userFilter = regexp.MustCompile(`^(?:user_id|userId)="((?:[^"\\]|\\["\\])*)"$`)

func (e *engine) listSessions(r *request) (any, *apiError) {
	if err := checkQuery(r.query, "filter", "pageToken", "pageSize", "orderBy"); err != nil {
		return nil, err
	}
	var user *string
	if f := r.query.Get("filter"); f != "" {
		found := userFilter.FindStringSubmatch(f)
		if found == nil {
			return nil, badRequest("Invalid filter: %s", f)
		}
		name := strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(found[1])
		user = &name
	}
	if order := r.query.Get("orderBy"); order != "" && order != "create_time" {
		return nil, badRequest("Invalid order_by: %s", order)
	}
	var all []*storedSession
	for _, s := range e.sessions {
		if user == nil || s.user == *user {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *storedSession) int { return a.created.Compare(b.created) })
	from, to, next, err := e.server.pageBounds(r.query, len(all))
	if err != nil {
		return nil, err
	}
	list := []any{}
	for _, s := range all[from:to] {
		list = append(list, e.encodeSession(s))
	}
	return withToken(map[string]any{"sessions": list}, next), nil
}

// pageBounds returns the bounds of a page with n results and the next page's token.
func (s *Server) pageBounds(query url.Values, n int) (from, to int, next string, failure *apiError) {
	size := 100
	if s.PageSize > 0 {
		size = s.PageSize
	}
	if text := query.Get("pageSize"); text != "" {
		asked, err := strconv.Atoi(text)
		if err != nil || asked < 0 {
			return 0, 0, "", badRequest("Invalid page_size %q.", text)
		}
		if asked > 0 {
			size = min(size, asked)
		}
	}
	if token := query.Get("pageToken"); token != "" {
		at, err := strconv.Atoi(strings.TrimPrefix(token, "at-"))
		if err != nil || at < 0 {
			return 0, 0, "", badRequest("Invalid page_token.")
		}
		from = min(at, n)
	}
	to = min(from+size, n)
	if to < n {
		next = "at-" + strconv.Itoa(to)
	}
	return from, to, next, nil
}

func withToken(v map[string]any, next string) map[string]any {
	if next != "" {
		v["nextPageToken"] = next
	}
	return v
}

func checkQuery(query url.Values, allowed ...string) *apiError {
	for name := range query {
		if !slices.Contains(allowed, name) {
			return badRequest(`Invalid JSON payload received. Unknown name "%s": Cannot bind query parameter.`, name)
		}
	}
	return nil
}

func (e *engine) appendEvent(s *storedSession, body []byte) (any, *apiError) {
	ev, err := decodeMessage(body, eventFields)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"author", "invocationId", "timestamp"} {
		if text, _ := ev[name].(string); text == "" {
			return nil, badRequest("Required field is not set: %s.", name)
		}
	}
	at, parseErr := time.Parse(time.RFC3339Nano, ev["timestamp"].(string))
	if parseErr != nil {
		return nil, badRequest("Invalid timestamp %v.", ev["timestamp"])
	}
	at = at.UTC()
	ev["timestamp"], ev["name"] = at.Format(time.RFC3339Nano), s.name+"/events/"+e.server.nextID()
	actions, _ := ev["actions"].(map[string]any)
	delta, _ := actions["stateDelta"].(map[string]any)
	e.mergeState(s, delta)
	s.events, s.updated = append(s.events, &storedEvent{at, ev}), e.server.nextTime()
	return map[string]any{}, nil
}

var timeFilter = regexp.MustCompile(`^timestamp(>=|>|<=|<)"([^"]+)"$`)

func (e *engine) listEvents(s *storedSession, r *request) (any, *apiError) {
	if err := checkQuery(r.query, "filter", "pageToken", "pageSize"); err != nil {
		return nil, err
	}
	all := slices.Clone(s.events)
	if f := r.query.Get("filter"); f != "" {
		found := timeFilter.FindStringSubmatch(f)
		if found == nil || found[1] != ">=" {
			return nil, badRequest("Invalid filter: %s", f)
		}
		after, err := time.Parse(time.RFC3339Nano, found[2])
		if err != nil {
			return nil, badRequest("Invalid filter: %s", f)
		}
		all = slices.DeleteFunc(all, func(ev *storedEvent) bool { return ev.at.Before(after) })
	}
	// Equal times have no promised order: later ones come first.
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b *storedEvent) int { return a.at.Compare(b.at) })
	from, to, next, err := e.server.pageBounds(r.query, len(all))
	if err != nil {
		return nil, err
	}
	list := []any{}
	for _, ev := range all[from:to] {
		list = append(list, ev.body)
	}
	return withToken(map[string]any{"sessionEvents": list}, next), nil
}

// fields are a message's fields by their names in camelCase; nil is any value, such as a Struct.
type fields map[string]fields

var (
	sessionFields = fields{"userId": nil, "sessionState": nil, "ttl": nil, "expireTime": nil, "displayName": nil, "labels": nil}
	partFields    = fields{
		"text": nil, "thought": nil, "thoughtSignature": nil, "videoMetadata": nil,
		"inlineData":          {"mimeType": nil, "data": nil, "displayName": nil},
		"fileData":            {"mimeType": nil, "fileUri": nil, "displayName": nil},
		"functionCall":        {"id": nil, "name": nil, "args": nil},
		"functionResponse":    {"id": nil, "name": nil, "response": nil},
		"executableCode":      {"language": nil, "code": nil},
		"codeExecutionResult": {"outcome": nil, "output": nil},
	}
	eventFields = fields{
		"author": nil, "invocationId": nil, "timestamp": nil, "errorCode": nil, "errorMessage": nil, "rawEvent": nil,
		"content": {"role": nil, "parts": partFields},
		"actions": {"skipSummarization": nil, "stateDelta": nil, "artifactDelta": nil, "transferAgent": nil, "escalate": nil, "requestedAuthConfigs": nil},
		"eventMetadata": {
			"partial": nil, "turnComplete": nil, "interrupted": nil, "branch": nil, "customMetadata": nil, "longRunningToolIds": nil,
			"groundingMetadata": nil, "inputTranscription": nil, "outputTranscription": nil,
		},
	}
)

// decodeMessage decodes a message with doubles, and renames its fields to camelCase.
func decodeMessage(body []byte, known fields) (map[string]any, *apiError) {
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil || v == nil {
		return nil, badRequest("Invalid JSON payload received.")
	}
	return checkMessage(v, known, "")
}

func checkMessage(v map[string]any, known fields, at string) (map[string]any, *apiError) {
	all := make(map[string]any, len(v))
	for name, value := range v {
		camel := toCamel(name)
		inner, ok := known[camel]
		if !ok {
			return nil, badRequest(`Invalid JSON payload received. Unknown name "%s" at '%s': Cannot find field.`, name, at)
		}
		checked, err := checkField(value, inner, at+"."+camel)
		if err != nil {
			return nil, err
		}
		all[camel] = checked
	}
	return all, nil
}

func checkField(value any, known fields, at string) (any, *apiError) {
	switch value := value.(type) {
	case map[string]any:
		if known != nil {
			return checkMessage(value, known, at)
		}
	case []any:
		for i := range value {
			var err *apiError
			if value[i], err = checkField(value[i], known, at); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

func toCamel(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

// CountRepeatedEvents returns how many stored events have the rawEvent id of another event in their
// session.
func (s *Server) CountRepeatedEvents() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.engines {
		for _, stored := range e.sessions {
			seen := map[any]bool{}
			for _, ev := range stored.events {
				raw, _ := ev.body["rawEvent"].(map[string]any)
				if seen[raw["id"]] {
					n++
				}
				seen[raw["id"]] = true
			}
		}
	}
	return n
}
