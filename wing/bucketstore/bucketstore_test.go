package bucketstore

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakebucket"
	"agenthost/internal/limit"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// lookup is an environment.
func lookup(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

// A service answers requests without a network.
type service func(r *http.Request) *http.Response

func (s service) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if res := s(r); res != nil {
		return res, nil
	}
	return nil, io.ErrUnexpectedEOF
}

// serve makes a handler a service.
func serve(h http.Handler) service {
	return func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
}

func errorResponse(status int, body string, header http.Header) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

// openBucket opens artifacts over a service; without options the environment has all
// that s3 and gs ask for.
func openBucket(t *testing.T, url string, s service, o *Options) *store.Artifacts {
	t.Helper()
	c := Options{}
	if o != nil {
		c = *o
	}
	if c.HTTP = (&http.Client{Transport: s}); c.Lookup == nil {
		c.Lookup = lookup(map[string]string{
			"STORAGE_EMULATOR_HOST": "gcs.test", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_ENDPOINT_URL": "http://s3.test",
		})
	}
	a, err := Open(t.Context(), url, &c)
	if err != nil {
		t.Fatal(err)
	}
	return newStore(t, a, &c)
}

// newStore returns a store's artifacts with a backend, and closes it at the end.
func newStore(t *testing.T, a *Artifacts, c *Options) *store.Artifacts {
	t.Helper()
	b := memstore.NewBackends()
	b.Artifacts = a
	st := store.New(b, &store.Options{Clock: c.Clock, MaxArtifactBytes: c.MaxArtifactBytes})
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st.Artifacts
}

func TestBucketRetry(t *testing.T) {
	for _, url := range []string{"gs://box", "s3://box"} {
		synctest.Test(t, func(t *testing.T) {
			var handler http.Handler = &fakebucket.GCS{}
			if strings.HasPrefix(url, "s3") {
				handler = &fakebucket.S3{}
			}
			n := 0
			a := openBucket(t, url, func(r *http.Request) *http.Response {
				switch n++; n {
				case 1, 5:
					return errorResponse(503, "", nil)
				case 2:
					return errorResponse(429, "", http.Header{"Retry-After": {"7"}})
				case 3:
					return nil // the connection is lost
				}
				return serve(handler)(r)
			}, nil)
			began := time.Now()
			diff(t, "version", 0, saveArtifact(t, a, alice, "a", textPart("x")))
			if waited := time.Since(began); waited < 7*time.Second || waited > 12*time.Second {
				t.Errorf("waited %v", waited)
			}
			part, err := a.Load(t.Context(), alice, "a", 0)
			if err != nil || part.Text != "x" {
				t.Errorf("Load = %v, %v", part, err)
			}
		})
	}
}

func TestBucketRetryLimit(t *testing.T) {
	tests := []struct {
		name, url string
		answer    func() *http.Response
		asked     int
		want      string
	}{
		{
			"busy", "gs://box/p", func() *http.Response { return errorResponse(503, `{"error":{"message":"Backend Error"}}`, nil) },
			maxBucketAttempts, `listing artifacts of user "alice" in gs://box/p/: 503 Service Unavailable: Backend Error`,
		},
		{
			"forbidden", "gs://box", func() *http.Response {
				return errorResponse(403, `{"error":{"message":"bot@x does not have storage.objects.list access"}}`, nil)
			},
			1, "403 Forbidden: bot@x does not have storage.objects.list access",
		},
		{"forbidden by a page", "gs://box", func() *http.Response { return errorResponse(403, `<html>`, nil) }, 1, "in gs://box/: 403 Forbidden"},
		{"lost", "gs://box", func() *http.Response { return nil }, maxBucketAttempts, "unexpected EOF"},
		{"moved", "s3://box", func() *http.Response {
			return errorResponse(301, `<Error><Code>PermanentRedirect</Code><Message>Use another endpoint.</Message></Error>`, http.Header{"Location": {"http://else.test"}})
		}, 1, "in s3://box/: 301 Moved Permanently: PermanentRedirect: Use another endpoint."},
		{"s3 busy", "s3://box", func() *http.Response { return errorResponse(503, `<Error><Code>SlowDown</Code></Error>`, nil) }, maxBucketAttempts, "503 Service Unavailable: SlowDown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				a := openBucket(t, tt.url, func(*http.Request) *http.Response { n++; return tt.answer() }, nil)
				_, err := a.Keys(t.Context(), alice)
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
					t.Errorf("Keys = %v, want %q", err, tt.want)
				}
				diff(t, "times asked", tt.asked, n)
			})
		})
	}
}

