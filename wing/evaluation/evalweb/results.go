package evalweb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// handleListEvalResults lists an app's results, as a list or in the given field of an object.
// It omits those that cannot be read and logs them: ADK's web client reads all listed
// results, and shows none if one fails.
func (s *handlers) handleListEvalResults(field string) server.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return s.sendEvalView(w, r, func() (any, error) {
			history, err := s.openEvalHistory(r.PathValue("app"))
			if err != nil {
				return nil, err
			}
			defer history.closeFolder()
			entries, err := history.listResults(r.Context())
			if err != nil {
				return nil, err
			}
			names := []string{}
			for _, entry := range entries {
				if s.checks.isReadable(r.Context(), history, entry, s.Logger()) {
					names = append(names, entry.ID)
				}
			}
			slices.Sort(names)
			return wrapNames(names, field), r.Context().Err()
		})
	}
}

// maxResultChecks limits the results whose check is kept.
const maxResultChecks = 10_000

// resultChecks keeps which results can be read, until they change. The zero value is empty.
// It is safe for concurrent use.
type resultChecks struct {
	mu     sync.Mutex
	checks map[string]resultCheck
}

type resultCheck struct {
	size     int64
	changed  time.Time
	readable bool
}

// isReadable reports whether a result can be read. It logs an invalid one the first time.
func (c *resultChecks) isReadable(ctx context.Context, history *evalHistory, entry evalResultEntry, logger *slog.Logger) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := history.app + "/" + entry.ID
	known, ok := c.checks[key]
	if ok && known.size == entry.Bytes && known.changed.Equal(entry.changed) {
		return known.readable
	}
	_, err := history.readResult(ctx, entry.ID)
	if errors.Is(err, session.ErrNotFound) || ctx.Err() != nil {
		return false
	}
	if err != nil {
		logger.Warn("eval result cannot be read, and is not listed", "app", history.app, "result", entry.describePlace(), "error", err)
	}
	if errInvalid := spec.Diagnostics(nil); err != nil && !errors.As(err, &errInvalid) {
		return false // the next list may succeed
	}
	if c.checks == nil || len(c.checks) >= maxResultChecks {
		c.checks = map[string]resultCheck{}
	}
	c.checks[key] = resultCheck{entry.Bytes, entry.changed, err == nil}
	return err == nil
}

// describePlace names the result's file, or its row.
func (e evalResultEntry) describePlace() string {
	if e.inDatabase {
		return e.ID + " in the session database"
	}
	return path.Join(eval.HistoryFolder, e.ID+eval.ResultSuffix)
}

// handleEvalResult responds with a result, in the form that ADK's web client can show.
func (s *handlers) handleEvalResult(w http.ResponseWriter, r *http.Request) error {
	return s.sendEval(w, r, func() (any, error) {
		result, err := s.readEvalResult(r)
		if err != nil {
			return nil, err
		}
		omitLargeSessions(result)
		for _, c := range result.Cases {
			adaptCaseResult(c)
		}
		return result, nil
	})
}

// maxServedSessions limits the session bytes in a response with a result.
const maxServedSessions = 4 << 20

// omitLargeSessions removes the sessions if they are large together. ADK's web client loads
// all results at once, but each session by its ID when a case is opened.
func omitLargeSessions(result *eval.SetResult) {
	size := 0
	for _, c := range result.Cases {
		size += len(c.Session)
	}
	if size <= maxServedSessions {
		return
	}
	for _, c := range result.Cases {
		c.Session = nil
	}
}

// readEvalResult reads the result in the path. As in ADK, an invalid file is 404.
func (s *handlers) readEvalResult(r *http.Request) (*eval.SetResult, error) {
	name := strings.TrimSuffix(r.PathValue("name"), eval.ResultSuffix)
	history, err := s.openEvalHistory(r.PathValue("app"))
	if err != nil {
		return nil, err
	}
	defer history.closeFolder()
	result, err := history.readResult(r.Context(), name)
	if errors.Is(err, session.ErrNotFound) {
		return nil, notFoundError("Eval set result `" + name + "` not found.")
	}
	var ds spec.Diagnostics
	if errors.As(err, &ds) {
		return nil, notFoundError("Cannot read the file:\n" + strings.Join(ds.StringsWithHints(), "\n"))
	}
	return result, err
}

// maxSearchedBytes limits the results that are searched for a session or a case.
const maxSearchedBytes = 256 << 20

