package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// waitLimit is the timeout for everything that a script waits for.
const waitLimit = 20 * time.Second

// scriptState holds a script's resources: running hosts, an open event stream, and occupied ports.
type scriptState struct {
	vars   []string // the script's initial environment
	hosts  map[string]*servedHost
	name   string // the current host's
	stream *bufio.Reader
	open   []io.Closer
	models []fakeModel
	// services are the script's services by name.
	services map[string]*service
}

// servedHost is a running agenthost serve.
type servedHost struct {
	*exec.Cmd
	url    string
	exited chan struct{} // closed when the process has exited
}

type scriptStateKey struct{}

func stateOf(ts *testscript.TestScript) *scriptState {
	return ts.Value(scriptStateKey{}).(*scriptState)
}

// stopAll kills the script's hosts and closes its resources.
func (p *scriptState) stopAll() {
	for _, h := range p.hosts {
		_ = h.Process.Kill() // it may have exited already
		<-h.exited
	}
	for _, c := range p.open {
		c.Close()
	}
	for _, m := range p.models {
		m.close()
	}
}

type scriptCommand = func(ts *testscript.TestScript, neg bool, args []string)

func scriptCommands() map[string]scriptCommand {
	return map[string]scriptCommand{
		"exits":     withoutNegation(expectExitCode),
		"host":      withoutNegation(chooseHost),
		"serve-bg":  withoutNegation(serveBackground),
		"signal":    withoutNegation(sendSignal),
		"end-with":  withoutNegation(stopHost),
		"kill-9":    withoutNegation(killHost),
		"exited":    withoutNegation(waitForExit),
		"http":      withoutNegation(httpCommand),
		"sse":       withoutNegation(func(ts *testscript.TestScript, args []string) { beginSSE(ts, args); endSSE(ts, nil) }),
		"sse-begin": withoutNegation(beginSSE),
		"sse-end":   withoutNegation(endSSE),
		"wait-for":  waitFor,
		"listen":    withoutNegation(occupyPort),
		"keep-last": withoutNegation(setFromOutput),
		"sqlite":    withoutNegation(runSQLite),
		"sql":       withoutNegation(runSQL),
		"postgres":  withoutNegation(createPostgres),

		"fake-idp": withoutNegation(startFakeIDP),
		"browse":   withoutNegation(runWithBrowser),

		"service":  withoutNegation(startService),
		"requests": withoutNegation(printRequests),
		"digits":   withoutNegation(checkDigits),

		"fake-model":  withoutNegation(startFakeModel),
		"model-calls": withoutNegation(printModelCalls),
	}
}

// withoutNegation returns a command that rejects a ! before it.
func withoutNegation(run func(*testscript.TestScript, []string)) scriptCommand {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("this command cannot be negated")
		}
		run(ts, args)
	}
}

func expectExitCode(ts *testscript.TestScript, args []string) {
	got := "0"
	var failure *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &failure) {
		got = strconv.Itoa(failure.ExitCode())
	} else {
		ts.Check(err)
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

func serveBackground(ts *testscript.TestScript, args []string) {
	switch {
	case slices.Contains(args, "--default-addr"):
		args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--default-addr" })
	case !slices.Contains(args, "--addr"):
		args = append(slices.Clone(args), "--addr", "127.0.0.1:0")
	}
	p := stateOf(ts)
	program, err := exec.LookPath("agenthost")
	ts.Check(err)
	h := &servedHost{Cmd: exec.Command(program, append([]string{"serve"}, args...)...), exited: make(chan struct{})}
	h.Dir = ts.MkAbs(".")
	h.Env = p.vars
	h.Stdout, h.Stderr = createFile(ts, p.name+".out"), createFile(ts, p.name+".err")
	ts.Check(h.Start())
	p.hosts[p.name] = h
	go func() {
		_ = h.Wait() // waitForExit checks the status
		close(h.exited)
	}()
	p.awaitGreeting(ts, h)
	ts.Setenv("URL", h.url)
}

// chooseHost selects the host for the following commands, which may not be started yet.
func chooseHost(ts *testscript.TestScript, args []string) {
	p := stateOf(ts)
	p.name = args[0]
	if h := p.hosts[p.name]; h != nil {
		ts.Setenv("URL", h.url)
	}
}

// currentHost returns the selected host.
func currentHost(ts *testscript.TestScript) *servedHost {
	p := stateOf(ts)
	h := p.hosts[p.name]
	if h == nil {
		ts.Fatalf("no host %s was started", p.name)
	}
	return h
}

func createFile(ts *testscript.TestScript, name string) *os.File {
	f, err := os.Create(ts.MkAbs(name))
	ts.Check(err)
	p := stateOf(ts)
	p.open = append(p.open, f)
	return f
}

var greeting = regexp.MustCompile(`agenthost serves at (http://\S+)\n`)

func (p *scriptState) awaitGreeting(ts *testscript.TestScript, h *servedHost) {
	pollUntil(ts, "the greeting", func() bool {
		select {
		case <-h.exited:
			ts.Fatalf("serve ended: %s\n%s", h.ProcessState, ts.ReadFile(p.name+".err"))
		default:
		}
		if m := greeting.FindStringSubmatch(ts.ReadFile(p.name + ".out")); m != nil {
			h.url = m[1]
		}
		return h.url != ""
	})
}

// pollUntil polls every few milliseconds until a condition is true.
func pollUntil(ts *testscript.TestScript, what string, isTrue func() bool) {
	deadline := time.NewTimer(waitLimit)
	defer deadline.Stop()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !isTrue() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			ts.Fatalf("no %s after %s", what, waitLimit)
		}
	}
}

