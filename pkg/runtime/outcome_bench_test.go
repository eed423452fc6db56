package runtime_test

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/sqlstore"
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
// cost at most 3 % more with outcomes; "bare" turns are those of the runtime alone. Users cannot switch outcomes off.
// The metrics are medians of the pairs.
func BenchmarkOutcomes(b *testing.B) {
	for _, name := range []string{"memory", "sqlite"} {
		for _, way := range []string{"run", "bare"} {
			b.Run(name+"/"+way, func(b *testing.B) {
				backends := memstore.NewBackends()
				if name == "sqlite" {
					d, err := sqlstore.Engines{sqlite.Engine()}.Open(b.Context(), "sqlite:///"+filepath.Join(b.TempDir(), "bench.db"), nil)
					if err != nil {
						b.Fatal(err)
					}
					backends = d.Backends()
					backends.Artifacts = memstore.NewArtifacts()
				}
				newOutcomeBench(b, store.New(backends, nil), way).run()
			})
		}
	}
}

type outcomeBench struct {
	*testing.B
	store   *store.Store
	host    *runtime.Host
	server  *server.Server
	way     string
	counted bool
}

func newOutcomeBench(b *testing.B, st *store.Store, way string) *outcomeBench {
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
