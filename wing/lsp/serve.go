package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"agenthost/internal/safe"
)

const executeCommand = "workspace/executeCommand"

// inbound is a message, or the error from reading it.
type inbound struct {
	message *message
	err     error
}

// Serve reads messages and writes responses until the editor sends exit, in ends,
// or ctx is done. It returns an error if in ends before a shutdown request.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s.out = &lockedWriter{w: out}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages := make(chan inbound)
	go readMessages(ctx, in, messages)
	for {
		r, ok := s.nextMessage(ctx, messages)
		var bad *rpcError
		switch {
		case !ok:
			return nil
		case errors.As(r.err, &bad):
			null := json.RawMessage("null")
			if err := writeMessage(s.out, &message{ID: &null, Error: bad}); err != nil {
				return err
			}
		case errors.Is(r.err, io.EOF) && s.shutdown:
			return nil
		case r.err != nil:
			return r.err
		case r.message.Method == "exit":
			if !s.shutdown {
				return errors.New("exit received without a preceding shutdown request")
			}
			return nil
		default:
			if err := s.handleMessage(ctx, r.message); err != nil {
				return err
			}
		}
	}
}

func readMessages(ctx context.Context, in io.Reader, messages chan<- inbound) {
	for r := bufio.NewReader(in); ; {
		m, err := readMessage(r)
		select {
		case messages <- inbound{m, err}:
		case <-ctx.Done():
			return
		}
		var bad *rpcError
		if err != nil && !errors.As(err, &bad) {
			return
		}
	}
}

// largePause is how long the editor must be silent before a large app is checked.
const largePause = 250 * time.Millisecond

// isLarge reports whether a check of the app takes longer than a keystroke may: it has more than 200
// documents.
// Requests about its positions use the last check.
func (s *Server) isLarge(dir string) bool {
	a := s.apps[dir]
	return a != nil && a.outline != nil && len(a.outline.Documents) > 200
}

// nextMessage returns the next message. While none is waiting, it checks changed apps; a large one
// only after a pause. It returns false once ctx is done.
func (s *Server) nextMessage(ctx context.Context, messages <-chan inbound) (inbound, bool) {
	for len(s.dirty) > 0 {
		pause := time.Duration(0)
		if s.isLarge(slices.Sorted(maps.Keys(s.dirty))[0]) {
			pause = largePause
		}
		select {
		case r := <-messages:
			return r, true
		default:
		}
		select {
		case r := <-messages:
			return r, true
		case <-ctx.Done():
			return inbound{}, false
		case <-time.After(pause):
			if err := s.checkApp(ctx, slices.Sorted(maps.Keys(s.dirty))[0]); err != nil {
				return inbound{err: err}, true
			}
		}
	}
	select {
	case r := <-messages:
		return r, true
	case <-ctx.Done():
		return inbound{}, false
	}
}

// handleMessage handles a request or a notification. It returns an error if
// writing to the editor fails.
func (s *Server) handleMessage(ctx context.Context, m *message) error {
	if m.Method == "" {
		return nil // a response; the server sends no requests
	}
	var result any
	var err error
	if p := safe.Call(func() { result, err = s.dispatchMessage(ctx, m) }); p != nil {
		p.Log(s.loader.Logger(), "request panicked", "method", m.Method)
		err = &rpcError{codeInternal, "the request panicked, which is a bug in agenthost: " + p.Error()}
	}
	if m.ID == nil || err == nil && m.Method == executeCommand {
		return nil // a command's response is sent when it ends
	}
	reply := &message{ID: m.ID}
	var bad *rpcError
	if errors.As(err, &bad) {
		reply.Error = bad
		return writeMessage(s.out, reply)
	}
	if reply.Result, err = json.Marshal(result); err != nil {
		return err
	}
	return writeMessage(s.out, reply)
}

func (s *Server) dispatchMessage(ctx context.Context, m *message) (any, error) {
	if s.shutdown {
		return nil, &rpcError{codeInvalidCall, "server is shut down"}
	}
	switch m.Method {
	case "initialize":
		return s.answerInitialize(m)
	case "shutdown":
		s.shutdown = true
		return nil, nil
	case "textDocument/didOpen", "textDocument/didSave", "textDocument/didClose":
		return nil, s.onDocumentEvent(m)
	case "textDocument/didChange":
		return nil, s.onDocumentChange(m)
	case "workspace/didChangeWatchedFiles":
		return nil, s.onWatchedFiles(m)
	case "$/cancelRequest":
		return nil, s.cancelCommand(m)
	case executeCommand:
		if m.ID == nil {
			return nil, nil // its result would be lost
		}
		return nil, s.startCommand(ctx, m)
	case "initialized", "$/setTrace", "workspace/didChangeConfiguration":
		return nil, nil
	}
	for _, f := range s.listFeatures() {
		if f.method == m.Method {
			return f.answer(ctx, m)
		}
	}
	return nil, &rpcError{codeUnknownMethod, "unknown method " + m.Method}
}

func (s *Server) onDocumentEvent(m *message) error {
	var p openParams
	if err := decodeParams(m, &p); err != nil {
		return err
	}
	path := pathFromURI(p.Document.URI)
	switch m.Method {
	case "textDocument/didOpen":
		s.files.set(path, p.Document)
		s.recordOpened(path, p.Document.Text)
	case "textDocument/didClose":
		s.files.remove(path)
	}
	s.markDirty(path)
	return nil
}

func (s *Server) onDocumentChange(m *message) error {
	var p changeParams
	if err := decodeParams(m, &p); err != nil {
		return err
	}
	path := pathFromURI(p.Document.URI)
	for _, c := range p.Changes {
		p.Document.Text = c.Text
		s.files.set(path, p.Document)
	}
	s.markDirty(path)
	return nil
}

func (s *Server) onWatchedFiles(m *message) error {
	var p watchedParams
	if err := decodeParams(m, &p); err != nil {
		return err
	}
	for _, c := range p.Changes {
		s.markDirty(pathFromURI(c.URI))
	}
	return nil
}

// markDirty schedules a check for the app that the file belongs to.
func (s *Server) markDirty(path string) {
	if dir := s.files.findAppFolder(path); dir != "" {
		s.dirty[dir] = true
	}
}

// atCursor returns the answer to a request about a position: answer gets its cursor.
func (s *Server) atCursor(answer func(*cursor) any) func(context.Context, *message) (any, error) {
	return func(ctx context.Context, m *message) (any, error) {
		var p positionParams
		if err := decodeParams(m, &p); err != nil {
			return nil, err
		}
		path := pathFromURI(p.Document.URI)
		text, ok := s.files.readText(path)
		if !ok {
			return nil, nil
		}
		c := newCursorAt(path, text, p.Position, s)
		c.dir = s.files.findAppFolder(path)
		// The last change may have added the name at the cursor.
		if c.dir != "" && !s.isLarge(c.dir) {
			if err := s.checkIfNeeded(ctx, c.dir); err != nil {
				return nil, err
			}
		}
		return answer(c), nil
	}
}
