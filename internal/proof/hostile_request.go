package main

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// The app and the user that hostile clients talk of.
const (
	preyApp      = "prey"
	hostileUser  = "mallory"
	preySessions = 20
)

// An ending is what a client does when it has said what it says.
type ending int

const (
	listens   ending = iota // until the server closes
	closes                  // its writing side, and listens
	vanishes                // with a reset, without listening
	hangsUp                 // with a reset, at the first bytes of an answer
	turnsAway               // closes its reading side, and waits
	endings
)

// A shot is one hostile request, or some behind one another.
type shot struct {
	what string
	text []byte
	end  ending
	// drip sends the text in pieces of a few bytes.
	drip bool
}

// An armoury makes shots; all that they are follows from the seed.
type armoury struct {
	dice     *rand.Rand
	patterns []string // of every route
}

// shot draws one.
func (a *armoury) shot() shot {
	kinds := []struct {
		name string
		make func() []byte
		// whole says that a server need not wait for more.
		whole bool
	}{
		{"body", a.body, true},
		{"body", a.body, true},
		{"body", a.body, true},
		{"path", a.path, true},
		{"path", a.path, true},
		{"header", a.header, false},
		{"framing", a.framing, false},
		{"form", a.form, true},
		{"junk", a.junk, false},
		{"pipeline", a.pipeline, false},
	}
	k := kinds[a.dice.IntN(len(kinds))]
	s := shot{what: k.name, text: k.make(), drip: a.dice.IntN(20) == 0}
	if !k.whole {
		s.end = closes
	}
	switch a.dice.IntN(10) {
	case 0:
		s.text, s.end = s.text[:a.dice.IntN(len(s.text)+1)], closes
	case 1:
		s.end = closes + ending(a.dice.IntN(int(endings-closes)))
	}
	return s
}

// body is a request to a route that takes one, with a body that is spoilt.
func (a *armoury) body() []byte {
	method, path := a.route()
	for method == "GET" {
		method, path = a.route()
	}
	text := spoilt(a.dice, honestBody(preyApp, hostileUser, a.session()))
	return request(method, path, []string{"Content-Type: application/json"}, text)
}

// path is a request for a route whose path is spoilt.
func (a *armoury) path() []byte {
	method, path := a.route()
	if a.dice.IntN(4) == 0 {
		method = oneOf(a.dice, "HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT", "PATCH", "PROPFIND", "get", "G\x00T", "X"+strings.Repeat("X", 9000), "")
	}
	pieces := strings.Split(path, "/")
	for range 1 + a.dice.IntN(3) {
		pieces[a.dice.IntN(len(pieces))] = oneOf(a.dice, badPieces()...)
	}
	path = strings.Join(pieces, "/")
	if a.dice.IntN(5) == 0 {
		path += "?" + oneOf(a.dice, "pageSize=-1", "pageSize=99999999999999999999", "pageToken=%00", "pageToken="+strings.Repeat("A", 3000), "version=1e9", "version=-9", "tmp=maybe",
			"detach=2", "file_path=../../x.yaml", "file_path=%00.yaml", "dark_mode=x", "detailed=x", "%zz=1", "a;b=c", "=&=&&", "after=-1")
	}
	var body []byte
	if method != "GET" && a.dice.IntN(2) == 0 {
		body = []byte(`{"sessionId":"s","state":{},"stateDelta":{}}`)
	}
	return request(method, path, nil, body)
}

func badPieces() []string {
	return []string{
		"", ".", "..", "%2e%2e", "..%2f..%2f", "%2F", "%5c..%5c", "%00", "a%00b", "%", "%z", "%zz", "%c0%ae%c0%ae", "%ff", "%ed%a0%80", "\xff", "\u212a", "%E2%80%AE", "a\u0301", "%C4%B0",
		strings.Repeat("a", 300), strings.Repeat("a", 5000), strings.Repeat("%41", 4000), strings.Repeat("../", 60), "*", "{app}", "~", "con", "a:b", "a b", "a%20", "%20", "%0d%0aX-Injected:%20yes",
		"versions", "metadata", "latest", "versions/99999999999999999999", "versions/-1", "user:x", "user%3Ax", "'", "%27%20OR%201=1--", "%25s", "$%7Benv:HOME%7D", "___eval___session___x", "-", "_",
	}
}

