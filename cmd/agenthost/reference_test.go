package main

import (
	"testing"

	"agenthost/pkg/loader"
)

// TestReferenceFresh compares docs/reference.md with the generated reference.
func TestReferenceFresh(t *testing.T) {
	testFresh(t, "../../docs/reference.md", []byte(loader.New(nil).Reference()))
}
