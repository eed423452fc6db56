package runtime_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// meteredModel is a model that reports how large its prompts are.
type meteredModel func(req *model.Request) (answer *genai.Content, tokens int32)

func (meteredModel) Name() string { return "metered" }

func (f meteredModel) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		answer, tokens := f(req)
		usage := &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: tokens}
		yield(&model.Response{Content: answer, UsageMetadata: usage}, nil)
	}
}

// summarizerModel returns a model that writes a fixed summary.
func summarizerModel(tokens int32) meteredModel {
	return func(*model.Request) (*genai.Content, int32) { return model.ModelText("in brief"), tokens }
}

// TestCompactionEvent: the summary is a user event without content, in its own invocation; it names
// the first and the last event by their times, and has the usage from the call that wrote it
// (semantics 10.4).
func TestCompactionEvent(t *testing.T) {
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi")}), &runtime.AppOptions{
		Compaction: &runtime.CompactionOptions{Interval: 1},
		Summarizer: summarizerModel(7),
	})
	key := e.Session(t, "app", "s", nil)
	if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "one"))); got != "a: hi\n" {
		t.Errorf("seen: %q, want the answer only", got)
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(sess.Events()) != 3 {
		t.Fatalf("%d events are stored, want 3", len(sess.Events()))
	}
	first, last, ev := sess.Events()[0], sess.Events()[1], sess.Events()[2]
	want := &session.Compaction{
		StartTimestamp:   float64(first.Timestamp.UnixMicro()) / 1e6,
		EndTimestamp:     float64(last.Timestamp.UnixMicro()) / 1e6,
		CompactedContent: model.ModelText("in brief"),
	}
	if diff := cmp.Diff(want, ev.Actions.Compaction); diff != "" {
		t.Errorf("compaction (-want +got):\n%s", diff)
	}
	if ev.Author != session.UserAuthor || ev.Content != nil || ev.UsageMetadata.PromptTokenCount != 7 {
		t.Errorf("event %+v, want one of the user with a usage and no content", ev)
	}
	if ev.InvocationID == first.InvocationID || strings.HasPrefix(ev.InvocationID, "e-") {
		t.Errorf("invocation %s, want one of its own", ev.InvocationID)
	}
}

// TestCompactionInRun: the latest prompt size that a model reported triggers the
// compaction, also during a run. The last event and its call are kept.
func TestCompactionInRun(t *testing.T) {
	var prompts []string
	look := func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Response: map[string]any{"ok": true}}, nil
	}
	calls := 0
	m := meteredModel(func(req *model.Request) (*genai.Content, int32) {
		prompts = append(prompts, formatContents(req.Contents))
		if calls++; calls <= 3 {
			return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: fmt.Sprint("c", calls), Name: "look"}}}}, int32(calls * 10)
		}
		return model.ModelText("done"), 15
	})
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: m, Tools: []tool.Tool{&testTool{name: "look", run: look}}}), &runtime.AppOptions{
		Compaction: &runtime.CompactionOptions{TokenThreshold: 20, EventRetention: 1},
		Summarizer: summarizerModel(500),
	})
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	want := []string{
		"go",
		"go | call c1 | answer c1",
		"For context: [model] said: in brief | call c2 | answer c2",
		"For context: [model] said: in brief | call c3 | answer c3",
	}
	if diff := cmp.Diff(want, prompts); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}
	if got, want := storedAuthors(t, e, key), "user a a a a user a a user a"; got != want {
		t.Errorf("stored: %s, want %s", got, want)
	}
}

// formatContents formats contents without roles.
func formatContents(contents []*genai.Content) string {
	var lines []string
	for _, c := range contents {
		for _, p := range c.Parts {
			switch {
			case p.FunctionCall != nil:
				lines = append(lines, "call "+p.FunctionCall.ID)
			case p.FunctionResponse != nil:
				lines = append(lines, "answer "+p.FunctionResponse.ID)
			default:
				lines = append(lines, p.Text)
			}
		}
	}
	return strings.NewReplacer("For context: | ", "For context: ").Replace(strings.Join(lines, " | "))
}

