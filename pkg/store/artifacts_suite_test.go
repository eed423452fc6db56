package store_test

import (
	"cmp"
	"net/http/httptest"
	"path"
	"testing"

	"agenthost/internal/artifactsuite"
	"agenthost/internal/fakebucket"
	"agenthost/pkg/store"
)

// Every place does what the suite asks for.
func TestArtifacts(t *testing.T) {
	google, amazon := httptest.NewServer(&fakebucket.GCS{}), httptest.NewServer(&fakebucket.S3{})
	t.Cleanup(google.Close)
	t.Cleanup(amazon.Close)
	env := map[string]string{
		"STORAGE_EMULATOR_HOST": google.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL_S3": amazon.URL,
	}
	tests := []struct {
		name, uri string
		bucket    bool
		place     func(t *testing.T) string
	}{
		{"memory", "memory://apps/app/", false, func(*testing.T) string { return "memory:" }},
		{"dir", "file:///", false, func(t *testing.T) string { return "dir://" + t.TempDir() }},
		{"gs", "gs://box/", true, func(t *testing.T) string { return "gs://box/" + randomFolder(t) }},
		{"s3", "s3://box/", true, func(t *testing.T) string { return "s3://box/" + randomFolder(t) + "?region=eu-central-1" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			suite := &artifactsuite.Suite{Bucket: tt.bucket, URI: tt.uri}
			suite.Open = func(t *testing.T, o *store.Options) *store.Artifacts {
				c := *cmp.Or(o, &store.Options{})
				c.Artifacts, c.Lookup = tt.place(t), func(name string) (string, bool) { v, ok := env[name]; return v, ok }
				s, err := store.Open(t.Context(), "memory:", &c)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				return s.Artifacts
			}
			suite.Run(t)
		})
	}
}

// randomFolder is a prefix that no other test has.
func randomFolder(t *testing.T) string {
	return path.Base(path.Dir(t.TempDir())) + path.Base(t.TempDir())
}
