package sqlstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	driver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"

	"agenthost/pkg/store"
)

// mysqlParams returns the parameters of a MySQL or MariaDB URL.
func mysqlParams() []parameter {
	return []parameter{
		{"tls", "ssl"},
		{"ssl_ca"},
		{"connect_timeout"},
		{"charset"},
		{"unix_socket"},
		{"pool_size"},
		{"timeout"},
	}
}

// openMySQLURL opens the database of a URL: mysql://user@host/database.
func openMySQLURL(ctx context.Context, rest string, o *Options) (*Database, error) {
	u, err := parseServer(rest, "3306", mysqlParams())
	if err != nil {
		return nil, err
	}
	config, err := mysqlConfig(u)
	if err != nil {
		return nil, err
	}
	return retryOpen(ctx, mysqlDialect(u.writerCount(), ""), func() (*Database, error) {
		connector, err := newMySQLConnector(config, o.Logger)
		if err != nil {
			return nil, err
		}
		collation, err := mysqlCollation(ctx, connector)
		if err != nil {
			return nil, err
		}
		return newServerBackend(ctx, mysqlDialect(u.writerCount(), collation), u, func() (*gorm.DB, error) { return openMySQL(connector, o.Access) }, o)
	})
}

func mysqlConfig(u *serverURL) (*driver.Config, error) {
	c := driver.NewConfig()
	c.User, c.DBName = u.user.Username(), u.name
	c.Passwd, _ = u.user.Password()
	c.Net, c.Addr = "tcp", net.JoinHostPort(u.host, u.port)
	if path, ok := u.removeParam("unix_socket"); ok {
		c.Net, c.Addr = "unix", path
	}
	var err error
	if c.Timeout, err = u.removeSeconds("connect_timeout", connectTimeout); err != nil {
		return nil, err
	}
	if charset, ok := u.removeParam("charset"); ok && charset != "utf8mb4" {
		return nil, fmt.Errorf("charset must be utf8mb4, got %s", charset)
	}
	if c.TLS, err = mysqlTLS(u); err != nil {
		return nil, err
	}
	c.AllowFallbackToPlaintext = u.params["tls"] == "preferred"
	c.DialFunc = u.conns.openConn
	// Zero asks the server.
	c.MaxAllowedPacket = 0
	c.InterpolateParams = true
	c.Logger = &driver.NopLogger{}
	c.Params = map[string]string{"sql_mode": "'STRICT_ALL_TABLES'"}
	return c, nil
}

func mysqlTLS(u *serverURL) (*tls.Config, error) {
	mode, given := u.params["tls"]
	file, ca := u.params["ssl_ca"]
	if !given && ca {
		mode = "true"
	}
	config := &tls.Config{ServerName: u.host}
	switch mode {
	case "", "false":
		if ca {
			return nil, errors.New("ssl_ca cannot be used with tls=false")
		}
		return nil, nil
	case "true":
	case "skip-verify", "preferred":
		config.InsecureSkipVerify = true
	default:
		return nil, fmt.Errorf("tls must be false (the default), true, skip-verify or preferred, got %s", mode)
	}
	if !ca {
		return config, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("ssl_ca: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ssl_ca: %s contains no certificate", file)
	}
	return config, nil
}

// mysqlCollation returns the collation that compares byte by byte including
// trailing spaces, which most do not. It also reports an unreachable server
// early.
func mysqlCollation(ctx context.Context, connector *mysqlConnector) (string, error) {
	db := sql.OpenDB(connector)
	defer db.Close()
	var version string
	if err := db.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return "", newUnreachableError(err)
	}
	return selectCollation(version)
}

// selectCollation returns the collation of an engine by its version. It rejects engines
// that speak the protocol of MySQL without its locks and collations.
func selectCollation(version string) (string, error) {
	lower := strings.ToLower(version)
	for _, engine := range []string{"TiDB", "Vitess"} {
		if strings.Contains(lower, strings.ToLower(engine)) {
			return "", fmt.Errorf("%s is not supported, the version of the server is %q; hint: use MySQL, MariaDB or PostgreSQL", engine, version)
		}
	}
	if strings.Contains(lower, "mariadb") {
		return "utf8mb4_nopad_bin", nil
	}
	return "utf8mb4_0900_bin", nil
}

