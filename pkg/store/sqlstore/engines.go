package sqlstore

import (
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// An Engine is a database engine with its driver. Packages sqlite, postgres and mysql have
// one each.
type Engine = engine.Engine

// Engines are the engines whose databases a program can open.
type Engines []*Engine

// findEngine returns a URL's engine and the rest after the colon.
func (all Engines) findEngine(url string) (e *Engine, rest string, err error) {
	name, rest, _ := strings.Cut(url, ":")
	known := "memory:" // from package memstore
	for i, e := range all {
		if slices.Contains(e.Names, name) {
			return e, rest, nil
		}
		if i < len(all)-1 {
			known += ", " + e.Form
		} else {
			known += " and " + e.Form
		}
	}
	return nil, "", fmt.Errorf("unknown scheme %q: supported are %s", store.Redacted(name), known)
}
