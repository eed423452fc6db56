package lsp

import (
	"context"
	"io"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// A Server serves one editor.
type Server struct {
	opts   Options
	files  *overlay
	loader *loader.Loader
	// checker is a loader for checks: it reads substitutes for broken files.
	checker *loader.Loader
	// parsed are the last texts of open files that could be parsed.
	parsed  map[string]string
	schemas map[string]*schema
	apps    map[string]*app
	dirty   map[string]bool
	// names are the apps' indexes, by folder.
	names map[string]*loader.NameIndex

	out     io.Writer
	running runningCommands
	// encoding is negotiated by initialize.
	encoding encoding
	client   clientInfo
	// shutdown is set once the editor has sent a shutdown request.
	shutdown bool
}

// Options configure a Server. The zero value works.
type Options struct {
	// Kinds are what the documents may name.
	Kinds loader.Kinds
	// Loader configures how apps are loaded. The server sets its Open.
	Loader loader.Options
	// Commands are what workspace/executeCommand runs, by name. Code lenses are shown for those in
	// it.
	Commands map[string]Command
	// Version is the server version, as sent to the editor.
	Version string
}

// app is the state for one app folder.
type app struct {
	outline *loader.Outline
	cache   loader.OutlineCache
	// problems are the last check's diagnostics.
	problems spec.Diagnostics
	// published are the files with published diagnostics.
	published map[string]bool
}

// New returns a server. opts may be nil.
func New(opts *Options) *Server {
	if opts == nil {
		opts = &Options{}
	}
	s := &Server{opts: *opts, files: newFileOverlay(), schemas: map[string]*schema{}, parsed: map[string]string{}, apps: map[string]*app{}, dirty: map[string]bool{}, names: map[string]*loader.NameIndex{}, encoding: utf16Encoding, running: runningCommands{cancels: map[string]context.CancelFunc{}}}
	s.opts.Loader.Open = s.files.read
	s.loader = loader.New(opts.Kinds, &s.opts.Loader)
	checks := s.opts.Loader
	checks.Open = s.files.readForCheck
	s.checker = loader.New(opts.Kinds, &checks)
	return s
}

// outlineOf returns the names in the cursor's app; it is never nil.
func (s *Server) outlineOf(c *cursor) *loader.Outline {
	if a := s.apps[c.dir]; a != nil && a.outline != nil {
		return a.outline
	}
	return &loader.Outline{}
}

// loadSchema returns a document kind's schema, or nil if it has none.
func (s *Server) loadSchema(kind string) *schema {
	if cached, ok := s.schemas[kind]; ok {
		return cached
	}
	var loaded *schema
	if root, err := s.loader.Schema(kind); err == nil {
		defs, _ := root["$defs"].(map[string]any)
		loaded = &schema{root, defs}
	}
	s.schemas[kind] = loaded
	return loaded
}
