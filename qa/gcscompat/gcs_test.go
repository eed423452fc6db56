// Package gcscompat runs the artifact suite against fake-gcs-server, a third-party fake for Google
// Cloud Storage. It is a separate module, because that server depends on about two hundred modules.
package gcscompat

import (
	"path"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"agenthost/pkg/store"
	"agenthost/pkg/store/storetest"
	"agenthost/wing/bucketstore"
)

// gs: passes the artifact suite on an independent server.
func TestFakeGCSServer(t *testing.T) {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", NoListener: false})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "box"})
	suite := &storetest.ArtifactSuite{Bucket: true, URI: "gs://box/"}
	suite.Create = func(t testing.TB, o *store.Options) store.ArtifactBackend {
		dir := t.TempDir()
		b, err := bucketstore.Open(t.Context(), "gs://box/"+path.Base(path.Dir(dir))+path.Base(dir), &bucketstore.Options{
			Clock: o.Clock, MaxArtifactBytes: o.MaxArtifactBytes,
			Lookup: func(name string) (string, bool) { return server.URL(), name == "STORAGE_EMULATOR_HOST" },
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	suite.Run(t)
}
