package store

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// serverURL is the URL of a database server, taken apart.
type serverURL struct {
	user   *url.Userinfo
	host   string
	port   string
	name   string
	params map[string]string
	size   int // of the pool
}

// parameter is one that a URL may have, under all its names; the first is the
// one that counts.
type parameter []string

// The pool: how many connections a store has at most, and how many of them
// write. The rest reads.
const (
	defaultPool = 16
	minPool     = 2
	maxWriters  = 4
)

// writerCount are the connections of the pool that write.
func (u *serverURL) writerCount() int { return min(maxWriters, u.size/2) }

// parseServer takes apart what follows the scheme. Its errors never show the
// URL, which may hold a password.
func parseServer(rest, port string, known []parameter) (*serverURL, error) {
	parsed, err := url.Parse("db:" + rest)
	if err != nil || parsed.Opaque != "" || !strings.HasPrefix(rest, "//") || hasStrayAt(rest) {
		return nil, errors.New("write //USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters in user and password")
	}
	u := &serverURL{user: parsed.User, host: parsed.Hostname(), port: parsed.Port(), name: strings.TrimPrefix(parsed.Path, "/"), size: defaultPool}
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
	return u, u.readPool()
}

// errUnreadableParams does not show what was written, as the parser's own does.
func errUnreadableParams() error {
	return errors.New("the parameters behind ? cannot be read: write name=value, with %XX for special characters, and & between them")
}

// hasStrayAt finds an @ behind the host: then the password holds a sign that ends
// it too early, and what follows would be taken for something to show.
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
			return nil, fmt.Errorf("unknown parameter %q: there are %s", name, parameterNames(known))
		}
		if _, twice := params[known[i][0]]; twice || len(given) > 1 {
			return nil, fmt.Errorf("parameter %q is given twice", known[i][0])
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
	text, ok := u.takeParam("pool_size")
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < minPool || n > 1000 {
		return fmt.Errorf("pool_size=%s: it is a number of connections from %d to 1000", text, minPool)
	}
	u.size = n
	return nil
}

// takeParam returns a parameter and takes it away.
func (u *serverURL) takeParam(name string) (string, bool) {
	v, ok := u.params[name]
	delete(u.params, name)
	return v, ok
}

// takeSeconds returns a parameter that is a number of seconds above zero.
func (u *serverURL) takeSeconds(name string, otherwise time.Duration) (time.Duration, error) {
	text, ok := u.takeParam(name)
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 3600 {
		return 0, fmt.Errorf("%s=%s: it is a number of seconds from 1 to 3600", name, text)
	}
	return time.Duration(n) * time.Second, nil
}

// The patience with a server: how long a connection may take to come about,
// and how long an answer may take before the connection counts as lost.
const (
	connectTimeout = 10 * time.Second
	answerTimeout  = time.Minute
)

// deadlineConn is a connection on which an answer must come in time: a server that
// vanished says nothing, and nobody may wait for it for ever.
type deadlineConn struct{ net.Conn }

func (c deadlineConn) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
