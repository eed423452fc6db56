package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/loader"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
	"agenthost/wing/mcpserver/mcpskills"
)

// sectionKey is the key in app.yaml, and the rule that its problems name.
const sectionKey = "mcp_server"

// Section returns the kind of mcp_server in app.yaml.
func Section() spec.Kind[loader.SectionEnv, any] {
	return spec.NewKind(sectionKey, "Serves the app as an MCP server at /apps/APP/mcp; an empty mapping offers the root agent as a tool. See [mcp-server.md](mcp-server.md).",
		func(_ context.Context, env loader.SectionEnv, c *sectionConfig) (any, error) {
			return c.buildSettings(&env)
		})
}

// sectionConfig is mcp_server.
type sectionConfig struct {
	Expose       []exposeConfig `yaml:"expose" doc:"What clients see, at most 64 entries. Default: the root agent as a tool with its name."`
	Session      string         `yaml:"session" enum:"argument|connection|call" default:"connection" doc:"Which conversation a call belongs to. connection: that of the handle in the argument session, otherwise, for a client with a connection, the one of its connection, otherwise a new one. argument: that of the handle, otherwise a new one. call: always a new one."`
	Instructions string         `yaml:"instructions" doc:"Text about the server for clients' models, at most 4000 characters."`
}

// exposeConfig is an entry in mcp_server.expose.
type exposeConfig struct {
	Agent       string           `yaml:"agent" doc:"An agent as a tool. It is in the agent tree, and neither a workflow's node nor called as a tool."`
	Tool        string           `yaml:"tool" doc:"With agent, the tool's name: letters, digits, _ and -, at most 64 characters; the default is the agent's name. Without agent, a tool of the app's agents, which clients call without a model."`
	From        string           `yaml:"from" doc:"The agent with the tool, for a tool that several agents have in different forms, and for one that a server lists when it is called."`
	Description string           `yaml:"description" doc:"The description of the tool or prompt. Default: the agent's, or the tool's own."`
	Tasks       string           `yaml:"tasks" enum:"optional|required" default:"optional" doc:"Whether the tool needs clients with tasks. optional: a long call continues as a task for clients that offer tasks. required: each call is a task, and a call by another client is rejected."`
	Artifacts   bool             `yaml:"artifacts" doc:"The artifacts of the caller's sessions as resources artifact://SESSION/NAME."`
	Skill       string           `yaml:"skill" doc:"A skill of the app's agents by its name, with its files as resources skill://NAME/FILE (SEP-2640)."`
	Prompt      string           `yaml:"prompt" doc:"A prompt with this name, whose text is text."`
	Resource    string           `yaml:"resource" doc:"A resource with this URI. A {NAME} in the URI matches one segment and makes the resource a template."`
	Text        string           `yaml:"text" doc:"The text of the prompt or resource; {NAME} is replaced by an argument's value."`
	Data        string           `yaml:"data" doc:"The resource's bytes as base64, instead of text."`
	MIMEType    string           `yaml:"mime_type" doc:"The resource's media type. Default: text/plain, and for data application/octet-stream."`
	Attach      []string         `yaml:"attach" doc:"URIs whose contents precede the prompt's text: resources in expose, or the caller's artifacts. At most 8; {NAME} is replaced by an argument's value."`
	Arguments   []argumentConfig `yaml:"arguments" doc:"The arguments of the prompt, or of the resource's URI; at most 16."`
}

// argumentConfig is an argument of a prompt or a template.
type argumentConfig struct {
	Name        string   `yaml:"name" required:"true" doc:"The argument's name."`
	Description string   `yaml:"description" doc:"What the argument means."`
	Required    bool     `yaml:"required" doc:"Whether the argument is required."`
	Values      []string `yaml:"values" doc:"Values that clients can complete, at most 100. Others are valid too."`
}

