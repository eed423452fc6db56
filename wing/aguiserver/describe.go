package aguiserver

import (
	"net/url"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// readSettings returns what an app offers; nil for nothing.
func (h *handlers) readSettings(app *runtime.App) *Settings {
	settings, _ := app.Section(sectionKey).(*Settings)
	if settings == nil && h.opts.All {
		return &Settings{Instructions: true, Tools: true, Reasoning: true}
	}
	return settings
}

// describeProtocol describes AG-UI to a person who writes a client.
func (h *handlers) describeProtocol(base string, app *runtime.App) server.Protocol {
	address, headers := base+"/apps/"+url.PathEscape(app.Name())+"/ag-ui", ""
	if h.HasAuth() {
		headers = ", headers: { Authorization: `Bearer ${process.env.AGENTHOST_TOKEN}` }"
	}
	return server.Protocol{Name: "AG-UI", Section: sectionKey, Offered: h.readSettings(app) != nil, Address: address, Snippets: []server.Snippet{
		{Client: "npm @ag-ui/client", Language: "js", Text: `import { HttpAgent } from '@ag-ui/client';

const agent = new HttpAgent({ url: ` + server.QuoteJSON(address) + headers + ` });
agent.setMessages([{ id: crypto.randomUUID(), role: 'user', content: 'hello' }]);
await agent.runAgent();
console.log(agent.messages.at(-1).content);
`},
	}}
}
