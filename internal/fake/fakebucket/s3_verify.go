package fakebucket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// verifySignature returns the code of S3's error for a request that is not signed with valid
// credentials from the issuer, or "". It follows the AWS Signature Version 4 documentation,
// independently of the SDK.
func (a *AWS) verifySignature(r *http.Request, payload string) string {
	fields := map[string]string{}
	rest, _ := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	id, scope, _ := strings.Cut(fields["Credential"], "/")
	keys, ok := a.findKeys(id)
	switch {
	case !ok:
		return "InvalidAccessKeyId"
	case r.Header.Get("X-Amz-Security-Token") != keys.session:
		return "InvalidToken"
	case !time.Now().Before(keys.expires):
		return "ExpiredToken"
	}
	var headers strings.Builder
	for name := range strings.SplitSeq(fields["SignedHeaders"], ";") {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		headers.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	canonical := strings.Join([]string{
		r.Method, r.URL.EscapedPath(), r.URL.RawQuery, headers.String(), fields["SignedHeaders"], payload,
	}, "\n")
	sum := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope, hex.EncodeToString(sum[:])}, "\n")
	key := []byte("AWS4" + keys.secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = hmacSHA256(key, part)
	}
	if !hmac.Equal([]byte(hex.EncodeToString(hmacSHA256(key, text))), []byte(fields["Signature"])) {
		return "SignatureDoesNotMatch"
	}
	return ""
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
