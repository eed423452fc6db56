package main

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// The load and the fake share the processors with the measured server. They therefore write
// prepared bytes, and read as little as possible from a frame (RFC 6455, 5.2).
const (
	opText, opBinary, opClose, opPing, opPong = 1, 2, 8, 9, 10

	finBit, maskBit = 0x80, 0x80
	length16        = 126
	length64        = 127
)

// encodeFrame returns a frame. A client's frame is masked with zeros.
func encodeFrame(op byte, payload []byte, masked bool) []byte {
	mask := byte(0)
	if masked {
		mask = maskBit
	}
	f := []byte{finBit | op}
	switch n := len(payload); {
	case n < length16:
		f = append(f, mask|byte(n))
	case n < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, mask|length16), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, mask|length64), uint64(n))
	}
	if masked {
		f = append(f, 0, 0, 0, 0)
	}
	return append(f, payload...)
}

// errClosed reports a frame that closes the connection.
type errClosed struct{ reason string }

func (e errClosed) Error() string { return "the connection was closed: " + e.reason }

// A frameReader reads a connection's frames.
type frameReader struct {
	*bufio.Reader
	// mark is searched in each frame's first bytes.
	mark []byte
}

// markLimit is how many bytes are searched.
const markLimit = 512

// next skips a frame. It returns its kind, and whether its beginning has the mark; a ping's or a
// close's payload is returned.
func (r *frameReader) next() (op byte, marked bool, payload []byte, err error) {
	var head [14]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return 0, false, nil, err
	}
	op = head[0] & 0x0f
	n := int(head[1] &^ maskBit)
	switch n {
	case length16:
		_, err = io.ReadFull(r, head[2:4])
		n = int(binary.BigEndian.Uint16(head[2:]))
	case length64:
		_, err = io.ReadFull(r, head[2:10])
		n = int(binary.BigEndian.Uint64(head[2:]))
	}
	mask := head[10:14]
	if err == nil && head[1]&maskBit != 0 {
		_, err = io.ReadFull(r, mask)
	}
	if err != nil {
		return op, false, nil, err
	}
	switch {
	case op == opPing || op == opClose:
		payload = make([]byte, n)
		_, err = io.ReadFull(r, payload)
		for i := range payload {
			payload[i] ^= mask[i%len(mask)]
		}
	case r.mark != nil:
		var begin []byte
		begin, err = r.Peek(min(n, markLimit))
		marked = bytes.Contains(begin, r.mark)
		fallthrough
	default:
		if err == nil {
			_, err = r.Discard(n)
		}
	}
	if err == nil && op == opClose {
		err = errClosed{string(payload[min(2, len(payload)):])}
	}
	return op, marked, payload, err
}

// dialSocket opens a WebSocket.
func dialSocket(addr, path string) (net.Conn, *bufio.Reader, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	const request = "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	if _, err := fmt.Fprintf(conn, request, path, addr); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		err = errors.New(resp.Status)
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, r, nil
}

// acceptSocket answers a WebSocket handshake.
func acceptSocket(w http.ResponseWriter, r *http.Request) (net.Conn, *bufio.Reader, error) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	lines := []string{
		"HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]), "", "",
	}
	_, err = io.WriteString(conn, strings.Join(lines, "\r\n"))
	return conn, both.Reader, err
}
