package main

import (
	"bytes"
	"fmt"
	"strings"
)

// The requests of the comparison.
const (
	pathRun    = "/run"
	pathStream = "/run_sse"
)

// turnRequest asks for a turn.
func turnRequest(path, user, session string) []byte {
	streaming := ""
	if path == pathStream {
		streaming = `"streaming":true,`
	}
	return post(path, fmt.Sprintf(`{"appName":%q,"userId":%q,"sessionId":%q,%s"newMessage":{"role":"user","parts":[{"text":%q}]}}`,
		app, user, session, streaming, question))
}

// sessionPath is where a session is made and read.
func sessionPath(user, session string) string {
	return "/apps/" + app + "/users/" + user + "/sessions/" + session
}

func post(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func get(path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path)
}

// answers says whether a reply is the whole answer of the model, in as many events
// as there are pieces, or what is wrong with it.
func (s script) answers(r reply, path string) error {
	if r.status != 200 || !bytes.Contains(r.text, []byte(`"text":"`+whole+`"`)) || bytes.Contains(r.text, []byte(`"error":`)) {
		return fmt.Errorf("status %d: %s", r.status, brief(r.text))
	}
	if path == pathRun {
		return nil
	}
	if got := bytes.Count(r.text, []byte("data: ")); got != s.Pieces+1 {
		return fmt.Errorf("%d events came, want %d", got, s.Pieces+1)
	}
	return nil
}

// brief is the end of an answer, where errors are.
func brief(text []byte) string {
	line := strings.Join(strings.Fields(string(text)), " ")
	if len(line) > 200 {
		line = "…" + line[len(line)-200:]
	}
	return line
}
