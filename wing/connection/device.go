package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"agenthost/internal/limit"
	"agenthost/pkg/connection"
)

// The bounds for a device consent (RFC 8628).
const (
	// deviceWait is how long an answer waits for the user.
	deviceWait = 30 * time.Second
	// maxDeviceLifetime bounds a device code's lifetime.
	maxDeviceLifetime = 30 * time.Minute
	// defaultDeviceInterval and slowDownStep are from RFC 8628, 3.2 and 3.5.
	defaultDeviceInterval = 5 * time.Second
	slowDownStep          = 5 * time.Second
	maxDeviceInterval     = 5 * time.Minute
	// pollMargin is added to the interval, because a server measures it when polls arrive.
	pollMargin  = time.Second
	maxUserCode = 64
)

// deviceGrantType is the grant_type from RFC 8628, 3.4.
const deviceGrantType = "urn:ietf:params:oauth:grant-type:device_code"

// A deviceConsent is the content of a pending consent with a user code. Its device code is only
// here: anyone who has it can get the tokens.
type deviceConsent struct {
	consentCall
	DeviceCode string `json:"device_code"`
	// Interval is the time between two polls. No replica polls before NextPoll.
	Interval time.Duration `json:"interval"`
	NextPoll time.Time     `json:"next_poll"`
}

// A deviceResponse is a device authorization endpoint's response (RFC 8628, 3.2).
type deviceResponse struct {
	DeviceCode  string  `json:"device_code"`
	UserCode    string  `json:"user_code"`
	Address     string  `json:"verification_uri"`
	WithCode    string  `json:"verification_uri_complete"`
	OldAddress  string  `json:"verification_url"` // from drafts, and from Google
	ExpiresIn   seconds `json:"expires_in"`
	PollSeconds int64   `json:"interval"`
}

// requestDevice starts a device consent for a call. The address that the user opens is
// exchangedAuthCredential.oauth2.authUri, and the code to enter there is userCode.
func (s *userTokens) requestDevice(ctx context.Context, user connection.User, m *serverMetadata, sessionID, callID string) (map[string]any, error) {
	if m.DeviceURL == "" {
		return nil, fmt.Errorf("connection %s: metadata of %s has no device_authorization_endpoint", s.name, s.config.Issuer.Value)
	}
	got, err := s.authorizeDevice(ctx, m.DeviceURL)
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", s.name, err)
	}
	interval := min(toSeconds(seconds(got.PollSeconds), defaultDeviceInterval), maxDeviceInterval)
	c := &deviceConsent{consentCall{sessionID, callID, s.configID, m.TokenURL}, got.DeviceCode, interval, s.grants.opts.Now().Add(interval)}
	lifetime := min(toSeconds(got.ExpiresIn, consentLifetime), maxDeviceLifetime)
	state, err := s.grants.storePending(ctx, kindDevice, &connection.Grant{User: user, Connection: s.name}, c, lifetime)
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", s.name, err)
	}
	asked := map[string]any{"authUri": got.WithCode, "verificationUri": got.Address, "userCode": got.UserCode, "state": state}
	if got.WithCode == "" {
		asked["authUri"] = got.Address
	}
	return s.newAuthConfig(connection.DeviceFlow, s.config.newClient(), map[string]any{"deviceAuthorizationUrl": m.DeviceURL, "tokenUrl": m.TokenURL}, asked), nil
}

// toSeconds returns seconds as a duration, or a default if they are not positive.
func toSeconds(s seconds, otherwise time.Duration) time.Duration {
	if s <= 0 {
		return otherwise
	}
	return time.Duration(min(s, maxLifetime)) * time.Second
}

// authorizeDevice requests a device code and a user code (RFC 8628, 3.1).
func (s *userTokens) authorizeDevice(ctx context.Context, endpoint string) (*deviceResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, limit.TokenAnswer.Time)
	defer cancel()
	form := url.Values{"client_id": {s.config.ClientID.Reveal()}}
	if len(s.config.Scopes) > 0 {
		form.Set("scope", strings.Join(s.config.Scopes, " "))
	}
	if s.config.Audience != "" {
		form.Set("audience", s.config.Audience)
	}
	r := s.config.newTokenRequest(form)
	r.endpoint = endpoint
	raw, err := s.server.sendForm(ctx, r)
	got := &deviceResponse{}
	if err == nil {
		err = got.decodeJSON(raw)
	}
	if err != nil {
		return nil, r.redactError(fmt.Errorf("requesting a device code: %w", err))
	}
	return got, nil
}

