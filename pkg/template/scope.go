package template

import "context"

// A Scope supplies the values for the placeholders of a [Text]. Rendering looks
// up each placeholder once, in order, from one goroutine. A missing name is not
// an error of the Scope: the placeholder decides whether it is required.
type Scope interface {
	// Lookup returns the value of a key, given with its prefix ("user:name"),
	// and whether it exists.
	Lookup(key string) (any, bool)
	// Artifact returns the latest text of an artifact, and whether it exists.
	// An error aborts the rendering.
	Artifact(ctx context.Context, name string) (string, bool, error)
}
