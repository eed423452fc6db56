// Package operator shows what a host runs: replicas, running turns, how far limits are used, and
// the log's last warnings and errors.
package operator

import (
	_ "embed"
	"errors"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/server"
	"agenthost/pkg/store"
)

// Options configure the route.
type Options struct {
	// Log has the last warnings and errors; nil shows none.
	Log *LogRing
}

const (
	// maxRuns limits the listed turns.
	maxRuns = 500
	// maxExamined is how many sessions are examined for leases, the latest created ones.
	maxExamined = 100_000
)

// components are the schemas for the route.
//
//go:embed components.yaml
var components []byte

type handlers struct {
	*server.Services
	opts  Options
	began time.Time
}

// Extend returns an extension for servers; opts may be nil. Its route is for administrators.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts, began: s.Now()}
		return &server.Extension{Components: components, Routes: []server.Route{
			{Method: "GET", Pattern: "/-/operations", Limits: server.Limits{ShareTimeout: true}, Handler: h.handleOperations, Doc: server.Doc{Tag: "server", ID: "getOperations", Summary: "Show replicas, running turns, the use of limits, and the last errors", Answer: "Operations"}},
		}}
	}
}

// A replica is a process that serves the sessions.
type replica struct {
	Name string `json:"name"`
	// Here reports that it is the one that responds; others are known by their turns only.
	Here     bool      `json:"here"`
	Version  string    `json:"version,omitempty"`
	Go       string    `json:"go,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Draining bool      `json:"draining,omitempty"`
	Memory   uint64    `json:"memory,omitempty"`
	// Turns is how many sessions it runs.
	Turns int `json:"turns"`
	// Apps are the revisions that serve here.
	Apps []appRevision `json:"apps,omitempty"`
}

type appRevision struct {
	App      string `json:"app"`
	Revision string `json:"revision"`
}

// A turn is a session that runs.
type turn struct {
	App     string `json:"app"`
	User    string `json:"user"`
	Session string `json:"session"`
	Replica string `json:"replica"`
	// Began is known for this replica's turns.
	Began time.Time `json:"began,omitzero"`
}

type operationsBody struct {
	Time     time.Time `json:"time"`
	Replicas []replica `json:"replicas"`
	Turns    []turn    `json:"turns"`
	// MoreTurns is how many local turns the list omits.
	MoreTurns int `json:"moreTurns,omitempty"`
	// Leases is why other replicas are unknown; empty if they are known by their session leases.
	Leases     string         `json:"leases,omitempty"`
	Usage      []server.Usage `json:"usage"`
	MaxRunTime string         `json:"maxRunTime,omitempty"`
	Log        []LogEntry     `json:"log"`
	// Logged is how many warnings and errors there were since the start.
	Logged int64 `json:"logged"`
}

func (s *handlers) handleOperations(w http.ResponseWriter, r *http.Request) error {
	sessions := s.Host().Store().Sessions
	body := &operationsBody{Time: s.Now(), Turns: []turn{}, Usage: s.ListUsage(), Log: []LogEntry{}}
	here := s.describeReplica(sessions.Owner())
	runs, total := sessions.ActiveRuns(maxRuns)
	here.Turns, body.MoreTurns = total, total-len(runs)
	for _, run := range runs {
		body.Turns = append(body.Turns, turn{run.Key.App, run.Key.User, run.Key.ID, here.Name, run.Began})
	}
	body.Replicas = []replica{here}
	held, err := sessions.HeldLeases(r.Context(), maxExamined, maxRuns)
	switch {
	case errors.Is(err, store.ErrNoLeases):
		body.Leases = "the session store is this replica's only, or lists no leases"
	case err != nil:
		s.Logger().WarnContext(r.Context(), "listing session leases failed", "error", err)
		body.Leases = "the session store does not answer"
	default:
		body.addLeases(held, here.Name)
	}
	if limit := s.MaxRunTime(); limit > 0 {
		body.MaxRunTime = limit.String()
	}
	if s.opts.Log != nil {
		entries, logged := s.opts.Log.Entries()
		body.Log, body.Logged = append(body.Log, entries...), logged
	}
	return s.WriteLarge(w, r, false, func() ([]byte, error) { return server.EncodeJSON(body) })
}

func (s *handlers) describeReplica(name string) replica {
	var memory goruntime.MemStats
	goruntime.ReadMemStats(&memory)
	here := replica{Name: name, Here: true, Version: s.Version(), Go: strings.TrimPrefix(goruntime.Version(), "go"), Started: s.began, Draining: s.IsDraining(), Memory: memory.HeapAlloc}
	for _, app := range s.Host().Apps() {
		here.Apps = append(here.Apps, appRevision{app.Name(), app.Revision()})
	}
	return here
}

// addLeases adds the other replicas, and their turns.
func (b *operationsBody) addLeases(held []store.HeldLease, here string) {
	for _, l := range held {
		if l.Owner == here {
			continue
		}
		b.Turns = append(b.Turns, turn{App: l.Key.App, User: l.Key.User, Session: l.Key.ID, Replica: l.Owner})
		at := slices.IndexFunc(b.Replicas, func(r replica) bool { return r.Name == l.Owner })
		if at < 0 {
			at = len(b.Replicas)
			b.Replicas = append(b.Replicas, replica{Name: l.Owner})
		}
		b.Replicas[at].Turns++
	}
}
