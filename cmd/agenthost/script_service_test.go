package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"

	"agenthost/internal/fake/fakeanthropic"
	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/number/numbertest"
)

// A serviceFile describes a script's HTTP service: what real services have answered, byte by byte.
// It has replies, and repeats the last one, or an MCP server's tools.
type serviceFile struct {
	// Refuses names the fake whose refusals come first: openai or anthropic.
	Refuses string
	Replies []serviceReply
	MCP     *struct {
		// Tools are the tools; List instead is the whole tools/list result.
		Tools []any
		List  any
		// Result is each call's result, a string its JSON; nil returns the arguments as text.
		Result any
	}
}

// A serviceReply has one body: JSON, text, bytes in hexadecimal, server-sent event data, or nested
// JSON arrays. Hold sends no reply until the client leaves.
type serviceReply struct {
	Status    int
	Headers   map[string]string
	JSON      any
	Text, Hex string
	SSE       []any
	Nested    int
	Hold      bool
}

// A service is a running HTTP service with the requests that it has received.
type service struct {
	*httptest.Server
	file serviceFile

	mu       sync.Mutex
	requests []string // METHOD PATH BODY
}

// startService starts the service NAME that a file describes, and replaces http://NAME.test by its
// address in all the script's files.
func startService(ts *testscript.TestScript, args []string) {
	s := &service{}
	ts.Check(yaml.Unmarshal([]byte(ts.ReadFile(args[1])), &s.file))
	s.Server = httptest.NewServer(s)
	p := stateOf(ts)
	p.services[args[0]] = s
	p.open = append(p.open, s)
	ts.Check(filepath.WalkDir(ts.MkAbs("."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := bytes.ReplaceAll(old, []byte("http://"+args[0]+".test"), []byte(s.URL))
		if bytes.Equal(text, old) {
			return nil
		}
		return os.WriteFile(path, text, 0o600)
	}))
}

// printRequests prints the requests that a service has received, one in a line.
func printRequests(ts *testscript.TestScript, args []string) {
	s := stateOf(ts).services[args[0]]
	if s == nil {
		ts.Fatalf("no service %s was started", args[0])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		fmt.Fprintln(ts.Stdout(), r)
	}
}

// checkDigits checks that a file, or stdout, has numbertest's numbers N times, with all digits.
func checkDigits(ts *testscript.TestScript, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	for _, problem := range numbertest.FindProblems(ts.ReadFile(args[0]), n) {
		ts.Fatalf("%s: %s", args[0], problem)
	}
}

// Close stops the service.
func (s *service) Close() error {
	s.Server.Close()
	return nil
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body))
	s.mu.Unlock()
	switch {
	case s.file.MCP != nil:
		s.serveMCP(w, r, body)
	case s.refuse(w, r, body):
	default:
		s.mu.Lock()
		reply := s.file.Replies[0]
		if len(s.file.Replies) > 1 {
			s.file.Replies = s.file.Replies[1:]
		}
		s.mu.Unlock()
		if reply.Hold {
			<-r.Context().Done()
			return
		}
		reply.write(w)
	}
}

// refuse sends a request to the strict fake, and returns its refusal to the client.
func (s *service) refuse(w http.ResponseWriter, r *http.Request, body []byte) bool {
	var address string
	switch s.file.Refuses {
	case "":
		return false
	case "openai":
		fake := fakeopenai.New()
		defer fake.Close()
		fake.Enqueue(fakeopenai.Reply{Chunks: []string{"ok"}})
		address = strings.TrimSuffix(fake.URL(), "/v1")
	case "anthropic":
		fake := fakeanthropic.New()
		defer fake.Close()
		fake.Enqueue(fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Text("ok")}})
		address = fake.URL()
	default:
		http.Error(w, "unknown fake "+s.file.Refuses, http.StatusInternalServerError)
		return true
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, address+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return true
	}
	req.Header = r.Header.Clone()
	req.Header.Set("X-Api-Key", fakeanthropic.Key)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return true
	}
	defer res.Body.Close()
	if res.StatusCode < 400 {
		return false
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
	return true
}

func (reply serviceReply) write(w http.ResponseWriter) {
	body, contentType := []byte(reply.Text), "text/plain"
	switch {
	case reply.SSE != nil:
		contentType = "text/event-stream"
		for _, v := range reply.SSE {
			body = fmt.Appendf(body, "data: %s\n\n", encodeData(v))
		}
	case reply.Nested > 0:
		contentType, body = "application/json", []byte(strings.Repeat("[", reply.Nested)+strings.Repeat("]", reply.Nested))
	case reply.Hex != "":
		body, _ = hex.DecodeString(reply.Hex)
	case reply.JSON != nil:
		contentType, body = "application/json", []byte(encodeData(reply.JSON))
	}
	w.Header().Set("Content-Type", contentType)
	for k, v := range reply.Headers {
		w.Header().Set(k, v)
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	_, _ = w.Write(body)
}

// encodeData returns a string as it is, and other values as JSON.
func encodeData(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// serveMCP answers requests in MCP revision 2025-11-25, over streamable HTTP.
func (s *service) serveMCP(w http.ResponseWriter, r *http.Request, body []byte) {
	var request struct {
		ID     json.RawMessage
		Method string
		Params struct {
			ProtocolVersion string
			Arguments       json.RawMessage
		}
	}
	if r.Method != http.MethodPost || json.Unmarshal(body, &request) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if request.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var result any = map[string]any{}
	switch request.Method {
	case "initialize":
		result = map[string]any{
			"protocolVersion": request.Params.ProtocolVersion, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "test", "version": "1"},
		}
	case "tools/list":
		result = s.file.MCP.List
		if result == nil {
			result = map[string]any{"tools": s.file.MCP.Tools}
		}
	case "tools/call":
		result = s.file.MCP.Result
		if text, ok := result.(string); ok {
			result = json.RawMessage(text)
		}
		if result == nil {
			result = map[string]any{"content": []any{map[string]any{"type": "text", "text": string(request.Params.Arguments)}}}
		}
	}
	serviceReply{JSON: map[string]any{"jsonrpc": "2.0", "id": request.ID, "result": result}}.write(w)
}
