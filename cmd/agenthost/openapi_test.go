package main

import (
	"testing"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
)

// The OpenAPI document of the program, with the routes and components of all wings, is valid: an
// operation has an ID of its own, and references resolve.
func TestOpenAPIOfWings(t *testing.T) {
	servertest.CheckDocument(t, server.New(nil, &server.Options{Extensions: serverExtensions(nil, nil, nil, nil)}))
}
