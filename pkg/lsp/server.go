package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// A Server answers one editor.
type Server struct {
	opts    Options
	files   *overlay
	loader  *loader.Loader
	schemas map[string]*schema
	apps    map[string]*app
	dirty   map[string]bool

	out io.Writer
	// shutdown says that the editor has asked to shut down.
	shutdown bool
}

// Options are what a server may be given. The zero value works.
type Options struct {
	// Loader is how apps are loaded; its Open is the server's own.
	Loader loader.Options
	// Version is what the editor is told.
	Version string
}

// app is what is known of an app's folder.
type app struct {
	outline *loader.Outline
	// problems are those that were found last.
	problems spec.Diagnostics
	// published are the files that the editor was told problems of.
	published map[string]bool
}

// New makes a server; nil options are fine.
func New(opts *Options) *Server {
	if opts == nil {
		opts = &Options{}
	}
	s := &Server{opts: *opts, files: newOverlay(), schemas: map[string]*schema{}, apps: map[string]*app{}, dirty: map[string]bool{}}
	s.opts.Loader.Open = s.files.read
	s.loader = loader.New(&s.opts.Loader)
	return s
}

// inbound is a message, or why there is none.
type inbound struct {
	message *message
	err     error
}

// Serve reads messages and writes answers until the editor says exit, in ends,
// or ctx does. It is an error when in ends before the editor has asked to shut
// down.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s.out = out
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
				return errors.New("the editor left without shutting down")
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

// nextMessage is the next message; while there is none, the apps that have changed are
// checked. It is false when ctx has ended.
func (s *Server) nextMessage(ctx context.Context, messages <-chan inbound) (inbound, bool) {
	for len(s.dirty) > 0 {
		select {
		case r := <-messages:
			return r, true
		default:
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

// handleMessage answers a request, or takes in a notification. Its error is that the
// editor cannot be written to.
func (s *Server) handleMessage(ctx context.Context, m *message) error {
	if m.Method == "" {
		return nil // an answer, and nothing was asked
	}
	result, err := s.dispatch(ctx, m)
	if m.ID == nil {
		return nil
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

func (s *Server) dispatch(ctx context.Context, m *message) (any, error) {
	if s.shutdown {
		return nil, &rpcError{codeInvalidCall, "the server is shut down"}
	}
	switch m.Method {
	case "initialize":
		return initializeResult(s.opts.Version), nil
	case "shutdown":
		s.shutdown = true
		return nil, nil
	case "textDocument/didOpen", "textDocument/didSave", "textDocument/didClose":
		return nil, s.onDocumentEvent(m)
	case "textDocument/didChange":
		return nil, s.onDocumentChange(m)
	case "workspace/didChangeWatchedFiles":
		return nil, s.onWatchedFiles(m)
	case "textDocument/completion":
		return s.answerAtCursor(ctx, m, s.completeAt)
	case "textDocument/hover":
		return s.answerAtCursor(ctx, m, s.hoverAt)
	case "textDocument/definition":
		return s.answerAtCursor(ctx, m, s.definitionAt)
	case "textDocument/codeAction":
		return s.codeActions(ctx, m)
	case "initialized", "$/cancelRequest", "$/setTrace", "workspace/didChangeConfiguration":
		return nil, nil
	}
	return nil, &rpcError{codeUnknownMethod, "there is no method " + m.Method}
}

func decodeParams(m *message, into any) error {
	if err := json.Unmarshal(m.Params, into); err != nil {
		return &rpcError{codeInvalidParams, m.Method + ": " + err.Error()}
	}
	return nil
}

func (s *Server) onDocumentEvent(m *message) error {
	var p openParams
	if err := decodeParams(m, &p); err != nil {
		return err
	}
	path := pathFromURI(p.Document.URI)
	switch m.Method {
	case "textDocument/didOpen":
		s.files.set(path, p.Document.Text)
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
		s.files.set(path, c.Text)
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

// markDirty has the app of a file checked.
func (s *Server) markDirty(path string) {
	if dir := s.files.appOf(path); dir != "" {
		s.dirty[dir] = true
	}
}

// answerAtCursor answers what is asked about a place of a file.
func (s *Server) answerAtCursor(ctx context.Context, m *message, answer func(*cursor) any) (any, error) {
	var p positionParams
	if err := decodeParams(m, &p); err != nil {
		return nil, err
	}
	path := pathFromURI(p.Document.URI)
	text, ok := s.files.textOf(path)
	if !ok {
		return nil, nil
	}
	c := newCursor(path, text, p.Position)
	c.dir = s.files.appOf(path)
	// What was typed just now may have named what is asked for.
	if c.dir != "" && (s.dirty[c.dir] || s.apps[c.dir] == nil) {
		if err := s.checkApp(ctx, c.dir); err != nil {
			return nil, err
		}
	}
	return answer(c), nil
}

// outlineOf is what the app of a place names; it is never nil.
func (s *Server) outlineOf(c *cursor) *loader.Outline {
	if a := s.apps[c.dir]; a != nil && a.outline != nil {
		return a.outline
	}
	return &loader.Outline{}
}
