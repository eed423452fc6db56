package store

import (
	"context"
	"fmt"
	"strings"
)

// An artifactScheme opens the artifact store of URLs that begin with its name.
type artifactScheme struct {
	name, form string
	// open gets the URL after the colon.
	open func(ctx context.Context, rest string, o *Options) (artifactStore, error)
}

// artifactSchemes returns all artifact store schemes.
func artifactSchemes() []artifactScheme {
	return []artifactScheme{
		{"memory", "memory:", openMemArtifacts},
		{"dir", "dir:///folder", openDir},
		{"gs", "gs://bucket/prefix", openGCS},
		{"s3", "s3://bucket/prefix", openS3},
	}
}

// openArtifacts opens the artifact store of a URL.
func openArtifacts(ctx context.Context, url string, o *Options) (*Artifacts, error) {
	name, rest, _ := strings.Cut(url, ":")
	var forms []string
	for _, s := range artifactSchemes() {
		if s.name == name {
			b, err := s.open(ctx, rest, o)
			if err != nil {
				return nil, err
			}
			return &Artifacts{backend: b, clock: o.Clock, maxBytes: o.MaxArtifactBytes}, nil
		}
		forms = append(forms, s.form)
	}
	last := len(forms) - 1
	return nil, fmt.Errorf("unknown scheme %q: supported are %s and %s", name, strings.Join(forms[:last], ", "), forms[last])
}

func openMemArtifacts(_ context.Context, rest string, _ *Options) (artifactStore, error) {
	if rest != "" && rest != "//" {
		return nil, fmt.Errorf("memory: has no path, got %q", rest)
	}
	return newMemArtifacts(), nil
}
