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

// An event has the fields of ADK's events that clients check.
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

// A client sends turns to one session.
type client struct {
	url, app, user, session string
	http                    *http.Client
}

func newClient(url, app, session string) *client {
	return &client{url: url, app: app, user: "user", session: session, http: &http.Client{Transport: new(http.Transport)}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// runTurn sends a message and returns the last event's text.
func (c *client) runTurn(ctx context.Context, text string) (string, error) {
	events, err := c.runTurnEvents(ctx, text)
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

// runTurnEvents sends a message to /run, which returns all events at the end.
func (c *client) runTurnEvents(ctx context.Context, text string) ([]event, error) {
	return c.postRun(ctx, c.newRunRequest(text, false))
}

// postRun posts any request to /run.
func (c *client) postRun(ctx context.Context, request any) ([]event, error) {
	body, err := c.sendRequest(ctx, http.MethodPost, "/run", request)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var events []event
	err = json.NewDecoder(body).Decode(&events)
	return events, err
}

// streamTurnEvents sends a message to /run_sse. If the stream fails, it returns the
// error and the events received before it.
func (c *client) streamTurnEvents(ctx context.Context, text string) ([]event, error) {
	return c.postRunSSE(ctx, c.newRunRequest(text, true))
}

// postRunSSE posts any request to /run_sse.
func (c *client) postRunSSE(ctx context.Context, request any) ([]event, error) {
	body, err := c.sendRequest(ctx, http.MethodPost, "/run_sse", request)
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
			return events, newRunError(ev.ErrorCode, frame)
		}
		events = append(events, ev)
	}
}

func (c *client) newRunRequest(text string, streaming bool) any {
	return map[string]any{
		"appName": c.app, "userId": c.user, "sessionId": c.session, "streaming": streaming,
		"newMessage": map[string]any{"parts": []any{map[string]any{"text": text}}},
	}
}

// newResumeRequest returns a request that resumes an invocation.
func (c *client) newResumeRequest(invocation string, streaming bool) any {
	return map[string]any{
		"appName": c.app, "userId": c.user, "sessionId": c.session, "streaming": streaming,
		"invocationId": invocation,
	}
}

// readEvents reads the session's stored events.
func (c *client) readEvents(ctx context.Context) ([]event, error) {
	var s struct {
		Events []event `json:"events"`
	}
	err := c.getJSON(ctx, "/apps/"+c.app+"/users/"+c.user+"/sessions/"+c.session, &s)
	return s.Events, err
}

func (c *client) getJSON(ctx context.Context, path string, into any) error {
	body, err := c.sendRequest(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(into)
}

// A statusError is a response with a status other than 200.
type statusError struct {
	status     int
	retryAfter time.Duration // Retry-After; 0 if absent
	text       string
	runFailed  bool // the stream has reported a run error
}

// Error returns the request and the response.
func (r *statusError) Error() string { return r.text }

// newRunError returns the error from a run that failed during a stream. Some error codes permit a
// retry.
func newRunError(code, frame string) *statusError {
	r := &statusError{status: http.StatusInternalServerError, text: "the run failed: " + frame, runFailed: true}
	switch code {
	case runtime.CodeSessionTaken, runtime.CodeSessionBusy, runtime.CodeCanceled:
		r.retryAfter = time.Second
	}
	return r
}

// deleteSession deletes the session.
func (c *client) deleteSession(ctx context.Context) error {
	body, err := c.sendRequest(ctx, http.MethodDelete, "/apps/"+c.app+"/users/"+c.user+"/sessions/"+c.session, nil)
	if err != nil {
		return err
	}
	return body.Close()
}

// sendRequest sends a request. A status other than 200 is a *statusError.
func (c *client) sendRequest(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	var content io.Reader // a GET without a body: a proxy may cut the response to one with it
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, content)
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
	r := &statusError{status: res.StatusCode, retryAfter: time.Duration(seconds) * time.Second}
	r.text = fmt.Sprintf("%s %s: %s: %s", method, path, res.Status, detail)
	return nil, errors.Join(r, err)
}
