package sqlstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A sessionRule is a row of testdata/adk_sessions.json: what ADK's session services do in all
// languages. Want has the expected results by step number, from 1.
type sessionRule struct {
	Rule  string
	Steps []json.RawMessage
	Want  map[string]any
}

type sessionStep struct {
	Op, App, User, ID string
	State             map[string]any
	Event             json.RawMessage
	NumRecentEvents   *int
	AfterTimestamp    float64
	After             time.Time
	N                 int
	Step              *sessionStep
}

// A stepResult is one step's result.
type stepResult struct {
	sess *session.Session
	list []*session.Session
	err  error
	// live is the session object to which the steps have appended.
	live *session.Session
	// errs are the parallel steps' errors.
	errs []error
}

// TestADKSessions: each store follows the rules that ADK's session services share.
func TestADKSessions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "adk_sessions.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rules []sessionRule
	if err := json.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			t.Parallel()
			url := be.emptyURL(t)
			for _, r := range rules {
				t.Run(strings.ReplaceAll(r.Rule, " ", "_"), func(t *testing.T) { r.run(t, openStore(t, url(t), nil)) })
			}
		})
	}
}

func (c *sessionRule) run(t *testing.T, s *testStore) {
	live := map[session.Key]*session.Session{}
	var results []stepResult
	for _, raw := range c.Steps {
		var st sessionStep
		if err := json.Unmarshal(resolveKey(raw, live, results), &st); err != nil {
			t.Fatalf("step %s: %v", raw, err)
		}
		results = append(results, st.run(t, s, live))
	}
	for number, want := range c.Want {
		i, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		checkStep(t, "step "+number, want, results, results[i-1])
	}
}

// resolveKey replaces references to earlier steps.
func resolveKey(raw json.RawMessage, live map[session.Key]*session.Session, results []stepResult) []byte {
	text := string(raw)
	for i, r := range results {
		if r.sess != nil {
			text = strings.ReplaceAll(text, fmt.Sprintf(`"$%d"`, i+1), strconv.Quote(r.sess.ID))
		}
	}
	for _, sess := range live {
		later := strconv.FormatFloat(float64(sess.LastUpdate.Add(10*time.Second).UnixMicro())/1e6, 'f', 6, 64)
		text = strings.ReplaceAll(text, `"create.lastUpdateTime+10"`, later)
	}
	return []byte(text)
}

func (st *sessionStep) run(t *testing.T, s *testStore, live map[session.Key]*session.Session) (r stepResult) {
	if st.App == "" {
		st.App = "app"
	}
	key := session.Key{App: st.App, User: st.User, ID: st.ID}
	r.live = live[key]
	switch st.Op {
	case "create":
		r.sess, r.err = s.Sessions.Create(t.Context(), key, st.State)
		if r.err == nil {
			live[r.sess.Key] = r.sess
		}
	case "get":
		o := &store.GetOptions{NumRecentEvents: st.NumRecentEvents, After: st.After}
		if st.AfterTimestamp != 0 {
			o.After = time.UnixMicro(int64(st.AfterTimestamp * 1e6))
		}
		r.sess, r.err = s.Sessions.Get(t.Context(), key, o)
	case "list":
		r.list, r.err = s.Sessions.List(t.Context(), st.App, st.User)
	case "delete":
		r.err = s.Sessions.Delete(t.Context(), key)
	case "append":
		r.sess, r.err = st.append(t, s, key, live[key])
	case "parallel":
		r.errs = make([]error, st.N)
		var wg sync.WaitGroup
		for i := range st.N {
			wg.Go(func() {
				step := *st.Step
				r.errs[i] = step.run(t, s, map[session.Key]*session.Session{}).err
			})
		}
		wg.Wait()
	default:
		t.Fatalf("unknown op %q", st.Op)
	}
	return r
}

