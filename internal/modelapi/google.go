package modelapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"cloud.google.com/go/auth/credentials"
	"google.golang.org/genai"
)

// location matches Google's region names. The region becomes part of the host name, so other
// characters could change the host.
var location = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// VertexURL returns Vertex AI's address in a region, like the SDK.
func VertexURL(at string) (string, error) {
	switch {
	case at == "" || at == "global":
		return "https://aiplatform.googleapis.com/", nil
	case !location.MatchString(at):
		return "", fmt.Errorf("GOOGLE_CLOUD_LOCATION must be a region such as europe-west1, got %q", at)
	case at == "us" || at == "eu":
		return "https://aiplatform." + at + ".rep.googleapis.com/", nil
	}
	return "https://" + at + "-aiplatform.googleapis.com/", nil
}

const cloudScope = "https://www.googleapis.com/auth/cloud-platform"

// NoVertexLogin is the error on a host without Google credentials.
const NoVertexLogin = "no credentials for Vertex AI: set GOOGLE_APPLICATION_CREDENTIALS for the host, " +
	"or run gcloud auth application-default login"

// DetectGoogleCredentials returns the token source from Google's application default credentials,
// and the project that they bill, or "".
func DetectGoogleCredentials(ctx context.Context) (token func(context.Context) (string, error), quota string, err error) {
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{cloudScope}})
	if err != nil {
		return nil, "", err
	}
	if quota, err = found.QuotaProjectID(ctx); err != nil {
		quota = ""
	}
	return func(ctx context.Context) (string, error) {
		token, err := found.Token(ctx)
		if err != nil {
			return "", err
		}
		return token.Value, nil
	}, quota, nil
}

// ParseErrorBody parses Google's error JSON, alone or in a list (as Vertex AI sends it
// for streams). It uses other bodies as the message.
func ParseErrorBody(body []byte) genai.APIError {
	var one struct{ Error genai.APIError }
	if json.Unmarshal(body, &one) == nil && one.Error.Message != "" {
		return one.Error
	}
	var list []struct{ Error genai.APIError }
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		return list[0].Error
	}
	return genai.APIError{Message: truncateBytes(bytes.TrimSpace(body))}
}

// IsGemini3 reports whether a model's name has version 3 or newer.
func IsGemini3(name string) bool {
	version, ok := strings.CutPrefix(path.Base(name), "gemini-")
	return ok && version != "" && '3' <= version[0] && version[0] <= '9'
}

// unsignedCall is Google's documented signature for unsigned calls of other models: Gemini 3
// rejects a step whose first call is not signed.
const unsignedCall = "skip_thought_signature_validator"

// SignCalls signs the first call of each step without a signature, such as a fallback's. It does
// not modify contents.
func SignCalls(contents []*genai.Content) []*genai.Content {
	own := slices.Clone(contents)
	for i, c := range own {
		isCall := func(p *genai.Part) bool { return p.FunctionCall != nil }
		isSigned := func(p *genai.Part) bool { return isCall(p) && len(p.ThoughtSignature) > 0 }
		first := slices.IndexFunc(c.Parts, isCall)
		if first < 0 || slices.ContainsFunc(c.Parts, isSigned) {
			continue
		}
		call := *c.Parts[first]
		call.ThoughtSignature = []byte(unsignedCall)
		own[i] = &genai.Content{Role: c.Role, Parts: slices.Clone(c.Parts)}
		own[i].Parts[first] = &call
	}
	return own
}
