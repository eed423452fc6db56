package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"agenthost/internal/fake/fakevertex"
	"agenthost/internal/safe"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
	"agenthost/wing/vertex/vertexstore"
)

// vertexURL is the proof's store. Its service is in this process.
const vertexURL = "agentengine://77"

// lossyVertex is a service in this process that loses requests and responses.
type lossyVertex struct {
	service *fakevertex.Server
	faults  atomic.Int64
	server  *http.Server
}

// startVertex starts a service on a loopback address and sets the environment for this process and
// its children.
func startVertex(seed uint64) (*lossyVertex, error) {
	v := &lossyVertex{service: &fakevertex.Server{Project: "p", Number: "1", Location: "l", Engines: []string{"77"}, PollsUntilDone: 1, HiddenReads: 1}}
	var requests atomic.Uint64
	v.service.Fault = func(r *http.Request) *fakevertex.Fault {
		random := rand.New(rand.NewPCG(seed, requests.Add(1)))
		if !strings.HasSuffix(r.URL.Path, ":appendEvent") || random.IntN(20) > 0 {
			return nil
		}
		v.faults.Add(1)
		return &fakevertex.Fault{Code: []int{0, 503}[random.IntN(2)], Status: "UNAVAILABLE", Late: random.IntN(2) == 0}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v.server = &http.Server{Handler: v.service, ReadHeaderTimeout: time.Minute}
	go func() {
		defer safe.Recover(func(p *safe.Panic) { fmt.Fprintln(os.Stderr, "the service panicked:", p.Value) })
		_ = v.server.Serve(listener) // ends with Close
	}()
	return v, errors.Join(os.Setenv("GOOGLE_CLOUD_PROJECT", "p"), os.Setenv("GOOGLE_CLOUD_LOCATION", "l"), os.Setenv("GOOGLE_VERTEX_BASE_URL", "http://"+listener.Addr().String()))
}

// openStoreAt opens a store, with the defaults that the URL needs.
func openStoreAt(ctx context.Context, url string) (*store.Store, error) {
	o := &storeurl.Options{Schemes: slices.Concat(databaseSchemes(), vertexstore.Schemes()), Artifacts: "memory:"}
	if url == vertexURL {
		o.Memory = "memory:"
	}
	return storeurl.Open(ctx, url, o)
}

// vertexRows kills session writers in a service that loses requests and responses.
func vertexRows(ctx context.Context, l *lab) (rows []row, err error) {
	v, err := startVertex(l.seed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.server.Close()) }()
	repeated := 0
	count := func(mode string, kills int) (*crashProof, error) {
		d := &database{backend: backend{name: "vertex"}, url: vertexURL}
		c := newCrash(&sandbox{l, d, rand.New(rand.NewPCG(l.seed, 0))}, mode)
		err := c.runRounds(ctx, kills)
		repeated = v.service.CountRepeatedEvents()
		return c, errors.Join(err, deleteSessions(ctx))
	}
	c, err := count(childNormal, l.choose(100, 1000))
	if err != nil {
		return nil, err
	}
	faults, stored := v.faults.Load(), repeated
	blind, err := countBlindRetries(ctx)
	if err != nil {
		return nil, err
	}
	control, err := count(childAckFirst, 10)
	return []row{{
		"Vertex AI sessions: kill -9 and lost responses lose, duplicate and tear no acknowledged event",
		fmt.Sprintf("%d kills, %d requests or responses lost, %d events acknowledged, %d lost, %d duplicated, %d torn, %d stored twice in the service; controls, acknowledged before the append: %d lost; retried without a look: %d stored twice",
			c.kills, faults, c.total, c.lost, c.duplicated, c.torn, stored, control.lost, blind),
		c.total > 0 && faults > 0 && c.countViolations() == 0 && stored == 0 && control.lost > 0 && blind > 0,
	}}, err
}

// countBlindRetries sends an event twice, as after a lost response, and returns how often
// the service has it once more.
func countBlindRetries(ctx context.Context) (int, error) {
	service := &fakevertex.Server{Project: "p", Number: "1", Location: "l", Engines: []string{"77"}}
	client := &http.Client{Transport: service}
	const path = "http://vertex/v1beta1/projects/p/locations/l/reasoningEngines/77/sessions"
	const event = `{"author":"a","invocationId":"i","timestamp":"2026-01-02T03:04:05Z","rawEvent":{"id":"one"}}`
	for _, r := range [][2]string{{path + "?sessionId=s", `{"userId":"u"}`}, {path + "/s:appendEvent", event}, {path + "/s:appendEvent", event}} {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r[0], strings.NewReader(r[1]))
		if err != nil {
			return 0, err
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("status %d: %w", response.StatusCode, err)
		}
	}
	return service.CountRepeatedEvents(), nil
}

// deleteSessions deletes a run's sessions.
func deleteSessions(ctx context.Context) (err error) {
	st, err := openStoreAt(ctx, vertexURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for i := range crashSessions {
		err = errors.Join(err, st.Sessions.Delete(ctx, sessionKey(i, i)))
	}
	return err
}
