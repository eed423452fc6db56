package chatpage

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// fileCSP keeps a file that a browser opens by its address from running anything.
const fileCSP = "default-src 'none'; sandbox"

// handleMessageFile responds with a file that is part of a message.
func (h *handlers) handleMessageFile(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(r.PathValue("part"))
	if err != nil || n < 0 {
		return errNotFound
	}
	sess, err := h.Host().Store().Sessions.Get(r.Context(), v.key, nil)
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	events := session.Recorded(sess.Events())
	at := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == r.PathValue("event") })
	if at < 0 || events[at].Content == nil || n >= len(events[at].Content.Parts) {
		return errNotFound
	}
	part := events[at].Content.Parts[n]
	if part == nil || part.Thought || part.InlineData == nil {
		return errNotFound
	}
	return sendFile(w, part, part.InlineData.DisplayName)
}

// handleArtifact responds with a file that an answer in this conversation has saved. Only those
// that the conversation names can be read: other files of the session are the app's own.
func (h *handlers) handleArtifact(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	name := r.PathValue("name")
	version, err := strconv.Atoi(r.PathValue("version"))
	if err != nil || version < 0 {
		return errNotFound
	}
	sess, err := h.Host().Store().Sessions.Get(r.Context(), v.key, nil)
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	wanted := artifactPath(name, strconv.Itoa(version))
	events := session.Recorded(sess.Events())
	isNamed := slices.ContainsFunc(newOutlook(v.chat, events).listMessages(events), func(m *message) bool {
		return slices.ContainsFunc(m.Files, func(f file) bool { return f.Path == wanted })
	})
	if !isNamed {
		return errNotFound
	}
	part, err := h.Host().Store().Artifacts.Load(r.Context(), v.key, name, version)
	if errors.Is(err, session.ErrNotFound) {
		return errNotFound
	}
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	return sendFile(w, part, path.Base(name))
}

// sendFile responds with the bytes or the text of a part, as a download.
func sendFile(w http.ResponseWriter, part *genai.Part, name string) error {
	kind, data := "text/plain; charset=utf-8", []byte(part.Text)
	if part.InlineData != nil {
		kind, data = part.InlineData.MIMEType, part.InlineData.Data
	} else if part.Text == "" {
		return errNotFound // a reference to another place
	}
	if _, _, err := mime.ParseMediaType(kind); err != nil {
		kind = "application/octet-stream"
	}
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": cmp.Or(cleanName(name), "file")}))
	header.Set("Content-Security-Policy", fileCSP)
	header.Set("Cache-Control", "private, no-store")
	header.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
	return nil
}
