package bucketstore

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	s3Algorithm = "AWS4-HMAC-SHA256"
	s3Time      = "20060102T150405Z"
)

// s3Keys sign requests with AWS Signature Version 4.
type s3Keys struct {
	id, secret, session string
	region              string
}

// signRequest adds the authentication headers. It signs all headers of the
// request, so it must run last.
func (k *s3Keys) signRequest(r *http.Request, body []byte, now time.Time) {
	now = now.UTC()
	r.Header.Set("X-Amz-Date", now.Format(s3Time))
	r.Header.Set("X-Amz-Content-Sha256", hexSHA256(body))
	if k.session != "" {
		r.Header.Set("X-Amz-Security-Token", k.session)
	}
	names, headers := canonicalHeaders(r)
	canonical := strings.Join([]string{
		r.Method, escapeS3Path(r.URL.Path, "/"), canonicalQuery(r.URL.Query()), headers, names, hexSHA256(body),
	}, "\n")
	scope := strings.Join([]string{now.Format("20060102"), k.region, "s3", "aws4_request"}, "/")
	text := strings.Join([]string{s3Algorithm, now.Format(s3Time), scope, hexSHA256([]byte(canonical))}, "\n")
	key := []byte("AWS4" + k.secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = hmacSHA256(key, part)
	}
	r.Header.Set("Authorization", fmt.Sprintf("%s Credential=%s/%s,SignedHeaders=%s,Signature=%s",
		s3Algorithm, k.id, scope, names, hex.EncodeToString(hmacSHA256(key, text))))
}

// canonicalHeaders returns the sorted header names, and a line for each header.
func canonicalHeaders(r *http.Request) (names, lines string) {
	values := map[string]string{"host": r.URL.Host}
	for name, v := range r.Header {
		values[strings.ToLower(name)] = strings.TrimSpace(strings.Join(v, ","))
	}
	order := slices.Sorted(maps.Keys(values))
	for _, name := range order {
		lines += name + ":" + values[name] + "\n"
	}
	return strings.Join(order, ";"), lines
}

// canonicalQuery sorts and escapes the parameters for the signature.
func canonicalQuery(q url.Values) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		pairs = append(pairs, escapeS3Path(name, "")+"="+escapeS3Path(q.Get(name), ""))
	}
	return strings.Join(pairs, "&")
}

// escapeS3Path escapes everything but the unreserved characters of RFC 3986 and
// the bytes of keep.
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

func hexSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
