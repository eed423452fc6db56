package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A fullServer accepts no connection.
type fullServer struct{ attempts int }

func (s *fullServer) Connect(context.Context) (driver.Conn, error) {
	s.attempts++
	return nil, errors.New("too many connections")
}

func (s *fullServer) Driver() driver.Driver { return nil }

// Ending a statement is tried again for endTimeout, and not after the pool is closed.
func TestEndThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fullServer{}
		c := (&connector{Connector: server}).forPool()
		began := time.Now()
		if err := c.endThread(thread{}); err == nil || server.attempts < 100 {
			t.Errorf("%d attempts, error %v", server.attempts, err)
		}
		if took := time.Since(began); took > endTimeout {
			t.Errorf("it took %s, want at most %s", took, endTimeout)
		}
		server.attempts = 0
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := c.endThread(thread{}); err == nil || server.attempts != 1 {
			t.Errorf("%d attempts after Close, error %v", server.attempts, err)
		}
	})
}