// TestCompactionLateAnswer: an answer to an open call follows its call, which no summary
// covers. The final answer to a call whose interim answer a summary covers is sent to the
// model as context.
func TestCompactionLateAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		interim map[string]any
		want    string
	}{
		"open call":    {nil, "For context: [model] said: in brief | call c | answer c"},
		"covered call": {map[string]any{"status": "pending"}, "For context: [model] said: in brief | For context: [user] `approve` tool returned result: {\"ok\":true}"},
	} {
		t.Run(name, func(t *testing.T) {
			var prompt string
			e := testenv.New(t, nil)
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: meteredModel(func(req *model.Request) (*genai.Content, int32) {
				prompt = formatContents(req.Contents)
				return model.ModelText("done"), 1
			})}), nil)
			key := e.Session(t, "app", "s", nil)
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			call := &session.Event{Author: "a", InvocationID: "i", LongRunningToolIDs: []string{"c"}}
			call.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c", Name: "approve"}}}}
			events := []*session.Event{call}
			if tt.interim != nil {
				interim := &session.Event{Author: "a", InvocationID: "i"}
				interim.Content = responseTo("c", tt.interim)
				events = append(events, interim)
			}
			summary := &session.Event{Author: session.UserAuthor, InvocationID: "j"}
			summary.Actions.Compaction = &session.Compaction{EndTimestamp: 1e10, CompactedContent: model.ModelText("in brief")}
			for _, ev := range append(events, summary) {
				if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
					t.Fatal(err)
				}
			}
			req := userMessage(key, "")
			req.Message = responseTo("c", map[string]any{"ok": true})
			if got := formatRun(e.Host.Run(t.Context(), req)); got != "a: done\n" {
				t.Errorf("Run = %q", got)
			}
			if prompt != tt.want {
				t.Errorf("prompt: %s\nwant:   %s", prompt, tt.want)
			}
		})
	}
}

func responseTo(id string, response map[string]any) *genai.Content {
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{
		{FunctionResponse: &genai.FunctionResponse{ID: id, Name: "approve", Response: response}},
	}}
}

// TestCompactionAfterDeadCall: a call that no one will ever answer, as after a killed process, does
// not stop later invocations' compaction, by either strategy. Its event stays in the prompt, and
// the prompt does not grow.
func TestCompactionAfterDeadCall(t *testing.T) {
	for name, opts := range map[string]*runtime.CompactionOptions{
		"sliding window":  {Interval: 2},
		"token threshold": {TokenThreshold: 20, EventRetention: 1},
	} {
		t.Run(name, func(t *testing.T) {
			longest, turns := 0, 0
			m := meteredModel(func(req *model.Request) (*genai.Content, int32) {
				prompt := formatContents(req.Contents)
				if turns++; !strings.Contains(prompt, "call dead") {
					t.Errorf("turn %d: the call is not in the prompt %s", turns, prompt)
				}
				longest = max(longest, strings.Count(prompt, "talk"))
				return model.ModelText("talk"), int32(10 * len(req.Contents))
			})
			e := testenv.New(t, nil)
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: m}), &runtime.AppOptions{Compaction: opts, Summarizer: summarizerModel(1)})
			key := e.Session(t, "app", "s", nil)
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			asked := &session.Event{Author: session.UserAuthor, InvocationID: "i"}
			asked.Content = model.UserText("do it")
			dead := &session.Event{Author: "a", InvocationID: "i"}
			dead.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "dead", Name: "f"}}}}
			for _, ev := range []*session.Event{asked, dead} {
				if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
					t.Fatal(err)
				}
			}
			for range 8 {
				formatRun(e.Host.Run(t.Context(), userMessage(key, "talk")))
			}
			if longest > 4 {
				t.Errorf("a prompt has %d texts of turns, want at most 4", longest)
			}
			if n := strings.Count(storedAuthors(t, e, key), "user user"); n < 3 {
				t.Errorf("%d summaries in %s, want at least 3", n, storedAuthors(t, e, key))
			}
		})
	}
}