// Limits for mcp_server.
const (
	maxExposed      = 64
	maxArguments    = 16
	maxValues       = 100
	maxAttached     = 8
	maxResource     = 512 << 10
	maxInstructions = 4000
)

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Check reports values that are not in their range or form, at their position in n, the mapping
// that the config was decoded from.
func (c *sectionConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if utf8.RuneCountInString(c.Instructions) > maxInstructions {
		ds = append(ds, n.Get("instructions").Errorf(sectionKey, "instructions exceeds the limit of %d characters", maxInstructions))
	}
	if len(c.Expose) > maxExposed {
		return append(ds, n.Get("expose").Errorf(sectionKey, "expose exceeds the limit of %d, got %d", maxExposed, len(c.Expose)))
	}
	names := map[string]bool{}
	for i := range c.Expose {
		at := n.Get("expose").Items[i]
		ds = append(ds, c.Expose[i].checkEntry(at)...)
		if name := c.Expose[i].entryName(); name != "" && names[name] {
			ds = append(ds, at.Errorf(sectionKey, "duplicate %s", name))
		} else {
			names[name] = true
		}
	}
	return ds
}

// entryName names the entry in messages, by what must be unique.
func (e *exposeConfig) entryName() string {
	switch {
	case e.Tool != "":
		return fmt.Sprintf("tool %q", e.Tool)
	case e.Agent != "":
		return fmt.Sprintf("tool %q", e.Agent)
	case e.Skill != "":
		return fmt.Sprintf("skill %q", e.Skill)
	case e.Prompt != "":
		return fmt.Sprintf("prompt %q", e.Prompt)
	case e.Resource != "":
		return fmt.Sprintf("resource %q", e.Resource)
	}
	return ""
}

// isTool reports whether the entry is a tool without a model.
func (e *exposeConfig) isTool() bool { return e.Tool != "" && e.Agent == "" }

func (e *exposeConfig) checkEntry(at *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	kinds := 0
	for _, is := range []bool{e.Agent != "", e.isTool(), e.Artifacts, e.Skill != "", e.Prompt != "", e.Resource != ""} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		ds = append(ds, at.Errorf(sectionKey, "exactly one of agent, tool, artifacts, skill, prompt and resource is required"))
	}
	if e.Tool != "" && !toolName.MatchString(e.Tool) {
		ds = append(ds, at.Get("tool").Errorf(sectionKey, "tool %q must have 1 to 64 characters: letters, digits, _ and -", e.Tool))
	}
	if e.From != "" && !e.isTool() {
		ds = append(ds, at.Get("from").Errorf(sectionKey, "from belongs to a tool without agent: tool is required, and agent is not allowed"))
	}
	if e.Tasks == tasksRequired && e.Agent == "" && !e.isTool() {
		ds = append(ds, at.Get("tasks").Errorf(sectionKey, "tasks belongs to an agent or tool: agent or tool is required"))
	}
	if e.Prompt != "" && e.Text == "" {
		ds = append(ds, at.Errorf(sectionKey, "text is required for a prompt"))
	}
	if e.Prompt == "" && e.Resource == "" && (e.Text != "" || len(e.Arguments) > 0) {
		ds = append(ds, at.Errorf(sectionKey, "text and arguments belong to a prompt or resource: prompt or resource is required"))
	}
	if e.Prompt == "" && len(e.Attach) > 0 {
		ds = append(ds, at.Get("attach").Errorf(sectionKey, "attach belongs to a prompt: prompt is required"))
	}
	if len(e.Attach) > maxAttached {
		ds = append(ds, at.Get("attach").Errorf(sectionKey, "attach exceeds the limit of %d, got %d", maxAttached, len(e.Attach)))
	}
	if len(e.Arguments) > maxArguments {
		ds = append(ds, at.Get("arguments").Errorf(sectionKey, "arguments exceeds the limit of %d, got %d", maxArguments, len(e.Arguments)))
	}
	for i := range e.Arguments {
		if n := len(e.Arguments[i].Values); n > maxValues {
			ds = append(ds, at.Get("arguments").Items[i].Errorf(sectionKey, "values exceeds the limit of %d, got %d", maxValues, n))
		}
	}
	return append(ds, e.checkResource(at)...)
}

