package mysql

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"agenthost/internal/safe"
)

// A connector opens connections whose statements end with their context. The driver only
// closes the connection then, and the server would continue to execute it.
type connector struct {
	sqldriver.Connector
	timeout time.Duration // connect_timeout; 0 is none
	logger  *slog.Logger
	// close closes closed, which ends the attempts to end statements.
	close  func()
	closed chan struct{}
}

func newConnector(config *driver.Config, logger *slog.Logger) (*connector, error) {
	c, err := driver.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return &connector{Connector: c, timeout: config.Timeout, logger: logger}, nil
}

// forPool returns a connector that a pool closes with itself.
func (c *connector) forPool() *connector {
	own := *c
	own.closed = make(chan struct{})
	own.close = sync.OnceFunc(func() { close(own.closed) })
	return &own
}

// Close implements [io.Closer], which the pool calls when it is closed.
func (c *connector) Close() error {
	c.close()
	return nil
}

// A thread identifies a connection at the server: ids repeat on another server, but not with the
// same client address.
type thread struct {
	id   int64
	host string
}

// Connect opens a connection and reads its id. The driver limits only the time until the network
// connection is open, and a server may accept it and send nothing.
func (c *connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	if c.timeout == 0 {
		return c.openConn(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	conn, err := c.openConn(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("the server did not answer within %s (connect_timeout): %w", c.timeout, err)
	}
	return conn, err
}

func (c *connector) openConn(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	m := &killingConn{driverConn: conn.(driverConn), connector: c}
	const query = "SELECT p.id, p.host FROM information_schema.processlist p WHERE p.id = connection_id()"
	if m.thread, err = queryThread(ctx, m.driverConn, query); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return m, nil
}

// queryThread returns a query's first row, or io.EOF without one.
func queryThread(ctx context.Context, conn driverConn, query string, args ...sqldriver.NamedValue) (thread, error) {
	rows, err := conn.QueryContext(ctx, query, args)
	if err != nil {
		return thread{}, err
	}
	defer rows.Close()
	values := make([]sqldriver.Value, 2)
	if err := rows.Next(values); err != nil {
		return thread{}, err
	}
	t := thread{host: fmt.Sprintf("%s", values[1])}
	if text, ok := values[0].([]byte); ok {
		t.id, err = strconv.ParseInt(string(text), 10, 64)
	} else {
		t.id, _ = values[0].(int64)
	}
	return t, err
}

// A statement is ended within endTimeout, in attempts that take at most killTimeout: a server that
// is busy, or full, still holds the statement's locks.
const (
	endTimeout  = 30 * time.Second
	killTimeout = 2 * time.Second
	killPause   = time.Second / 4
)

// endThread ends a connection at the server with its statement, and tries again while the server
// cannot and the pool is open.
func (c *connector) endThread(t thread) error {
	ended := time.Now().Add(endTimeout)
	for {
		err := c.killThread(t)
		if err == nil || time.Now().Add(killPause).After(ended) {
			return err
		}
		select {
		case <-time.After(killPause):
		case <-c.closed:
			return err
		}
	}
}

func (c *connector) killThread(t thread) error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	m := conn.(driverConn)
	const query = "SELECT p.id, p.host FROM information_schema.processlist p WHERE p.id = ? AND p.host = ?"
	_, err = queryThread(ctx, m, query, sqldriver.NamedValue{Ordinal: 1, Value: t.id}, sqldriver.NamedValue{Ordinal: 2, Value: t.host})
	if err == nil {
		_, err = m.ExecContext(ctx, fmt.Sprintf("KILL %d", t.id), nil)
	}
	if errors.Is(err, io.EOF) {
		return nil // it has ended
	}
	return err
}

// A driverConn is a driver connection.
type driverConn interface {
	statements
	sessionState
}

// statements are what a connection executes.
type statements interface {
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.ConnPrepareContext
	sqldriver.NamedValueChecker
}

// sessionState is a connection's state.
type sessionState interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
}

// A killingConn kills its statement at the server if the context or the connection ends.
type killingConn struct {
	driverConn
	connector *connector
	thread    thread
}

// ExecContext executes a statement.
func (c *killingConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	res, err := c.driverConn.ExecContext(ctx, query, args)
	c.killAbandoned(ctx, err)
	return res, err
}

// QueryContext executes a query.
func (c *killingConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	rows, err := c.driverConn.QueryContext(ctx, query, args)
	c.killAbandoned(ctx, err)
	return rows, err
}

func (c *killingConn) killAbandoned(ctx context.Context, err error) {
	if err == nil || ctx.Err() == nil && !errors.Is(err, driver.ErrInvalidConn) {
		return
	}
	go func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(c.connector.logger, "killing a statement panicked") })
		if err := c.connector.endThread(c.thread); err != nil {
			c.connector.logger.Info("cannot end a statement at the server", "thread", c.thread.id, "error", err)
		}
	}()
}