// TestCompactionFutile: a prompt beyond the token threshold that no summary can shorten
// is logged once, not with each model call.
func TestCompactionFutile(t *testing.T) {
	e := testenv.New(t, nil)
	var log strings.Builder
	host := runtime.NewHost(e.Store, &runtime.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	m := meteredModel(func(*model.Request) (*genai.Content, int32) { return model.ModelText("hi"), 50 })
	app, err := runtime.NewApp("app", runtime.NewLLM("a", &runtime.LLMOptions{Model: m}), &runtime.AppOptions{
		Compaction: &runtime.CompactionOptions{TokenThreshold: 20, EventRetention: 10}, Summarizer: summarizerModel(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	host.Swap(app)
	defer host.Close()
	key := e.Session(t, "app", "s", nil)
	for range 3 {
		formatRun(host.Run(t.Context(), userMessage(key, "one")))
	}
	want := "tokens=50 token_threshold=20 event_retention_size=10 events_of_open_calls=0"
	if got := strings.Count(log.String(), "prompt exceeds the token threshold, but no event can be summarized"); got != 1 || !strings.Contains(log.String(), want) {
		t.Errorf("logged %d times:\n%s\nwant once with %s", got, &log, want)
	}
}

// errorModel returns an error response from its service.
type errorModel struct{ modelFunc }

func (errorModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		yield(&model.Response{ErrorCode: "RESOURCE", ErrorMessage: "gone"}, nil)
	}
}

// TestCompactionError: a failed compaction is only logged.
func TestCompactionError(t *testing.T) {
	for name, summarizer := range map[string]model.LLM{
		"model answering: RESOURCE":    errorModel{},
		"the model returned no text":   textModel(""),
		"model answering: no thoughts": modelFunc(func(context.Context, *model.Request) (*genai.Content, error) { return nil, fmt.Errorf("no thoughts") }),
	} {
		t.Run(name, func(t *testing.T) {
			e := testenv.New(t, nil)
			var log strings.Builder
			host := runtime.NewHost(e.Store, &runtime.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			app, err := runtime.NewApp("app", runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi")}), &runtime.AppOptions{
				Compaction: &runtime.CompactionOptions{Interval: 1}, Summarizer: summarizer,
			})
			if err != nil {
				t.Fatal(err)
			}
			host.Swap(app)
			defer host.Close()
			key := e.Session(t, "app", "s", nil)
			if got := formatRun(host.Run(t.Context(), userMessage(key, "one"))); got != "a: hi\n" {
				t.Errorf("Run = %q, want the answer", got)
			}
			if got := storedAuthors(t, e, key); got != "user a" {
				t.Errorf("stored: %s, want user a", got)
			}
			if !strings.Contains(log.String(), "compaction failed") || !strings.Contains(log.String(), name) {
				t.Errorf("log:\n%s\nwant %q in it", &log, name)
			}
		})
	}
}

// TestCompactionWithoutModel: the default summarizer is the root agent's model,
// and a workflow agent has none.
func TestCompactionWithoutModel(t *testing.T) {
	root := &testAgent{Base: runtime.Base{AgentName: "flow"}}
	_, err := runtime.NewApp("app", root, &runtime.AppOptions{Compaction: &runtime.CompactionOptions{}, Model: textModel("x")})
	if want := "app app: no model to summarize events: the root agent flow has none"; err == nil || err.Error() != want {
		t.Errorf("NewApp = %v, want %s", err, want)
	}
}

// TestCompactionOfEndedRuns: failed and canceled runs do not trigger compaction;
// the next successful run compacts them too.
func TestCompactionOfEndedRuns(t *testing.T) {
	e := testenv.New(t, nil)
	fail := true
	m := modelFunc(func(context.Context, *model.Request) (*genai.Content, error) {
		if fail {
			return nil, fmt.Errorf("not now")
		}
		return model.ModelText("hi"), nil
	})
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: m}), &runtime.AppOptions{
		Compaction: &runtime.CompactionOptions{Interval: 1}, Summarizer: summarizerModel(1),
	})
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "one")))
	if got := storedAuthors(t, e, key); got != "user a" {
		t.Errorf("stored after a failure: %s, want user a", got)
	}
	fail = false
	for range e.Host.Run(t.Context(), userMessage(key, "two")) {
		break
	}
	if got := storedAuthors(t, e, key); got != "user a user a" {
		t.Errorf("stored after the consumer left: %s, want user a user a", got)
	}
	formatRun(e.Host.Run(t.Context(), userMessage(key, "three")))
	if got := storedAuthors(t, e, key); got != "user a user a user a user" {
		t.Errorf("stored: %s, want one summary at the end", got)
	}
}
