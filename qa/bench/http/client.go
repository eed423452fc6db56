package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// A client sends prepared requests on one connection and parses as little as possible from a
// response, because it shares the CPUs with the measured server.
type client struct {
	addr string
	conn net.Conn // nil before the first request and after an error
	buf  []byte   // the response so far; its capacity is the buffer
}

// A reply is a response with its times.
type reply struct {
	status int
	// text is the head and the body, valid until the next request. Chunked bodies are
	// not decoded.
	text []byte
	// first is the time to the first byte, event to a stream's first event, and took to the end.
	first, event, took time.Duration
}

var errConnBroken = errors.New("connection closed early")

// sendRequest sends a request and reads the whole response.
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

// A responseParser is a partially received response's state.
type responseParser struct {
	status int
	head   int  // head length in bytes, with the empty line; 0 until it is complete
	length int  // body length; -1 means chunked
	done   bool // the response is complete
}

// parse checks whether the response is complete. Requests are not pipelined, so the received bytes
// end with the chunks.
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

// parseHead parses the status and the body's length.
func (p *responseParser) parseHead(head []byte) (err error) {
	if len(head) < len("HTTP/1.1 200") {
		return fmt.Errorf("malformed HTTP response: %q", head)
	}
	if p.status, err = strconv.Atoi(string(head[9:12])); err != nil {
		return fmt.Errorf("malformed HTTP response: %q", head)
	}
	if bytes.Contains(head, []byte("\r\nTransfer-Encoding: chunked\r\n")) {
		p.length = -1
		return nil
	}
	_, rest, found := bytes.Cut(head, []byte("\r\nContent-Length: "))
	length, _, _ := bytes.Cut(rest, []byte("\r\n"))
	if p.length, err = strconv.Atoi(string(length)); err != nil || !found {
		return fmt.Errorf("response without Content-Length: %q", head)
	}
	return nil
}

// hasEvent reports whether a stream's first event has arrived.
func (p *responseParser) hasEvent(text []byte) bool {
	return p.head > 0 && bytes.Contains(text[p.head:], []byte("data: "))
}
