package loader

import (
	"path"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// collectStateUse collects the keys that a part of a document reads and writes.
func (c *nameCollector) collectStateUse(u tool.StateUse) {
	for _, t := range u.Texts {
		c.collectPlaceholders(t)
	}
	for _, e := range u.Exprs {
		c.collectExpression(e.Expr.Text)
	}
	for _, w := range u.Writes {
		c.addUse(NameUse{Kind: StateNames, Role: NameWritten, Name: w.Key.Value, Detail: w.Verb}, w.Key, 0)
	}
}

// collectPlaceholders collects a template's keys. A file in it is read as a template by itself.
func (c *nameCollector) collectPlaceholders(t tool.StateText) {
	from, last := 0, -1
	for _, ref := range t.Refs {
		if ref.Offset != last {
			from, last = ref.Offset, ref.Offset
		}
		at := findPlaceholderName(t.Text.Value, from, ref.Name)
		if at < 0 {
			at = ref.Offset
		}
		from = at + len(ref.Name)
		c.addUse(NameUse{Kind: StateNames, Name: ref.Name}, t.Text, min(at, len(t.Text.Value)))
	}
	for _, file := range referencedFiles(t.Text.Value) {
		switch {
		case t.Paths:
			c.addProblem(t.Text.Errorf(0, "file", "the names in %s are not known: it is part of a tool's template", file))
		case !escapesFolder(file):
			c.addFile(namedFile{appFile, appForm}.joinPath(file), templateForm)
		}
	}
}

// findPlaceholderName finds a placeholder's name after its braces, blanks and the prefix state. It
// returns -1 if there is none.
func findPlaceholderName(src string, from int, name string) int {
	for at := from; at < len(src); at++ {
		rest := src[at:]
		if !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, "<") {
			continue
		}
		inner := strings.TrimLeft(rest, "{< \t\r\n")
		if bare, ok := strings.CutPrefix(inner, "state."); ok && strings.HasPrefix(bare, name) && endsName(bare[len(name):]) {
			inner = bare
		}
		if strings.HasPrefix(inner, name) && endsName(inner[len(name):]) {
			return len(src) - len(inner)
		}
	}
	return -1
}

// endsName reports whether a placeholder's name ends before this text.
func endsName(rest string) bool {
	return rest != "" && strings.ContainsAny(rest[:1], "}>?.[ \t\r\n")
}

// referencedFiles returns the files in a string's ${file:…}, which are not replaced here.
func referencedFiles(text string) []string {
	var files []string
	for {
		_, rest, ok := strings.Cut(text, "${file:")
		if !ok {
			return files
		}
		file, after, _ := strings.Cut(rest, "}")
		files, text = append(files, file), after
	}
}

// collectExpression collects the state keys in an expression, the tools whose responses it reads, and
// the strings that it compares with the names of agents and tools.
func (c *nameCollector) collectExpression(t spec.Text) {
	if t.Value == "" {
		return
	}
	if files := referencedFiles(t.Value); len(files) > 0 {
		c.addProblem(t.Errorf(0, "file", "the names in %s are not known: it is part of an expression", files[0]))
	}
	quoted := func(kind NameKind, role NameRole, name string, offset int) {
		if offset < len(t.Value) && strings.ContainsAny(t.Value[offset:offset+1], "\"'`") {
			offset++
		}
		c.addUse(NameUse{Kind: kind, Role: role, Name: name}, t, offset)
	}
	for _, m := range template.UsesOf(t.Value, "state").Members {
		quoted(StateNames, NameUsed, m.Name, m.Offset)
	}
	if c.file.form >= scriptForm {
		for _, m := range template.UsesOf(t.Value, "responses").Members {
			quoted(ToolNames, NameMentioned, m.Name, m.Offset)
		}
	}
	for _, l := range template.MemberLiterals(t.Value) {
		switch l.Member {
		case "name", "tool":
			if slices.Contains([]string{"args", "response", "state", "session"}, l.Owner) {
				continue // a value, not a tool
			}
			quoted(ToolNames, NameMentioned, l.Value, l.Offset)
		case "author", "agent", "agent_name", "transfer":
			quoted(AgentNames, NameMentioned, l.Value, l.Offset)
		}
	}
}

// collectMentions collects the names in backticks in an instruction.
func (c *nameCollector) collectMentions(t spec.Text) {
	for _, m := range backtickName.FindAllStringSubmatchIndex(t.Value, -1) {
		c.addUse(NameUse{Kind: ToolNames, Role: NameMentioned, Name: t.Value[m[2]:m[3]]}, t, m[2])
	}
}

