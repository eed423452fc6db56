package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
)

// Apps for live conversations, one for each model behavior: calls that complete a turn, calls that
// do not, and connections that count messages.
var liveApps = map[string]string{
	"older":    "{provider: gemini, model: gemini-live-2.5-flash-native-audio, base_url: MODEL, api_key: key}",
	"newer":    "{provider: gemini, model: gemini-3.8-live, base_url: MODEL, api_key: key}",
	"counting": "{provider: vertex_ai, model: gemini-live-2.5-flash-native-audio, base_url: MODEL, api_key: key}",
}

// liveFiles returns the apps with the addresses of the model and the tool server.
func liveFiles(modelURL, toolURL string) files {
	fs := files{}
	for name, m := range liveApps {
		resumption := "{}"
		if name == "counting" {
			resumption = "{transparent: true}"
		}
		fs[name+"/app.yaml"] = "models:\n  live: " + strings.ReplaceAll(m, "MODEL", modelURL) + "\nrun_config:\n  session_resumption: " + resumption + "\n"
		fs[name+"/root_agent.yaml"] = `name: ` + name + `
model: live
instruction: "Conversation {conversation}."
tools:
  - http: {name: record, description: Records a tag., method: POST, url: "` + toolURL + `/record", params: {tag: string}}
`
	}
	return fs
}

// A liveStage has a host with the apps, the fake model, and proxies in front of both.
type liveStage struct {
	lab      *lab
	host     *host
	model    *modelProcess
	tools    *toolServer
	client   *frameProxy // between clients and the host
	upstream *frameProxy // between the host and the model
	url      string      // the host's
	db, apps string
	flags    []string
	rounds   int // conversation rounds, which name their sessions
}

func newLiveStage(ctx context.Context, l *lab, name string, flags ...string) (s *liveStage, err error) {
	s = &liveStage{lab: l, flags: flags, db: filepath.Join(l.dir, name+".db"), apps: filepath.Join(l.dir, name)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stopAll())
		}
	}()
	pass := func(string) bool { return true }
	if s.client, err = newFrameProxy(pass); err != nil {
		return s, err
	}
	if s.upstream, err = newFrameProxy(pass); err != nil {
		return s, err
	}
	if s.tools, err = newToolServer(); err != nil {
		return s, err
	}
	if err := liveFiles(s.upstream.url, s.tools.url).writeTo(s.apps); err != nil {
		return s, err
	}
	if s.url, err = freeURL(); err != nil {
		return s, err
	}
	s.client.setServer(s.url)
	return s, errors.Join(s.startModel(ctx), s.startHost(ctx))
}

// freeURL returns a URL with a free port, for a host that is restarted at the same address.
func freeURL() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return "http://" + listener.Addr().String(), listener.Close()
}

func (s *liveStage) startHost(ctx context.Context) (err error) {
	flags := append([]string{"--addr", strings.TrimPrefix(s.url, "http://")}, s.flags...)
	s.host, err = serveStore(ctx, s.lab, "sqlite:///"+s.db, s.apps, flags...)
	return err
}

func (s *liveStage) startModel(ctx context.Context) (err error) {
	if s.model, err = startLiveModel(ctx, s.lab); err == nil {
		s.upstream.setServer(s.model.url)
	}
	return err
}

func (s *liveStage) stopAll() error {
	var err error
	if s.host != nil {
		err = s.host.kill()
	}
	if s.model != nil {
		err = errors.Join(err, s.model.killProcess())
	}
	for _, p := range []*frameProxy{s.client, s.upstream} {
		if p != nil {
			err = errors.Join(err, p.closeAll())
		}
	}
	if s.tools != nil {
		err = errors.Join(err, s.tools.server.Close())
	}
	return err
}

// newTalk returns a conversation with its own user.
func (s *liveStage) newTalk(app, name string, kinds ...string) *liveTalk {
	t := &liveTalk{client: newClient(s.url, app, name), socketURL: s.client.url, printLine: s.printLine}
	t.user = "user-" + name
	for i, kind := range kinds {
		t.turns = append(t.turns, &liveTurn{kind: kind, name: fmt.Sprintf("%s-t%d", name, i)})
	}
	return t
}

func (s *liveStage) printLine(format string, values ...any) {
	fmt.Fprintf(s.lab.progress, format+"\n", values...)
}

// A toolServer counts the tool's executions by the call's tag. Like a service with idempotency
// keys, it executes each key once.
type toolServer struct {
	url    string
	server *http.Server

	mu   sync.Mutex
	keys map[string]map[string]int // requests by tag and key
}

func newToolServer() (*toolServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &toolServer{url: "http://" + listener.Addr().String(), keys: map[string]map[string]int{}}
	t.server = &http.Server{Handler: http.HandlerFunc(t.serveCall), ReadHeaderTimeout: waitLimit}
	go func() { _ = t.server.Serve(listener) }()
	return t, nil
}

func (t *toolServer) serveCall(w http.ResponseWriter, r *http.Request) {
	var args struct{ Tag string }
	if err := json.NewDecoder(io.LimitReader(r.Body, maxProxiedFrame)).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t.recordCall(args.Tag, r.Header.Get("Idempotency-Key"))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"recorded":%q}`, args.Tag)
}

func (t *toolServer) recordCall(tag, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys[tag] == nil {
		t.keys[tag] = map[string]int{}
	}
	t.keys[tag][key]++
}

// countCalls counts calls, requests, and calls that were executed with more than one key.
func (t *toolServer) countCalls() (calls, requests, doubled int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, keys := range t.keys {
		calls++
		for _, n := range keys {
			requests += n
		}
		if len(keys) > 1 {
			doubled++
		}
	}
	return calls, requests, doubled
}