func openMySQL(connector sqldriver.Connector, a store.Access) (*gorm.DB, error) {
	if a == store.AccessRead {
		connector = readOnlyConnector{connector}
	}
	pool := sql.OpenDB(connector)
	// With the version, GORM would use RETURNING, which reports no row count.
	d := mysqlDialector{mysql.Dialector{Config: &mysql.Config{Conn: pool, SkipInitializeWithVersion: true}}}
	db, err := gorm.Open(d, gormConfig())
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

// A readOnlyConnector opens connections whose transactions are read-only.
type readOnlyConnector struct{ sqldriver.Connector }

// Connect opens a connection.
func (c readOnlyConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(sqldriver.ExecerContext).ExecContext(ctx, "SET SESSION TRANSACTION READ ONLY", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// mysqlDialector uses LONGTEXT, because TEXT of MySQL is limited to 64 KiB.
type mysqlDialector struct{ mysql.Dialector }

// DataTypeOf returns the type of a column.
func (d mysqlDialector) DataTypeOf(f *schema.Field) string {
	if f.DataType == "text" {
		return "longtext"
	}
	return d.Dialector.DataTypeOf(f)
}

// Migrator migrates tables with the types of this dialector.
func (d mysqlDialector) Migrator(db *gorm.DB) gorm.Migrator {
	return mysql.Migrator{
		Migrator:  migrator.Migrator{Config: migrator.Config{DB: db, Dialector: d}},
		Dialector: d.Dialector,
	}
}

func mysqlDialect(lanes int, collation string) dialect {
	return dialect{
		begin:   "START TRANSACTION",
		upsert:  upsertMySQL + "($1, $2, $3, $4, $5)" + onTakenMySQL,
		reserve: upsertMySQL + "($1, $2, $3, $4, 'null') ON DUPLICATE KEY UPDATE value = value",
		lockRow: " FOR UPDATE",
		insert: `INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance)
 SELECT s.pk, $2, $3, $4, $5, $6, $8 FROM sessions s
 WHERE s.pk = $1 AND coalesce((SELECT max(h.seq) FROM events h WHERE h.session_pk = $1), 0) = $2 - 1
 AND $7 IN (s.lease_epoch, 0) FOR UPDATE`,
		now:          "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))",
		tableOptions: func(string) string { return " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=" + collation },
		isConflict: func(err error) bool {
			switch mysqlCode(err) {
			case 1062, 1452, 1048:
				return true
			}
			return false
		},
		isUnwritable:  isUnwritableMySQL,
		snapshot:      sql.LevelRepeatableRead,
		questionMarks: true,
		writerCount:   lanes,
		server: &serverDialect{
			// The default, REPEATABLE READ, locks gaps, for which writers of
			// different sessions wait for each other.
			setupSQL:          []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"},
			lockSQL:           "SELECT coalesce(GET_LOCK(concat('agenthost-', md5(database())), 50), 0)",
			unlockSQL:         "DO RELEASE_LOCK(concat('agenthost-', md5(database())))",
			isConnectionLost:  isConnectionLostMySQL,
			isConnectionLimit: isConnectionLimitMySQL,
			isRetryable:       func(err error) bool { code := mysqlCode(err); return code == 1213 || code == 1205 },
			appendBatch:       appendMySQL,
		},
	}
}

// isConnectionLimitMySQL matches the connection limits of the server and of the
// user.
func isConnectionLimitMySQL(err error) bool {
	switch mysqlCode(err) {
	case 1040, 1203, 1226:
		return true
	}
	return errors.Is(err, errNoConnection)
}

// isUnwritableMySQL matches a full disk or table, and a read-only server.
func isUnwritableMySQL(err error) bool {
	switch mysqlCode(err) {
	case 1021, 1114, 1290, 1836:
		return true
	}
	return false
}

// isConnectionLostMySQL matches a server shutdown, a killed connection, and a
// former primary that became read-only.
func isConnectionLostMySQL(err error) bool {
	switch mysqlCode(err) {
	case 1053, 1290, 1317, 1836, 1927:
		return true
	}
	return errors.Is(err, driver.ErrInvalidConn)
}

const (
	upsertMySQL  = "INSERT INTO states (app_name, user_id, session_id, `key`, value) VALUES "
	onTakenMySQL = " ON DUPLICATE KEY UPDATE value = VALUES(value)"
)

// packetBytes is the approximate maximum size of one statement: servers reject
// statements longer than their max_allowed_packet.
const packetBytes = 1 << 20

// appendMySQL reads the heads, and inserts the events of the sessions that are
// at the expected version. If another writer advances a session in between, the
// primary key rejects the whole statement.
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

// A leasedHead is the version of a session and the epoch of its last lease.
type leasedHead struct{ version, epoch int64 }

// lockHeads reads the versions of sessions by head id. No lease on them can be
// taken until the transaction ends. The lock is exclusive: the appends of a session follow
// each other anyway, and some engines that speak the protocol accept LOCK IN SHARE MODE
// and lock nothing.
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
	p := &bulkInsert{w: w, head: "INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance) VALUES ", row: "(?,?,?,?,?,?,?)"}
	for _, j := range jobs {
		a := j.append
		if err := p.addRow(len(a.text)+len(a.provenance), a.head, a.seq, a.Event.ID, a.Event.InvocationID, a.Event.Timestamp.UnixMicro(), a.text, a.provenance); err != nil {
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

// A bulkInsert collects the rows of one statement, and executes it when it is
// large enough.
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
