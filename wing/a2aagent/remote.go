package a2aagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/go-jose/go-jose/v4"

	"agenthost/internal/a2acard"
	"agenthost/internal/limit"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/connection"
	"agenthost/pkg/protocol"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// cardAge is how long a card is used before it is fetched again. Failures are not kept.
const cardAge = 5 * time.Minute

// cardWait is how long the server may take to send its card.
const cardWait = 30 * time.Second

// A remote is the server that runs the agent. It is safe for concurrent use.
type remote struct {
	// card is the card's address, or the first one on given, the card in the YAML.
	card  *url.URL
	given []byte
	// keys are those that must have signed the card; nil for any card.
	keys    []jose.JSONWebKey
	timeout time.Duration
	http    *http.Client
	logger  *slog.Logger
	secrets *toolhttp.Redactor
	// connection is nil if the requests need no credential.
	connection *connection.Connection
	// offline is set in apps that must not reach a server, such as in tests.
	offline bool

	mu      sync.Mutex
	client  *a2aclient.Client
	streams bool
	fetched time.Time
}

func newRemote(_ context.Context, env tool.Env, c *serverYAML) (tool.Set, error) {
	address := c.Card.Value
	var given []byte
	if c.hasCard() {
		card, err := c.decodeCard()
		if err != nil {
			return nil, spec.Diagnostics{c.Card.Errorf(0, "value", "agent_card: %s", err)}
		}
		given, address = []byte(c.Card.Value), card.SupportedInterfaces[0].URL
	}
	card, err := url.Parse(address)
	if err != nil {
		return nil, spec.Diagnostics{c.Card.Errorf(0, "url", "agent_card must be an address")}
	}
	r := &remote{secrets: toolhttp.NewRedactor(spec.NewRedactor()), card: card, given: given, timeout: time.Duration(c.Timeout), logger: env.Logger, offline: env.Offline, connection: env.Connection}
	if c.CardKey.Value != "" {
		if r.keys, err = a2acard.ParsePublicKeys([]byte(c.CardKey.Value)); err != nil {
			return nil, spec.Diagnostics{c.CardKey.Errorf(0, "value", "card_key: %s", err)}
		}
	}
	r.http = toolhttp.GuardRedirects(env.HTTP)
	r.http.Transport = &transport{next: r.http.Transport, remote: r}
	return r, nil
}

// Tools returns no tools: the agent uses the set itself.
func (r *remote) Tools(context.Context) ([]tool.Tool, error) { return nil, nil }

// Close implements [tool.Set].
func (r *remote) Close() error { return nil }

// openClient returns a client for the agent that the card describes, and whether it streams.
func (r *remote) openClient(ctx context.Context) (client *a2aclient.Client, streams bool, err error) {
	if r.offline {
		return nil, false, fmt.Errorf("remote agents are not called in tests, and this one is at %s", r.card.Host)
	}
	r.mu.Lock()
	client, streams, isFresh := r.client, r.streams, time.Since(r.fetched) < cardAge
	r.mu.Unlock()
	if client != nil && isFresh {
		return client, streams, nil
	}
	card, err := r.readCard(ctx) // each run that needs it, so that none waits for another's request
	if err != nil {
		return nil, false, fmt.Errorf("cannot read the agent card: %w", err)
	}
	client, err = a2aclient.NewFactory(
		a2aclient.WithDefaultsDisabled(),
		a2aclient.WithJSONRPCTransport(r.http), a2aclient.WithRESTTransport(r.http),
		a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: r.http}),
		a2av0.WithRESTTransport(a2av0.RESTTransportConfig{Client: r.http}),
	).CreateFromCard(ctx, card)
	if err != nil {
		return nil, false, fmt.Errorf("the agent card has no interface over JSON-RPC or REST: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client, r.streams, r.fetched = client, card.Capabilities.Streaming, time.Now()
	return client, r.streams, nil
}

// readCard reads the card, of either version of the protocol.
func (r *remote) readCard(ctx context.Context) (*a2a.AgentCard, error) {
	if r.given != nil {
		return parseCard(r.given, r.keys)
	}
	ctx, stop := context.WithTimeoutCause(ctx, cardWait, fmt.Errorf("no response within %s", cardWait))
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.card.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	// Without it the SDK for JavaScript sends the card of 0.3, if the server serves both.
	req.Header.Set(a2a.SvcParamVersion, string(a2a.Version))
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answered %s", http.StatusText(resp.StatusCode))
	}
	raw, err := limit.AgentCard.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return parseCard(raw, r.keys)
}

// parseCard returns a card, which one of the keys must have signed if there are any.
func parseCard(raw []byte, keys []jose.JSONWebKey) (*a2a.AgentCard, error) {
	err := limit.AgentCard.CheckJSON(raw)
	if err == nil && keys != nil {
		raw, err = a2acard.VerifyCard(raw, keys)
	}
	if err != nil {
		return nil, err
	}
	card, err := a2av0.NewAgentCardParser()(raw)
	if err != nil || card == nil {
		return nil, errors.New("it is not an agent card")
	}
	return card, checkInterfaces(card)
}

// checkInterfaces leaves out the interfaces with addresses that are not safe.
func checkInterfaces(card *a2a.AgentCard) error {
	named := ""
	card.SupportedInterfaces = slices.DeleteFunc(card.SupportedInterfaces, func(i *a2a.AgentInterface) bool {
		if i == nil {
			return true
		}
		u, err := url.Parse(i.URL)
		named = i.URL
		return err != nil || u.Host == "" || !isSafe(u)
	})
	if len(card.SupportedInterfaces) == 0 && named != "" {
		return fmt.Errorf("its address %q does not begin with https://", protocol.TruncateText(named, maxText))
	}
	return nil
}

// userKey is the context key for the user whom a request is for.
type userKey struct{}

func withUser(ctx context.Context, user connection.User) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// A transport adds the connection's credential to requests to the card's host, and to no other, and
// bounds the responses.
type transport struct {
	next   http.RoundTripper
	remote *remote
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	var resp *http.Response
	var err error
	if own := t.remote.card; req.URL.Host == own.Host && req.URL.Scheme == own.Scheme {
		user, _ := req.Context().Value(userKey{}).(connection.User)
		var secrets []string
		resp, secrets, err = t.remote.connection.RoundTrip(next, req, user)
		t.remote.secrets.AddSecrets(secrets)
	} else {
		resp, err = next.RoundTrip(req)
	}
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{limit.A2AAnswer.NewReader(resp.Body), resp.Body, 0}
	return resp, nil
}

// A boundedBody is a response body with a limit on its bytes and its JSON values, of which each begins
// after one of three signs. The signs in strings count, too.
type boundedBody struct {
	io.Reader
	io.Closer
	values int
}

// Read implements [io.Reader].
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	for _, sign := range []string{",", "[", "{"} {
		b.values += bytes.Count(p[:n], []byte(sign))
	}
	if most := limit.A2AAnswer.Values; b.values > most {
		return 0, &limit.Error{Input: limit.A2AAnswer.Name, Unit: "values", Limit: most}
	}
	return n, err
}

// readMap returns a value's JSON object; nil for another value.
func readMap(v any) map[string]any {
	if m, ok := v.(map[string]any); ok {
		return m
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var m map[string]any
	_ = json.Unmarshal(raw, &m)
	return m
}
