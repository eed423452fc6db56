package main

import (
	"testing"
)

// TestReferenceFresh compares docs/reference.md with the generated reference.
func TestReferenceFresh(t *testing.T) {
	testFresh(t, "../../docs/reference.md", []byte(newLoader(nil).Reference()))
}
