package acpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/server"
	"agenthost/wing/acpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEnv returns a host with the app desk, and what an archive adds.
func newEnv(t *testing.T, ar *txtar.Archive) *servertest.Env {
	t.Helper()
	own := &txtar.Archive{}
	for _, file := range []string{"app.yaml", "root_agent.yaml", "demo.script.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata/apps/desk", file))
		if err != nil {
			t.Fatal(err)
		}
		own.Files = append(own.Files, txtar.File{Name: "apps/desk/" + file, Data: text})
	}
	if ar != nil {
		own.Files = append(own.Files, ar.Files...)
	}
	e, _ := servertest.NewExchangeEnv(t, own, &servertest.Folders{}, &servertest.Options{})
	return e
}

// A client has the ends of an agent's streams.
type client struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *bufio.Reader
	pipe  *io.PipeReader
	ended chan error
}

// serve serves the app desk for user u on pipes.
func serve(ctx context.Context, t *testing.T, e *servertest.Env, opts *acpserver.Options) *client {
	t.Helper()
	c := &client{t: t, ended: make(chan error, 1)}
	opts.App, opts.User = "desk", "u"
	if opts.Host == nil {
		opts.Host = &server.Options{Clock: servertest.FixedTime}
	}
	opts.In, c.in = io.Pipe()
	c.pipe, opts.Out = io.Pipe()
	c.out = bufio.NewReaderSize(c.pipe, 1<<20)
	if opts.Drain == 0 {
		opts.Drain = time.Minute
	}
	go func() { c.ended <- acpserver.Serve(ctx, e.Host, opts) }()
	t.Cleanup(func() {
		c.in.Close()
		c.pipe.Close()
	})
	return c
}

// send writes lines.
func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Fatal(err)
		}
	}
}

// receive reads a line.
func (c *client) receive() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

// end closes the input, and fails unless the agent ends without an error.
func (c *client) end() {
	c.t.Helper()
	c.in.Close()
	go func() { _, _ = io.Copy(io.Discard, c.out) }()
	if err := <-c.ended; err != nil {
		c.t.Errorf("the agent ended with %v", err)
	}
}

// receiveUntil reads until a line contains part, and returns the line.
func (c *client) receiveUntil(part string) string {
	c.t.Helper()
	for {
		if line := c.receive(); strings.Contains(line, part) {
			return line
		}
	}
}

// A header distinguishes a request, a notification and a response.
type header struct {
	ID     json.RawMessage
	Method string
}

// Each file in testdata/transcripts is a connection's messages: a comment that names the rules, the
// section transcript with the client's lines after ">" and the agent's after "<", and more files as
// in [servertest.RunExchanges]. After a request, the agent's lines up to its response or to a request
// of the agent follow, after another message those up to the last open response. With -update they are
// written.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runTranscript(t, file) })
	}
}

func runTranscript(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(ar.Comment)) == 0 {
		t.Error("missing comment: name the rules that the transcript tests")
	}
	e := newEnv(t, ar)
	got := &txtar.Archive{Comment: ar.Comment}
	for _, f := range ar.Files {
		if f.Name == "transcript" {
			c := serve(t.Context(), t, e, &acpserver.Options{})
			f.Data = c.replay(f.Data)
			c.end()
		}
		got.Files = append(got.Files, f)
	}
	text := txtar.Format(got)
	if testenv.IsUpdating() {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(ar)), string(text)); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

// replay sends a transcript's lines, and returns them with the agent's.
func (c *client) replay(script []byte) []byte {
	var all bytes.Buffer
	open := map[string]bool{}
	for line := range strings.Lines(string(script)) {
		line = strings.TrimSpace(line)
		sent, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		all.WriteString(line + "\n")
		c.send(sent)
		var h header
		id := ""
		if json.Unmarshal([]byte(sent), &h) != nil || h.ID != nil && h.Method != "" || h.ID == nil && h.Method == "" {
			if id = string(h.ID); id == "" {
				id = "null"
			}
			open[id] = true
		}
		for len(open) > 0 && (id == "" || open[id]) {
			line := c.receive()
			all.WriteString("< " + line + "\n")
			var h header
			if err := json.Unmarshal([]byte(line), &h); err != nil {
				c.t.Fatal(err)
			}
			if h.ID != nil && h.Method != "" {
				break
			}
			if string(h.ID) == "null" {
				delete(open, id) // the message had no valid ID
			}
			delete(open, string(h.ID))
		}
	}
	return all.Bytes()
}
