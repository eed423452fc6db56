package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/internal/safe"
	"agenthost/pkg/connection"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
	connections "agenthost/wing/connection"
)

// authorizeFlags let the person at the terminal authorize connections.
type authorizeFlags struct {
	grants grantFlags
	always bool
	port   uint16
}

func (f *authorizeFlags) registerFlags(flags *pflag.FlagSet) {
	f.grants.registerKey(flags)
	flags.BoolVar(&f.always, "authorize", false, "wait for the authorization of connections, although the command has no terminal")
	flags.Uint16Var(&f.port, "authorize-port", 0, "port of the redirect URL http://127.0.0.1:PORT/oauth/callback, for authorization servers that compare it exactly (default: any free port)")
}

// An authorizer lets a person authorize the connections of pending calls.
type authorizer struct {
	*connections.Grants
	store *openedGrants
	// enabled reports that someone can authorize connections, person that a terminal is the
	// input, and stored that the tokens are in the database.
	enabled, person, stored bool
	port                    uint16
}

// openedGrants is a store of grants that is replaced when the session database is open, before
// the first run.
type openedGrants struct{ connection.GrantStore }

// newAuthorizer returns an authorizer whose tokens are in memory until it opens a database.
func (f *runFlags) newAuthorizer(env command.Env) (*authorizer, error) {
	keys, err := f.authorize.grants.readKeys(&f.load.Reserved, f.SessionDB)
	if err != nil {
		return nil, err
	}
	a := &authorizer{store: &openedGrants{&connection.MemoryGrants{}}, port: f.authorize.port, stored: keys != nil && f.authorize.grants.key != ""}
	if keys == nil {
		if keys, err = connections.NewRandomKeys(); err != nil {
			return nil, command.FailWith(err)
		}
	}
	a.person = isPerson(env.In)
	a.enabled = f.authorize.always || a.person && isPerson(env.Err)
	a.Grants = connections.NewGrants(connections.GrantOptions{Store: a.store, Keys: keys})
	return a, nil
}

// isPerson reports whether a stream is a terminal, and not the null device.
func isPerson(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok || !command.IsTerminal(stream) {
		return command.IsTerminal(stream)
	}
	null, err := os.Stat(os.DevNull)
	info, statErr := f.Stat()
	return err == nil && statErr == nil && !os.SameFile(null, info)
}

// useStore stores tokens in a database, if there is a key for it.
func (a *authorizer) useStore(st *store.Store) {
	if a.stored = a.stored && st.Grants != nil; a.stored {
		a.store.GrantStore = st.Grants
	}
}

// A credentialCall is a pending call that waits until the user authorizes a connection.
type credentialCall struct {
	*genai.FunctionCall
	// connection is the name of the connection, callID the ID of the call of its tool.
	connection, callID string
	// address is what the user opens; userCode, if set, is entered there.
	address, userCode string
	state             string
	device            bool
}

// newCredentialCall returns nil for a call that does not wait for a connection.
func newCredentialCall(call *genai.FunctionCall) *credentialCall {
	config, _ := call.Args["authConfig"].(map[string]any)
	key, _ := config["credentialKey"].(string)
	if call.Name != runtime.RequestCredential || !connection.IsCredentialKey(key) {
		return nil
	}
	exchanged, _ := config["exchangedAuthCredential"].(map[string]any)
	asked, _ := exchanged["oauth2"].(map[string]any)
	c := &credentialCall{FunctionCall: call, connection: strings.TrimPrefix(key, connection.CredentialKey("")), device: connection.DeviceState(config) != ""}
	c.callID, _ = call.Args["functionCallId"].(string)
	c.address, _ = asked["authUri"].(string)
	c.state, _ = asked["state"].(string)
	c.userCode, _ = asked["userCode"].(string)
	return c
}

func (c *credentialCall) describePending() string {
	return "connection " + c.connection + " waits for your authorization"
}

// wrapError names the connection once.
func (c *credentialCall) wrapError(err error) error {
	return fmt.Errorf("connection %s is not authorized: %s", c.connection, strings.TrimPrefix(err.Error(), "connection "+c.connection+": "))
}

// findPending returns the pending consent of the call.
func (a *authorizer) findPending(ctx context.Context, c *credentialCall) (*connections.PendingConsent, error) {
	if c.device {
		return a.FindDevice(ctx, c.state)
	}
	return a.FindConsent(ctx, c.state)
}

var (
	errAuthorizeLater   = errors.New("later: /answer asks again")
	errAuthorizeTimeout = errors.New("the time for the authorization is over")
)

// authorizeCall waits until the user has authorized the connection of a call, and returns the
// answer to the call. The request of another process can be unknown here: the answer then makes
// the host ask again.
func (t *conversation) authorizeCall(ctx context.Context, c *credentialCall) (map[string]any, error) {
	pending, err := t.authorizer.findPending(ctx, c)
	if errors.Is(err, connection.ErrNoConsent) && !t.askedAgain[c.connection] {
		t.askedAgain[c.connection] = true
		return map[string]any{}, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, pending.Expires, errAuthorizeTimeout)
	defer cancel()
	wait := t.waitForCode
	if !c.device {
		wait = t.waitForBrowser
	}
	if err := wait(ctx, c); err != nil {
		if ctx.Err() != nil && errors.Is(context.Cause(ctx), errAuthorizeTimeout) {
			err = errAuthorizeTimeout
		}
		return nil, err
	}
	t.askedAgain[c.connection] = false
	note := ""
	if !t.authorizer.stored {
		note = " until this command ends: --credentials-key stores its tokens in the session database"
	}
	fmt.Fprintf(t.env.Err, "connection %s is authorized%s\n", c.connection, note)
	return map[string]any{}, nil
}

