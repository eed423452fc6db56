package replay_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/wing/replay"
)

// A shop is a host with apps in a folder, which a test changes after its sessions have run.
type shop struct {
	t     *testing.T
	dir   string
	store *store.Store
	host  *agenthost.Host
}

// newShop serves a folder of apps.
func newShop(t *testing.T, dir string) *shop {
	t.Helper()
	s := &shop{t: t, dir: dir, store: memstore.New(nil)}
	var err error
	s.host, err = agenthost.Open(t.Context(), &agenthost.Options{
		Folders: []string{dir}, Kinds: testenv.Kinds(), Store: s.store, Watch: &loader.WatchOptions{PollOnly: true, Poll: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.host.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, status := range s.host.Watch().Statuses() {
		if status.Diagnostics.HasErrors() {
			t.Fatal(status.Diagnostics.Err())
		}
	}
	return s
}

// send sends a message, and approves or rejects the calls that wait for it.
func (s *shop) send(app, user, id, text string, confirmed bool) {
	s.t.Helper()
	content := agenthost.UserText(text)
	for content != nil {
		next := (*genai.Content)(nil)
		for ev, err := range s.host.Run(s.t.Context(), &runtime.RunRequest{App: app, UserID: user, SessionID: id, CreateSession: true, Message: content}) {
			if err != nil {
				break
			}
			for _, c := range ev.Calls() {
				if runtime.ReadApproval(c) != nil {
					next = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: map[string]any{"confirmed": confirmed}}}}}
				}
			}
		}
		content = next
	}
}

// replay replays the app's sessions on its files.
func (s *shop) replay(app string, set func(*replay.Request)) *replay.Report {
	s.t.Helper()
	req := &replay.Request{Loader: loader.New(testenv.Kinds(), nil), Dir: filepath.Join(s.dir, app), Store: s.store, Now: time.Now()}
	if set != nil {
		set(req)
	}
	report, ds, err := replay.PlaySessions(s.t.Context(), req)
	if err != nil || report == nil {
		s.t.Fatalf("replay of %s: %v, %v", app, ds.Err(), err)
	}
	return report
}

// edit replaces text in a file; the text must be there.
func (s *shop) edit(file, from, to string) {
	s.t.Helper()
	path := filepath.Join(s.dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		s.t.Fatalf("%s has no %q", file, from)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), from, to)), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

var userLine = regexp.MustCompile(`(?m)user: "?([^"|>{\n]+)"?$`)

