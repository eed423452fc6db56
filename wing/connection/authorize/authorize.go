package authorize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"agenthost/internal/command"
	"agenthost/internal/policy"
	"agenthost/internal/safe"
	"agenthost/internal/terminal"
	"agenthost/pkg/connection"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	connections "agenthost/wing/connection"
)

// TerminalFlags let the person at the terminal authorize connections.
type TerminalFlags struct {
	grants GrantFlags
	always bool
	port   uint16
}

// RegisterFlags adds the flags to a command's flags.
func (f *TerminalFlags) RegisterFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.always, "authorize", false, "wait until connections are authorized, although the command has no terminal")
	f.RegisterLoopback(flags)
}

// RegisterLoopback adds the flags for a command whose person does not read the terminal.
func (f *TerminalFlags) RegisterLoopback(flags *pflag.FlagSet) {
	f.grants.registerKey(flags)
	flags.Uint16Var(&f.port, "authorize-port", 0, "port of the redirect URL http://127.0.0.1:PORT/oauth/callback, for authorization servers that compare it exactly (default: any free port)")
}

// An Authorizer lets a person authorize pending calls' connections.
type Authorizer struct {
	*connections.Grants
	out   io.Writer
	store *openedGrants
	// enabled reports that someone can authorize connections, person that a terminal is the
	// input, and stored that the tokens are in the database.
	enabled, person, stored bool
	port                    uint16
	// askedAgain has the users' connections whose request was unknown to this process.
	mu         sync.Mutex
	askedAgain map[askedKey]bool
}

// An askedKey is a connection of a session's user.
type askedKey struct {
	session    session.Key
	connection string
}

// markAsked sets whether a connection's request was unknown, and returns whether it was before.
func (a *Authorizer) markAsked(w *wait, isUnknown bool) (was bool) {
	key := askedKey{w.key, w.call.Connection}
	a.mu.Lock()
	defer a.mu.Unlock()
	was = a.askedAgain[key]
	delete(a.askedAgain, key)
	if isUnknown {
		a.askedAgain[key] = true
	}
	return was
}

// openedGrants is a grant store that is replaced when the session database is open, before the
// first run.
type openedGrants struct{ connection.GrantStore }

// NewAuthorizer returns an authorizer whose tokens are in memory until it uses a store. Apps may
// not read what it adds to reserved.
func (f *TerminalFlags) NewAuthorizer(env command.Env, reserved *policy.Host, sessionDB string) (*Authorizer, error) {
	keys, err := f.grants.ReadKeys(reserved, sessionDB)
	if err != nil {
		return nil, err
	}
	a := &Authorizer{
		out: env.Err, store: &openedGrants{&connection.MemoryGrants{}}, port: f.port, stored: keys != nil && f.grants.key != "", askedAgain: map[askedKey]bool{},
	}
	if keys == nil {
		if keys, err = connections.NewRandomKeys(); err != nil {
			return nil, command.FailWith(err)
		}
	}
	a.person = isPerson(env.In)
	a.enabled = f.always || a.person && isPerson(env.Err)
	a.Grants = connections.NewGrants(connections.GrantOptions{Store: a.store, Keys: keys, LoopbackURL: loopbackURL(f.port)})
	return a, nil
}

// isPerson reports whether a stream is a terminal, and not the null device.
func isPerson(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || !terminal.IsTerminal(stream) {
		return terminal.IsTerminal(stream)
	}
	null, err := os.Stat(os.DevNull)
	info, statErr := f.Stat()
	return err == nil && statErr == nil && !os.SameFile(null, info)
}

// IsEnabled reports whether someone can authorize connections.
func (a *Authorizer) IsEnabled() bool { return a.enabled }

// UseStore stores tokens in a database, if there is a key for it.
func (a *Authorizer) UseStore(st *store.Store) {
	if a.stored = a.stored && st.Grants != nil; a.stored {
		a.store.GrantStore = st.Grants
	}
}

// findPending returns the call's pending consent.
func (a *Authorizer) findPending(ctx context.Context, c *Call) (*connections.PendingConsent, error) {
	if c.device {
		return a.FindDevice(ctx, c.state)
	}
	return a.FindConsent(ctx, c.state)
}

var (
	errAuthorizeLater   = errors.New("later: /answer asks again")
	errAuthorizeTimeout = errors.New("the time for the authorization is over")
)

// AuthorizeCall waits until the user has authorized the connection for a call in a session, and
// returns the answer to the call. lines are what the person enters, nil without a conversation.
// Another process's request can be unknown here: the answer then makes the host ask again.
func (a *Authorizer) AuthorizeCall(ctx context.Context, c *Call, key session.Key, lines <-chan string) (map[string]any, error) {
	return a.authorizeCall(ctx, &wait{Authorizer: a, call: c, key: key, lines: lines})
}

// A Show shows a person the address to open, and the code to enter there, which can be empty. The
// authorization continues meanwhile, and its end ends ctx; an error ends the authorization.
type Show func(ctx context.Context, address, userCode string) error

// AuthorizeShown is [Authorizer.AuthorizeCall] for a person who does not read the terminal.
func (a *Authorizer) AuthorizeShown(ctx context.Context, c *Call, key session.Key, show Show) (map[string]any, error) {
	return a.authorizeCall(ctx, &wait{Authorizer: a, call: c, key: key, show: show})
}