// answerOf returns the answer to a call with what the authorization server has sent.
func (t *conversation) answerOf(c *credentialCall, query url.Values, redirectURL string) connection.Answer {
	return connection.Answer{
		State: query.Get("state"), Code: query.Get("code"), Issuer: query.Get("iss"), Error: query.Get("error"), RedirectURL: redirectURL,
		User: &connection.User{App: t.key.App, UserID: t.key.User}, SessionID: t.key.ID, CallID: c.callID, Device: c.device,
	}
}

// waitForCode polls until the user has entered the code.
func (t *conversation) waitForCode(ctx context.Context, c *credentialCall) error {
	fmt.Fprintf(t.env.Err, "connection %s needs your authorization: open\n  %s\nand enter the code %s\n", c.connection, c.address, c.userCode)
	answer := t.answerOf(c, url.Values{"state": {c.state}}, "")
	return t.waitWithLines(ctx, func(ctx context.Context) error {
		for {
			err := t.authorizer.FinishConsent(ctx, answer)
			if own := (*connection.AnswerError)(nil); !errors.As(err, &own) || !own.Pending {
				return err
			}
		}
	}, nil)
}

// waitForBrowser waits until the authorization server has sent the browser to the terminal. A
// browser on another machine does not reach it: its user enters the address instead.
func (t *conversation) waitForBrowser(ctx context.Context, c *credentialCall) error {
	l, err := openCallback(ctx, t.authorizer.port, c.state)
	if err != nil {
		return err
	}
	address, err := withRedirect(c.address, l.redirectURL)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.env.Err, "connection %s needs your authorization: open\n  %s\n", c.connection, address)
	if t.readsLines() {
		fmt.Fprintf(t.env.Err, "A browser on another machine ends at %s without a response: enter that address here.\n", l.redirectURL)
	}
	finish := func(query url.Values) error {
		return t.authorizer.FinishConsent(context.WithoutCancel(ctx), t.answerOf(c, query, l.redirectURL))
	}
	return t.waitWithLines(ctx, func(ctx context.Context) error { return l.waitForAnswer(ctx, finish) }, func(line string) (bool, error) {
		u, err := url.Parse(line)
		if err != nil || u.Query().Get("state") != c.state {
			fmt.Fprintln(t.env.Err, "this is not the address at which the browser ends")
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
func (t *conversation) readsLines() bool { return t.lines != nil && t.authorizer.person }

// stopTimeout bounds the end of work that was canceled.
const stopTimeout = 5 * time.Second

// waitWithLines waits for work. In a conversation an empty line ends it, and onLine gets the
// other lines, and reports whether one has the answer.
func (t *conversation) waitWithLines(ctx context.Context, work func(context.Context) error, onLine func(string) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer safe.Recover(func(p *safe.Panic) { done <- p })
		done <- work(ctx)
	}()
	defer cancel()
	var lines chan string
	if t.readsLines() {
		lines = t.lines
		fmt.Fprintln(t.env.Err, "waiting [Enter: later]")
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

// authorizePending lets the user authorize the connections of pending calls after a single
// message, and sends the answers. Without a person it returns an error.
func (t *conversation) authorizePending(ctx context.Context) error {
	for {
		calls := t.pendingCredentials(ctx)
		if len(calls) == 0 {
			return nil
		}
		if !t.authorizer.enabled {
			return command.FailWithf("connection %s is not authorized for user %s: authorize it in a terminal, or with --authorize", calls[0].connection, t.key.User)
		}
		reply := &genai.Content{Role: genai.RoleUser}
		for _, c := range calls {
			response, err := t.authorizeCall(ctx, c)
			if err != nil {
				return command.FailWith(c.wrapError(err))
			}
			reply.Parts = append(reply.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: response}})
		}
		if err := t.runInvocation(ctx, reply); err != nil {
			return err
		}
	}
}

// pendingCredentials returns the calls of the oldest event that wait for connections.
func (t *conversation) pendingCredentials(ctx context.Context) []*credentialCall {
	for _, w := range t.pendingCalls(ctx) {
		var calls []*credentialCall
		for _, call := range w.Calls {
			if c := newCredentialCall(call); c != nil {
				calls = append(calls, c)
			}
		}
		if len(calls) > 0 {
			return calls
		}
	}
	return nil
}

// answerCall prompts for the answer to a pending call, or lets the user authorize its
// connection. The response is nil if the call stays pending; it returns false at the end of the
// conversation.
func (t *conversation) answerCall(ctx context.Context, call *genai.FunctionCall) (map[string]any, bool) {
	c := newCredentialCall(call)
	if c == nil {
		return t.promptUser(ctx, newQuestion(call))
	}
	if !t.authorizer.enabled {
		fmt.Fprintf(t.env.Err, "%s: authorize it in a terminal, or with --authorize\n", c.describePending())
		return nil, true
	}
	var response map[string]any
	err := t.runStoppable(ctx, func(ctx context.Context) (err error) {
		response, err = t.authorizeCall(ctx, c)
		return err
	})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(t.env.Err, c.wrapError(err))
	}
	return response, ctx.Err() == nil
}
