package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	"agenthost/pkg/spec"
)

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

const (
	fromDocument = "api_key"
	fromHeaders  = "headers"
	fromGoogle   = "Google credentials"
)

// hasHeader reports whether the headers of a document have one of the names.
func hasHeader(headers map[string]spec.Secret, names ...string) bool {
	for header := range headers {
		for _, name := range names {
			if strings.EqualFold(header, name) {
				return true
			}
		}
	}
	return false
}

// sourceOf returns where a key comes from: the document, or one of the variables.
func (v variables) sourceOf(document string, key setting, names ...string) string {
	switch {
	case document != "":
		return fromDocument
	case key.value == "":
		return ""
	}
	for _, name := range names {
		if s, ok := v.lookupVar(name); ok && s == key {
			return name
		}
		if own := v.ownKey(name); own.value == key.value {
			return name
		}
	}
	return ""
}
