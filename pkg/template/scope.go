package template

import "context"

// A Scope is where the placeholders of a [Text] get their values. Rendering
// asks for each placeholder once, in order, from one goroutine. That a name is
// missing is no error of the scope: the text decides.
type Scope interface {
	// Lookup returns the value of a key, with its prefix ("user:name"), and
	// whether there is one.
	Lookup(key string) (any, bool)
	// Artifact returns the latest text of an artifact, and whether there is
	// one. An error ends the rendering.
	Artifact(ctx context.Context, name string) (string, bool, error)
}
