package bucketstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// An s3Signer signs requests with AWS Signature Version 4.
type s3Signer struct {
	credentials aws.CredentialsProvider
	region      string
	signer      *v4.Signer
}

func newS3Signer(credentials aws.CredentialsProvider, region string) *s3Signer {
	return &s3Signer{credentials, region, v4.NewSigner(func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = true // S3 signs the path as sent, other services escape it again
	})}
}

// signRequest adds the authentication headers. It signs all request headers, so it must run last.
func (s *s3Signer) signRequest(ctx context.Context, r *http.Request, body []byte, now time.Time) error {
	credentials, err := retrieveS3Credentials(ctx, s.credentials)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", hash)
	return s.signer.SignHTTP(ctx, credentials, r, hash, "s3", s.region, now.UTC())
}

// canonicalQuery sorts and escapes the parameters for the signature.
func canonicalQuery(q url.Values) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		pairs = append(pairs, escapeS3Path(name, "")+"="+escapeS3Path(q.Get(name), ""))
	}
	return strings.Join(pairs, "&")
}

// escapeS3Path escapes everything but RFC 3986's unreserved characters and the bytes in keep.
func escapeS3Path(text, keep string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if letter || strings.IndexByte("-._~"+keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
