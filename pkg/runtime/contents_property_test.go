package runtime

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
	"pgregory.net/rapid"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// drawEvents makes a conversation between two agents and a user: words, thoughts, calls, answers to
// some call (now and then to none, or twice), on several branches, with rewinds and summaries.
func drawEvents(t *rapid.T) []*session.Event {
	var events []*session.Event
	var open []*genai.FunctionCall
	for i := range rapid.IntRange(0, 25).Draw(t, "events") {
		ev := &session.Event{
			ID: fmt.Sprint(i), InvocationID: fmt.Sprint("i", i/3),
			Author: rapid.SampledFrom([]string{session.UserAuthor, "a", "b"}).Draw(t, "author"),
			Branch: rapid.SampledFrom([]string{"", "", "p.a", "p.b"}).Draw(t, "branch"),
		}
		role := genai.RoleModel
		if ev.Author == session.UserAuthor {
			role = genai.RoleUser
		}
		ev.Content = &genai.Content{Role: role}
		for range rapid.IntRange(1, 2).Draw(t, "parts") {
			ev.Content.Parts = append(ev.Content.Parts, drawPart(t, i, &open))
		}
		if rapid.IntRange(0, 19).Draw(t, "rewind") == 0 {
			ev.Content = nil
			ev.Actions.RewindBeforeInvocationID = fmt.Sprint("i", rapid.IntRange(0, 9).Draw(t, "to"))
		}
		ev.Timestamp = time.Unix(int64(i), 0)
		if rapid.IntRange(0, 9).Draw(t, "compaction") == 0 {
			ev.Author, ev.Content = session.UserAuthor, nil
			start := rapid.IntRange(0, 20).Draw(t, "start")
			ev.Actions.Compaction = &session.Compaction{
				StartTimestamp: float64(start), EndTimestamp: float64(start + rapid.IntRange(0, 9).Draw(t, "length")),
				CompactedContent: model.ModelText(fmt.Sprint("summary", i)),
			}
		}
		events = append(events, ev)
	}
	return events
}

func drawPart(t *rapid.T, i int, open *[]*genai.FunctionCall) *genai.Part {
	switch rapid.IntRange(0, 4).Draw(t, "part") {
	case 0:
		return &genai.Part{Text: fmt.Sprint("thought", i), Thought: true}
	case 1:
		id := rapid.SampledFrom([]string{"adk-", "own-"}).Draw(t, "prefix") + fmt.Sprint(i)
		call := &genai.FunctionCall{ID: id, Name: "f"}
		*open = append(*open, call)
		return &genai.Part{FunctionCall: call}
	case 2, 3:
		if len(*open) > 0 {
			call := rapid.SampledFrom(*open).Draw(t, "answered")
			return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: map[string]any{"at": i}}}
		}
	}
	return &genai.Part{Text: fmt.Sprint("text", i)}
}

// TestContentsIncremental: contents are the same whether they are updated event by
// event, read in between, or built at once. Returned contents do not change.
func TestContentsIncremental(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := drawEvents(t)
		agent := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent")
		branch := rapid.SampledFrom([]string{"", "p.a", "p.a.q"}).Draw(t, "own branch")
		at := func(h *session.History) *Invocation {
			return &Invocation{run: &run{turn: turn{sess: &session.Session{History: h}}}, node: &node{agent: NewLLM(agent, nil)}, branch: branch}
		}
		type taken struct{ given, copied []*genai.Content }
		var before []taken
		grown := session.NewHistory(nil)
		for i, ev := range events {
			grown.Append(ev)
			if rapid.Bool().Draw(t, "skip") && i < len(events)-1 {
				continue
			}
			got, gotErr := at(grown).buildContents(IncludeDefault)
			want, wantErr := at(session.NewHistory(events[: i+1 : i+1])).buildContents(IncludeDefault)
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("error after %d events = %v, built at once %v", i+1, gotErr, wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("contents after %d events (-at once +grown):\n%s", i+1, diff)
			}
			before = append(before, taken{got, append([]*genai.Content(nil), got...)})
		}
		for _, b := range before {
			if diff := cmp.Diff(b.copied, b.given); diff != "" {
				t.Fatalf("contents handed out before have changed (-then +now):\n%s", diff)
			}
		}
	})
}

// TestIncludeNoneContinues: the answer to an agent's own call continues the call's turn; it does
// not begin one.
func TestIncludeNoneContinues(t *testing.T) {
	part := func(author, role string, p *genai.Part) *session.Event {
		ev := &session.Event{Author: author}
		ev.Content = &genai.Content{Role: role, Parts: []*genai.Part{p}}
		return ev
	}
	ask := part(session.UserAuthor, genai.RoleUser, &genai.Part{Text: "paint it"})
	call := part("a", genai.RoleModel, &genai.Part{FunctionCall: &genai.FunctionCall{ID: "c", Name: "choose"}})
	answer := part(session.UserAuthor, genai.RoleUser, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: "c", Name: "choose"}})
	h := session.NewHistory([]*session.Event{part(session.UserAuthor, genai.RoleUser, &genai.Part{Text: "earlier"}), ask, call, answer})
	inv := &Invocation{run: &run{turn: turn{sess: &session.Session{History: h}}}, node: &node{agent: NewLLM("a", nil)}}
	got, err := inv.buildContents(IncludeNone)
	if err != nil {
		t.Fatal(err)
	}
	want := []*genai.Content{ask.Content, call.Content, answer.Content}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

// TestLateAnswersKept: what lies between a call and its late answer is left out,
// but for answers to earlier calls (decision 0006).
func TestLateAnswersKept(t *testing.T) {
	newEvent := func(role string, p *genai.Part) *session.Event {
		ev := &session.Event{Author: "a"}
		ev.Content = &genai.Content{Role: role, Parts: []*genai.Part{p}}
		return ev
	}
	call := func(id string) *session.Event {
		return newEvent(genai.RoleModel, &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: "ask"}})
	}
	answer := func(id, text string) *session.Event {
		return newEvent(genai.RoleUser, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: id, Name: "ask", Response: map[string]any{"is": text}}})
	}
	a, b := call("A"), call("B")
	lateA, lateB := answer("A", "yes"), answer("B", "no")
	h := session.NewHistory([]*session.Event{
		a, answer("A", "pending"), b, answer("B", "pending"), newEvent(genai.RoleModel, &genai.Part{Text: "I wait."}), lateA, lateB,
	})
	inv := &Invocation{run: &run{turn: turn{sess: &session.Session{History: h}}}, node: &node{agent: NewLLM("a", nil)}}
	got, err := inv.buildContents("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*genai.Content{a.Content, lateA.Content, b.Content, lateB.Content}, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}
