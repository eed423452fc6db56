package store

import (
	"context"
	"fmt"
	"strconv"

	"agenthost/pkg/session"
)

// maxPage is the maximum page size.
const maxPage = 1000

// A PageRequest selects a page of a list of sessions.
type PageRequest struct {
	App string
	// User selects one user; empty selects all users.
	User string
	// Size is the maximum number of sessions, from 1 to 1000.
	Size int
	// Token is the token that the previous page returned as next; empty selects
	// the first page.
	Token string
}

// List returns the sessions of a user, or of all users of the app if user is
// empty, in order of creation, with state and without events. An invalid app or
// user is ErrInvalid.
func (s *Sessions) List(ctx context.Context, app, user string) ([]*session.Session, error) {
	return s.listSessions(ctx, sessionQuery{app: app, user: user})
}

// Page returns a page of List and the token of the next page, which is empty
// after the last one. Sessions created meanwhile appear at the end, deleted
// ones are omitted. An invalid size or token is ErrInvalid.
func (s *Sessions) Page(ctx context.Context, req *PageRequest) (all []*session.Session, next string, err error) {
	if req.Size < 1 || req.Size > maxPage {
		return nil, "", fmt.Errorf("page size %d is not between 1 and %d: %w", req.Size, maxPage, session.ErrInvalid)
	}
	q := sessionQuery{app: req.App, user: req.User, limit: req.Size + 1}
	if req.Token != "" {
		if q.after, err = strconv.ParseInt(req.Token, 36, 64); err != nil || q.after < 0 {
			return nil, "", fmt.Errorf("page token %q is not from a previous page: %w", req.Token, session.ErrInvalid)
		}
	}
	rows, err := s.querySessions(ctx, q)
	if err != nil {
		return nil, "", err
	}
	if len(rows) > req.Size {
		rows = rows[:req.Size]
		next = strconv.FormatInt(rows[req.Size-1].id, 36)
	}
	return newSessionViews(rows), next, nil
}

func (s *Sessions) listSessions(ctx context.Context, q sessionQuery) ([]*session.Session, error) {
	rows, err := s.querySessions(ctx, q)
	if err != nil {
		return nil, err
	}
	return newSessionViews(rows), nil
}

func (s *Sessions) querySessions(ctx context.Context, q sessionQuery) ([]*listedSession, error) {
	if q.app == "" {
		return nil, fmt.Errorf("app is required: %w", session.ErrInvalid)
	}
	if err := checkText("app", q.app, maxApp); err != nil {
		return nil, err
	}
	if err := checkText("user id", q.user, maxUser); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.backend.listSessions(ctx, q)
}

func newSessionViews(rows []*listedSession) []*session.Session {
	all := make([]*session.Session, len(rows))
	for i, l := range rows {
		all[i] = newSessionView(l.key, &snapshot{head: l.head, state: l.state}, session.NewHistory(nil))
	}
	return all
}
