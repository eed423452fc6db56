package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// bombLevels is how many levels a hostile schema has: each names the one below twice.
	bombLevels = 40
	// mcpPings is how many requests a hostile server sends.
	mcpPings = 2000
	// controlPings is how many the control answers at once.
	controlPings = 500
	// mcpTurnCPU is the maximum CPU time for a turn with a hostile server.
	mcpTurnCPU = 5 * time.Second
	// mcpStop is the maximum time until a host has stopped after it.
	mcpStop = 10 * time.Second
	// mcpHandles and mcpGoroutines are the permitted numbers above those before the attack.
	mcpHandles, mcpGoroutines = 40, 100
	// mcpMemory is the maximum memory growth, in MB, and mcpLine the line that is sent.
	mcpMemory = 200
	mcpLine   = 1 << 30
	// controlLine is the line that the control reads.
	controlLine = 64 << 20
)

// mcpRows sends a host what a hostile MCP server can: a schema that expands, its own requests, and
// an endless event.
func mcpRows(ctx context.Context, l *lab) (rows []row, err error) {
	for _, show := range []func(context.Context, *lab) (row, error){expandingSchema, requestFlood, endlessEvent} {
		r, err := show(ctx, l)
		if err != nil {
			return rows, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// A hostileMCP is an MCP server whose responses are streams. It accepts no response to its own
// requests until it is closed.
type hostileMCP struct {
	*httptest.Server
	schema string
	// call writes the stream that answers a call, and stream the one between calls.
	call, stream func(w http.ResponseWriter, id json.RawMessage)
	// waiting are the responses that are not accepted, and most the most there were.
	waiting, most atomic.Int64
	stopped       chan struct{}
}

func serveHostileMCP() *hostileMCP {
	s := &hostileMCP{schema: `{"type":"object"}`, stopped: make(chan struct{})}
	s.call = func(w http.ResponseWriter, id json.RawMessage) { sendResult(w, id, `{"content":[]}`) }
	s.Server = httptest.NewServer(s)
	return s
}

func (s *hostileMCP) stopServer() {
	close(s.stopped)
	s.CloseClientConnections()
	s.Close()
}

// ServeHTTP serves the streamable transport.
func (s *hostileMCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
	}
	raw, err := io.ReadAll(r.Body)
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, &req)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == http.MethodGet && s.stream != nil:
		s.stream(w, nil)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case req.Method == "":
		s.most.Store(max(s.most.Load(), s.waiting.Add(1)))
		defer s.waiting.Add(-1)
		select {
		case <-s.stopped:
		case <-r.Context().Done():
		}
	case len(req.ID) == 0:
		w.WriteHeader(http.StatusAccepted)
	case req.Method == "initialize":
		sendResult(w, req.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`)
	case req.Method == "tools/list":
		sendResult(w, req.ID, `{"tools":[{"name":"go","inputSchema":`+s.schema+`}]}`)
	default:
		s.call(w, req.ID)
	}
}

func sendResult(w http.ResponseWriter, id json.RawMessage, result string) {
	fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, result)
	_ = http.NewResponseController(w).Flush()
}

func sendPings(w http.ResponseWriter, count int) {
	for i := range count {
		if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"ping-%d\",\"method\":\"ping\"}\n\n", i); err != nil {
			return
		}
	}
	_ = http.NewResponseController(w).Flush()
}

// serveMCPApp starts a host with an app that calls a server's tool in each turn.
func serveMCPApp(ctx context.Context, l *lab, s *hostileMCP, name, settings string) (*host, error) {
	dir := filepath.Join(l.dir, name)
	app := files{
		"m/app.yaml":        scriptedModel,
		"m/root_agent.yaml": "name: m\nmodel: demo\ninstruction: x\ntools:\n  - mcp: {url: \"" + s.URL + "\"" + settings + "}\n",
		"m/script.yaml":     "- text: done\n  when: responses.go != nil\n- {calls: [{name: go}]}\n",
	}
	if err := app.writeTo(dir); err != nil {
		return nil, err
	}
	return serveStore(ctx, l, "memory:", dir, "--max-run-time", "5s", "--pprof")
}

// expandingSchema calls a tool whose schema refers to 2^40 schemas.
func expandingSchema(ctx context.Context, l *lab) (row, error) {
	s := serveHostileMCP()
	defer s.stopServer()
	var defs strings.Builder
	for i := range bombLevels {
		fmt.Fprintf(&defs, `,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i+1, i, i)
	}
	s.schema = fmt.Sprintf(`{"type":"object","allOf":[{"$ref":"#/$defs/a%d"}],"$defs":{"a0":{"required":["zzz"]}%s}}`, bombLevels, defs.String())
	h, err := serveMCPApp(ctx, l, s, "expanding-schema", "")
	if err != nil {
		return row{}, err
	}
	defer h.kill()
	before, err := processorTime(h.cmd.Process.Pid)
	if err != nil {
		return row{}, err
	}
	c := newClient(h.url, "m", "s")
	defer c.close()
	answer, err := c.runTurn(ctx, "go")
	if err != nil {
		return row{}, err
	}
	after, err := processorTime(h.cmd.Process.Pid)
	if err != nil {
		return row{}, err
	}
	began := time.Now()
	err = h.signalAndWait(syscall.SIGTERM)
	stopped := time.Since(began)
	visits := visitNaively(20) / visitNaively(18)
	return row{
		"a schema of an MCP server that expands to 2^40 schemas costs neither CPU time nor memory, and no shutdown waits for it",
		fmt.Sprintf("turn with the answer %q: %s of CPU time; stopped after %s; control, a validator that follows each reference: %d times the visits with 20 levels instead of 18",
			answer, roundMillis(after-before), roundMillis(stopped), visits),
		answer == "done" && after-before < mcpTurnCPU && stopped < mcpStop && visits == 4,
	}, err
}

