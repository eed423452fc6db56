package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/wing/gemini"
	"agenthost/wing/openai"
)

// failing fails a few times before it answers.
type failing struct {
	left int
	err  error
}

func (f *failing) Name() string { return "failing" }

func (f *failing) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		if f.left > 0 {
			f.left--
			yield(nil, f.err)
			return
		}
		yield(&model.Response{Content: model.ModelText("ok")}, nil)
	}
}

// TestRetryPolicyOfRequest: the retry policy in a request replaces the model's policy for its call
// only, with its attempts, delays and statuses.
func TestRetryPolicyOfRequest(t *testing.T) {
	var waits []time.Duration
	llm := &failing{}
	retrying := provider.Retry(llm, &provider.RetryOptions{Attempts: 2, Wait: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}})
	for _, tt := range []struct {
		policy *model.RetryPolicy
		code   int
		want   string
	}{
		{&model.RetryPolicy{Attempts: 5, Initial: 5 * time.Second, Max: 20 * time.Second}, 503, "[5s 10s 20s 20s]"},
		{nil, 503, "[1s]"},
		{&model.RetryPolicy{Attempts: 1}, 503, "[]"},
		{&model.RetryPolicy{Attempts: 2, Initial: time.Second, Max: time.Second, Codes: []int{408}}, 408, "[1s]"},
		{&model.RetryPolicy{Attempts: 2, Initial: time.Second, Max: time.Second, Codes: []int{408}}, 503, "[]"},
	} {
		llm.left, llm.err, waits = 10, &model.Error{Code: tt.code}, nil
		for range retrying.Generate(t.Context(), &model.Request{Retry: tt.policy}) {
		}
		if got := fmt.Sprint(waits); got != tt.want {
			t.Errorf("%+v after %d: waits %s, want %s", tt.policy, tt.code, got, tt.want)
		}
	}
}

func TestRetryOptions(t *testing.T) {
	down := &model.Error{Code: 503, Message: "down"}
	tests := []struct {
		name     string
		err      error
		opts     provider.RetryOptions
		failures int
		ok       bool
	}{
		{"three attempts by default", down, provider.RetryOptions{}, 2, true},
		{"no fourth", down, provider.RetryOptions{}, 3, false},
		{"as many as asked", down, provider.RetryOptions{Attempts: 5}, 4, true},
		{"none", down, provider.RetryOptions{Attempts: 1}, 1, false},
		{"other codes only", down, provider.RetryOptions{Codes: []int{429}}, 1, false},
		{"no answer always", &model.Error{Message: "cut"}, provider.RetryOptions{Codes: []int{429}}, 1, true},
		{"no model error", errors.New("odd"), provider.RetryOptions{}, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var waited modeltest.Waits
			tt.opts.Wait = waited.Wait
			_, err := modeltest.Ask(t, provider.Retry(&failing{tt.failures, tt.err}, &tt.opts), false)
			if ok := err == nil; ok != tt.ok {
				t.Errorf("Generate() = %v, want success %v", err, tt.ok)
			}
		})
	}
}

func TestRetryDefaultWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		opts := &provider.RetryOptions{Attempts: 8, Max: 4 * time.Second}
		if _, err := modeltest.Ask(t, provider.Retry(&failing{5, &model.Error{Code: 500}}, opts), false); err != nil {
			t.Fatal(err)
		}
		const least = (1 + 2 + 4 + 4 + 4) * time.Second
		if took := time.Since(start); took < least || took > least+least/4+time.Second {
			t.Errorf("took %v, want %v and at most a quarter more", took, least)
		}
	})
}

// A canceled turn ends the wait.
func TestRetryContextCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
		_, err := modeltest.Collect(provider.Retry(&failing{9, &model.Error{Code: 500}}, nil).Generate(ctx, modeltest.ScriptInput("hi", false)))
		if got, want := modeltest.ErrorText(err), "waiting to retry failing: context canceled"; got != want {
			t.Errorf("Generate() = %q, want %q", got, want)
		}
	})
}

