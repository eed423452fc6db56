// Package gcscompat runs the artifact suite against fake-gcs-server, a third-party fake
// of Google Cloud Storage. It is a module of its own, because that server depends on
// about two hundred modules.
package gcscompat

import (
	"cmp"
	"path"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"agenthost/internal/artifactsuite"
	"agenthost/pkg/store"
)

// gs: passes the artifact suite on an independent implementation of the server.
func TestFakeGCSServer(t *testing.T) {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", NoListener: false})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "box"})
	suite := &artifactsuite.Suite{Bucket: true, URI: "gs://box/"}
	suite.Open = func(t *testing.T, o *store.Options) *store.Artifacts {
		c := *cmp.Or(o, &store.Options{})
		dir := t.TempDir()
		c.Artifacts = "gs://box/" + path.Base(path.Dir(dir)) + path.Base(dir)
		c.Lookup = func(name string) (string, bool) { return server.URL(), name == "STORAGE_EMULATOR_HOST" }
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
}
