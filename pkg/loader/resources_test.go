package loader

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// doorKind is a tool kind that logs when it is opened and closed.
type doorKind struct {
	mu  sync.Mutex
	log []string
}

type doorConfig struct {
	Name string `yaml:"name" required:"true" doc:"The name of the door."`
}

type door struct {
	tool.Set
	close func()
}

// Close closes the door.
func (d door) Close() error { d.close(); return nil }

func (d *doorKind) addLine(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

// drainLog returns and clears the log.
func (d *doorKind) drainLog() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries := strings.Join(d.log, ", ")
	d.log = nil
	return entries
}

func (d *doorKind) newKind() spec.Kind[tool.Env, tool.Set] {
	return spec.NewKind("door", "A door.", func(_ context.Context, _ tool.Env, c *doorConfig) (tool.Set, error) {
		if c.Name == "stuck" {
			return nil, fmt.Errorf("cannot open door %s", c.Name)
		}
		d.addLine("open %s", c.Name)
		t, err := declare.Func(c.Name, "A door.", func(context.Context, *tool.Call, struct{}) (string, error) { return "", nil })
		return door{tool.One(t), func() { d.addLine("close %s", c.Name) }}, err
	})
}

// TestResourcesStayOpenAcrossReload expects resources with the same settings to stay open across a
// reload, new ones to open before the swap, and unused ones to close after the last run.
func TestResourcesStayOpenAcrossReload(t *testing.T) {
	d := &doorKind{}
	s := newWatchEnv(t)
	host := runtime.NewHost(nil, nil)
	kinds := listKinds()
	kinds.Tools = append(kinds.Tools, d.newKind())
	l := New(kinds, nil)
	s.watch = NewWatch(l, host, []string{s.top}, &WatchOptions{Clock: s.clock})
	for _, step := range []struct{ name, file, diary string }{
		{"two doors, one of them twice", "tools: [{door: {name: front}}, {door: {name: back}}]\nsub_agents: [{name: b, model: m, instruction: x, tools: [{door: {name: back}}]}]", "open front, open back"},
		{"another text, and the tools in another place", "description: d\n\ntools:\n  - door:\n      name: back # the same\n  - {door: {name: front}}", ""},
		{"one door for another", "tools: [{door: {name: back}}, {door: {name: side}}]", "open side, close front"},
		{"a door that does not open", "tools: [{door: {name: new}}, {door: {name: stuck}}]", "open new, close new"},
		{"no door", "", "close back, close side"},
	} {
		s.writeFile("x/root_agent.yaml", "name: a\nmodel: m\ninstruction: "+step.name+"\n"+step.file)
		s.writeFile("x/app.yaml", "models: {m: {provider: scripted, script: s.yaml}}")
		s.writeFile("x/s.yaml", "- text: hi")
		s.must(s.watch.Sync(t.Context()))
		got := strings.Split(d.drainLog(), ", ")
		slices.Sort(got)
		want := strings.Split(step.diary, ", ")
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: log = %q, want %q", step.name, got, want)
		}
	}
	host.Remove("x")
	if n := len(l.resources.byKey); n != 0 {
		t.Errorf("%d resources are left", n)
	}
}

// A countingServer is a model server that counts its connections.
type countingServer struct {
	*httptest.Server
	mu           sync.Mutex
	made, closed int
	changed      chan struct{}
}

