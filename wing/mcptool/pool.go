package mcptool

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agenthost/internal/safe"
	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A linkPool has a set's links, one for each different value of its headers. A link whose headers
// have no placeholders stays open until the set is closed; the others are closed when they have
// been idle, or when there are too many (adk-python tools/mcp_tool/mcp_session_manager.py pools by
// the headers' hash). It is safe for concurrent use.
type linkPool struct {
	newLink func(header http.Header, user connections.User) *link
	now     func() time.Time
	logger  *slog.Logger
	// keepsLinks is set for headers without placeholders.
	keepsLinks bool

	mu     sync.Mutex
	links  map[headerKey]*link
	timer  *time.Timer
	closed bool
}

// A headerKey is the headers' hash: the pool keeps no credentials.
type headerKey [sha256.Size]byte

// errTooManyLinks reports that all of a pool's connections are in use.
var errTooManyLinks = fmt.Errorf("%d connections with different headers are in use, the limit; try again later", maxLinks)

// errPoolClosed reports that a pool was used after it was closed.
var errPoolClosed = errors.New("is closed")

// acquireLink returns the link for the headers and the user; release must be called once.
func (p *linkPool) acquireLink(header http.Header, user connections.User) (l *link, release func(), err error) {
	key := hashHeader(header, user)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errPoolClosed
	}
	l = p.links[key]
	if l == nil {
		if len(p.links) >= maxLinks && !p.dropOldest() {
			return nil, nil, errTooManyLinks
		}
		l = p.newLink(header, user)
		p.links[key] = l
	}
	l.users++
	return l, sync.OnceFunc(func() { p.releaseLink(l) }), nil
}

func (p *linkPool) releaseLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.users--
	l.lastUsed = p.now()
	if p.timer == nil && !p.closed && !p.keepsLinks {
		p.startTimer()
	}
}

// startTimer starts the timer that closes idle links. The caller holds the lock.
func (p *linkPool) startTimer() {
	p.timer = time.AfterFunc(maxIdleLinks, func() {
		defer safe.Recover(func(s *safe.Panic) { s.Log(p.logger, "closing idle MCP connections panicked") })
		p.closeIdle()
	})
}

// dropOldest closes the link that is unused for the longest time. It returns false if all
// links are in use. The caller holds the lock.
func (p *linkPool) dropOldest() bool {
	var oldest headerKey
	found := false
	for key, l := range p.links {
		if l.users == 0 && (!found || l.lastUsed.Before(p.links[oldest].lastUsed)) {
			oldest, found = key, true
		}
	}
	if found {
		p.closeLater(p.links[oldest])
		delete(p.links, oldest)
	}
	return found
}

// closeIdle closes the links that have been unused for too long. A timer calls it as long
// as there are links.
func (p *linkPool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if p.closed {
		return
	}
	for key, l := range p.links {
		if l.users == 0 && p.now().Sub(l.lastUsed) >= maxIdleLinks {
			p.closeLater(l)
			delete(p.links, key)
		}
	}
	if len(p.links) > 0 {
		p.startTimer()
	}
}

// closeLater closes a link without waiting for the server.
func (p *linkPool) closeLater(l *link) {
	go func() {
		defer safe.Recover(func(s *safe.Panic) { s.Log(p.logger, "closing an MCP connection panicked") })
		l.closeLink()
	}()
}

// closeAll closes all links, and waits until they are closed.
func (p *linkPool) closeAll() {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	links := p.links
	p.links = nil
	p.mu.Unlock()
	var wait sync.WaitGroup
	for _, l := range links {
		wait.Go(func() {
			defer safe.Recover(func(s *safe.Panic) { s.Log(p.logger, "closing an MCP connection panicked") })
			l.closeLink()
		})
	}
	wait.Wait()
}

// hashHeader returns the key for headers and a user.
func hashHeader(header http.Header, user connections.User) headerKey {
	var names []string
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", user.App, user.UserID)
	for _, name := range names {
		fmt.Fprintf(h, "%q:%q\n", name, header.Get(name))
	}
	return headerKey(h.Sum(nil))
}

// A serverSet provides one server's tools, which it lists in each run. It connects on first use,
// and reconnects after a connection is lost.
type serverSet struct {
	server       *server
	capabilities tool.Capabilities
	// confirm is nil without a confirm in the document.
	confirm *toolconfig.ConfirmRule
	headers *toolconfig.Headers
	env     tool.Env
	// secrets are the document's secrets; redactor redacts them.
	secrets  []string
	redactor *spec.Redactor
	logger   *slog.Logger
	links    *linkPool
	now      func() time.Time
	// wait waits between two requests for a task's state.
	wait func(ctx context.Context, d time.Duration) error
	// hasSessions is shared with the links.
	hasSessions atomic.Bool

	// mu guards tools, the compiled tools by their names on the server.
	mu    sync.Mutex
	tools map[string]*serverTool
}

// A serverTool is one of a server's tools.
type serverTool struct {
	*tool.Declared
	set *serverSet
	// name is the name on the server, source the tool's entry in the list as JSON.
	name, source string
	// hints are what the server declares about the tool.
	hints        annotations
	paramHeaders []paramHeader
	capabilities tool.Capabilities
}

// newLink returns a link with these headers. It is not connected.
func (s *serverSet) newLink(header http.Header, user connections.User) *link {
	l := &link{
		server: s.server, stderr: &stderrTail{}, logger: s.logger, lock: make(chan struct{}, 1), asking: make(chan struct{}, 1),
		redactor: toolhttp.NewRedactor(s.redactor), user: user, connection: s.env.Connection, hasSessions: &s.hasSessions,
	}
	if secrets := s.headers.Credentials(header); len(secrets) > 0 {
		l.redactor = toolhttp.NewRedactor(spec.NewRedactor(append(s.secrets, secrets...)...))
	}
	l.dial = s.server.newDialer(s.env, l, header)
	return l
}

// acquireLink returns the link for a call's session; release must be called once.
func (s *serverSet) acquireLink(ctx context.Context, call *tool.Call) (l *link, release func(), err error) {
	header, err := s.headers.Render(call)
	user := connections.User{}
	if s.env.Connection.IsPerUser() {
		user = connections.User{App: call.Origin.App, UserID: call.Origin.UserID}
	}
	if err == nil {
		err = s.env.Connection.Prepare(ctx, user)
	}
	if err == nil {
		l, release, err = s.links.acquireLink(header, user)
	}
	switch {
	case errors.Is(err, errPoolClosed):
		return nil, nil, connectError{fmt.Errorf("%s %w", s.server.displayName(), err)}
	case err != nil:
		return nil, nil, connectError{fmt.Errorf("%s: %w", s.server.displayName(), err)}
	}
	return l, release, nil
}
