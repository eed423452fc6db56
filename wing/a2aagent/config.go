package a2aagent

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/go-jose/go-jose/v4"

	"agenthost/internal/a2acard"
	"agenthost/internal/agentconfig"
	"agenthost/internal/toolconfig"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/connection"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// agentClass is the class in ADK.
const agentClass = "RemoteA2aAgent"

// Kinds returns the agent class.
func Kinds() spec.Kinds[agentconfig.AgentEnv, runtime.Agent] {
	return spec.Kinds[agentconfig.AgentEnv, runtime.Agent]{
		spec.NewKind(agentClass, "Runs an agent of another server, by the Agent2Agent protocol.", newAgent),
	}
}

// agentYAML is the agent's YAML.
type agentYAML struct {
	Common    agentconfig.CommonConfig `yaml:",inline"`
	Server    serverYAML               `yaml:",inline"`
	OutputKey string                   `yaml:"output_key" doc:"State key that receives the text of the remote agent's answer."`
	Apply     actionsYAML              `yaml:"apply_actions" doc:"What a remote agent of ADK may do here besides answering. Default: nothing."`
}

// serverYAML is the part of the YAML that reaches the server.
type serverYAML struct {
	Card    spec.Text       `yaml:"agent_card" required:"true" doc:"The address of the agent's card, such as https://example.com/.well-known/agent-card.json, or the card in JSON, such as ${file:orders.json}."`
	Auth    *connection.Ref `yaml:"auth" doc:"The connection that authorizes the requests to the card's host: its name under connections in app.yaml, or the connection itself."`
	CardKey spec.Text       `yaml:"card_key" doc:"Public keys in PEM, of which one must have signed the card, such as ${file:orders.pem}. Default: the card needs no signature."`
	Timeout spec.Duration   `yaml:"timeout" default:"10m" doc:"Maximum duration of one request to the agent, its task included."`
}

// serverKeys are the keys of [serverYAML].
func serverKeys() []string { return []string{"agent_card", "auth", "card_key", "timeout"} }

// actionsYAML lists actions.
type actionsYAML struct {
	State    []string `yaml:"state" doc:"The state keys that the remote agent may set."`
	Escalate bool     `yaml:"escalate" doc:"Whether the remote agent may end an enclosing LoopAgent."`
}

var (
	_ agentconfig.ServerConfig = (*agentYAML)(nil)
	_ tool.AddressConfig       = (*serverYAML)(nil)
	_ connection.RefConfig     = (*serverYAML)(nil)
	_ spec.Checker             = (*agentYAML)(nil)
	_ spec.Checker             = (*serverYAML)(nil)
)

// ServerSet returns the set that reaches the server, and its settings in the agent's YAML.
func (c *agentYAML) ServerSet(n *spec.Node) (spec.Kind[tool.Env, tool.Set], *spec.Node) {
	own := *n
	own.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e spec.Entry) bool { return !slices.Contains(serverKeys(), e.Key.Value) })
	return spec.NewKind(agentClass, "Reaches a remote agent.", newRemote), &own
}

// Check rejects sub-agents, which a remote agent cannot have.
func (c *agentYAML) Check(n *spec.Node) spec.Diagnostics {
	if subs := n.Get("sub_agents"); !subs.IsNull() {
		return spec.Diagnostics{subs.Errorf("agent", "a remote agent has no sub_agents here: its server has them")}
	}
	return nil
}

// Addresses returns the card's address, or those on a card in JSON.
func (c *serverYAML) Addresses() []spec.Text {
	if !c.hasCard() {
		return []spec.Text{c.Card}
	}
	card, err := c.decodeCard()
	if err != nil {
		return nil // Check reports it
	}
	var all []spec.Text
	for _, i := range card.SupportedInterfaces {
		address := c.Card
		address.Value = i.URL
		all = append(all, address)
	}
	return all
}

// hasCard reports whether agent_card is the card in JSON.
func (c *serverYAML) hasCard() bool { return strings.HasPrefix(strings.TrimSpace(c.Card.Value), "{") }

// decodeCard returns the card in the YAML.
func (c *serverYAML) decodeCard() (*a2a.AgentCard, error) {
	var keys []jose.JSONWebKey
	if c.CardKey.Value != "" {
		var err error
		if keys, err = a2acard.ParsePublicKeys([]byte(c.CardKey.Value)); err != nil {
			return nil, err
		}
	}
	card, err := parseCard([]byte(c.Card.Value), keys)
	if err == nil && len(card.SupportedInterfaces) == 0 {
		err = errors.New("the card has no address")
	}
	return card, err
}

// Connection returns the connection, or nil.
func (c *serverYAML) Connection() *connection.Ref { return c.Auth }

// Check rejects addresses without encryption, except those of this machine, as ADK does since 2.9.
func (c *serverYAML) Check(n *spec.Node) spec.Diagnostics {
	ds := toolconfig.CheckTimeout(n)
	if c.CardKey.Pos.Line > 0 {
		if _, err := a2acard.ParsePublicKeys([]byte(c.CardKey.Value)); err != nil {
			ds = append(ds, c.CardKey.Errorf(0, "value", "card_key: %s", err))
		}
	}
	if c.Card.Pos.Line == 0 {
		return ds // reported as missing
	}
	if c.hasCard() {
		if _, err := c.decodeCard(); err != nil && len(ds) == 0 {
			ds = append(ds, c.Card.Errorf(0, "value", "agent_card: %s", err))
		}
		return ds
	}
	switch u, err := url.Parse(c.Card.Value); {
	case err != nil || toolhttp.ConstantHost(c.Card.Value) == "" || u.User != nil:
		ds = append(ds, c.Card.Errorf(0, "url", "agent_card must be the address of an agent card, with https:// and a host").
			WithHint("write https://example.com/.well-known/agent-card.json, or ${file:card.json} for a file of the app"))
	case !isSafe(u):
		ds = append(ds, c.Card.Errorf(0, "url", "agent_card must begin with https://: requests with http:// can be read and changed on their way"))
	}
	return ds
}

// isSafe reports whether requests to a URL are encrypted, or stay on this machine.
func isSafe(u *url.URL) bool {
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && addr.IsLoopback())
}

func newAgent(_ context.Context, env agentconfig.AgentEnv, c *agentYAML) (runtime.Agent, error) {
	r := env.Server.(*remote)
	a := &relay{name: c.Common.Name.Value, apply: c.Apply}
	llm := env.Model
	if llm == nil {
		llm = env.WrapModel(&remoteModel{r, c.Apply.isSet()})
	}
	tools := []tool.Tool{newQuestionTool()}
	if r.connection.IsPerUser() {
		tools = append(tools, newConsentTool(r.connection))
	}
	return runtime.NewLLM(a.name, &runtime.LLMOptions{
		Description: c.Common.Description, Model: llm, Tools: tools, OutputKey: c.OutputKey,
		DisallowTransferToParent: true, DisallowTransferToPeers: true,
		Callbacks: runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{a.nameContext}, AfterModel: []runtime.AfterModelFunc{a.applyActions}},
	}), nil
}

func (c *actionsYAML) isSet() bool { return c.Escalate || len(c.State) > 0 }
