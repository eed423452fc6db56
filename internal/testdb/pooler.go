package testdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A Pooler is a PgBouncer process in front of a PostgreSQL server. It pools by transaction: each
// client transaction may use another server connection.
type Pooler struct {
	addr string
	cmd  *exec.Cmd
}

// ErrNoPooler means that PgBouncer is not installed.
var ErrNoPooler = errors.New("SKIPPED: PgBouncer not found; hint: apt-get install pgbouncer")

// StartPooler starts a PgBouncer with its configuration in a folder. It opens at most
// size connections to the server.
func StartPooler(ctx context.Context, server *url.URL, dir string, size int) (*Pooler, error) {
	program, err := findPooler()
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(poolerConfig(server, port, size)), 0o600); err != nil {
		return nil, err
	}
	// The process outlives the test's context, because stores are closed later.
	p := &Pooler{addr: net.JoinHostPort("127.0.0.1", port), cmd: exec.CommandContext(context.WithoutCancel(ctx), program, "-q", file)}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.awaitListener(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func findPooler() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", ErrNoPooler
}

// poolerConfig returns a configuration for transaction pooling. PgBouncer refuses to
// run as root and switches to another user.
func poolerConfig(server *url.URL, port string, size int) string {
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
server_login_retry = 1
`, server.Hostname(), cmp.Or(server.Port(), "5432"), server.User.Username(), port, size)
	if os.Geteuid() == 0 {
		config += "user = nobody\n"
	}
	return config
}

func freePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// awaitListener waits at most five seconds until PgBouncer accepts connections.
func (p *Pooler) awaitListener(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("pgbouncer does not accept connections: %w", err)
		}
	}
}

// Through returns a database's URL through the pooler.
func (p *Pooler) Through(at string) (string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	u.Host = p.addr
	return u.String(), nil
}

// Stop stops the process.
func (p *Pooler) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = p.cmd.Wait() // a signal causes a nonzero status
	return nil
}
