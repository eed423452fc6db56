package bucketstore

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
)

// The examples from Amazon's Signature Version 4 documentation.
func TestS3Signature(t *testing.T) {
	now := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	sign := func(r *http.Request, body, session string) {
		keys := credentials.NewStaticCredentialsProvider("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", session)
		if err := newS3Signer(keys, "us-east-1").signRequest(t.Context(), r, []byte(body), now); err != nil {
			t.Fatal(err)
		}
	}
	const host = "https://examplebucket.s3.amazonaws.com/"
	tests := []struct {
		method, url, body string
		header            http.Header
		want              string
	}{
		{"GET", "test.txt", "", http.Header{"Range": {"bytes=0-9"}}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{
			"PUT", "test%24file.text", "Welcome to Amazon S3.",
			http.Header{"Date": {"Fri, 24 May 2013 00:00:00 GMT"}, "X-Amz-Storage-Class": {"REDUCED_REDUNDANCY"}},
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
		},
		{"GET", "?max-keys=2&prefix=J", "", nil, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(tt.method, host+tt.url, nil) // the examples do not sign a Content-Length
		for k, v := range tt.header {
			r.Header[k] = v
		}
		sign(r, tt.body, "")
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+tt.want) {
			t.Errorf("%s %s: %s", tt.method, tt.url, got)
		}
	}
	r := httptest.NewRequest("GET", host, nil)
	sign(r, "", "token")
	if !strings.Contains(r.Header.Get("Authorization"), "x-amz-security-token") || r.Header.Get("X-Amz-Security-Token") != "token" {
		t.Errorf("with a session token: %v", r.Header)
	}
}