// visitNaively counts the schemas that a validator visits if it follows each reference.
func visitNaively(levels int) int {
	if levels == 0 {
		return 1
	}
	return visitNaively(levels-1) + visitNaively(levels-1)
}

// requestFlood lets the server send requests between turns, whose responses it does not accept.
func requestFlood(ctx context.Context, l *lab) (row, error) {
	s := serveHostileMCP()
	defer s.stopServer()
	begin, flooded := make(chan struct{}), make(chan struct{})
	var again atomic.Bool
	s.stream = func(w http.ResponseWriter, _ json.RawMessage) {
		_ = http.NewResponseController(w).Flush()
		if !again.Swap(true) {
			<-begin
			sendPings(w, mcpPings)
			close(flooded)
		}
		<-s.stopped
	}
	h, err := serveMCPApp(ctx, l, s, "request-flood", ", list_cache: 10m")
	if err != nil {
		return row{}, err
	}
	defer h.kill()
	c := newClient(h.url, "m", "s")
	defer c.close()
	if _, err := c.runTurn(ctx, "go"); err != nil {
		return row{}, err
	}
	handles, _, err := h.countHandles()
	goroutines, goErr := h.countRunningGoroutines()
	if err := errors.Join(err, goErr); err != nil {
		return row{}, err
	}
	close(begin)
	<-flooded
	if err := waitFor(ctx, 2*time.Second); err != nil {
		return row{}, err
	}
	handlesAfter, _, err := h.countHandles()
	goroutinesAfter, goErr := h.countRunningGoroutines()
	if err := errors.Join(err, goErr); err != nil {
		return row{}, err
	}
	answer, err := newClient(h.url, "m", "other").runTurn(ctx, "go")
	began := time.Now()
	err = errors.Join(err, h.signalAndWait(syscall.SIGTERM))
	stopped := time.Since(began)
	control, controlErr := floodLibrary(ctx)
	return row{
		"an MCP server that sends requests and accepts no response holds few goroutines and connections, also between turns, and no shutdown waits for it",
		fmt.Sprintf("%d requests: %d responses waited, %d → %d goroutines, %d → %d file handles; next turn %q; stopped after %s; control, the library alone: %d responses waited",
			mcpPings, s.most.Load(), goroutines, goroutinesAfter, handles, handlesAfter, answer, roundMillis(stopped), control),
		goroutinesAfter <= goroutines+mcpGoroutines && handlesAfter <= handles+mcpHandles && answer == "done" && stopped < mcpStop && control >= controlPings,
	}, errors.Join(err, controlErr)
}

