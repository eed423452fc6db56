package provider

// A KeyConfig is the config of a model whose key can be in the environment.
type KeyConfig interface {
	// KeyVariables returns the variables that may hold the key, the usual one first, or
	// none if calls need no key of a variable.
	KeyVariables(env Env) []string
}

var (
	_ KeyConfig = (*geminiConfig)(nil)
	_ KeyConfig = (*chatConfig)(nil)
)

// KeyVariables returns the variables of the Gemini API. A project of Vertex AI needs no key.
func (c *geminiConfig) KeyVariables(env Env) []string {
	return geminiAccess{base: c.BaseURL.Value}.keyVariables(newVariables(env.Lookup, env.App))
}

// keyVariables returns the variables of the key. A project of Vertex AI needs none.
func (a geminiAccess) keyVariables(v variables) []string {
	c, err := a.resolveEndpoint(v)
	if err != nil || c.project.value != "" {
		return nil
	}
	return geminiKeyVariables()
}

// KeyVariables returns the variables of the service. A local server needs no key.
func (c *chatConfig) KeyVariables(Env) []string {
	if c.vendor.local {
		return nil
	}
	return c.vendor.keyVariables
}

func geminiKeyVariables() []string { return []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"} }