// copyApps copies the example apps, and returns the messages of their tests by app.
func copyApps(t *testing.T) (dir string, messages map[string][]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "apps")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "apps"))); err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob(filepath.Join(dir, "*", "*.test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	messages = map[string][]string{}
	for _, file := range tests {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		app := filepath.Base(filepath.Dir(file))
		for _, match := range userLine.FindAllStringSubmatch(string(text), -1) {
			messages[app] = append(messages[app], strings.TrimSpace(match[1]))
		}
	}
	delete(messages, "voice") // live conversations are not replayed
	if len(messages) < 8 {
		t.Fatalf("messages of %d apps, want at least 8: %v", len(messages), messages)
	}
	return dir, messages
}

// 1000 sessions of the example apps replay identically on unchanged files: with approvals, transfers,
// loops, parallel agents, callbacks and several turns. Control: after one change of an output key, all
// sessions of that app differ.
func TestUnchanged(t *testing.T) {
	const sessions = 1000
	dir, messages := copyApps(t)
	s := newShop(t, dir)
	each := sessions/len(messages) + 1
	total, turns := 0, 0
	for app, texts := range messages {
		for i := range each {
			for k := range 1 + i%3 {
				s.send(app, fmt.Sprint("u", i%5), fmt.Sprint("s", i), texts[(i*7+k*3)%len(texts)], i%2 == 0)
			}
		}
		report := s.replay(app, func(req *replay.Request) {
			req.Adjust = func(rules *replay.Rules) { rules.Sample = each }
		})
		if report.Same != each || len(report.Differences) > 0 || len(report.Incomparable) > 0 {
			t.Errorf("%s: %d of %d sessions are the same; %v %v", app, report.Same, each, report.Differences, report.Incomparable)
		}
		total, turns = total+report.Sessions, turns+report.Turns
	}
	if total < sessions || turns < 2*sessions-len(messages) {
		t.Errorf("replayed %d sessions with %d turns, want %d", total, turns, sessions)
	}
	s.edit("pipeline/root_agent.yaml", "output_key: outline", "output_key: plan")
	if report := s.replay("pipeline", nil); report.Counts[replay.ClassState] != each || report.Same != 0 {
		t.Errorf("control: %d of %d sessions differ in state", report.Counts[replay.ClassState], each)
	}
	t.Logf("shown: %d sessions with %d turns replay identically; control, one changed output key: %d of %d differ", total, turns, each, each)
}

// desk is an app with what a change can reach.
var desk = map[string][]byte{
	"app.yaml": []byte("models: {m: {provider: scripted, script: s.yaml}}\nreload: {sessions: new_sessions}\n"),
	"root_agent.yaml": []byte(`name: desk
model: m
instruction: Be kind.
output_key: answer
tools:
  - http: {name: find_order, method: GET, url: "http://127.0.0.1:1/{args.id}", params: {id: string}}
  - expr:
      name: vat
      params: {net: number}
      value: args.net * 1.21
  - expr:
      name: pay
      params: {amount: number, order: string}
      value: args.amount
      confirm: args.amount > 20
before_model_callbacks:
  - when: user contains "secret"
    respond: I cannot answer this.
`),
	"s.yaml": []byte(`
- when: user == "broken"
  error: {code: 500, message: broken}
- when: len(responses) > 0
  text: "Done: {user}"
- when: user == "vat"
  calls: [{name: vat, args: {net: 100}}]
- when: user contains "pay"
  calls: [{name: pay, args: {amount: 50, order: "17"}}]
- when: user == "find"
  calls: [{name: find_order, args: {id: "17"}}]
- text: "You wrote: {user}"
`),
}

// newDesk serves the desk, and runs a session for each message.
func newDesk(t *testing.T, messages ...string) *shop {
	t.Helper()
	dir := testenv.Files(t, "desk", desk)
	s := newShop(t, filepath.Dir(dir))
	for i, text := range messages {
		s.send("desk", "ana", fmt.Sprint("s", i+1), text, true)
	}
	return s
}

// describe returns the report's differences in a line each.
func describe(r *replay.Report) string {
	var lines []string
	for _, d := range r.Differences {
		lines = append(lines, fmt.Sprintf("%s turn %d %s: %s %v", d.Session, d.Turn, d.Class, d.Place, d.Lines))
	}
	for _, c := range r.Incomparable {
		lines = append(lines, fmt.Sprintf("%s turn %d incomparable %s: %s (%s)", c.Session, c.Turn, c.Class, c.Place, c.Reason))
	}
	return strings.Join(lines, "\n")
}

// A change is found by the first thing that it changes in a session, with its class and the line of
// the agent that changed.
func TestDifferences(t *testing.T) {
	const agent = "desk/root_agent.yaml"
	for _, test := range []struct {
		name, message, file, from, to string
		want                          string
	}{
		{"a comment", "hi", agent, "name: desk", "# new\nname: desk", ""},
		{"a script, which no replay reads", "hi", "desk/s.yaml", "You wrote", "They wrote", ""},
		{"a failed turn fails again", "broken", agent, "kind", "brief", ""},
		{"missing state", "hi", agent, "Be kind.", "Be kind to {customer}.", "s1 turn 1 error: fails with MISSING_VALUE [root_agent.yaml:3]"},
		{"approval lost", "pay", agent, "args.amount > 20", "args.amount > 200", "s1 turn 1 approval: approval of pay → result of pay [root_agent.yaml:15]"},
		{"approval new", "vat", agent, "value: args.net * 1.21", "value: args.net * 1.21\n      confirm: true", "s1 turn 1 approval: result of vat → approval of vat [root_agent.yaml:11]"},
		{"another result", "vat", agent, "1.21", "1.19", "s1 turn 1 result: vat [root_agent.yaml:10]"},
		{"another state key", "hi", agent, "output_key: answer", "output_key: reply", "s1 turn 1 state: state answer → state reply [root_agent.yaml:4]"},
		{"another text", "a secret", agent, "I cannot", "I must not", "s1 turn 1 text: another text [root_agent.yaml:18]"},
		{"a tool that is gone", "vat", agent, "name: vat", "name: tax", "s1 turn 1 result: vat [root_agent.yaml:8]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newDesk(t, test.message)
			if got := describe(s.replay("desk", nil)); got != "" {
				t.Fatalf("unchanged files differ: %s", got)
			}
			s.edit(test.file, test.from, test.to)
			if got := describe(s.replay("desk", nil)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// A turn that loads a file which an earlier turn, or a client, has stored finds it. Control: without the file the
// turn is not comparable.
func TestFilesRestored(t *testing.T) {
	dir, _ := copyApps(t)
	agent := filepath.Join(dir, "files", "root_agent.yaml")
	text, err := os.ReadFile(agent)
	if err == nil {
		err = os.WriteFile(agent, bytes.ReplaceAll(text, []byte("{artifact.user:style.txt?}"), []byte("{artifact.note.txt}")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, dir)
	key := session.Key{App: "files", User: "ana", ID: "s1"}
	if _, err := s.store.Sessions.Create(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Artifacts.Save(t.Context(), key, "note.txt", &genai.Part{InlineData: &genai.Blob{MIMEType: "text/plain", Data: []byte("Milk.")}}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Hello", "read the note", "read note.txt again"} {
		s.send("files", "ana", "s1", text, true)
	}
	loaded, err := s.store.Sessions.Get(t.Context(), key, nil)
	if err != nil || len(loaded.Events()) < 7 || !slices.ContainsFunc(loaded.Events(), func(ev *session.Event) bool {
		return slices.ContainsFunc(ev.Calls(), func(c *genai.FunctionCall) bool { return c.Name == "load_artifacts" })
	}) {
		t.Fatalf("no turn loads the file: %v", err)
	}
	if r := s.replay("files", nil); r.Same != 1 || len(r.Incomparable) > 0 {
		t.Errorf("%d the same: %s", r.Same, describe(r))
	}
	if err := s.store.Artifacts.Delete(t.Context(), key, "note.txt"); err != nil {
		t.Fatal(err)
	}
	if r := s.replay("files", nil); len(r.Incomparable) == 0 {
		t.Error("control: the turns are the same without the file")
	}
}

// Tools that search memories answer from the record.
func TestMemoriesFromRecord(t *testing.T) {
	dir, _ := copyApps(t)
	s := newShop(t, dir)
	key := session.Key{App: "memory", User: "ana", ID: "s1"}
	s.send("memory", "ana", "s1", "My cat is called Milo.", true)
	saved, err := s.store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Memories.AddSession(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	s.send("memory", "ana", "s2", "look up the cat", true)
	if report := s.replay("memory", nil); report.Same != 2 || report.Turns != 2 {
		t.Errorf("%d of 2 the same: %s", report.Same, describe(report))
	}
}

// A turn that the revision that answered it does not repeat, such as one with an answer that a callback
// extends once more, is not comparable, and is not held against the
// change; later turns of the session are still compared.
func TestIncomparable(t *testing.T) {
	s := newDesk(t)
	s.edit("desk/root_agent.yaml", "before_model", "after_model_callbacks: [{when: user == \"hi\", respond: \"{response.text}!\"}]\nbefore_model")
	if err := s.host.Watch().Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"hi", "pay"} {
		s.send("desk", "ana", "s1", text, true)
	}
	s.edit("desk/root_agent.yaml", "args.amount > 20", "args.amount > 200")
	want := "s1 turn 2 approval: approval of pay → result of pay [root_agent.yaml:15]\n" +
		"s1 turn 1 incomparable text: another text (it depends on the time, on chance, or on what the session does not store)"
	if got := describe(s.replay("desk", nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Sessions whose revision is not stored are compared with the record alone, deleted ones and those
// without a turn are counted, and a session by its key is the only one.
func TestSessionsLeftOut(t *testing.T) {
	s := newDesk(t, "vat", "hi", "hi")
	ctx := t.Context()
	if _, err := s.store.Sessions.Create(ctx, session.Key{App: "desk", User: "ana", ID: "empty"}, nil); err != nil {
		t.Fatal(err)
	}
	only := func(id string) func(*replay.Request) {
		return func(req *replay.Request) { req.Session = &session.Key{App: "desk", User: "ana", ID: id} }
	}
	if r := s.replay("desk", only("empty")); r.Unreadable != 1 || r.Sessions != 0 {
		t.Errorf("a session without a turn: %+v", r)
	}
	if r := s.replay("desk", only("unknown")); r.Gone != 1 || r.Sessions != 0 {
		t.Errorf("a deleted session: %+v", r)
	}
	if r := s.replay("desk", only("s1")); r.Same != 1 || r.Sessions != 1 {
		t.Errorf("one session: %+v", r)
	}
	all, err := s.store.Revisions.List(ctx, "desk")
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	s.edit("desk/root_agent.yaml", "1.21", "1.19")
	s.store.Revisions = store.New(memstore.NewBackends(), nil).Revisions
	r := s.replay("desk", nil)
	if r.Unpaired != 3 || r.Counts[replay.ClassResult] != 1 || r.Differences[0].Baseline {
		t.Errorf("without the revision: %+v", r)
	}
}

// Arguments and state keys in replay.ignore are not compared.
func TestIgnore(t *testing.T) {
	s := newDesk(t, "hi")
	s.edit("desk/root_agent.yaml", "output_key: answer", "output_key: reply")
	s.edit("desk/app.yaml", "reload:", "replay: {ignore: [state.answer, state.reply]}\nreload:")
	if got := describe(s.replay("desk", nil)); got != "" {
		t.Errorf("differences: %s", got)
	}
}

// A sample has a session of each kind before the second of one: failures, tool errors and approvals are
// rare, and show the most.
func TestSampleHasEachKind(t *testing.T) {
	s := newDesk(t, "hi", "broken", "pay", "hi", "hi", "hi", "hi")
	s.edit("desk/root_agent.yaml", "Be kind.", "Be kind to {customer}.")
	report := s.replay("desk", func(req *replay.Request) {
		req.Adjust = func(rules *replay.Rules) { rules.Sample = 3 }
	})
	want := "s2 turn 1 s3 turn 1 s7 turn 1"
	var got []string
	for _, d := range report.Differences {
		got = append(got, fmt.Sprintf("%s turn %d", d.Session, d.Turn))
	}
	if strings.Join(got, " ") != want || report.Examined != 7 {
		t.Errorf("replayed %v of %d, want %s of 7", got, report.Examined, want)
	}
}

// The gate replay keeps a change from serving if more sessions differ than replay.allow has, and names
// the first ones. With an allowance, and without the gate, the same change serves.
func TestGate(t *testing.T) {
	for _, test := range []struct{ name, settings, want string }{
		{"refused", "reload: {gate: [replay]}", "1 of 3 replayed sessions differ in approval, replay.allow.approval is 0: session s2 turn 1 approval of pay → result of pay, root_agent.yaml:15"},
		{"allowed", "replay: {allow: {approval: 0.5}}\nreload: {gate: [replay]}", ""},
		{"without the gate", "reload: {}", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newDesk(t)
			s.edit("desk/app.yaml", "reload: {sessions: new_sessions}", test.settings)
			if err := s.host.Watch().Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, text := range []string{"hi", "pay", "vat"} {
				s.send("desk", "ana", fmt.Sprint("s", i+1), text, true)
			}
			before := s.host.Host.App("desk").Revision()
			s.edit("desk/root_agent.yaml", "args.amount > 20", "args.amount > 200")
			if err := s.host.Watch().Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			status, _ := s.host.Watch().Status("desk")
			got := ""
			if err := status.Diagnostics.Err(); err != nil {
				got = err.Error()
			}
			if served := s.host.Host.App("desk").Revision() != before; served != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("serves %t: %s\nwant %s", served, got, test.want)
			}
		})
	}
}

// Each problem of replay is reported at its place, with the value and the way out.
func TestSectionProblems(t *testing.T) {
	for section, want := range map[string]string{
		"{since: 400d}":       "since must be above 0 and at most 365d, got 9600h0m0s",
		"{sample: 0}":         "sample must be from 1 to 10000, got 0",
		"{ignore: [answer]}":  `ignore must name args.NAME or state.KEY, got "answer"`,
		"{allow: {texts: 1}}": `unknown class "texts" in allow [replay] (classes are error, approval, tool, arguments, result, agent, state and text)`,
		"{allow: {text: 5}}":  "allow.text must be from 0 to 1, got 5 [replay] (write 0.05 for 5 %)",
		"{sampel: 5}":         "sampel",
		"{ignore: [" + strings.Repeat("args.x, ", 101) + "]}": "ignore exceeds the limit of 100, got 101",
	} {
		files := map[string][]byte{}
		for name, text := range desk {
			files[name] = text
		}
		files["app.yaml"] = append([]byte("replay: "+section+"\n"), files["app.yaml"]...)
		app, ds := loader.New(testenv.Kinds(), nil).Load(t.Context(), testenv.Files(t, "desk", files))
		if app != nil {
			app.Close()
			t.Errorf("replay: %s is accepted", section)
			continue
		}
		if got := ds.Err().Error(); !strings.Contains(got, want) {
			t.Errorf("replay: %s\ngot  %s\nwant %s", section, got, want)
		}
	}
}

// A client's call of a tool without a model replays as such a call. Control: another result of the tool
// is a difference.
func TestToolCalls(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "apps")
	for file, text := range map[string]string{
		"desk/app.yaml":        "models: {demo: {provider: scripted, script: s.yaml}}\nmcp_server: {expose: [{tool: find}, {agent: desk}]}\n",
		"desk/root_agent.yaml": "name: desk\nmodel: demo\ninstruction: x\ntools:\n  - expr: {name: find, params: {id: string}, value: args.id, set: {last: args.id}}\n",
		"desk/s.yaml":          "- text: hi\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, "desk"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := newShop(t, dir)
	for _, agent := range []string{"tool:find", "desk"} {
		for _, err := range s.host.Run(t.Context(), &runtime.RunRequest{App: "desk", UserID: "u", SessionID: "s", CreateSession: true, Message: agenthost.UserText(`{"id":"A1"}`), Agent: agent}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := s.replay("desk", nil); r.Same != 1 || r.Turns != 2 || len(r.Incomparable) > 0 {
		t.Errorf("%d the same: %s", r.Same, describe(r))
	}
	s.edit("desk/root_agent.yaml", "last: args.id", "other: args.id")
	if r := s.replay("desk", nil); r.Counts[replay.ClassState] != 1 {
		t.Errorf("control: %s", describe(r))
	}
}
