package runtime_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/testdb"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/mysql"
	"agenthost/pkg/store/sqlstore/postgres"
	"agenthost/pkg/store/sqlstore/sqlite"
)

// countedModel answers at once, with a token count and a price.
type countedModel struct{ answer *model.Response }

func (countedModel) Name() string { return "counted" }

func (m countedModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		answer := *m.answer
		yield(&answer, nil)
	}
}

// pairedTurns is how many turns follow each other with, and then without, outcomes.
const pairedTurns = 100

// BenchmarkOutcomes measures the processor time of a turn with and without outcomes, in turns that
// follow each other: the machine's changes hit both. A turn by POST /run, the cheapest of all protocols, should
// cost at most 3 % more with outcomes on a database; "bare" turns are those of the runtime alone. Users cannot
// switch outcomes off. The metrics are medians of the pairs.
func BenchmarkOutcomes(b *testing.B) {
	for _, name := range []string{"memory", "sqlite", "postgres", "mysql"} {
		for _, way := range []string{"run", "bare"} {
			b.Run(name+"/"+way, func(b *testing.B) {
				newOutcomeBench(b, openBackends(b, name), way).run()
			})
		}
	}
}

// openBackends returns empty sessions in memory or in a database.
func openBackends(b *testing.B, name string) *store.Backends {
	backends := memstore.NewBackends()
	for _, e := range testdb.Engines() {
		if e.Name != name {
			continue
		}
		at, drop, err := e.Fresh(b.Context(), b.TempDir())
		if errors.Is(err, testdb.ErrAbsent) {
			b.Skip(err)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { drop() })
		d, err := sqlstore.Engines{sqlite.Engine(), postgres.Engine(), mysql.Engine()}.Open(b.Context(), at, nil)
		if err != nil {
			b.Fatal(err)
		}
		backends = d.Backends()
		backends.Artifacts = memstore.NewArtifacts()
	}
	return backends
}

type outcomeBench struct {
	*testing.B
	store   *store.Store
	host    *runtime.Host
	server  *server.Server
	way     string
	counted bool
}

func newOutcomeBench(b *testing.B, backends *store.Backends, way string) *outcomeBench {
	st := store.New(backends, nil)
	b.Cleanup(func() { st.Close() })
	o := &outcomeBench{B: b, store: st, way: way}
	plugin := &runtime.Plugin{Name: "counter", OnUserMessage: func(_ context.Context, m *runtime.CallbackContext, _ *genai.Content) (*genai.Content, error) {
		if !o.counted {
			runtime.DropCounter(m)
		}
		return nil, nil
	}}
	answer := &model.Response{
		Content: model.ModelText("ok"), FinishReason: genai.FinishReasonStop,
		UsageMetadata: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 100, CandidatesTokenCount: 10},
	}
	root := runtime.NewLLM("bench", &runtime.LLMOptions{Model: countedModel{answer}, Instruction: runtime.NewInstruction("Answer.", nil)})
	app, err := runtime.NewApp("bench", root, &runtime.AppOptions{Revision: "4b1d6f0011223344", Plugins: []*runtime.Plugin{plugin}})
	if err != nil {
		b.Fatal(err)
	}
	o.host = runtime.NewHost(st, nil)
	o.host.Swap(app)
	o.server = server.New(o.host, &server.Options{})
	return o
}

func (o *outcomeBench) run() {
	var with, without, shares []float64
	for o.Loop() {
		for _, o.counted = range []bool{true, false} {
			sess, err := o.store.Sessions.Create(o.Context(), session.Key{App: "bench", User: "u"}, nil)
			if err != nil {
				o.Fatal(err)
			}
			nanos := o.timeTurns(sess.Key)
			if o.counted {
				with = append(with, nanos)
			} else {
				without = append(without, nanos)
			}
		}
		shares = append(shares, 100*(with[len(with)-1]/without[len(without)-1]-1))
	}
	o.ReportMetric(findMedian(with), "counted-cpu-ns/turn")
	o.ReportMetric(findMedian(without), "uncounted-cpu-ns/turn")
	o.ReportMetric(findMedian(shares), "cost-%")
}

// timeTurns returns the processor time of a turn in nanoseconds.
func (o *outcomeBench) timeTurns(key session.Key) float64 {
	before := readCPUTime(o.B)
	for range pairedTurns {
		o.runTurn(key)
	}
	return float64(readCPUTime(o.B)-before) / pairedTurns
}

func (o *outcomeBench) runTurn(key session.Key) {
	if o.way == "run" {
		body := `{"appName":"bench","userId":"u","sessionId":"` + key.ID + `","newMessage":{"role":"user","parts":[{"text":"hello"}]}}`
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/run", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if o.server.ServeHTTP(w, r); w.Code != http.StatusOK {
			o.Fatal(w.Body)
		}
		return
	}
	req := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Protocol: "run", Message: model.UserText("hello")}
	for _, err := range o.host.Run(o.Context(), req) {
		if err != nil {
			o.Fatal(err)
		}
	}
}

func readCPUTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func findMedian(all []float64) float64 {
	slices.SortFunc(all, cmp.Compare)
	return all[len(all)/2]
}
