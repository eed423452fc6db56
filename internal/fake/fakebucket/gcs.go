package fakebucket

import (
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// GCS serves Google's JSON API at /storage/v1 and /upload/storage/v1. Every bucket
// except "missing" exists.
type GCS struct{ objects objects }

type gcsObject struct {
	Name           string            `json:"name"`
	Bucket         string            `json:"bucket"`
	ContentType    string            `json:"contentType"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	Size           string            `json:"size"`
	TimeCreated    string            `json:"timeCreated"`
	Metageneration string            `json:"metageneration"`
}

// ServeHTTP handles one request.
func (g *GCS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, upload := strings.CutPrefix(r.URL.EscapedPath(), "/upload")
	path = strings.TrimPrefix(path, "/storage/v1/b/")
	bucket, rest, ok := strings.Cut(path, "/o")
	name, err := url.PathUnescape(strings.TrimPrefix(rest, "/"))
	switch {
	case !ok || err != nil || strings.Contains(strings.TrimPrefix(rest, "/"), "/"):
		writeGCSError(w, http.StatusNotFound, "Not Found")
	case bucket == "missing":
		writeGCSError(w, http.StatusNotFound, "The specified bucket does not exist.")
	case upload && r.Method == http.MethodPost:
		g.uploadObject(w, r, bucket)
	case r.Method == http.MethodGet && name == "":
		g.listObjects(w, r, bucket)
	case r.Method == http.MethodGet:
		g.getObject(w, r, bucket, name)
	case r.Method == http.MethodDelete:
		if !g.objects.remove(bucket + "/" + name) {
			writeGCSError(w, http.StatusNotFound, "No such object: "+bucket+"/"+name)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		writeGCSError(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

func (g *GCS) listObjects(w http.ResponseWriter, r *http.Request, bucket string) {
	q := r.URL.Query()
	names, more := g.objects.list(bucket, q.Get("prefix"), q.Get("delimiter"), q.Get("pageToken"))
	var page struct {
		Items         []gcsObject `json:"items,omitempty"`
		NextPageToken string      `json:"nextPageToken,omitempty"`
	}
	for _, name := range names {
		if o, ok := g.objects.get(bucket + "/" + name); ok {
			page.Items = append(page.Items, o.toGCS(bucket, name))
		}
	}
	if more {
		page.NextPageToken = names[len(names)-1]
	}
	writeJSON(w, http.StatusOK, page)
}

func (g *GCS) getObject(w http.ResponseWriter, r *http.Request, bucket, name string) {
	o, ok := g.objects.get(bucket + "/" + name)
	switch {
	case !ok:
		writeGCSError(w, http.StatusNotFound, "No such object: "+bucket+"/"+name)
	case r.URL.Query().Get("alt") == "media":
		w.Header().Set("Content-Type", o.contentType)
		_, _ = w.Write(o.content)
	default:
		writeJSON(w, http.StatusOK, o.toGCS(bucket, name))
	}
}

func (g *GCS) uploadObject(w http.ResponseWriter, r *http.Request, bucket string) {
	head, body, err := readMultipart(r)
	if err == nil {
		err = checkName(head.Name)
	}
	if err != nil {
		writeGCSError(w, http.StatusBadRequest, err.Error())
		return
	}
	o := object{head.ContentType, head.Metadata, time.Now().UTC(), body}
	if !g.objects.add(bucket+"/"+head.Name, o, r.URL.Query().Get("ifGenerationMatch") == "0") {
		writeGCSError(w, http.StatusPreconditionFailed, "At least one of the pre-conditions you specified did not hold.")
		return
	}
	writeJSON(w, http.StatusOK, o.toGCS(bucket, head.Name))
}

func readMultipart(r *http.Request) (head gcsObject, body []byte, err error) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return head, nil, err
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	first, err := parts.NextPart()
	if err != nil {
		return head, nil, err
	}
	if err := json.NewDecoder(first).Decode(&head); err != nil {
		return head, nil, err
	}
	second, err := parts.NextPart()
	if err != nil {
		return head, nil, err
	}
	if head.ContentType == "" {
		head.ContentType = second.Header.Get("Content-Type")
	}
	body, err = io.ReadAll(second)
	return head, body, err
}

func (o object) toGCS(bucket, name string) gcsObject {
	return gcsObject{name, bucket, o.contentType, o.metadata, strconv.Itoa(len(o.content)), o.createdAt.Format(time.RFC3339Nano), "1"}
}

func writeGCSError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"code": status, "message": message}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
