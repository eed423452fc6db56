package server

import (
	"net/http"

	"agenthost/pkg/session"
)

// revisionHeader names the app revision that served a run.
const revisionHeader = "X-Agenthost-Revision"

// readEventForm returns the form of events in the response: ADK's form, with the
// provenance of each event if the request has ?provenance=true.
func readEventForm(r *http.Request) (session.Form, error) {
	provenance, err := readQueryFlag(r, "provenance")
	return session.Form{Provenance: provenance}, err
}

// setRevisionHeader sets the header to the revision that created an event. Call it
// before the response starts.
func setRevisionHeader(w http.ResponseWriter, ev *session.Event) {
	if revision := ev.Provenance.Revision; revision != "" && !ev.Provenance.Unverified {
		w.Header().Set(revisionHeader, revision)
	}
}
