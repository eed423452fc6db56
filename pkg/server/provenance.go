package server

import (
	"net/http"

	"agenthost/pkg/session"
)

// revisionHeader names the revision of the app that answers a run.
const revisionHeader = "X-Agenthost-Revision"

// readEventForm is the form of events in the answer: ADK's, with the provenance of each
// where the client asks for it with ?provenance=true.
func readEventForm(r *http.Request) (session.Form, error) {
	asked, err := readQueryFlag(r, "provenance")
	return session.Form{Provenance: asked}, err
}

// setRevisionHeader adds the revision that made an event to the header of an answer that
// has not begun.
func setRevisionHeader(w http.ResponseWriter, ev *session.Event) {
	if revision := ev.Provenance.Revision; revision != "" && !ev.Provenance.Unverified {
		w.Header().Set(revisionHeader, revision)
	}
}