// floodLibrary is the control: the library's client answers each request at once.
func floodLibrary(ctx context.Context) (int64, error) {
	s := serveHostileMCP()
	s.call = func(w http.ResponseWriter, id json.RawMessage) {
		sendPings(w, controlPings)
		for s.waiting.Load() < controlPings && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		sendResult(w, id, `{"content":[]}`)
	}
	session, err := connectLibrary(ctx, s.URL)
	if err != nil {
		s.stopServer()
		return 0, err
	}
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "go"})
	most := s.most.Load()
	s.stopServer()
	_ = session.Close() // its server is gone
	return most, err
}

func connectLibrary(ctx context.Context, url string) (*mcp.ClientSession, error) {
	way := &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: new(http.Transport)}}
	return mcp.NewClient(&mcp.Implementation{Name: "library", Version: "1"}, nil).Connect(ctx, way, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
}

// endlessEvent answers a call with one 1 GiB line, and sends 1 MB compressed.
func endlessEvent(ctx context.Context, l *lab) (row, error) {
	s := serveHostileMCP()
	defer s.stopServer()
	s.call = func(w http.ResponseWriter, id json.RawMessage) { sendLine(w, id, mcpLine) }
	h, err := serveMCPApp(ctx, l, s, "endless-event", "")
	if err != nil {
		return row{}, err
	}
	defer h.kill()
	before, err := h.readMemory("VmHWM")
	if err != nil {
		return row{}, err
	}
	c := newClient(h.url, "m", "s")
	defer c.close()
	answer, err := c.runTurn(ctx, "go")
	if err != nil {
		return row{}, err
	}
	peak, err := h.readMemory("VmHWM")
	if err != nil {
		return row{}, err
	}
	control, err := readLineOfLibrary(ctx)
	return row{
		"an event of an MCP server that is compressed 1000 times is cut at its limit",
		fmt.Sprintf("an event of %d MiB: answer %q, at most %.0f MB more memory; control, the library alone: %d MB allocated for %d MiB", mcpLine>>20, answer, peak-before, control, controlLine>>20),
		answer == "done" && peak-before < mcpMemory && control > controlLine>>20,
	}, err
}

// sendLine sends a compressed one-line event.
func sendLine(w http.ResponseWriter, id json.RawMessage, size int) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	fmt.Fprintf(z, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[],\"x\":\"", id)
	chunk := strings.Repeat("x", 1<<20)
	for range size >> 20 {
		if _, err := io.WriteString(z, chunk); err != nil {
			return
		}
	}
	fmt.Fprint(z, "\"}}\n\n")
	_ = z.Close()
}

// readLineOfLibrary is the control: it returns what the library's client allocates for a line, in
// MB.
func readLineOfLibrary(ctx context.Context) (uint64, error) {
	s := serveHostileMCP()
	defer s.stopServer()
	s.call = func(w http.ResponseWriter, id json.RawMessage) { sendLine(w, id, controlLine) }
	session, err := connectLibrary(ctx, s.URL)
	if err != nil {
		return 0, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "go"})
	runtime.ReadMemStats(&after)
	_ = session.Close()
	return (after.TotalAlloc - before.TotalAlloc) >> 20, err
}
