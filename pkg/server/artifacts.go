package server

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// artifactHandlers handle the artifact routes.
type artifactHandlers struct{ *Services }

func (s artifactHandlers) listRoutes() []Route {
	const artifacts = "/apps/{app}/users/{user}/sessions/{session}/artifacts"
	return []Route{
		{Method: "GET", Pattern: artifacts, Handler: s.handleListArtifacts, Doc: Doc{Tag: "artifacts", ID: "listArtifacts", Summary: "List names", Answer: "[string]"}},
		{Method: "POST", Pattern: artifacts, Handler: s.handleSaveArtifact, Doc: Doc{Tag: "artifacts", ID: "saveArtifact", Summary: "Save a new version", Body: "SaveArtifactRequest", Answer: "ArtifactVersion"}},
		{Method: "GET", Pattern: artifacts + "/{name...}", Handler: s.handleArtifact, Doc: Doc{Tag: "artifacts", ID: "getArtifact", Summary: "Get an artifact or its versions; the name may have slashes", Params: []string{"version"}, Answer: "ArtifactAnswer"}},
		{Method: "DELETE", Pattern: artifacts + "/{name...}", Handler: s.handleDeleteArtifact, Doc: Doc{Tag: "artifacts", ID: "deleteArtifact", Summary: "Delete an artifact"}},
	}
}

// latestVersion is the version number by which the store returns the newest version.
const latestVersion = -1

var (
	errArtifactNotFound = notFoundError("Artifact not found")
	errVersionNotFound  = notFoundError("Artifact version not found")
)

// artifactStore returns the store. As in adk-python, the app and the session need not
// exist.
func (s artifactHandlers) artifactStore() *store.Artifacts { return s.host.Store().Artifacts }

func (s artifactHandlers) handleListArtifacts(w http.ResponseWriter, r *http.Request) error {
	names, err := s.artifactStore().Keys(r.Context(), PathKey(r))
	if err != nil {
		return err
	}
	return WriteJSON(w, names)
}

func (s artifactHandlers) handleSaveArtifact(w http.ResponseWriter, r *http.Request) error {
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	b.RequireField("filename")
	b.RequireField("artifact")
	n := &store.NewArtifact{Name: b.ReadString("filename"), Part: b.ReadPart("artifact"), CustomMetadata: b.ReadMap("customMetadata")}
	if err := b.Err(); err != nil {
		return err
	}
	made, err := s.artifactStore().Create(r.Context(), PathKey(r), n)
	if err != nil {
		return err
	}
	return WriteJSON(w, made)
}

func (s artifactHandlers) handleDeleteArtifact(w http.ResponseWriter, r *http.Request) error {
	if err := s.artifactStore().Delete(r.Context(), PathKey(r), r.PathValue("name")); err != nil {
		return err
	}
	return WriteJSON(w, nil)
}

// handleArtifact parses the paths below an artifact name, which may contain slashes:
//
//	{name}  {name}/versions  {name}/versions/metadata
//	{name}/versions/{version}  {name}/versions/{version}/metadata
func (s artifactHandlers) handleArtifact(w http.ResponseWriter, r *http.Request) error {
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
		case !described:
			return s.writeArtifact(w, r, bare[:i], version)
		}
		v, err := s.artifactStore().Version(r.Context(), PathKey(r), bare[:i], version)
		switch {
		case errors.Is(err, session.ErrNotFound):
			return errVersionNotFound
		case err != nil:
			return err
		}
		return WriteJSON(w, v)
	}
	version, err := readQueryVersion(r)
	if err != nil {
		return err
	}
	return s.writeArtifact(w, r, path, version)
}

func (s artifactHandlers) writeArtifact(w http.ResponseWriter, r *http.Request, name string, version int) error {
	part, err := s.artifactStore().Load(r.Context(), PathKey(r), name, version)
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
	WriteRawJSON(w, http.StatusOK, text)
	return nil
}

func (s artifactHandlers) writeVersions(w http.ResponseWriter, r *http.Request, name string, described bool) error {
	all, err := s.artifactStore().Versions(r.Context(), PathKey(r), name)
	if err != nil {
		return err
	}
	if described {
		return WriteJSON(w, append([]session.ArtifactVersion{}, all...))
	}
	numbers := make([]int, len(all))
	for i, v := range all {
		numbers[i] = v.Version
	}
	return WriteJSON(w, numbers)
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
		return 0, jsonbody.NewError("int_parsing", "Input should be a valid integer, unable to parse string as an integer", "query", "version")
	case n < 0:
		return 0, errArtifactNotFound
	}
	return n, nil
}
