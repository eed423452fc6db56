package a2aserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"

	"agenthost/internal/a2apart"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/wing/a2aserver/a2arpc"
)

// sendCard sends the agent's card, which both versions read. It is public: clients need it before they
// know how to authenticate.
func (d *door) sendCard(w http.ResponseWriter) error {
	producer, ok := a2av0.NewStaticAgentCardProducer(d.buildCard()).(a2asrv.AgentCardJSONProducer)
	if !ok {
		return server.NewError(http.StatusInternalServerError, "")
	}
	text, err := producer.CardJSON(d.r.Context())
	if err != nil {
		return err
	}
	// a2a-go writes the scheme as http, which is not its name in 1.0. No other key of a card has this name.
	text = bytes.Replace(text, []byte(`"http": {`), []byte(`"httpAuthSecurityScheme": {`), 1)
	if d.h.opts.Cards != nil {
		if text, err = d.h.opts.Cards.SignCard(text); err != nil {
			return err
		}
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cache-Control", "no-cache")
	server.WriteRawJSON(w, http.StatusOK, text)
	return nil
}

func (d *door) buildCard() *a2a.AgentCard {
	agent := d.findRoot()
	about := cmp.Or(agent.Description(), d.app.Description(), "The agent "+agent.Name()+".")
	card := &a2a.AgentCard{
		Name: agent.Name(), Description: about, Version: d.settings.version,
		IconURL: d.settings.iconURL, DocumentationURL: d.settings.documentation,
		Capabilities: a2a.AgentCapabilities{
			Streaming: true, PushNotifications: d.checkPush() == nil, ExtendedAgentCard: d.h.HasAuth(),
			Extensions: []a2a.AgentExtension{{URI: a2apart.ADKExtension, Description: "Answers have ADK's metadata and its function calls."}},
		},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: agent.Name(), Name: agent.Name(), Description: about, Tags: []string{"agent"}}},
	}
	for _, version := range []a2a.ProtocolVersion{a2a.Version, a2av0.Version} {
		for _, binding := range []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON} {
			card.SupportedInterfaces = append(card.SupportedInterfaces, &a2a.AgentInterface{URL: d.buildAddress(), ProtocolBinding: binding, ProtocolVersion: version})
		}
		if d.h.opts.GRPC && version == a2a.Version {
			card.SupportedInterfaces = append(card.SupportedInterfaces, d.grpcInterface())
		}
	}
	if d.settings.organization != "" {
		card.Provider = &a2a.AgentProvider{Org: d.settings.organization, URL: d.settings.address}
	}
	if d.h.HasAuth() {
		const scheme = "bearer"
		card.SecuritySchemes = a2a.NamedSecuritySchemes{scheme: a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
		card.SecurityRequirements = a2a.SecurityRequirementsOptions{{scheme: {}}}
	}
	return card
}

// grpcInterface returns the agent's interface for clients of gRPC, which take a host and a port.
func (d *door) grpcInterface() *a2a.AgentInterface {
	address := d.h.BaseURL(d.r)
	if base, err := url.Parse(address); err == nil {
		port := map[string]string{"http": "80", "https": "443"}[base.Scheme]
		address = net.JoinHostPort(base.Hostname(), cmp.Or(base.Port(), port))
	}
	tenant := d.app.Name()
	if d.agent != "" {
		tenant += "/" + agentsPath + d.agent
	}
	return &a2a.AgentInterface{URL: address, ProtocolBinding: a2a.TransportProtocolGRPC, ProtocolVersion: a2a.Version, Tenant: tenant}
}

// findRoot returns the agent that the card describes.
func (d *door) findRoot() runtime.Agent {
	if d.agent == "" {
		return d.app.Root()
	}
	return protocol.FindAgent(d.app.Root(), d.agent)
}

// maxSkills limits an extended card.
const maxSkills = 256

// GetExtendedAgentCard implements [a2asrv.RequestHandler]: the card for an authenticated caller has the
// agents below as skills, too. The transports of 1.0 send the fields that the signatures cover; 0.3 has others.
func (h *handlers) GetExtendedAgentCard(ctx context.Context, _ *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	d := doorOf(ctx)
	switch {
	case d.rejected != nil:
		return nil, d.rejected
	case !h.HasAuth():
		return nil, a2a.ErrExtendedCardNotConfigured
	}
	card := d.buildCard()
	var addSkills func(a runtime.Agent, prefix string)
	addSkills = func(a runtime.Agent, prefix string) {
		for _, sub := range a.SubAgents() {
			if len(card.Skills) == maxSkills {
				return
			}
			id := prefix + "_" + sub.Name()
			card.Skills = append(card.Skills, a2a.AgentSkill{
				ID: id, Name: sub.Name(), Description: cmp.Or(sub.Description(), "The agent "+sub.Name()+"."), Tags: []string{"sub_agent:" + sub.Name()},
			})
			addSkills(sub, id)
		}
	}
	addSkills(d.findRoot(), d.findRoot().Name())
	if h.opts.Cards == nil || d.isOld {
		return card, nil
	}
	text, err := json.Marshal(card)
	if d.isRPC {
		text, err = a2arpc.EncodeCard(card)
	}
	if err != nil {
		return nil, err
	}
	card.Signatures, err = h.opts.Cards.ListSignatures(text)
	return card, err
}

// describeProtocol describes A2A to a person who writes a client.
func (h *handlers) describeProtocol(base string, app *runtime.App) server.Protocol {
	address := addressOf(base, app.Name())
	client := `import { Role } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';

const factory = new ClientFactory();
`
	if h.HasAuth() {
		client = `import { Role } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, createAuthenticatingFetchWithRetry } from '@a2a-js/sdk/client';

const fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
  headers: async () => ({ Authorization: ` + "`Bearer ${process.env.AGENTHOST_TOKEN}`" + ` }),
  shouldRetryWithHeaders: async () => undefined,
});
const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] });
`
	}
	card := address + "/" + cardPath
	return server.Protocol{Name: "A2A", Section: sectionKey, Offered: h.readSettings(app) != nil, Address: card, Snippets: []server.Snippet{
		{Client: "npm @a2a-js/sdk", Language: "js", Text: client + "const client = await factory.createFromUrl(" + server.QuoteJSON(address+"/") + `);
const answer = await client.sendMessage({
  message: { messageId: crypto.randomUUID(), role: Role.ROLE_USER, parts: [{ content: { $case: 'text', value: 'hello' } }] },
});
console.log(JSON.stringify(answer, null, 2));
`},
		{Client: "another app (YAML)", Language: "yaml", Text: "agent_class: RemoteA2aAgent\nname: remote\ndescription: Does what the other app does.\nagent_card: " + card + "\n"},
	}}
}
