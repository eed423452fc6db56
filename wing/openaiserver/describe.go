package openaiserver

import (
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// describeProtocol describes OpenAI's API to a person who writes a client. OpenAI's libraries require a key, which
// a host without authentication ignores.
func (h *handlers) describeProtocol(base string, app *runtime.App) server.Protocol {
	address, model := base+"/v1", server.QuoteJSON(app.Name())
	jsKey, pythonKey := `'none'`, `"none"`
	if h.HasAuth() {
		jsKey, pythonKey = "process.env.AGENTHOST_TOKEN", `os.environ["AGENTHOST_TOKEN"]`
	}
	message := `{"model": ` + model + `, "messages": [{"role": "user", "content": "hello"}]}`
	return server.Protocol{Name: "OpenAI", Section: sectionKey, Offered: h.readSettings(app) != nil, Address: address, Snippets: []server.Snippet{
		{Client: "curl", Language: "sh", Text: "curl " + server.QuoteShell(address+"/chat/completions") + h.TokenHeader() + " -H 'Content-Type: application/json' \\\n  -d " + server.QuoteShell(message) + "\n"},
		{Client: "npm openai", Language: "js", Text: `import OpenAI from 'openai';

const client = new OpenAI({ baseURL: ` + server.QuoteJSON(address) + `, apiKey: ` + jsKey + ` });
const answer = await client.chat.completions.create({ model: ` + model + `, messages: [{ role: 'user', content: 'hello' }] });
console.log(answer.choices[0].message.content);
`},
		{Client: "Python openai", Language: "python", Text: `import os
from openai import OpenAI

client = OpenAI(base_url=` + server.QuoteJSON(address) + `, api_key=` + pythonKey + `)
answer = client.chat.completions.create(model=` + model + `, messages=[{"role": "user", "content": "hello"}])
print(answer.choices[0].message.content)
`},
	}}
}
