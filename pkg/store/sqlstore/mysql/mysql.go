// Package mysql opens MySQL and MariaDB databases for sqlstore.
package mysql

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

	"agenthost/pkg/store/sqlstore/internal/engine"
)

// Engine returns the engine for mysql: and mariadb: URLs, also with SQLAlchemy's driver names.
func Engine() *engine.Engine {
	return &engine.Engine{
		Kind: engine.MySQL,
		Names: []string{
			"mysql", "mysql+pymysql", "mysql+aiomysql", "mysql+asyncmy", "mysql+mysqldb", "mysql+mysqlconnector",
			"mariadb", "mariadb+pymysql", "mariadb+aiomysql", "mariadb+asyncmy", "mariadb+mariadbconnector",
		},
		Form:     "mysql://user@host/database",
		Classify: classifyError,
		Server: &engine.Server{
			Port:      "3306",
			Params:    []engine.Parameter{{"tls", "ssl"}, {"ssl_ca"}, {"connect_timeout"}, {"charset"}, {"unix_socket"}, {"pool_size"}, {"timeout"}},
			Prepare:   prepareConnect,
			OpenPlain: openPlain,
		},
	}
}

// prepareConnect reads a URL's parameters.
func prepareConnect(u *engine.URL, s engine.Settings) (engine.Connect, error) {
	config, err := newConfig(u)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*engine.Pools, error) {
		connector, err := newConnector(config, s.Logger)
		if err != nil {
			return nil, err
		}
		collation, clustered, err := inspectServer(ctx, connector)
		if err != nil {
			return nil, err
		}
		if clustered {
			if connector, err = newConnector(withSyncedReads(config), s.Logger); err != nil {
				return nil, err
			}
		}
		return &engine.Pools{Open: func() (*gorm.DB, error) { return openPool(connector, s.ReadOnly) }, Collation: collation}, nil
	}, nil
}

// openPlain opens a pool without GORM.
func openPlain(u *engine.URL) (*sql.DB, error) {
	config, err := newConfig(u)
	if err != nil {
		return nil, err
	}
	connector, err := driver.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

func newConfig(u *engine.URL) (*driver.Config, error) {
	c := driver.NewConfig()
	c.User, c.DBName = u.User.Username(), u.Name
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr = "tcp", net.JoinHostPort(u.Host, u.Port)
	if path, ok := u.RemoveParam("unix_socket"); ok {
		c.Net, c.Addr = "unix", path
	}
	var err error
	if c.Timeout, err = u.RemoveSeconds("connect_timeout", engine.ConnectTimeout); err != nil {
		return nil, err
	}
	if charset, ok := u.RemoveParam("charset"); ok && charset != "utf8mb4" {
		return nil, fmt.Errorf("charset must be utf8mb4, got %s", charset)
	}
	if c.TLS, err = newTLSConfig(u); err != nil {
		return nil, err
	}
	c.AllowFallbackToPlaintext = u.Params["tls"] == "preferred"
	c.DialFunc = u.Dial
	// Zero asks the server.
	c.MaxAllowedPacket = 0
	c.InterpolateParams = true
	c.Logger = &driver.NopLogger{}
	c.Params = map[string]string{"sql_mode": "'STRICT_ALL_TABLES'"}
	return c, nil
}

func newTLSConfig(u *engine.URL) (*tls.Config, error) {
	mode, given := u.Params["tls"]
	file, ca := u.Params["ssl_ca"]
	if !given && ca {
		mode = "true"
	}
	config := &tls.Config{ServerName: u.Host}
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

// inspectServer returns the collation that compares byte by byte including
// trailing spaces, which most do not, and whether the server is a node of a Galera
// cluster. It also reports an unreachable server early.
func inspectServer(ctx context.Context, connector *connector) (collation string, clustered bool, err error) {
	db := sql.OpenDB(connector.forPool())
	defer db.Close()
	var version string
	if err := db.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return "", false, engine.NewUnreachableError(err, classifyError(err))
	}
	var name, value string
	err = db.QueryRowContext(ctx, "SHOW VARIABLES LIKE 'wsrep_on'").Scan(&name, &value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", false, engine.NewUnreachableError(err, classifyError(err))
	}
	collation, err = selectCollation(version)
	return collation, value == "ON", err
}

// withSyncedReads returns a configuration whose reads wait until their node has applied what the cluster
// has committed before (wsrep_sync_wait): connections may be on several nodes, and a run reads on one what it has
// written on another.
func withSyncedReads(config *driver.Config) *driver.Config {
	c := config.Clone()
	c.Params["wsrep_sync_wait"] = "1"
	return c
}

// selectCollation returns an engine's collation by its version. It rejects engines that speak
// MySQL's protocol without its locks and collations.
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

func openPool(connector *connector, readOnly bool) (*gorm.DB, error) {
	var opener sqldriver.Connector = connector.forPool()
	if readOnly {
		opener = readOnlyConnector{connector.forPool()}
	}
	pool := sql.OpenDB(opener)
	// With the version, GORM would use RETURNING, which reports no row count.
	d := dialector{mysql.Dialector{Config: &mysql.Config{Conn: pool, SkipInitializeWithVersion: true}}}
	db, err := gorm.Open(d, engine.NewConfig())
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

// A readOnlyConnector opens connections whose transactions are read-only.
type readOnlyConnector struct{ *connector }

// Connect opens a connection.
func (c readOnlyConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.(sqldriver.ExecerContext).ExecContext(ctx, "SET SESSION TRANSACTION READ ONLY", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// dialector uses LONGTEXT, because MySQL's TEXT is limited to 64 KiB.
type dialector struct{ mysql.Dialector }

// DataTypeOf returns a column's type.
func (d dialector) DataTypeOf(f *schema.Field) string {
	if f.DataType == "text" {
		return "longtext"
	}
	return d.Dialector.DataTypeOf(f)
}

// Migrator migrates tables with this dialector's types.
func (d dialector) Migrator(db *gorm.DB) gorm.Migrator {
	return mysql.Migrator{
		Migrator:  migrator.Migrator{Config: migrator.Config{DB: db, Dialector: d}},
		Dialector: d.Dialector,
	}
}

func classifyError(err error) (f engine.Fault) {
	if errors.Is(err, driver.ErrInvalidConn) {
		f |= engine.Lost
	}
	var e *driver.MySQLError
	if !errors.As(err, &e) || e.Number == 0 {
		return f
	}
	f |= engine.Answered
	switch e.Number {
	case 1062, 1452, 1048:
		f |= engine.Conflict
	case 1021, 1114: // a full disk or table
		f |= engine.Unwritable
	case 1290, 1836: // a read-only server, such as a former primary
		f |= engine.Unwritable | engine.Lost
	case 1053, 1317, 1927: // a server shutdown, or a killed connection
		f |= engine.Lost
	case 1047, 1180: // a Galera node without its cluster, in a statement and in a commit
		f |= engine.Lost
	case 1040, 1203, 1226: // the server's and the user's limits
		f |= engine.Limited
	case 1213, 1205:
		f |= engine.Aborted
	case 1034, 1035, 1194, 1195, 1712, 1877, 1146, 1054:
		f |= engine.Damaged
	case 1050, 1060, 1061:
		f |= engine.Overtaken
	case 1049:
		f |= engine.NoDatabase
	case 1044, 1045:
		f |= engine.Denied
	}
	return f
}
