package engine

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"
)

// ConnectTimeout is the default limit for connecting to one address.
const ConnectTimeout = 5 * time.Second

// A Parameter holds a URL parameter's names; the first is the canonical one.
type Parameter []string

// A URL is a database server's parsed URL.
type URL struct {
	User *url.Userinfo
	Host string
	Port string
	// Name is the database.
	Name string
	// Params are the parameters by their canonical names.
	Params map[string]string
	// Dial opens the database's network connections.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// RemoveParam removes a parameter and returns it.
func (u *URL) RemoveParam(name string) (string, bool) {
	v, ok := u.Params[name]
	delete(u.Params, name)
	return v, ok
}

// RemoveSeconds removes a parameter with positive seconds and returns it.
func (u *URL) RemoveSeconds(name string, otherwise time.Duration) (time.Duration, error) {
	text, ok := u.RemoveParam(name)
	if !ok {
		return otherwise, nil
	}
	return ParseSeconds(name, text)
}

// ParseSeconds parses a parameter's value, from 1 to 3600 seconds.
func ParseSeconds(name, text string) (time.Duration, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 3600 {
		return 0, fmt.Errorf("%s=%s is not a number of seconds from 1 to 3600", name, text)
	}
	return time.Duration(n) * time.Second, nil
}