// Settings are what an app offers to MCP clients.
type Settings struct {
	// Tools are agents and tools without a model, by their order in the document.
	Tools []AgentTool
	// Prompts are texts with arguments.
	Prompts []Prompt
	// Resources are texts and bytes with a URI.
	Resources []Resource
	// Artifacts offers the artifacts in the caller's sessions.
	Artifacts bool
	// Skills are the skills with their files; nil for none.
	Skills *mcpskills.Catalog
	// Session is argument, connection or call.
	Session string
	// Instructions are for clients' models.
	Instructions string
}

// An AgentTool is an agent as a tool, or a tool without a model.
type AgentTool struct {
	Name, Description string
	// Entry calls the tool without a model; nil for an agent.
	Entry *runtime.ToolNode
	// Agent is the agent that answers, or the entry. It is empty for the agent that continues the session, first the root: that of the only tool.
	Agent string
	// Input and Output are the schemas of the agent, or those in the tool's declaration; nil without.
	Input, Output *tool.Schema
	// RequiresTask rejects clients that do not offer tasks; each call is one.
	RequiresTask bool
}

// A Prompt is text with arguments.
type Prompt struct {
	Name, Description, Text string
	Arguments               []PromptArgument
	// Attach are the URIs whose contents precede the text.
	Attach []string
}

// A PromptArgument is replaced in the text of a prompt or a resource.
type PromptArgument struct {
	Name, Description string
	Required          bool
	// Values are those that a client can complete.
	Values []string
}

// DefaultSettings returns the settings that offer the root agent.
func DefaultSettings(root runtime.Agent) *Settings {
	return &Settings{Session: sessionOfConnection, Tools: []AgentTool{newAgentTool(root, "")}}
}

// tasksRequired is a value of tasks in mcp_server.expose.
const tasksRequired = "required"

// The values of mcp_server.session.
const (
	sessionOfArgument   = "argument"
	sessionOfConnection = "connection"
	sessionOfCall       = "call"
)

func newAgentTool(a runtime.Agent, name string) AgentTool {
	if name == "" {
		name = a.Name()
	}
	return AgentTool{Name: name, Description: a.Description(), Input: runtime.InputSchema(a), Output: runtime.OutputSchema(a)}
}

// newToolTool returns a tool without a model. A schema that does not compile is the tool's own matter.
func newToolTool(entry *runtime.ToolNode) AgentTool {
	decl, _ := entry.Declaration()
	t := AgentTool{Name: decl.Name, Description: decl.Description, Agent: entry.Name(), Entry: entry}
	compile := func(decl *genai.FunctionDeclaration) *tool.Schema {
		if described, err := tool.DecodeParams(decl); err == nil && described != nil {
			if schema, err := declare.Schema(described); err == nil {
				return schema
			}
		}
		return nil
	}
	t.Input = compile(decl)
	t.Output = compile(&genai.FunctionDeclaration{Parameters: decl.Response, ParametersJsonSchema: decl.ResponseJsonSchema})
	return t
}

// buildSettings resolves the agents, tools and skills.
func (c *sectionConfig) buildSettings(env *loader.SectionEnv) (*Settings, error) {
	root := env.Root
	s := &Settings{Session: c.Session, Instructions: c.Instructions}
	if len(c.Expose) == 0 {
		s.Tools = DefaultSettings(root).Tools
	}
	if err := c.buildSkills(s, env.Skills); err != nil {
		return nil, err
	}
	for i := range c.Expose {
		e := &c.Expose[i]
		switch {
		case e.Skill != "":
		case e.Artifacts:
			s.Artifacts = true
		case e.Prompt != "":
			s.Prompts = append(s.Prompts, Prompt{Name: e.Prompt, Description: e.Description, Text: e.Text, Attach: e.Attach, Arguments: e.buildArguments()})
		case e.Resource != "":
			s.Resources = append(s.Resources, e.buildResource())
		default:
			t, err := e.buildTool(env)
			if err != nil {
				return nil, err
			}
			s.Tools = append(s.Tools, t)
		}
	}
	if len(s.Tools) > 1 { // the root's tool does not continue with the agent of another tool
		for i := range s.Tools {
			if s.Tools[i].Agent == "" {
				s.Tools[i].Agent = root.Name()
			}
		}
	}
	return s, nil
}

