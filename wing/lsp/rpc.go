package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
)

// maxMessage limits a message's size, in bytes. An app's files have at most 4 MiB.
const maxMessage = 32 << 20

// JSON-RPC error codes.
const (
	codeParse         = -32700
	codeUnknownMethod = -32601
	codeInvalidParams = -32602
	codeInvalidCall   = -32600
	codeInternal      = -32603
	codeRequestFailed = -32803
)

// message is a request, a notification or a response.
type message struct {
	Version string           `json:"jsonrpc"`
	ID      *json.RawMessage `json:"id,omitempty"`
	Method  string           `json:"method,omitempty"`
	Params  json.RawMessage  `json:"params,omitempty"`
	Result  json.RawMessage  `json:"result,omitempty"`
	Error   *rpcError        `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (e *rpcError) Error() string { return e.Message }

// readMessage reads one message. After an *rpcError the next message can be read;
// any other error ends the stream.
func readMessage(r *bufio.Reader) (*message, error) {
	header, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil {
		if errors.Is(err, io.EOF) && len(header) == 0 {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("reading header: %w", err)
	}
	size, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil || size < 0 || size > maxMessage {
		return nil, fmt.Errorf("invalid Content-Length %q", header.Get("Content-Length"))
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, fmt.Errorf("reading message: %w", err)
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, &rpcError{codeParse, "invalid JSON-RPC message: " + err.Error()}
	}
	return &m, nil
}

func writeMessage(w io.Writer, m *message) error {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

func decodeParams(m *message, into any) error {
	if err := json.Unmarshal(m.Params, into); err != nil {
		return &rpcError{codeInvalidParams, m.Method + ": " + err.Error()}
	}
	return nil
}
