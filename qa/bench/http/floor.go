package main

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
)

// openFloor returns a handler that reads each request and writes the recorded response.
func openFloor(at *serverConfig) (http.Handler, io.Closer, error) {
	if at.Answer == nil {
		return nil, nil, errors.New("answer is required")
	}
	header := at.Answer.Header.Clone()
	header.Del("Date") // net/http's own
	names := slices.Sorted(maps.Keys(header))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the client is gone
		}
		for _, name := range names {
			w.Header()[name] = header[name]
		}
		_, _ = w.Write(at.Answer.Body) // fails only if the client is gone
	}), io.NopCloser(nil), nil
}