func newCountingServer(t *testing.T) *countingServer {
	s := &countingServer{changed: make(chan struct{}, 1000)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}`)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch state {
		case http.StateNew:
			s.made++
		case http.StateClosed:
			s.closed++
		}
		s.changed <- struct{}{}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *countingServer) countConnections() (made, closed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made, s.closed
}

// TestConnectionsOutliveReloads expects a model with unchanged settings to keep its
// client and connections across reloads. With changed settings it gets new ones, and
// the old ones close after the last run. No connection remains after the app is closed.
func TestConnectionsOutliveReloads(t *testing.T) {
	server, s := newCountingServer(t), newWatchEnv(t)
	st, err := storeurl.Open(t.Context(), "memory:", nil)
	s.must(err)
	defer st.Close()
	host, l := runtime.NewHost(st, nil), New(listKinds(), nil)
	s.watch = NewWatch(l, host, []string{s.top}, &WatchOptions{Clock: s.clock})
	turn := func(base, instruction string) {
		t.Helper()
		s.writeFile("x/app.yaml", "models: {m: {provider: openai_compatible, model: m, base_url: "+server.URL+base+", api_key: '${secret:KEY}'}}")
		s.writeFile("x/.env", "KEY=k")
		s.writeFile("x/root_agent.yaml", "name: a\nmodel: m\ninstruction: "+instruction)
		s.must(s.watch.Sync(t.Context()))
		for _, err := range host.Run(t.Context(), &runtime.RunRequest{App: "x", UserID: "u", SessionID: "s", Message: model.UserText("x"), CreateSession: true}) {
			s.must(err)
		}
	}
	const reloads = 30
	for i := range reloads {
		turn("/v1", fmt.Sprint("rule ", i))
	}
	// net/http drops a connection whose writer did not report within 50 ms, which
	// happens on a busy machine.
	before, _ := server.countConnections()
	if before > 3 {
		t.Errorf("%d reloads opened %d connections, want 1", reloads, before)
	}
	held := len(l.resources.byKey)
	for i := range reloads {
		turn(fmt.Sprint("/v1/", i), "rule")
	}
	if made, _ := server.countConnections(); made < before+reloads {
		t.Errorf("%d new addresses opened %d connections, want one for each", reloads, made-before)
	}
	if now := len(l.resources.byKey); now != held {
		t.Errorf("%d resources after reloads with new addresses, want %d", now, held)
	}
	host.Remove("x")
	if n := len(l.resources.byKey); n != 0 {
		t.Errorf("%d resources are left", n)
	}
	for made, closed := server.countConnections(); closed < made; made, closed = server.countConnections() {
		select {
		case <-server.changed:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d of %d connections are still open", made-closed, made)
		}
	}
}

// TestAppsShareLimits expects a model's limits to count the calls from all apps with the same key,
// address and model: the second call waits until the first ends. An app with another key or model
// does not wait.
func TestAppsShareLimits(t *testing.T) {
	for _, tt := range []struct {
		name, model, key string
		waits            bool
	}{
		{"the same model and key", "m", "k", true},
		{"another key", "m", "other", false},
		{"another model", "n", "k", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			called, end := make(chan string, 2), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				called <- r.Header.Get("Authorization")
				<-end
				fmt.Fprint(w, `{"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}`)
			}))
			defer server.Close()
			s := newWatchEnv(t)
			st, err := storeurl.Open(t.Context(), "memory:", nil)
			s.must(err)
			defer st.Close()
			host := runtime.NewHost(st, nil)
			s.watch = NewWatch(New(listKinds(), nil), host, []string{s.top}, &WatchOptions{Clock: s.clock})
			for app, settings := range map[string]string{"x": "model: m, api_key: k", "y": "model: " + tt.model + ", api_key: " + tt.key} {
				s.writeFile(app+"/app.yaml", "models: {llm: {provider: openai_compatible, "+settings+", base_url: "+server.URL+", limits: {concurrent: 1}}}")
				s.writeFile(app+"/root_agent.yaml", "name: a\nmodel: llm\ninstruction: x")
			}
			s.must(s.watch.Sync(t.Context()))
			waited := make(chan string, 2)
			var turns sync.WaitGroup
			run := func(app string) {
				req := &runtime.RunRequest{App: app, UserID: "u", SessionID: "s", Message: model.UserText("x"), CreateSession: true}
				req.OnModelWait = func(w model.Wait) { waited <- app + " " + w.String() }
				turns.Go(func() {
					for _, err := range host.Run(t.Context(), req) {
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			run("x")
			<-called
			run("y")
			select {
			case <-called:
				if tt.waits {
					t.Error("both apps called the model at once")
				}
			case w := <-waited:
				if want := "y waiting: openai_compatible/m is at its limit of 1 concurrent calls"; !tt.waits || w != want {
					t.Errorf("wait = %q, want %q", w, want)
				}
			}
			close(end)
			turns.Wait()
			host.Remove("x")
			host.Remove("y")
		})
	}
}
