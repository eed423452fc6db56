package connection

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agenthost/internal/limit"
	"agenthost/pkg/connection"
)

// A connection with a resource finds the rest itself (MCP 2026-07-28, authorization):
//
//	request without a token ──▶ 401, which may name the resource's metadata and its scopes
//	resource's metadata (RFC 9728) ──▶ authorization server
//	its metadata (RFC 8414) ──▶ endpoints
//	the client: the document's, the host's metadata document, or a registered one (registration.go)
//
// All of it is stored with the consent and the tokens, so that a renewal needs no discovery, and a
// token never goes to a server that another discovery found.

// A foundServer is an authorization server that was discovered, with the client there.
type foundServer struct {
	Issuer           string `json:"issuer"`
	AuthorizationURL string `json:"authorization_url"`
	TokenURL         string `json:"token_url"`
	IssuerInAnswer   bool   `json:"issuer_in_answer,omitempty"`

	Client oauthClient `json:"client"`
	// ClientRow is the row of a registered client, or "".
	ClientRow string `json:"client_row,omitempty"`
}

// The bounds for discovery.
const (
	maxServers = 10
	maxStepUps = 3
	maxScope   = 256
)

// offlineAccess is the scope for refresh tokens (OpenID Connect Core 1.0, 11).
const offlineAccess = "offline_access"

// discoverServer finds the authorization server of the resource. earlier is the user's token that
// lacks scopes, or nil.
func (s *userTokens) discoverServer(ctx context.Context, earlier *userToken) (*foundServer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit.TokenAnswer.Time)
	defer cancel()
	challenge, err := s.probeResource(ctx)
	if err != nil {
		return nil, fmt.Errorf("discovering the authorization server: %w", err)
	}
	resource, err := s.findResource(ctx, challenge.ResourceMetadata)
	if err != nil {
		return nil, fmt.Errorf("discovering the authorization server: %w", err)
	}
	issuer, err := s.chooseIssuer(resource)
	if err != nil {
		return nil, err
	}
	server := &tokenServer{client: s.server.client, issuer: issuer}
	m, err := server.findMetadata(ctx)
	switch {
	case err != nil:
		return nil, err
	case m.AuthorizationURL == "":
		return nil, fmt.Errorf("metadata of %s has no authorization_endpoint", issuer)
	case !slices.Contains(m.Challenges, "S256"):
		return nil, fmt.Errorf("metadata of %s does not list S256 under code_challenge_methods_supported: the server does not protect codes (PKCE, RFC 7636)", issuer)
	}
	found := &foundServer{Issuer: m.Issuer, AuthorizationURL: m.AuthorizationURL, TokenURL: m.TokenURL, IssuerInAnswer: m.IssuerInAnswer}
	scopes := s.chooseScopes(challenge.Scopes, resource.Scopes, m.Scopes, earlier)
	if err := s.findClient(ctx, server, m, found, scopes); err != nil {
		return nil, err
	}
	found.Client.Scopes, found.Client.Audience, found.Client.Resource = scopes, s.config.Audience, resource.Resource
	return found, nil
}

// probe is a request that a server rejects without a token, and that has no effect with one: MCP
// servers, which are what has such metadata, answer only POST.
const probe = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// probeResource requests the resource without a token, and returns its challenge, which may be
// empty.
func (s *userTokens) probeResource(ctx context.Context) (connection.Challenge, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.Resource.Value, strings.NewReader(probe))
	if err != nil {
		return connection.Challenge{}, errors.New("invalid resource")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := s.server.client.Do(req)
	if err != nil {
		if ue := (*url.Error)(nil); errors.As(err, &ue) {
			err = ue.Err
		}
		return connection.Challenge{}, fmt.Errorf("%s: %w", connection.HostOf(s.config.Resource.Value), err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<10)
	challenge, _ := connection.ParseChallenge(resp)
	return challenge, nil
}

// resourceMetadata is a protected resource's metadata (RFC 9728, 2).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// findResource reads the resource's metadata at the address in its challenge, or at the well-known
// places (RFC 9728, 3.1).
func (s *userTokens) findResource(ctx context.Context, address string) (*resourceMetadata, error) {
	u, err := url.Parse(s.config.Resource.Value)
	if err != nil {
		return nil, errors.New("invalid resource")
	}
	const wellKnown = "/.well-known/oauth-protected-resource"
	addresses := []string{u.Scheme + "://" + u.Host + wellKnown + strings.TrimSuffix(u.EscapedPath(), "/"), u.Scheme + "://" + u.Host + wellKnown}
	if address != "" {
		if err := checkServerURL(address); err != nil {
			return nil, fmt.Errorf("resource_metadata of %s: %w", u.Host, err)
		}
		addresses = []string{address}
	}
	var last error
	for _, address := range slices.Compact(addresses) {
		m, err := s.readResource(ctx, address)
		if err == nil {
			return m, s.checkResource(m)
		}
		last = err
	}
	return nil, fmt.Errorf("metadata of the resource %s: %w; set issuer and client_id of connection %s", u.Host, last, s.name)
}

func (s *userTokens) readResource(ctx context.Context, address string) (*resourceMetadata, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("invalid address")
	}
	raw, status, err := s.server.sendRequest(req)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", status, http.StatusText(status))
	}
	m := &resourceMetadata{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, errors.New("it is not valid JSON")
	}
	return m, nil
}

