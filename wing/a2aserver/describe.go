package a2aserver

import (
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

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
