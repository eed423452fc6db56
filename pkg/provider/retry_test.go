package provider_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/fakegemini"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// failing fails a number of times before it answers.
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
			var waited waits
			tt.opts.Wait = waited.wait
			_, err := ask(t, provider.Retry(&failing{tt.failures, tt.err}, &tt.opts), false)
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
		if _, err := ask(t, provider.Retry(&failing{5, &model.Error{Code: 500}}, opts), false); err != nil {
			t.Fatal(err)
		}
		const least = (1 + 2 + 4 + 4 + 4) * time.Second
		if took := time.Since(start); took < least || took > least+least/4+time.Second {
			t.Errorf("took %v, want %v and at most a quarter more", took, least)
		}
	})
}

func TestRetryContextCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := collect(provider.Retry(&failing{9, &model.Error{Code: 500}}, nil).Generate(ctx, scriptInput("hi", false)))
		if got, want := errorText(err), "waiting to retry failing: context deadline exceeded"; got != want {
			t.Errorf("Generate() = %q, want %q", got, want)
		}
	})
}

func TestRetryLogs(t *testing.T) {
	var log bytes.Buffer
	var waited waits
	opts := &provider.RetryOptions{Wait: waited.wait, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if _, err := ask(t, provider.Retry(&failing{1, &model.Error{Code: 503, Message: "down"}}, opts), false); err != nil {
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
		waits   waits
		err     string
	}{
		{"success after 429", []fakegemini.Reply{busy}, false, []string{"hi"}, waits{time.Second}, ""},
		{"waits grow", []fakegemini.Reply{down, down}, true, []string{"+hi", "hi"}, waits{time.Second, 2 * time.Second}, ""},
		{"header", []fakegemini.Reply{asking}, false, []string{"hi"}, waits{7 * time.Second}, ""},
		{"detail", []fakegemini.Reply{detailed}, false, []string{"hi"}, waits{2500 * time.Millisecond}, ""},
		{"header with a date that is over", []fakegemini.Reply{dated}, false, []string{"hi"}, waits{0}, ""},
		{"asked for too long", []fakegemini.Reply{long}, false, nil, nil, "model: 429 RESOURCE_EXHAUSTED: slow down"},
		{
			"exhausted",
			[]fakegemini.Reply{down, down, down},
			false, nil,
			waits{time.Second, 2 * time.Second},
			"model: 503 UNAVAILABLE: overloaded",
		},
		{"not for 400", []fakegemini.Reply{fakegemini.Failure(400, "no")}, false, nil, nil, "model: 400 INVALID_ARGUMENT: no"},
		{"cut at once", []fakegemini.Reply{{Cut: true}}, false, []string{"hi"}, waits{time.Second}, ""},
		{"error as the first chunk", []fakegemini.Reply{first}, true, []string{"+hi", "hi"}, waits{time.Second}, ""},
		{
			"not after the first chunk",
			[]fakegemini.Reply{late},
			true,
			[]string{"+one "},
			nil,
			"model: stream of Gemini was interrupted: unexpected EOF",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := newFake(t)
			fake.Enqueue(tt.replies...)
			var waited waits
			opts := fakeOptions(fake)
			opts.Retry = provider.RetryOptions{Wait: waited.wait}
			got, err := ask(t, provider.NewGemini("gemini-x", opts), tt.stream)
			if text := errorText(err); text != tt.err {
				t.Errorf("Generate() = %q, want %q", text, tt.err)
			}
			if diff := cmp.Diff(tt.want, outline(got)); diff != "" {
				t.Errorf("Generate() (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.waits, waited); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}
