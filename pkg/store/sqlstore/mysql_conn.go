package sqlstore

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"agenthost/internal/safe"
)

// A mysqlConnector opens connections whose statements end with their context. The driver only
// closes the connection then, and the server would continue to execute it.
type mysqlConnector struct {
	sqldriver.Connector
	timeout time.Duration // connect_timeout; 0 is none
	logger  *slog.Logger
}

func newMySQLConnector(config *driver.Config, logger *slog.Logger) (*mysqlConnector, error) {
	c, err := driver.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return &mysqlConnector{c, config.Timeout, logger}, nil
}

// A mysqlThread identifies a connection at the server: ids repeat on another server, but not
// with the same address of the client.
type mysqlThread struct {
	id   int64
	host string
}

// Connect opens a connection and reads its id. The driver limits only the time until the network
// connection is open, and a server may accept it and send nothing.
func (c *mysqlConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
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

func (c *mysqlConnector) openConn(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	m := &mysqlConn{mysqlDriverConn: conn.(mysqlDriverConn), connector: c}
	const query = "SELECT p.id, p.host FROM information_schema.processlist p WHERE p.id = connection_id()"
	if m.thread, err = queryThread(ctx, m.mysqlDriverConn, query); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return m, nil
}

// queryThread returns the first row of a query, or io.EOF without one.
func queryThread(ctx context.Context, conn mysqlDriverConn, query string, args ...sqldriver.NamedValue) (mysqlThread, error) {
	rows, err := conn.QueryContext(ctx, query, args)
	if err != nil {
		return mysqlThread{}, err
	}
	defer rows.Close()
	values := make([]sqldriver.Value, 2)
	if err := rows.Next(values); err != nil {
		return mysqlThread{}, err
	}
	t := mysqlThread{host: fmt.Sprintf("%s", values[1])}
	if text, ok := values[0].([]byte); ok {
		t.id, err = strconv.ParseInt(string(text), 10, 64)
	} else {
		t.id, _ = values[0].(int64)
	}
	return t, err
}

// killTimeout limits ending a statement.
const killTimeout = 2 * time.Second

// killThread ends a connection at the server with its statement.
func (c *mysqlConnector) killThread(t mysqlThread) error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	m := conn.(mysqlDriverConn)
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

// A mysqlDriverConn is a connection of the driver.
type mysqlDriverConn interface {
	mysqlStatements
	mysqlSession
}

// mysqlStatements are what a connection executes.
type mysqlStatements interface {
	sqldriver.ExecerContext
	sqldriver.QueryerContext
	sqldriver.ConnPrepareContext
	sqldriver.NamedValueChecker
}

// mysqlSession is the state of a connection.
type mysqlSession interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.Pinger
	sqldriver.SessionResetter
	sqldriver.Validator
}

// A mysqlConn kills its statement at the server if the context or the connection ends.
type mysqlConn struct {
	mysqlDriverConn
	connector *mysqlConnector
	thread    mysqlThread
}

// ExecContext executes a statement.
func (c *mysqlConn) ExecContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	res, err := c.mysqlDriverConn.ExecContext(ctx, query, args)
	c.killAbandoned(ctx, err)
	return res, err
}

// QueryContext executes a query.
func (c *mysqlConn) QueryContext(ctx context.Context, query string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	rows, err := c.mysqlDriverConn.QueryContext(ctx, query, args)
	c.killAbandoned(ctx, err)
	return rows, err
}

func (c *mysqlConn) killAbandoned(ctx context.Context, err error) {
	if err == nil || ctx.Err() == nil && !errors.Is(err, driver.ErrInvalidConn) {
		return
	}
	go func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(c.connector.logger, "killing a statement panicked") })
		if err := c.connector.killThread(c.thread); err != nil {
			c.connector.logger.Info("cannot end a statement at the server", "thread", c.thread.id, "error", err)
		}
	}()
}
