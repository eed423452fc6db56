package modelapi

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	"agenthost/pkg/spec"
)

// AccountOf returns a key's hash.
func AccountOf(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Variables reads the host's environment, then the app's .env.
type Variables struct {
	host func(name string) (string, bool)
	app  map[string]string
}

// NewVariables returns the variables of host and app; a nil host is [os.LookupEnv].
func NewVariables(host func(name string) (string, bool), app map[string]string) Variables {
	if host == nil {
		host = os.LookupEnv
	}
	return Variables{host, app}
}

// A Setting is a value and its owner.
type Setting struct {
	Value string
	OfApp bool
}

// FirstSet returns the first variable that is set and not empty.
func (v Variables) FirstSet(names ...string) Setting {
	for _, name := range names {
		if value, _ := v.LookupVar(name); value.Value != "" {
			return value
		}
	}
	return Setting{}
}

// LookupVar returns a variable, and whether it is set.
func (v Variables) LookupVar(name string) (Setting, bool) {
	if value, ok := v.host(name); ok {
		return Setting{Value: value}, true
	}
	value, ok := v.app[name]
	return Setting{value, ok}, ok
}

// ValueOf returns a variable's value, or "".
func (v Variables) ValueOf(name string) string { return v.FirstSet(name).Value }

// ownKey returns the first variable that the app sets.
func (v Variables) ownKey(names ...string) Setting {
	return Variables{func(string) (string, bool) { return "", false }, v.app}.FirstSet(names...)
}

// ChooseKey returns the key for an address: the document's or a variable's. The host's key is never
// sent to an address that the app chose.
func (v Variables) ChooseKey(document string, base Setting, names ...string) Setting {
	switch {
	case document != "":
		return Setting{document, true}
	case base.OfApp:
		return v.ownKey(names...)
	}
	return v.FirstSet(names...)
}

// ChooseBase returns the document's address, the variable's, or the default.
func (v Variables) ChooseBase(document, name, usual string) Setting {
	if document != "" {
		return Setting{document, true}
	}
	if s := v.FirstSet(name); s.Value != "" {
		return s
	}
	return Setting{Value: usual}
}

// Where a key comes from.
const (
	fromDocument = "api_key"
	FromHeaders  = "headers"
	FromGoogle   = "Google credentials"
)

// HasHeader reports whether a document's headers have one of the names.
func HasHeader(headers map[string]spec.Secret, names ...string) bool {
	for header := range headers {
		for _, name := range names {
			if strings.EqualFold(header, name) {
				return true
			}
		}
	}
	return false
}

// SourceOf returns where a key comes from: the document, or one of the variables.
func (v Variables) SourceOf(document string, key Setting, names ...string) string {
	switch {
	case document != "":
		return fromDocument
	case key.Value == "":
		return ""
	}
	for _, name := range names {
		if s, ok := v.LookupVar(name); ok && s == key {
			return name
		}
		if own := v.ownKey(name); own.Value == key.Value {
			return name
		}
	}
	return ""
}
