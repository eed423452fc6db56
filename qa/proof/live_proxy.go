package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/textproto"
	"regexp"
	"strings"
	"sync"
)

// A frameProxy forwards WebSocket connections, frame by frame. It is safe for concurrent use.
type frameProxy struct {
	url      string
	listener net.Listener
	done     sync.WaitGroup

	mu sync.Mutex
	// onFrame is called before each frame with data is forwarded, with the connection's
	// conversation; empty until it is known. False cuts the connection instead.
	onFrame frameHook
	server  string // address
	conns   map[net.Conn]bool
	opened  map[string]int // connections by conversation
}

// A frameHook reports whether a conversation's frame is forwarded.
type frameHook func(conversation string) bool

func newFrameProxy(onFrame frameHook) (*frameProxy, error) {
	p := &frameProxy{onFrame: onFrame, conns: map[net.Conn]bool{}, opened: map[string]int{}}
	var err error
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	p.url = "http://" + p.listener.Addr().String()
	p.done.Go(p.acceptConns)
	return p, nil
}

// setServer sets the server for new connections by its URL.
func (p *frameProxy) setServer(url string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = strings.TrimPrefix(url, "http://")
}

// setHook replaces the hook.
func (p *frameProxy) setHook(onFrame frameHook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onFrame = onFrame
}

func (p *frameProxy) currentHook() frameHook {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onFrame
}

func (p *frameProxy) countOpened(conversation string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened[conversation]
}

// cutAll closes all connections.
func (p *frameProxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *frameProxy) closeAll() error {
	err := p.listener.Close()
	p.cutAll()
	p.done.Wait()
	return err
}

func (p *frameProxy) acceptConns() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.forwardConn(client) })
	}
}

// forwardConn forwards both directions until one ends.
func (p *frameProxy) forwardConn(client net.Conn) {
	p.mu.Lock()
	address := p.server
	p.conns[client] = true
	p.mu.Unlock()
	defer p.closeConn(client)
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.conns[server] = true
	p.mu.Unlock()
	defer p.closeConn(server)
	c := &proxiedConn{proxy: p}
	back := make(chan struct{})
	go func() {
		defer close(back)
		_ = c.forwardFrames(client, server)
		client.Close()
		server.Close()
	}()
	_ = c.forwardFrames(server, client)
	client.Close()
	server.Close()
	<-back
}

func (p *frameProxy) closeConn(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// conversationPattern finds the conversation in a client's query, or in the host's setup.
var conversationPattern = regexp.MustCompile(`session_id=([a-z]+\d+c\d+)|Conversation ([a-z]+\d+c\d+)\.`)

// A proxiedConn is one connection.
type proxiedConn struct {
	proxy *frameProxy
	mu    sync.Mutex
	name  string // the conversation's
}

func (c *proxiedConn) conversationName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// findConversation looks for the name in the first text that has one.
func (c *proxiedConn) findConversation(text []byte) {
	found := conversationPattern.FindSubmatch(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if found == nil || c.name != "" {
		return
	}
	c.name = string(found[1]) + string(found[2])
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.proxy.opened[c.name]++
}

var errCut = errors.New("the connection was cut")

// forwardFrames forwards the handshake's head, and then frames.
func (c *proxiedConn) forwardFrames(to io.Writer, from io.Reader) error {
	r := bufio.NewReader(from)
	if err := c.forwardHead(to, r); err != nil {
		return err
	}
	for {
		f, err := readFrame(r)
		if err != nil {
			return err
		}
		if f.hasData() {
			if c.conversationName() == "" {
				c.findConversation(f.unmaskPayload())
			}
			if !c.proxy.currentHook()(c.conversationName()) {
				return errCut
			}
		}
		if _, err := to.Write(f.bytes); err != nil {
			return err
		}
	}
}

func (c *proxiedConn) forwardHead(to io.Writer, r *bufio.Reader) error {
	var head strings.Builder
	lines := textproto.NewReader(r)
	for {
		line, err := lines.ReadLine()
		if err != nil {
			return err
		}
		head.WriteString(line + "\r\n")
		if line == "" {
			break
		}
	}
	c.findConversation([]byte(head.String()))
	_, err := io.WriteString(to, head.String())
	return err
}

// A wsFrame is a frame as in RFC 6455, section 5.2.
type wsFrame struct {
	bytes []byte
	start int // payload offset in bytes
}

// maxProxiedFrame bounds a frame's memory.
const maxProxiedFrame = 16 << 20

func readFrame(r io.Reader) (wsFrame, error) {
	b := make([]byte, 2, 128)
	if _, err := io.ReadFull(r, b); err != nil {
		return wsFrame{}, err
	}
	size, more := uint64(b[1]&0x7f), 0
	switch size {
	case 126:
		more = 2
	case 127:
		more = 8
	}
	if b[1]&0x80 != 0 {
		more += 4 // the mask
	}
	b = b[:2+more]
	if _, err := io.ReadFull(r, b[2:]); err != nil {
		return wsFrame{}, err
	}
	switch size {
	case 126:
		size = uint64(binary.BigEndian.Uint16(b[2:]))
	case 127:
		size = binary.BigEndian.Uint64(b[2:])
	}
	if size > maxProxiedFrame {
		return wsFrame{}, errors.New("frame too large")
	}
	f := wsFrame{append(b, make([]byte, size)...), len(b)}
	_, err := io.ReadFull(r, f.bytes[f.start:])
	return f, err
}

// hasData reports whether the frame is text or binary data, and not a control frame.
func (f wsFrame) hasData() bool { return f.bytes[0]&0x0f <= 2 }

// payload returns the unmasked payload.
func (f wsFrame) unmaskPayload() []byte {
	data := append([]byte(nil), f.bytes[f.start:]...)
	if f.bytes[1]&0x80 != 0 {
		mask := f.bytes[f.start-4 : f.start]
		for i := range data {
			data[i] ^= mask[i%4]
		}
	}
	return data
}
