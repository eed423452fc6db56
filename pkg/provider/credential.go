package provider

import (
	"os"
	"strings"
)

// A CredentialConfig is the config for a model whose calls need a key or a login.
type CredentialConfig interface{ Credential(env Env) Credential }

// A Credential describes a model's key without its value. The zero value is for a model that needs
// none.
type Credential struct {
	// From is where the key comes from: api_key, headers, a variable's name, or "Google
	// credentials" for the host's login, which is not checked.
	From string
	// Variable is the variable to set if something is missing.
	Variable string
	// Missing is why a call would fail, with the way out, or "".
	Missing string
}

// DescribeCredential describes a model's key by its config: as a [CredentialConfig], or else by a
// [KeyConfig]'s variables. The config for a model that needs no key is neither.
func DescribeCredential(config any, env Env) Credential {
	switch c := config.(type) {
	case CredentialConfig:
		return c.Credential(env)
	case KeyConfig:
		names := c.KeyVariables(env)
		for _, name := range names {
			if env.lookupValue(name) != "" {
				return Credential{From: name}
			}
		}
		if len(names) > 0 {
			return Credential{Variable: names[0], Missing: "no key: set " + strings.Join(names, " or ") + " in the environment or in the app's .env"}
		}
	}
	return Credential{}
}

// lookupValue returns a host variable, or else the one in the app's .env.
func (env Env) lookupValue(name string) string {
	host := env.Lookup
	if host == nil {
		host = os.LookupEnv
	}
	if value, ok := host(name); ok {
		return value
	}
	return env.App[name]
}
