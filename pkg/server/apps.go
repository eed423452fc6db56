package server

import (
	"errors"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
)

type (
	versionBody struct {
		Version         string `json:"version"`
		Language        string `json:"language"`
		LanguageVersion string `json:"language_version"`
	}
	appsBody struct {
		Apps []appBody `json:"apps"`
	}
	appBody struct {
		Name          string `json:"name"`
		RootAgentName string `json:"rootAgentName"`
		Description   string `json:"description"`
		Language      string `json:"language"`
		IsComputerUse bool   `json:"isComputerUse"`
	}
)

func (s *Services) handleVersion(w http.ResponseWriter, _ *http.Request) error {
	return WriteJSON(w, versionBody{s.opts.Version, "go", strings.TrimPrefix(goruntime.Version(), "go")})
}

func (s *Services) handleListApps(w http.ResponseWriter, r *http.Request) error {
	detailed, err := ReadQueryFlag(r, "detailed")
	if err != nil {
		return err
	}
	apps := slices.DeleteFunc(s.host.Apps(), func(a *runtime.App) bool { return !s.canUseApp(r, a.Name()) })
	if detailed {
		return WriteJSON(w, appsBody{newAppBodies(apps)})
	}
	names := make([]string, len(apps))
	for i, a := range apps {
		names[i] = a.Name()
	}
	for _, x := range s.extensions {
		if x.ListApps != nil {
			names = append(names, x.ListApps()...)
		}
	}
	slices.Sort(names)
	return WriteJSON(w, slices.Compact(names))
}

func newAppBodies(apps []*runtime.App) []appBody {
	bodies := make([]appBody, len(apps))
	for i, a := range apps {
		bodies[i] = appBody{Name: a.Name(), RootAgentName: a.Root().Name(), Description: a.Description(), Language: "yaml"}
	}
	return bodies
}

// handleDiagnostics responds with the reloader's status for an app. Apps built in Go code are
// unknown to the reloader and have no problems.
func (s *Services) handleDiagnostics(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("app")
	if s.opts.Reloader != nil {
		if st, ok := s.opts.Reloader.Status(name); ok {
			return WriteJSON(w, st)
		}
	}
	app := s.host.App(name)
	if app == nil {
		return appNotFound(name)
	}
	return WriteJSON(w, Status{App: name, Revision: app.Revision(), OK: true})
}

func (s *Services) handlePreview(w http.ResponseWriter, r *http.Request) error {
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	req := &runtime.PreviewRequest{
		App: r.PathValue("app"), Agent: b.ReadString("agent"), UserID: b.ReadString("userId"), SessionID: b.ReadString("sessionId"),
		State: b.ReadMap("state"), Text: b.ReadString("text"),
	}
	if err := b.Err(); err != nil {
		return err
	}
	p, err := s.host.Preview(r.Context(), req)
	var re *runtime.RunError
	if errors.As(err, &re) && re.Code == runtime.CodeMissingValue {
		// The request contains the state, so a missing value is the client's error.
		return badRequest(re.Message)
	}
	if err != nil {
		return err
	}
	return WriteJSON(w, p)
}

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

// handleAppInfo describes an app's LLM agents. As in adk-python, the root agent must be an
// LLM agent.
func (s *Services) handleAppInfo(w http.ResponseWriter, r *http.Request) error {
	app := s.host.App(r.PathValue("app"))
	if app == nil {
		return appNotFound(r.PathValue("app"))
	}
	if _, ok := app.Root().(*runtime.LLMAgent); !ok {
		return badRequest("Root agent is not an LlmAgent")
	}
	body := appInfoBody{appBody: newAppBodies([]*runtime.App{app})[0], Agents: map[string]*agentInfoBody{}}
	body.addAgents(app.AgentInfo())
	return WriteJSON(w, body)
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
