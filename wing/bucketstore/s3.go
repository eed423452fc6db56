package bucketstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"agenthost/internal/limit"
	"agenthost/pkg/session"
)

const (
	// s3Metadata is the metadata key with all metadata as one JSON object in ASCII:
	// the keys ignore case, and values are limited to ASCII.
	s3Metadata = "adk"
	// maxS3Metadata is the limit of S3 for metadata.
	maxS3Metadata = 2048
)

// An s3Bucket is a bucket of Amazon S3 or of a compatible service.
type s3Bucket struct {
	client s3Transport
	api    *s3.Client
	name   *string
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
	endpoint, err := parseS3Endpoint(cmp.Or(at.query.Get("endpoint"), o.readVariable("AWS_ENDPOINT_URL_S3"), o.readVariable("AWS_ENDPOINT_URL")))
	if err != nil {
		return nil, err
	}
	credentials, region, err := loadS3Credentials(ctx, at.query.Get("region"), o)
	if err != nil {
		return nil, err
	}
	client := s3Transport{newBucketClient(o)}
	client.explain = decodeS3Reason
	api := s3.New(s3.Options{
		Region: region, BaseEndpoint: endpoint, UsePathStyle: endpoint != nil,
		Credentials: credentials, HTTPSignerV4: newS3Signer(o.Clock),
		HTTPClient: client, Retryer: aws.NopRetryer{}, // the client limits responses and retries
		// Not all compatible services know checksums, and a pause before the body.
		RequestChecksumCalculation:   aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation:   aws.ResponseChecksumValidationWhenRequired,
		ContinueHeaderThresholdBytes: -1,
		APIOptions:                   []func(*middleware.Stack) error{signPayload},
	})
	return newArtifacts(&s3Bucket{client, api, &at.bucket}, at, o), nil
}

// parseS3Endpoint returns the URL of a compatible service, nil for Amazon. Amazon expects
// the bucket in the host name, other services in the path.
func parseS3Endpoint(endpoint string) (*string, error) {
	if endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("endpoint must be an address such as https://minio.example.com, without a user")
	}
	return aws.String(strings.TrimSuffix(u.String(), "/")), nil
}

// signPayload includes the body in each signature. The SDK would leave it out over HTTPS.
func signPayload(stack *middleware.Stack) error {
	hash := &v4.ComputePayloadSHA256{}
	_, err := stack.Finalize.Swap(hash.ID(), hash)
	return err
}

// An s3Signer signs requests with AWS Signature Version 4, by a clock.
type s3Signer struct {
	*v4.Signer
	clock func() time.Time
}

func newS3Signer(clock func() time.Time) *s3Signer {
	return &s3Signer{clock: clock, Signer: v4.NewSigner(func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = true // S3 signs the path as sent, other services escape it again
	})}
}

// SignHTTP is a method of [s3.HTTPSignerV4]. It removes the headers that describe the SDK:
// proxies change them, which invalidates the signature.
func (s *s3Signer) SignHTTP(ctx context.Context, credentials aws.Credentials, r *http.Request, hash, service, region string, _ time.Time, opts ...func(*v4.SignerOptions)) error {
	for _, name := range []string{"Accept-Encoding", "Amz-Sdk-Invocation-Id", "Amz-Sdk-Request"} {
		r.Header.Del(name)
	}
	return s.Signer.SignHTTP(ctx, credentials, r, hash, service, region, s.clock().UTC(), opts...)
}

func (b *s3Bucket) listObjects(ctx context.Context, l listRequest) ([]object, error) {
	in := &s3.ListObjectsV2Input{Bucket: b.name, Prefix: &l.prefix, EncodingType: types.EncodingTypeUrl}
	if l.flat {
		in.Delimiter = aws.String("/")
	}
	var all []object
	for {
		page, err := b.api.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, unwrapS3Error(err)
		}
		for _, c := range page.Contents {
			name, err := url.QueryUnescape(aws.ToString(c.Key))
			if err != nil {
				return nil, err
			}
			o := object{name: name, created: aws.ToTime(c.LastModified).UTC()}
			if l.full {
				if err := b.readMetadata(ctx, &o); errors.Is(err, fs.ErrNotExist) {
					continue // deleted in this moment
				} else if err != nil {
					return nil, err
				}
			}
			all = append(all, o)
		}
		if !aws.ToBool(page.IsTruncated) {
			return all, nil
		}
		in.ContinuationToken = page.NextContinuationToken
	}
}

