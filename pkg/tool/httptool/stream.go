package httptool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"agenthost/internal/toolhttp"
	"agenthost/pkg/tool"
)

var _ tool.Streamer = (*httpTool)(nil)

// streamsSource reports whether the service's response is a stream.
func (t *httpTool) streamsSource() bool {
	return t.capabilities.Stream != nil && t.capabilities.Stream.Every == 0
}

// Stream returns a result for each event in an SSE or NDJSON response; see [tool.Streamer]. A
// result expression that returns null skips the event. The tool's timeout bounds the time until the
// response begins.
func (t *httpTool) Stream(ctx context.Context, call *tool.Call) iter.Seq2[*tool.Result, error] {
	return func(yield func(*tool.Result, error) bool) {
		call, err := t.CheckCall(ctx, call)
		if err == nil {
			err = t.streamEvents(ctx, call, func(result *tool.Result) bool { return yield(result, nil) })
			if err != nil {
				err = fmt.Errorf("http tool %s: %w", t.Declaration().Name, err)
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// runFirst returns the stream's first result, for runs that are not live.
func (t *httpTool) runFirst(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	var first *tool.Result
	err := t.streamEvents(ctx, call, func(result *tool.Result) bool {
		first = result
		return false
	})
	if err == nil && first == nil {
		err = errors.New("the response ended without an event")
	}
	return first, err
}

func (t *httpTool) streamEvents(ctx context.Context, call *tool.Call, yield func(*tool.Result) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := func() bool { return true }
	if limit := t.capabilities.Timeout; limit > 0 {
		begin = time.AfterFunc(limit, func() { cancel(&tool.TimeoutError{Tool: t.Declaration().Name, Timeout: limit}) }).Stop
	}
	resp, exchange, err := t.openStream(ctx, call)
	begin()
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return t.readEvents(ctx, call, &eventSource{resp, exchange}, yield)
}

// An eventSource is a response, and the exchange that redacts its request's secrets.
type eventSource struct {
	*http.Response
	exchange *toolhttp.Exchange
}

// openStream sends the request, and checks that the response is a stream.
func (t *httpTool) openStream(ctx context.Context, call *tool.Call) (*http.Response, *toolhttp.Exchange, error) {
	req, err := t.newRequest(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", "text/event-stream, application/x-ndjson")
	resp, exchange, err := t.exchange.OpenResponse(req, call)
	if err != nil {
		if late := new(tool.TimeoutError); errors.As(context.Cause(ctx), &late) {
			return nil, nil, late
		}
		return nil, nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		_, err := exchange.ReadResponse(resp)
		return nil, nil, exchange.RedactError(err)
	}
	return resp, exchange, nil
}

// readEvents yields the results for a response's events.
func (t *httpTool) readEvents(ctx context.Context, call *tool.Call, resp *eventSource, yield func(*tool.Result) bool) error {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	lines := bufio.NewReader(resp.Body)
	read, dataType := readLineEvent, "application/json"
	switch kind {
	case "text/event-stream":
		read, dataType = readServerEvent, ""
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq":
	default:
		return fmt.Errorf("the response must be a stream: its content type is %q, want text/event-stream or application/x-ndjson", kind)
	}
	for {
		data, err := read(lines, t.maxResponse)
		if len(data) > 0 {
			result, failed := t.newEventResult(ctx, call, resp, dataType, data)
			if failed != nil {
				return failed
			}
			if result != nil && !yield(result) {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return resp.exchange.RedactError(err)
		}
	}
}

// newEventResult returns an event's result, or nil if it is to be skipped.
func (t *httpTool) newEventResult(ctx context.Context, call *tool.Call, resp *eventSource, dataType string, data []byte) (*tool.Result, error) {
	got, err := resp.exchange.DecodeEvent(resp.Response, dataType, data)
	if err != nil {
		return nil, err
	}
	result, err := t.buildResult(ctx, call, got)
	if err != nil || result == nil {
		return nil, err
	}
	if v, ok := result.Response["result"]; ok && v == nil && len(result.Response) == 1 {
		return nil, nil
	}
	return result, nil
}

// readLineEvent reads an NDJSON line. A JSON text sequence separates its texts by RS (RFC 7464).
func readLineEvent(r *bufio.Reader, limit int64) ([]byte, error) {
	line, err := readBoundedLine(r, limit)
	return bytes.Trim(line, "\x1e \t\r\n"), err
}

// readServerEvent reads an SSE event, and returns its data. Comments and other fields are skipped.
func readServerEvent(r *bufio.Reader, limit int64) ([]byte, error) {
	var data []byte
	seen := false
	for {
		line, err := readBoundedLine(r, limit-int64(len(data)))
		line = bytes.TrimRight(line, "\r\n")
		if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if seen {
				data = append(data, '\n')
			}
			data, seen = append(data, bytes.TrimPrefix(rest, []byte(" "))...), true
		}
		if err != nil || len(line) == 0 && seen {
			return data, err
		}
	}
}

// readBoundedLine reads a line with its end.
func readBoundedLine(r *bufio.Reader, limit int64) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); int64(len(line)) > limit {
			return nil, fmt.Errorf("an event exceeds the limit of %s", toolhttp.FormatSize(limit))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
