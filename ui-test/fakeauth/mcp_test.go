package fakeauth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"agenthost/internal/fake/fakeidp"
)

// The place of the MCP server, and what its tokens need. metadataPath is not the well-known place:
// only the response with 401 names it.
const (
	mcpPath      = "/v1/mcp"
	metadataPath = "/meta/resource.json"
	scope        = "contacts.read"
)

// A protectedServer is an MCP server with the authorization of the official SDK. It records
// what it gets.
type protectedServer struct {
	*httptest.Server
	idp *fakeidp.Server

	mu sync.Mutex
	// refused counts the requests with other tokens, calls are the accounts that have called the tool.
	refused int
	calls   []string
}

// TestServeMCP is like [TestServe], with an MCP server as the service. The host has only its URL.
// GET /record at the third URL is what has happened, and POST /expire ends all access tokens.
func TestServeMCP(t *testing.T) {
	redirect := os.Getenv("FAKE_AUTH_REDIRECT")
	if redirect == "" {
		return // started by go test
	}
	idp := fakeidp.New(t, redirect)
	idp.Accounts = []string{"ada", "bob"}
	service := startProtected(t, idp)
	idp.Discovery = fakeidp.Discovery{
		Registers: true, TokenAuth: "client_secret_post", Documents: map[string]string{}, Path: "/tenant-1",
		Resource: service.URL + mcpPath, Scopes: scope + " offline_access",
		Change: func(m map[string]any) {
			m["scopes_supported"] = []string{"openid", scope, "contacts.write", "offline_access"}
		},
	}
	inner := idp.Config.Handler
	idp.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		expectNoToken(t, r)
		inner.ServeHTTP(w, r)
	})
	record := httptest.NewServer(http.HandlerFunc(service.serveRecord))
	defer record.Close()
	fmt.Println("FAKE", idp.Issuer(), service.URL+mcpPath, record.URL)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// expectNoToken fails the test if a request has an access token: only the MCP server may get one.
func expectNoToken(t *testing.T, r *http.Request) {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer") || strings.Contains(r.URL.String(), "access-") {
		t.Errorf("%s %s got an access token", r.Method, r.URL.Path)
	}
}

// startProtected starts the MCP server. It closes with the test.
func startProtected(t *testing.T, idp *fakeidp.Server) *protectedServer {
	s := &protectedServer{idp: idp, calls: []string{}}
	serving := mcp.NewServer(&mcp.Implementation{Name: "contacts", Version: "1"}, nil)
	mcp.AddTool(serving, &mcp.Tool{Name: "get_contact", Description: "Reads the user's contact."}, s.getContact)
	// With sessions: a session belongs to the account that opened it.
	stream := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return serving }, nil)
	routes := http.NewServeMux()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != mcpPath {
			expectNoToken(t, r)
		}
		routes.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	routes.Handle(metadataPath, auth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: s.URL + mcpPath, AuthorizationServers: []string{idp.URL + "/tenant-1"},
		ScopesSupported: []string{scope, "contacts.write"}, BearerMethodsSupported: []string{"header"},
	}))
	guard := auth.RequireBearerToken(s.verifyToken, &auth.RequireBearerTokenOptions{ResourceMetadataURL: s.URL + metadataPath, Scopes: []string{scope}})
	routes.Handle(mcpPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("WWW-Authenticate", `Negotiate, Basic realm="staff, not \"you\""`) // clients must find the one that they can use
		guard(stream).ServeHTTP(w, r)
	}))
	return s
}

// verifyToken accepts a token of the authorization server for this server.
func (s *protectedServer) verifyToken(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	grant := s.idp.FindGrant("Bearer " + token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if grant == nil || grant.Resource != s.URL+mcpPath {
		s.refused++
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: grant.Account, Scopes: strings.Fields(grant.Scope), Expiration: time.Now().Add(time.Minute)}, nil
}

// getContact answers with the contact of the token's account.
func (s *protectedServer) getContact(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	account := req.Extra.TokenInfo.UserID
	s.mu.Lock()
	s.calls = append(s.calls, account)
	s.mu.Unlock()
	return nil, map[string]string{"name": map[string]string{"ada": "Grace", "bob": "Alan"}[account]}, nil
}

func (s *protectedServer) serveRecord(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/expire" && r.Method == http.MethodPost {
		s.idp.ExpireAll()
		return
	}
	refreshes, issued := s.idp.Counts()
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{
		"refused": s.refused, "calls": s.calls, "clients": s.idp.CountClients(), "consents": s.idp.Consents(), "refreshes": refreshes, "issued": issued,
	})
}
