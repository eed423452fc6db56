package sqlstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A corpusCase is a row of session-service.json: steps, and what must come out
// of some of them, by their number.
type corpusCase struct {
	Name     string
	Steps    []json.RawMessage
	Expected map[string]any
}

type corpusStep struct {
	Op, App, User, ID string
	State             map[string]any
	Event             json.RawMessage
	NumRecentEvents   *int
	AfterTimestamp    float64
	After             time.Time
	N                 int
	Step              *corpusStep
}

// A stepResult is what came out of one step.
type stepResult struct {
	sess *session.Session
	list []*session.Session
	err  error
	// live is the session object that appends of this key went through.
	live *session.Session
	// errs are those of parallel steps.
	errs []error
}

func loadCorpus(t *testing.T) []corpusCase {
	t.Helper()
	dir := os.Getenv("AGENTHOST_CORPUS")
	if dir == "" {
		dir = "../../../shared/corpus"
	}
	text, err := os.ReadFile(filepath.Join(dir, "session-service.json"))
	if err != nil {
		t.Skipf("THE CORPUS IS MISSING: %v", err)
	}
	var cases []corpusCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// knownDifferences are the rows whose steps are prose, and the tests that carry them out.
func knownDifferences() map[string]string {
	return map[string]string{
		"temp: keys: readable on the live session object within the invocation": "TestAppendScopes",
		"temp: keys in create(state)":                                           "TestCreateState",
		"workflow fields survive":                                               "TestEventSurvives",
		"stale writer (database)":                                               "TestStale",
		"append through the storage object does not double":                     "TestAppendOnce",
		"one failed commit does not break the service":                          "TestSpoiltBatch",
		"create in sequence for one app (database)":                             "TestCreateState",
		"get returns a copy":                                                    "TestGetIsACopy",
		"state value null removes? (java)":                                      "TestAppendScopes",
	}
}

func TestCorpus(t *testing.T) {
	cases := loadCorpus(t)
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			for _, c := range cases {
				t.Run(strings.ReplaceAll(c.Name, " ", "_"), func(t *testing.T) {
					if c.Steps[0][0] == '"' {
						if knownDifferences()[c.Name] == "" {
							t.Error("a row in prose without a test")
						}
						return
					}
					c.run(t, openStore(t, be.url(t), nil))
				})
			}
		})
	}
}

func (c *corpusCase) run(t *testing.T, s *testStore) {
	live := map[session.Key]*session.Session{}
	var results []stepResult
	for _, raw := range c.Steps {
		var st corpusStep
		if err := json.Unmarshal(resolveKey(raw, live, results), &st); err != nil {
			t.Fatalf("step %s: %v", raw, err)
		}
		results = append(results, st.run(t, s, live))
	}
	for number, want := range c.Expected {
		i, err := strconv.Atoi(number)
		switch {
		case err == nil:
			checkStep(t, "step "+number, want, results, results[i-1])
		case number == "successes":
			won := 0
			for _, err := range results[0].errs {
				if err == nil {
					won++
				} else {
					wantErr(t, "loser", err, session.ErrExists, "")
				}
			}
			diff(t, "successes", want, float64(won))
		case number == "python" || number == "go":
			wantErr(t, "step 1", results[0].err, session.ErrNotFound, "")
		}
	}
}

// resolveKey fills in what a step takes from an earlier one.
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

func (st *corpusStep) run(t *testing.T, s *testStore, live map[session.Key]*session.Session) (r stepResult) {
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

func (st *corpusStep) append(t *testing.T, s *testStore, key session.Key, sess *session.Session) (*session.Session, error) {
	ev := &session.Event{}
	if err := json.Unmarshal(st.Event, ev); err != nil {
		t.Fatalf("event %s: %v", st.Event, err)
	}
	if sess == nil {
		sess = &session.Session{Key: key, History: session.NewHistory(nil), State: session.NewState(nil)}
	}
	return sess, s.Sessions.Append(t.Context(), sess, ev)
}

// checkStep compares a result with an expectation in one of the corpus' forms.
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
	switch first, _, _ := strings.Cut(want, " "); {
	case want == "not found":
		wantErr(t, what, r.err, session.ErrNotFound, "session not found")
	case want == "ok", want == "found", want == "error or no-op":
		if r.err != nil {
			t.Errorf("%s = %v", what, r.err)
		}
	case want == "error":
		if r.err == nil {
			t.Errorf("%s: no error", what)
		}
	case first == "AlreadyExistsError":
		wantErr(t, what, r.err, session.ErrExists, "session already exists")
	case want == "same as 1":
		diff(t, what, plainState(t, all[0].sess), plainState(t, r.sess))
	default: // equal to the live session
		diff(t, what, plainState(t, r.live), plainState(t, r.sess))
	}
}

func checkField(t *testing.T, what, field string, want any, r stepResult) {
	t.Helper()
	switch field {
	case "id":
		if r.sess.ID == "" {
			t.Errorf("%s is empty", what)
		}
	case "userId":
		diff(t, what, want, any(r.sess.User))
	case "count":
		diff(t, what, want, float64(r.sess.History.Len()))
	case "events":
		if n, ok := want.(float64); ok {
			diff(t, what, n, float64(r.sess.History.Len()))
		} else {
			diff(t, what, len(want.([]any)), r.sess.History.Len())
		}
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
	case "ids":
		checkList(t, what, want.([]any), r.list)
	case "state":
		if r.list == nil {
			diff(t, what, want, any(floats(r.sess.State.All())))
		}
	case "state⊇":
		got := floats(r.sess.State.All())
		for k, v := range want.(map[string]any) {
			diff(t, what+" "+k, v, got[k])
		}
	case "events[0].actions.stateDelta":
		diff(t, what, want, any(floats(r.sess.Events()[0].Actions.StateDelta)))
	default:
		t.Errorf("%s: unknown expectation", what)
	}
}

// checkList checks that each session has its own state, which the corpus describes
// in prose.
func checkList(t *testing.T, what string, want []any, list []*session.Session) {
	t.Helper()
	var got []any
	for _, s := range list {
		got = append(got, s.ID)
		diff(t, what+" state", map[string]any{"key": "value" + s.ID}, s.State.All())
		if s.History.Len() != 0 {
			t.Errorf("%s: %s has events", what, s.ID)
		}
	}
	diff(t, what, want, got)
}

// floats makes integers what the corpus' decoder made of them.
func floats(m map[string]any) map[string]any {
	m = maps.Clone(m)
	for k, v := range m {
		if i, ok := v.(int64); ok {
			m[k] = float64(i)
		}
	}
	return m
}

func TestKnownDifferencesExist(t *testing.T) {
	var names []string
	for _, c := range loadCorpus(t) {
		names = append(names, c.Name)
	}
	for name := range knownDifferences() {
		if !slices.Contains(names, name) {
			t.Error(errors.New("no such row: " + name))
		}
	}
}