// header is a request that would be good, with headers that are not.
func (a *armoury) header() []byte {
	method, path := a.route()
	headers := []string{oneOf(a.dice, badHeaders()...)}
	for a.dice.IntN(2) == 0 {
		headers = append(headers, oneOf(a.dice, badHeaders()...))
	}
	var body []byte
	if method != "GET" {
		body = []byte(render(honestBody(preyApp, hostileUser, a.session())[:4]))
	}
	return request(method, path, headers, body)
}

// render writes members as they are.
func render(fields []member) string {
	s := &spoiler{dice: rand.New(rand.NewPCG(0, 0))}
	s.out.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			s.out.WriteByte(',')
		}
		fmt.Fprintf(&s.out, "%q:", f.key)
		s.write(f.value)
	}
	s.out.WriteByte('}')
	return s.out.String()
}

func badHeaders() []string {
	return []string{
		"Host: evil.example", "Host:", "Host: a\r\nHost: b", "Content-Length: 0", "Content-Length: -1", "Content-Length: 5, 5", "Content-Length: 99999999999999999999", "Content-Length: 0x5",
		"Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: \x0bchunked", "Transfer-Encoding : chunked",
		"Content-Encoding: gzip", "Content-Type: text/plain", "Content-Type: multipart/form-data", "Content-Type: multipart/form-data; boundary=", "Content-Type: application/json; charset=utf-7", "Content-Type: ;;;",
		"Last-Event-ID: x", "Last-Event-ID: " + strings.Repeat("9", 5000), "Last-Event-ID: \xff\x01", "Last-Event-ID: ../../x", "Expect: 100-continue", "Expect: 200-ok", "Upgrade: websocket\r\nConnection: Upgrade", "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAAA",
		"Authorization: Bearer", "Authorization: Bearer " + strings.Repeat("a.", 4000), "Authorization: Basic !!!", "Traceparent: 00-zz", "Traceparent: 00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-01", "Tracestate: " + strings.Repeat("a=b,", 600),
		"Origin: null", "Origin: http://[::1", "Forwarded: proto=;host=\"", "X-Forwarded-For: 1.2.3.4", "Range: bytes=9-1", "Range: bytes=0-0,0-0,0-0,0-0", "If-None-Match: *", "Accept: \x7f", "Accept-Encoding: gzip;q=a", "Cookie: " + strings.Repeat("a", 20_000),
		"X-Big: " + strings.Repeat("x", 80_000), strings.TrimSuffix(strings.Repeat("X-Many: 1\r\n", 3000), "\r\n"), ": empty", "No colon", " folded: yes", "X-Null: a\x00b", "Connection: close, keep-alive, x", "Trailer: Content-Length", "TE: trailers",
	}
}

// framing is a request whose length cannot be made out, or not agreed upon.
func (a *armoury) framing() []byte {
	const head = "POST /run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	body := render(honestBody(preyApp, hostileUser, a.session())[:4])
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	return []byte(oneOf(a.dice,
		head+"Content-Length: 5\r\nContent-Length: 6\r\n\r\n"+body,
		head+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"+chunk+"0\r\n\r\n",
		head+"Transfer-Encoding: chunked\r\n\r\n"+chunk+"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
		head+"Transfer-Encoding: chunked\r\n\r\n"+chunk+"-1\r\n\r\n",
		head+"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
		head+"Transfer-Encoding: chunked\r\n\r\n5;"+strings.Repeat("a=b;", 5000)+"\r\nhello\r\n0\r\n\r\n",
		head+"Transfer-Encoding: chunked\r\n\r\n"+strings.Repeat("1\r\n{\r\n", 3000)+"0\r\n\r\n",
		head+"Transfer-Encoding: chunked\r\n\r\n"+chunk+"0\r\nContent-Length: 4\r\nX: "+strings.Repeat("y", 90_000)+"\r\n\r\n",
		head+"Transfer-Encoding: chunked\n\n"+chunk+"0\n\n",
		head+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+100, body),
		head+fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)-9, body),
		head+"Content-Length: 3000000000\r\n\r\n"+body,
		head+"\r\n"+body,
		"POST /run HTTP/1.0\r\n\r\n"+body,
		"POST /run HTTP/0.9\r\n\r\n",
		"POST /run HTTP/9.9\r\nHost: localhost\r\n\r\n",
		"POST http://evil.example/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	))
}

