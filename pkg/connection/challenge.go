package connection

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// A Challenge is what a service requires, in the header WWW-Authenticate of a response with 401 or
// 403 (RFC 6750, 3 and RFC 9728, 5.1). The service has written it: its values are not to be trusted.
type Challenge struct {
	Status int
	// Error is the error code, such as insufficient_scope.
	Error string
	// ResourceMetadata is the URL of the metadata that names the authorization servers.
	ResourceMetadata string
	// Scopes are those that the request needs.
	Scopes []string
}

// A Challenger is a source that can react to a challenge: with an error that ends the request, such
// as a [*ConsentError] for more scopes, or with nil if it cannot help.
type Challenger interface {
	Challenge(ctx context.Context, user User, rejected *Credential, c Challenge) error
}

// The bounds on a challenge.
const (
	maxChallenge = 8 << 10
	maxScopes    = 100
)

// ParseChallenge returns the Bearer challenge in a response; ok is false if there is none.
func ParseChallenge(resp *http.Response) (c Challenge, ok bool) {
	for _, text := range resp.Header.Values("WWW-Authenticate") {
		if len(text) > maxChallenge {
			continue
		}
		for scheme, params := range splitChallenges(text) {
			if !strings.EqualFold(scheme, "Bearer") {
				continue
			}
			c = Challenge{Status: resp.StatusCode, Error: params["error"], ResourceMetadata: params["resource_metadata"]}
			if scopes := strings.Fields(params["scope"]); len(scopes) <= maxScopes {
				c.Scopes = slices.Compact(slices.Sorted(slices.Values(scopes)))
			}
			return c, true
		}
	}
	return Challenge{}, false
}

// splitChallenges yields the schemes in a header with their parameters, whose names are in lower
// case (RFC 9110, 11.2 to 11.6). It stops where the header is not as in the RFC.
func splitChallenges(text string) func(yield func(string, map[string]string) bool) {
	return func(yield func(string, map[string]string) bool) {
		scheme, params := "", map[string]string{}
		for text = strings.TrimLeft(text, " \t,"); text != ""; text = strings.TrimLeft(text, " \t,") {
			word := text[:wordEnd(text)]
			rest := strings.TrimLeft(text[len(word):], " \t")
			switch {
			case word == "":
				text = "" // such as a token68, or garbage
			case strings.HasPrefix(rest, "="):
				value, after, ok := cutParameter(strings.TrimLeft(rest[1:], " \t"))
				if !ok {
					text = ""
					break
				}
				if name := strings.ToLower(word); params[name] == "" {
					params[name] = value
				}
				text = after
			default: // the next scheme
				if scheme != "" && !yield(scheme, params) {
					return
				}
				scheme, params, text = word, map[string]string{}, rest
			}
		}
		if scheme != "" {
			yield(scheme, params)
		}
	}
}

// wordEnd returns the length of the token at the beginning of a string.
func wordEnd(text string) int {
	if end := strings.IndexAny(text, " \t,=\""); end >= 0 {
		return end
	}
	return len(text)
}

// cutParameter cuts a token or a quoted string from the beginning of a string.
func cutParameter(text string) (value, after string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, " \t,")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], true
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			if i++; i < len(text) {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", false
}
