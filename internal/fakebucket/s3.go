package fakebucket

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// S3 answers Amazon's REST API with the bucket in the path. Requests must carry
// a signature with the right hash of their body; the signature itself is not
// computed again. Each bucket but "missing" is there.
type S3 struct{ objects objects }

// ServeHTTP answers one request.
func (s *S3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	body, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	switch {
	case err != nil:
		refuseS3(w, http.StatusBadRequest, "IncompleteBody", err.Error())
	case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="):
		refuseS3(w, http.StatusForbidden, "AccessDenied", "Access Denied")
	case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		refuseS3(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
	case bucket == "missing":
		refuseS3(w, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	case r.Method == http.MethodGet && name == "":
		s.list(w, r, bucket)
	case r.Method == http.MethodPut:
		s.put(w, r, bucket+"/"+name, body)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.get(w, bucket+"/"+name)
	case r.Method == http.MethodDelete:
		s.objects.remove(bucket + "/" + name)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuseS3(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
	}
}

func (s *S3) list(w http.ResponseWriter, r *http.Request, bucket string) {
	q := r.URL.Query()
	names, more := s.objects.list(bucket, q.Get("prefix"), q.Get("delimiter"), q.Get("continuation-token"))
	type content struct {
		Key          string
		LastModified string
		Size         int
	}
	page := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
	}{IsTruncated: more}
	for _, name := range names {
		if o, ok := s.objects.get(bucket + "/" + name); ok {
			key := name
			if q.Get("encoding-type") == "url" {
				key = url.QueryEscape(name)
			}
			page.Contents = append(page.Contents, content{key, o.made.Format("2006-01-02T15:04:05.000Z"), len(o.bytes)})
		}
	}
	if more {
		page.NextContinuationToken = names[len(names)-1]
	}
	answerXML(w, http.StatusOK, page)
}

func (s *S3) put(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	if _, key, _ := strings.Cut(name, "/"); badName(key) != nil {
		refuseS3(w, http.StatusBadRequest, "KeyTooLongError", badName(key).Error())
		return
	}
	metadata := map[string]string{}
	for k, v := range r.Header {
		if strings.HasPrefix(k, "X-Amz-Meta-") {
			metadata[k] = v[0]
		}
	}
	o := object{r.Header.Get("Content-Type"), metadata, time.Now().UTC(), body}
	if !s.objects.add(name, o, r.Header.Get("If-None-Match") == "*") {
		refuseS3(w, http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	}
}

func (s *S3) get(w http.ResponseWriter, name string) {
	o, ok := s.objects.get(name)
	if !ok {
		refuseS3(w, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
		return
	}
	w.Header().Set("Content-Type", o.kind)
	w.Header().Set("Last-Modified", o.made.Format(http.TimeFormat))
	for k, v := range o.metadata {
		w.Header().Set(k, v)
	}
	_, _ = w.Write(o.bytes)
}

func refuseS3(w http.ResponseWriter, status int, code, message string) {
	answerXML(w, status, struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: message})
}

func answerXML(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(v)
}