// A turn that would end during the wait fails at once with the service's error.
func TestRetryBeyondDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := modeltest.Collect(provider.Retry(&failing{9, &model.Error{Code: 500, Message: "down"}}, nil).Generate(ctx, modeltest.ScriptInput("hi", false)))
		if got, want := modeltest.ErrorText(err), "model: 500: down"; got != want || time.Since(start) > 0 {
			t.Errorf("Generate() = %q after %v, want %q at once", got, time.Since(start), want)
		}
	})
}

// A caller sees what each wait is for.
func TestRetryReportsWaits(t *testing.T) {
	for _, tt := range []struct {
		name, provider string
		err            *model.Error
		want           []string
	}{
		{"a status", "openai", &model.Error{Code: 429}, []string{"waiting 1 s: openai/failing answered 429 (attempt 2 of 3)", "waiting 2 s: openai/failing answered 429 (attempt 3 of 3)"}},
		{"no answer", "", &model.Error{Message: "cut"}, []string{"waiting 1 s: failing did not answer (attempt 2 of 3)", "waiting 2 s: failing did not answer (attempt 3 of 3)"}},
		{"overloaded", "anthropic", &model.Error{Code: 529}, []string{"waiting 1 s: anthropic/failing answered 529 (attempt 2 of 3)", "waiting 2 s: anthropic/failing answered 529 (attempt 3 of 3)"}},
		{"a request timeout may have been processed", "openai", &model.Error{Code: 408}, nil},
		{"no credit", "openai", &model.Error{Code: 429, Reason: "insufficient_quota"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var waited modeltest.Waits
			var got []string
			req := modeltest.ScriptInput("hi", false)
			req.OnWait = func(w model.Wait) { got = append(got, w.String()) }
			_, err := modeltest.Collect(provider.Retry(&failing{9, tt.err}, &provider.RetryOptions{Wait: waited.Wait, Provider: tt.provider}).Generate(t.Context(), req))
			if diff := cmp.Diff(tt.want, got); diff != "" || err == nil || len(waited) != len(got) {
				t.Errorf("waits (-want +got):\n%s\nerror %v, waited %v", diff, err, waited)
			}
		})
	}
}

