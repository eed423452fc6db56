package bucketstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/auth/credentials"

	"agenthost/internal/limit"
)

const (
	gcsAddress = "https://storage.googleapis.com"
	gcsScope   = "https://www.googleapis.com/auth/devstorage.read_write"
	noGCSLogin = "no credentials for Google Cloud Storage: set GOOGLE_APPLICATION_CREDENTIALS for the host, " +
		"or run gcloud auth application-default login"
)

// A gcsBucket is a Google Cloud Storage bucket, accessed with the JSON API.
type gcsBucket struct {
	client *bucketClient
	// objects is the bucket's object URL, upload the URL for new objects.
	objects, upload string
}

// gcsObject is an object in the JSON API.
type gcsObject struct {
	Name        string            `json:"name"`
	ContentType string            `json:"contentType,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Size        string            `json:"size,omitempty"`
	TimeCreated string            `json:"timeCreated,omitempty"`
}

func openGCS(rest string, o *Options) (*Artifacts, error) {
	at, err := parseBucket("gs", rest)
	if err != nil {
		return nil, err
	}
	if len(at.query) > 0 {
		return nil, fmt.Errorf("gs: URLs have no parameters")
	}
	b := &gcsBucket{client: newBucketClient(o)}
	b.client.explain = decodeGCSReason
	address := gcsAddress
	if host := o.readVariable("STORAGE_EMULATOR_HOST"); host != "" {
		if address, err = parseEmulatorURL(host); err != nil {
			return nil, err
		}
		b.client.sign = func(context.Context, *http.Request, []byte) error { return nil }
	} else if b.client.sign, err = gcsSigner(o); err != nil {
		return nil, err
	}
	path := "/storage/v1/b/" + url.PathEscape(at.bucket) + "/o"
	b.objects, b.upload = address+path, address+"/upload"+path
	return newArtifacts(b, at, o), nil
}

// parseEmulatorURL parses an address with or without a scheme, as Google's
// libraries do.
func parseEmulatorURL(host string) (string, error) {
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("STORAGE_EMULATOR_HOST must be an address such as http://localhost:4443")
	}
	return u.Scheme + "://" + u.Host, nil
}

// gcsSigner uses the application default credentials from the process's environment.
func gcsSigner(o *Options) (func(context.Context, *http.Request, []byte) error, error) {
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{gcsScope}, Client: o.HTTP})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", noGCSLogin, err)
	}
	return func(ctx context.Context, r *http.Request, _ []byte) error {
		token, err := found.Token(ctx)
		if err != nil {
			return fmt.Errorf("requesting a Google access token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+token.Value)
		if quota, err := found.QuotaProjectID(ctx); err == nil && quota != "" {
			r.Header.Set("X-Goog-User-Project", quota)
		}
		return nil
	}, nil
}

func (b *gcsBucket) listObjects(ctx context.Context, l listRequest) ([]object, error) {
	query := url.Values{"prefix": {l.prefix}, "fields": {"nextPageToken,items(name)"}}
	if l.flat {
		query.Set("delimiter", "/")
	}
	if l.full {
		query.Set("fields", "nextPageToken,items(name,contentType,metadata,size,timeCreated)")
	}
	var all []object
	for {
		var page struct {
			Items         []gcsObject `json:"items"`
			NextPageToken string      `json:"nextPageToken"`
		}
		if err := b.getJSON(ctx, b.objects+"?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		for _, o := range page.Items {
			all = append(all, o.toObject())
		}
		if page.NextPageToken == "" {
			return all, nil
		}
		query.Set("pageToken", page.NextPageToken)
	}
}

func (b *gcsBucket) getJSON(ctx context.Context, address string, into any) error {
	got, err := b.client.sendRequest(ctx, &bucketRequest{method: http.MethodGet, url: address, maxBytes: int64(limit.BucketListing.Bytes)})
	if err != nil {
		return err
	}
	if err := limit.BucketListing.CheckJSON(got.body); err != nil {
		return err
	}
	return json.Unmarshal(got.body, into)
}

// readObject reads an object's metadata, then its content. Objects are never overwritten, so both
// match.
func (b *gcsBucket) readObject(ctx context.Context, name string, most int64) (*object, error) {
	address := b.objects + "/" + url.PathEscape(name)
	var found gcsObject
	err := b.getJSON(ctx, address+"?fields=name,contentType,metadata,size,timeCreated", &found)
	if err != nil {
		return nil, mapGCSError(err)
	}
	if size, err := strconv.ParseInt(found.Size, 10, 64); err == nil && size > most {
		return nil, errTooLarge
	}
	got, err := b.client.sendRequest(ctx, &bucketRequest{method: http.MethodGet, url: address + "?alt=media", maxBytes: most})
	if err != nil {
		return nil, mapGCSError(err)
	}
	o := found.toObject()
	o.bytes = got.body
	return &o, nil
}

// createObject uploads a new object in one request.
func (b *gcsBucket) createObject(ctx context.Context, o *object) error {
	head, err := json.Marshal(gcsObject{Name: o.name, ContentType: o.mime, Metadata: o.metadata})
	if err != nil {
		return err
	}
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	for _, p := range []struct {
		kind string
		text []byte
	}{{"application/json; charset=UTF-8", head}, {o.mime, o.bytes}} {
		w, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {p.kind}})
		if err == nil {
			_, err = w.Write(p.text)
		}
		if err != nil {
			return err
		}
	}
	if err := parts.Close(); err != nil {
		return err
	}
	got, err := b.client.sendRequest(ctx, &bucketRequest{
		method: http.MethodPost, url: b.upload + "?uploadType=multipart&ifGenerationMatch=0", maxBytes: int64(limit.BucketListing.Bytes), body: body.Bytes(),
		header: http.Header{"Content-Type": {"multipart/related; boundary=" + parts.Boundary()}},
	})
	if err != nil {
		return mapGCSError(err)
	}
	var made gcsObject
	if err := json.Unmarshal(got.body, &made); err != nil {
		return err
	}
	if at := made.toObject().created; !at.IsZero() {
		o.created = at
	}
	return nil
}

func (b *gcsBucket) deleteObject(ctx context.Context, name string) error {
	_, err := b.client.sendRequest(ctx, &bucketRequest{method: http.MethodDelete, url: b.objects + "/" + url.PathEscape(name), maxBytes: int64(limit.BucketListing.Bytes)})
	if errorStatus(err) == http.StatusNotFound {
		return nil
	}
	return err
}

func (b *gcsBucket) close() error {
	b.client.close()
	return nil
}

func (o *gcsObject) toObject() object {
	made := object{name: o.Name, mime: o.ContentType, metadata: o.Metadata}
	if at, err := time.Parse(time.RFC3339Nano, o.TimeCreated); err == nil {
		made.created = at.UTC().Truncate(time.Microsecond)
	}
	return made
}

func mapGCSError(err error) error {
	switch errorStatus(err) {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

func decodeGCSReason(body []byte) string {
	var errBody struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &errBody) != nil {
		return ""
	}
	return errBody.Error.Message
}
