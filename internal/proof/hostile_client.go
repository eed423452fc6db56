package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"
)

// shotPatience is how long an answer may take, and dripPieces in how many pieces a
// slow client sends.
const (
	shotPatience = 15 * time.Second
	dripPieces   = 20
)

// internalWords are what no answer may tell: files and lines, types and packages of
// Go, databases and what they say, folders of the machine.
var internalWords = regexp.MustCompile(`\.go:\d|goroutine \d|(?i:runtime error|nil pointer|panic|unmarshal)|\breflect\b|interface \{|map\[string|` +
	`\b(json|http|session|store|runtime|server|genai|strconv|fmt|errors|url|multipart)\.[A-Z][a-z]|0xc0[0-9a-f]{6}|` +
	`(?i:\bsql(ite|state)?\b|SELECT |INSERT |constraint|pgconn|gorm|duplicate key|no such table)|/(tmp|home|root|work|var|usr)/`)

// explained are the failures of a server that are no failures: what it says that it
// does not do, versions of HTTP and encodings that it does not know.
func explained(status int) bool {
	return status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported
}

// A reckoning is what is held against a server.
type reckoning struct {
	mu       sync.Mutex
	shots    int
	statuses map[int]int
	broken   int // answers of 5xx that nothing explains
	telling  int // answers with internal words
	hanging  int // connections that were not answered and closed
	first    []string
}

func (v *reckoning) blame(count *int, s shot, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	*count++
	if len(v.first) < 5 {
		v.first = append(v.first, fmt.Sprintf("%s: %.300q: %s", s.what, s.text, why))
	}
}

// fire sends shots of a seed from some clients at once, and judges the answers.
func fire(ctx context.Context, addr string, a *armoury, shots int) (*reckoning, error) {
	v := &reckoning{statuses: map[int]int{}, shots: shots}
	next := make(chan shot)
	go func() {
		defer close(next)
		for range shots {
			select {
			case next <- a.shot():
			case <-ctx.Done():
				return
			}
		}
	}()
	err := together(8, func(int) error {
		for s := range next {
			if err := v.send(ctx, addr, s); err != nil {
				return err
			}
		}
		return nil
	})
	return v, errors.Join(err, ctx.Err())
}

// send sends one shot. The error is one of connecting: a server that is not there
// any more.
func (v *reckoning) send(ctx context.Context, addr string, s shot) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	conn := c.(*net.TCPConn)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(shotPatience)); err != nil {
		return err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write(conn)
	}()
	defer func() { conn.Close(); <-written }()
	switch s.end {
	case vanishes:
		<-written
		return conn.SetLinger(0)
	case hangsUp:
		_, _ = conn.Read(make([]byte, 64))
		return conn.SetLinger(0)
	case turnsAway:
		_ = conn.CloseRead()
		<-written
		return nil
	}
	answer, err := io.ReadAll(conn)
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		v.blame(&v.hanging, s, "no end")
		return nil
	}
	v.judge(s, answer)
	return nil
}

// write says all; what a server does not want to hear any more is no matter.
func (s shot) write(conn *net.TCPConn) {
	size := len(s.text)
	if s.drip {
		size = len(s.text)/dripPieces + 1
	}
	for piece := range slices.Chunk(s.text, max(1, size)) {
		if _, err := conn.Write(piece); err != nil {
			return
		}
	}
	if s.end == closes {
		_ = conn.CloseWrite()
	}
}

// judge looks at each answer of a connection.
func (v *reckoning) judge(s shot, answer []byte) {
	if at := internalWords.FindIndex(answer); at != nil {
		v.blame(&v.telling, s, fmt.Sprintf("tells %q", answer[max(0, at[0]-100):min(len(answer), at[1]+100)]))
	}
	r := bufio.NewReader(bytes.NewReader(answer))
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		v.mu.Lock()
		v.statuses[res.StatusCode]++
		v.mu.Unlock()
		if res.StatusCode >= 500 && !explained(res.StatusCode) {
			v.blame(&v.broken, s, fmt.Sprintf("%s %.200s", res.Status, body))
		}
	}
}
