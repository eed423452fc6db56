package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
)

// An answer is agenthost's response to a turn.
type answer struct {
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// recordAnswer starts agenthost, runs a turn and returns its response.
func (b *bench) recordAnswer(ctx context.Context, w *work) (a *answer, err error) {
	p, err := startProcess(ctx, &serverConfig{Side: oursName, Script: w.script})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	c := &client{addr: p.addr}
	defer c.close()
	if err := createSession(ctx, c, sessionPath(userOf(0), sessionOf(0, 0))); err != nil {
		return nil, err
	}
	r, err := c.sendRequest(turnRequest(w.path, userOf(0), sessionOf(0, 0)))
	if err == nil {
		err = w.script.checkReply(r, w.path)
	}
	if err != nil {
		return nil, err
	}
	return parseAnswer(r.text)
}

func parseAnswer(text []byte) (*answer, error) {
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return &answer{r.Header, body}, err
}
