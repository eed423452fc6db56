package vertexstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
	"github.com/google/uuid"
)

// initialKey is the session state key that holds the state at creation.
const initialKey = "_agenthost_initial"

// receivedSession is a session in a response.
type receivedSession struct {
	Name         string
	UserID       string `json:"userId"`
	CreateTime   time.Time
	UpdateTime   time.Time
	SessionState json.RawMessage
	Labels       map[string]string
}

// isOf reports whether a session belongs to a key's app and user. Another program's session has no
// app.
func (r *receivedSession) isOf(key session.Key) bool {
	app, labeled := r.Labels[appLabel]
	return r.UserID == key.User && (!labeled || app == hashApp(key.App))
}

// headID returns the head id: the creation time in microseconds, which the name's hash makes
// unique.
func (r *receivedSession) headID() int64 {
	h := fnv.New32a()
	h.Write([]byte(lastSegment(r.Name)))
	return r.CreateTime.UnixMicro()*1000 + int64(h.Sum32()%1000)
}

// decodeState returns the merged state without deleted keys, and the state at creation,
// which is nil if it is unknown.
func (r *receivedSession) decodeState() (state, initial map[string]any, err error) {
	if len(r.SessionState) == 0 {
		return map[string]any{}, nil, nil
	}
	if state, err = session.DecodeMap(r.SessionState); err != nil {
		return nil, nil, fmt.Errorf("state of session %s: %w", lastSegment(r.Name), err)
	}
	initial, _ = state[initialKey].(map[string]any)
	maps.DeleteFunc(state, func(k string, v any) bool {
		return v == nil || k == initialKey || strings.HasPrefix(k, session.TempPrefix)
	})
	return state, initial, nil
}

// sessionPath returns a session's resource name.
func (b *Sessions) sessionPath(key session.Key) (string, error) {
	id, err := encodeID(key.ID)
	return b.client.resourceName() + "/sessions/" + id, err
}

// getSession reads a session without its events. A session of another user or app is missing.
func (b *Sessions) getSession(ctx context.Context, key session.Key) (*receivedSession, error) {
	r, err := b.readSessionOfAny(ctx, key)
	if err == nil && !r.isOf(key) {
		return nil, backend.SessionNotFound(key.ID)
	}
	return r, err
}