// readMetadata adds the metadata that a list does not contain.
func (b *s3Bucket) readMetadata(ctx context.Context, o *object) error {
	got, err := b.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b.name, Key: &o.name})
	if err != nil {
		return mapS3Error(err)
	}
	return o.setMetadata(got.ContentType, got.Metadata)
}

// setMetadata sets what the headers of a response contain.
func (o *object) setMetadata(mime *string, metadata map[string]string) error {
	o.mime = aws.ToString(mime)
	if text := metadata[s3Metadata]; text != "" {
		return json.Unmarshal([]byte(text), &o.metadata)
	}
	return nil
}

func (b *s3Bucket) readObject(ctx context.Context, name string, most int64) (*object, error) {
	got, err := b.api.GetObject(limitResponse(ctx, most), &s3.GetObjectInput{Bucket: b.name, Key: &name})
	if err != nil {
		return nil, mapS3Error(err)
	}
	o := &object{name: name, created: aws.ToTime(got.LastModified).UTC()}
	if o.bytes, err = io.ReadAll(got.Body); err != nil { // from memory
		return nil, err
	}
	return o, o.setMetadata(got.ContentType, got.Metadata)
}

func (b *s3Bucket) createObject(ctx context.Context, o *object) error {
	in := &s3.PutObjectInput{Bucket: b.name, Key: &o.name, Body: bytes.NewReader(o.bytes), ContentType: &o.mime, IfNoneMatch: aws.String("*")}
	if len(o.metadata) > 0 {
		text, err := json.Marshal(o.metadata)
		if err != nil {
			return err
		}
		if text = escapeNonASCII(text); len(text) > maxS3Metadata {
			return fmt.Errorf("metadata of %d bytes exceeds the S3 limit of %d bytes: %w", len(text), maxS3Metadata, session.ErrInvalid)
		}
		in.Metadata = map[string]string{s3Metadata: string(text)}
	}
	_, err := b.api.PutObject(ctx, in)
	return mapS3Error(err)
}

// escapeNonASCII escapes all other characters of a JSON text.
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
	_, err := b.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b.name, Key: &name})
	if err = mapS3Error(err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (b *s3Bucket) close() error {
	b.client.close()
	return nil
}

// An s3Transport sends the requests that the SDK has signed with the retries and limits of
// all buckets.
type s3Transport struct{ *bucketClient }

// maxS3Response is the key of the limit of a response in a context.
type maxS3Response struct{}

// limitResponse limits the bytes of the response to a request.
func limitResponse(ctx context.Context, most int64) context.Context {
	return context.WithValue(ctx, maxS3Response{}, most)
}

// Do is a method of [s3.HTTPClient]. The body of its response is in memory.
func (t s3Transport) Do(r *http.Request) (*http.Response, error) {
	a := &bucketRequest{method: r.Method, url: r.URL.String(), header: r.Header, maxBytes: int64(limit.BucketListing.Bytes)}
	if most, ok := r.Context().Value(maxS3Response{}).(int64); ok {
		a.maxBytes = most
	}
	if r.Body != nil {
		var err error
		if a.body, err = io.ReadAll(r.Body); err != nil {
			return nil, &s3TransportError{err}
		}
	}
	got, err := t.sendRequest(r.Context(), a)
	if err != nil {
		return nil, &s3TransportError{err}
	}
	return &http.Response{StatusCode: got.status, Header: got.header, Body: io.NopCloser(bytes.NewReader(got.body)), ContentLength: int64(len(got.body)), Request: r}, nil
}

// An s3TransportError is an error of [s3Transport] inside those of the SDK.
type s3TransportError struct{ error }

// unwrapS3Error returns the cause of an error without the context that the SDK adds.
func unwrapS3Error(err error) error {
	var credentials *credentialsError
	var own *s3TransportError
	var operation *smithy.OperationError
	switch {
	case errors.As(err, &credentials):
		return fmt.Errorf("%w: %w", errAuthentication, credentials)
	case errors.As(err, &own):
		return own.error
	case errors.As(err, &operation):
		return operation.Err
	}
	return err
}

// mapS3Error is unwrapS3Error for a request about one object.
func mapS3Error(err error) error {
	err = unwrapS3Error(err)
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
