package fakevertex

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
)

// A ragFile is a file in a RAG corpus.
type ragFile struct{ id, displayName, text string }

// The service's limits.
const (
	maxDisplayName = 128
	linesOfChunk   = 3 // real chunks have some hundred words
)

var contextFields = fields{
	"vertexRagStore": {"ragResources": {"ragCorpus": nil}, "vectorDistanceThreshold": nil},
	"query":          {"text": nil, "similarityTopK": nil},
}

// RAGFiles returns the texts of a corpus's files by upload, each after its display name and a line
// feed.
func (s *Server) RAGFiles(corpus string) (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files[corpus] {
		texts = append(texts, f.displayName+"\n"+f.text)
	}
	return texts
}

// checkCorpus returns an error for a corpus that does not exist.
func (s *Server) checkCorpus(id string) *apiError {
	if !slices.Contains(s.Corpora, id) {
		return newError(http.StatusNotFound, "NOT_FOUND", "RagCorpus %s/ragCorpora/%s not found.", s.parentName(), id)
	}
	return nil
}

// serveCorpus handles a request below a corpus: ID, ID/ragFiles or ID/ragFiles/FILE.
func (s *Server) serveCorpus(path string, r *request) (any, *apiError) {
	id, rest, _ := strings.Cut(path, "/")
	if err := s.checkCorpus(id); err != nil {
		return nil, err
	}
	name := s.parentName() + "/ragCorpora/" + id
	file, isFile := strings.CutPrefix(rest, "ragFiles/")
	switch {
	case r.method == http.MethodGet && rest == "":
		return map[string]any{"name": name, "displayName": "memories"}, nil
	case r.method == http.MethodGet && rest == "ragFiles":
		from, to, next, err := s.pageBounds(r.query, len(s.files[id]))
		if err != nil {
			return nil, err
		}
		list := []any{}
		for _, f := range s.files[id][from:to] {
			list = append(list, map[string]any{"name": name + "/ragFiles/" + f.id, "displayName": f.displayName})
		}
		return withToken(map[string]any{"ragFiles": list}, next), nil
	case r.method == http.MethodDelete && isFile:
		before := len(s.files[id])
		s.files[id] = slices.DeleteFunc(s.files[id], func(f *ragFile) bool { return f.id == file })
		if len(s.files[id]) == before {
			return nil, newError(http.StatusNotFound, "NOT_FOUND", "RagFile %s/ragFiles/%s not found.", name, file)
		}
		return s.startOperation(s.parentName(), map[string]any{"@type": "type.googleapis.com/google.protobuf.Empty"}), nil
	}
	return nil, newError(http.StatusNotFound, "NOT_FOUND", "Method not found.")
}

// uploadFile handles a file upload in one request.
func (s *Server) uploadFile(path string, header http.Header, body []byte) (any, *apiError) {
	path, err := s.cutLocation(path)
	if err != nil {
		return nil, err
	}
	id, ok := strings.CutPrefix(strings.TrimSuffix(path, "/ragFiles:upload"), "ragCorpora/")
	if !ok || header.Get("X-Goog-Upload-Protocol") != "multipart" {
		return nil, badRequest("Invalid upload.")
	}
	if err := s.checkCorpus(id); err != nil {
		return nil, err
	}
	_, parameters, _ := mime.ParseMediaType(header.Get("Content-Type"))
	form := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	f := &ragFile{id: s.nextID()}
	for {
		part, failure := form.NextPart()
		if failure != nil {
			break
		}
		content, _ := io.ReadAll(part) // it is in memory
		switch part.FormName() {
		case "metadata":
			var m struct{ RagFile struct{ DisplayName string } }
			if json.Unmarshal(content, &m) != nil {
				return nil, badRequest("Invalid JSON payload received.")
			}
			f.displayName = m.RagFile.DisplayName
		case "file":
			if part.Header.Get("Content-Type") != "text/plain" {
				return nil, badRequest("Unsupported file type.")
			}
			f.text = string(content)
		}
	}
	if f.displayName == "" || len(f.displayName) > maxDisplayName || f.text == "" {
		return nil, badRequest("The file must have text and a display name of at most %d characters.", maxDisplayName)
	}
	if s.files == nil {
		s.files = map[string][]*ragFile{}
	}
	s.files[id] = append(s.files[id], f)
	return map[string]any{"ragFile": map[string]any{"name": s.parentName() + "/ragCorpora/" + id + "/ragFiles/" + f.id, "displayName": f.displayName}}, nil
}

// retrieveContexts returns the chunks of files that are nearest to a query. Neighbors share a line,
// and the beginning of the next chunk follows a chunk's last line.
func (s *Server) retrieveContexts(body []byte) (any, *apiError) {
	v, err := decodeMessage(body, contextFields)
	if err != nil {
		return nil, err
	}
	query, _ := v["query"].(map[string]any)
	text, _ := query["text"].(string)
	limit, ok := query["similarityTopK"].(float64)
	if !ok {
		limit = 10
	}
	type chunk struct {
		file     *ragFile
		text     string
		distance float64
	}
	var all []chunk
	source, _ := v["vertexRagStore"].(map[string]any)
	threshold, ok := source["vectorDistanceThreshold"].(float64)
	if !ok {
		threshold = 1
	}
	corpora, _ := source["ragResources"].([]any)
	for _, c := range corpora {
		resource, _ := c.(map[string]any)
		name, _ := resource["ragCorpus"].(string)
		path, err := s.cutLocation(name)
		if err != nil {
			return nil, err
		}
		id := strings.TrimPrefix(path, "ragCorpora/")
		if err := s.checkCorpus(id); err != nil {
			return nil, err
		}
		for _, f := range s.files[id] {
			lines := strings.Split(f.text, "\n")
			for from := 0; from < len(lines); from += linesOfChunk - 1 {
				to := min(from+linesOfChunk, len(lines))
				cut := strings.Join(lines[from:to], "\n")
				distance := distanceOf(text, cut)
				if to < len(lines) {
					cut += "\n" + lines[to][:len(lines[to])/2]
				}
				if distance < 1 && distance <= threshold {
					all = append(all, chunk{f, cut, distance})
				}
				if to == len(lines) {
					break
				}
			}
		}
	}
	slices.SortStableFunc(all, func(x, y chunk) int { return cmp.Compare(x.distance, y.distance) })
	found := []any{}
	for _, p := range all[:min(len(all), int(limit))] {
		found = append(found, map[string]any{"sourceDisplayName": p.file.displayName, "text": p.text, "score": p.distance})
	}
	return map[string]any{"contexts": map[string]any{"contexts": found}}, nil
}
