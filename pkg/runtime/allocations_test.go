// The race detector allocates too.

//go:build !race

package runtime_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store/memstore"
)

// TestTurnAllocations: a turn in a new session in memory allocates no more than what it uses. The
// limits are what is reached; they only fall.
func TestTurnAllocations(t *testing.T) {
	chunk := &model.Response{Content: model.ModelText("so "), Partial: true}
	whole := &model.Response{Content: model.ModelText("ok"), FinishReason: genai.FinishReasonStop}
	newAgent := func(name string, responses ...*model.Response) runtime.Agent {
		return runtime.NewLLM(name, &runtime.LLMOptions{
			Model: replyModel(append(responses, whole)), Instruction: runtime.NewInstruction("Answer.", nil),
		})
	}
	var three, eight []runtime.Agent
	for i := range 8 {
		eight = append(eight, newAgent(fmt.Sprint("agent_", i)))
	}
	for i := range 3 {
		three = append(three, newAgent(fmt.Sprint("agent_", i)))
	}
	var chunks []*model.Response
	for range 100 {
		chunks = append(chunks, chunk)
	}
	for _, tt := range []struct {
		name string
		root runtime.Agent
		most float64
	}{
		{"one agent", newAgent("root"), 22},
		{"three agents in sequence", runtime.NewSequential("root", "", three...), 56},
		{"eight agents in parallel", runtime.NewParallel("root", "", eight...), 119},
		{"100 chunks", newAgent("root", chunks...), 122}, // an event for each
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := memstore.New(nil)
			defer st.Close()
			app, err := runtime.NewApp("bench", tt.root, nil)
			if err != nil {
				t.Fatal(err)
			}
			host := runtime.NewHost(st, nil)
			host.Swap(app)
			const turns = 50
			streaming, message := true, model.UserText("hello")
			var requests []*runtime.RunRequest
			for range turns + 1 {
				sess, err := st.Sessions.Create(t.Context(), session.Key{App: "bench", User: "u"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				requests = append(requests, &runtime.RunRequest{
					App: sess.App, UserID: sess.User, SessionID: sess.ID, Message: message, Streaming: &streaming,
				})
			}
			n := testing.AllocsPerRun(turns, func() {
				for _, err := range host.Run(t.Context(), requests[0]) {
					if err != nil {
						t.Fatal(err)
					}
				}
				requests = requests[1:]
			})
			if n > tt.most {
				t.Errorf("a turn allocates %.0f times, at most %.0f are allowed", n, tt.most)
			}
		})
	}
}

// Without Split, a turn allocates what it allocated before; a Split adds nothing.
func TestSplitAllocations(t *testing.T) {
	count := func(split runtime.SplitFunc) float64 {
		e := testenv.New(t, nil)
		e.Host = runtime.NewHost(e.Store, &runtime.Options{Split: split})
		t.Cleanup(e.Host.Close)
		app, err := runtime.NewApp("app", runtime.NewLLM("a", nil), &runtime.AppOptions{
			Model:    modelFunc(func(context.Context, *model.Request) (*genai.Content, error) { return model.ModelText("hi"), nil }),
			Revision: "one", Reload: &runtime.ReloadOptions{Sessions: runtime.FollowNewSessions},
		})
		if err != nil {
			t.Fatal(err)
		}
		e.Host.Swap(app)
		n := 0
		return testing.AllocsPerRun(50, func() {
			n++
			key := e.Session(t, "app", fmt.Sprint("s", n), nil)
			for _, err := range e.Host.Run(t.Context(), userMessage(key, "hi")) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	without := count(nil)
	with := count(func(_ context.Context, _ *runtime.App, _ *session.Session, last string) runtime.Split {
		return runtime.Split{Revision: last}
	})
	if with > without+1 || with < without-1 {
		t.Errorf("a turn allocates %v times with Split, %v without", with, without)
	}
}
