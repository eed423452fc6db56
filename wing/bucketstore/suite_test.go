package bucketstore

import (
	"net/http/httptest"
	"path"
	"testing"

	"agenthost/internal/fake/fakebucket"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storetest"
)

// Every place does what the suite asks for.
func TestArtifactsPassSuite(t *testing.T) {
	google, amazon := httptest.NewServer(&fakebucket.GCS{}), httptest.NewServer(&fakebucket.S3{})
	t.Cleanup(google.Close)
	t.Cleanup(amazon.Close)
	env := map[string]string{
		"STORAGE_EMULATOR_HOST": google.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL_S3": amazon.URL,
	}
	for _, tt := range []struct{ uri, params string }{{"gs://box/", ""}, {"s3://box/", "?region=eu-central-1"}} {
		t.Run(tt.uri[:2], func(t *testing.T) {
			suite := &storetest.ArtifactSuite{Bucket: true, URI: tt.uri}
			suite.Create = func(t testing.TB, o *store.Options) store.ArtifactBackend {
				b, err := Open(t.Context(), tt.uri+randomFolder(t)+tt.params, &Options{Clock: o.Clock, MaxArtifactBytes: o.MaxArtifactBytes, Lookup: lookup(env)})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			suite.Run(t)
		})
	}
}

// randomFolder is a prefix that no other test has.
func randomFolder(t testing.TB) string {
	return path.Base(path.Dir(t.TempDir())) + path.Base(t.TempDir())
}
