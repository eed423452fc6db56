package provider_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// slow answers after a time, and counts its calls.
type slow struct {
	took   time.Duration
	tokens int32

	mu                 sync.Mutex
	running, most, all int
	starts             []time.Duration
	begin              time.Time
}

func (*slow) Name() string { return "slow" }

func (s *slow) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		s.mu.Lock()
		s.all++
		s.running++
		s.most = max(s.most, s.running)
		s.starts = append(s.starts, time.Since(s.begin))
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.running--
			s.mu.Unlock()
		}()
		select {
		case <-time.After(s.took): // fake time
		case <-ctx.Done():
			yield(nil, ctx.Err())
			return
		}
		if req.Stream && !yield(&model.Response{Content: model.ModelText("o"), Partial: true}, nil) {
			return
		}
		yield(&model.Response{Content: model.ModelText("ok"), UsageMetadata: &genai.GenerateContentResponseUsageMetadata{TotalTokenCount: s.tokens}}, nil)
	}
}

func limited(s *slow, l provider.Limits) (model.LLM, *provider.Gate) {
	s.begin = time.Now()
	g := provider.NewGate(l)
	return provider.Retry(s, &provider.RetryOptions{Gate: g, Provider: "test", Attempts: 1}), g
}

// At most 8 of 500 streams run at once. When all have ended, nothing remains: no queue entry, no
// slot, and no goroutine, for which synctest.Test would fail.
func TestConcurrentLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{took: time.Second}
		llm, gate := limited(s, provider.Limits{Concurrent: 8, Wait: time.Hour})
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				if i%10 == 9 { // some turns are canceled while they wait
					time.AfterFunc(100*time.Millisecond, cancel)
				}
				defer cancel()
				_, err := modeltest.Collect(llm.Generate(ctx, modeltest.ScriptInput("hi", true)))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		synctest.Wait()
		waiting, running := gate.Queued()
		if s.most != 8 || waiting+running != 0 {
			t.Errorf("%d ran at once, then %d wait, %d run; want 8, 0, 0", s.most, waiting, running)
		}
		if took := time.Since(s.begin); took < 56*time.Second || took > 63*time.Second {
			t.Errorf("took %v, want 450 calls of 1 s, 8 at a time", took)
		}
	})
}

// A call that exceeds a rate waits until it fits; calls run in the order in which they
// arrive.
func TestRateLimits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits provider.Limits
		tokens int32
		calls  int
		want   []time.Duration
	}{
		{"requests", provider.Limits{Requests: provider.Rate{Count: 2, Per: time.Minute}, Wait: time.Hour}, 0, 4, []time.Duration{0, 0, 30 * time.Second, time.Minute}},
		{"tokens of earlier calls", provider.Limits{Tokens: provider.Rate{Count: 100, Per: time.Minute}, Wait: time.Hour, Concurrent: 1}, 150, 3, []time.Duration{0, 31 * time.Second, 121 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{tokens: tt.tokens}
				llm, _ := limited(s, tt.limits)
				var all sync.WaitGroup
				for range tt.calls {
					all.Go(func() { _, _ = modeltest.Collect(llm.Generate(t.Context(), modeltest.ScriptInput("hi", false))) })
					synctest.Wait()
				}
				all.Wait()
				for i := range s.starts {
					s.starts[i] = s.starts[i].Round(time.Second)
				}
				if diff := cmp.Diff(tt.want, s.starts); diff != "" {
					t.Errorf("starts (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Waiting ends after limits.wait with a rate limit error, which a fallback takes over, and with the
// turn. The caller sees what it waits for.
func TestLimitWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{took: time.Hour}
		llm, gate := limited(s, provider.Limits{Concurrent: 1, Wait: 10 * time.Second})
		busy, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _, _ = modeltest.Collect(llm.Generate(busy, modeltest.ScriptInput("hi", false))) })
		synctest.Wait()
		var waits []string
		req := modeltest.ScriptInput("hi", false)
		req.OnWait = func(w model.Wait) { waits = append(waits, w.String()) }
		_, err := modeltest.Collect(llm.Generate(t.Context(), req))
		const want = "test/slow: 429 RESOURCE_EXHAUSTED: waited 10s for the model's limits: it is at its limit of 1 concurrent calls; raise the model's limits, or declare a fallback"
		if modeltest.ErrorText(err) != want || !slices.Equal(waits, []string{"waiting: test/slow is at its limit of 1 concurrent calls"}) {
			t.Errorf("Generate() = %v, waits %q, want %s", err, waits, want)
		}
		spare := provider.Fallback([]provider.FallbackModel{{Model: llm}, {Model: &failing{}}}, nil)
		if got, err := modeltest.Ask(t, spare, false); err != nil || got[0].CustomMetadata == nil {
			t.Errorf("the fallback answered %v, %v", got, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := modeltest.Collect(llm.Generate(ended, modeltest.ScriptInput("hi", false))); modeltest.ErrorText(err) != "waiting for the limits of slow: context canceled" {
			t.Errorf("a canceled turn: %v", err)
		}
		stop()
		all.Wait()
		if waiting, running := gate.Queued(); waiting+running != 0 {
			t.Errorf("%d wait, %d run", waiting, running)
		}
	})
}

// When several users share a gate, the strictest limit counts.
func TestGateTighten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{took: time.Second}
		llm, gate := limited(s, provider.Limits{Concurrent: 8})
		gate.Tighten(provider.Limits{Concurrent: 2})
		gate.Tighten(provider.Limits{Concurrent: 4})
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() { _, _ = modeltest.Collect(llm.Generate(t.Context(), modeltest.ScriptInput("hi", false))) })
		}
		all.Wait()
		if s.most != 2 {
			t.Errorf("%d ran at once, want 2", s.most)
		}
	})
}

func TestLimitsProblems(t *testing.T) {
	for _, tt := range []struct {
		limits string
		want   []string
	}{
		{"{concurrent: 8, requests: 60/1m, tokens: 200k/1m, wait: 30s}", nil},
		{"{concurrent: 0, wait: 0s}", []string{"concurrent must be at least 1", "wait must be above 0"}},
		{"{requests: 60}", []string{"60 is not a rate such as 60/1m or 200k/1m"}},
		{"{tokens: 0/1m}", []string{"0/1m is not a rate such as 60/1m or 200k/1m"}},
		{"{tokens: 1k/soon}", []string{"1k/soon is not a rate such as 60/1m or 200k/1m"}},
	} {
		_, problems := modeltest.BuildModel(t, fmt.Sprintf("{provider: gemini, model: m, limits: %s}", tt.limits), nil)
		var got []string
		for _, p := range problems {
			_, text, _ := strings.Cut(p, ": ")
			got = append(got, strings.TrimSuffix(text, " [value]"))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.limits, diff)
		}
	}
}
