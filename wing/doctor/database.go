package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"agenthost/pkg/store/sqlstore"
)

// Limits in the database checks.
const (
	databaseTimeout = 15 * time.Second
	slowWrite       = 100 * time.Millisecond
	wrongClock      = time.Second
)

// CheckDatabase checks a session database: that it answers, its schema, that it can be written, and its clock. It migrates
// nothing and creates no database.
func (r *Report) CheckDatabase(ctx context.Context, engines sqlstore.Engines, url string) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	s, err := engines.ReadStatus(ctx, url, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.addOK("database", "there is none yet: serve creates it")
		return
	case err != nil:
		r.addError("database", strings.Join(strings.Fields(err.Error()), " "), "check the URL, and that the server is running and accepts the user; docs/stores.md has the permissions")
		return
	case s.Newer():
		r.addError("database", fmt.Sprintf("the schema version is %d, this program supports %d", s.Schema, s.Required), "install the release that wrote it, or a newer one")
		return
	case s.Schema == 0:
		r.addOK("database", "%s is empty: serve creates the tables", s.Engine)
		r.checkClock(s.ClockAhead)
		return
	case len(s.Pending) > 0:
		r.addWarning("database", fmt.Sprintf("%s has schema version %d, this program requires %d", s.Engine, s.Schema, s.Required), "serve migrates it at its start; or run agenthost db migrate before")
		return
	}
	took, err := measureWrite(ctx, engines, url)
	switch {
	case err != nil:
		r.addError("database", err.Error(), "check the user's permissions, the disk, and that the server is not a standby")
		return
	case took > slowWrite:
		r.addWarning("database", fmt.Sprintf("%s answers, but a write takes %s", s.Engine, took.Round(time.Millisecond)), "each turn waits for some: place the host near its database, and look at the load of both")
	default:
		r.addOK("database", "%s with schema version %d can be written, in %s", s.Engine, s.Schema, took.Round(100*time.Microsecond))
	}
	r.checkClock(s.ClockAhead)
}

// measureWrite returns how long a write takes on an open connection.
func measureWrite(ctx context.Context, engines sqlstore.Engines, url string) (took time.Duration, err error) {
	d, err := engines.Open(ctx, url, &sqlstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Ping(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	err = d.Ping(ctx)
	return time.Since(began), err
}

// checkClock compares this machine's clock with the database server's, which is ahead by a duration; nil for a file.
func (r *Report) checkClock(ahead *time.Duration) {
	switch {
	case ahead == nil:
	case ahead.Abs() > wrongClock:
		runs := "slow"
		if *ahead < 0 {
			runs = "fast"
		}
		r.addWarning("clock", fmt.Sprintf("this machine's clock is %s %s, compared with the database server's", ahead.Abs().Round(100*time.Millisecond), runs), "synchronize both by NTP: tokens expire by the clock, and events have its time")
	default:
		r.addOK("clock", "the clocks of this machine and of the database server differ by less than a second")
	}
}
