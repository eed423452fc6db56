package runtime

import (
	"cmp"
	"context"
	"iter"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
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
// follow each other: the machine's changes hit both. A callback of this package takes the counter away from every
// second batch of turns, since users cannot switch outcomes off. The metrics are medians of the pairs.
func BenchmarkOutcomes(b *testing.B) {
	for _, name := range []string{"memory", "sqlite"} {
		b.Run(name, func(b *testing.B) {
			backends := memstore.NewBackends()
			if name == "sqlite" {
				d, err := sqlstore.Engines{sqlite.Engine()}.Open(b.Context(), "sqlite:///"+filepath.Join(b.TempDir(), "bench.db"), nil)
				if err != nil {
					b.Fatal(err)
				}
				backends = d.Backends()
				backends.Artifacts = memstore.NewArtifacts()
			}
			benchOutcomes(b, store.New(backends, nil))
		})
	}
}

func benchOutcomes(b *testing.B, st *store.Store) {
	defer st.Close()
	counted := true
	plugin := &Plugin{Name: "counter", OnUserMessage: func(_ context.Context, m *CallbackContext, _ *genai.Content) (*genai.Content, error) {
		if !counted {
			m.run.limits.counter = nil
		}
		return nil, nil
	}}
	answer := &model.Response{
		Content: model.ModelText("ok"), FinishReason: genai.FinishReasonStop,
		UsageMetadata: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 100, CandidatesTokenCount: 10},
	}
	app, err := NewApp("bench", NewLLM("bench", &LLMOptions{Model: countedModel{answer}, Instruction: NewInstruction("Answer.", nil)}), &AppOptions{
		Revision: "4b1d6f0011223344", Plugins: []*Plugin{plugin},
	})
	if err != nil {
		b.Fatal(err)
	}
	host := NewHost(st, nil)
	host.Swap(app)
	var with, without, shares []float64
	for b.Loop() {
		for _, counted = range []bool{true, false} {
			sess, err := st.Sessions.Create(b.Context(), session.Key{App: "bench", User: "u"}, nil)
			if err != nil {
				b.Fatal(err)
			}
			nanos := timeTurns(b, host, sess.Key)
			if counted {
				with = append(with, nanos)
			} else {
				without = append(without, nanos)
			}
		}
		shares = append(shares, 100*(with[len(with)-1]/without[len(without)-1]-1))
	}
	b.ReportMetric(findMedian(with), "counted-cpu-ns/turn")
	b.ReportMetric(findMedian(without), "uncounted-cpu-ns/turn")
	b.ReportMetric(findMedian(shares), "cost-%")
}

// timeTurns returns the processor time of a turn in nanoseconds.
func timeTurns(b *testing.B, host *Host, key session.Key) float64 {
	b.Helper()
	before := readCPUTime(b)
	for range pairedTurns {
		req := &RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Protocol: "run", Message: model.UserText("hello")}
		for _, err := range host.Run(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	return float64(readCPUTime(b)-before) / pairedTurns
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
