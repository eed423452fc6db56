package sqlstore

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// serverURL is a database server's parsed URL.
type serverURL struct {
	engine.URL
	size int // the pool's
	// timeout is a request's deadline.
	timeout time.Duration
	conns   *connSet
}

// defaultTimeout is a request's deadline without the URL parameter timeout.
const defaultTimeout = 10 * time.Second

// Pool limits: a store's connections, and the writer connections among them. The others are
// readers.
const (
	defaultPool = 16
	minPool     = 2
	maxWriters  = 4
)

// writerCount returns how many writer connections there are.
func (u *serverURL) writerCount() int { return min(maxWriters, u.size/2) }

// parseServer parses a URL after the scheme. Its errors never contain the URL,
// which may include a password.
func parseServer(rest string, e *engine.Server) (*serverURL, error) {
	parsed, err := url.Parse("db:" + rest)
	if err != nil || parsed.Opaque != "" || !strings.HasPrefix(rest, "//") || hasStrayAt(rest) {
		return nil, errors.New("write //USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters in user and password")
	}
	u := &serverURL{size: defaultPool, conns: &connSet{}}
	u.URL = engine.URL{
		User: parsed.User, Host: parsed.Hostname(), Port: cmp.Or(parsed.Port(), e.Port),
		Name: strings.TrimPrefix(parsed.Path, "/"), Dial: u.conns.openConn,
	}
	if u.Name == "" || strings.Contains(u.Name, "/") {
		return nil, errors.New("name one database: //HOST/DATABASE")
	}
	values, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, errUnreadableParams()
	}
	if u.Params, err = readParams(values, e.Params); err != nil {
		return nil, err
	}
	if u.timeout, err = u.RemoveSeconds("timeout", defaultTimeout); err != nil {
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

func readParams(values url.Values, known []engine.Parameter) (map[string]string, error) {
	params := map[string]string{}
	for name, given := range values {
		i := slices.IndexFunc(known, func(p engine.Parameter) bool { return slices.Contains(p, name) })
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

func parameterNames(known []engine.Parameter) string {
	var all []string
	for _, p := range known {
		all = append(all, p[0])
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (u *serverURL) readPool() error {
	text, ok := u.RemoveParam("pool_size")
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

// An unavailableState is the reason why the store is unavailable. It is a
// [session.ErrUnavailable].
type unavailableState string

const (
	errUnreachable  = unavailableState("database unreachable")
	errSilent       = unavailableState("database does not answer")
	errTimeout      = unavailableState("database did not answer")
	errUnwritable   = unavailableState("database not writable")
	errNoConnection = unavailableState("database server has no free connection")
	errAborted      = unavailableState("database aborted each attempt")
	errReplaced     = unavailableState("database file removed or replaced")
)

// Error returns the reason.
func (s unavailableState) Error() string { return "session store: " + string(s) }

// Is matches session.ErrUnavailable.
func (unavailableState) Is(target error) bool { return target == session.ErrUnavailable }
