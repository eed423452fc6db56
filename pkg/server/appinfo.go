package server

import (
	"net/http"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
)

// Response bodies of /apps/{app}/app-info. The field name sub_agents is adk-python's.
type (
	appInfoBody struct {
		appBody
		Agents map[string]*agentInfoBody `json:"agents"`
	}
	agentInfoBody struct {
		Name        string        `json:"name"`
		Description string        `json:"description"`
		Instruction string        `json:"instruction"`
		Tools       []*genai.Tool `json:"tools"`
		SubAgents   []string      `json:"sub_agents"`
	}
)

// findApp returns the current revision of the app in the path.
func (s *Server) findApp(r *http.Request) (*runtime.App, error) {
	app := s.host.App(r.PathValue("app"))
	if app == nil {
		return nil, appNotFound(r.PathValue("app"))
	}
	return app, nil
}

// handleAppInfo describes the LLM agents of an app. As in adk-python, the root agent
// must be an LLM agent.
func (s *Server) handleAppInfo(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	if _, ok := app.Root.(*runtime.LLMAgent); !ok {
		return badRequest("Root agent is not an LlmAgent")
	}
	body := appInfoBody{appBody: newAppBodies([]*runtime.App{app})[0], Agents: map[string]*agentInfoBody{}}
	body.addAgents(app.AgentInfo())
	return writeJSON(w, body)
}

func (b *appInfoBody) addAgents(p *runtime.AgentInfo) {
	if p.Kind == "LlmAgent" {
		b.Agents[p.Name] = newAgentInfo(p)
	}
	for _, child := range p.Agents {
		b.addAgents(child)
	}
}

func newAgentInfo(p *runtime.AgentInfo) *agentInfoBody {
	info := &agentInfoBody{
		Name: p.Name, Description: p.Description, Instruction: p.Instruction,
		Tools: []*genai.Tool{}, SubAgents: []string{},
	}
	for _, t := range p.Tools {
		if !t.Builtin {
			info.Tools = append(info.Tools, &genai.Tool{FunctionDeclarations: []*genai.FunctionDeclaration{t.Declaration}})
		}
	}
	for _, child := range p.Agents {
		info.SubAgents = append(info.SubAgents, child.Name)
	}
	return info
}
