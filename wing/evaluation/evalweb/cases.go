package evalweb

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/evaluation/eval"
)

// maxCaseID limits the characters in a new case's ID.
const maxCaseID = 200

// isNotFound reports whether an error responds with 404.
func isNotFound(err error) bool {
	var e *server.Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

func caseNotFound(set, id string) error {
	return notFoundError("Eval set `" + set + "` or Eval `" + id + "` not found.")
}

// handleEvalCases lists a set's case IDs. A missing set is 400, as in ADK.
func (s *handlers) handleEvalCases(w http.ResponseWriter, r *http.Request) error {
	return s.sendEvalView(w, r, func() (any, error) {
		set, err := s.readEvalSet(r)
		if isNotFound(err) {
			return nil, badRequest(err.Error())
		}
		if err != nil {
			return nil, err
		}
		ids := []string{}
		for _, c := range set.Cases {
			ids = append(ids, c.ID)
		}
		slices.Sort(ids)
		return ids, nil
	})
}

// handleEvalCase responds with a case, or with what results have about a deleted one.
func (s *handlers) handleEvalCase(w http.ResponseWriter, r *http.Request) error {
	return s.sendEval(w, r, func() (any, error) {
		name, id := r.PathValue("name"), r.PathValue("case")
		set, err := s.readEvalSet(r)
		if isNotFound(err) {
			return nil, caseNotFound(name, id)
		}
		if err != nil {
			return nil, err
		}
		c := set.Case(id)
		if c == nil {
			c, err = s.findRecordedCase(r.Context(), r.PathValue("app"), name, id)
		}
		if c == nil && err == nil {
			err = caseNotFound(name, id)
		}
		return c, err
	})
}

// handleSaveEvalCase changes a case. Fields that the body omits are kept, because ADK's
// web client omits those that it cannot edit; null removes a field.
func (s *handlers) handleSaveEvalCase(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readEvalBody(w, r)
	if err != nil {
		return err
	}
	id := r.PathValue("case")
	given := b.ReadString("evalId")
	if err := b.Err(); err != nil {
		return err
	}
	if given != "" && given != id {
		return badRequest(fmt.Sprintf("the path has the case ID %q, the body %q", id, given))
	}
	return s.editCase(w, r, func(set *eval.Set, i int) error {
		merged, err := b.mergeIntoCase(set.Cases[i])
		if err == nil {
			set.Cases[i] = merged
		}
		return err
	})
}

func (s *handlers) handleDeleteEvalCase(w http.ResponseWriter, r *http.Request) error {
	return s.editCase(w, r, func(set *eval.Set, i int) error {
		set.Cases = slices.Delete(set.Cases, i, i+1)
		return nil
	})
}

// editCase changes the set that contains the case in the path.
func (s *handlers) editCase(w http.ResponseWriter, r *http.Request, change func(set *eval.Set, i int) error) error {
	name, id := r.PathValue("name"), r.PathValue("case")
	err := s.editEvalSet(r, func(set *eval.Set) error {
		i := slices.IndexFunc(set.Cases, func(c *eval.Case) bool { return c.ID == id })
		if i < 0 {
			return caseNotFound(name, id)
		}
		return change(set, i)
	})
	if isNotFound(err) && err.Error() == evalSetNotFound(name).Error() {
		return caseNotFound(name, id)
	}
	if err != nil {
		return err
	}
	return server.WriteJSON(w, nil)
}

func caseFields() []string {
	return []string{"evalId", "conversation", "conversationScenario", "sessionInput", "creationTimestamp", "rubrics", "finalSessionState"}
}

// mergeIntoCase returns the case with the body's fields. A conversation replaces a scenario,
// and the other way round.
func (b evalBody) mergeIntoCase(c *eval.Case) (*eval.Case, error) {
	text, err := eval.EncodeWire(c)
	if err != nil {
		return nil, err
	}
	var merged map[string]json.RawMessage
	if err := json.Unmarshal(text, &merged); err != nil {
		return nil, err
	}
	if b.FindField("conversation") != nil {
		delete(merged, "conversationScenario")
	}
	if b.FindField("conversationScenario") != nil {
		delete(merged, "conversation")
	}
	for _, f := range b.Fields {
		key := string(f.Key)
		if i := slices.IndexFunc(caseFields(), func(name string) bool { return jsonbody.IsSnakeCase(f.Key, name) }); i >= 0 {
			key = caseFields()[i]
		}
		merged[key] = f.Value
		if string(f.Value) == "null" {
			delete(merged, key)
		}
	}
	merged["evalId"], err = server.EncodeJSON(c.ID)
	if err != nil {
		return nil, err
	}
	if text, err = server.EncodeJSON(merged); err != nil {
		return nil, err
	}
	edited := &eval.Case{}
	b.addEvalError(eval.Decode("", text, edited))
	return edited, b.Err()
}

// handleAddEvalSession adds a session's conversation to a set as a new case.
func (s *handlers) handleAddEvalSession(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readEvalBody(w, r)
	if err != nil {
		return err
	}
	for _, name := range []string{"evalId", "sessionId", "userId"} {
		b.RequireField(name)
	}
	c := &eval.Case{ID: b.ReadString("evalId"), CreationTimestamp: s.nowSeconds()}
	key := session.Key{App: r.PathValue("app"), User: b.ReadString("userId"), ID: b.ReadString("sessionId")}
	if err := b.Err(); err != nil {
		return err
	}
	if err := checkNewCaseID(c.ID); err != nil {
		return err
	}
	sess, err := s.Host().Store().Sessions.Get(r.Context(), key, nil)
	if err != nil {
		return server.WithSessionKey(key, err)
	}
	c.Conversation, c.Session = s.recordConversation(sess)
	if len(c.Conversation) == 0 {
		return badRequest("Session " + key.ID + " has no turns")
	}
	if err := s.editEvalSet(r, func(set *eval.Set) error {
		if set.Case(c.ID) != nil {
			return badRequest("Eval id `" + c.ID + "` already exists in `" + r.PathValue("name") + "` eval set.")
		}
		set.Cases = append(set.Cases, c)
		return nil
	}); err != nil {
		return err
	}
	return server.WriteJSON(w, nil)
}

// recordConversation returns a session's turns, without those that were rewound, and the
// session that they began in. Its state has the keys that no turn wrote, without the
// title and, as in ADK, an empty value for each other key in an instruction.
func (s *handlers) recordConversation(sess *session.Session) ([]*eval.Invocation, *eval.SessionInput) {
	events := session.WithoutRewound(sess.Events())
	turns := slices.DeleteFunc(eval.Turns(events), func(inv *eval.Invocation) bool {
		// A state change is an invocation too.
		return len(inv.UserContent.Parts) == 0 && inv.FinalResponse == nil && len(inv.Intermediate.Events) == 0
	})
	for _, inv := range turns {
		// An event without content is a model call, which only counts in results.
		inv.Intermediate.Events = slices.DeleteFunc(inv.Intermediate.Events, func(e *eval.InvocationEvent) bool { return e.Content == nil })
	}
	written := map[string]any{}
	for _, ev := range events {
		if slices.ContainsFunc(turns, func(inv *eval.Invocation) bool { return inv.ID == ev.InvocationID }) {
			maps.Copy(written, ev.Actions.StateDelta)
		}
	}
	state := map[string]any{}
	if app := s.Host().App(sess.App); app != nil {
		addInstructionKeys(state, app.AgentInfo())
	}
	for key, value := range sess.State.All() {
		if _, ok := written[key]; !ok && !strings.Contains(key, ":") && key != session.MetadataKey {
			state[key] = value
		}
	}
	return turns, &eval.SessionInput{App: sess.App, User: sess.User, State: state}
}

var instructionKey = regexp.MustCompile(`\{(\w+)\}`)

func addInstructionKeys(state map[string]any, a *runtime.AgentInfo) {
	for _, m := range instructionKey.FindAllStringSubmatch(a.Instruction, -1) {
		state[m[1]] = ""
	}
	for _, child := range a.Agents {
		addInstructionKeys(state, child)
	}
}

// checkNewCaseID rejects IDs that a path cannot contain. A slash is sent as %2F.
func checkNewCaseID(id string) error {
	switch {
	case id == "" || id == "." || id == "..":
		return badRequest(fmt.Sprintf("cannot use %q as a case ID", id))
	case utf8.RuneCountInString(id) > maxCaseID:
		return badRequest(fmt.Sprintf("case ID exceeds the limit of %d characters", maxCaseID))
	case strings.ContainsFunc(id, unicode.IsControl):
		return badRequest(fmt.Sprintf("case ID must not contain control characters, got %q", id))
	}
	return nil
}
