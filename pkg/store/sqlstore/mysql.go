package sqlstore

import (
	"database/sql"
	"errors"

	"agenthost/pkg/store/sqlstore/internal/engine"
)

func mysqlDialect(classify func(error) engine.Fault, lanes int, collation string) dialect {
	return dialect{
		classify: classify,
		begin:    "START TRANSACTION",
		upsert:   upsertMySQL + "($1, $2, $3, $4, $5)" + onTakenMySQL,
		reserve:  upsertMySQL + "($1, $2, $3, $4, 'null') ON DUPLICATE KEY UPDATE value = value",
		lockRow:  " FOR UPDATE",
		insert: `INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance, outcome)
 SELECT s.pk, $2, $3, $4, $5, $6, $8, $9 FROM sessions s
 WHERE s.pk = $1 AND coalesce((SELECT max(h.seq) FROM events h WHERE h.session_pk = $1), 0) = $2 - 1
 AND $7 IN (s.lease_epoch, 0) FOR UPDATE`,
		now:           "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))",
		tableOptions:  func(string) string { return " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=" + collation },
		snapshot:      sql.LevelRepeatableRead,
		questionMarks: true,
		writerCount:   lanes,
		server: &serverDialect{
			// The default, REPEATABLE READ, locks gaps, for which writers to different sessions
			// wait for each other.
			setupSQL:    []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"},
			lockSQL:     "SELECT coalesce(GET_LOCK(concat('agenthost-', md5(database())), 50), 0)",
			unlockSQL:   "DO RELEASE_LOCK(concat('agenthost-', md5(database())))",
			appendBatch: appendMySQL,
		},
	}
}

const (
	upsertMySQL  = "INSERT INTO states (app_name, user_id, session_id, `key`, value) VALUES "
	onTakenMySQL = " ON DUPLICATE KEY UPDATE value = VALUES(value)"
)

// packetBytes is a statement's approximate maximum size: servers reject statements longer than
// their max_allowed_packet.
const packetBytes = 1 << 20

// appendMySQL reads the heads, and inserts events for the sessions that are at the expected
// version. If another writer advances a session in between, the primary key rejects the whole
// statement.
func appendMySQL(w *writer, jobs []*job) error {
	at, err := lockHeads(w, jobs)
	if err != nil {
		return err
	}
	var good []*job
	for _, j := range jobs {
		h := at[j.append.head]
		if h == nil || h.version != j.append.Version || j.append.Epoch != 0 && j.append.Epoch != h.epoch {
			j.err = errConflict
			continue
		}
		h.version++
		j.append.seq = j.append.Version + 1
		good = append(good, j)
	}
	if len(good) == 0 {
		return nil
	}
	return errors.Join(insertEventsMySQL(w, good), writeCellsMySQL(w, collectCellRows(good)))
}

// A leasedHead is a session's version and its last lease's epoch.
type leasedHead struct{ version, epoch int64 }

// lockHeads reads session versions by head id. No lease on them can be taken until the transaction
// ends. The lock is exclusive: a session's appends follow each other anyway, and some engines that
// speak the protocol accept LOCK IN SHARE MODE and lock nothing.
func lockHeads(w *writer, jobs []*job) (map[int64]*leasedHead, error) {
	ids := make([]any, len(jobs))
	for i, j := range jobs {
		ids[i] = j.append.head
	}
	rows, err := w.conn.QueryContext(w.ctx, `SELECT s.pk, coalesce((SELECT h.seq FROM events h
 WHERE h.session_pk = s.pk ORDER BY h.seq DESC LIMIT 1), 0), s.lease_epoch
 FROM sessions s WHERE s.pk IN (`+repeatPlaceholders("?", len(ids))+`) FOR UPDATE`, ids...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	at := map[int64]*leasedHead{}
	for rows.Next() {
		var id int64
		var h leasedHead
		if err := rows.Scan(&id, &h.version, &h.epoch); err != nil {
			return nil, err
		}
		at[id] = &h
	}
	return at, rows.Err()
}

func insertEventsMySQL(w *writer, jobs []*job) error {
	p := &bulkInsert{w: w, head: "INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance, outcome) VALUES ", row: "(?,?,?,?,?,?,?,?)"}
	for _, j := range jobs {
		a := j.append
		if err := p.addRow(len(a.text)+len(a.provenance)+len(a.outcome), a.head, a.seq, a.Event.ID, a.Event.InvocationID, a.Event.Timestamp.UnixMicro(), a.text, a.provenance, a.outcome); err != nil {
			return err
		}
	}
	return p.sendRows()
}

func writeCellsMySQL(w *writer, cells []cellRow) error {
	put := &bulkInsert{w: w, head: upsertMySQL, row: "(?,?,?,?,?)", tail: onTakenMySQL}
	for i, c := range cells {
		last := i == len(cells)-1 || cells[i+1].compare(c.stateRow) != 0
		var err error
		switch {
		case !last:
		case c.Value == "":
			_, err = w.stmt.deleteState.ExecContext(w.ctx, c.App, c.User, c.Session, c.Key)
		default:
			err = put.addRow(len(c.Value), c.App, c.User, c.Session, c.Key, c.Value)
		}
		if err != nil {
			return err
		}
	}
	return put.sendRows()
}

// A bulkInsert collects one statement's rows, and executes it when it is large enough.
type bulkInsert struct {
	w               *writer
	head, row, tail string
	rows, bytes     int
	args            []any
}

func (p *bulkInsert) addRow(bytes int, args ...any) error {
	if p.rows > 0 && p.bytes+bytes > packetBytes {
		if err := p.sendRows(); err != nil {
			return err
		}
	}
	p.rows++
	p.bytes += bytes
	p.args = append(p.args, args...)
	return nil
}

func (p *bulkInsert) sendRows() error {
	if p.rows == 0 {
		return nil
	}
	_, err := p.w.conn.ExecContext(p.w.ctx, p.head+repeatPlaceholders(p.row, p.rows)+p.tail, p.args...)
	p.rows, p.bytes, p.args = 0, 0, nil
	return err
}