func (st *sessionStep) append(t *testing.T, s *testStore, key session.Key, sess *session.Session) (*session.Session, error) {
	ev := &session.Event{}
	if err := json.Unmarshal(st.Event, ev); err != nil {
		t.Fatalf("event %s: %v", st.Event, err)
	}
	if sess == nil {
		sess = &session.Session{Key: key, History: session.NewHistory(nil), State: session.NewState(nil)}
	}
	return sess, s.Sessions.Append(t.Context(), sess, ev)
}

// checkStep compares a result with an event or session count, with fields, or with a word.
func checkStep(t *testing.T, what string, want any, all []stepResult, r stepResult) {
	t.Helper()
	switch want := want.(type) {
	case float64:
		checkCount(t, what, int(want), r)
	case map[string]any:
		if r.err != nil {
			t.Fatalf("%s = %v", what, r.err)
		}
		for field, w := range want {
			checkField(t, what+": "+field, field, w, r)
		}
	case string:
		checkWord(t, what, want, all, r)
	}
}

func checkCount(t *testing.T, what string, want int, r stepResult) {
	t.Helper()
	got := len(r.list)
	if r.sess != nil {
		got = r.sess.History.Len()
	}
	if r.err != nil || got != want {
		t.Errorf("%s = %d, %v, want %d", what, got, r.err, want)
	}
}

func checkWord(t *testing.T, what, want string, all []stepResult, r stepResult) {
	t.Helper()
	switch want {
	case "not found":
		wantErr(t, what, r.err, session.ErrNotFound, "session not found")
	case "exists":
		wantErr(t, what, r.err, session.ErrExists, "session already exists")
	case "ok":
		if r.err != nil {
			t.Errorf("%s = %v", what, r.err)
		}
	case "error":
		if r.err == nil {
			t.Errorf("%s: no error", what)
		}
	case "same as 1":
		diff(t, what, plainState(t, all[0].sess), plainState(t, r.sess))
	case "as appended":
		diff(t, what, plainState(t, r.live), plainState(t, r.sess))
	default:
		t.Errorf("%s: unknown expectation %q", what, want)
	}
}

func checkField(t *testing.T, what, field string, want any, r stepResult) {
	t.Helper()
	switch field {
	case "successes":
		won := 0
		for _, err := range r.errs {
			if err == nil {
				won++
			} else {
				wantErr(t, what, err, session.ErrExists, "")
			}
		}
		diff(t, what, want, any(float64(won)))
	case "userId":
		diff(t, what, want, any(r.sess.User))
	case "count":
		diff(t, what, want, float64(r.sess.History.Len()))
	case "events":
		diff(t, what, want, any(float64(r.sess.History.Len())))
	case "events.invocationId":
		var got []any
		for _, e := range r.sess.Events() {
			got = append(got, e.InvocationID)
		}
		diff(t, what, want, any(got))
	case "first.timestamp":
		diff(t, what, want, float64(r.sess.Events()[0].Timestamp.UnixMicro())/1e6)
	case "lastUpdateTime":
		diff(t, what, r.live.Events()[0].Timestamp, r.sess.LastUpdate)
	case "states":
		got := map[string]any{}
		for _, sess := range r.list {
			got[sess.ID] = sess.State.All()
		}
		diff(t, what, want, any(got))
	case "state":
		diff(t, what, want, any(convertIntegers(r.sess.State.All())))
	case "state includes":
		got := convertIntegers(r.sess.State.All())
		for k, v := range want.(map[string]any) {
			diff(t, what+" "+k, v, got[k])
		}
	case "events[0].actions.stateDelta":
		diff(t, what, want, any(convertIntegers(r.sess.Events()[0].Actions.StateDelta)))
	default:
		t.Errorf("%s: unknown expectation", what)
	}
}

// convertIntegers makes integers floats, as encoding/json decodes them.
func convertIntegers(m map[string]any) map[string]any {
	m = maps.Clone(m)
	for k, v := range m {
		if i, ok := v.(int64); ok {
			m[k] = float64(i)
		}
	}
	return m
}
