package provider

import (
	"os"
	"strings"
)

// A CredentialConfig is the config of a model whose calls need a key or a login.
type CredentialConfig interface{ Credential(env Env) Credential }

// A Credential describes the key of a model without its value. The zero value is that of
// a model that needs none.
type Credential struct {
	// From is where the key comes from: api_key, headers, the name of a variable, or
	// "Google credentials" for the login of the host, which is not checked.
	From string
	// Variable is the variable to set if something is missing.
	Variable string
	// Missing is why a call would fail, with the way out, or "".
	Missing string
}

// DescribeCredential describes the key of a model by its config: as a [CredentialConfig],
// or else by the variables of a [KeyConfig]. The config of a model that needs no key is
// neither.
func DescribeCredential(config any, env Env) Credential {
	switch c := config.(type) {
	case CredentialConfig:
		return c.Credential(env)
	case KeyConfig:
		return describeKey(c.KeyVariables(env), env)
	}
	return Credential{}
}

// describeKey describes a key that must be in one of the variables.
func describeKey(names []string, env Env) Credential {
	for _, name := range names {
		if env.lookupValue(name) != "" {
			return Credential{From: name}
		}
	}
	if len(names) == 0 {
		return Credential{}
	}
	return Credential{Variable: names[0], Missing: "no key: set " + strings.Join(names, " or ") + " in the environment or in the app's .env"}
}

// lookupValue returns a variable of the host, or else of the app's .env.
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
