package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agenthost/pkg/runtime"
)

// An event is what a client looks at in one of ADK's events.
type event struct {
	ID           string `json:"id"`
	InvocationID string `json:"invocationId"`
	Author       string `json:"author"`
	Partial      bool   `json:"partial"`
	Content      struct {
		Parts []part `json:"parts"`
	} `json:"content"`
	ErrorCode string `json:"errorCode"`
}

type part struct {
	Text     string    `json:"text"`
	Call     *struct{} `json:"functionCall"`
	Response *struct{} `json:"functionResponse"`
}

func (e *event) text() string {
	var b strings.Builder
	for _, p := range e.Content.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// A client talks in one session.
type client struct {
	url, app, user, session string
	http                    *http.Client
}

func newClient(url, app, session string) *client {
	return &client{url: url, app: app, user: "user", session: session, http: &http.Client{Transport: new(http.Transport)}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// turn says something and returns the text of the last event.
func (c *client) turn(ctx context.Context, text string) (string, error) {
	events, err := c.run(ctx, text)
	if err != nil {
		return "", err
	}
	return lastText(events), nil
}

func lastText(events []event) string {
	if len(events) == 0 {
		return ""
	}
	return events[len(events)-1].text()
}

// run takes a turn at /run: all events come at the end.
func (c *client) run(ctx context.Context, text string) ([]event, error) {
	return c.list(ctx, c.request(text, false))
}

// list is run for any request.
func (c *client) list(ctx context.Context, request any) ([]event, error) {
	body, err := c.ask(ctx, http.MethodPost, "/run", request)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var events []event
	err = json.NewDecoder(body).Decode(&events)
	return events, err
}

// stream takes a turn at /run_sse. With an error it returns the events that
// came before it.
func (c *client) stream(ctx context.Context, text string) ([]event, error) {
	return c.frames(ctx, c.request(text, true))
}

// frames is stream for any request.
func (c *client) frames(ctx context.Context, request any) ([]event, error) {
	body, err := c.ask(ctx, http.MethodPost, "/run_sse", request)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var events []event
	r := bufio.NewReader(body)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF && line == "" {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		frame, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var ev event
		if err := json.Unmarshal([]byte(frame), &ev); err != nil {
			return events, err
		}
		if ev.ErrorCode != "" {
			return events, failedRun(ev.ErrorCode, frame)
		}
		events = append(events, ev)
	}
}

func (c *client) request(text string, streaming bool) any {
	return map[string]any{
		"appName": c.app, "userId": c.user, "sessionId": c.session, "streaming": streaming,
		"newMessage": map[string]any{"parts": []any{map[string]any{"text": text}}},
	}
}

// resumption asks to go on with an invocation.
func (c *client) resumption(invocation string, streaming bool) any {
	return map[string]any{
		"appName": c.app, "userId": c.user, "sessionId": c.session, "streaming": streaming,
		"invocationId": invocation,
	}
}

// stored reads the events of the session.
func (c *client) stored(ctx context.Context) ([]event, error) {
	var s struct {
		Events []event `json:"events"`
	}
	err := c.read(ctx, "/apps/"+c.app+"/users/"+c.user+"/sessions/"+c.session, &s)
	return s.Events, err
}

// read gets JSON.
func (c *client) read(ctx context.Context, path string, into any) error {
	body, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(into)
}

// A refusal is an answer other than 200.
type refusal struct {
	status int
	after  time.Duration // that it asks to wait; 0 without
	text   string
}

// Error says what was asked, and the answer.
func (r *refusal) Error() string { return r.text }

// failedRun is the refusal in the midst of a stream. Only the code can say that
// it may be tried again.
func failedRun(code, frame string) *refusal {
	r := &refusal{status: http.StatusInternalServerError, text: "the run failed: " + frame}
	switch code {
	case runtime.CodeSessionTaken, runtime.CodeSessionBusy, runtime.CodeCanceled:
		r.after = time.Second
	}
	return r
}

// ask sends a request; an answer other than 200 is a refusal.
func (c *client) ask(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	detail, err := io.ReadAll(res.Body)
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	r := &refusal{status: res.StatusCode, after: time.Duration(seconds) * time.Second}
	r.text = fmt.Sprintf("%s %s: %s: %s", method, path, res.Status, detail)
	return nil, errors.Join(r, err)
}
