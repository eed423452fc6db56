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

// S3 serves Amazon's REST API with the bucket in the path or, at amazonaws.com, in the host name.
// Requests must be signed with the body's correct hash. Every bucket except "missing" exists.
type S3 struct {
	// Issuer verifies signatures; with nil, any signature is accepted.
	Issuer *AWS

	objects objects
}

// ServeHTTP handles one request.
func (s *S3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if host, _, ok := strings.Cut(r.Host, ".s3."); ok {
		bucket, name = host, strings.TrimPrefix(r.URL.Path, "/")
	}
	body, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	fault := ""
	if s.Issuer != nil {
		fault = s.Issuer.verifySignature(r, hex.EncodeToString(sum[:]))
	}
	switch {
	case err != nil:
		writeS3Error(w, http.StatusBadRequest, "IncompleteBody", err.Error())
	case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="):
		writeS3Error(w, http.StatusForbidden, "AccessDenied", "Access Denied")
	case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		writeS3Error(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.")
	case fault != "":
		writeS3Error(w, http.StatusForbidden, fault, "The credentials or the signature are not valid.")
	case bucket == "missing":
		writeS3Error(w, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	case r.Method == http.MethodGet && name == "":
		s.listObjects(w, r, bucket)
	case r.Method == http.MethodPut:
		s.putObject(w, r, bucket+"/"+name, body)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.getObject(w, bucket+"/"+name)
	case r.Method == http.MethodDelete:
		s.objects.remove(bucket + "/" + name)
		w.WriteHeader(http.StatusNoContent)
	default:
		writeS3Error(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
	}
}

func (s *S3) listObjects(w http.ResponseWriter, r *http.Request, bucket string) {
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
			page.Contents = append(page.Contents, content{key, o.createdAt.Format("2006-01-02T15:04:05.000Z"), len(o.content)})
		}
	}
	if more {
		page.NextContinuationToken = names[len(names)-1]
	}
	writeXML(w, http.StatusOK, page)
}

func (s *S3) putObject(w http.ResponseWriter, r *http.Request, name string, body []byte) {
	if _, key, _ := strings.Cut(name, "/"); checkName(key) != nil {
		writeS3Error(w, http.StatusBadRequest, "KeyTooLongError", checkName(key).Error())
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
		writeS3Error(w, http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	}
}

func (s *S3) getObject(w http.ResponseWriter, name string) {
	o, ok := s.objects.get(name)
	if !ok {
		writeS3Error(w, http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
		return
	}
	w.Header().Set("Content-Type", o.contentType)
	w.Header().Set("Last-Modified", o.createdAt.Format(http.TimeFormat))
	for k, v := range o.metadata {
		w.Header().Set(k, v)
	}
	_, _ = w.Write(o.content)
}

func writeS3Error(w http.ResponseWriter, status int, code, message string) {
	writeXML(w, status, struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: message})
}

func writeXML(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(v)
}
