package liveweb

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"agenthost/pkg/server"
)

// Errors for live sockets beyond the limits.
var (
	errTooManyLiveSockets     = server.NewError(http.StatusServiceUnavailable, "too many live conversations on this server, try again later")
	errTooManyUserLiveSockets = errors.New("too many live conversations for this user, end one")
	errAudioOnly              = errors.New("a live request of this door has only audio and signals")
	errUpgradeRequired        = server.NewError(http.StatusUpgradeRequired, "expected a WebSocket handshake: this address holds live conversations")
)

// liveSockets counts the open live sockets, in total and for each user. It is safe for
// concurrent use.
type liveSockets struct {
	most, mostPerUser int

	mu    sync.Mutex
	open  int
	users map[string]int
}

// acquireSocket counts a user's socket, and returns the function that ends it.
func (l *liveSockets) acquireSocket(user string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open >= l.most:
		return nil, errTooManyLiveSockets
	case l.users[user] >= l.mostPerUser:
		return nil, errTooManyUserLiveSockets
	}
	if l.users == nil {
		l.users = map[string]int{}
	}
	l.open++
	l.users[user]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
		if l.users[user]--; l.users[user] == 0 {
			delete(l.users, user)
		}
	}), nil
}

// A liveLimiter slows down a client that sends more than liveBytesPerSecond, after liveBurst bytes.
// The end of a conversation reads the rest of its connection while the last request is charged, so that
// two goroutines use it.
type liveLimiter struct {
	clock func() time.Time
	mu    sync.Mutex
	// emptyAt is when everything that was sent is within the limit.
	emptyAt time.Time
}

// chargeBytes counts size bytes, and returns how long the client must wait; at most 0 if it need not.
func (l *liveLimiter) chargeBytes(size int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	if l.emptyAt.Before(now) {
		l.emptyAt = now
	}
	l.emptyAt = l.emptyAt.Add(time.Duration(size) * time.Second / liveBytesPerSecond)
	return l.emptyAt.Sub(now) - liveBurst/liveBytesPerSecond*time.Second
}

// waitAfter waits until the client may send again after size bytes, or the connection is closed.
func (l *liveLimiter) waitAfter(closed <-chan struct{}, size int) error {
	delay := l.chargeBytes(size)
	if delay <= 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-closed:
		return net.ErrClosed
	}
}
