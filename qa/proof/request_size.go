package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
)

// maxRequestMemory is by how much a client's request may raise the host's peak memory.
const maxRequestMemory = 250 << 20

// requestSizeMode is the child that decodes a request without a limit.
const requestSizeMode = "decode-request"

// An expensiveRequest is at a request's limits, or above them.
type expensiveRequest struct {
	name, path, body string
	status           int
}

func expensiveRequests() []expensiveRequest {
	const sessions, run = "/apps/steady/users/u/sessions", "/run"
	state := func(text string) string { return `{"state":{` + text + `}}` }
	message := func(text string) string {
		return `{"appName":"steady","userId":"u","sessionId":"s","newMessage":{"role":"user","parts":[{"text":` + text + `}]}}`
	}
	var keys strings.Builder
	for i := range 120_000 {
		fmt.Fprintf(&keys, `"k%d":%d,`, i, i)
	}
	const event = `{"author":"user","content":{"parts":[{"text":"x"}]}},`
	file := base64.StdEncoding.EncodeToString(make([]byte, 20<<20))
	return []expensiveRequest{
		{"text of 28 MiB", run, message(`"` + strings.Repeat("x", 28<<20) + `"`), 200},
		{"artifact of 20 MiB", sessions + "/s/artifacts", `{"filename":"a.bin","artifact":{"inlineData":{"mimeType":"a/b","data":"` + file + `"}}}`, 200},
		{"120 000 keys", sessions, state(keys.String() + `"end":1`), 200},
		{"240 000 values", sessions, state(`"a":[` + strings.Repeat(`0,`, 240_000) + `0]`), 200},
		{"20 000 events", sessions, `{"events":[` + strings.Repeat(event, 20_000) + strings.TrimSuffix(event, ",") + `]}`, 200},
		{"number of 1 MB", sessions, state(`"n":` + strings.Repeat("9", 1_000_000)), 0},
		{"surrogates", run, message(`"` + strings.Repeat(`\ud83d`, 1<<20) + `"`), 0},
		{"depth 900", sessions, state(`"d":` + strings.Repeat("[", 900) + strings.Repeat("]", 900)), 0},
		{"10 million values", sessions, state(`"a":[` + strings.Repeat("{},", 10_000_000) + `0]`), 413},
		{"40 MiB", sessions, state(`"a":"` + strings.Repeat("x", 40<<20) + `"`), 413},
	}
}

// requestSizeRows sends each request at the limits to its own host.
func requestSizeRows(ctx context.Context, l *lab) ([]row, error) {
	apps := filepath.Join(l.dir, "request-size")
	if err := (files{"root_agent.yaml": "name: steady\nmodel: demo\ninstruction: x\n", "app.yaml": scriptedModel, "script.yaml": "- text: hi\n"}).writeTo(filepath.Join(apps, "steady")); err != nil {
		return nil, err
	}
	var shown []string
	ok := true
	for _, req := range expensiveRequests() {
		status, more, err := l.measureRequest(ctx, apps, req)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", req.name, err)
		}
		shown = append(shown, fmt.Sprintf("%s: %d, %d MiB", req.name, status, more>>20))
		ok = ok && status < 500 && (req.status == 0 || status == req.status) && more <= maxRequestMemory
	}
	control, err := l.runMeasured(ctx, io.Discard, l.self, "child", requestSizeMode)
	if err != nil {
		return nil, err
	}
	return []row{{
		"no request of a client raises the peak memory of the host by more than 250 MiB, or fails it",
		fmt.Sprintf("status and more peak memory: %s; control, 30 MB of values decoded without the limit: %d MiB", strings.Join(shown, "; "), control>>20),
		ok && control > maxRequestMemory,
	}}, nil
}

// measureRequest returns a request's status, and by how much it raises a new host's peak memory.
func (l *lab) measureRequest(ctx context.Context, apps string, req expensiveRequest) (status int, more int64, err error) {
	h, err := serveStore(ctx, l, "memory:", apps, "--artifacts", "memory:")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, h.kill()) }()
	c := newClient(h.url, "steady", "s")
	c.user = "u"
	defer c.close()
	if _, err := c.runTurn(ctx, "hi"); err != nil {
		return 0, 0, err
	}
	before, err := h.readMemory("VmHWM")
	if err != nil {
		return 0, 0, err
	}
	if status, err = postPlain(ctx, c.http, h.url+req.path, req.body); err != nil {
		return 0, 0, err
	}
	after, err := h.readMemory("VmHWM")
	return status, int64((after - before) * (1 << 20)), err
}

// postPlain sends a JSON body, reads the whole response and returns its status. A server may
// respond before it has read the body.
func postPlain(ctx context.Context, web *http.Client, at, body string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// decodeRequestNaively is the control: a rejected request's values without the limit.
func decodeRequestNaively() error {
	var v any
	return json.Unmarshal([]byte(`{"a":[`+strings.Repeat("{},", 10_000_000)+`0]}`), &v)
}
