package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	costSessions = 400
	costTime     = 10 * time.Second
	// costRest is a session's minimum pause between two turns. It is longer than the time for which
	// an unused lease is kept.
	costRest = 300 * time.Millisecond
)

// measureReplicas prints a turn's cost with one, two and three replicas on PostgreSQL, and single
// turns' latency. It has no targets.
func measureReplicas(ctx context.Context, o *options, out io.Writer) (ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, shortLimit)
	defer cancel()
	l, server, err := newPostgresLab(ctx, o)
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(l.dir)
	costs, waits := [][]string{{"replicas"}}, [][]string{{"a turn runs on", "p50", "p99"}}
	for n := 1; n <= replicas; n++ {
		fmt.Fprintln(l.progress, n, "replicas")
		_, err := l.runOnFresh(ctx, server, func(ctx context.Context, s *sandbox) (int, error) {
			f, err := s.startCostFleet(ctx, n)
			if err != nil {
				return 0, err
			}
			c, err := s.measureLoad(ctx, f)
			if err == nil {
				costs = c.addColumn(costs, n)
			}
			if err == nil && n == replicas {
				waits, err = f.measureWaits(ctx, waits)
			}
			return 0, errors.Join(err, f.close())
		})
		if err != nil {
			return false, err
		}
	}
	fmt.Fprintf(out, "%s\n\n", l.describeRun())
	if err := printGrid(out, costs); err != nil {
		return false, err
	}
	fmt.Fprintln(out)
	return true, printGrid(out, waits)
}

func newPostgresLab(ctx context.Context, o *options) (*lab, backend, error) {
	backends, _, err := findBackends(ctx)
	i := slices.IndexFunc(backends, func(p backend) bool { return p.driver == "pgx" })
	if err == nil && i < 0 {
		err = errors.New("no PostgreSQL server available; hint: set AGENTHOST_TEST_POSTGRES to the URL of one")
	}
	if err != nil {
		return nil, backend{}, err
	}
	l, err := newLab(o)
	return l, backends[i], err
}

func (s *sandbox) startCostFleet(ctx context.Context, hosts int) (*fleet, error) {
	apps := filepath.Join(s.dir, "cost")
	if err := clerkApp().writeTo(apps); err != nil {
		return nil, err
	}
	return newFleet(ctx, &fleet{lab: s.lab, store: s.url, apps: apps}, hosts)
}

// loadCosts are the measurements for one load.
type loadCosts struct {
	took   []time.Duration
	whole  time.Duration
	spent  resourceUsage
	memory float64 // MB per host
}

// A resourceUsage holds counters at one point in time.
type resourceUsage struct {
	hosts, server    time.Duration // CPU time
	commits          int64
	log, tables      int64 // bytes in the WAL and the database
	conns, processes int
}

// measureLoad runs turns in many sessions, with pauses.
func (s *sandbox) measureLoad(ctx context.Context, f *fleet) (*loadCosts, error) {
	db, err := s.openSQL()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	// Create the sessions and open the connections before measuring.
	if _, err := f.measureTurns(ctx, time.Second); err != nil {
		return nil, err
	}
	// Without statistics, a new database's planner looks up a session among all its user's
	// sessions.
	if _, err := db.ExecContext(ctx, "ANALYZE"); err != nil {
		return nil, err
	}
	before, err := f.readUsage(ctx, db)
	if err != nil {
		return nil, err
	}
	began, c := time.Now(), &loadCosts{}
	if c.took, err = f.measureTurns(ctx, costTime); err != nil {
		return nil, err
	}
	c.whole = time.Since(began)
	after, err := f.readUsage(ctx, db)
	if err != nil {
		return nil, err
	}
	c.spent = after.subtract(before)
	c.memory, err = f.hosts[0].residentMemory()
	return c, err
}

// measureTurns runs turns for a while and returns their latencies.
func (f *fleet) measureTurns(ctx context.Context, long time.Duration) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	end := time.Now().Add(long)
	err := runConcurrently(costSessions, func(i int) error {
		c := newClient(f.proxy.url, "clerk", fmt.Sprint("session-", i))
		defer c.close()
		for {
			if err := waitFor(ctx, costRest+rand.N(costRest)); err != nil {
				return err
			}
			began := time.Now()
			if began.After(end) {
				return nil
			}
			if _, err := c.runTurn(ctx, "hello"); err != nil {
				return err
			}
			mu.Lock()
			all = append(all, time.Since(began))
			mu.Unlock()
		}
	})
	slices.Sort(all)
	return all, err
}

func (f *fleet) readUsage(ctx context.Context, db *sql.DB) (resourceUsage, error) {
	var u resourceUsage
	// PostgreSQL publishes its counters within a second.
	if err := waitFor(ctx, 1500*time.Millisecond); err != nil {
		return u, err
	}
	for _, h := range f.hosts {
		spent, err := processorTime(h.cmd.Process.Pid)
		if err != nil {
			return u, err
		}
		u.hosts += spent
	}
	const counted = `SELECT xact_commit, (pg_current_wal_lsn() - '0/0')::bigint, pg_database_size(datname)
 FROM pg_stat_database WHERE datname = current_database()`
	if err := db.QueryRowContext(ctx, counted).Scan(&u.commits, &u.log, &u.tables); err != nil {
		return u, err
	}
	rows, err := db.QueryContext(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'agenthost'`)
	if err != nil {
		return u, err
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			return u, err
		}
		u.conns++
		// A remote server's processes are not visible here.
		if spent, err := processorTime(pid); err == nil {
			u.server += spent
			u.processes++
		}
	}
	return u, rows.Err()
}

func (u resourceUsage) subtract(before resourceUsage) resourceUsage {
	u.hosts -= before.hosts
	u.server -= before.server
	u.commits -= before.commits
	u.log -= before.log
	u.tables -= before.tables
	return u
}

// addColumn adds the measurements for one replica count to the table.
func (c *loadCosts) addColumn(table [][]string, hosts int) [][]string {
	turns := float64(len(c.took))
	each := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000/turns) }
	server := "-"
	if c.spent.processes > 0 {
		server = each(c.spent.server)
	}
	figures := [][2]string{
		{"replicas", fmt.Sprint(hosts)},
		{"turns a second", fmt.Sprintf("%.0f", turns/c.whole.Seconds())},
		{"p50 latency", roundMillis(percentile(c.took, 50)).String()},
		{"p99 latency", roundMillis(percentile(c.took, 99)).String()},
		{"ms of CPU a turn, hosts", each(c.spent.hosts)},
		{"ms of CPU a turn, PostgreSQL", server},
		{"commits a turn", fmt.Sprintf("%.1f", float64(c.spent.commits)/turns)},
		{"KiB of tables and indexes a turn", fmt.Sprintf("%.2f", float64(c.spent.tables)/1024/turns)},
		{"KiB of WAL a turn", fmt.Sprintf("%.2f", float64(c.spent.log)/1024/turns)},
		{"connections per host", fmt.Sprintf("%.1f", float64(c.spent.conns)/float64(hosts))},
		{"MB resident per host", fmt.Sprintf("%.0f", c.memory)},
	}
	for i, f := range figures {
		if i == len(table) {
			table = append(table, []string{f[0]})
		}
		table[i] = append(table[i], f[1])
	}
	return table
}
