package sqlstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"agenthost/pkg/session"
)

// serverURL is the parsed URL of a database server.
type serverURL struct {
	user   *url.Userinfo
	host   string
	port   string
	name   string
	params map[string]string
	size   int // of the pool
	// timeout is the deadline of a request.
	timeout time.Duration
	conns   *connSet
}

// parameter holds all names of a URL parameter; the first is the canonical one.
type parameter []string

// The pool limits: the number of connections of a store, and the number of
// writer connections among them. The others are readers.
const (
	defaultPool = 16
	minPool     = 2
	maxWriters  = 4
)

// writerCount returns the number of writer connections.
func (u *serverURL) writerCount() int { return min(maxWriters, u.size/2) }

// parseServer parses a URL after the scheme. Its errors never contain the URL,
// which may include a password.
func parseServer(rest, port string, known []parameter) (*serverURL, error) {
	parsed, err := url.Parse("db:" + rest)
	if err != nil || parsed.Opaque != "" || !strings.HasPrefix(rest, "//") || hasStrayAt(rest) {
		return nil, errors.New("write //USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters in user and password")
	}
	u := &serverURL{user: parsed.User, host: parsed.Hostname(), port: parsed.Port(), name: strings.TrimPrefix(parsed.Path, "/"), size: defaultPool, conns: &connSet{}}
	if u.port == "" {
		u.port = port
	}
	if u.name == "" || strings.Contains(u.name, "/") {
		return nil, errors.New("name one database: //HOST/DATABASE")
	}
	values, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, errUnreadableParams()
	}
	if u.params, err = readParams(values, known); err != nil {
		return nil, err
	}
	if u.timeout, err = u.removeSeconds("timeout", defaultTimeout); err != nil {
		return nil, err
	}
	return u, u.readPool()
}

// errUnreadableParams replaces the parser's error, which contains the input.
func errUnreadableParams() error {
	return errors.New("invalid parameters after ?: write name=value, with %XX for special characters, and & between them")
}

// hasStrayAt finds an @ after the host. It means that the password contains an
// unescaped character that ends the authority early, so that part of it would
// appear in messages.
func hasStrayAt(rest string) bool {
	rest = strings.TrimPrefix(rest, "//")
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && strings.Contains(rest[end:], "@")
}

func readParams(values url.Values, known []parameter) (map[string]string, error) {
	params := map[string]string{}
	for name, given := range values {
		i := slices.IndexFunc(known, func(p parameter) bool { return slices.Contains(p, name) })
		if i < 0 {
			return nil, fmt.Errorf("unknown parameter %q: supported are %s", name, parameterNames(known))
		}
		if _, twice := params[known[i][0]]; twice || len(given) > 1 {
			return nil, fmt.Errorf("parameter %q appears more than once", known[i][0])
		}
		params[known[i][0]] = given[0]
	}
	return params, nil
}

func parameterNames(known []parameter) string {
	var all []string
	for _, p := range known {
		all = append(all, p[0])
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (u *serverURL) readPool() error {
	text, ok := u.removeParam("pool_size")
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < minPool || n > 1000 {
		return fmt.Errorf("pool_size=%s is not a number of connections from %d to 1000", text, minPool)
	}
	u.size = n
	return nil
}

// removeParam removes a parameter and returns it.
func (u *serverURL) removeParam(name string) (string, bool) {
	v, ok := u.params[name]
	delete(u.params, name)
	return v, ok
}

// removeSeconds removes a parameter with a positive number of seconds and returns
// it.
func (u *serverURL) removeSeconds(name string, otherwise time.Duration) (time.Duration, error) {
	text, ok := u.removeParam(name)
	if !ok {
		return otherwise, nil
	}
	return parseSeconds(name, text)
}

func parseSeconds(name, text string) (time.Duration, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 3600 {
		return 0, fmt.Errorf("%s=%s is not a number of seconds from 1 to 3600", name, text)
	}
	return time.Duration(n) * time.Second, nil
}

// An unavailableState is the reason why the store is unavailable. It is a
// [session.ErrUnavailable].
type unavailableState string

const (
	errUnreachable  = unavailableState("database unreachable")
	errSilent       = unavailableState("database does not answer")
	errTimeout      = unavailableState("database did not answer")
	errUnwritable   = unavailableState("database not writable")
	errNoConnection = unavailableState("database server has no free connection")
	errReplaced     = unavailableState("database file removed or replaced")
)

// Error returns the reason.
func (s unavailableState) Error() string { return "session store: " + string(s) }

// Is matches session.ErrUnavailable.
func (unavailableState) Is(target error) bool { return target == session.ErrUnavailable }

// newUnreachableError is the error for a server that could not be reached when
// its database was opened. It includes a hint.
func newUnreachableError(err error) error {
	return &openError{fmt.Sprintf("database unreachable: %s; %s", connectReason(err), connectHint(err)), err}
}

// An openError replaces the message of a driver error.
type openError struct {
	text string
	err  error
}

func (e *openError) Error() string { return e.text }

func (e *openError) Unwrap() error { return e.err }

// connectReason returns the cause in one line. The PostgreSQL driver adds a
// line for each address it tried.
func connectReason(err error) string {
	var refused *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &network):
		return network.Error()
	default:
		return strings.Join(strings.Fields(err.Error()), " ")
	}
}

func connectHint(err error) string {
	code, number := sqlState(err), mysqlCode(err)
	switch {
	case code == "3D000" || number == 1049:
		return "create the database first, or name one that exists in the URL"
	case code == "28P01" || code == "28000" || number == 1044 || number == 1045:
		return "check the user and password in the URL, and the user's permissions on the server"
	case code != "" || number != 0:
		return "see the log of the server"
	default:
		return "check that the server is running, and the host and port in the URL"
	}
}

func mysqlCode(err error) uint16 {
	var e *driver.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// sqlState returns the PostgreSQL error code, or "".
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