// Canceling the context ends the retries.
func TestBucketRetryCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		a := openBucket(t, "gs://box", func(*http.Request) *http.Response {
			return errorResponse(503, "", http.Header{"Retry-After": {"3600"}})
		}, nil)
		_, err := a.Save(ctx, alice, "a", textPart("x"))
		wantErr(t, "Save", err, context.DeadlineExceeded, "saving artifact")
	})
}

func TestBucketMissing(t *testing.T) {
	for url, service := range map[string]service{"gs://missing": serve(&fakebucket.GCS{}), "s3://missing": serve(&fakebucket.S3{})} {
		a := openBucket(t, url, service, nil)
		_, err := a.Save(t.Context(), alice, "a", textPart("x"))
		if err == nil || !strings.Contains(err.Error(), "pecified bucket does not exist") || errors.Is(err, session.ErrNotFound) {
			t.Errorf("Save to %s = %v", url, err)
		}
		_, err = a.Load(t.Context(), alice, "a", -1)
		if err == nil || !strings.Contains(err.Error(), "loading artifact \"a\" in "+url+"/: 404 Not Found") {
			t.Errorf("Load from %s = %v", url, err)
		}
	}
}

func TestBucketInvalidArtifact(t *testing.T) {
	long := session.Key{App: "app", User: strings.Repeat("語", 255), ID: "s"}
	custom := func(k string, v any) *store.NewArtifact {
		return &store.NewArtifact{Name: "a", Part: textPart("x"), CustomMetadata: map[string]any{k: v}}
	}
	for url, service := range map[string]service{"gs://box": serve(&fakebucket.GCS{}), "s3://box": serve(&fakebucket.S3{})} {
		a := openBucket(t, url, service, nil)
		for _, tt := range []struct {
			key  session.Key
			n    *store.NewArtifact
			want string
		}{
			{long, &store.NewArtifact{Name: strings.Repeat("n", 400), Part: textPart("x")}, "exceeds the limit of 1024 bytes"},
			{alice, &store.NewArtifact{Name: "a\nb", Part: textPart("x")}, "object names cannot contain line breaks"},
			{alice, &store.NewArtifact{Name: "a", Part: &genai.Part{InlineData: &genai.Blob{MIMEType: "x/y\r\nz"}}}, `invalid MIME type "x/y\r\nz"`},
			{alice, custom("adkIsText", "true"), `artifact "a": custom metadata: key "adkIsText" is reserved by ADK`},
		} {
			_, err := a.Create(t.Context(), tt.key, tt.n)
			wantErr(t, "Create in "+url, err, session.ErrInvalid, tt.want)
		}
	}
	a := openBucket(t, "s3://box", serve(&fakebucket.S3{}), nil)
	_, err := a.Create(t.Context(), alice, custom("k", strings.Repeat("ü", 400)))
	wantErr(t, "Create with much metadata", err, session.ErrInvalid, "metadata of 2427 bytes exceeds the S3 limit of 2048 bytes")
}

// Other writers' objects may exceed the size limit.
func TestBucketLargeArtifact(t *testing.T) {
	for url, service := range map[string]service{"gs://box": serve(&fakebucket.GCS{}), "s3://box": serve(&fakebucket.S3{})} {
		saveArtifact(t, openBucket(t, url, service, nil), alice, "a", textPart("123456789"))
		_, err := openBucket(t, url, service, &Options{MaxArtifactBytes: 8}).Load(t.Context(), alice, "a", -1)
		wantErr(t, "Load from "+url, err, session.ErrInvalid, `artifact "a" version 0 exceeds the limit of 8 bytes`)
	}
}

