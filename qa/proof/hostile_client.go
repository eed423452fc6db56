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

// answerLimit is the maximum time for a response, and slowChunks how many chunks a slow client
// sends.
const (
	answerLimit = 15 * time.Second
	slowChunks  = 20
)

// internalWords match internals that no response may contain: source positions, Go types and
// packages, SQL, and paths on the machine.
var internalWords = regexp.MustCompile(`\.go:\d|goroutine \d|(?i:runtime error|nil pointer|panic|unmarshal)|\breflect\b|interface \{|map\[string|` +
	`\b(json|http|session|store|runtime|server|genai|strconv|fmt|errors|url|multipart)\.[A-Z][a-z]|0xc0[0-9a-f]{6}|` +
	`(?i:\bsql(ite|state)?\b|SELECT |INSERT |constraint|pgconn|gorm|duplicate (key value|entry)|no such table)|/(tmp|home|root|work|var|usr)/`)

// isAllowedStatus reports whether a 5xx status is permitted: unsupported methods,
// encodings and HTTP versions.
func isAllowedStatus(status int) bool {
	return status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported
}

// An attackReport counts a server's failures.
type attackReport struct {
	mu           sync.Mutex
	requests     int
	statuses     map[int]int
	serverErrors int // unexplained 5xx responses
	leaking      int // responses that contain internals
	unfinished   int // connections that were neither answered nor closed
	first        []string
}

func (report *attackReport) recordFailure(count *int, s hostileRequest, reason string) {
	report.mu.Lock()
	defer report.mu.Unlock()
	*count++
	if len(report.first) < 5 {
		report.first = append(report.first, fmt.Sprintf("%s: %.300q: %s", s.what, s.text, reason))
	}
}

// sendHostileRequests sends generated requests from concurrent clients and checks the
// responses.
func sendHostileRequests(ctx context.Context, addr string, a *requestGenerator, shots int) (*attackReport, error) {
	report := &attackReport{statuses: map[int]int{}, requests: shots}
	next := make(chan hostileRequest)
	go func() {
		defer close(next)
		for range shots {
			select {
			case next <- a.next():
			case <-ctx.Done():
				return
			}
		}
	}()
	err := runConcurrently(8, func(int) error {
		for s := range next {
			if err := report.sendRequest(ctx, addr, s); err != nil {
				return err
			}
		}
		return nil
	})
	return report, errors.Join(err, ctx.Err())
}

// sendRequest sends one request. It returns an error only if the server does not accept
// the connection.
func (report *attackReport) sendRequest(ctx context.Context, addr string, s hostileRequest) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	conn := c.(*net.TCPConn)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.writeTo(conn)
	}()
	defer func() { conn.Close(); <-written }()
	switch s.end {
	case resetsAtOnce:
		<-written
		return conn.SetLinger(0)
	case resetsOnAnswer:
		_, _ = conn.Read(make([]byte, 64))
		return conn.SetLinger(0)
	case closesReadSide:
		_ = conn.CloseRead()
		<-written
		return nil
	}
	answer, err := io.ReadAll(conn)
	if netErr := net.Error(nil); errors.As(err, &netErr) && netErr.Timeout() {
		report.recordFailure(&report.unfinished, s, "not finished in time")
		return nil
	}
	report.checkAnswer(s, answer)
	return nil
}

// writeTo writes the request. It ignores write errors: the server may close the
// connection early.
func (s hostileRequest) writeTo(conn *net.TCPConn) {
	size := len(s.text)
	if s.slow {
		size = len(s.text)/slowChunks + 1
	}
	for chunk := range slices.Chunk(s.text, max(1, size)) {
		if _, err := conn.Write(chunk); err != nil {
			return
		}
	}
	if s.end == closesWriteSide {
		_ = conn.CloseWrite()
	}
}

// checkAnswer checks each response on a connection.
func (report *attackReport) checkAnswer(s hostileRequest, answer []byte) {
	if at := internalWords.FindIndex(answer); at != nil {
		report.recordFailure(&report.leaking, s, fmt.Sprintf("contains %q", answer[max(0, at[0]-100):min(len(answer), at[1]+100)]))
	}
	r := bufio.NewReader(bytes.NewReader(answer))
	for {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		report.mu.Lock()
		report.statuses[res.StatusCode]++
		report.mu.Unlock()
		if res.StatusCode >= 500 && !isAllowedStatus(res.StatusCode) {
			report.recordFailure(&report.serverErrors, s, fmt.Sprintf("%s %.200s", res.Status, body))
		}
	}
}
