package server

import (
	"io/fs"
	"net/http"
)

// runtimeConfig is what ADK's web client reads before it starts: requests go to
// where it came from, and nobody is asked about telemetry.
const runtimeConfig = `{"backendUrl":"","telemetry":false}`

// uiRoutes serve a built ADK Web bundle, where there is one.
func (s *Server) uiRoutes() []route {
	files := http.StripPrefix("/dev-ui/", http.FileServerFS(s.opts.UI))
	return []route{
		{"GET /dev-ui", toUI},
		{"GET /dev-ui/config", s.handleUIConfig},
		{"GET /dev-ui/assets/config/runtime-config.json", func(w http.ResponseWriter, _ *http.Request) error {
			writeText(w, http.StatusOK, []byte(runtimeConfig))
			return nil
		}},
		{"GET /dev-ui/{file...}", func(w http.ResponseWriter, r *http.Request) error {
			if !s.isUIFile(r.PathValue("file")) {
				return missingError("Not Found")
			}
			w.Header().Set("Cache-Control", "no-cache")
			files.ServeHTTP(w, r)
			return nil
		}},
	}
}

// toUI keeps the query, which names an app or a session.
func toUI(w http.ResponseWriter, r *http.Request) error {
	to := "/dev-ui/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	redirect(w, to)
	return nil
}

// isUIFile says whether there is such a file; the empty name is the page. Folders
// are not listed.
func (s *Server) isUIFile(name string) bool {
	if name == "" {
		return true
	}
	info, err := fs.Stat(s.opts.UI, name)
	return err == nil && info.Mode().IsRegular()
}

func (s *Server) handleUIConfig(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, struct {
		Text  *string `json:"logo_text"`
		Image *string `json:"logo_image_url"`
	}{})
}
