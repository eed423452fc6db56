package mcptool

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/toolhttp"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/tool"
)

// A link is how a set reaches its server with the same headers: a connection, which is reopened
// when it is next needed after it was lost, and the server's lists. It is safe for concurrent use.
type link struct {
	server *server
	dial   transportDialer
	// connection is nil without one. isRejected is set while the server's last response was 401.
	connection *connections.Connection
	isRejected atomic.Bool
	// user is whom the connection's credential is for.
	user     connections.User
	stderr   *stderrTail
	redactor *toolhttp.Redactor
	logger   *slog.Logger
	progress progressHub
	lists    listCaches
	// hasSessions is set once the server was found to have sessions. All links of a set share it.
	hasSessions *atomic.Bool

	// asking is acquired by each call to a server that may ask the user or the model, which
	// questions and sampling answer.
	asking    chan struct{}
	questions atomic.Pointer[elicitCall]
	sampling  atomic.Pointer[samplingCall]

	// lock guards the fields below; a context can cancel waiting for it.
	lock   chan struct{}
	conn   *connection
	closed bool

	// users and lastUsed belong to the pool.
	users    int
	lastUsed time.Time
}

// The bounds on one set's connections when headers differ between sessions.
const (
	maxLinks     = 100
	maxIdleLinks = 10 * time.Minute
)

// cleanText redacts and truncates server text for an error.
func (l *link) cleanText(text string) string {
	return cutText(l.redactor.RedactString(cleanText(text)), maxErrorText)
}

// A transportDialer creates the way to a server, which lives as long as the guard.
type transportDialer func(ctx context.Context, guard *connGuard) way

// A way is how messages reach a server.
type way struct {
	transport mcp.Transport
	// direct calls tools if the server is stateless; without it the transport does.
	direct *directCaller
	// leave is called after the connection has closed.
	leave func()
}

// A connection is the session with a server. A nil connection is closed.
type connection struct {
	session *mcp.ClientSession
	// isStateless is set for a server whose requests describe themselves. direct calls its tools,
	// if it is not nil.
	isStateless bool
	direct      *directCaller
	// cancel aborts the connection; closed is closed once it is fully shut down.
	cancel context.CancelCauseFunc
	closed chan struct{}
	// cause returns why the connection was aborted, or nil.
	cause func() error
}

// A stderrTail keeps the end of a program's standard error. It is safe for
// concurrent use.
type stderrTail struct {
	mu   sync.Mutex
	text []byte
}

// maxStderrBytes is how much output is kept.
const maxStderrBytes = 4 << 10

// Write implements [io.Writer], and never fails.
func (w *stderrTail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if over := len(w.text) - maxStderrBytes; over > 0 {
		w.text = append([]byte(nil), w.text[over:]...)
	}
	return len(p), nil
}

// lastLine returns the last non-empty line.
func (w *stderrTail) lastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := bytes.TrimSpace(w.text)
	return string(bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:]))
}

// An elicitCall answers a server's questions during one call. It is safe for concurrent use.
type elicitCall struct {
	link *link
	// stop cancels the call some time after a question was canceled.
	stop func()

	mu       sync.Mutex
	stored   []storedAnswer
	answered []storedAnswer
	count    int
	asked    *mcp.ElicitParams
	timer    *time.Timer
	// round is what a stateless server asked in a result, and answers the id of the question there
	// that the person answers.
	round   *inputRound
	answers string
}

// A storedAnswer is the answer to an earlier attempt's question.
type storedAnswer struct {
	key     string
	content map[string]any
}

// A storedTask is a task as the session stores it. Times are milliseconds since the Unix epoch.
type storedTask struct {
	ID string `json:"id"`
	// Binding is a hash over the server's address, the tool and the session.
	Binding string `json:"binding"`
	Started int64  `json:"started"`
	// Ends is when task_timeout is over, and Asked when the task began to wait for a person, which
	// does not count.
	Ends  int64 `json:"ends"`
	Asked int64 `json:"asked,omitempty"`
	// Answered are the IDs of the answered questions, and Rounds counts the answers.
	Answered []string `json:"answered,omitempty"`
	Rounds   int      `json:"rounds,omitempty"`
}

// A samplingCall answers a server's requests during one call. It is safe for concurrent use.
type samplingCall struct {
	ctx    context.Context
	call   *tool.Call
	limits *samplingConfig
	used   atomic.Int64
}

// A progressHub distributes the progress that a server reports to the calls that it belongs
// to. The zero value is ready to use, by many goroutines.
type progressHub struct {
	mu    sync.Mutex
	calls map[string]chan *mcp.ProgressNotificationParams
	count int
}

// A limitError reports a server answer that exceeds a limit.
type limitError struct{ text string }

func (e limitError) Error() string { return e.text }

// A connectError reports a server that cannot be reached, with a complete
// message.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// maxErrorText bounds a server's text in an error, in characters.
const maxErrorText = 2000

// waitDuration waits until the duration is over, or the context has ended.
func waitDuration(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