// findCaseResult returns a case's newest result for which match returns true, or nil. Results
// contain the word, unless JSON escapes it.
func (s *handlers) findCaseResult(ctx context.Context, app, word string, match func(*eval.CaseResult) bool) (*eval.CaseResult, error) {
	history, err := s.openEvalHistory(app)
	if err != nil {
		return nil, err
	}
	defer history.closeFolder()
	entries, err := history.listResults(ctx)
	if err != nil {
		return nil, err
	}
	if quoted, err := server.EncodeJSON(word); err != nil || string(quoted) != `"`+word+`"` {
		word = "" // every result contains it
	}
	budget := int64(maxSearchedBytes)
	for _, entry := range entries {
		if entry.Bytes > budget {
			return nil, nil
		}
		text, err := history.readText(ctx, entry.ID)
		if budget -= int64(len(text)); budget < 0 {
			return nil, nil
		}
		if err != nil || !bytes.Contains(text, []byte(word)) {
			continue
		}
		result, err := eval.ReadResult(entry.ID+eval.ResultSuffix, text)
		if err != nil {
			continue // reported with the list of results
		}
		if i := slices.IndexFunc(result.Cases, match); i >= 0 {
			return result.Cases[i], nil
		}
	}
	return nil, nil
}

// findRecordedCase returns a case as its newest result has it, or nil. ADK's web client opens
// a result only with its case, which may have been deleted since. A scenario's turns are
// those that happened.
func (s *handlers) findRecordedCase(ctx context.Context, app, set, id string) (*eval.Case, error) {
	result, err := s.findCaseResult(ctx, app, id, func(c *eval.CaseResult) bool { return c.SetID == set && c.CaseID == id })
	if err != nil || result == nil {
		return nil, err
	}
	c := &eval.Case{ID: id, Conversation: []*eval.Invocation{}, Session: &eval.SessionInput{App: app, User: result.UserID}}
	for _, t := range result.Turns {
		c.Conversation = append(c.Conversation, cmp.Or(t.Expected, t.Actual))
	}
	return c, nil
}

// evalSessions are the sessions from eval runs, which are stored in their results only.
type evalSessions struct{ handlers *handlers }

// Owns reports whether an evaluation created a session ID (adk-python cli/cli_eval.py, until
// 2.10 and since 2.11).
func (e *evalSessions) Owns(id string) bool {
	return strings.HasPrefix(id, "___eval___session___") || strings.HasPrefix(id, evalrun.SessionPrefix)
}

// Read returns the session in the path.
func (e *evalSessions) Read(r *http.Request) ([]byte, error) {
	key := server.PathKey(r)
	c, err := e.handlers.findCaseResult(r.Context(), key.App, key.ID, func(c *eval.CaseResult) bool {
		return c.SessionID == key.ID && c.UserID == key.User && len(c.Session) > 0
	})
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, session.ErrNotFound
	}
	return convertKeys(c.Session), nil
}

// adaptCaseResult removes the metrics without a threshold, which ADK's web client counts
// as failed, adds the empty fields without which it fails, and converts the session.
func adaptCaseResult(c *eval.CaseResult) {
	c.Session = convertKeys(c.Session)
	c.Overall = withoutInformational(c.Overall)
	turns := make([]*eval.TurnResult, len(c.Turns))
	for i, t := range c.Turns {
		turn := *t
		turn.Metrics, turn.Actual, turn.Expected = withoutInformational(t.Metrics), adaptInvocation(t.Actual), adaptInvocation(t.Expected)
		turns[i] = &turn
	}
	c.Turns = turns
}

func adaptInvocation(inv *eval.Invocation) *eval.Invocation {
	if inv == nil {
		return nil
	}
	adapted := *inv
	if inv.Intermediate == nil {
		adapted.Intermediate = &eval.Intermediate{}
	}
	if inv.FinalResponse == nil || len(inv.FinalResponse.Parts) == 0 {
		adapted.FinalResponse = genai.NewContentFromText("", genai.RoleModel)
	}
	return &adapted
}

func withoutInformational(all []*eval.MetricResult) []*eval.MetricResult {
	return slices.DeleteFunc(slices.Clone(all), func(m *eval.MetricResult) bool {
		metric, known := eval.FindMetric(m.Metric)
		return m.Status == eval.Informational || known && metric.Informational()
	})
}

// convertKeys converts the keys in ADK's files to camelCase.
func convertKeys(text []byte) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return text
	}
	renamed, err := server.EncodeJSON(jsonbody.RenameKeys(v))
	if err != nil {
		return text
	}
	return renamed
}
