package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/tool"
)

// A request may call one tool of the app without a model: [RunRequest.Agent] names an entry. It is a
// ToolNode that is the root of its own run, and that is not in the agent tree, so that no agent
// transfers to it and no list of agents has it. The run is like any other one: it has a session, its
// lease, limits and plugins, and the call and its response are events.
//
// The tool's agent does not run, but its callbacks for tools do: they may guard the call.

// entryPrefix begins an entry's name. It is not part of an identifier, so that agents have other
// names.
const entryPrefix = "tool:"

// ParseEntryName returns the tool that an entry calls, by the entry's name. Other agents have other
// names.
func ParseEntryName(agent string) (toolName string, isEntry bool) {
	return strings.CutPrefix(agent, entryPrefix)
}

// NewToolEntry returns the entry for the tool with a name among those of the tree's agents, for
// [AppOptions.Entries]. If from is set, the agent with that name has the tool; then it may also be a
// tool that a server lists when it is called. Agents that have the same tool have one entry. The
// error names the choice.
func NewToolEntry(root Agent, name, from string) (*ToolNode, error) {
	users := listToolUsers(root, nil)
	if from != "" {
		var own []*toolUser
		for _, u := range users {
			if u.agent.Name() == from {
				own = append(own, u)
			}
		}
		if len(own) == 0 {
			return nil, fmt.Errorf("agent %q is not in the agent tree, or has no tools", from)
		}
		users = own
	}
	var found *toolUser
	for _, u := range users {
		switch {
		case u.findTool(name) == nil:
		case found == nil:
			found = u
		case found.findTool(name).Declaration() != u.findTool(name).Declaration() || found.hasToolCallbacks() || u.hasToolCallbacks():
			a, b := found.agent.Name(), u.agent.Name()
			return nil, fmt.Errorf("agents %s and %s have different tools %q, or callbacks for them: set from to one of the agents", a, b, name)
		}
	}
	if found == nil {
		if from == "" || len(users[0].sets) == 0 {
			return nil, describeUnknownTool(users, name)
		}
		found = users[0]
	}
	return found.newEntry(name)
}

// A toolUser is an agent or a node with tools.
type toolUser struct {
	agent Agent
	tools []tool.Tool
	// sets are those whose tools are unknown before a run.
	sets      agentSets
	callbacks Callbacks
}

// listToolUsers appends the agents with tools, depth first.
func listToolUsers(a Agent, users []*toolUser) []*toolUser {
	u := &toolUser{agent: a}
	switch a := a.(type) {
	case *LLMAgent:
		u.tools, u.sets = a.opts.Tools, a.opts.Toolsets
	case *ToolNode:
		u.tools = []tool.Tool{a.tool}
	}
	if len(u.tools)+len(u.sets) > 0 {
		all := a.(baseAgent).base().Callbacks
		u.callbacks = Callbacks{BeforeTool: all.BeforeTool, AfterTool: all.AfterTool, OnToolError: all.OnToolError}
		users = append(users, u)
	}
	for _, sub := range a.SubAgents() {
		users = listToolUsers(sub, users)
	}
	return users
}

// findTool returns the tool with a name that is known before a run, or nil.
func (u *toolUser) findTool(name string) tool.Tool {
	for _, t := range u.tools {
		if t.Declaration().Name == name {
			return t
		}
	}
	return nil
}

func (u *toolUser) hasToolCallbacks() bool {
	c := &u.callbacks
	return len(c.BeforeTool)+len(c.AfterTool)+len(c.OnToolError) > 0
}

// newEntry returns the entry for one of the agent's tools.
func (u *toolUser) newEntry(name string) (*ToolNode, error) {
	t := u.findTool(name)
	switch {
	case t == nil:
		t = &setTool{u.sets, &genai.FunctionDeclaration{Name: name}}
	case tool.CapabilitiesOf(t).RequestOnly:
		return nil, fmt.Errorf("tool %q runs in a model's service, and cannot be called without a model", name)
	case name == "exit_loop" || name == "transfer_to_agent":
		return nil, fmt.Errorf("tool %q controls the run of its agent, and has no result: only models can use it", name)
	}
	entry := NewToolNode(entryPrefix+name, t, &ToolNodeOptions{Description: t.Declaration().Description})
	entry.owner, entry.Callbacks = u.agent, u.callbacks
	return entry, nil
}

// describeUnknownTool returns the error for a tool that none of the agents has.
func describeUnknownTool(users []*toolUser, name string) error {
	unknown := &tool.UnknownToolError{Name: name}
	seen := map[string]bool{}
	var servers []string
	for _, u := range users {
		for _, t := range u.tools {
			if own := t.Declaration().Name; !tool.CapabilitiesOf(t).RequestOnly && !seen[own] {
				seen[own] = true
				unknown.Names = append(unknown.Names, own)
			}
		}
		if len(u.sets) > 0 {
			servers = append(servers, u.agent.Name())
		}
	}
	if len(servers) == 0 {
		return unknown
	}
	return fmt.Errorf("%w; for a server's tool, set from to its agent: %s", unknown, strings.Join(servers[:min(len(servers), 20)], ", "))
}

// agentSets are the sets with an agent's tools.
type agentSets []tool.Set

// Tools implements [tool.Set].
func (s agentSets) Tools(ctx context.Context) ([]tool.Tool, error) {
	var all []tool.Tool
	for _, set := range s {
		tools, err := set.Tools(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, tools...)
	}
	return all, nil
}

// Close implements [tool.Set]: the sets belong to their agent.
func (s agentSets) Close() error { return nil }

// FindTool implements [tool.FinderSet]: the first set with the tool has precedence, as for a model. A
// set that lists no tools, such as one that needs the user's consent, does not hide the others'.
func (s agentSets) FindTool(ctx context.Context, call *tool.Call, name string) (tool.Tool, error) {
	unknown := &tool.UnknownToolError{Name: name}
	var failed error
	for _, set := range s {
		t, err := tool.FindTool(ctx, set, call, name)
		missing := (*tool.UnknownToolError)(nil)
		switch {
		case err == nil:
			return t, nil
		case errors.As(err, &missing):
			unknown.Names = append(unknown.Names, missing.Names...)
		case failed == nil:
			failed = err
		}
	}
	if failed != nil {
		return nil, failed
	}
	return nil, unknown
}

// Declaration returns the tool's declaration. For a tool that a server lists when the node runs, only
// the name is known.
func (a *ToolNode) Declaration() (decl *genai.FunctionDeclaration, isKnown bool) {
	_, isSet := a.tool.(*setTool)
	return a.tool.Declaration(), !isSet
}

// isEntry reports whether the node is one of [AppOptions.Entries].
func (a *ToolNode) isEntry() bool { return a.owner != nil }

// addEntries adds the entries, after the tree. An agent that a tool calls inherits the model of the
// tool's agent.
func (a *App) addEntries(entries []*ToolNode) error {
	for _, e := range entries {
		owner := a.nodes[e.owner]
		if owner == nil {
			return fmt.Errorf("the agent of %s is not in the agent tree", e.AgentName)
		}
		if a.entries[e.AgentName] != nil {
			return fmt.Errorf("duplicate entry %s", e.AgentName)
		}
		n, err := a.addToTree(e, nil, owner.llm)
		if err == nil {
			err = a.prepareTools(n)
		}
		if err != nil {
			return err
		}
		if a.entries == nil {
			a.entries = map[string]*node{}
		}
		a.entries[e.AgentName] = n
	}
	return nil
}