// checkResource checks that metadata is for the resource (RFC 9728, 3.3): its identifier is the
// resource's address, or what that address begins with.
func (s *userTokens) checkResource(m *resourceMetadata) error {
	own, err := url.Parse(s.config.Resource.Value)
	named, namedErr := url.Parse(m.Resource)
	if err != nil || namedErr != nil || !strings.EqualFold(own.Scheme, named.Scheme) || !strings.EqualFold(own.Host, named.Host) ||
		!strings.HasPrefix(strings.TrimSuffix(own.EscapedPath(), "/")+"/", strings.TrimSuffix(named.EscapedPath(), "/")+"/") {
		return fmt.Errorf("the metadata is for another resource: %q, want %s", cutText(m.Resource), s.config.Resource.Value)
	}
	return nil
}

// chooseIssuer returns the document's issuer, which must be among the resource's, or the first of
// them.
func (s *userTokens) chooseIssuer(m *resourceMetadata) (string, error) {
	servers := m.Servers[:min(len(m.Servers), maxServers)]
	if want := s.config.Issuer.Value; want != "" {
		if slices.ContainsFunc(servers, func(one string) bool { return sameIssuer(one, want) }) {
			return want, nil
		}
		return "", fmt.Errorf("the metadata of the resource does not name the issuer %s, but %s", want, cutText(cmp.Or(strings.Join(servers, ", "), "none")))
	}
	if len(servers) == 0 {
		return "", fmt.Errorf("the metadata of the resource names no authorization server: set issuer of connection %s", s.name)
	}
	return servers[0], checkServerURL(servers[0])
}

// chooseScopes returns the scopes to request: the document's, those in the challenge, or those in
// the resource's metadata; with those that a request has lacked, and with the scope for refresh
// tokens if the server has it.
func (s *userTokens) chooseScopes(challenged, ofResource, ofServer []string, earlier *userToken) []string {
	scopes := s.config.Scopes
	for _, more := range [][]string{challenged, ofResource} {
		if len(scopes) == 0 {
			scopes = more
		}
	}
	if earlier != nil {
		scopes = slices.Concat(scopes, earlier.Found.listScopes(), earlier.Wanted)
	}
	if slices.Contains(ofServer, offlineAccess) {
		scopes = append(slices.Clip(scopes), offlineAccess)
	}
	var kept []string
	for _, scope := range scopes {
		if isScope(scope) && !slices.Contains(kept, scope) && len(kept) < maxServers*maxServers {
			kept = append(kept, scope)
		}
	}
	return kept
}

// listScopes returns the scopes that were requested at a server, which may be nil.
func (f *foundServer) listScopes() []string {
	if f == nil {
		return nil
	}
	return f.Client.Scopes
}

// isScope reports whether a string is one scope (RFC 6749, 3.3).
func isScope(text string) bool {
	return text != "" && len(text) <= maxScope && !strings.ContainsFunc(text, func(c rune) bool {
		return c <= ' ' || c == '"' || c == '\\' || c > '~'
	})
}

// Challenge implements [connection.Challenger]. A token without a scope that the service requires
// leads to a consent with it, if no consent had it before. A new token that the service
// rejects leads to another discovery: the service may have another authorization server now.
func (s *userTokens) Challenge(ctx context.Context, user connection.User, rejected *connection.Credential, c connection.Challenge) error {
	if s.config.Resource.Value == "" {
		return nil
	}
	t, row, err := s.readToken(ctx, user)
	if err != nil || t == nil || bearerCredential(t.Access).Value != rejected.Value {
		return err
	}
	if c.Status == http.StatusUnauthorized {
		if _, err := s.grants.opts.Store.DeleteGrant(ctx, row.ID, row.Version); err != nil {
			return err
		}
		return s.newConsentError(user, nil)
	}
	if c.Error != "insufficient_scope" {
		return nil
	}
	var missing []string
	for _, scope := range c.Scopes {
		if isScope(scope) && !slices.Contains(t.Found.listScopes(), scope) {
			missing = append(missing, scope)
		}
	}
	switch {
	case len(missing) == 0:
		return fmt.Errorf("the service requires the scopes %q, which the authorization had", cutText(strings.Join(c.Scopes, " ")))
	case t.StepUps >= maxStepUps:
		return fmt.Errorf("the service requires more scopes after %d authorizations with more: %q", t.StepUps, cutText(strings.Join(missing, " ")))
	}
	t.Wanted = missing // not stored: calls that need no more keep the token
	return s.newConsentError(user, t)
}
