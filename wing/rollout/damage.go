package rollout

import (
	"encoding/json"
	"fmt"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// StatusDamaged is a stored rollout that this program cannot read. It is never stored.
const StatusDamaged Status = "damaged"

// A damagedError is a stored rollout that this program cannot read: damaged, or of a newer agenthost.
// Nothing decides it until a person ends it.
type damagedError struct {
	row   *store.Rollout
	cause error
	// stable and draft are the revisions in the row, as far as they can be read; empty otherwise.
	stable, draft string
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("the row of app %s in the table rollouts, version %d: %s; end it with agenthost rollout abort, or with promote for the new revision", e.row.App, e.row.Version, e.cause)
}

func (e *damagedError) Unwrap() error { return e.cause }

// newDamagedError reads what it can from a row that [decodeState] rejects.
func newDamagedError(row *store.Rollout, cause error) *damagedError {
	e := &damagedError{row: row, cause: cause}
	var fields map[string]json.RawMessage
	if json.Unmarshal(row.Data, &fields) == nil {
		e.stable, e.draft = readRevision(fields["stable"]), readRevision(fields["draft"])
	}
	return e
}

// maxRevision is longer than each revision.
const maxRevision = 200

func readRevision(data json.RawMessage) string {
	var s string
	if json.Unmarshal(data, &s) != nil || len(s) > maxRevision {
		return ""
	}
	return s
}

// decideServing keeps what serves: the app's own revision, or that of the row after a restart. An app without
// rollout needs no row.
func (e *damagedError) decideServing(app *runtime.App, plan *Plan) loader.Admission {
	if plan == nil || app.Revision() == e.stable {
		return loader.Admission{}
	}
	return loader.Admission{Hold: true, Serving: e.stable, Reason: e.Error()}
}

// replaceState returns the state after a person's action. A rollout begins again from the revision in the row, or
// from what serves if the row has none. The error is an [actionError].
func (e *damagedError) replaceState(action string) (*state, error) {
	s := &state{Status: StatusNone, Stable: e.stable}
	switch action {
	case ActionAbort:
		if e.draft != "" && e.draft != e.stable {
			s.Rejected = []string{e.draft}
		}
	case ActionPromote:
		if e.draft != "" {
			s.Stable = e.draft
		}
	default:
		return nil, actionError("the rollout can only be ended: " + e.Error())
	}
	return s, nil
}

// describeDamage is the view of the row.
func (e *damagedError) describeDamage() *View {
	return &View{App: e.row.App, Status: StatusDamaged, Reason: e.Error(), Stable: e.stable, Revision: e.draft}
}
