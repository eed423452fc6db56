package store

import (
	"context"
	"fmt"
	"strconv"

	"agenthost/pkg/session"
)

// maxPage is the most sessions of one page.
const maxPage = 1000

// A PageRequest asks for a part of a list of sessions.
type PageRequest struct {
	App string
	// User is whose sessions; empty is everybody's.
	User string
	// Size is how many there may be, from 1 to 1000.
	Size int
	// Token is what the page before returned as next; empty is the first page.
	Token string
}

// List returns the sessions of a user, or of all users of the app when user is
// empty, in the order of their creation. They have their state; their history
// is empty. ErrInvalid says that no session can have this app or user.
func (s *Sessions) List(ctx context.Context, app, user string) ([]*session.Session, error) {
	return s.listSessions(ctx, sessionQuery{app: app, user: user})
}

// Page returns a part of a List, and the token of the next; it is empty after
// the last one. Sessions that are made meanwhile come at the end, those that are
// deleted are left out. ErrInvalid says that there is no such size or token.
func (s *Sessions) Page(ctx context.Context, req *PageRequest) (all []*session.Session, next string, err error) {
	if req.Size < 1 || req.Size > maxPage {
		return nil, "", fmt.Errorf("page size %d: write a number from 1 to %d: %w", req.Size, maxPage, session.ErrInvalid)
	}
	q := sessionQuery{app: req.App, user: req.User, limit: req.Size + 1}
	if req.Token != "" {
		if q.after, err = strconv.ParseInt(req.Token, 36, 64); err != nil || q.after < 0 {
			return nil, "", fmt.Errorf("page token %q: it is not one that a page came with: %w", req.Token, session.ErrInvalid)
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