// collectTemplate collects the mentions in a text file from an offset on, and the keys of its
// placeholders, at its own bytes.
func (c *nameCollector) collectTemplate(src string, from int, hasKeys bool) {
	add := func(kind NameKind, role NameRole, name string, at int) {
		c.found.uses = append(c.found.uses, NameUse{
			Kind: kind, Role: role, Name: name, File: c.file.path, Range: spec.Range{Start: at, End: at + len(name)}, Exact: true,
		})
	}
	if hasKeys {
		for _, ref := range template.Parse(src).Refs() {
			if at := findPlaceholderName(src, ref.Offset, ref.Name); !ref.Artifact && ref.Offset >= from && at >= 0 {
				add(StateNames, NameUsed, ref.Name, at)
			}
		}
	}
	for _, m := range backtickName.FindAllStringSubmatchIndex(src, -1) {
		if m[0] >= from {
			add(ToolNames, NameMentioned, src[m[2]:m[3]], m[2])
		}
	}
}

// collectSkill collects the tools that a skill names, and the state keys in its text.
func (c *nameCollector) collectSkill(text []byte) {
	folder, file := path.Split(c.file.path)
	content := tool.SkillContent{Folder: path.Clean(folder), Name: path.Base(folder), Files: map[string][]byte{file: text}}
	for _, kind := range c.loader.kinds.Tools {
		config, ok := kind.NewConfig().(tool.SkillConfig)
		if !ok || !slices.Contains(config.SkillFileNames(), file) {
			continue
		}
		skill, ds := config.ReadSkill(content, c.file.path)
		for _, d := range ds {
			if d.Severity == spec.Error {
				c.addProblem(d)
			}
		}
		named, ok := skill.(tool.NamingSkill)
		if !ok {
			return
		}
		for _, name := range named.ToolTexts() {
			c.addText(ToolNames, name)
		}
		src := string(text)
		c.collectTemplate(src, strings.Index(src, "\n---"), named.ReadsState())
		return
	}
}

// collectScript collects a scripted model's answers: the tools that it calls, and those whose
// responses it reads.
func (c *nameCollector) collectScript(n *spec.Node) {
	for _, entry := range n.Items {
		c.collectExpression(entry.Get("when").Text())
		c.collectResponses(entry.Get("text").Text())
		if calls := entry.Get("calls"); calls != nil {
			for _, call := range calls.Items {
				c.addNode(ToolNames, NameUsed, call.Get("name"))
				c.addNode(AgentNames, NameUsed, call.Get("args").Get("agent_name"))
			}
		}
	}
}

// collectResponses collects the tools in {responses.TOOL.…}.
func (c *nameCollector) collectResponses(t spec.Text) {
	paths, err := template.ParsePaths(t.Value)
	if err != nil {
		return
	}
	for _, ref := range paths.Refs() {
		if rest, ok := strings.CutPrefix(ref.Name, "responses."); ok {
			name, _, _ := strings.Cut(rest, ".")
			at := strings.Index(t.Value[ref.Offset:], "responses.")
			c.addUse(NameUse{Kind: ToolNames, Role: NameMentioned, Name: name}, t, ref.Offset+at+len("responses."))
		}
	}
}

// collectByKind collects the names in a file of a program's kind, which states where they are.
func (c *nameCollector) collectByKind(n *spec.Node, kind *FileKind, steps []string) {
	own := kind.Names(steps, "")
	for _, e := range n.Entries {
		c.addByKind(own, e.Key)
		switch of := kind.Names(steps, e.Key.Value); {
		case of == Scripts && e.Value.Kind == spec.Scalar:
			c.addAppFile(e.Value, scriptForm)
			continue
		case of == Scripts && e.Value.Kind == spec.Sequence:
			c.collectScript(e.Value)
			continue
		case of == CaseNames:
			c.addNode(CaseNames, NameDeclared, e.Value).Whole = c.locator.RangeOf(n)
		case e.Value.Kind == spec.Scalar:
			c.addByKind(of, e.Value)
		}
		if own == AgentNames && kind.Names(steps[:len(steps)-1], steps[len(steps)-1]) == Scripts {
			c.collectScript(e.Value) // an agent's answers
			if e.Value.Kind == spec.Scalar {
				c.addAppFile(e.Value, scriptForm)
			}
			continue
		}
		c.collectByKind(e.Value, kind, append(slices.Clip(steps), e.Key.Value))
	}
	items := append(slices.Clip(steps), "[]")
	for _, item := range n.Items {
		if item.Kind == spec.Scalar {
			c.addByKind(kind.Names(items, ""), item)
			continue
		}
		c.collectByKind(item, kind, items)
	}
}

func (c *nameCollector) addByKind(kind NameKind, n *spec.Node) {
	switch kind {
	case NoNames, Scripts, CaseNames:
	case Expressions:
		c.collectExpression(n.Text())
	case StateValues:
		c.addNode(StateNames, NameSupplied, n)
	default:
		c.addNode(kind, NameUsed, n)
	}
}
