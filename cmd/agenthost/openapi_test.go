package main

import (
	"testing"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
)

// The program's OpenAPI document, with all wings' routes and components, is valid: each operation
// has its own ID, and references resolve.
func TestOpenAPIOfWings(t *testing.T) {
	servertest.CheckDocument(t, server.New(nil, &server.Options{Extensions: serverExtensions(extensionOptions{})}))
}
