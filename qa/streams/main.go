// Command streams opens streams over each protocol, whose agents wait for their model, and prints the program's
// memory after 20 seconds, in which idle streams have had a comment:
//
//	go run ./streams -bin ../bin/agenthost -n 5000 -container 300
//
// With -container the program has the memory limit that it sets in a container with that many megabytes.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A protocol is a door with streams.
type protocol struct {
	name, path string
	// body has the session's number.
	body string
	// most limits the streams: a user has few tasks in progress.
	most int
}

var protocols = []protocol{
	{"run_sse", "/run_sse", `{"appName":"desk","userId":"user","sessionId":"s%d","streaming":true,"newMessage":{"role":"user","parts":[{"text":"hello"}]}}`, maxStreams},
	{"AG-UI", "/apps/desk/ag-ui", `{"threadId":"s%d","runId":"r","messages":[{"id":"m","role":"user","content":"hello"}]}`, maxStreams},
	{"OpenAI", "/v1/chat/completions", `{"model":"desk","stream":true,"messages":[{"role":"user","content":"hello %d"}]}`, maxStreams},
	{"A2A", "/a2a/desk", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","contextId":"s%d","role":"ROLE_USER","parts":[{"text":"hello"}]}}}`, 64},
}

const (
	maxStreams = 20_000
	// openTime is how long streams must stay open to count: keep-alive comments are sent meanwhile.
	openTime = 20 * time.Second
	// limitPercent is Go's share in a container's memory, as the program sets it.
	limitPercent = 80
	// runTime limits a protocol's run.
	runTime = 5 * time.Minute
)

// app waits for its model.
var app = map[string]string{
	"app.yaml":         "models: {demo: {provider: scripted, script: demo.script.yaml}}\nagui_server: {}\nopenai_server: {}\na2a_server: {}\n",
	"root_agent.yaml":  "name: desk\nmodel: demo\ninstruction: Answer.\n",
	"demo.script.yaml": "- {text: ok, delay: 1h}\n",
}

func main() {
	bin := flag.String("bin", "../bin/agenthost", "the program")
	n := flag.Int("n", 5000, "streams for each protocol")
	container := flag.Int64("container", 0, "the container's memory limit in MB; 0 for none")
	flag.Parse()
	var env []string
	if *container > 0 {
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", *container*1_000_000*limitPercent/100))
	}
	for _, p := range protocols {
		if err := measureMemory(*bin, env, &p, min(*n, p.most)); err != nil {
			fmt.Fprintln(os.Stderr, p.name+":", err)
			os.Exit(1)
		}
	}
}

// measureMemory opens a protocol's streams in a process of their own, and prints its memory.
func measureMemory(bin string, env []string, p *protocol, n int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "streams")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd, address, err := startServer(ctx, bin, dir, env)
	if err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	before, err := readMemory(cmd.Process.Pid)
	if err != nil {
		return err
	}
	var all []net.Conn
	defer func() {
		for _, conn := range all {
			conn.Close()
		}
	}()
	for i := range n {
		conn, err := openStream(ctx, address, p, i)
		if err != nil {
			return err
		}
		all = append(all, conn)
	}
	open, deadline := 0, time.Now().Add(openTime)
	for _, conn := range all {
		if isOpen(conn, deadline) {
			open++
		}
	}
	after, err := readMemory(cmd.Process.Pid)
	if err != nil {
		return err
	}
	fmt.Printf("%-8s %5d of %5d streams open  %6.1f MB, of which the program's file %5.1f MB  %5.1f KB a stream\n",
		p.name, open, n, after.resident/1e6, after.file/1e6, (after.resident-before.resident)/float64(n)/1e3)
	return nil
}

// startServer starts the program on the app, with its database in a folder.
func startServer(ctx context.Context, bin, dir string, env []string) (cmd *exec.Cmd, address string, err error) {
	folder := filepath.Join(dir, "desk")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, "", err
	}
	for name, text := range app {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return nil, "", err
		}
	}
	if bin, err = filepath.Abs(bin); err != nil {
		return nil, "", err
	}
	cmd = exec.CommandContext(ctx, bin, "serve", "--addr", "127.0.0.1:0", "--auto-create-session", "--log-level", "error", folder)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, os.Stderr, append(env, "HOME="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "agenthost serves at http://")
	if !ok {
		return nil, "", fmt.Errorf("unexpected first line %q: %w", line, errors.Join(err, cmd.Process.Kill(), cmd.Wait()))
	}
	return cmd, url, nil
}

// openStream sends a request.
func openStream(ctx context.Context, address string, p *protocol, i int) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(p.body, i)
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", p.path, address, len(body), body)
	return conn, err
}

// isOpen reports whether a stream has no error and no end until a time: nothing, or its beginning.
func isOpen(conn net.Conn, deadline time.Time) bool {
	if conn.SetReadDeadline(deadline) != nil {
		return false
	}
	text, err := io.ReadAll(conn)
	isOK := len(text) == 0 || strings.HasPrefix(string(text), fmt.Sprintf("HTTP/1.1 %d ", http.StatusOK))
	return isOK && errors.Is(err, os.ErrDeadlineExceeded) && !strings.Contains(string(text), "\r\n0\r\n")
}

// A memory is a process's resident memory in bytes; file are pages from the program's file, which the kernel can
// drop.
type memory struct{ resident, file float64 }

func readMemory(pid int) (m memory, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, err
	}
	for _, field := range []struct {
		name string
		into *float64
	}{{"VmRSS:", &m.resident}, {"RssFile:", &m.file}} {
		_, rest, ok := strings.Cut(string(text), field.name)
		if !ok {
			return m, errors.New("no " + field.name)
		}
		kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			return m, err
		}
		*field.into = kb * 1024
	}
	return m, nil
}
