package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"agenthost/pkg/store"
)

// The bounds for commands on many stored sessions. A paged command reads what it prints; a whole one reads each
// session or event once, and may take manyTime for each 100 000 sessions.
const (
	manyMemory = 200 << 20
	pagedTime  = 20 * time.Second
	manyTime   = 90 * time.Second
)

// A manyCommand is a command on many sessions. $APP is the app's folder, and $DB the database.
type manyCommand struct {
	args  string
	whole bool
	// exit is the expected exit status.
	exit int
}

func manyCommands() []manyCommand {
	return []manyCommand{
		{"db status $DB", false, 0},
		{"db migrate $DB", false, 0},
		{"session list $APP --limit 100", false, 0},
		{"session list $APP --user u-1", false, 0},
		{"session prune $APP --older-than 9000d --dry-run", false, 0},
		{"session list $APP", true, 0},
		{"session list $APP --json", true, 0},
		{"plan $APP", true, 4},
		{"outcomes $APP", false, 0},
		{"db status $DB --exact", true, 0},
		{"db check $DB", true, 0},
	}
}

// manySessionRows proves that commands and requests work with many stored sessions: in bounded memory, and in a
// time that depends on what they return.
func manySessionRows(ctx context.Context, s *sandbox) ([]row, error) {
	apps := filepath.Join(s.dir, "many-"+s.name)
	if err := clerkApp().writeTo(apps); err != nil {
		return nil, err
	}
	n := s.choose(20_000, 1_000_000)
	if err := s.storeManySessions(ctx, apps, n); err != nil {
		return nil, err
	}
	changed := clerkApp() // a plan for changed files counts sessions
	changed["clerk/root_agent.yaml"] += "description: changed\n"
	if err := changed.writeTo(apps); err != nil {
		return nil, err
	}
	var lines, faults []string
	for _, c := range manyCommands() {
		line, fault := s.measureCommand(ctx, apps, c, n)
		fmt.Fprintln(s.progress, s.name, line)
		lines = append(lines, line)
		if fault != "" {
			faults = append(faults, fault)
		}
	}
	control, err := s.measureWholeList(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := s.measureRequests(ctx, apps)
	if err != nil {
		return nil, err
	}
	shown := fmt.Sprintf("%s; %s; control, all sessions in one list: %d bytes of memory each", strings.Join(lines, "; "), listed, control/int64(n))
	if len(faults) > 0 {
		shown = strings.Join(faults, "; ") + "; " + shown
	}
	return []row{{
		fmt.Sprintf("many sessions %s: with %d sessions, commands stay below %d MiB and requests return at most %d sessions", s.name, n, manyMemory>>20, store.MaxListed),
		shown, len(faults) == 0 && control > int64(n)*300,
	}}, nil
}

// storeManySessions runs two turns in one session, and copies its rows by SQL: to users with ten sessions each, and
// every tenth one to the user "many".
func (s *sandbox) storeManySessions(ctx context.Context, apps string, n int) error {
	h, err := serveStore(ctx, s.lab, s.url, apps)
	if err != nil {
		return err
	}
	c := newClient(h.url, "clerk", "first")
	defer c.close()
	for _, text := range []string{"note this", "and this"} {
		if _, err := c.runTurn(ctx, text); err != nil {
			return errors.Join(err, h.kill())
		}
	}
	if err := h.kill(); err != nil {
		return err
	}
	digits := "(SELECT 0 AS d" + strings.Repeat(" UNION ALL SELECT %d", 9) + ")"
	digits = fmt.Sprintf(digits, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	numbers := strings.ReplaceAll("(SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * h.d AS i FROM D a, D b, D c, D e, D f, D h)", "D ", digits+" ")
	divide := "/"
	if s.driver == "mysql" {
		divide = "DIV"
	}
	sessions := fmt.Sprintf(`INSERT INTO sessions (app_name, user_id, id, create_time, initial, active_time)
 SELECT f.app_name, CASE WHEN g.i %% 10 = 0 THEN 'many' ELSE concat('u-', g.i %s 10) END, concat('s-', g.i), f.create_time + g.i, f.initial, f.active_time
 FROM sessions f CROSS JOIN %s g WHERE f.id = 'first' AND g.i < %d ORDER BY g.i`, divide, numbers, n)
	fmt.Fprintln(s.progress, s.name, "storing", n, "sessions")
	return s.execSQL(ctx, sessions,
		`INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance, outcome)
 SELECT s.pk, e.seq, e.id, e.invocation_id, e.timestamp, e.event, e.provenance, e.outcome FROM events e
 JOIN sessions f ON f.pk = e.session_pk AND f.id = 'first' CROSS JOIN sessions s WHERE s.id <> 'first'`,
		`INSERT INTO states (app_name, user_id, session_id, `+s.quoteKey()+`, value)
 SELECT t.app_name, s.user_id, s.id, t.`+s.quoteKey()+`, t.value FROM states t
 CROSS JOIN sessions s WHERE t.session_id = 'first' AND s.id <> 'first'`,
		s.analyzeSQL("sessions"), s.analyzeSQL("events"), s.analyzeSQL("states"),
	)
}

// quoteKey returns the name of the column key, which is reserved in MySQL.
func (s *sandbox) quoteKey() string {
	if s.driver == "mysql" {
		return "`key`"
	}
	return `"key"`
}

func (s *sandbox) analyzeSQL(table string) string {
	if s.driver == "mysql" {
		return "ANALYZE TABLE " + table
	}
	return "ANALYZE " + table
}

// measureCommand runs a command, and returns its cost and how it failed.
func (s *sandbox) measureCommand(ctx context.Context, apps string, c manyCommand, n int) (line, fault string) {
	args := []string{s.bin}
	for _, arg := range strings.Fields(c.args) {
		args = append(args, strings.NewReplacer("$APP", filepath.Join(apps, "clerk"), "$DB", s.url).Replace(arg))
	}
	if !strings.Contains(c.args, "$DB") {
		args = append(args, "--session-db", s.url)
	}
	limit := pagedTime
	if c.whole {
		limit = max(pagedTime, time.Duration(n)*manyTime/100_000)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out tailBuffer
	start := time.Now()
	peak, err := s.runMeasured(ctx, &out, args...)
	took := time.Since(start)
	name := strings.NewReplacer(" $APP", "", " $DB", "").Replace(c.args)
	line = fmt.Sprintf("%s %.1fs %d MB", name, took.Seconds(), peak>>20)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == c.exit {
		err = nil
	}
	switch {
	case err != nil:
		return line, fmt.Sprintf("%s failed after %s: %v: %s", name, took.Round(time.Second), err, out.String())
	case peak > manyMemory:
		return line, fmt.Sprintf("%s took %d MB", name, peak>>20)
	}
	return line, ""
}

// A tailBuffer holds the end of what was written.
type tailBuffer struct{ text []byte }

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.text = append(b.text, p...)
	if len(b.text) > 4000 {
		b.text = bytes.Clone(b.text[len(b.text)-300:])
	}
	return len(p), nil
}

func (b *tailBuffer) String() string { return string(b.text[max(0, len(b.text)-300):]) }

// measureWholeList holds all sessions in one list, as an older agenthost did, and returns the memory that they take.
func (s *sandbox) measureWholeList(ctx context.Context) (int64, error) {
	st, err := s.openStore(ctx)
	if err != nil {
		return 0, err
	}
	defer st.Close()
	runtime.GC()
	before := heapBytes()
	var all []any
	for token := ""; ; {
		page, next, err := st.Sessions.Page(ctx, &store.PageRequest{App: "clerk", Size: store.MaxPage, Token: token})
		if err != nil {
			return 0, err
		}
		all = append(all, page)
		if token = next; token == "" {
			break
		}
	}
	runtime.GC()
	held := heapBytes() - before
	runtime.KeepAlive(all)
	return held, nil
}

// measureRequests lists the sessions of the user "many", and runs a turn in one of them.
func (s *sandbox) measureRequests(ctx context.Context, apps string) (string, error) {
	h, err := serveStore(ctx, s.lab, s.url, apps)
	if err != nil {
		return "", err
	}
	defer h.kill()
	start := time.Now()
	bytes, older, err := h.listMany(ctx)
	if err != nil {
		return "", err
	}
	listed := time.Since(start)
	memory, err := h.readMemory("VmHWM")
	if err != nil {
		return "", err
	}
	c := newClient(h.url, "clerk", "s-10")
	c.user = "many"
	defer c.close()
	start = time.Now()
	if _, err := c.runTurn(ctx, "note once more"); err != nil {
		return "", err
	}
	return fmt.Sprintf("GET sessions of one user %.1fs, %d KiB, %.0f MB, older sessions left out: %v; a turn %.2fs",
		listed.Seconds(), bytes>>10, memory, older, time.Since(start).Seconds()), nil
}

func (h *host) listMany(ctx context.Context) (n int64, older bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/apps/clerk/users/many/sessions", nil)
	if err != nil {
		return 0, false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, false, err
	}
	defer resp.Body.Close()
	n, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("listing sessions: %s", resp.Status)
	}
	return n, resp.Header.Get("X-Older-Sessions") == "true", err
}
