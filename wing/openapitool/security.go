package openapitool

// A securityScheme is how a service expects a credential.
type securityScheme struct {
	// key is the name in the document, kind its type: apiKey, http, oauth2, openIdConnect.
	key, kind string
	// in and name are an API key's place; scheme is basic or bearer.
	in, name, scheme string
}

// describeScheme names the scheme in messages.
func (s *securityScheme) describeScheme() string {
	switch s.kind {
	case "apiKey":
		return s.key + " (apiKey in " + s.in + ")"
	case "http":
		return s.key + " (http " + s.scheme + ")"
	}
	return s.key + " (" + s.kind + ")"
}
