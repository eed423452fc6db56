package authorize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"agenthost/internal/safe"
	connections "agenthost/wing/connection"
)

// A callbackListener receives the browser of the person at the terminal (RFC 8252, 7.3). Other
// sites can send it requests as well: only the request's unguessable state is an answer.
type callbackListener struct {
	net.Listener
	redirectURL, state string
}

// openCallback listens on a loopback port; 0 means any free one.
func openCallback(ctx context.Context, port uint16, state string) (*callbackListener, error) {
	var lc net.ListenConfig
	at := fmt.Sprintf("127.0.0.1:%d", port)
	l, err := lc.Listen(ctx, "tcp", at)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is already in use: choose another --authorize-port", at)
	}
	if err != nil {
		return nil, err
	}
	return &callbackListener{l, "http://" + l.Addr().String() + connections.CallbackPath, state}, nil
}

// waitForAnswer waits for the answer and returns finish's error after the browser has its response;
// finish processes the answer.
func (l *callbackListener) waitForAnswer(ctx context.Context, finish func(url.Values) error) error {
	answered := make(chan error, 2)
	web := &http.Server{
		Handler: l.newHandler(finish, answered), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn),
	}
	go func() {
		defer safe.Recover(func(p *safe.Panic) { answered <- p })
		_ = web.Serve(l) // an error when it is closed
	}()
	var err error
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if web.Shutdown(ending) != nil {
		_ = web.Close()
	}
	return err
}

// newHandler returns the handler for one answer.
func (l *callbackListener) newHandler(finish func(url.Values) error, answered chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		switch {
		case r.Method != http.MethodGet || r.URL.Path != connections.CallbackPath || r.Host != l.Addr().String():
			w.WriteHeader(http.StatusNotFound)
			return
		case query.Get("state") != l.state:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "The terminal did not request this authorization.\n")
			return
		}
		err := finish(query)
		text := "Authorized. Close this page and return to the terminal.\n"
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			text = "Not authorized: see the terminal.\n"
		}
		_, _ = io.WriteString(w, text)
		select {
		case answered <- err:
		default: // there is an answer
		}
	})
}

// loopbackURL returns the redirect URL that registrations name for the terminal: without a port for
// any free one, which authorization servers allow (RFC 8252, 7.3).
func loopbackURL(port uint16) string {
	if port == 0 {
		return "http://127.0.0.1" + connections.CallbackPath
	}
	return fmt.Sprintf("http://127.0.0.1:%d%s", port, connections.CallbackPath)
}