func (a *Authorizer) authorizeCall(ctx context.Context, w *wait) (map[string]any, error) {
	c := w.call
	pending, err := a.findPending(ctx, c)
	if errors.Is(err, connection.ErrNoConsent) && !a.markAsked(w, true) {
		return map[string]any{}, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, pending.Expires, errAuthorizeTimeout)
	defer cancel()
	waitForUser := w.waitForCode
	if !c.device {
		waitForUser = w.waitForBrowser
	}
	if err := waitForUser(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), errAuthorizeTimeout) {
			err = errAuthorizeTimeout
		}
		return nil, err
	}
	a.markAsked(w, false)
	note := ""
	if !a.stored {
		note = " until this command ends: --credentials-key stores its tokens in the session database"
	}
	if w.show == nil {
		fmt.Fprintf(a.out, "connection %s is authorized%s\n", c.Connection, note)
	}
	return map[string]any{}, nil
}

// A wait is for one call's authorization.
type wait struct {
	*Authorizer
	call  *Call
	key   session.Key
	lines <-chan string
	// show shows the address; nil if the terminal does.
	show Show
}

// newAnswer returns the answer to the call with what the authorization server has sent.
func (w *wait) newAnswer(query url.Values, redirectURL string) connection.Answer {
	return connection.Answer{
		State: query.Get("state"), Code: query.Get("code"), Issuer: query.Get("iss"), Error: query.Get("error"), RedirectURL: redirectURL,
		User: &connection.User{App: w.key.App, UserID: w.key.User}, SessionID: w.key.ID, CallID: w.call.callID, Device: w.call.device,
	}
}

// waitForCode polls until the user has entered the code.
func (w *wait) waitForCode(ctx context.Context) error {
	c := w.call
	answer := w.newAnswer(url.Values{"state": {c.state}}, "")
	poll := func(ctx context.Context) error {
		for {
			err := w.FinishConsent(ctx, answer)
			if own := (*connection.AnswerError)(nil); !errors.As(err, &own) || !own.Pending {
				return err
			}
		}
	}
	if w.show != nil {
		return w.waitShown(ctx, c.address, poll)
	}
	fmt.Fprintf(w.out, "connection %s needs your authorization: open\n  %s\nand enter the code %s\n", c.Connection, c.address, c.userCode)
	return w.waitWithLines(ctx, poll, nil)
}

// waitForBrowser waits until the authorization server has sent the browser to the terminal. A
// browser on another machine does not reach it: its user enters the address instead.
func (w *wait) waitForBrowser(ctx context.Context) error {
	c := w.call
	l, err := openCallback(ctx, w.port, c.state)
	if err != nil {
		return err
	}
	address, err := withRedirect(c.address, l.redirectURL)
	if err != nil {
		return err
	}
	finish := func(query url.Values) error {
		return w.FinishConsent(context.WithoutCancel(ctx), w.newAnswer(query, l.redirectURL))
	}
	listen := func(ctx context.Context) error { return l.waitForAnswer(ctx, finish) }
	if w.show != nil {
		return w.waitShown(ctx, address, listen)
	}
	fmt.Fprintf(w.out, "connection %s needs your authorization: open\n  %s\n", c.Connection, address)
	if w.readsLines() {
		fmt.Fprintf(w.out, "A browser on another machine ends at %s without a response: enter that address here.\n", l.redirectURL)
	}
	return w.waitWithLines(ctx, listen, func(line string) (bool, error) {
		u, err := url.Parse(line)
		if err != nil || u.Query().Get("state") != c.state {
			fmt.Fprintln(w.out, "this is not the address at which the browser ends")
			return false, nil
		}
		return true, finish(u.Query())
	})
}

// withRedirect returns an authorization URL with another redirect URL.
func withRedirect(address, redirectURL string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("the request has an invalid authUri")
	}
	query := u.Query()
	query.Set("redirect_uri", redirectURL)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// readsLines reports whether a person can enter lines while the terminal waits.
func (w *wait) readsLines() bool { return w.lines != nil && w.person }

// stopTimeout bounds how long canceled work may take to end.
const stopTimeout = 5 * time.Second

// waitShown waits for work while the address is shown.
func (w *wait) waitShown(ctx context.Context, address string, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := startWork(ctx, work)
	shown := startWork(ctx, func(ctx context.Context) error { return w.show(ctx, address, w.call.userCode) })
	for shown != nil {
		select {
		case err := <-done:
			cancel()
			<-shown
			return err
		case err := <-shown:
			if err != nil {
				cancel()
				<-done
				return err
			}
			shown = nil
		}
	}
	return <-done
}

// startWork returns a channel for the error of work in a goroutine.
func startWork(ctx context.Context, work func(context.Context) error) <-chan error {
	done := make(chan error, 1)
	go func() {
		defer safe.Recover(func(p *safe.Panic) { done <- p })
		done <- work(ctx)
	}()
	return done
}

// waitWithLines waits for work. In a conversation an empty line ends it, and onLine gets the
// other lines, and reports whether one has the answer.
func (w *wait) waitWithLines(ctx context.Context, work func(context.Context) error, onLine func(string) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := startWork(ctx, work)
	var lines <-chan string
	if w.readsLines() {
		lines = w.lines
		fmt.Fprintln(w.out, "waiting [Enter: later]")
	}
	for {
		select {
		case err := <-done:
			return err
		case line, ok := <-lines:
			if line = strings.TrimSpace(line); !ok || line == "" {
				cancel()
				<-done
				return errAuthorizeLater
			}
			if onLine == nil {
				continue
			}
			if answered, err := onLine(line); answered {
				cancel()
				<-done
				return err
			}
		}
	}
}
