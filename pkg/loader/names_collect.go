package loader

import (
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/internal/limit"
	"agenthost/pkg/connection"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// collectedNames are the names in one file.
type collectedNames struct {
	uses  []NameUse
	files []namedFile
	// skillFolders are the folders that have skills, or are skills.
	skillFolders []string
	// problem is the first error that may hide names.
	problem *spec.Diagnostic
}

// A nameCollector finds the names in one file. It follows no name: a declaration is decoded where it
// is written.
type nameCollector struct {
	loader  *Loader
	file    namedFile
	locator *spec.Locator
	found   collectedNames
}

// collectNames returns the names in a file.
func (l *Loader) collectNames(file namedFile, text []byte) collectedNames {
	c := &nameCollector{loader: l, file: file, locator: spec.NewLocator(text)}
	switch file.form {
	case templateForm:
		c.collectTemplate(string(text), 0, true)
		return c.found
	case skillForm:
		c.collectSkill(text)
		return c.found
	}
	if len(text) > limit.AppFile.Bytes {
		c.addProblem(spec.Diagnostic{Pos: spec.Pos{File: file.path}, Rule: "limit", Message: "the file exceeds the limit of 4 MiB"})
		return c.found
	}
	n, ds := spec.Parse(file.path, text)
	for _, d := range ds {
		if d.Severity == spec.Error {
			c.addProblem(d)
			return c.found
		}
	}
	// Variables have no values here: a reference with a default has that, and others stay as they are.
	spec.Interpolate(n, func(string, string) (string, error) { return "", spec.ErrUnset })
	switch {
	case file.form == appForm:
		c.collectApp(n)
	case file.form == includeForm:
		c.collectParts(n)
	case file.form == rootForm || file.form == agentForm:
		c.collectParts(n)
		c.collectAgent(n)
	case file.form == scriptForm:
		c.collectScript(n)
	default:
		c.collectByKind(n, &l.kinds.Files[file.form-firstKindForm], nil)
	}
	return c.found
}

func (c *nameCollector) addProblem(d spec.Diagnostic) {
	if c.found.problem == nil {
		c.found.problem = &d
	}
}

// recordProblems records the first problem that hides a value. A missing field or name hides nothing,
// and a value with a reference may be valid once it is replaced.
func (c *nameCollector) recordProblems(ds spec.Diagnostics) {
	harmless := []string{"required", "unknown-name", "model", "env", "secret", "grant", "file", "code", "agent-name", "state-schema"}
	for _, d := range ds {
		if d.Severity == spec.Error && !slices.Contains(harmless, d.Rule) && !strings.Contains(d.Source, "${") {
			c.addProblem(d)
			return
		}
	}
}

// addUse adds a name that begins at an offset in a string.
func (c *nameCollector) addUse(u NameUse, t spec.Text, offset int) *NameUse {
	if u.Name == "" {
		return &NameUse{}
	}
	u.File = c.file.path
	end := min(offset+len(u.Name), len(t.Value))
	u.Range, u.Exact = c.locator.Locate(t, offset, end)
	u.Exact = u.Exact && t.Value[offset:end] == u.Name
	c.found.uses = append(c.found.uses, u)
	return &c.found.uses[len(c.found.uses)-1]
}

// addNode adds a scalar that is a name.
func (c *nameCollector) addNode(kind NameKind, role NameRole, n *spec.Node) *NameUse {
	if n == nil || n.Kind != spec.Scalar || n.IsNull() {
		return &NameUse{}
	}
	return c.addUse(NameUse{Kind: kind, Role: role, Name: n.Value}, n.Text(), 0)
}

// addText adds a string that is a name; it may be empty.
func (c *nameCollector) addText(kind NameKind, t spec.Text) {
	c.addUse(NameUse{Kind: kind, Name: t.Value}, t, 0)
}

// declareEntry adds a declaration whose name is a key.
func (c *nameCollector) declareEntry(kind NameKind, e spec.Entry) *NameUse {
	u := c.addNode(kind, NameDeclared, e.Key)
	u.Whole = spec.Range{Start: u.Range.Start, End: max(u.Range.End, c.locator.RangeOf(e.Value).End)}
	u.Detail = newSymbol("", e.Value).Doc
	return u
}

func (c *nameCollector) addFile(path string, form fileForm) {
	if path != "" && !strings.EqualFold(path[strings.LastIndexByte(path, '/')+1:], dotenvFile) {
		c.found.files = append(c.found.files, namedFile{path, form})
	}
}

// addAppFile adds a file that is named by its path in the app folder.
func (c *nameCollector) addAppFile(n *spec.Node, form fileForm) {
	if n != nil && n.Kind == spec.Scalar && n.Value != "" && !escapesFolder(n.Value) {
		c.addFile(namedFile{appFile, appForm}.joinPath(n.Value), form)
	}
}

func (c *nameCollector) collectApp(n *spec.Node) {
	switch root := n.Get("root_agent"); {
	case root == nil:
	case root.Kind == spec.Mapping:
		c.collectAgent(root)
	default:
		c.addAppFile(root, rootForm)
	}
	c.collectParts(n)
	c.addNode(ModelNames, NameUsed, n.Get("events_compaction_config").Get("summarizer").Get("model"))
}

// collectParts collects a document's declarations.
func (c *nameCollector) collectParts(n *spec.Node) {
	isAgent := c.file.form == rootForm || c.file.form == agentForm
	for _, e := range n.Entries {
		if e.Key.Value == "include" {
			for _, item := range e.Value.Items {
				c.addFile(c.file.joinPath(item.Value), includeForm)
			}
		}
		for _, part := range e.Value.Entries {
			switch key := e.Key.Value; {
			case key == "agents":
				c.declareEntry(AgentNames, part)
				c.collectAgent(part.Value)
			case key == "functions":
				c.declareEntry(FunctionNames, part)
				c.collectFunction(part.Value)
			case key == "schemas":
				c.declareEntry(SchemaNames, part)
				c.collectSchema(part.Value)
			case key == "defaults":
				c.collectAgent(part.Value)
			case key == "models" && !isAgent:
				c.declareEntry(ModelNames, part)
				c.collectModel(part.Value)
			case key == "tools" && !isAgent:
				c.declareEntry(ToolNames, part)
				c.collectTool(part.Value)
			case key == "connections" && !isAgent:
				c.declareEntry(ConnectionNames, part)
				c.collectConnection(part.Value)
			}
		}
	}
}

// collectAgent collects an agent's mapping: its names, and those in its inline agents and tools.
func (c *nameCollector) collectAgent(n *spec.Node) {
	if n.Kind != spec.Mapping {
		return
	}
	if at := n.Get("name"); at != nil {
		u := c.addNode(AgentNames, NameDeclared, at)
		u.Whole, u.Detail = c.locator.RangeOf(n), newSymbol("", n).Doc
	}
	kinds := c.loader.kinds.Agents
	kind, ok := kinds.Lookup(normalizeClassName(n.Get("agent_class").Text().Value))
	if !ok {
		if kind, ok = kinds.Lookup("LlmAgent"); !ok {
			return
		}
	}
	settings := c.collectAgentKeys(n)
	plan, ds := kind.Decode(settings)
	c.recordProblems(ds)
	use := agentconfig.StateUse(settings, plan.Config)
	c.collectStateUse(use)
	if config, ok := plan.Config.(agentconfig.AgentConfig); ok {
		for _, ref := range config.AgentRefs() {
			c.collectAgentRef(ref)
		}
	}
	if config, ok := plan.Config.(agentconfig.ToolConfig); ok {
		for _, ref := range config.ToolRefs() {
			c.collectToolRef(ref)
		}
	}
	if config, ok := plan.Config.(agentconfig.ModelConfig); ok {
		c.addText(ModelNames, config.ModelName())
	}
	if config, ok := plan.Config.(agentconfig.PromptConfig); ok && config.PromptRef() != nil {
		c.addText(ToolNames, config.PromptRef().Server)
	}
	if config, ok := plan.Config.(agentconfig.InstructionConfig); ok {
		for _, text := range config.Instructions() {
			c.collectMentions(text)
		}
	}
	if config, ok := plan.Config.(agentconfig.EdgeConfig); ok && config.Graph() != nil {
		for _, node := range config.Graph().Uses {
			c.collectNode(node.At)
		}
	}
	if at := n.Get("instruction_provider"); at != nil {
		for _, call := range template.Calls(at.Value, "file") {
			if call.Literal && !escapesFolder(call.Text) {
				c.addFile(namedFile{appFile, appForm}.joinPath(call.Text), templateForm)
			}
		}
	}
}

// collectAgentKeys collects the names in an agent's mapping that it is decoded without: schemas, code
// and a file's declarations. It returns the other settings.
func (c *nameCollector) collectAgentKeys(n *spec.Node) *spec.Node {
	settings := *n
	settings.Entries = nil
	for _, e := range n.Entries {
		switch key := e.Key.Value; {
		case slices.Contains([]string{"include", "agents", "functions", "schemas", "defaults"}, key):
			continue // see collectParts
		case key == "output_schema" || key == "input_schema":
			if ref := agentconfig.CodeRef(e.Value); ref != nil {
				c.addNode(FunctionNames, NameUsed, ref)
			} else {
				c.collectSchema(e.Value)
			}
			continue
		case strings.HasSuffix(key, "_schema_code"):
			c.addNode(FunctionNames, NameUsed, agentconfig.CodeRef(e.Value))
			continue
		case key == "state_schema":
			c.collectStateSchema(e.Value)
			continue
		case key == "agent_class" || key == "model_code" || key == "func_code" || key == "code_executor":
			c.addNode(FunctionNames, NameUsed, agentconfig.CodeRef(e.Value))
		case strings.HasSuffix(key, "_callbacks"):
			for _, item := range e.Value.Items {
				c.addNode(FunctionNames, NameUsed, item.Get("name"))
			}
		}
		settings.Entries = append(settings.Entries, e)
	}
	return &settings
}

func (c *nameCollector) collectSchema(n *spec.Node) {
	names, _ := spec.SchemaNames(n)
	for _, name := range names {
		c.addNode(SchemaNames, NameUsed, name)
	}
}

// collectStateSchema collects the keys in a state schema. One with a default has a value without
// being written.
func (c *nameCollector) collectStateSchema(n *spec.Node) {
	c.collectSchema(n)
	if properties := n.Get("properties"); properties != nil && properties.Kind == spec.Mapping {
		n = properties
	}
	for _, e := range n.Entries {
		if u := c.declareEntry(StateNames, e); e.Value.Get("default") != nil {
			u.Role = NameWritten
		}
	}
}

// collectNode collects a workflow's node where an edge names it. Files and inline agents are the
// workflow's agents.
func (c *nameCollector) collectNode(n *spec.Node) {
	if n.Kind == spec.Mapping && len(n.Entries) == 1 {
		n = n.Entries[0].Value
	}
	if n.Kind != spec.Scalar || n.IsNull() || strings.HasSuffix(n.Value, ".yaml") || strings.HasSuffix(n.Value, ".yml") {
		return
	}
	kind := AgentNames
	if isCodeName(n.Value) {
		kind = FunctionNames
	}
	c.addNode(kind, NameUsed, n)
}

func (c *nameCollector) collectAgentRef(ref *agentconfig.AgentRef) {
	switch {
	case ref.Inline != nil:
		c.collectAgent(ref.Inline)
	case ref.Use.Value != "":
		c.addText(AgentNames, ref.Use)
	case ref.Code.Value != "":
		c.addText(FunctionNames, ref.Code)
	case ref.ConfigPath.Value != "" && !escapesFolder(ref.ConfigPath.Value):
		c.addFile(c.file.joinPath(ref.ConfigPath.Value), agentForm)
	}
}

func (c *nameCollector) collectTool(n *spec.Node) {
	var ref agentconfig.ToolRef
	c.recordProblems(ref.DecodeSpec(n))
	c.collectToolRef(&ref)
}

func (c *nameCollector) collectToolRef(ref *agentconfig.ToolRef) {
	if ref.Use.Value != "" {
		c.addText(ToolNames, ref.Use)
		return
	}
	kind, config := ref.Kind.Value, ref.Config
	if name := ref.Name; name.Value != "" {
		c.addText(FunctionNames, name) // or a built-in tool
		kind, config = trimToolModule(name.Value), normalizeArgs(ref)
		c.addNode(FunctionNames, NameUsed, config.Get("func"))
		if kind == "AgentTool" {
			config = normalizeAgentToolArgs(config)
		}
	}
	if config == nil {
		return
	}
	if caller, ok := c.loader.kinds.AgentTools.Lookup(kind); ok {
		plan, ds := caller.Decode(config)
		c.recordProblems(ds)
		c.collectToolConfig(plan.Config, config)
		return
	}
	list := c.loader.kinds.Tools
	if ref.Name.Value != "" {
		list = c.loader.kinds.Builtins
	}
	if declared, ok := list.Lookup(kind); ok {
		if params := config.Get("params"); params != nil {
			names, plain := spec.SchemaNames(params)
			for _, name := range names {
				c.addNode(SchemaNames, NameUsed, name)
			}
			if config = replaceKey(config, "params", plain); plain.Kind == spec.Scalar {
				config = removeKey(config, "params") // a schema with all parameters
			}
		}
		plan, ds := declared.Decode(config)
		c.recordProblems(ds)
		if at := config.Get("name"); at != nil && at.Pos != config.Pos && ref.Name.Value == "" {
			u := c.addNode(ToolNames, NameDeclared, at)
			u.Whole, u.Detail = c.locator.RangeOf(config), newSymbol("", config).Doc
		}
		c.collectToolConfig(plan.Config, config)
	}
}

// collectToolConfig collects what a tool's settings name: its agent, model and connection, and the
// state.
func (c *nameCollector) collectToolConfig(config any, n *spec.Node) {
	if refs, ok := config.(agentconfig.AgentConfig); ok {
		for _, ref := range refs.AgentRefs() {
			if ref != nil {
				c.collectAgentRef(ref)
			}
		}
	}
	if named, ok := config.(agentconfig.ModelConfig); ok {
		c.addText(ModelNames, named.ModelName())
	}
	if connected, ok := config.(connection.RefConfig); ok {
		if ref := connected.Connection(); ref != nil && ref.Node != nil && !ref.IsInline() {
			c.addText(ConnectionNames, ref.Name)
		} else if ref != nil && ref.Node != nil {
			c.collectConnection(ref.Node)
		}
	}
	if skills, ok := config.(tool.SkillConfig); ok {
		for _, folder := range skills.SkillFolders() {
			c.found.skillFolders = append(c.found.skillFolders, folder.Value)
		}
		for _, more := range skills.AdditionalTools() {
			c.collectTool(more)
		}
	}
	if user, ok := config.(tool.StateConfig); ok {
		c.collectStateUse(user.StateUse(n))
	}
}

// collectFunction collects a functions entry, whose type its users decide: it is taken for what it
// looks like.
func (c *nameCollector) collectFunction(n *spec.Node) {
	if n.Kind == spec.Sequence {
		for _, item := range n.Items {
			c.collectFunction(item)
		}
		return
	}
	if n.Kind != spec.Mapping {
		c.collectSchema(n)
		return
	}
	keys := n.Keys()
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(keys, name) })
	}
	isTool := false
	if len(keys) == 1 {
		_, isTool = c.loader.kinds.Tools.Lookup(keys[0])
		isTool = isTool || keys[0] == "agent"
	}
	switch {
	case isTool:
		c.collectTool(addToolName(n, "unnamed"))
	case has("provider"):
		c.collectModel(n)
	case has("instruction", "agent_class", "sub_agents", "instruction_provider"):
		c.collectAgent(n)
	case has("use", "config_path"):
		if at := n.Get("use"); at != nil {
			kind := AgentNames // or a tool: both names are looked up
			c.addNode(kind, NameUsed, at)
			c.addNode(ToolNames, NameMentioned, at)
		}
		if at := n.Get("config_path"); at != nil {
			c.addFile(c.file.joinPath(at.Value), agentForm)
		}
	case has("when", "deny", "confirm", "respond", "fail", "emit", "replace", "save", "set", "add", "append", "max", "min"):
		c.collectStateUse(agentconfig.RuleUse(n))
	default:
		c.collectSchema(n)
	}
}

// collectModel collects the models that a model falls back or routes to, and its script.
func (c *nameCollector) collectModel(n *spec.Node) {
	kind, ok := c.loader.kinds.Models.Lookup(n.Get("provider").Text().Value)
	if !ok {
		return
	}
	plan, _ := kind.Decode(n)
	if config, ok := plan.Config.(provider.FallbackConfig); ok {
		for _, ref := range config.Fallbacks() {
			c.addText(ModelNames, ref.Model)
		}
	}
	if config, ok := plan.Config.(provider.RouteConfig); ok {
		for _, name := range config.RouteModels() {
			c.addText(ModelNames, name)
		}
		if routes := n.Get("routes"); routes != nil {
			for _, route := range routes.Items {
				c.collectExpression(route.Get("when").Text())
			}
		}
	}
	c.addAppFile(n.Get("script"), scriptForm)
}

// collectConnection collects the connection whose tokens another one exchanges.
func (c *nameCollector) collectConnection(n *spec.Node) {
	if config, _ := c.loader.decodeConnectionNode(n, true); config != nil {
		if subject := config.Subject(); subject != nil {
			c.addText(ConnectionNames, subject.Name)
		}
	}
}
