package main

import (
	"bytes"
	"fmt"
	"strings"
)

// Request paths.
const (
	pathRun    = "/run"
	pathStream = "/run_sse"
	// A2A's messages are sent to one path, over JSON-RPC.
	pathMessage       = "/a2a"
	pathMessageStream = "/a2a, streaming"
)

// isA2A reports whether a path is A2A's. Its sessions are created by their first message.
func isA2A(path string) bool { return path == pathMessage || path == pathMessageStream }

// turnRequest returns a turn's request.
func turnRequest(path, user, session string) []byte {
	if isA2A(path) {
		method := map[string]string{pathMessage: "SendMessage", pathMessageStream: "SendStreamingMessage"}[path]
		return buildPost(messagePath, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"message":{"messageId":"m","contextId":%q,"role":"ROLE_USER","parts":[{"text":%q}]}}}`, method, session, question))
	}
	streaming := ""
	if path == pathStream {
		streaming = `"streaming":true,`
	}
	return buildPost(path, fmt.Sprintf(`{"appName":%q,"userId":%q,"sessionId":%q,%s"newMessage":{"role":"user","parts":[{"text":%q}]}}`,
		app, user, session, streaming, question))
}

// messagePath receives A2A's messages.
const messagePath = "/a2a/" + app

// sessionPath returns a session's path.
func sessionPath(user, session string) string {
	return "/apps/" + app + "/users/" + user + "/sessions/" + session
}

func buildPost(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func buildGet(path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path)
}

// checkReply returns an error unless a reply has the complete answer with all events.
func (s script) checkReply(r reply, path string) error {
	if r.status != 200 || !bytes.Contains(r.text, []byte(`"text":"`+wholeText+`"`)) || bytes.Contains(r.text, []byte(`"error":`)) {
		return fmt.Errorf("status %d: %s", r.status, abbreviate(r.text))
	}
	if isA2A(path) {
		if !bytes.Contains(r.text, []byte(`"TASK_STATE_COMPLETED"`)) {
			return fmt.Errorf("task is not completed: %s", abbreviate(r.text))
		}
		return nil
	}
	if path == pathRun {
		return nil
	}
	if got := bytes.Count(r.text, []byte("data: ")); got != s.Chunks+1 {
		return fmt.Errorf("got %d events, want %d", got, s.Chunks+1)
	}
	return nil
}

// abbreviate returns a response's end, which contains the errors.
func abbreviate(text []byte) string {
	line := strings.Join(strings.Fields(string(text)), " ")
	if len(line) > 200 {
		line = "…" + line[len(line)-200:]
	}
	return line
}
