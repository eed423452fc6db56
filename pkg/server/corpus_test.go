package server_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/testenv"
	"agenthost/pkg/session"
)

// Requests recorded with other ADK servers are replayed in order, with translated IDs,
// against equivalent apps. Differences in the status, messages, calls, responses or
// state are listed with a reason in testdata/rest. -update writes the list with a
// question mark for each missing reason, which fails the test.
func TestRecordedServers(t *testing.T) {
	for _, name := range []string{"adk-go", "adk-js"} {
		t.Run(name, func(t *testing.T) { compareWith(t, name) })
	}
}

func compareWith(t *testing.T, name string) {
	exchanges, err := txtar.ParseFile(filepath.Join("testdata", "rest", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "rest", name+".txt")
	listed, err := os.ReadFile(golden)
	if err != nil && !testenv.IsUpdating() {
		t.Fatal(err)
	}
	reasons := parseReasons(string(listed))
	r := &replay{env: recordedApps(t), ids: map[string]string{}}
	var out strings.Builder
	same := 0
	for _, exchange := range exchanges.Files {
		theirs, ours, line := r.compareExchange(exchange.Data)
		if theirs == ours {
			same++
			continue
		}
		reason := reasons[exchange.Name]
		if reason == "" {
			reason = "?"
			t.Errorf("%s differs without a listed reason: %s\ntheirs: %s\nours:   %s", exchange.Name, line, theirs, ours)
		}
		fmt.Fprintf(&out, "%s: %s\n  theirs: %s\n  ours:   %s\n  why:    %s\n", exchange.Name, line, theirs, ours, reason)
	}
	got := fmt.Sprintf("%d of %d responses are the same. The others:\n\n%s", same, len(exchanges.Files), out.String())
	if testenv.IsUpdating() {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(listed), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

// parseReasons returns the reasons in a list by step.
func parseReasons(list string) map[string]string {
	reasons := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\d{3}[^:]*): .*\n.*\n.*\n  why:    (.*)$`).FindAllStringSubmatch(list, -1) {
		if m[2] != "?" {
			reasons[m[1]] = m[2]
		}
	}
	return reasons
}

// replay sends recorded requests to a server and replaces recorded IDs with its own.
type replay struct {
	env *env
	ids map[string]string
}

func (r *replay) compareExchange(exchange []byte) (theirs, ours, line string) {
	request, answer, _ := strings.Cut(string(exchange), "\n=====\n")
	line, body, _ := strings.Cut(r.translateIDs(request), "\n\n")
	method, path, _ := strings.Cut(line, " ")
	path = strings.TrimPrefix(path, "/api")
	w := r.env.serve(method, path, strings.TrimSpace(body))

	status, answerBody, _ := strings.Cut(answer, "\n\n")
	r.recordIDs([]byte(answerBody), w)
	theirs = status + " " + summarizeBody([]byte(r.translateIDs(answerBody)))
	ours = fmt.Sprintf("%d %s", w.Code, summarizeBody(w.Body.Bytes()))
	return strings.TrimSpace(theirs), strings.TrimSpace(ours), method + " " + shortenIDs(path)
}

func shortenIDs(text string) string {
	return regexp.MustCompile(`new-\d{4}`).ReplaceAllString(text, "ID")
}

func (r *replay) translateIDs(text string) string {
	for theirs, ours := range r.ids {
		text = strings.ReplaceAll(text, theirs, ours)
	}
	return text
}

// recordIDs maps the generated IDs in two responses to each other: session IDs, event IDs by
// position, and call IDs by name.
func (r *replay) recordIDs(theirs []byte, w *httptest.ResponseRecorder) {
	ours := parseIDs(w.Body.Bytes())
	for what, id := range parseIDs(theirs) {
		// IDs chosen by the client are equal.
		if own := ours[what]; own != "" && own != id && id != "" {
			r.ids[id] = own
		}
	}
}

// comparedResponse holds a response's compared fields.
type comparedResponse struct {
	ID     string
	State  map[string]any
	Events []*comparedEvent
}

// comparedEvent holds an event's compared fields.
type comparedEvent struct {
	ID, InvocationID, Author, Branch, ErrorCode string
	Partial                                     bool
	Content                                     struct {
		Parts []struct {
			Text         string
			FunctionCall *struct {
				ID, Name string
				Args     map[string]any
			}
			FunctionResponse *struct {
				Name     string
				Response map[string]any
			}
		}
	}
	Actions struct {
		StateDelta, ArtifactDelta map[string]any
	}
}

// parseEvents returns the events in a list or a stream.
func parseEvents(body []byte) []*comparedEvent {
	var events []*comparedEvent
	if json.Unmarshal(body, &events) == nil {
		return slices.DeleteFunc(events, func(ev *comparedEvent) bool { return ev == nil || ev.Partial || ev.Author == "" })
	}
	events = nil
	for line := range strings.Lines(string(body)) {
		ev := &comparedEvent{}
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), ev) == nil && !ev.Partial && ev.Author != "" {
			events = append(events, ev)
		}
	}
	return events
}

func parseIDs(body []byte) map[string]string {
	var sess comparedResponse
	if json.Unmarshal(body, &sess) == nil && sess.ID != "" && sess.Events != nil {
		return map[string]string{"session": sess.ID}
	}
	ids, calls := map[string]string{}, 0
	for i, ev := range parseEvents(body) {
		ids[fmt.Sprint("event ", i)], ids["invocation"] = ev.ID, ev.InvocationID
		for _, p := range ev.Content.Parts {
			if c := p.FunctionCall; c != nil {
				calls++
				ids[fmt.Sprint("call ", calls, c.Name)] = c.ID
			}
		}
	}
	return ids
}

// summarizeBody summarizes a response without server-specific wording and order: a session's
// state and event count, a run's events, names, or the kind of value.
func summarizeBody(body []byte) string {
	if text := strings.TrimSpace(string(body)); text == "null" || text == "[]" {
		return text
	}
	var sess comparedResponse
	if json.Unmarshal(body, &sess) == nil && sess.ID != "" && sess.Events != nil {
		return fmt.Sprintf("session %s, %d events", compactText(sess.State), len(sess.Events))
	}
	if events := parseEvents(body); len(events) > 0 {
		var all []string
		for _, ev := range events {
			all = append(all, ev.summarize())
		}
		if events[0].Branch != "" { // parallel agents have no fixed order
			slices.Sort(all)
		}
		return strings.Join(all, "; ")
	}
	var names []string
	if json.Unmarshal(body, &names) == nil && names != nil {
		slices.Sort(names)
		return compactText(names)
	}
	var list []comparedResponse
	if json.Unmarshal(body, &list) == nil {
		return fmt.Sprintf("a list of %d", len(list))
	}
	var object map[string]any
	if json.Unmarshal(body, &object) == nil && object["detail"] == nil && object["error"] == nil && object != nil {
		return "an object"
	}
	return ""
}

func (ev *comparedEvent) summarize() string {
	text := ev.Author + ":"
	for _, p := range ev.Content.Parts {
		switch {
		case p.FunctionCall != nil:
			text += " calls " + p.FunctionCall.Name + shortenIDs(compactText(p.FunctionCall.Args))
		case p.FunctionResponse != nil:
			text += " responds " + p.FunctionResponse.Name + compactText(p.FunctionResponse.Response)
		default:
			text += " text " + fmt.Sprintf("%q", p.Text)
		}
	}
	if ev.ErrorCode != "" {
		text += " fails " + ev.ErrorCode
	}
	if len(ev.Actions.StateDelta) > 0 {
		text += " state " + compactText(ev.Actions.StateDelta)
	}
	if len(ev.Actions.ArtifactDelta) > 0 {
		text += " saves " + compactText(ev.Actions.ArtifactDelta)
	}
	return text
}

func compactText(v any) string {
	text, err := json.Marshal(session.Normalize(v))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
