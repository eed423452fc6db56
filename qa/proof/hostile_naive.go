package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"agenthost/pkg/server"
)

// serveNaiveHost is a naive handler that returns internal errors to clients, with
// status 500 for every mistake.
func serveNaiveHost(w http.ResponseWriter, r *http.Request) {
	var body struct {
		AppName    string `json:"appName"`
		NewMessage struct {
			Parts []struct {
				Text string `json:"text"`
			} `json:"parts"`
		} `json:"newMessage"`
		StateDelta map[string]string `json:"stateDelta"`
	}
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Write([]byte(body.NewMessage.Parts[0].Text))
		return
	}
	text, err := os.ReadFile(os.TempDir() + "/apps" + r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Write(text)
}

// attackNaiveHost is the control: it sends the same requests to a naive host.
func attackNaiveHost(ctx context.Context, shots int) (report *attackReport, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	web := &http.Server{Handler: http.HandlerFunc(serveNaiveHost), ReadTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	a := &requestGenerator{random: rand.New(rand.NewPCG(1, 0)), patterns: server.New(nil, &server.Options{Extensions: serverExtensions()}).Patterns()}
	report, err = sendHostileRequests(ctx, l.Addr().String(), a, shots)
	err = errors.Join(err, web.Close())
	if serveErr := <-ended; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return report, err
}
