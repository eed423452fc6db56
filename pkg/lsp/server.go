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
	files   *files
	loader  *loader.Loader
	schemas map[string]*schema
	apps    map[string]*app
	dirty   map[string]bool

	out io.Writer
	// ended says that the editor has asked to shut down.
	ended bool
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
	// told are the files that the editor was told problems of.
	told map[string]bool
}

// New makes a server; nil options are fine.
func New(opts *Options) *Server {
	if opts == nil {
		opts = &Options{}
	}
	s := &Server{opts: *opts, files: newFiles(), schemas: map[string]*schema{}, apps: map[string]*app{}, dirty: map[string]bool{}}
	s.opts.Loader.Open = s.files.read
	s.loader = loader.New(&s.opts.Loader)
	return s
}

// received is a message, or why there is none.
type received struct {
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
	messages := make(chan received)
	go read(ctx, in, messages)
	for {
		r, ok := s.next(ctx, messages)
		var bad *rpcError
		switch {
		case !ok:
			return nil
		case errors.As(r.err, &bad):
			null := json.RawMessage("null")
			if err := writeMessage(s.out, &message{ID: &null, Error: bad}); err != nil {
				return err
			}
		case errors.Is(r.err, io.EOF) && s.ended:
			return nil
		case r.err != nil:
			return r.err
		case r.message.Method == "exit":
			if !s.ended {
				return errors.New("the editor left without shutting down")
			}
			return nil
		default:
			if err := s.handle(ctx, r.message); err != nil {
				return err
			}
		}
	}
}

func read(ctx context.Context, in io.Reader, messages chan<- received) {
	for r := bufio.NewReader(in); ; {
		m, err := readMessage(r)
		select {
		case messages <- received{m, err}:
		case <-ctx.Done():
			return
		}
		var bad *rpcError
		if err != nil && !errors.As(err, &bad) {
			return
		}
	}
}

// next is the next message; while there is none, the apps that have changed are
// checked. It is false when ctx has ended.
func (s *Server) next(ctx context.Context, messages <-chan received) (received, bool) {
	for len(s.dirty) > 0 {
		select {
		case r := <-messages:
			return r, true
		default:
			if err := s.check(ctx, slices.Sorted(maps.Keys(s.dirty))[0]); err != nil {
				return received{err: err}, true
			}
		}
	}
	select {
	case r := <-messages:
		return r, true
	case <-ctx.Done():
		return received{}, false
	}
}

// handle answers a request, or takes in a notification. Its error is that the
// editor cannot be written to.
func (s *Server) handle(ctx context.Context, m *message) error {
	if m.Method == "" {
		return nil // an answer, and nothing was asked
	}
	result, err := s.answer(ctx, m)
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

func (s *Server) answer(ctx context.Context, m *message) (any, error) {
	if s.ended {
		return nil, &rpcError{codeInvalidCall, "the server is shut down"}
	}
	switch m.Method {
	case "initialize":
		return capabilities(s.opts.Version), nil
	case "shutdown":
		s.ended = true
		return nil, nil
	case "textDocument/didOpen", "textDocument/didSave", "textDocument/didClose":
		return nil, s.opened(m)
	case "textDocument/didChange":
		return nil, s.changed(m)
	case "workspace/didChangeWatchedFiles":
		return nil, s.watched(m)
	case "textDocument/completion":
		return s.ask(ctx, m, s.complete)
	case "textDocument/hover":
		return s.ask(ctx, m, s.hover)
	case "textDocument/definition":
		return s.ask(ctx, m, s.define)
	case "textDocument/codeAction":
		return s.act(ctx, m)
	case "initialized", "$/cancelRequest", "$/setTrace", "workspace/didChangeConfiguration":
		return nil, nil
	}
	return nil, &rpcError{codeUnknownMethod, "there is no method " + m.Method}
}

func decode(m *message, into any) error {
	if err := json.Unmarshal(m.Params, into); err != nil {
		return &rpcError{codeInvalidParams, m.Method + ": " + err.Error()}
	}
	return nil
}

func (s *Server) opened(m *message) error {
	var p openParams
	if err := decode(m, &p); err != nil {
		return err
	}
	path := pathOf(p.Document.URI)
	switch m.Method {
	case "textDocument/didOpen":
		s.files.put(path, p.Document.Text)
	case "textDocument/didClose":
		s.files.drop(path)
	}
	s.touch(path)
	return nil
}

func (s *Server) changed(m *message) error {
	var p changeParams
	if err := decode(m, &p); err != nil {
		return err
	}
	path := pathOf(p.Document.URI)
	for _, c := range p.Changes {
		s.files.put(path, c.Text)
	}
	s.touch(path)
	return nil
}

func (s *Server) watched(m *message) error {
	var p watchedParams
	if err := decode(m, &p); err != nil {
		return err
	}
	for _, c := range p.Changes {
		s.touch(pathOf(c.URI))
	}
	return nil
}

// touch has the app of a file checked.
func (s *Server) touch(path string) {
	if dir := s.files.appOf(path); dir != "" {
		s.dirty[dir] = true
	}
}

// ask answers what is asked about a place of a file.
func (s *Server) ask(ctx context.Context, m *message, answer func(*cursor) any) (any, error) {
	var p placeParams
	if err := decode(m, &p); err != nil {
		return nil, err
	}
	path := pathOf(p.Document.URI)
	text, ok := s.files.text(path)
	if !ok {
		return nil, nil
	}
	c := newCursor(path, text, p.Position)
	c.dir = s.files.appOf(path)
	// What was typed just now may have named what is asked for.
	if c.dir != "" && (s.dirty[c.dir] || s.apps[c.dir] == nil) {
		if err := s.check(ctx, c.dir); err != nil {
			return nil, err
		}
	}
	return answer(c), nil
}

// outline is what the app of a place names; it is never nil.
func (s *Server) outline(c *cursor) *loader.Outline {
	if a := s.apps[c.dir]; a != nil && a.outline != nil {
		return a.outline
	}
	return &loader.Outline{}
}
