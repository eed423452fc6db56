package bucketstore

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"agenthost/internal/limit"
	"agenthost/pkg/session"
)

const (
	// s3Metadata is the header with all metadata as one JSON object in ASCII:
	// header names ignore case, and values are limited to ASCII.
	s3Metadata = "X-Amz-Meta-Adk"
	// maxS3Metadata is S3's limit for metadata.
	maxS3Metadata = 2048
)

// An s3Bucket is a bucket at Amazon S3 or at a compatible service.
type s3Bucket struct {
	client *bucketClient
	// address is the bucket's URL and ends with a slash.
	address string
}

func openS3(ctx context.Context, rest string, o *Options) (*Artifacts, error) {
	at, err := parseBucket("s3", rest)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(at.query)) {
		if name != "region" && name != "endpoint" {
			return nil, fmt.Errorf("unknown parameter %q: supported are region= and endpoint=", name)
		}
	}
	credentials, region, err := loadS3Credentials(ctx, at.query.Get("region"), o)
	if err != nil {
		return nil, err
	}
	b := &s3Bucket{client: newBucketClient(o)}
	endpoint := cmp.Or(at.query.Get("endpoint"), o.readVariable("AWS_ENDPOINT_URL_S3"), o.readVariable("AWS_ENDPOINT_URL"))
	if b.address, err = buildS3Address(endpoint, region, at.bucket); err != nil {
		return nil, err
	}
	b.client.explain = decodeS3Reason
	signer := newS3Signer(credentials, region)
	b.client.sign = func(ctx context.Context, r *http.Request, body []byte) error {
		return signer.signRequest(ctx, r, body, o.Clock())
	}
	return newArtifacts(b, at, o), nil
}

// buildS3Address returns a bucket's URL. Amazon expects the bucket in the host name, other services
// in the path.
func buildS3Address(endpoint, region, bucket string) (string, error) {
	if endpoint == "" {
		if strings.Contains(bucket, ".") { // the certificates know no dots
			return "https://s3." + region + ".amazonaws.com/" + bucket + "/", nil
		}
		return "https://" + bucket + ".s3." + region + ".amazonaws.com/", nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", errors.New("endpoint must be an address such as https://minio.example.com, without a user")
	}
	return strings.TrimSuffix(u.String(), "/") + "/" + bucket + "/", nil
}

func (b *s3Bucket) objectURL(name string) string { return b.address + escapeS3Path(name, "/") }

func (b *s3Bucket) listObjects(ctx context.Context, l listRequest) ([]object, error) {
	query := url.Values{"list-type": {"2"}, "prefix": {l.prefix}, "encoding-type": {"url"}}
	if l.flat {
		query.Set("delimiter", "/")
	}
	var all []object
	for {
		var page struct {
			Contents []struct {
				Key          string
				LastModified time.Time
			}
			NextContinuationToken string
			IsTruncated           bool
		}
		got, err := b.client.sendRequest(ctx, &bucketRequest{method: http.MethodGet, url: b.address + "?" + canonicalQuery(query), maxBytes: int64(limit.BucketListing.Bytes)})
		if err != nil {
			return nil, err
		}
		if err := xml.Unmarshal(got.body, &page); err != nil {
			return nil, err
		}
		for _, c := range page.Contents {
			name, err := url.QueryUnescape(c.Key)
			if err != nil {
				return nil, err
			}
			o := object{name: name, created: c.LastModified.UTC()}
			if l.full {
				if err := b.readMetadata(ctx, &o); errors.Is(err, fs.ErrNotExist) {
					continue // deleted in this moment
				} else if err != nil {
					return nil, err
				}
			}
			all = append(all, o)
		}
		if !page.IsTruncated {
			return all, nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// readMetadata adds the metadata that a list does not contain.
func (b *s3Bucket) readMetadata(ctx context.Context, o *object) error {
	got, err := b.client.sendRequest(ctx, &bucketRequest{method: http.MethodHead, url: b.objectURL(o.name)})
	if err != nil {
		return mapS3Error(err)
	}
	return o.readHeaders(got.header)
}

// readHeaders reads metadata from a response's headers.
func (o *object) readHeaders(h http.Header) error {
	o.mime = h.Get("Content-Type")
	if at, err := http.ParseTime(h.Get("Last-Modified")); err == nil && o.created.IsZero() {
		o.created = at.UTC()
	}
	if text := h.Get(s3Metadata); text != "" {
		return json.Unmarshal([]byte(text), &o.metadata)
	}
	return nil
}

func (b *s3Bucket) readObject(ctx context.Context, name string, most int64) (*object, error) {
	got, err := b.client.sendRequest(ctx, &bucketRequest{method: http.MethodGet, url: b.objectURL(name), maxBytes: most})
	if err != nil {
		return nil, mapS3Error(err)
	}
	o := &object{name: name, bytes: got.body}
	return o, o.readHeaders(got.header)
}

func (b *s3Bucket) createObject(ctx context.Context, o *object) error {
	header := http.Header{"Content-Type": {o.mime}, "If-None-Match": {"*"}}
	if len(o.metadata) > 0 {
		text, err := json.Marshal(o.metadata)
		if err != nil {
			return err
		}
		if text = escapeNonASCII(text); len(text) > maxS3Metadata {
			return fmt.Errorf("metadata of %d bytes exceeds the S3 limit of %d bytes: %w", len(text), maxS3Metadata, session.ErrInvalid)
		}
		header.Set(s3Metadata, string(text))
	}
	_, err := b.client.sendRequest(ctx, &bucketRequest{method: http.MethodPut, url: b.objectURL(o.name), header: header, body: o.bytes, maxBytes: int64(limit.BucketListing.Bytes)})
	return mapS3Error(err)
}

// escapeNonASCII escapes all other characters in a JSON text.
func escapeNonASCII(text []byte) []byte {
	var out []byte
	for _, c := range string(text) {
		switch {
		case c < 0x80:
			out = append(out, byte(c))
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return out
}

func (b *s3Bucket) deleteObject(ctx context.Context, name string) error {
	_, err := b.client.sendRequest(ctx, &bucketRequest{method: http.MethodDelete, url: b.objectURL(name), maxBytes: int64(limit.BucketListing.Bytes)})
	if errorStatus(err) == http.StatusNotFound {
		return nil
	}
	return err
}

func (b *s3Bucket) close() error {
	b.client.close()
	return nil
}

func mapS3Error(err error) error {
	switch errorStatus(err) {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case http.StatusPreconditionFailed, http.StatusConflict:
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

func decodeS3Reason(body []byte) string {
	var errBody struct{ Code, Message string }
	if xml.Unmarshal(body, &errBody) != nil {
		return ""
	}
	return strings.TrimPrefix(errBody.Code+": "+errBody.Message, ": ")
}