func TestRetryLogs(t *testing.T) {
	var log bytes.Buffer
	var waited modeltest.Waits
	opts := &provider.RetryOptions{Wait: waited.Wait, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if _, err := modeltest.Ask(t, provider.Retry(&failing{1, &model.Error{Code: 503, Message: "down"}}, opts), false); err != nil {
		t.Fatal(err)
	}
	const want = `level=WARN msg="model call failed, retrying" model=failing attempt=1 wait=1s error="model: 503: down"`
	if !strings.Contains(log.String(), want) {
		t.Errorf("log = %s, want %s", log.String(), want)
	}
}

func TestGeminiRetry(t *testing.T) {
	busy := fakegemini.Failure(429, "slow down")
	asking, detailed, long := busy, busy, busy
	asking.RetryAfter, detailed.RetryDelay, long.RetryAfter = "7", "2.5s", "3600"
	dated := busy
	dated.RetryAfter = "Mon, 02 Jan 2006 15:04:05 GMT"
	down, late := fakegemini.Failure(503, "overloaded"), fakegemini.Text("one ")
	late.Cut = true
	first := fakegemini.Reply{Raw: `data: {"error":{"code":503,"message":"overloaded"}}` + "\n\n"}
	tests := []struct {
		name    string
		replies []fakegemini.Reply
		stream  bool
		want    []string
		waits   modeltest.Waits
		err     string
	}{
		{"success after 429", []fakegemini.Reply{busy}, false, []string{"hi"}, modeltest.Waits{time.Second}, ""},
		{"waits grow", []fakegemini.Reply{down, down}, true, []string{"+hi", "hi"}, modeltest.Waits{time.Second, 2 * time.Second}, ""},
		{"header", []fakegemini.Reply{asking}, false, []string{"hi"}, modeltest.Waits{7 * time.Second}, ""},
		{"detail", []fakegemini.Reply{detailed}, false, []string{"hi"}, modeltest.Waits{2500 * time.Millisecond}, ""},
		{"header with a date that is over", []fakegemini.Reply{dated}, false, []string{"hi"}, modeltest.Waits{0}, ""},
		{"asked for too long", []fakegemini.Reply{long}, false, nil, nil, "model: 429 RESOURCE_EXHAUSTED: slow down"},
		{
			"exhausted",
			[]fakegemini.Reply{down, down, down},
			false, nil,
			modeltest.Waits{time.Second, 2 * time.Second},
			"model: 503 UNAVAILABLE: overloaded",
		},
		{"not for 400", []fakegemini.Reply{fakegemini.Failure(400, "no")}, false, nil, nil, "model: 400 INVALID_ARGUMENT: no"},
		{"cut at once", []fakegemini.Reply{{Cut: true}}, false, []string{"hi"}, modeltest.Waits{time.Second}, ""},
		{"error as the first chunk", []fakegemini.Reply{first}, true, []string{"+hi", "hi"}, modeltest.Waits{time.Second}, ""},
		{
			"not after the first chunk",
			[]fakegemini.Reply{late},
			true,
			[]string{"+one "},
			nil,
			"model: Gemini's stream was interrupted: unexpected EOF",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := modeltest.NewFake(t)
			fake.Enqueue(tt.replies...)
			var waited modeltest.Waits
			opts := modeltest.FakeOptions(fake)
			opts.Retry = provider.RetryOptions{Wait: waited.Wait}
			got, err := modeltest.Ask(t, gemini.New("gemini-x", opts), tt.stream)
			if text := modeltest.ErrorText(err); text != tt.err {
				t.Errorf("Generate() = %q, want %q", text, tt.err)
			}
			if diff := cmp.Diff(tt.want, modeltest.Outline(got)); diff != "" {
				t.Errorf("Generate() (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.waits, waited); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

// The delay is the one that the service requests, in any usual header.
func TestRequestedDelay(t *testing.T) {
	const date = "Mon, 02 Jan 2006 15:04:05 GMT"
	for _, tt := range []struct {
		name   string
		header map[string]string
		want   time.Duration
	}{
		{"no header", nil, time.Second},
		{"seconds", map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{"fraction of a second", map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		{"milliseconds first", map[string]string{"Retry-After-Ms": "250", "Retry-After": "7"}, 250 * time.Millisecond},
		{"date", map[string]string{"Retry-After": "Mon, 02 Jan 2006 15:04:08 GMT", "Date": date}, 3 * time.Second},
		{"OpenAI's reset", map[string]string{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "6s"}, 6 * time.Second},
		{"longest reset", map[string]string{
			"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "120ms",
			"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "2.5s",
		}, 2500 * time.Millisecond},
		{"reset of a limit with room", map[string]string{"X-Ratelimit-Remaining-Requests": "12", "X-Ratelimit-Reset-Requests": "6s"}, time.Second},
		{"Anthropic's reset", map[string]string{
			"Anthropic-Ratelimit-Input-Tokens-Remaining": "0", "Anthropic-Ratelimit-Input-Tokens-Reset": "2006-01-02T15:04:09Z", "Date": date,
		}, 4 * time.Second},
		{"garbage", map[string]string{"Retry-After": "soon", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "-"}, time.Second},
		{"not a delay", map[string]string{"Retry-After": "NaN"}, time.Second},
		{"negative", map[string]string{"Retry-After": "-3"}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if calls++; calls > 1 {
					fmt.Fprint(w, `{"choices":[{"message":{"content":"ok"}}]}`)
					return
				}
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			defer service.Close()
			var waited modeltest.Waits
			llm := openai.New("m", &openai.Options{BaseURL: service.URL, HTTP: service.Client(), Retry: provider.RetryOptions{Wait: waited.Wait}})
			if _, err := modeltest.Ask(t, llm, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(modeltest.Waits{tt.want}, waited); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}