// buildTool resolves an agent or a tool.
func (e *exposeConfig) buildTool(env *loader.SectionEnv) (AgentTool, error) {
	var t AgentTool
	if e.isTool() {
		entry, err := runtime.NewToolEntry(env.Root, e.Tool, e.From)
		if err != nil {
			return t, err
		}
		env.AddEntry(entry)
		t = newToolTool(entry)
	} else {
		a := protocol.FindAgent(env.Root, e.Agent)
		if a == nil {
			return t, fmt.Errorf("agent %q not found in the agent tree, or it is a workflow's node", e.Agent)
		}
		if t = newAgentTool(a, e.Tool); a != env.Root {
			t.Agent = a.Name()
		}
	}
	t.RequiresTask = e.Tasks == tasksRequired
	if e.Description != "" {
		t.Description = e.Description
	}
	return t, nil
}

// buildSkills finds the skills among those of the app's agents.
func (c *sectionConfig) buildSkills(s *Settings, skills []tool.Skill) error {
	var chosen []tool.Skill
	for i := range c.Expose {
		name := c.Expose[i].Skill
		if name == "" {
			continue
		}
		var found, names []string
		for _, skill := range skills {
			if names = append(names, skill.Content().Name); skill.Content().Name == name {
				chosen, found = append(chosen, skill), append(found, skill.Content().Folder)
			}
		}
		switch {
		case len(skills) == 0:
			return fmt.Errorf("skill %q not found: the app's agents have no skills", name)
		case len(found) == 0:
			return fmt.Errorf("skill %q not found; the skills of the app's agents are %s", name, protocol.TruncateText(strings.Join(names, ", "), maxErrorLine))
		case len(found) > 1:
			return fmt.Errorf("skill %q is in more than one folder: %s", name, strings.Join(found, ", "))
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	var err error
	s.Skills, err = mcpskills.NewCatalog(chosen)
	return err
}

func (e *exposeConfig) buildArguments() []PromptArgument {
	var all []PromptArgument
	for _, a := range e.Arguments {
		all = append(all, PromptArgument(a))
	}
	return all
}

// describeProtocol describes MCP to a person who connects a client.
func (h *handlers) describeProtocol(base string, app *runtime.App) server.Protocol {
	address := base + "/apps/" + url.PathEscape(app.Name()) + "/mcp"
	remote := remoteEntry{Type: "http", URL: address}
	if h.HasAuth() {
		remote.Headers = map[string]string{"Authorization": "Bearer ${AGENTHOST_TOKEN}"}
	}
	encode := func(entry any) string {
		text, _ := json.MarshalIndent(map[string]any{"mcpServers": map[string]any{app.Name(): entry}}, "", "  ") // strings cannot fail
		return string(text) + "\n"
	}
	return server.Protocol{Name: "MCP", Section: sectionKey, Offered: h.settingsOf(app) != nil, Address: address, Snippets: []server.Snippet{
		{Client: "editors with remote servers (.mcp.json)", Language: "json", Text: encode(remote)},
		{Client: "desktop programs that start agenthost", Language: "json", Text: encode(localEntry{"agenthost", []string{"mcp", "APPDIR"}})},
	}}
}

// remoteEntry and localEntry are a client's entries for servers.
type (
	remoteEntry struct {
		Type    string            `json:"type"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers,omitempty"`
	}
	localEntry struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
)
