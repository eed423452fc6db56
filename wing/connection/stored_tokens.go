package connection

import (
	"context"
	"encoding/json"
	"time"

	"agenthost/pkg/connection"
)

// userToken is a grant's content with tokens.
type userToken struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh,omitempty"`
	// Expires is in Unix seconds; 0 means never.
	Expires int64 `json:"expires,omitempty"`
	// Found is the authorization server that was discovered; it is nil if the document names one.
	Found *foundServer `json:"found,omitempty"`
	// Wanted are scopes that the service requires and the token does not have.
	Wanted []string `json:"-"`
	// StepUps counts the consents to more scopes.
	StepUps int `json:"step_ups,omitempty"`
}

func (s *userTokens) grantID(user connection.User) string {
	return hashID("token", user.App, user.UserID, s.name, s.configID)
}

// readToken returns the stored token with its row, or nil and the row, which may be nil, if
// there is none that the keys decrypt.
func (s *userTokens) readToken(ctx context.Context, user connection.User) (*userToken, *connection.Grant, error) {
	row, err := s.grants.opts.Store.GetGrant(ctx, s.grantID(user))
	if err != nil || row == nil {
		return nil, nil, err
	}
	text, err := s.grants.opts.Keys.OpenSealed(row)
	t := &userToken{}
	if err == nil {
		err = json.Unmarshal(text, t)
	}
	if err != nil {
		s.grants.opts.Logger.WarnContext(ctx, "stored token unusable", "app", user.App, "connection", s.name, "error", err)
		return nil, row, nil
	}
	return t, row, nil
}

// swapToken stores a token after a version of its row.
func (s *userTokens) swapToken(ctx context.Context, user connection.User, t *userToken, after int64, busyUntil time.Time) (*connection.Grant, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	row := &connection.Grant{ID: s.grantID(user), User: user, Connection: s.name, Version: after + 1, BusyUntil: busyUntil}
	row.Sealed = s.grants.opts.Keys.SealText(row, text)
	ok, err := s.grants.opts.Store.SwapGrant(ctx, row)
	if err != nil || !ok {
		return nil, err
	}
	return row, nil
}

// replaceToken stores a token instead of an earlier one.
func (s *userTokens) replaceToken(ctx context.Context, user connection.User, t *userToken) error {
	for {
		row, err := s.grants.opts.Store.GetGrant(ctx, s.grantID(user))
		if err != nil {
			return err
		}
		after := int64(0)
		if row != nil {
			after = row.Version
		}
		if stored, err := s.swapToken(ctx, user, t, after, time.Time{}); err != nil || stored != nil {
			return err
		}
	}
}

func (s *userTokens) newToken(got *tokenResponse) *userToken {
	t := &userToken{Access: got.AccessToken, Refresh: got.RefreshToken}
	if got.ExpiresIn > 0 {
		t.Expires = s.grants.opts.Now().Unix() + int64(min(got.ExpiresIn, maxLifetime))
	}
	return t
}
