package acpserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// Limits on sessions.
const (
	// maxSessions limits the sessions that a client has opened.
	maxSessions = 1000
	// pageSize is how many sessions a list has.
	pageSize = 100
	// maxFolder limits cwd in bytes.
	maxFolder = 4096
)

// An openSession is a session that the client has created, loaded or resumed. The agent's mu guards
// it.
type openSession struct {
	key session.Key
	// cwd is the client's folder. The app does not use it.
	cwd string
	// mode is the agent that the client has chosen; empty for the one that continues the session.
	mode string
	// turn is the prompt in progress; nil without.
	turn  *turn
	calls *sentCalls
}

type mcpServer struct {
	Name string `json:"name"`
}

type sessionParams struct {
	SessionID             *string      `json:"sessionId"`
	CWD                   *string      `json:"cwd"`
	MCPServers            *[]mcpServer `json:"mcpServers"`
	AdditionalDirectories []string     `json:"additionalDirectories"`
}

type sessionResult struct {
	SessionID string     `json:"sessionId,omitempty"`
	Modes     *modeState `json:"modes,omitempty"`
}

// beginNew creates a session, which other protocols can use at once.
func (a *agent) beginNew(p *sessionParams) (job, error) {
	if err := a.checkFolders(p, true); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (any, error) {
		sess, err := a.Host().Store().Sessions.Create(ctx, session.Key{App: a.opts.App, User: a.opts.User}, nil)
		if err != nil {
			return nil, err
		}
		if err := a.openSession(&openSession{key: sess.Key, cwd: *p.CWD}); err != nil {
			return nil, err
		}
		return &sessionResult{sess.ID, a.describeModes("")}, nil
	}, nil
}

// checkFolders checks what a client hands to a session. The app has its own tools and files.
func (a *agent) checkFolders(p *sessionParams, requireServers bool) error {
	switch {
	case p.CWD == nil:
		return newParamsError("cwd is required")
	case !isAbsolute(*p.CWD) || len(*p.CWD) > maxFolder:
		return newParamsError("cwd must be an absolute path of at most %d bytes, got %q", maxFolder, protocol.TruncateText(*p.CWD, maxShown))
	case p.MCPServers == nil && requireServers:
		return newParamsError("mcpServers is required")
	case p.MCPServers == nil:
		p.MCPServers = &[]mcpServer{}
	}
	a.reportIgnored(*p.MCPServers, p.AdditionalDirectories)
	return nil
}

var windowsPath = regexp.MustCompile(`^([A-Za-z]:[\\/]|\\\\)`)

// isAbsolute accepts the form of any system: an editor may run on another one.
func isAbsolute(folder string) bool {
	return filepath.IsAbs(folder) || strings.HasPrefix(folder, "/") || windowsPath.MatchString(folder)
}

// openSession records a session that the client has opened. One that is open already keeps its mode
// and its prompt.
func (a *agent) openSession(s *openSession) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.calls == nil {
		s.calls = &sentCalls{ids: map[string]bool{}}
	}
	if known := a.sessions[s.key.ID]; known != nil {
		s.mode, s.turn = known.mode, known.turn
		known.cwd, known.calls = s.cwd, s.calls
		return nil
	}
	if len(a.sessions) >= maxSessions {
		return newWireError(codeInvalidRequest, "open sessions exceed the limit of %d: close one", maxSessions)
	}
	a.sessions[s.key.ID] = s
	return nil
}

// beginLoad opens a session, and sends its history.
func (a *agent) beginLoad(p *sessionParams) (job, error) {
	if err := a.checkFolders(p, true); err != nil {
		return nil, err
	}
	return a.beginOpen(p, func(ctx context.Context, s *openSession, sess *session.Session) error {
		s.calls = &sentCalls{ids: map[string]bool{}}
		return a.newUpdater(sess.ID, s.calls).replayHistory(ctx, sess)
	})
}

// beginResume opens a session without its history.
func (a *agent) beginResume(p *sessionParams) (job, error) {
	if err := a.checkFolders(p, false); err != nil {
		return nil, err
	}
	return a.beginOpen(p, func(context.Context, *openSession, *session.Session) error { return nil })
}

