package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"agenthost/internal/charset"
)

// A messageTransport repairs the messages in a server's HTTP responses.
type messageTransport struct {
	next   http.RoundTripper
	filter *messageFilter
	// answersPosts is set for the transport whose responses to POST have messages.
	answersPosts bool
}

// RoundTrip implements [http.RoundTripper].
func (t *messageTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	request, response := "", ""
	if req.Method == http.MethodPost && req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		request, response = t.filter.recordMessage(raw)
		req = addParamHeaders(req)
	}
	resp, err := t.sendGuarded(req, request)
	t.filter.guard.closeRequest(response)
	if err != nil || resp.StatusCode != http.StatusOK {
		if err != nil || t.answersPosts || resp.StatusCode >= http.StatusMultipleChoices {
			t.filter.findRequest(nil, request) // no response will come
		}
		return resp, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream":
		resp.Body = t.newEventReader(resp.Body, request)
	case request != "" && t.answersPosts:
		resp.Body = &responseBody{ReadCloser: resp.Body, contentType: resp.Header.Get("Content-Type"), filter: t.filter, request: request}
		resp.Header.Set("Content-Type", "application/json")
	default:
		return resp, nil
	}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	return resp, nil
}

// sendGuarded sends an HTTP request that ends with the connection, and bounds what comes back.
func (t *messageTransport) sendGuarded(req *http.Request, request string) (*http.Response, error) {
	guard := t.filter.guard
	var charge func(n int) error
	if isListening := t.filter.methodOf(request) == listenMethod; isListening || req.Method == http.MethodGet && t.answersPosts {
		if err := guard.chargeReopened(); err != nil {
			return nil, err
		}
		charge = guard.chargeStream
	} else if req.Method == http.MethodPost {
		charge = guard.chargeResponse()
	}
	ctx, release := guard.bind(req.Context())
	if request == "" && req.Method == http.MethodPost {
		timer := time.AfterFunc(sendTimeout, release)
		defer timer.Stop()
	}
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err == nil {
		err = guard.checkHeader(resp.Header)
		resp.Body = &guardedBody{resp.Body, release, charge}
	}
	if err != nil && resp != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		release()
		return nil, err
	}
	return resp, nil
}

// A responseBody is the JSON response body for a request, whatever its media type: one message.
type responseBody struct {
	io.ReadCloser
	contentType string
	filter      *messageFilter
	request     string
	// message is nil before the first read.
	message io.Reader
}

// Read implements [io.Reader].
func (b *responseBody) Read(p []byte) (int, error) {
	if b.message == nil {
		raw, err := io.ReadAll(b.ReadCloser)
		if err != nil && !errors.Is(err, errTooLarge) {
			return 0, err
		}
		b.message = bytes.NewReader(b.filter.repairBody(charset.DecodeJSON(b.contentType, raw), err, b.request).encodeText())
	}
	return b.message.Read(p)
}

// repairBody returns the response to a request in a JSON body, which could not be read whole if err
// is set. It leaves out the rest of a batch.
func (f *messageFilter) repairBody(raw []byte, err error, request string) message {
	var messages []message
	if err != nil {
		messages = f.rejectResponse(raw, request, err.Error())
	} else {
		messages = f.repairMessages(raw, request)
	}
	var response message
	for _, m := range messages {
		if !response.isResponse && m.isResponse {
			response = m
			continue
		}
		f.logSkipped(m.encodeText())
	}
	if !response.isResponse {
		f.findRequest(json.RawMessage(request), "")
		response = newRejection(request, "it is not a protocol message: "+cutText(f.clean(string(raw[:min(len(raw), 8*maxLoggedText)])), maxLoggedText))
	}
	return response
}

// newEventReader returns a reader for a body; request is the id of the answered request, or "".
func (t *messageTransport) newEventReader(body io.ReadCloser, request string) *eventReader {
	return &eventReader{Closer: body, lines: bufio.NewReaderSize(body, 64<<10), filter: t.filter, request: request, onlyMessages: !t.answersPosts}
}
