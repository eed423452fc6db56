package mcptool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/charset"
)

// A directCaller calls a stateless server's tools over HTTP. Such a call is one HTTP request that
// describes itself, so that it needs no session, no queue, and no other goroutine: the library's
// transport would decode each message four more times. It is safe for concurrent use.
type directCaller struct {
	link *link
	// client has a callTransport.
	client *http.Client
	filter *messageFilter
	calls  atomic.Int64
}

// firstCallID is where the calls' ids begin; the library counts from 1.
const firstCallID = 1 << 30

// A callTransport sends a directCaller's requests within the connection's bounds.
type callTransport struct{ messages *messageTransport }

// RoundTrip implements [http.RoundTripper].
func (t *callTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.messages.sendGuarded(req, callMethod)
}

// callTool returns a call's result as the server sent it. It fails with a [*jsonrpc.Error] if the
// server answers with an error. When ctx ends, the request does, which cancels the call (MCP
// 2026-07-28, cancellation).
func (d *directCaller) callTool(ctx context.Context, params *mcp.CallToolParams) ([]byte, error) {
	id := strconv.FormatInt(firstCallID+d.calls.Add(1), 10)
	req, err := d.newRequest(ctx, id, params)
	if err != nil {
		return nil, err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, readRejection(resp)
	}
	response, err := d.readResponse(ctx, resp, id)
	if err != nil {
		return nil, err
	}
	if failure := response.members["error"]; !isNull(failure) {
		return nil, decodeAnswer(failure)
	}
	return response.members["result"], nil
}

// newRequest returns a call's HTTP request, with the headers that the protocol repeats from its body.
func (d *directCaller) newRequest(ctx context.Context, id string, params *mcp.CallToolParams) (*http.Request, error) {
	sent := *params
	sent.Meta = mcp.Meta{}
	maps.Copy(sent.Meta, params.Meta)
	for name, value := range d.filter.describeClient() {
		sent.Meta[name] = value
	}
	body, err := encodeJSON(struct {
		Version string              `json:"jsonrpc"`
		ID      json.RawMessage     `json:"id"`
		Method  string              `json:"method"`
		Params  *mcp.CallToolParams `json:"params"`
	}{"2.0", json.RawMessage(id), callMethod, &sent})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.link.server.url.Value, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": statelessVersion, "Mcp-Method": callMethod, "Mcp-Name": encodeParam(params.Name),
	} {
		req.Header.Set(name, value)
	}
	return addParamHeaders(req), nil
}

// readRejection returns the error in a response with another status than 200: the protocol's, if
// the body has one.
func readRejection(resp *http.Response) error {
	var body struct {
		Version string `json:"jsonrpc"`
		Error   json.RawMessage
	}
	// A gateway's status is not the server's answer, whatever the body is.
	isGateway := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusBadGateway && resp.StatusCode <= http.StatusGatewayTimeout
	if raw, err := io.ReadAll(resp.Body); err == nil && !isGateway && json.Unmarshal(raw, &body) == nil && body.Version != "" && !isNull(body.Error) {
		return decodeAnswer(repairError(body.Error))
	}
	return fmt.Errorf("sending %q: %s", callMethod, http.StatusText(resp.StatusCode))
}

// decodeAnswer decodes a repaired error.
func decodeAnswer(raw json.RawMessage) error {
	failure := &jsonrpc.Error{}
	if err := json.Unmarshal(raw, failure); err != nil {
		return err
	}
	return failure
}

// readResponse reads the response to a request, and handles the notifications before it.
func (d *directCaller) readResponse(ctx context.Context, resp *http.Response, id string) (message, error) {
	filter, contentType := d.filter.newCallFilter(id, callMethod), resp.Header.Get("Content-Type")
	if kind, _, _ := mime.ParseMediaType(contentType); kind != "text/event-stream" {
		raw, err := io.ReadAll(resp.Body)
		if err != nil && !errors.Is(err, errTooLarge) {
			return message{}, err
		}
		return filter.repairBody(charset.DecodeJSON(contentType, raw), err, id), nil
	}
	events := &eventReader{Closer: resp.Body, lines: bufio.NewReader(resp.Body), filter: filter, request: id}
	for {
		e, err := events.readEvent()
		if err != nil {
			return message{}, fmt.Errorf("the stream ended before the response: %w", err)
		}
		for _, m := range events.repairEvent(e) {
			if m.isResponse {
				return m, nil
			}
			d.handleNotification(ctx, m)
		}
	}
}

// handleNotification handles a message before the response. A stateless server sends no requests.
func (d *directCaller) handleNotification(ctx context.Context, m message) {
	switch lists := &d.link.lists; strings.Trim(string(m.members["method"]), `"`) {
	case "notifications/progress":
		progress := &mcp.ProgressNotificationParams{}
		if json.Unmarshal(m.members["params"], progress) == nil {
			d.link.progress.receiveProgress(ctx, &mcp.ProgressNotificationClientRequest{Params: progress})
		}
	case "notifications/tools/list_changed":
		lists.tools.dropLists()
	case "notifications/resources/list_changed":
		lists.resources.dropLists()
	case "notifications/prompts/list_changed":
		lists.dropPrompts()
	default:
		d.filter.logSkipped(m.encodeText())
	}
}
