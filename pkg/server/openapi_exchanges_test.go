package server_test

import (
	"testing"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
)

// Accepted requests and all responses in testdata/http match the document and have no
// undeclared keys.
func TestOpenAPIDescribesExchanges(t *testing.T) {
	servertest.CheckExchanges(t, server.New(nil, &server.Options{Metrics: server.NewMetrics("")}), "testdata/http/*.txtar", 80)
}

// Operation IDs are unique, references resolve, and path parameters are declared once.
func TestOpenAPIIsValid(t *testing.T) { servertest.CheckDocument(t, server.New(nil, nil)) }

// The schema check rejects responses that do not match the document.
func TestOpenAPICheckFindsFaults(t *testing.T) {
	checker := servertest.NewSchemaChecker(t, server.New(nil, nil))
	for _, answer := range []string{`{"status":"fine"}`, `{"status":"ok","more":1}`, `[]`} {
		if len(checker.CheckExchange([]byte("GET /health\n"), []byte("200\nContent-Type: application/json\n\n"+answer+"\n"))) == 0 {
			t.Errorf("%s is accepted as the response of /health", answer)
		}
	}
}