func sendSignal(ts *testscript.TestScript, args []string) {
	signals := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}
	ts.Check(currentHost(ts).Process.Signal(signals[args[0]]))
}

func waitForExit(ts *testscript.TestScript, args []string) {
	h := currentHost(ts)
	select {
	case <-h.exited:
	case <-time.After(waitLimit):
		ts.Fatalf("the host still runs after %s", waitLimit)
	}
	if got := strconv.Itoa(h.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("serve exited with %s, want %s\n%s", got, args[0], ts.ReadFile(stateOf(ts).name+".err"))
	}
}

func stopHost(ts *testscript.TestScript, args []string) {
	sendSignal(ts, args)
	waitForExit(ts, []string{"0"})
}

func killHost(ts *testscript.TestScript, _ []string) {
	h := currentHost(ts)
	ts.Check(h.Process.Kill())
	<-h.exited
}

func httpCommand(ts *testscript.TestScript, args []string) {
	response, err := requestText(ts, args)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), response)
}

func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	text, last := args[2], ""
	defer func() { ts.Logf("the last response: %s", last) }()
	pollUntil(ts, "response with "+text, func() bool {
		response, err := requestText(ts, append([]string{args[0], args[1]}, args[3:]...))
		ts.Check(err)
		last = response
		return strings.Contains(response, text) != neg
	})
}

// requestText sends METHOD PATH [BODY-FILE] and returns status and body.
func requestText(ts *testscript.TestScript, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	res, err := sendRequest(ctx, ts, args)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%d\n%s\n", res.StatusCode, bytes.TrimSpace(body)), err
}

func sendRequest(ctx context.Context, ts *testscript.TestScript, args []string) (*http.Response, error) {
	var body io.Reader
	if len(args) > 2 {
		body = strings.NewReader(ts.ReadFile(args[2]))
	}
	req, err := http.NewRequestWithContext(ctx, args[0], ts.Getenv("URL")+args[1], body)
	if err != nil {
		return nil, err
	}
	req.Close = true
	if token := ts.Getenv("TOKEN"); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultClient.Do(req)
}

func beginSSE(ts *testscript.TestScript, args []string) {
	p := stateOf(ts)
	res, err := sendRequest(context.Background(), ts, []string{http.MethodPost, "/run_sse", args[0]})
	ts.Check(err)
	p.open = append(p.open, res.Body)
	p.stream = bufio.NewReader(res.Body)
	fmt.Fprint(ts.Stdout(), nextFrame(ts, p.stream))
}

func endSSE(ts *testscript.TestScript, _ []string) {
	p := stateOf(ts)
	for frame := nextFrame(ts, p.stream); frame != ""; frame = nextFrame(ts, p.stream) {
		fmt.Fprint(ts.Stdout(), frame)
	}
}

// nextFrame reads up to the next data line; it is empty at the end.
func nextFrame(ts *testscript.TestScript, r *bufio.Reader) string {
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return line
		}
		ts.Check(err)
		if strings.HasPrefix(line, "data: ") {
			return line
		}
	}
}

func occupyPort(ts *testscript.TestScript, args []string) {
	addr := append(args[1:], "127.0.0.1:0")[0]
	ts.Setenv(args[0], addr)
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return
	}
	ts.Check(err)
	p := stateOf(ts)
	p.open = append(p.open, l)
	ts.Setenv(args[0], l.Addr().String())
}