// readSessionOfAny reads a session of any user and app.
func (b *Sessions) readSessionOfAny(ctx context.Context, key session.Key) (*receivedSession, error) {
	path, err := b.sessionPath(key)
	if err != nil {
		return nil, backend.SessionNotFound(key.ID) // no such id can be stored
	}
	var r receivedSession
	err = b.client.sendCall(ctx, &call{method: http.MethodGet, path: path}, &r)
	if isMissingSession(err) {
		return nil, backend.SessionNotFound(key.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("reading session %s: %w", key.ID, err)
	}
	if r.CreateTime.IsZero() {
		return nil, fmt.Errorf("reading session %s: Vertex AI's response has no createTime", key.ID)
	}
	return &r, nil
}

// insertSession creates a session and waits until it can be read.
func (b *Sessions) insertSession(ctx context.Context, key session.Key, cells []store.StateWrite, expires time.Time) (*receivedSession, error) {
	if assignedID.MatchString(key.ID) {
		return nil, fmt.Errorf("session id %s: Vertex AI assigns ids of 16 to 20 digits itself: choose another id: %w", key.ID, session.ErrInvalid)
	}
	id, err := encodeID(key.ID)
	if err != nil {
		return nil, err
	}
	if err := checkCells(cells); err != nil {
		return nil, err
	}
	request := strings.ReplaceAll(uuid.NewString(), "-", "")
	body := map[string]any{"userId": key.User, "labels": map[string]string{appLabel: hashApp(key.App), createLabel: request}}
	state := map[string]any{}
	for _, c := range cells {
		if c.Value != nil {
			state[c.Key] = c.Value
		}
	}
	if own := store.SessionState(cells); len(own) > 0 {
		state[initialKey] = own
	}
	if len(state) > 0 {
		body["sessionState"] = state
	}
	switch {
	case !expires.IsZero():
		body["expireTime"] = expires.UTC().Format(time.RFC3339Nano)
	case b.ttl > 0:
		body["ttl"] = fmt.Sprintf("%ds", int64(b.ttl.Seconds()))
	}
	var op operation
	err = b.client.sendCall(ctx, &call{method: http.MethodPost, path: b.client.resourceName() + "/sessions", query: url.Values{"sessionId": {id}}, body: body}, &op)
	isConflict := hasCode(err, http.StatusConflict)
	if err == nil {
		err = b.client.waitOperation(ctx, &op)
	}
	if err != nil && !isConflict {
		return nil, fmt.Errorf("creating session %s: %w", key.ID, err)
	}
	r, err := b.awaitSession(ctx, key)
	if isConflict && (errors.Is(err, session.ErrNotFound) || err == nil && r.Labels[createLabel] != request) {
		// Otherwise the response to an earlier attempt was lost.
		return nil, backend.SessionExists(key.ID)
	}
	return r, err
}

// visibleAttempts bounds how often a new session is read until it is found: for 6 s.
const visibleAttempts = 8

// awaitSession reads a new session. For a second or two it may be missing.
func (b *Sessions) awaitSession(ctx context.Context, key session.Key) (*receivedSession, error) {
	for attempt := 1; ; attempt++ {
		r, err := b.readSessionOfAny(ctx, key)
		if !errors.Is(err, session.ErrNotFound) || attempt == visibleAttempts {
			return r, err
		}
		if err := sleepContext(ctx, nextBackoff(min(attempt, 4))); err != nil {
			return nil, err
		}
	}
}

// listSessions returns the sessions that a query selects, in creation order.
func (b *Sessions) listSessions(ctx context.Context, q store.SessionQuery) ([]*store.ListedSession, error) {
	query := url.Values{}
	if q.User != "" {
		query.Set("filter", "user_id="+quoteFilter(q.User))
	}
	var all []*store.ListedSession
	err := b.eachSession(ctx, q.App, query, func(key session.Key, r *receivedSession) error {
		h := store.Head{ID: r.headID(), Updated: r.UpdateTime.UTC().Truncate(time.Microsecond)}
		if !q.Matches(key, h) {
			return nil
		}
		state, _, err := r.decodeState()
		all = append(all, &store.ListedSession{Key: key, Head: h, State: state})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	return q.OrderSessions(all), nil
}

// listExpired returns an app's sessions that are past their retention, in creation order.
func (b *Sessions) listExpired(ctx context.Context, q store.ExpiryQuery) (*store.ExpiredPage, error) {
	page := &store.ExpiredPage{}
	err := b.eachSession(ctx, q.App, url.Values{}, func(key session.Key, r *receivedSession) error {
		if q.IsExpired(r.CreateTime, r.UpdateTime) {
			page.Sessions = append(page.Sessions, store.ExpiredSession{Key: key, ID: r.headID()})
		}
		return nil
	})
	slices.SortFunc(page.Sessions, func(a, b store.ExpiredSession) int { return cmp.Compare(a.ID, b.ID) })
	return page, err
}

// eachSession lists an app's sessions.
func (b *Sessions) eachSession(ctx context.Context, app string, query url.Values, each func(session.Key, *receivedSession) error) error {
	return b.client.listPages(ctx, b.client.resourceName()+"/sessions", query, func(page json.RawMessage) (bool, error) {
		var list struct{ Sessions []receivedSession }
		if err := json.Unmarshal(page, &list); err != nil {
			return false, err
		}
		for i := range list.Sessions {
			r := &list.Sessions[i]
			key := session.Key{App: app, User: r.UserID, ID: decodeID(lastSegment(r.Name))}
			if !r.isOf(key) {
				continue
			}
			if err := each(key, r); err != nil {
				return false, err
			}
		}
		return true, nil
	})
}

func quoteFilter(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// readShared returns the app: and user: keys from the user's session, or the app: keys from any
// other session. The service shows them only in sessions.
func (b *Sessions) readShared(ctx context.Context, key session.Key) (map[string]any, error) {
	for _, filter := range []string{"user_id=" + quoteFilter(key.User), ""} {
		query := url.Values{"pageSize": {"1"}}
		if filter != "" {
			query.Set("filter", filter)
		}
		var list struct{ Sessions []receivedSession }
		if err := b.client.sendCall(ctx, &call{method: http.MethodGet, path: b.client.resourceName() + "/sessions", query: query}, &list); err != nil {
			return nil, fmt.Errorf("reading shared state: %w", err)
		}
		if len(list.Sessions) == 0 {
			continue
		}
		r := &list.Sessions[0]
		state, _, err := r.decodeState()
		if err != nil {
			return nil, err
		}
		maps.DeleteFunc(state, func(k string, _ any) bool {
			scope, _ := session.ScopeOf(k)
			return scope != session.ScopeApp && (scope != session.ScopeUser || r.UserID != key.User)
		})
		return state, nil
	}
	return map[string]any{}, nil
}