func (a *agent) beginOpen(p *sessionParams, send func(context.Context, *openSession, *session.Session) error) (job, error) {
	if p.SessionID == nil {
		return nil, newParamsError("sessionId is required")
	}
	return func(ctx context.Context) (any, error) {
		sess, err := a.findSession(ctx, *p.SessionID)
		if err != nil {
			return nil, err
		}
		s := &openSession{key: sess.Key, cwd: *p.CWD}
		if err := send(ctx, s, sess); err != nil {
			return nil, err
		}
		if err := a.openSession(s); err != nil {
			return nil, err
		}
		return &sessionResult{Modes: a.describeModes(s.mode)}, nil
	}, nil
}

// findSession returns one of the user's sessions in the app. Any other ID is not found.
func (a *agent) findSession(ctx context.Context, id string) (*session.Session, error) {
	sess, err := a.Host().Store().Sessions.Get(ctx, session.Key{App: a.opts.App, User: a.opts.User, ID: id}, nil)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid) {
		return nil, newUnknownSession(id)
	}
	return sess, err
}

func newUnknownSession(id string) error {
	return newWireError(codeNotFound, "session %q not found", protocol.TruncateText(id, maxShown))
}

type listParams struct {
	CWD    *string `json:"cwd"`
	Cursor *string `json:"cursor"`
}

type sessionInfo struct {
	SessionID string `json:"sessionId"`
	CWD       string `json:"cwd"`
	Title     string `json:"title,omitempty"`
	UpdatedAt string `json:"updatedAt"`
}

type listResult struct {
	Sessions   []sessionInfo `json:"sessions"`
	NextCursor string        `json:"nextCursor,omitempty"`
}

// beginList lists the user's sessions, the latest first. Sessions have no folder: each is listed with
// the client's.
func (a *agent) beginList(p *listParams) (job, error) {
	folder, err := os.Getwd()
	if err != nil {
		folder = "/"
	}
	if p.CWD != nil {
		if folder = *p.CWD; !isAbsolute(folder) || len(folder) > maxFolder {
			return nil, newParamsError("cwd must be an absolute path of at most %d bytes, got %q", maxFolder, protocol.TruncateText(folder, maxShown))
		}
	}
	var before *session.Session
	if p.Cursor != nil {
		if before = decodeCursor(*p.Cursor); before == nil {
			return nil, newParamsError("cursor is not that of an earlier list")
		}
	}
	return func(ctx context.Context) (any, error) {
		all, err := a.Host().Store().Sessions.List(ctx, a.opts.App, a.opts.User)
		if err != nil {
			return nil, err
		}
		result := &listResult{Sessions: []sessionInfo{}}
		slices.SortFunc(all, func(x, y *session.Session) int { return compareSessions(y, x) })
		for _, sess := range all {
			if before != nil && compareSessions(sess, before) >= 0 {
				continue
			}
			if len(result.Sessions) == pageSize {
				result.NextCursor = encodeCursor(result.Sessions[pageSize-1])
				break
			}
			result.Sessions = append(result.Sessions, sessionInfo{
				SessionID: sess.ID, CWD: a.folderOf(sess.ID, folder), Title: protocol.NewTitle(protocol.ReadTitle(sess)), UpdatedAt: formatTime(sess.LastUpdate),
			})
		}
		return result, nil
	}, nil
}

func (a *agent) folderOf(id, other string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[id]; s != nil {
		return s.cwd
	}
	return other
}

func compareSessions(x, y *session.Session) int {
	return cmp.Or(x.LastUpdate.Truncate(time.Microsecond).Compare(y.LastUpdate.Truncate(time.Microsecond)), cmp.Compare(x.ID, y.ID))
}

