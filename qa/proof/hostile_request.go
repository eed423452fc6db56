package main

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// The app, user and sessions in hostile clients' requests.
const (
	victimName     = "victim"
	hostileUser    = "mallory"
	victimSessions = 20
)

// A closeMode is what a client does after sending its request.
type closeMode int

const (
	readsUntilClose closeMode = iota // reads until the server closes
	closesWriteSide                  // closes its writing side and reads on
	resetsAtOnce                     // resets the connection without reading
	resetsOnAnswer                   // resets the connection at the response's first bytes
	closesReadSide                   // closes its reading side and waits
	closeModes
)

// A hostileRequest is one malformed request, or several pipelined ones.
type hostileRequest struct {
	what string
	text []byte
	end  closeMode
	// slow sends the request a few bytes at a time.
	slow bool
}

// A requestGenerator generates requests from a seed.
type requestGenerator struct {
	random   *rand.Rand
	patterns []string // of every route
}

// next returns a random request.
func (a *requestGenerator) next() hostileRequest {
	kinds := []struct {
		name string
		make func() []byte
		// whole reports that the request is complete, so that the server can answer it.
		whole bool
	}{
		{"body", a.malformedBody, true},
		{"body", a.malformedBody, true},
		{"body", a.malformedBody, true},
		{"path", a.malformedPath, true},
		{"path", a.malformedPath, true},
		{"header", a.malformedHeader, false},
		{"framing", a.malformedFraming, false},
		{"form", a.malformedForm, true},
		{"junk", a.randomBytes, false},
		{"pipeline", a.pipelinedRequests, false},
	}
	k := kinds[a.random.IntN(len(kinds))]
	s := hostileRequest{what: k.name, text: k.make(), slow: a.random.IntN(20) == 0}
	if !k.whole {
		s.end = closesWriteSide
	}
	switch a.random.IntN(10) {
	case 0:
		s.text, s.end = s.text[:a.random.IntN(len(s.text)+1)], closesWriteSide
	case 1:
		s.end = closesWriteSide + closeMode(a.random.IntN(int(closeModes-closesWriteSide)))
	}
	return s
}

// malformedBody returns a request with a mutated body for a route that accepts one.
func (a *requestGenerator) malformedBody() []byte {
	method, path := a.pickRoute()
	for method == "GET" {
		method, path = a.pickRoute()
	}
	text := mutateBody(a.random, honestBody(victimName, hostileUser, a.pickSession()))
	return buildRequest(method, path, []string{"Content-Type: application/json"}, text)
}

// malformedPath returns a request for a route with invalid path segments.
func (a *requestGenerator) malformedPath() []byte {
	method, path := a.pickRoute()
	if a.random.IntN(4) == 0 {
		method = pickString(a.random, "HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT", "PATCH", "PROPFIND", "get", "G\x00T", "X"+strings.Repeat("X", 9000), "")
	}
	segments := strings.Split(path, "/")
	for range 1 + a.random.IntN(3) {
		segments[a.random.IntN(len(segments))] = pickString(a.random, badPathSegments()...)
	}
	path = strings.Join(segments, "/")
	if a.random.IntN(5) == 0 {
		path += "?" + pickString(a.random, "pageSize=-1", "pageSize=99999999999999999999", "pageToken=%00", "pageToken="+strings.Repeat("A", 3000), "version=1e9", "version=-9", "tmp=maybe",
			"detach=2", "file_path=../../x.yaml", "file_path=%00.yaml", "dark_mode=x", "detailed=x", "%zz=1", "a;b=c", "=&=&&", "after=-1")
	}
	var body []byte
	if method != "GET" && a.random.IntN(2) == 0 {
		body = []byte(`{"sessionId":"s","state":{},"stateDelta":{}}`)
	}
	return buildRequest(method, path, nil, body)
}

func badPathSegments() []string {
	return []string{
		"", ".", "..", "%2e%2e", "..%2f..%2f", "%2F", "%5c..%5c", "%00", "a%00b", "%", "%z", "%zz", "%c0%ae%c0%ae", "%ff", "%ed%a0%80", "\xff", "\u212a", "%E2%80%AE", "a\u0301", "%C4%B0",
		strings.Repeat("a", 300), strings.Repeat("a", 5000), strings.Repeat("%41", 4000), strings.Repeat("../", 60), "*", "{app}", "~", "con", "a:b", "a b", "a%20", "%20", "%0d%0aX-Injected:%20yes",
		"versions", "metadata", "latest", "versions/99999999999999999999", "versions/-1", "user:x", "user%3Ax", "'", "%27%20OR%201=1--", "%25s", "$%7Benv:HOME%7D", "___eval___session___x", "-", "_",
	}
}

