package server

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// latestVersion is the version number by which the store returns the newest version.
const latestVersion = -1

const (
	errArtifactNotFound = notFoundError("Artifact not found")
	errVersionNotFound  = notFoundError("Artifact version not found")
)

// artifactStore returns the store. As in adk-python, the app and the session need not
// exist.
func (s *Services) artifactStore() *store.Artifacts { return s.host.Store().Artifacts }

func (s *Services) handleListArtifacts(w http.ResponseWriter, r *http.Request) error {
	names, err := s.artifactStore().Keys(r.Context(), pathKey(r))
	if err != nil {
		return err
	}
	return writeJSON(w, names)
}

func (s *Services) handleSaveArtifact(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	b.requireField("filename")
	b.requireField("artifact")
	n := &store.NewArtifact{Name: b.readString("filename"), Part: b.readPart("artifact"), CustomMetadata: b.readMap("customMetadata")}
	if err := b.err(); err != nil {
		return err
	}
	made, err := s.artifactStore().Create(r.Context(), pathKey(r), n)
	if err != nil {
		return err
	}
	return writeJSON(w, made)
}

func (s *Services) handleDeleteArtifact(w http.ResponseWriter, r *http.Request) error {
	if err := s.artifactStore().Delete(r.Context(), pathKey(r), r.PathValue("name")); err != nil {
		return err
	}
	return writeJSON(w, nil)
}

// handleArtifact parses the paths below an artifact name, which may contain slashes:
//
//	{name}  {name}/versions  {name}/versions/metadata
//	{name}/versions/{version}  {name}/versions/{version}/metadata
func (s *Services) handleArtifact(w http.ResponseWriter, r *http.Request) error {
	path := r.PathValue("name")
	if name, ok := strings.CutSuffix(path, "/versions"); ok {
		return s.writeVersions(w, r, name, false)
	}
	if name, ok := strings.CutSuffix(path, "/versions/metadata"); ok {
		return s.writeVersions(w, r, name, true)
	}
	bare, described := strings.CutSuffix(path, "/metadata")
	if i := strings.LastIndex(bare, "/versions/"); i >= 0 && !strings.Contains(bare[i+len("/versions/"):], "/") {
		version, err := parseVersion(bare[i+len("/versions/"):])
		switch {
		case err != nil:
			return err
		case described:
			return s.writeVersion(w, r, bare[:i], version)
		}
		return s.writeArtifact(w, r, bare[:i], version)
	}
	version, err := readQueryVersion(r)
	if err != nil {
		return err
	}
	return s.writeArtifact(w, r, path, version)
}

func (s *Services) writeArtifact(w http.ResponseWriter, r *http.Request, name string, version int) error {
	part, err := s.artifactStore().Load(r.Context(), pathKey(r), name, version)
	if errors.Is(err, session.ErrNotFound) {
		return errArtifactNotFound
	}
	if err != nil {
		return err
	}
	text, err := session.EncodePart(part)
	if err != nil {
		return err
	}
	writeRawJSON(w, http.StatusOK, text)
	return nil
}

func (s *Services) writeVersions(w http.ResponseWriter, r *http.Request, name string, described bool) error {
	all, err := s.artifactStore().Versions(r.Context(), pathKey(r), name)
	if err != nil {
		return err
	}
	if described {
		return writeJSON(w, append([]session.ArtifactVersion{}, all...))
	}
	numbers := make([]int, len(all))
	for i, v := range all {
		numbers[i] = v.Version
	}
	return writeJSON(w, numbers)
}

func (s *Services) writeVersion(w http.ResponseWriter, r *http.Request, name string, version int) error {
	v, err := s.artifactStore().Version(r.Context(), pathKey(r), name, version)
	if errors.Is(err, session.ErrNotFound) {
		return errVersionNotFound
	}
	if err != nil {
		return err
	}
	return writeJSON(w, v)
}

// parseVersion parses a version in the path.
func parseVersion(text string) (int, error) {
	if text == "latest" {
		return latestVersion, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, invalidVersionError{}
	case n < 0:
		return 0, errArtifactNotFound
	}
	return n, nil
}

func readQueryVersion(r *http.Request) (int, error) {
	text := r.URL.Query().Get("version")
	if text == "" {
		return latestVersion, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, &invalidBodyError{[]errorDetail{{
			"int_parsing", []any{"query", "version"}, "Input should be a valid integer, unable to parse string as an integer",
		}}}
	case n < 0:
		return 0, errArtifactNotFound
	}
	return n, nil
}
