package conformance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/number"
	"agenthost/pkg/session"
)

// userID is the user in all recorded cases.
const userID = "adk_conformance_test_user"

// A Runner is the client in ADK's conformance suite: it drives a server, and compares the
// session that the server has stored. Several goroutines may use it.
type Runner struct {
	Client *http.Client
	// URL is the server's address, without a slash at the end.
	URL string
	// Timeout limits a request; 0 is 30 seconds.
	Timeout time.Duration
	// OwnUsers gives each case its own user, whose state and artifacts no other case has
	// written, on a server that keeps sessions from other runs.
	OwnUsers bool
}

// RunCase runs a case that has recordings for the mode.
func (r *Runner) RunCase(ctx context.Context, c *Case, mode Mode) *Result {
	result := &Result{Case: c, Mode: mode}
	err := r.replayCase(ctx, result)
	var replay *replayError
	switch {
	case errors.As(err, &replay):
		result.Error = "Replay verification failed: " + replay.message
	case err != nil:
		return FailCase(c, mode, err)
	case len(result.Differences) > 0:
		result.Error = "Session mismatch:\n" + strings.Join(result.Differences, "\n")
	}
	return result
}

// ReadVersion returns the server's version.
func (r *Runner) ReadVersion(ctx context.Context) (*Version, error) {
	m, err := r.sendJSON(ctx, http.MethodGet, "/version", nil)
	if err != nil {
		return nil, err
	}
	version, _ := m["version"].(string)
	language, _ := m["language"].(string)
	return &Version{Version: version, Language: language}, nil
}

// replayCase sends a case's messages and compares the session.
func (r *Runner) replayCase(ctx context.Context, result *Result) error {
	recorded, err := readSession(result.Case.Dir, result.Mode)
	if err != nil {
		return err
	}
	s, err := r.runConversation(ctx, result.Case, result.Mode, ReplayKey)
	if err != nil {
		return err
	}
	result.Differences, err = compareSessions(recorded, s)
	return err
}

// runConversation sends a case's messages in a new session, and returns the session, which it
// deletes. Key selects the config in the state deltas.
func (r *Runner) runConversation(ctx context.Context, c *Case, mode Mode, key string) (map[string]any, error) {
	state := c.Spec.InitialState
	if state == nil {
		state = map[string]any{}
	}
	user := userID
	if r.OwnUsers {
		user += "_" + rand.Text()
	}
	sessions := "/apps/" + url.PathEscape(c.Spec.Agent) + "/users/" + user + "/sessions"
	created, err := r.sendJSON(ctx, http.MethodPost, sessions, map[string]any{"state": state})
	if err != nil {
		return nil, err
	}
	id, _ := created["id"].(string)
	at := sessions + "/" + url.PathEscape(id)
	calls := map[string]string{}
	for i, message := range c.Spec.Messages {
		delta := map[string]any{}
		maps.Copy(delta, message.State)
		delta[key] = map[string]any{"dir": c.Dir, "user_message_index": i, "streaming_mode": string(mode)}
		content, err := addressResponse(message.Content, calls)
		if err != nil {
			return nil, err
		}
		run := map[string]any{
			"appName": c.Spec.Agent, "userId": user, "sessionId": id, "newMessage": content, "streaming": mode == ModeSSE, "stateDelta": delta,
		}
		if err := r.streamRun(ctx, run, calls); err != nil {
			return nil, err
		}
	}
	s, err := r.sendJSON(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	if s["userId"] == user {
		s["userId"] = userID // as it is in recorded sessions
	}
	_, err = r.sendJSON(ctx, http.MethodDelete, at, nil)
	return s, err
}

// addressResponse gives a function response the ID of the function's last call.
func addressResponse(content *genai.Content, calls map[string]string) (*genai.Content, error) {
	if len(content.Parts) == 0 || content.Parts[0].FunctionResponse == nil {
		return content, nil
	}
	response := *content.Parts[0].FunctionResponse
	id, ok := calls[response.Name]
	if !ok {
		return nil, fmt.Errorf("no call matches the function response of %s", response.Name)
	}
	response.ID = id
	own := *content
	own.Parts = append([]*genai.Part{{FunctionResponse: &response}}, content.Parts[1:]...)
	return &own, nil
}

// maxBodyBytes limits a response.
const maxBodyBytes = 256 << 20

func (r *Runner) limitRequest(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := r.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the server did not respond within %s", timeout))
}

func (r *Runner) sendRequest(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, reader)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(text)))
	}
	return resp, nil
}

// sendJSON returns the object in a response, or nil for another value.
func (r *Runner) sendJSON(ctx context.Context, method, path string, body any) (map[string]any, error) {
	ctx, cancel := r.limitRequest(ctx)
	defer cancel()
	resp, err := r.sendRequest(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes))
	if err != nil {
		return nil, err
	}
	var v any
	if err := number.Decode(text, &v); err != nil && method != http.MethodDelete {
		return nil, fmt.Errorf("%s %s: the response is not JSON: %w", method, path, err)
	}
	m, _ := v.(map[string]any)
	return m, nil
}

// streamRun sends a message, and adds the calls in the events.
func (r *Runner) streamRun(ctx context.Context, run map[string]any, calls map[string]string) error {
	ctx, cancel := r.limitRequest(ctx)
	defer cancel()
	resp, err := r.sendRequest(ctx, http.MethodPost, "/run_sse", run)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxBodyBytes))
	lines.Buffer(nil, maxBodyBytes)
	for lines.Scan() {
		payload, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		if err := readFrame(payload, calls); err != nil {
			return err
		}
	}
	return lines.Err()
}

// readFrame reads an event, or the error that ends a case.
func readFrame(payload []byte, calls map[string]string) error {
	var frame struct {
		Error any `json:"error"`
	}
	if err := json.Unmarshal(payload, &frame); err != nil {
		return fmt.Errorf("a stream frame is not JSON: %w", err)
	}
	if frame.Error != nil {
		return &replayError{fmt.Sprint(frame.Error)}
	}
	var ev session.Event
	if err := ev.UnmarshalJSON(payload); err != nil {
		return fmt.Errorf("a stream frame is not an event: %w", err)
	}
	for _, call := range ev.Calls() {
		calls[call.Name] = call.ID
	}
	return nil
}
