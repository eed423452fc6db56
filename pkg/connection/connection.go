// Package connection adds credentials to tool requests. An app declares its connections by name;
// each has one credential and the hosts that may receive it.
//
// The package is the contract between tools, the runtime and stores. The credential kinds are in
// agenthost/wing/connection.
package connection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// A User is whom a request is for.
type User struct{ App, UserID string }

// A Credential is what authorizes a request.
type Credential struct {
	// In is [InHeader], [InQuery] or [InCookie]; Name is the name there.
	In, Name string
	// Value is what is sent.
	Value string
	// Secrets are the secret parts of the value. Responses must not show them.
	Secrets []string
}

// String returns where the credential goes, without its value.
func (c *Credential) String() string { return c.In + " " + c.Name }

// GoString is String, so that no format prints the value.
func (c *Credential) GoString() string { return c.String() }

// A Source provides credentials. It is safe for concurrent use.
type Source interface {
	// Credential returns the credential for a user's requests.
	Credential(ctx context.Context, user User) (*Credential, error)
	// Evict removes a credential that a service rejected, and reports whether another
	// one may be available.
	Evict(user User, rejected *Credential) bool
	// PerUser reports whether each user has separate credentials.
	PerUser() bool
}

// A Connection authorizes requests to its hosts. It is immutable and safe for concurrent
// use. A nil Connection authorizes nothing: requests are sent as they are.
type Connection struct {
	name   string
	source Source
	hosts  []HostPattern
}

// New returns a connection. Its credentials go only to the hosts, in the form of
// [ParseHostPattern].
func New(name string, source Source, hosts []string) *Connection {
	c := &Connection{name: name, source: source}
	for _, host := range hosts {
		c.hosts = append(c.hosts, ParseHostPattern(host))
	}
	return c
}

// IsPerUser reports whether each user has separate credentials.
func (c *Connection) IsPerUser() bool { return c != nil && c.source.PerUser() }

// Prepare makes a user's credential available, if each user has a separate one. The error is a
// [*ConsentError] if the user has to authorize the connection first.
func (c *Connection) Prepare(ctx context.Context, user User) error {
	if !c.IsPerUser() {
		return nil
	}
	_, err := c.Credential(ctx, user)
	return err
}

// Credential returns a user's credential.
func (c *Connection) Credential(ctx context.Context, user User) (*Credential, error) {
	got, err := c.source.Credential(ctx, user)
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", c.name, err)
	}
	return got, nil
}

// Evict calls the source's [Source.Evict].
func (c *Connection) Evict(user User, rejected *Credential) bool {
	return c.source.Evict(user, rejected)
}

// Name returns the name, or "" for nil.
func (c *Connection) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

// Send authorizes a request for a user and sends it. It returns the secrets that the response must
// not show. A service that responds with 401 gets the request once more, if the source has another
// credential. If the source is a [Challenger], it gets the challenge of a response with 403, and of
// a second one with 401. The client must not send a request's headers to other hosts after a redirect.
func (c *Connection) Send(client *http.Client, req *http.Request, user User) (*http.Response, []string, error) {
	return c.sendWith(client.Do, req, user)
}

// A sender sends a request.
type sender func(*http.Request) (*http.Response, error)

func (c *Connection) sendWith(send sender, req *http.Request, user User) (*http.Response, []string, error) {
	if c == nil {
		resp, err := send(req)
		return resp, nil, err
	}
	resp, used, err := c.sendOnce(send, req, user)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !c.Evict(user, used) || !canRepeat(req) {
		if err == nil {
			resp, err = c.answerChallenge(req, resp, used, user)
		}
		return resp, secretsOf(used), err
	}
	_ = resp.Body.Close()
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, secretsOf(used), fmt.Errorf("connection %s: %w", c.name, err)
		}
	}
	resp, renewed, err := c.sendOnce(send, again, user)
	if err == nil {
		resp, err = c.answerChallenge(req, resp, renewed, user)
	}
	return resp, append(secretsOf(used), secretsOf(renewed)...), err
}

// answerChallenge lets the source react to a response that rejects its credential. It returns the
// response if there is nothing to do.
func (c *Connection) answerChallenge(req *http.Request, resp *http.Response, used *Credential, user User) (*http.Response, error) {
	source, ok := c.source.(Challenger)
	if !ok || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return resp, nil
	}
	challenge, ok := ParseChallenge(resp)
	if !ok {
		return resp, nil
	}
	if err := source.Challenge(req.Context(), user, used, challenge); err != nil {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("connection %s: %w", c.name, err)
	}
	return resp, nil
}

// canRepeat reports whether a request's body can be sent again.
func canRepeat(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

func secretsOf(c *Credential) []string {
	if c == nil {
		return nil
	}
	return slices.Clone(c.Secrets)
}

// sendOnce sends a copy of the request with a credential.
func (c *Connection) sendOnce(send sender, req *http.Request, user User) (*http.Response, *Credential, error) {
	authorized := req.Clone(req.Context())
	used, err := c.Authorize(authorized, user)
	if err != nil {
		return nil, used, err
	}
	resp, err := send(authorized)
	return resp, used, err
}

// RoundTrip is [Connection.Send] over a transport. A request that follows a redirect to
// another host or scheme, or back from one, gets no credential.
func (c *Connection) RoundTrip(next http.RoundTripper, req *http.Request, user User) (*http.Response, []string, error) {
	if c == nil || HasLeftHost(req) {
		resp, err := next.RoundTrip(req)
		return resp, nil, err
	}
	return c.sendWith(next.RoundTrip, req, user)
}

// HasLeftHost reports whether a redirect that led to the request changed the host or the
// scheme: a foreign host must not be able to choose a request with credentials.
func HasLeftHost(req *http.Request) bool {
	for last := req; last.Response != nil && last.Response.Request != nil; last = last.Response.Request {
		if from := last.Response.Request.URL; from.Host != last.URL.Host || from.Scheme != last.URL.Scheme {
			return true
		}
	}
	return false
}

// Authorize adds the credential to a request, in place of values with the same name. It rejects
// requests to other hosts, and requests without TLS, except to loopback addresses.
func (c *Connection) Authorize(req *http.Request, user User) (*Credential, error) {
	if err := c.checkTarget(req.URL); err != nil {
		return nil, err
	}
	got, err := c.Credential(req.Context(), user)
	if err != nil {
		return nil, err
	}
	switch got.In {
	case InHeader:
		req.Header.Set(got.Name, got.Value)
	case InQuery:
		query := req.URL.Query()
		query.Set(got.Name, got.Value)
		req.URL.RawQuery = query.Encode()
	case InCookie:
		setCookie(req, got)
	default:
		return nil, errors.New("connection " + c.name + ": unknown credential place")
	}
	return got, nil
}

// setCookie replaces the credential's cookie and keeps the others.
func setCookie(req *http.Request, c *Credential) {
	others := slices.DeleteFunc(req.Cookies(), func(o *http.Cookie) bool { return o.Name == c.Name })
	req.Header.Del("Cookie")
	for _, o := range others {
		req.AddCookie(o)
	}
	req.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
}

// The places for a credential in a request
const (
	InHeader = "header"
	InQuery  = "query"
	InCookie = "cookie"
)