// decodeJSON decodes and validates a response: people open its addresses in browsers.
func (d *deviceResponse) decodeJSON(raw []byte) error {
	if err := json.Unmarshal(raw, d); err != nil {
		return errors.New("the response is not valid device code JSON")
	}
	if d.Address == "" {
		d.Address = d.OldAddress
	}
	if d.DeviceCode == "" {
		return errors.New("the response has no device_code")
	}
	if len(d.UserCode) > maxUserCode || !headerValue.MatchString(d.UserCode) {
		return errors.New("the response has no valid user_code")
	}
	if err := checkServerURL(d.Address); err != nil {
		return fmt.Errorf("verification_uri: %w", err)
	}
	if d.WithCode != "" {
		if err := checkServerURL(d.WithCode); err != nil {
			return fmt.Errorf("verification_uri_complete: %w", err)
		}
	}
	return nil
}

// FindDevice returns a state's pending device consent. The error is [connection.ErrNoConsent] if
// there is none.
func (g *Grants) FindDevice(ctx context.Context, state string) (*PendingConsent, error) {
	c := &deviceConsent{}
	row, err := g.readPending(ctx, kindDevice, state, c)
	if err != nil {
		return nil, err
	}
	return g.newPending(row, c.SessionID), nil
}

// finishDevice polls for a device consent's tokens until the user has answered, at most for
// deviceWait (RFC 8628, 3.4). Answers on all replicas together keep the interval: each reserves a
// poll in the stored row before it polls.
func (g *Grants) finishDevice(ctx context.Context, a connection.Answer) error {
	end := g.opts.Now().Add(deviceWait)
	if a.Immediate {
		end = g.opts.Now()
	}
	for {
		c := &deviceConsent{}
		row, err := g.readPending(ctx, kindDevice, a.State, c)
		if err != nil {
			return err
		}
		if !c.isAnsweredBy(a, row) {
			return connection.ErrNoConsent
		}
		s, err := g.findSourceOf(row, c.Config)
		if err != nil {
			return g.dropDevice(ctx, row, err)
		}
		if c.NextPoll.After(end) {
			return &connection.AnswerError{
				Text: fmt.Sprintf("connection %s is not authorized yet: enter the code at the request's address, then answer again", row.Connection), Pending: true,
			}
		}
		if wait := c.NextPoll.Sub(g.opts.Now()); wait > 0 {
			if err := g.opts.Wait(ctx, wait); err != nil {
				return err
			}
			continue
		}
		if row, err = g.postponePoll(ctx, row, c); err != nil {
			return err
		}
		if row == nil {
			continue // another answer polls
		}
		// A canceled answer must not lose the tokens: they are issued once.
		if done, err := g.pollDevice(context.WithoutCancel(ctx), s, row, c); done {
			return err
		}
	}
}

// postponePoll sets the earliest time for the next poll. It returns nil if the row has changed.
func (g *Grants) postponePoll(ctx context.Context, row *connection.Grant, c *deviceConsent) (*connection.Grant, error) {
	c.NextPoll = g.opts.Now().Add(c.Interval + pollMargin)
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	next := *row
	next.Version++
	next.Sealed = g.opts.Keys.SealText(&next, text)
	if ok, err := g.opts.Store.SwapGrant(ctx, &next); err != nil || !ok {
		return nil, err
	}
	return &next, nil
}

// dropDevice deletes a consent that has become useless, and returns why.
func (g *Grants) dropDevice(ctx context.Context, row *connection.Grant, reason error) error {
	if _, err := g.opts.Store.DeleteGrant(ctx, row.ID, row.Version); err != nil {
		return err
	}
	return reason
}

// pollDevice polls once. It reports whether the consent has an answer or cannot be polled now.
func (g *Grants) pollDevice(ctx context.Context, s *userTokens, row *connection.Grant, c *deviceConsent) (done bool, err error) {
	r := s.config.newTokenRequest(url.Values{"grant_type": {deviceGrantType}, "device_code": {c.DeviceCode}}, c.DeviceCode)
	r.endpoint = c.TokenURL
	got, err := s.server.requestToken(ctx, r)
	if err == nil {
		return true, errors.Join(s.replaceToken(ctx, row.User, s.newToken(got)), g.dropDevice(ctx, row, nil))
	}
	code, failed := "", (*tokenError)(nil)
	if errors.As(err, &failed) {
		code = failed.code
	}
	switch code {
	case "authorization_pending":
		return false, nil
	case "slow_down":
		c.Interval = min(c.Interval+slowDownStep, maxDeviceInterval)
		_, err := g.postponePoll(ctx, row, c)
		return err != nil, err
	case "": // the server cannot be reached: poll less often, if the user answers again
		c.Interval = min(2*c.Interval, maxDeviceInterval)
		_, swapErr := g.postponePoll(ctx, row, c)
		return true, errors.Join(swapErr, answerErrorf("connection %s: %s", row.Connection, err))
	case "access_denied":
		err = errors.New("the authorization was denied")
	case "expired_token":
		err = errors.New("the code has expired")
	}
	return true, g.dropDevice(ctx, row, answerErrorf("connection %s: %s: answer again to get a new code", row.Connection, err))
}