// pipeline is some requests behind one another, with junk among them.
func (a *armoury) pipeline() []byte {
	var all []byte
	for range 2 + a.dice.IntN(5) {
		method, path := a.route()
		var body []byte
		if method != "GET" {
			body = spoilt(a.dice, honestBody(preyApp, hostileUser, a.session()))
		}
		all = append(all, open(request(method, path, nil, body))...)
		if a.dice.IntN(4) == 0 {
			all = append(all, oneOf(a.dice, "\r\n", "\x00", "GET", "\r\n\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n")...)
		}
	}
	return append(all, request("GET", "/health", nil, nil)...)
}

// open is a request that lets another follow.
func open(request []byte) []byte {
	return []byte(strings.Replace(string(request), "Connection: close\r\n", "", 1))
}

// form is a form of the visual builder that is not to be let in.
func (a *armoury) form() []byte {
	var b strings.Builder
	for range 1 + a.dice.IntN(3) {
		fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=%q; filename=%s\r\n\r\n%s\r\n",
			oneOf(a.dice, "files", "files", "x", ""),
			oneOf(a.dice, `"prey/../guide/root_agent.yaml"`, `"../guide/root_agent.yaml"`, `"prey/root_agent.yaml"`, `"/x.yaml"`, `"prey/x.go"`, `"prey\\..\\x.yaml"`, `"`, `""`, strings.Repeat("a", 9000), "\"prey/\x00.yaml\"", `"guide:x/a.yaml"`),
			oneOf(a.dice, "name: [", "\x00\xff", "a: &a [*a]", strings.Repeat("- ", 5000), "name: prey\nx: 1", "", "--x--"))
	}
	if a.dice.IntN(3) > 0 {
		b.WriteString("--x--\r\n")
	}
	path := oneOf(a.dice, "/builder/save", "/builder/save?tmp=true", "/apps/prey/builder/save?tmp=true", "/dev/apps/prey/builder/save", "/dev/apps/..%2fguide/builder/save")
	return request("POST", path, []string{"Content-Type: multipart/form-data; boundary=" + oneOf(a.dice, "x", "x", "x", "y", "", strings.Repeat("x", 200))}, []byte(b.String()))
}

// junk is no request at all.
func (a *armoury) junk() []byte {
	text := make([]byte, 1+a.dice.IntN(3000))
	for i := range text {
		text[i] = byte(a.dice.Uint32())
	}
	return append([]byte(oneOf(a.dice, "", "\x16\x03\x01\x02\x00\x01", "GET ", "GET / HTTP/1.1\r\n", "\r\n\r\n", "SSH-2.0-x\r\n", "*1\r\n$4\r\nPING\r\n")), text...)
}

func (a *armoury) session() string { return fmt.Sprint("prey-", a.dice.IntN(preySessions)) }

// route is a method and a path of some route, but not of the feed of changes,
// which lasts as long as who asks, and seldom of those that do nothing.
func (a *armoury) route() (method, path string) {
	for {
		method, path, _ = strings.Cut(a.patterns[a.dice.IntN(len(a.patterns))], " ")
		idle := strings.Contains(path, "/eval") || strings.Contains(path, "/tests")
		if path != "/-/changes" && (!idle || a.dice.IntN(4) == 0) {
			break
		}
	}
	path = strings.ReplaceAll(path, "{$}", "")
	for {
		before, rest, ok := strings.Cut(path, "{")
		if !ok {
			return method, path
		}
		name, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(a.value(name)) + after
	}
}

func (a *armoury) value(name string) string {
	switch name {
	case "app":
		return preyApp
	case "user":
		return hostileUser
	case "session":
		return a.session()
	}
	return "a.txt"
}

// request writes a request as it is on the wire.
func request(method, path string, headers []string, body []byte) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", method, path)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != nil {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return []byte(b.String())
}
