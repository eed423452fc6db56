package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"os"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// Env is the input for building a model.
type Env struct {
	// Name is the model's name in the document; if empty, the kind chooses one.
	Name string
	// Provider is the name of the kind, for errors.
	Provider string
	// Lookup reads a variable of the host's environment; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the variables of the app's .env, used if Lookup has none. An address
	// that the app chose never gets a key from Lookup.
	App map[string]string
	// File parses a document of the app by its path. It reports problems with positions,
	// including that of the path.
	File func(ctx context.Context, path spec.Text) (*spec.Node, spec.Diagnostics)
	// Model returns another model of the app, with its fallbacks. It reports problems
	// itself and then returns nil. It may be nil.
	Model func(ctx context.Context, name spec.Text) model.LLM
	// Gate has the limits of the model's calls, or is nil.
	Gate *Gate
	// HTTP is the client for calls of models; nil is [http.DefaultClient].
	HTTP *http.Client
	// Wait waits before a retry or a scripted response, or returns ctx's error; nil uses
	// timers.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger logs retries; nil discards logs.
	Logger *slog.Logger
}

// An EndpointConfig is the config of a model that reaches a server.
type EndpointConfig interface{ Endpoint(env Env) Endpoint }

// A NameConfig is the config of a model whose kind recognizes names without its prefix,
// such as gpt-5. The config is new: nothing is decoded into it.
type NameConfig interface{ RecognizesName(name string) bool }

// A KeyConfig is the config of a model whose key can be in the environment.
type KeyConfig interface {
	// KeyVariables returns the variables that may hold the key, the usual one first, or
	// none if calls need no key of a variable. A config that may have a key of its own is
	// a [CredentialConfig] as well.
	KeyVariables(env Env) []string
}

// An Endpoint is the address of a model.
type Endpoint struct {
	URL string
	// At is the text of the document that sets it. Its position is zero if there is
	// none.
	At spec.Text
	// OfHost is set if the host or the provider chose the address and the key belongs to
	// the host. Otherwise the app chose one of the two.
	OfHost bool
	// Account is a hash of the key, for limits that models with the same key share;
	// empty without a key.
	Account string
}

// accountOf returns the hash of a key.
func accountOf(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// variables reads the host's environment, then the app's .env.
type variables struct {
	host func(name string) (string, bool)
	app  map[string]string
}

func newVariables(host func(name string) (string, bool), app map[string]string) variables {
	if host == nil {
		host = os.LookupEnv
	}
	return variables{host, app}
}

// A setting is a value and its owner.
type setting struct {
	value string
	ofApp bool
}

// firstSet returns the first variable that is set and not empty.
func (v variables) firstSet(names ...string) setting {
	for _, name := range names {
		if value, _ := v.lookupVar(name); value.value != "" {
			return value
		}
	}
	return setting{}
}

func (v variables) lookupVar(name string) (setting, bool) {
	if value, ok := v.host(name); ok {
		return setting{value: value}, true
	}
	value, ok := v.app[name]
	return setting{value, ok}, ok
}

func (v variables) valueOf(name string) string { return v.firstSet(name).value }

// ownKey returns the first variable that the app sets.
func (v variables) ownKey(names ...string) setting {
	return variables{func(string) (string, bool) { return "", false }, v.app}.firstSet(names...)
}

// chooseKey returns the key for an address: that of the document or of a variable. A key
// of the host is never sent to an address that the app chose.
func (v variables) chooseKey(document string, base setting, names ...string) setting {
	switch {
	case document != "":
		return setting{document, true}
	case base.ofApp:
		return v.ownKey(names...)
	}
	return v.firstSet(names...)
}

// chooseBase returns the address of the document, of the variable, or the default.
func (v variables) chooseBase(document, name, usual string) setting {
	if document != "" {
		return setting{document, true}
	}
	if s := v.firstSet(name); s.value != "" {
		return s
	}
	return setting{value: usual}
}

func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
