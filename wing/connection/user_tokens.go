package connection

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"agenthost/internal/limit"
	"agenthost/pkg/connection"
)

// newUserTokens registers the source with the grants.
func newUserTokens(c *oauthConfig, env connection.Env, grants *Grants) (connection.Source, error) {
	if grants == nil {
		return unavailable{errors.New("users can authorize the connection only with agenthost serve and agenthost run")}, nil
	}
	if grants.opts.Keys == nil {
		return nil, fmt.Errorf("the grant %s stores users' tokens encrypted and requires --credentials-key", c.Grant)
	}
	s := &userTokens{config: c, server: newTokenServer(c, env), grants: grants, app: env.App, name: env.Name, mayRegister: env.MayRegister}
	settings := *c
	settings.ClientSecret.Text.Value = "" // a new secret keeps the tokens
	s.configID = hashID("config", settings.listSettings()...)
	grants.addSource(s)
	return s, nil
}

// unavailable is a source whose calls fail.
type unavailable struct{ err error }

// Credential implements [connection.Source].
func (s unavailable) Credential(context.Context, connection.User) (*connection.Credential, error) {
	return nil, s.err
}

// Evict implements [connection.Source].
func (s unavailable) Evict(connection.User, *connection.Credential) bool { return false }

// PerUser implements [connection.Source].
func (s unavailable) PerUser() bool { return true }

// newConsentError returns the error for a user who has to authorize the app. earlier is the token
// that lacks scopes, or nil.
func (s *userTokens) newConsentError(user connection.User, earlier *userToken) error {
	return connection.NewConsentError(func(ctx context.Context, sessionID, callID string) (map[string]any, error) {
		return s.requestConsent(ctx, user, earlier, sessionID, callID)
	})
}

// renewalLease returns how long a renewal is reserved: longer than a token request may
// take, so that it ends first.
func renewalLease() time.Duration { return limit.TokenAnswer.Time + 15*time.Second }

// The bounds for a renewal.
const (
	renewalPause = 50 * time.Millisecond
	evictTimeout = 10 * time.Second
)

// PerUser implements [connection.Source].
func (s *userTokens) PerUser() bool { return true }

// Credential implements [connection.Source]. The error is a [*connection.ConsentError] if the user has to authorize
// the app.
func (s *userTokens) Credential(ctx context.Context, user connection.User) (*connection.Credential, error) {
	if user.UserID == "" {
		return nil, errors.New("the request has no user")
	}
	for {
		t, row, err := s.readToken(ctx, user)
		switch {
		case err != nil:
			return nil, err
		case t == nil:
			return nil, s.newConsentError(user, nil)
		case s.isFresh(t):
			return bearerCredential(t.Access), nil
		case t.Refresh == "":
			if _, err := s.grants.opts.Store.DeleteGrant(ctx, row.ID, row.Version); err != nil {
				return nil, err
			}
			return nil, s.newConsentError(user, nil)
		}
		now := s.grants.opts.Now()
		if now.Before(row.BusyUntil) {
			if err := s.grants.opts.Wait(ctx, renewalPause); err != nil {
				return nil, err
			}
			continue
		}
		lease, err := s.swapToken(ctx, user, t, row.Version, now.Add(renewalLease()))
		if err != nil {
			return nil, err
		}
		if lease == nil {
			continue // another replica renews
		}
		// A canceled call must not lose a token that replaces the previous one.
		return s.renewToken(context.WithoutCancel(ctx), user, t, lease)
	}
}

func (s *userTokens) isFresh(t *userToken) bool {
	return t.Expires == 0 || s.grants.opts.Now().Add(renewBefore).Before(time.Unix(t.Expires, 0))
}

// renewToken requests a token with the refresh token, and ends the lease.
func (s *userTokens) renewToken(ctx context.Context, user connection.User, t *userToken, lease *connection.Grant) (*connection.Credential, error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {t.Refresh}}
	request := s.config.newTokenRequest(form, t.Refresh)
	if t.Found != nil {
		request = t.Found.Client.newTokenRequest(form, t.Refresh)
		request.endpoint = t.Found.TokenURL
	}
	got, err := s.server.requestToken(ctx, request)
	if failed := (*tokenError)(nil); errors.As(err, &failed) && failed.code == "invalid_grant" {
		if _, err := s.grants.opts.Store.DeleteGrant(ctx, lease.ID, lease.Version); err != nil {
			return nil, err
		}
		return nil, s.newConsentError(user, nil)
	}
	if err != nil {
		_, releaseErr := s.swapToken(ctx, user, t, lease.Version, time.Time{})
		return nil, errors.Join(err, releaseErr)
	}
	renewed := s.newToken(got)
	renewed.Found, renewed.StepUps = t.Found, t.StepUps
	if renewed.Refresh == "" {
		renewed.Refresh = t.Refresh
	}
	if _, err := s.swapToken(ctx, user, renewed, lease.Version, time.Time{}); err != nil {
		return nil, err
	}
	return bearerCredential(renewed.Access), nil
}

// Evict implements [connection.Source]: the token expires now, for all replicas.
func (s *userTokens) Evict(user connection.User, rejected *connection.Credential) bool {
	ctx, cancel := context.WithTimeout(context.Background(), evictTimeout)
	defer cancel()
	t, row, err := s.readToken(ctx, user)
	if err != nil || t == nil {
		return err == nil
	}
	if bearerCredential(t.Access).Value != rejected.Value {
		return true // renewed meanwhile
	}
	if !s.isFresh(t) {
		return true // a change would end the lease of the replica that renews it
	}
	t.Expires = 1
	_, err = s.swapToken(ctx, user, t, row.Version, row.BusyUntil)
	return err == nil
}
