package bucketstore

import (
	"context"

	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

// Schemes returns the schemes for artifacts in buckets, gs: and s3:.
func Schemes() []storeurl.Scheme {
	return []storeurl.Scheme{
		{Names: []string{"gs"}, Form: "gs://bucket/prefix", Artifacts: openArtifacts},
		{Names: []string{"s3"}, Form: "s3://bucket/prefix", Artifacts: openArtifacts},
	}
}

// openArtifacts is the Artifacts of a [storeurl.Scheme].
func openArtifacts(ctx context.Context, url string, o *storeurl.Options) (store.ArtifactBackend, error) {
	return Open(ctx, url, &Options{Clock: o.Clock, HTTP: o.HTTP, Lookup: o.Lookup, MaxArtifactBytes: o.MaxArtifactBytes})
}