// malformedHeader returns a valid request with malformed headers.
func (a *requestGenerator) malformedHeader() []byte {
	method, path := a.pickRoute()
	headers := []string{pickString(a.random, badHeaders()...)}
	for a.random.IntN(2) == 0 {
		headers = append(headers, pickString(a.random, badHeaders()...))
	}
	var body []byte
	if method != "GET" {
		body = []byte(renderFields(honestBody(victimName, hostileUser, a.pickSession())[:4]))
	}
	return buildRequest(method, path, headers, body)
}

// renderFields writes fields without mutations.
func renderFields(fields []jsonField) string {
	s := &jsonMutator{random: rand.New(rand.NewPCG(0, 0))}
	s.out.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			s.out.WriteByte(',')
		}
		fmt.Fprintf(&s.out, "%q:", f.key)
		s.writeValue(f.value)
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

// malformedFraming returns a request with an ambiguous or invalid length.
func (a *requestGenerator) malformedFraming() []byte {
	const head = "POST /run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	body := renderFields(honestBody(victimName, hostileUser, a.pickSession())[:4])
	chunk := fmt.Sprintf("%x\r\n%s\r\n", len(body), body)
	return []byte(pickString(a.random,
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

// pipelinedRequests returns several requests on one connection, with junk between them.
func (a *requestGenerator) pipelinedRequests() []byte {
	var all []byte
	for range 2 + a.random.IntN(5) {
		method, path := a.pickRoute()
		var body []byte
		if method != "GET" {
			body = mutateBody(a.random, honestBody(victimName, hostileUser, a.pickSession()))
		}
		all = append(all, withoutClose(buildRequest(method, path, nil, body))...)
		if a.random.IntN(4) == 0 {
			all = append(all, pickString(a.random, "\r\n", "\x00", "GET", "\r\n\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n")...)
		}
	}
	return append(all, buildRequest("GET", "/health", nil, nil)...)
}

// withoutClose removes the Connection: close header, so that another request can
// follow.
func withoutClose(request []byte) []byte {
	return []byte(strings.Replace(string(request), "Connection: close\r\n", "", 1))
}

// malformedForm returns a form from the visual builder that the server must reject.
func (a *requestGenerator) malformedForm() []byte {
	var b strings.Builder
	for range 1 + a.random.IntN(3) {
		fmt.Fprintf(&b, "--x\r\nContent-Disposition: form-data; name=%q; filename=%s\r\n\r\n%s\r\n",
			pickString(a.random, "files", "files", "x", ""),
			pickString(a.random, `"victim/../guide/root_agent.yaml"`, `"../guide/root_agent.yaml"`, `"victim/root_agent.yaml"`, `"/x.yaml"`, `"victim/x.go"`, `"victim\\..\\x.yaml"`, `"`, `""`, strings.Repeat("a", 9000), "\"victim/\x00.yaml\"", `"guide:x/a.yaml"`),
			pickString(a.random, "name: [", "\x00\xff", "a: &a [*a]", strings.Repeat("- ", 5000), "name: victim\nx: 1", "", "--x--"))
	}
	if a.random.IntN(3) > 0 {
		b.WriteString("--x--\r\n")
	}
	path := pickString(a.random, "/builder/save", "/builder/save?tmp=true", "/apps/victim/builder/save?tmp=true", "/dev/apps/victim/builder/save", "/dev/apps/..%2fguide/builder/save")
	return buildRequest("POST", path, []string{"Content-Type: multipart/form-data; boundary=" + pickString(a.random, "x", "x", "x", "y", "", strings.Repeat("x", 200))}, []byte(b.String()))
}

// randomBytes returns bytes that are not a request.
func (a *requestGenerator) randomBytes() []byte {
	text := make([]byte, 1+a.random.IntN(3000))
	for i := range text {
		text[i] = byte(a.random.Uint32())
	}
	return append([]byte(pickString(a.random, "", "\x16\x03\x01\x02\x00\x01", "GET ", "GET / HTTP/1.1\r\n", "\r\n\r\n", "SSH-2.0-x\r\n", "*1\r\n$4\r\nPING\r\n")), text...)
}

func (a *requestGenerator) pickSession() string {
	return fmt.Sprint("victim-", a.random.IntN(victimSessions))
}

// pickRoute returns a random route's method and path. It omits the change feed, which stays open as
// long as its client, and rarely picks routes without effects.
func (a *requestGenerator) pickRoute() (method, path string) {
	for {
		method, path, _ = strings.Cut(a.patterns[a.random.IntN(len(a.patterns))], " ")
		idle := strings.Contains(path, "/eval") || strings.Contains(path, "/tests")
		if path != "/-/changes" && (!idle || a.random.IntN(4) == 0) {
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
		path = before + url.PathEscape(a.pathValue(name)) + after
	}
}

func (a *requestGenerator) pathValue(name string) string {
	switch name {
	case "app":
		return victimName
	case "user":
		return hostileUser
	case "session":
		return a.pickSession()
	}
	return "a.txt"
}

// buildRequest returns a request as sent on the wire.
func buildRequest(method, path string, headers []string, body []byte) []byte {
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
