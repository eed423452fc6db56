package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// Migrate migrates a database to this program's schema version, as [Engines.Open] does,
// and returns the applied steps. If several processes migrate concurrently,
// each step is applied once. A missing database file is created.
func (all Engines) Migrate(ctx context.Context, url string, opts *Options) ([]Step, error) {
	if err := all.refuseForeignFile(ctx, url); err != nil {
		return nil, err
	}
	steps := []Step{}
	o := opts.withDefaults()
	o.migrated = func(s Step) { steps = append(steps, s) }
	st, _, err := all.openPlainStore(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return steps, st.Close()
}

// Status describes a database and its size.
type Status struct {
	// Database is the URL without its password.
	Database string `json:"database"`
	// Engine is the engine's name and version.
	Engine string `json:"engine"`
	// Schema is the schema version of the database, 0 if it is empty; Required is
	// the version of this program.
	Schema   int64 `json:"schema"`
	Required int64 `json:"required"`
	// Pending are the migrations from Schema to Required.
	Pending   []Step     `json:"pending"`
	Sessions  int64      `json:"sessions"`
	Events    int64      `json:"events"`
	StateKeys int64      `json:"stateKeys"`
	LastEvent *time.Time `json:"lastEvent"`
	Bytes     int64      `json:"bytes"`
	// Estimated reports that the counts above EstimateAbove are the engine's estimates, and that LastEvent is the last
	// event in the sessions that were created last.
	Estimated bool `json:"estimated,omitempty"`
	// ClockAhead is how far the server's clock is ahead of this machine's, give or take the time of a query; nil for
	// a file.
	ClockAhead *time.Duration `json:"-"`
}

// EstimateAbove is how many rows a table has at most, by the engine's estimate, that is counted: counting reads all.
const EstimateAbove = 100_000

// Newer reports that the schema is newer than this program, which therefore
// rejects the database.
func (s *Status) Newer() bool { return s.Schema > s.Required }

// ReadStatus reads the status of a database and changes nothing. With exact, large tables are counted instead
// of estimated. A missing database is [fs.ErrNotExist]; a database with tables of another program is
// rejected.
func (all Engines) ReadStatus(ctx context.Context, url string, exact bool) (*Status, error) {
	r, err := all.OpenReadOnly(ctx, url)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &Status{Database: store.Redacted(url)}
	if s.Schema, err = r.readSchemaVersion(ctx); err != nil {
		return nil, err
	}
	s.Required, s.Pending = newestVersion(), []Step{}
	for _, m := range migrations() {
		if m.version > s.Schema {
			s.Pending = append(s.Pending, Step{m.version, m.name})
		}
	}
	return s, s.measureDatabase(ctx, r, exact)
}

func (s *Status) measureDatabase(ctx context.Context, r *ReadOnly, exact bool) error {
	s.Engine = r.Engine + " " + r.Version
	err := r.scanFirst(ctx, r.engine.bytes, &s.Bytes)
	if err == nil && r.engine.clock != "" {
		err = s.compareClocks(ctx, r)
	}
	if err == nil && s.Schema > 0 {
		err = s.countRows(ctx, r, exact)
	}
	if err != nil {
		return fmt.Errorf("measuring the database: %w", err)
	}
	return nil
}

// compareClocks reads the server's clock, in the middle of the query.
func (s *Status) compareClocks(ctx context.Context, r *ReadOnly) error {
	var micros int64
	began := time.Now()
	if err := r.scanFirst(ctx, r.engine.clock, &micros); err != nil {
		return err
	}
	ahead := microsToTime(micros).Sub(began.Add(time.Since(began) / 2))
	s.ClockAhead = &ahead
	return nil
}

// countRows counts or estimates what is stored.
func (s *Status) countRows(ctx context.Context, r *ReadOnly, exact bool) error {
	for _, count := range []struct {
		table string
		into  *int64
	}{{"sessions", &s.Sessions}, {"events", &s.Events}, {"states", &s.StateKeys}} {
		if !exact && r.engine.estimate != nil {
			if err := r.scanFirst(ctx, r.engine.estimate(count.table), count.into); err != nil {
				return err
			}
			if *count.into > EstimateAbove {
				s.Estimated = true
				continue
			}
		}
		if err := r.scanFirst(ctx, "SELECT count(*) FROM "+count.table+" t", count.into); err != nil {
			return err
		}
	}
	if s.Events == 0 {
		return nil
	}
	last := "SELECT coalesce(max(e.timestamp), 0) FROM events e"
	if s.Estimated { // events have no index by time
		last += " JOIN (SELECT s.pk FROM sessions s ORDER BY s.pk DESC LIMIT 1000) n ON n.pk = e.session_pk"
	}
	var micros int64
	if err := r.scanFirst(ctx, last, &micros); err != nil {
		return err
	}
	if micros > 0 {
		at := microsToTime(micros)
		s.LastEvent = &at
	}
	return nil
}

// maxPlaces limits the places that a report lists for one rule.
const maxPlaces = 100

// A Verification is the result of Verify.
type Verification struct {
	// Schema is the schema version of the database, Required that of this program.
	Schema    int64 `json:"schema"`
	Required  int64 `json:"required"`
	Sessions  int64 `json:"sessions"`
	Events    int64 `json:"events"`
	StateKeys int64 `json:"stateKeys"`
	// Rules are all rules in the order of the checks.
	Rules []RuleReport `json:"rules"`
	// Readable is the number of sessions that a host can read, Unreadable that of the
	// others; UnreadableSessions lists the first hundred with the reason.
	Readable           int      `json:"readable"`
	Unreadable         int      `json:"unreadable"`
	UnreadableSessions []string `json:"unreadableSessions,omitempty"`
}

// A RuleReport lists the violations of a rule.
type RuleReport struct {
	Rule string `json:"rule"`
	// Broken is the number of violations; Places lists the first hundred.
	Broken int      `json:"broken"`
	Places []string `json:"places"`
}

// Sound reports that no rule is violated.
func (v *Verification) Sound() bool {
	for _, r := range v.Rules {
		if r.Broken > 0 {
			return false
		}
	}
	return true
}

// Verify reads a whole database and reports defects: failed integrity checks of
// the engine, gaps in event numbers, rows without a session, and values that do
// not decode. It changes nothing. An older schema is checked as its version is.
func (all Engines) Verify(ctx context.Context, url string) (*Verification, error) {
	v := &verifier{v: &Verification{Required: newestVersion()}}
	r, err := all.OpenReadOnly(ctx, url)
	if e, _, unknown := all.findReadEngine(url); unknown == nil && e.isDamage(err) {
		v.beginRule("the file is a database")
		v.reportBroken("%s", err)
		return v.v, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	v.r = r
	v.beginRule("the schema version can be read")
	err = r.checkSchema(ctx, store.AccessMigrate)
	if err == nil && r.schema == 0 {
		err = emptyDatabase{}
	}
	if err != nil && !v.r.engine.isDamage(err) {
		return nil, err
	}
	if err := v.endRule(ctx, err); err != nil {
		return nil, err
	}
	v.v.Schema = r.schema
	for _, q := range r.engine.integrity(append(tableNamesAt(r.schema), migrationRow{}.TableName())) {
		if err := v.checkEngine(ctx, q); err != nil {
			return nil, err
		}
	}
	for _, q := range rowRules() {
		if err := v.checkRows(ctx, q); err != nil {
			return nil, err
		}
	}
	for _, read := range []func(context.Context) error{v.checkSessions, v.checkEvents, v.checkStates, v.checkOutcomeDays} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	if v.v.Sound() {
		v.v.Readable = int(v.v.Sessions)
		return v.v, nil
	}
	return v.v, v.readSessions(ctx)
}

type verifier struct {
	r    *ReadOnly
	v    *Verification
	rule *RuleReport
	// lastRow names the row that the current rule read last.
	lastRow string
}

func (v *verifier) beginRule(rule string) {
	v.v.Rules = append(v.v.Rules, RuleReport{Rule: rule, Places: []string{}})
	v.rule = &v.v.Rules[len(v.v.Rules)-1]
}

func (v *verifier) reportBroken(format string, args ...any) {
	v.rule.Broken++
	if len(v.rule.Places) < maxPlaces {
		v.rule.Places = append(v.rule.Places, fmt.Sprintf(format, args...))
	}
}

func (v *verifier) checkEngine(ctx context.Context, q integrityQuery) error {
	v.beginRule(q.rule)
	query := v.r.Each
	if q.ownConn {
		query = v.r.eachOnOwnConn
	}
	err := query(ctx, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		answer, into := make([]string, len(columns)), make([]any, len(columns))
		for i := range answer {
			into[i] = &answer[i]
		}
		err = rows.Scan(into...)
		if err == nil && !strings.EqualFold(answer[len(answer)-1], "ok") {
			v.reportBroken("%s", strings.Join(answer, " "))
		}
		return err
	}, q.query)
	return v.endRule(ctx, err)
}

// endRule ends a rule. Damage that stopped its query is a violation, at the last row
// that was read, and the other rules continue with a new snapshot, because PostgreSQL
// has ended the old one. Any other error ends the verification.
func (v *verifier) endRule(ctx context.Context, err error) error {
	last := v.lastRow
	v.lastRow = ""
	if err == nil {
		return nil
	}
	if !v.r.engine.isDamage(err) {
		return fmt.Errorf("checking %q: %w", v.rule.Rule, err)
	}
	if last != "" {
		last = "after " + last + ": "
	}
	v.reportBroken("%s%s: the rest cannot be read", last, err)
	if err := v.r.renewSnapshot(ctx); err != nil && !v.r.engine.isDamage(err) {
		return fmt.Errorf("checking %q: %w", v.rule.Rule, err)
	}
	return nil
}

// A rowRule is a query for invalid rows, with three strings and two numbers
// each, and their description.
type rowRule struct {
	rule, query string
	place       func(a, b, c string, n, m int64) string
}

// rowRules returns the rules that table constraints cannot enforce.
func rowRules() []rowRule {
	return []rowRule{
		{
			"events are numbered from 1 without a gap", `
SELECT coalesce(s.app_name, '?'), coalesce(s.user_id, '?'), coalesce(s.id, '?'), count(*), max(e.seq)
 FROM events e LEFT JOIN sessions s ON s.pk = e.session_pk
 GROUP BY e.session_pk, s.app_name, s.user_id, s.id HAVING min(e.seq) <> 1 OR max(e.seq) <> count(*)`,
			func(app, user, id string, n, last int64) string {
				return fmt.Sprintf("session %s/%s/%s has %d events, and the last of them is number %d", app, user, id, n, last)
			},
		},
		{
			"each event has a session", `
SELECT e.id, e.invocation_id, '', e.session_pk, e.seq
 FROM events e LEFT JOIN sessions s ON s.pk = e.session_pk WHERE s.pk IS NULL`,
			func(id, invocation, _ string, pk, seq int64) string {
				return fmt.Sprintf("event %s of invocation %s, number %d of session row %d", id, invocation, seq, pk)
			},
		},
		{
			"the state of a session has a session", `
SELECT t.app_name, t.user_id, t.session_id, count(*), 0
 FROM states t LEFT JOIN sessions s ON s.app_name = t.app_name AND s.user_id = t.user_id AND s.id = t.session_id
 WHERE t.session_id <> '' AND s.pk IS NULL GROUP BY t.app_name, t.user_id, t.session_id`,
			func(app, user, id string, n, _ int64) string {
				return fmt.Sprintf("session %s/%s/%s is not there, but state of it is, %d keys", app, user, id, n)
			},
		},
		{
			"a state key has one row", `
SELECT t.app_name, t.user_id, t.key, count(*), 0
 FROM states t GROUP BY t.app_name, t.user_id, t.session_id, t.key HAVING count(*) > 1`,
			func(app, user, key string, n, _ int64) string {
				return fmt.Sprintf("key %s of app %q and user %q has %d rows", key, app, user, n)
			},
		},
	}
}

func (v *verifier) checkRows(ctx context.Context, q rowRule) error {
	v.beginRule(q.rule)
	err := v.r.Each(ctx, func(rows *sql.Rows) error {
		var a, b, c string
		var n, m int64
		err := rows.Scan(&a, &b, &c, &n, &m)
		if err == nil {
			v.reportBroken("%s", q.place(a, b, c, n, m))
		}
		return err
	}, q.query)
	return v.endRule(ctx, err)
}

func (v *verifier) checkSessions(ctx context.Context) error {
	v.beginRule("the first state of each session decodes")
	err := v.r.Each(ctx, func(rows *sql.Rows) error {
		var key session.Key
		var text sql.RawBytes
		if err := rows.Scan(&key.App, &key.User, &key.ID, &text); err != nil {
			return err
		}
		v.v.Sessions++
		v.lastRow = "session " + key.String()
		if _, err := session.DecodeMap(text); err != nil {
			v.reportBroken("session %s: %s", key, err)
		}
		return nil
	}, "SELECT s.app_name, s.user_id, s.id, s.initial FROM sessions s")
	return v.endRule(ctx, err)
}

// A checkedEvent is an event's row.
type checkedEvent struct {
	key                       session.Key
	row                       eventRow
	text, provenance, outcome []byte
}

// describePlace names the event.
func (e *checkedEvent) describePlace() string {
	return fmt.Sprintf("session %s, event %s, number %d", e.key, e.row.ID, e.row.Seq)
}

func (v *verifier) checkEvents(ctx context.Context) error {
	v.beginRule("each event decodes and matches its columns")
	c := &rowChecker[checkedEvent]{
		check:  (*checkedEvent).findMismatch,
		report: func(e *checkedEvent, problem string) { v.reportBroken("%s: %s", e.describePlace(), problem) },
	}
	var last checkedEvent
	err := v.r.Each(ctx, func(rows *sql.Rows) error {
		var e checkedEvent
		if err := rows.Scan(&e.key.App, &e.key.User, &e.key.ID, &e.row.Seq, &e.row.ID, &e.row.Invocation, &e.row.Time, &e.text, &e.provenance, &e.outcome); err != nil {
			return err
		}
		v.v.Events++
		last = e
		return c.addRow(e, len(e.text)+len(e.provenance)+len(e.outcome))
	}, `SELECT coalesce(s.app_name, '?'), coalesce(s.user_id, '?'), coalesce(s.id, '?'), e.seq, e.id, e.invocation_id, e.timestamp, e.event, `+v.r.provenanceColumn()+`, `+v.r.outcomeColumn()+`
 FROM events e LEFT JOIN sessions s ON s.pk = e.session_pk ORDER BY e.session_pk, e.seq`)
	if failed := c.finishRows(); failed != nil {
		return failed
	}
	if last.row.Seq > 0 {
		v.lastRow = last.describePlace()
	}
	return v.endRule(ctx, err)
}

// findMismatch returns why a host would reject the row, or "".
func (e *checkedEvent) findMismatch() string {
	ev, row := &session.Event{}, &e.row
	if err := ev.UnmarshalJSON(e.text); err != nil {
		return err.Error()
	}
	if len(e.provenance) > 0 {
		if _, err := session.DecodeProvenance(e.provenance); err != nil {
			return err.Error()
		}
	}
	if err := new(session.Outcome).Decode(e.outcome); err != nil {
		return err.Error()
	}
	switch {
	case ev.ID != row.ID:
		return fmt.Sprintf("its text has the id %q", ev.ID)
	case ev.InvocationID != row.Invocation:
		return fmt.Sprintf("its text has the invocation %q, its column %q", ev.InvocationID, row.Invocation)
	case ev.Timestamp.UnixMicro() != row.Time:
		return fmt.Sprintf("its text has the time %s, its column %s", ev.Timestamp.UTC(), microsToTime(row.Time))
	}
	return ""
}

func (v *verifier) checkStates(ctx context.Context) error {
	v.beginRule("each state value decodes")
	err := v.r.Each(ctx, func(rows *sql.Rows) error {
		var row stateRow
		var text sql.RawBytes
		if err := rows.Scan(&row.App, &row.User, &row.Session, &row.Key, &text); err != nil {
			return err
		}
		v.v.StateKeys++
		v.lastRow = fmt.Sprintf("app %q, user %q, session %q, key %s", row.App, row.User, row.Session, row.scope().Prefix()+row.Key)
		if _, err := backend.DecodeValue(text); err != nil {
			v.reportBroken("app %q, user %q, session %q, key %s: %s", row.App, row.User, row.Session, row.scope().Prefix()+row.Key, err)
		}
		return nil
	}, "SELECT t.app_name, t.user_id, t.session_id, t.key, t.value FROM states t")
	return v.endRule(ctx, err)
}

func (v *verifier) checkOutcomeDays(ctx context.Context) error {
	if v.r.schema > 0 && v.r.schema < outcomeDayVersion {
		return nil
	}
	v.beginRule("the outcomes of deleted sessions decode")
	err := v.r.Each(ctx, func(rows *sql.Rows) error {
		var app string
		d := &store.OutcomeDay{}
		var text sql.RawBytes
		if err := rows.Scan(&app, &d.Day, &text); err != nil {
			return err
		}
		v.lastRow = fmt.Sprintf("app %q, day %s", app, store.FormatDay(d.Day))
		if err := d.Decode(text); err != nil {
			v.reportBroken("app %q, day %s: %s", app, store.FormatDay(d.Day), err)
		}
		return nil
	}, "SELECT d.app_name, d.day, d.totals FROM outcome_days d")
	return v.endRule(ctx, err)
}