// A listing at the limits is read; one byte or value more is an error that names the limit.
func TestBucketLargeListing(t *testing.T) {
	gcs := func(items int, padding int) string {
		return `{"items":[` + strings.TrimSuffix(strings.Repeat("{},", items), ",") + "]" + strings.Repeat(" ", padding) + "}"
	}
	// An item has two values, its object and the comma after it; the object and the list
	// around them have three.
	most, empty := limit.BucketListing, len(gcs(0, 0))
	for _, tt := range []struct {
		url, listing, want string
	}{
		{"gs://box", gcs((most.Values-2)/2, 0), ""},
		{"gs://box", gcs(most.Values/2, 0), "bucket listing exceeds the limit of 250000 values"},
		{"gs://box", gcs(0, most.Bytes-empty), ""},
		{"gs://box", gcs(0, most.Bytes-empty+1), "exceeds the limit of 16 MiB"},
		{"s3://box", "<a>" + strings.Repeat(" ", most.Bytes-7) + "</a>", ""},
		{"s3://box", "<a>" + strings.Repeat(" ", most.Bytes-6) + "</a>", "exceeds the limit of 16 MiB"},
	} {
		reply := func(*http.Request) *http.Response { return errorResponse(http.StatusOK, tt.listing, http.Header{}) }
		_, err := openBucket(t, tt.url, reply, nil).Keys(t.Context(), alice)
		if tt.want == "" && err != nil || tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("a listing of %d bytes in %s: %v, want %q", len(tt.listing), tt.url, err, tt.want)
		}
	}
}

// The blobs are those that adk-python's artifacts/gcs_artifact_service.py writes and reads.
func TestGCSLayout(t *testing.T) {
	server := serve(&fakebucket.GCS{})
	a := openBucket(t, "gs://box", server, nil)
	saveArtifact(t, a, alice, "notes/may.txt", textPart("hi"))
	saveArtifact(t, a, alice, "user:me.png", &genai.Part{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("p"), DisplayName: "Me"}})
	saveArtifact(t, a, alice, "ref", &genai.Part{FileData: &genai.FileData{FileURI: "gs://b/o", MIMEType: "text/csv"}})
	diff(t, "text", `app/alice/s/notes/may.txt/0 text/plain map[adkIsText:true] "hi"`, readBlob(t, server, "app/alice/s/notes/may.txt/0"))
	diff(t, "bytes of the user", `app/alice/user/user:me.png/0 image/png map[adkDisplayName:Me] "p"`, readBlob(t, server, "app/alice/user/user:me.png/0"))
	diff(t, "reference", `app/alice/s/ref/0 text/csv map[adkFileMimeType:text/csv adkFileUri:gs://b/o] ""`, readBlob(t, server, "app/alice/s/ref/0"))

	put := func(name, kind, metadata, content string) {
		body := fmt.Sprintf("--b\r\nContent-Type: application/json\r\n\r\n{\"name\":%q,\"contentType\":%q,\"metadata\":%s}\r\n--b\r\nContent-Type: x/y\r\n\r\n%s\r\n--b--\r\n", name, kind, metadata, content)
		r := httptest.NewRequest("POST", "http://gcs.test/upload/storage/v1/b/box/o?uploadType=multipart", strings.NewReader(body))
		r.Header.Set("Content-Type", "multipart/related; boundary=b")
		if res := server(r); res.StatusCode != 200 {
			t.Fatalf("writing %s: %d", name, res.StatusCode)
		}
	}
	put("app/alice/s/notes/may.txt/1", "text/plain", `null`, "older texts are bytes")
	put("app/alice/s/notes/may.txt/10", "text/plain", `{"adkIsText":"true"}`, "newest")
	put("app/alice/s/notes/may.txt/readme", "text/plain", `null`, "no version")
	put("app/alice/s/notes/may.txt/007", "text/plain", `null`, "no version")
	put("app/alice/user/user:old/3", "application/pdf", `{"source":"x"}`, "%PDF")
	put("app/alice/s/gone/0", "application/octet-stream", `null`, "")
	part, err := a.Load(t.Context(), alice, "notes/may.txt", 1)
	diff(t, "bytes", &genai.Part{InlineData: &genai.Blob{MIMEType: "text/plain", Data: []byte("older texts are bytes")}}, part)
	if err != nil {
		t.Error(err)
	}
	if part, err = a.Load(t.Context(), alice, "notes/may.txt", -1); err != nil || part.Text != "newest" {
		t.Errorf("Load = %v, %v", part, err)
	}
	_, err = a.Load(t.Context(), alice, "gone", -1)
	wantErr(t, "Load of nothing", err, session.ErrNotFound, "artifact not found: gone")
	diff(t, "next version", 11, saveArtifact(t, a, alice, "notes/may.txt", textPart("x")))
	names, err := a.Keys(t.Context(), alice)
	diff(t, "names", []string{"gone", "notes/may.txt", "ref", "user:me.png", "user:old"}, names)
	if err != nil {
		t.Error(err)
	}
	v, err := a.Version(t.Context(), alice, "user:old", -1)
	if err != nil || v.Version != 3 || v.CanonicalURI != "gs://box/app/alice/user/user:old/3" || v.CustomMetadata["source"] != "x" || v.MIMEType != "application/pdf" {
		t.Errorf("Version = %+v, %v", v, err)
	}
}

