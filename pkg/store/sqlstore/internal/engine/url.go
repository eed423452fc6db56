package engine

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"
)

// ConnectTimeout is the default limit of connecting to one address.
const ConnectTimeout = 5 * time.Second

// A Parameter holds all names of a URL parameter; the first is the canonical one.
type Parameter []string

// A URL is the parsed URL of a database server.
type URL struct {
	User *url.Userinfo
	Host string
	Port string
	// Name is the database.
	Name string
	// Params are the parameters by their canonical names.
	Params map[string]string
	// Dial opens the network connections of the database.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// RemoveParam removes a parameter and returns it.
func (u *URL) RemoveParam(name string) (string, bool) {
	v, ok := u.Params[name]
	delete(u.Params, name)
	return v, ok
}

// RemoveSeconds removes a parameter with a positive number of seconds and returns it.
func (u *URL) RemoveSeconds(name string, otherwise time.Duration) (time.Duration, error) {
	text, ok := u.RemoveParam(name)
	if !ok {
		return otherwise, nil
	}
	return ParseSeconds(name, text)
}

// ParseSeconds parses the value of a parameter, from 1 to 3600 seconds.
func ParseSeconds(name, text string) (time.Duration, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 3600 {
		return 0, fmt.Errorf("%s=%s is not a number of seconds from 1 to 3600", name, text)
	}
	return time.Duration(n) * time.Second, nil
}
