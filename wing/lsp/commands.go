package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"agenthost/internal/safe"
)

// A Command is run by workspace/executeCommand, on its own goroutine. It ends with ctx, which the
// editor cancels.
type Command func(ctx context.Context, arguments []json.RawMessage) (CommandResult, error)

// A CommandResult is the response to a command.
type CommandResult struct {
	// Failed reports that what ran has failed, such as a test.
	Failed bool `json:"failed"`
	// Output is what the command printed.
	Output string `json:"output"`
}

const (
	// maxCommands limits the commands that run at the same time.
	maxCommands = 4
	// maxShown limits the output in an editor's message, in bytes. The response has all of it.
	maxShown = 4000
)

// runningCommands are the commands that have no response yet, by the ID of their request.
type runningCommands struct {
	mu      sync.Mutex
	cancels map[string]context.CancelFunc
}

// addCommand reserves a place for a command, and reports whether there is one.
func (r *runningCommands) addCommand(id string, cancel context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancels[id] != nil || len(r.cancels) >= maxCommands {
		return false
	}
	r.cancels[id] = cancel
	return true
}

// removeCommand cancels a command and removes it.
func (r *runningCommands) removeCommand(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.cancels[id]; cancel != nil {
		cancel()
		delete(r.cancels, id)
	}
}

// cancelCommand cancels a command, which removes itself.
func (r *runningCommands) cancelCommand(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.cancels[id]; cancel != nil {
		cancel()
	}
}

// startCommand starts a command for workspace/executeCommand. Its response is sent when it ends, so
// that the server continues to answer other requests; so does a message for editors that ignore the response.
func (s *Server) startCommand(ctx context.Context, m *message) error {
	var p struct {
		Command   string            `json:"command"`
		Arguments []json.RawMessage `json:"arguments"`
	}
	if err := decodeParams(m, &p); err != nil {
		return err
	}
	run := s.opts.Commands[p.Command]
	if run == nil {
		return &rpcError{codeInvalidParams, fmt.Sprintf("unknown command %q", p.Command)}
	}
	id := string(*m.ID)
	ctx, cancel := context.WithCancel(ctx)
	if !s.running.addCommand(id, cancel) {
		cancel()
		return &rpcError{codeRequestFailed, fmt.Sprintf("%d commands are running, which is the limit", maxCommands)}
	}
	go func() {
		defer safe.Recover(func(p *safe.Panic) {
			s.running.removeCommand(id)
			s.sendResult(m, CommandResult{}, fmt.Errorf("the command panicked: %w", p))
		})
		result, err := run(ctx, p.Arguments)
		s.running.removeCommand(id)
		s.sendResult(m, result, err)
	}()
	return nil
}

// sendResult sends a command's message and response. The editor has gone if that fails.
func (s *Server) sendResult(m *message, result CommandResult, err error) {
	reply := &message{ID: m.ID}
	kind, text := messageInfo, strings.TrimSpace(result.Output)
	if err != nil {
		kind, text = messageError, err.Error()
		reply.Error = &rpcError{codeRequestFailed, text}
	} else if reply.Result, err = json.Marshal(result); err != nil {
		return
	}
	if result.Failed {
		kind = messageError
	}
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "\n…"
	}
	if params, err := json.Marshal(map[string]any{"type": kind, "message": text}); err == nil && text != "" {
		_ = writeMessage(s.out, &message{Method: "window/showMessage", Params: params})
	}
	_ = writeMessage(s.out, reply)
}

// The protocol's message types.
const (
	messageError = 1
	messageInfo  = 3
)

// commandNames lists the commands, sorted.
func (s *Server) commandNames() []string {
	return append([]string{}, slices.Sorted(maps.Keys(s.opts.Commands))...)
}

// cancelCommand handles $/cancelRequest. Other requests have their response already.
func (s *Server) cancelCommand(m *message) error {
	var p struct {
		ID json.RawMessage `json:"id"`
	}
	if err := decodeParams(m, &p); err != nil {
		return err
	}
	s.running.cancelCommand(string(p.ID))
	return nil
}

// A lockedWriter writes whole messages from several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write writes one message.
func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