// readBlob formats an object as stored by the service.
func readBlob(t *testing.T, s service, name string) string {
	t.Helper()
	address := "http://gcs.test/storage/v1/b/box/o/" + strings.ReplaceAll(name, "/", "%2F")
	var o gcsObject
	if err := json.NewDecoder(s(httptest.NewRequest("GET", address, nil)).Body).Decode(&o); err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(s(httptest.NewRequest("GET", address+"?alt=media", nil)).Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %v %q", o.Name, o.ContentType, o.Metadata, content)
}

// Application default credentials: a service account's token goes with each request to Google's own
// address.
func TestGCSCredentials(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "bot@x", "private_key_id": "k", "token_uri": "https://token.test/",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "account.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	handler := serve(&fakebucket.GCS{})
	a := openBucket(t, "gs://box", func(r *http.Request) *http.Response {
		switch {
		case r.URL.Host == "token.test":
			return errorResponse(200, `{"access_token":"T","token_type":"Bearer","expires_in":3600}`, http.Header{"Content-Type": {"application/json"}})
		case r.URL.Scheme+r.URL.Host != "httpsstorage.googleapis.com" || r.Header.Get("Authorization") != "Bearer T":
			return errorResponse(401, "", nil)
		}
		return handler(r)
	}, &Options{Lookup: lookup(nil)})
	diff(t, "version", 0, saveArtifact(t, a, alice, "a", textPart("x")))

	b := openBucket(t, "gs://box", func(*http.Request) *http.Response {
		return errorResponse(400, `{"error":"invalid_grant"}`, http.Header{"Content-Type": {"application/json"}})
	}, &Options{Lookup: lookup(nil)})
	_, err = b.Save(t.Context(), alice, "a", textPart("x"))
	if err == nil || !strings.Contains(err.Error(), "authenticating request: requesting a Google access token") || strings.Contains(err.Error(), "PRIVATE") {
		t.Errorf("Save without a token = %v", err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
	_, err = Open(t.Context(), "gs://box", &Options{Lookup: lookup(nil)})
	if err == nil || !strings.Contains(err.Error(), noGCSLogin) {
		t.Errorf("Open without credentials = %v", err)
	}
}

func TestEmulatorAddress(t *testing.T) {
	for in, want := range map[string]string{
		"localhost:4443": "http://localhost:4443", "https://gcs.test/": "https://gcs.test", "ftp://x": "", "http://": "",
	} {
		got, err := parseEmulatorURL(in)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("emulator(%q) = %q, %v", in, got, err)
		}
	}
}

func TestS3Address(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"", "box"}:                          "https://box.s3.eu-west-1.amazonaws.com/",
		{"", "a.box"}:                        "https://s3.eu-west-1.amazonaws.com/a.box/",
		{"http://127.0.0.1:9000/", "box"}:    "http://127.0.0.1:9000/box/",
		{"https://me:secret@host", "box"}:    "",
		{"minio.example.com", "box"}:         "",
		{"https://host/base?x=y", "box"}:     "",
		{"https://host.example/base", "box"}: "https://host.example/base/box/",
	} {
		got, err := buildS3Address(in[0], "eu-west-1", in[1])
		if got != want || (err != nil) != (want == "") || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("s3Address(%v) = %q, %v", in, got, err)
		}
	}
}

func wantErr(t testing.TB, what string, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want %v with %q", what, err, want, text)
	}
}

func diff(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func textPart(s string) *genai.Part { return &genai.Part{Text: s} }

func saveArtifact(t testing.TB, a *store.Artifacts, key session.Key, name string, part *genai.Part) int {
	t.Helper()
	n, err := a.Save(t.Context(), key, name, part)
	if err != nil {
		t.Fatalf("Save(%q) = %v", name, err)
	}
	return n
}

var alice = session.Key{App: "app", User: "alice", ID: "s"}