func formatTime(t time.Time) string {
	return t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

// A cursor is the time and the ID of a page's last session.
func encodeCursor(last sessionInfo) string {
	return base64.RawURLEncoding.EncodeToString([]byte(last.UpdatedAt + " " + last.SessionID))
}

func decodeCursor(text string) *session.Session {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	written, id, ok := strings.Cut(string(decoded), " ")
	updated, err := time.Parse(time.RFC3339Nano, written)
	if err != nil || !ok {
		return nil
	}
	return &session.Session{Key: session.Key{ID: id}, LastUpdate: updated}
}

type closeParams struct {
	SessionID *string `json:"sessionId"`
}

// beginClose cancels the session's prompt, and removes what the client has chosen.
func (a *agent) beginClose(p *closeParams) (job, error) {
	if p.SessionID == nil {
		return nil, newParamsError("sessionId is required")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[*p.SessionID]
	if s == nil {
		return nil, newUnknownSession(*p.SessionID)
	}
	delete(a.sessions, *p.SessionID)
	return stopTurn(s, func(context.Context) (any, error) { return struct{}{}, nil }), nil
}

// stopTurn cancels the prompt of a session, and returns the job after its end.
func stopTurn(s *openSession, then job) job {
	t := s.turn
	if t == nil {
		return then
	}
	t.cancelByClient()
	return func(ctx context.Context) (any, error) {
		select {
		case <-t.ended:
			return then(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// beginDelete deletes a session, open or not.
func (a *agent) beginDelete(p *closeParams) (job, error) {
	if p.SessionID == nil {
		return nil, newParamsError("sessionId is required")
	}
	id := *p.SessionID
	remove := func(ctx context.Context) (any, error) {
		sess, err := a.findSession(ctx, id)
		if err != nil {
			return nil, err
		}
		return struct{}{}, a.Host().DeleteSession(ctx, sess.Key)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.sessions[id]; s != nil {
		delete(a.sessions, id)
		return stopTurn(s, remove), nil
	}
	return remove, nil
}

type modeParams struct {
	SessionID *string `json:"sessionId"`
	ModeID    *string `json:"modeId"`
}

// beginSetMode chooses the agent that answers the session's next prompts.
func (a *agent) beginSetMode(p *modeParams) (job, error) {
	switch {
	case p.SessionID == nil:
		return nil, newParamsError("sessionId is required")
	case p.ModeID == nil:
		return nil, newParamsError("modeId is required")
	}
	modes := a.describeModes("")
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[*p.SessionID]
	switch {
	case s == nil:
		return nil, newUnknownSession(*p.SessionID)
	case modes == nil:
		return nil, newParamsError("modeId: unknown mode %q, the app has no modes", protocol.TruncateText(*p.ModeID, maxShown))
	case !slices.ContainsFunc(modes.Available, func(m sessionMode) bool { return m.ID == *p.ModeID }):
		var names []string
		for _, m := range modes.Available {
			names = append(names, m.ID)
		}
		return nil, newParamsError("modeId: unknown mode %q, the modes are %s", protocol.TruncateText(*p.ModeID, maxShown), strings.Join(names, ", "))
	}
	s.mode = *p.ModeID
	return newResult(struct{}{}), nil
}

// describeError returns an error on the wire; an internal one's cause is in the log.
func (a *agent) describeError(ctx context.Context, err error) *wireError {
	if own, ok := errors.AsType[*wireError](err); ok {
		return own
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return newWireError(codeCancelled, "request cancelled")
	}
	failed := protocol.LogError(ctx, a.Services, "/acp/"+a.opts.App, err)
	wrong := &wireError{Code: codeInternal, Message: failed.Detail, Data: map[string]any{}}
	switch {
	case failed.Code == runtime.CodeSessionNotFound:
		wrong.Code = codeNotFound
	case failed.Status == http.StatusBadRequest || failed.Status == http.StatusUnprocessableEntity || failed.Status == http.StatusRequestEntityTooLarge:
		wrong.Code = codeInvalidParams
	}
	if failed.Detail == "" {
		wrong.Message = err.Error()
	}
	if failed.Code != "" {
		wrong.Data["code"] = failed.Code
	}
	if failed.RetryAfter > 0 {
		wrong.Data["retryAfterSeconds"] = int(failed.RetryAfter.Seconds())
	}
	return wrong
}
