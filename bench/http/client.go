package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// A client sends requests that were made beforehand, on one connection, and looks
// at no more of an answer than it has to: it shares the processors with the
// server that is measured.
type client struct {
	addr string
	conn net.Conn // nil until it is needed, and after an error
	buf  []byte   // what came of the answer, in front of a larger buffer
}

// A reply is an answer, and when it came.
type reply struct {
	status int
	// text is head and body, until the next request. A body in chunks is as it
	// came.
	text []byte
	// first is when the first byte came, event the first event of a stream, and
	// took the end.
	first, event, took time.Duration
}

var errConnBroken = errors.New("the connection broke off")

// sendRequest sends a request and waits for the whole answer.
func (c *client) sendRequest(request []byte) (reply, error) {
	if err := c.ensureConn(); err != nil {
		return reply{}, err
	}
	r, err := c.exchangeBytes(request)
	if err != nil {
		c.close()
	}
	return r, err
}

func (c *client) ensureConn() (err error) {
	if c.conn == nil {
		c.conn, err = net.Dial("tcp", c.addr)
	}
	return err
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *client) exchangeBytes(request []byte) (r reply, err error) {
	began := time.Now()
	if _, err := c.conn.Write(request); err != nil {
		return r, err
	}
	var p responseParser
	c.buf = c.buf[:0]
	for !p.done {
		if len(c.buf) == cap(c.buf) {
			c.buf = append(c.buf, make([]byte, max(4096, len(c.buf)))...)[:len(c.buf)]
		}
		n, err := c.conn.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if r.took = time.Since(began); r.first == 0 && n > 0 {
			r.first = r.took
		}
		if err != nil {
			return r, fmt.Errorf("%w: %w", errConnBroken, err)
		}
		if err := p.parse(c.buf); err != nil {
			return r, err
		}
		if r.event == 0 && p.hasEvent(c.buf) {
			r.event = r.took
		}
	}
	r.status, r.text = p.status, c.buf
	return r, nil
}

// responseParser is what is known of an answer that is under way.
type responseParser struct {
	status int
	head   int  // bytes, with the empty line; 0 until it is there
	length int  // of the body; -1 is in chunks
	done   bool // all of it is there
}

// parse sees whether the answer is whole. Nothing comes behind it, since nothing was
// asked, so that the end of the chunks is the end of the text.
func (p *responseParser) parse(text []byte) error {
	if p.head == 0 {
		end := bytes.Index(text, []byte("\r\n\r\n"))
		if end < 0 {
			return nil
		}
		if err := p.parseHead(text[:end+2]); err != nil {
			return err
		}
		p.head = end + 4
	}
	if p.length < 0 {
		p.done = bytes.HasSuffix(text[p.head:], []byte("\r\n0\r\n\r\n")) || string(text[p.head:]) == "0\r\n\r\n"
		return nil
	}
	p.done = len(text) == p.head+p.length
	return nil
}

// parseHead reads the head.
func (p *responseParser) parseHead(head []byte) (err error) {
	if len(head) < len("HTTP/1.1 200") {
		return fmt.Errorf("no answer of HTTP: %q", head)
	}
	if p.status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return fmt.Errorf("no answer of HTTP: %q", head)
	}
	if bytes.Contains(head, []byte("\r\nTransfer-Encoding: chunked\r\n")) {
		p.length = -1
		return nil
	}
	_, rest, found := bytes.Cut(head, []byte("\r\nContent-Length: "))
	length, _, _ := bytes.Cut(rest, []byte("\r\n"))
	if p.length, err = strconv.Atoi(string(length)); err != nil || !found {
		return fmt.Errorf("an answer without a length: %q", head)
	}
	return nil
}

// hasEvent says whether the first event of a stream is there.
func (p *responseParser) hasEvent(text []byte) bool {
	return p.head > 0 && bytes.Contains(text[p.head:], []byte("data: "))
}
