package mcptool

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/safe"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// A link is how a set reaches its server with the same headers: a connection, which is
// reopened when it is next needed after it was lost, and the lists of the server. It is
// safe for concurrent use.
type link struct {
	server *server
	dial   transportDialer
	// user is whom the credential of the connection is for.
	user     connections.User
	stderr   *stderrTail
	redactor *linkRedactor
	logger   *slog.Logger
	progress progressHub
	lists    listCaches

	// asking is acquired by each call of a server that may ask the user or the model, which
	// questions and sampling answer.
	asking    chan struct{}
	questions atomic.Pointer[elicitCall]
	sampling  atomic.Pointer[samplingCall]

	// lock guards the fields below; a context can cancel waiting for it.
	lock   chan struct{}
	conn   *connection
	closed bool

	// users and lastUsed belong to the pool.
	users    int
	lastUsed time.Time
}

// closeLink closes the connection, and stops the server program.
func (l *link) closeLink() {
	l.lock <- struct{}{}
	defer l.releaseLock()
	l.closed = true
	l.conn.close()
	l.conn = nil
}

// withSession runs a request on the connection. If the connection turns out to be lost, it
// reconnects and retries once, provided that the server cannot have received the request
// or that repeating it is safe.
func (l *link) withSession(ctx context.Context, repeatable bool, question func(*mcp.ClientSession) error) error {
	for again := false; ; again = true {
		conn, err := l.acquireConn(ctx)
		if err != nil {
			return err
		}
		err = question(conn.session)
		if err == nil || ctx.Err() != nil || isAnswer(err) {
			return err
		}
		fault := conn.findFault()
		l.discardConn(conn)
		if fault != nil {
			return fault
		}
		unheard := errors.Is(err, mcp.ErrSessionMissing) || isDialError(err)
		if again || !repeatable && !unheard {
			return disconnectedError{err, repeatable || unheard}
		}
	}
}

// isAnswer reports whether an error is about an answer of the server, so that the
// connection works.
func isAnswer(err error) bool {
	limit := limitError{}
	return findAnswer(err) != nil || errors.As(err, &limit)
}

// findAnswer returns the error that the server answered a request with, or nil. The library
// wraps errors of the transport in an error of the same type.
func findAnswer(err error) *jsonrpc.Error {
	answered := (*jsonrpc.Error)(nil)
	if errors.As(err, &answered) && answered.Code != rejectedByTransport {
		return answered
	}
	return nil
}

// rejectedByTransport is the code of the library for requests that were not sent.
const rejectedByTransport = -32005

// isDialError reports whether a request was not sent because there was no connection.
func isDialError(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "dial"
}

// A disconnectedError reports that the connection closed during a request.
type disconnectedError struct {
	error
	safeToRetry bool
}

func (e disconnectedError) Unwrap() error { return e.error }

// acquireConn returns the open connection, or connects.
func (l *link) acquireConn(ctx context.Context) (*connection, error) {
	if err := l.acquireLock(ctx); err != nil {
		return nil, err
	}
	defer l.releaseLock()
	if l.closed {
		return nil, connectError{fmt.Errorf("%s is closed", l.server.displayName())}
	}
	if l.conn.isAlive() {
		return l.conn, nil
	}
	if l.conn != nil {
		l.conn.close()
		l.conn = nil
		l.lists.dropAll() // a new connection may have others
	}
	limit, stop := l.server.withConnectTimeout(ctx)
	defer stop()
	conn, err := connect(limit, l)
	if err != nil {
		return nil, connectError{l.describeError(limit, err)}
	}
	l.conn = conn
	return conn, nil
}

// discardConn closes a connection that has failed.
func (l *link) discardConn(conn *connection) {
	l.lock <- struct{}{}
	defer l.releaseLock()
	if l.conn == conn {
		l.conn = nil
		l.lists.dropAll()
	}
	conn.abort()
}

func (l *link) acquireLock(ctx context.Context) error {
	select {
	case l.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *link) releaseLock() { <-l.lock }

// The bounds of the connections of one set whose headers differ between sessions.
const (
	maxLinks     = 100
	maxIdleLinks = 10 * time.Minute
)

// A linkPool has the links of a set, one for each different value of its headers. A link
// of headers without placeholders stays open until the set is closed; the others are closed
// when they have been idle, or when there are too many (adk-python
// tools/mcp_tool/mcp_session_manager.py pools by the hash of the headers). It is safe for
// concurrent use.
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

// A headerKey is the hash of headers: the pool keeps no credentials.
type headerKey [sha256.Size]byte

// errTooManyLinks reports that all connections of a pool are in use.
var errTooManyLinks = fmt.Errorf("%d connections with different headers are in use, which is the limit; try again later", maxLinks)

// errPoolClosed reports the use of a pool after it was closed.
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

// A linkRedactor removes the secrets of the document, and the last credentials of the
// connection, from what a server sends. It is safe for concurrent use.
type linkRedactor struct {
	base *spec.Redactor

	mu      sync.Mutex
	secrets []string
	tokens  atomic.Pointer[spec.Redactor]
}

// maxLinkSecrets bounds the credentials that a link redacts: the last ones.
const maxLinkSecrets = 8

func newLinkRedactor(base *spec.Redactor) *linkRedactor {
	r := &linkRedactor{base: base}
	r.tokens.Store(spec.NewRedactor())
	return r
}

func (r *linkRedactor) addSecrets(secrets []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.secrets)
	for _, one := range secrets {
		if !slices.Contains(r.secrets, one) {
			r.secrets = append(r.secrets, one)
		}
	}
	if len(r.secrets) > before {
		r.secrets = slices.Clone(r.secrets[max(0, len(r.secrets)-maxLinkSecrets):])
		r.tokens.Store(spec.NewRedactor(r.secrets...))
	}
}

func (r *linkRedactor) redactString(text string) string {
	return r.tokens.Load().RedactString(r.base.RedactString(text))
}

func (r *linkRedactor) redactValue(v any) any {
	return r.tokens.Load().RedactValue(r.base.RedactValue(v))
}

// hashHeader returns the key of headers and a user.
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
