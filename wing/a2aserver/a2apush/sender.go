package a2apush

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"agenthost/internal/policy"
	"agenthost/internal/safe"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/spec"
)

// Limits for deliveries.
const (
	// maxDeliveries and maxUserDeliveries limit the deliveries in progress on a replica.
	maxDeliveries     = 256
	maxUserDeliveries = 32
	// attemptTimeout limits one request.
	attemptTimeout = 10 * time.Second
	// maxAttempts limits the requests for one notification.
	maxAttempts = 4
	// firstPause is the pause after the first attempt; each further one is four times as long.
	firstPause = time.Second
	// maxDrain is how much of an answer is read, so that the connection can be used again.
	maxDrain = 4 << 10
)

// TokenHeader has a configuration's token.
const TokenHeader = "X-A2A-Notification-Token"

// A Notification is one state of a task for one configuration.
type Notification struct {
	Config      *Config
	App, User   string
	ContentType string
	Body        []byte
	// Client reaches the granted addresses.
	Client *http.Client
	// IsCurrent reports whether the notification is still wanted; it is called before each further attempt.
	IsCurrent func(ctx context.Context) bool
}

// A Sender sends notifications. It is safe for concurrent use.
type Sender struct {
	logger *slog.Logger
	// wait waits between attempts; the error ends them.
	wait func(ctx context.Context, d time.Duration) error

	mu    sync.Mutex
	all   int
	users map[string]int
}

// NewSender returns a sender. wait waits until a time has passed or ctx ends; nil waits with a timer.
func NewSender(logger *slog.Logger, wait func(ctx context.Context, d time.Duration) error) *Sender {
	if wait == nil {
		wait = waitFor
	}
	return &Sender{logger: logger, wait: wait, users: map[string]int{}}
}

func waitFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Send sends a notification in its own goroutine, and calls done when it has ended. Once stopping ends,
// there is no further attempt.
func (s *Sender) Send(stopping context.Context, n *Notification, done func()) {
	if !s.countDelivery(n.User) {
		s.logger.Warn("push notification dropped: too many are in progress", "app", n.App, "host", hostOf(n.Config.URL))
		done()
		return
	}
	go func() {
		defer done()
		defer s.dropDelivery(n.User)
		defer safe.Recover(func(p *safe.Panic) { p.Log(s.logger, "sending a push notification panicked", "app", n.App) })
		s.sendUntilTaken(stopping, n)
	}()
}

func (s *Sender) countDelivery(user string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxDeliveries || s.users[user] >= maxUserDeliveries {
		return false
	}
	s.all++
	s.users[user]++
	return true
}

func (s *Sender) dropDelivery(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.users[user]--; s.users[user] == 0 {
		delete(s.users, user)
	}
}

// sendUntilTaken makes the attempts. The log has the host, and neither the address nor a credential.
func (s *Sender) sendUntilTaken(stopping context.Context, n *Notification) {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := sendOnce(n)
		if err == nil {
			return
		}
		redactor := spec.NewRedactor(n.Config.URL, n.Config.Token, n.Config.Credentials)
		s.logger.Warn("sending a push notification failed", "app", n.App, "host", hostOf(n.Config.URL), "attempt", attempt, "error", redactor.RedactString(err.Error()))
		if attempt == maxAttempts || errors.Is(err, errRejected) || s.wait(stopping, pause) != nil {
			return
		}
		pause *= 4
		if !n.IsCurrent(stopping) {
			return
		}
	}
}

// errRejected marks a failure that another attempt would not change.
var errRejected = errors.New("no further attempt")

// sendOnce makes one request. A status of 2xx takes the notification; a redirect does not, as it could lead
// to a host that is not granted.
func sendOnce(n *Notification) error {
	ctx, cancel := context.WithTimeout(context.Background(), attemptTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Config.URL, bytes.NewReader(n.Body))
	if err != nil {
		return errRejected
	}
	req.Header.Set("User-Agent", toolhttp.UserAgent)
	req.Header.Set("Content-Type", n.ContentType)
	if n.Config.Token != "" {
		req.Header.Set(TokenHeader, n.Config.Token)
	}
	if n.Config.Credentials != "" {
		req.Header.Set("Authorization", n.Config.Scheme+" "+n.Config.Credentials)
	}
	client := *n.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if refused := (*policy.Refused)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", refused, errRejected)
	}
	if err != nil {
		return toolhttp.UnwrapURLError(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		return nil
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout:
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return fmt.Errorf("status %d: %w", resp.StatusCode, errRejected)
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
