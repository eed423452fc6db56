package fakeidp

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"
)

const deviceGrantType = "urn:ietf:params:oauth:grant-type:device_code"

// A device is a device code with the user's answer.
type device struct {
	userCode string
	// allowed is nil until the user has answered.
	allowed *bool
	expires time.Time
	// interval is the least time between lastPoll and the next poll.
	interval time.Duration
	lastPoll time.Time
}

// Activate opens a verification address as the user's browser does, with the user code, and
// allows or denies the access.
func (s *Server) Activate(t *testing.T, address, userCode string, allow bool) {
	t.Helper()
	answer := url.Values{"user_code": {userCode}, "answer": {map[bool]string{true: "allow", false: "deny"}[allow]}}
	resp, err := http.PostForm(address, answer)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s with the code %s: %s", address, userCode, resp.Status)
	}
}

// SlowDown makes a server that polls on time be too fast: it must add 5 s to its interval.
func (s *Server) SlowDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		d.interval = time.Duration(s.Interval)*time.Second + 1
	}
}

// Polls returns how many polls used a device code.
func (s *Server) Polls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polls
}

// serveDevice is the device authorization endpoint (RFC 8628, 3.1).
func (s *Server) serveDevice(w http.ResponseWriter, r *http.Request) {
	if !s.authenticateClient(w, r) {
		return
	}
	if err := checkParameters(r.PostForm, "client_id", "scope audience"); err != nil || r.PostForm.Get("client_id") != ClientID || r.PostForm.Get("audience") != s.Audience {
		s.rejectRequest(w, "invalid_request", "device: %v, client_id or audience", err)
		return
	}
	interval := time.Duration(s.Interval) * time.Second
	d := &device{userCode: rand.Text()[:4] + "-" + rand.Text()[:4], interval: interval, lastPoll: s.Now(), expires: s.Now().Add(time.Duration(s.DeviceLifetime) * time.Second)}
	code := "device-" + rand.Text()
	s.mu.Lock()
	s.devices[code] = d
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{
		"device_code": code, "user_code": d.userCode, "verification_uri": s.URL + "/activate",
		"verification_uri_complete": s.URL + "/activate?user_code=" + d.userCode, "expires_in": s.DeviceLifetime, "interval": s.Interval,
	})
}

// serveActivate takes a user's answer.
func (s *Server) serveActivate(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		if d.userCode == r.PostForm.Get("user_code") && d.allowed == nil {
			allow := r.PostForm.Get("answer") == "allow"
			d.allowed = &allow
			return
		}
	}
	http.NotFound(w, r)
}

// redeemDevice answers a poll (RFC 8628, 3.5). A poll before the interval has passed is the
// client's fault, unless the server has asked for a longer one.
func (s *Server) redeemDevice(w http.ResponseWriter, form url.Values) {
	if err := checkParameters(form, "grant_type device_code client_id", ""); err != nil {
		s.rejectRequest(w, "invalid_request", "token: %s", err)
		return
	}
	s.mu.Lock()
	s.polls++
	d, now := s.devices[form.Get("device_code")], s.Now()
	if d == nil {
		s.mu.Unlock()
		s.rejectRequest(w, "invalid_grant", "token: unknown or used device code")
		return
	}
	code, early := "", now.Sub(d.lastPoll)
	d.lastPoll = now
	switch {
	case now.After(d.expires):
		code = "expired_token"
	case early < d.interval:
		code = "slow_down"
		d.interval = max(d.interval, time.Duration(s.Interval)*time.Second).Truncate(time.Second) + 5*time.Second
	case d.allowed == nil:
		code = "authorization_pending"
	case !*d.allowed:
		code = "access_denied"
	}
	if code == "" || code == "access_denied" || code == "expired_token" {
		delete(s.devices, form.Get("device_code"))
	}
	tooFast := code == "slow_down" && early < time.Duration(s.Interval)*time.Second
	s.mu.Unlock()
	switch {
	case tooFast:
		s.rejectRequest(w, code, "token: polled after %s", early)
	case code != "":
		s.sendError(w, code)
	default:
		s.sendTokens(w, &family{})
	}
}
