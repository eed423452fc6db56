package liveweb

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/jsonbody"
	"agenthost/internal/runconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/live"
)

// liveParameters are the query parameters of /run_live, in snake_case. Each is also read in
// camelCase. The value is the key in the run config, or empty for the others.
func liveParameters() map[string]string {
	return map[string]string{
		"app_name": "", "user_id": "", "session_id": "", "ticket": "", "run_config": "",
		"modalities": "responseModalities", "proactive_audio": "proactivity", "enable_affective_dialog": "enableAffectiveDialog",
		"enable_session_resumption": "sessionResumption", "session_resumption_handle": "sessionResumption",
		"save_live_blob": "saveLiveBlob", "explicit_vad_signal": "explicitVadSignal",
	}
}

// A liveQuery reads the /run_live query and records its errors.
type liveQuery struct {
	values  url.Values
	details []jsonbody.Detail
}

// readText returns a parameter in either spelling.
func (q *liveQuery) readText(name string) string {
	return cmp.Or(q.values.Get(name), q.values.Get(camelParameter(name)))
}

func camelParameter(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// readFlag returns a boolean as Python's query parsers read it; nil if it is absent.
func (q *liveQuery) readFlag(name string) *bool {
	switch strings.ToLower(q.readText(name)) {
	case "":
		return nil
	case "true", "1", "on", "yes", "t", "y":
		on := true
		return &on
	case "false", "0", "off", "no", "f", "n":
		return new(bool)
	}
	q.AddDetail("bool_parsing", name, "Input should be true or false")
	return nil
}

func (q *liveQuery) AddDetail(kind, name, message string) {
	q.details = append(q.details, jsonbody.Detail{Type: kind, Loc: []any{"query", name}, Msg: message})
}

// requireKnown reports parameters that the server would ignore.
func (q *liveQuery) requireKnown() {
	known := slices.Sorted(maps.Keys(liveParameters()))
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if slices.ContainsFunc(known, func(k string) bool { return name == k || name == camelParameter(k) }) {
			continue
		}
		message := "Unknown parameter"
		if near := spec.Suggest(name, known); near != "" {
			message += ", did you mean " + near + "?"
		}
		q.AddDetail("extra_forbidden", name, message)
	}
}

// readLiveRequest reads the /run_live query and authenticates the caller. The returned request has
// the caller in its context.
func (s *handlers) readLiveRequest(r *http.Request) (*live.RunRequest, *http.Request, error) {
	q := &liveQuery{values: r.URL.Query()}
	q.requireKnown()
	req := &live.RunRequest{
		App: q.readText("app_name"), UserID: q.readText("user_id"), SessionID: q.readText("session_id"),
		CreateSession: s.CreatesSessions(),
	}
	key := session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
	r, err := s.authenticateLive(r, q.readText("ticket"), key)
	if err != nil {
		return nil, r, err
	}
	if req.App == "" {
		q.AddDetail("missing", "app_name", "Field required")
	}
	if req.UserID == "" && !s.HasAuth() {
		q.AddDetail("missing", "user_id", "Field required")
	}
	if req.SessionID == "" {
		q.AddDetail("missing", "session_id", "Field required")
	}
	req.Config = s.readLiveConfig(q, req.App)
	if len(q.details) > 0 {
		return nil, r, &jsonbody.InvalidError{Details: q.details}
	}
	if req.UserID, err = s.ResolveUser(r, req.App, req.UserID); err != nil {
		return nil, r, err
	}
	req.Writer = s.StateWriter(r)
	return req, r, nil
}

// readLiveConfig returns the app's run config with the query's parameters, or nil if there are none
// or the app does not exist.
func (s *handlers) readLiveConfig(q *liveQuery, app string) *runtime.RunConfig {
	config := map[string]any{}
	if text := q.readText("run_config"); text != "" {
		if json.Unmarshal([]byte(text), &config) != nil || config == nil {
			q.AddDetail("json_invalid", "run_config", "Input should be a JSON object")
			return nil
		}
	}
	if modalities := slices.Concat(q.values["modalities"]); len(modalities) > 0 {
		config["responseModalities"] = modalities
	}
	if on := q.readFlag("proactive_audio"); on != nil {
		config["proactivity"] = map[string]any{"proactiveAudio": *on}
	}
	if on := q.readFlag("enable_affective_dialog"); on != nil {
		config["enableAffectiveDialog"] = *on
	}
	// ADK sends transparent, which the Gemini API refuses: without it, resumption works.
	if on := q.readFlag("enable_session_resumption"); on != nil && *on {
		config["sessionResumption"] = map[string]any{}
	}
	if handle := q.readText("session_resumption_handle"); handle != "" {
		config["sessionResumption"] = map[string]any{"handle": handle}
	}
	if on := q.readFlag("save_live_blob"); on != nil {
		config["saveLiveBlob"] = *on
	}
	if on := q.readFlag("explicit_vad_signal"); on != nil {
		config["explicitVadSignal"] = *on
	}
	found := s.Host().App(app)
	if len(config) == 0 || found == nil {
		return nil
	}
	text, err := json.Marshal(config)
	if err != nil {
		q.AddDetail("json_invalid", "run_config", "Input should be a JSON object")
		return nil
	}
	changed, problems := runconfig.Override(found.Config(), text)
	for _, p := range problems {
		if p.Severity == spec.Error {
			q.AddDetail("value_error", "run_config", p.Message)
		}
	}
	return changed
}

// authenticateLive authenticates a handshake by a ticket, the Authorization header or a
// subprotocol, and returns the request with the caller.
func (s *handlers) authenticateLive(r *http.Request, ticket string, key session.Key) (*http.Request, error) {
	if !s.HasAuth() {
		return r, nil
	}
	var caller *server.Principal
	var err error
	switch header := liveAuthorization(r); {
	case ticket != "":
		caller, err = s.tickets.redeemTicket(ticket, key)
	case header != "" && r.Header.Get("Authorization") == "":
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", header)
		caller, err = s.Authenticate(r)
	default:
		caller, err = s.Authenticate(r)
	}
	if err != nil {
		return r, err
	}
	return server.WithPrincipal(r, caller), nil
}

// splitList returns the elements of a list header.
func splitList(line string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for item := range strings.SplitSeq(line, ",") {
			if !yield(strings.TrimSpace(item)) {
				return
			}
		}
	}
}

func cutBearer(offer string) (encoded string, ok bool) {
	encoded, ok = strings.CutPrefix(offer, "bearer.")
	return strings.TrimRight(encoded, "="), ok
}
