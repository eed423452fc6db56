package connection

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// ClientDocumentPath is where the host serves its client metadata document.
const ClientDocumentPath = "/oauth/client.json"

// clientName is the host's name at authorization servers.
const clientName = "agenthost"

// clientMetadata describes the host as a client (RFC 7591, 2).
type clientMetadata struct {
	ClientID        string   `json:"client_id,omitempty"`
	ClientName      string   `json:"client_name"`
	RedirectURLs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	TokenAuth       string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`
	Scope           string   `json:"scope,omitempty"`
}

func newClientMetadata(redirectURL, tokenAuth string) *clientMetadata {
	kind := "web"
	if u, err := url.Parse(redirectURL); err == nil && connection.IsLoopback(u) {
		kind = "native"
	}
	return &clientMetadata{
		ClientName: clientName, RedirectURLs: []string{redirectURL}, GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, TokenAuth: tokenAuth, ApplicationType: kind,
	}
}

// ClientDocument returns the host's client metadata document, whose address is its client ID
// (OAuth Client ID Metadata Document, 4). It is nil for a host without a public https address.
func (g *Grants) ClientDocument() []byte {
	address := g.clientDocumentURL()
	if address == "" {
		return nil
	}
	m := newClientMetadata(g.opts.RedirectURL, authNone)
	m.ClientID = address
	raw, err := json.Marshal(m)
	if err != nil { // it has only strings
		return nil
	}
	return raw
}

// clientDocumentURL returns the document's address, or "".
func (g *Grants) clientDocumentURL() string {
	base, ok := strings.CutSuffix(g.opts.RedirectURL, CallbackPath)
	if u, err := url.Parse(base); !ok || err != nil || u.Scheme != "https" || connection.IsLoopback(u) {
		return ""
	}
	return base + ClientDocumentPath
}

// findClient sets the client at an authorization server: the document's, the host's metadata
// document, or a registered one.
func (s *userTokens) findClient(ctx context.Context, server *tokenServer, m *serverMetadata, found *foundServer, scopes []string) error {
	document := s.grants.clientDocumentURL()
	switch {
	case s.config.ClientID.Pos.Line > 0:
		found.Client = *s.config.newClient()
		if found.Client.Secret != "" && len(m.TokenAuthMethods) > 0 && !slices.Contains(m.TokenAuthMethods, found.Client.TokenAuth) {
			found.Client.TokenAuth = chooseTokenAuth(m.TokenAuthMethods)
		}
		return nil
	case m.ClientDocuments && document != "":
		found.Client = oauthClient{ID: document, TokenAuth: authNone}
		return nil
	case m.RegistrationURL == "":
		return fmt.Errorf("%s registers no clients: register one with the redirect URL %s, and set client_id of connection %s", m.Issuer, s.redirectURL(), s.name)
	}
	if s.mayRegister != nil {
		if err := s.mayRegister(); err != nil {
			return fmt.Errorf("a client at %s: %w", m.Issuer, err)
		}
	}
	return s.findRegistered(ctx, server, m, found, scopes)
}

// redirectURL returns the redirect URL for registrations.
func (s *userTokens) redirectURL() string {
	opts := s.grants.opts
	return cmp.Or(opts.RedirectURL, opts.LocalURL, opts.LoopbackURL, "http://127.0.0.1"+CallbackPath)
}

// chooseTokenAuth returns how a client authenticates, of the methods that a server has. Without any,
// it has client_secret_basic (RFC 8414, 2).
func chooseTokenAuth(methods []string) string {
	for _, own := range []string{authBasic, authPost, authNone} {
		if len(methods) == 0 || slices.Contains(methods, own) {
			return own
		}
	}
	return authBasic
}

// A registeredClient is the content of a client's row, which all replicas share.
type registeredClient struct {
	Client oauthClient `json:"client"`
	// Expires is when the secret expires, in Unix seconds; 0 means never.
	Expires int64 `json:"expires,omitempty"`
}

// findRegistered sets the client that is registered at a server for the app's connection, and
// registers one if there is none.
func (s *userTokens) findRegistered(ctx context.Context, server *tokenServer, m *serverMetadata, found *foundServer, scopes []string) error {
	row := &connection.Grant{ID: hashID("client", s.app, s.name, m.Issuer, s.redirectURL()), User: connection.User{App: s.app}, Connection: s.name, Version: 1}
	stored, err := s.grants.opts.Store.GetGrant(ctx, row.ID)
	if err != nil {
		return err
	}
	if stored != nil {
		if r := s.openRegistered(stored); r != nil {
			found.Client, found.ClientRow = r.Client, row.ID
			return nil
		}
		row.Version = stored.Version + 1
	}
	r, err := s.registerClient(ctx, server, m, scopes)
	if err != nil {
		return fmt.Errorf("registering a client at %s: %w; set client_id of connection %s", m.Issuer, err, s.name)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	row.Sealed = s.grants.opts.Keys.SealText(row, text)
	if _, err := s.grants.opts.Store.SwapGrant(ctx, row); err != nil {
		return err // another replica's client stays, and this one serves this consent
	}
	found.Client, found.ClientRow = r.Client, row.ID
	return nil
}

// openRegistered returns a row's client, or nil if no key decrypts it or its secret has expired.
func (s *userTokens) openRegistered(row *connection.Grant) *registeredClient {
	text, err := s.grants.opts.Keys.OpenSealed(row)
	r := &registeredClient{}
	if err != nil || json.Unmarshal(text, r) != nil || r.Client.ID == "" || r.Expires != 0 && r.Expires <= s.grants.opts.Now().Add(consentLifetime).Unix() {
		return nil
	}
	return r
}

// registerClient registers the host at a server (RFC 7591, 3).
func (s *userTokens) registerClient(ctx context.Context, server *tokenServer, m *serverMetadata, scopes []string) (*registeredClient, error) {
	metadata := newClientMetadata(s.redirectURL(), chooseTokenAuth(m.TokenAuthMethods))
	metadata.Scope = strings.Join(scopes, " ")
	body, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.RegistrationURL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("invalid registration endpoint")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	raw, status, err := server.sendRequest(req)
	if err != nil {
		return nil, err
	}
	if status != http.StatusCreated && status != http.StatusOK {
		return nil, newTokenError(status, raw, spec.NewRedactor())
	}
	var answer struct {
		ID        string  `json:"client_id"`
		Secret    string  `json:"client_secret"`
		Expires   seconds `json:"client_secret_expires_at"`
		TokenAuth string  `json:"token_endpoint_auth_method"`
	}
	switch err := json.Unmarshal(raw, &answer); {
	case err != nil:
		return nil, errors.New("the response is not valid JSON")
	case !isClientValue(answer.ID):
		return nil, errors.New("the response has no valid client_id")
	case answer.Secret != "" && !isClientValue(answer.Secret):
		return nil, errors.New("the response has no valid client_secret")
	}
	if !slices.Contains([]string{authBasic, authPost, authNone}, answer.TokenAuth) {
		answer.TokenAuth = metadata.TokenAuth
	}
	if answer.TokenAuth == authNone {
		answer.Secret = ""
	}
	return &registeredClient{oauthClient{ID: answer.ID, Secret: answer.Secret, TokenAuth: answer.TokenAuth}, int64(answer.Expires)}, nil
}

// maxClientValue bounds a registered client's ID and secret.
const maxClientValue = 4 << 10

// isClientValue reports whether a string may be a client's ID or secret.
func isClientValue(text string) bool {
	return len(text) <= maxClientValue && headerValue.MatchString(text)
}

// deleteClient deletes the registration of a client that a server does not know any more, so that
// the next consent registers another.
func (s *userTokens) deleteClient(ctx context.Context, found *foundServer, err error) {
	failed := (*tokenError)(nil)
	if found == nil || found.ClientRow == "" || !errors.As(err, &failed) || failed.code != "invalid_client" {
		return
	}
	row, err := s.grants.opts.Store.GetGrant(ctx, found.ClientRow)
	if err == nil && row != nil {
		_, err = s.grants.opts.Store.DeleteGrant(ctx, row.ID, row.Version)
	}
	if err != nil {
		s.grants.opts.Logger.WarnContext(ctx, "registered client not deleted", "app", s.app, "connection", s.name, "error", err)
	}
}
