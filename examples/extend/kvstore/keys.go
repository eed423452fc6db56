package kvstore

import (
	"encoding/binary"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// The row keys. Package store rejects IDs that contain a NUL byte, so that it separates a key's
// parts; numbers are 8 bytes, the highest first.
//
//	p                          value of the last Ping
//	c                          last head ID
//	h app 0 user 0 session     head as JSON
//	i number                   initial state of a head as JSON
//	o app 0 user 0 number      user 0 session of a head; a second row without user
//	a app 0 time number        user 0 session of a head, by the time of its age row
//	w app                      sweep of an app as JSON
//	s app 0 user 0 session 0 k state value as JSON; shared keys without session or user
//	e number number            event of a head: provenance, and the event as JSON
//	n number id                number of an event by its ID
const separator = "\x00"

func pingKey() []byte { return []byte("p") }

func counterKey() []byte { return []byte("c") }

func headKey(key session.Key) []byte { return joinKey("h", key.App, key.User, key.ID) }

func initialKey(id int64) []byte { return numberKey("i", id) }

func orderKey(app, user string, id int64) []byte {
	return appendNumber(joinKey("o", app, user, ""), id)
}

func ageKey(app string, active, id int64) []byte {
	return appendNumber(appendNumber(joinKey("a", app, ""), max(0, active)), id)
}

// parseAgeKey decodes an age row's time and head ID.
func parseAgeKey(k []byte) (c store.ExpiryCursor, ok bool) {
	if len(k) < 16 {
		return c, false
	}
	var first, second bool
	c.Active, first = parseNumber(k[len(k)-16 : len(k)-8])
	c.ID, second = parseNumber(k[len(k)-8:])
	return c, first && second
}

func sweepKey(app string) []byte { return joinKey("w", app) }

// statePrefix begins the keys in one scope of a session's state.
func statePrefix(key session.Key, scope session.Scope) []byte {
	switch scope {
	case session.ScopeApp:
		key.User, key.ID = "", ""
	case session.ScopeUser:
		key.ID = ""
	}
	return joinKey("s", key.App, key.User, key.ID, "")
}

func stateKey(key session.Key, scope session.Scope, name string) []byte {
	return append(statePrefix(key, scope), name...)
}

func eventKey(id, seq int64) []byte { return appendNumber(numberKey("e", id), seq) }

func eventIDKey(id int64, event string) []byte { return append(numberKey("n", id), event...) }

func joinKey(table string, parts ...string) []byte {
	return []byte(table + strings.Join(parts, separator))
}

func numberKey(table string, n int64) []byte { return appendNumber([]byte(table), n) }

func appendNumber(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }

// parseNumber decodes a stored number.
func parseNumber(b []byte) (n int64, ok bool) {
	if len(b) != 8 {
		return 0, false
	}
	n = int64(binary.BigEndian.Uint64(b))
	return n, n >= 0
}
