package loader

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/internal/limit"
	"agenthost/internal/policy"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Limits for one tool's skills.
const (
	maxSkills      = 200
	maxSkillFiles  = 1000
	maxSkillFolder = 8 // levels below the skill's folder
)

// readSkills reads a tool's skills, if its kind has some, and reports their problems. It returns
// false if there are errors.
func (r *resolver) readSkills(config any) ([]tool.Skill, bool) {
	c, ok := config.(tool.SkillConfig)
	if !ok {
		return nil, true
	}
	var skills []tool.Skill
	var ds spec.Diagnostics
	for _, at := range c.SkillFolders() {
		folders, err := r.src.findSkills(at.Value, c.SkillFileNames())
		if err != nil {
			ds = append(ds, r.skillError(at, err)...)
			continue
		}
		for _, folder := range folders {
			skill, more := r.readSkill(c, at, folder)
			if skill != nil && slices.ContainsFunc(skills, func(s tool.Skill) bool { return s.Content().Name == skill.Content().Name }) {
				more = append(more, at.Errorf(0, "skill", "skill %s appears more than once", skill.Content().Name))
			}
			if ds = append(ds, more...); skill != nil {
				skills = append(skills, skill)
				ds = append(ds, r.checkSkillGrant(c, skill, at)...)
			}
		}
	}
	if len(skills) > maxSkills {
		ds = append(ds, c.SkillFolders()[0].Errorf(0, "skill", "%d skills exceed the limit of %d for one tool", len(skills), maxSkills))
	}
	slices.SortFunc(skills, func(a, b tool.Skill) int { return strings.Compare(a.Content().Name, b.Content().Name) })
	r.report(ds...)
	return skills, !ds.HasErrors()
}

// skillError reports an error at the place where a document names a folder.
func (r *resolver) skillError(at spec.Text, err error) spec.Diagnostics {
	if isLimitError(err) { // reported when the load ends
		return spec.Diagnostics{r.src.budget.exceeded.toDiagnostic(r.src.displayDir)}
	}
	return spec.Diagnostics{at.Errorf(0, "skill", "%s", err)}
}

// readSkill reads one skill from its files, by their paths in its folder. Hidden files, and folders
// that are not part of apps, do not belong to it. The skill is nil if there are errors.
func (r *resolver) readSkill(c tool.SkillConfig, at spec.Text, folder string) (tool.Skill, spec.Diagnostics) {
	w := &skillWalk{src: r.src, folder: folder, files: map[string][]byte{}, left: limit.SkillFiles.Bytes}
	if err := w.readFolder("", 0); err != nil {
		return nil, r.skillError(at, err)
	}
	file := c.SkillFileNames()[0]
	for _, name := range c.SkillFileNames() {
		if _, ok := w.files[name]; ok {
			file = name
			break
		}
	}
	return c.ReadSkill(tool.SkillContent{Folder: folder, Name: path.Base(folder), Files: w.files}, r.src.displayPath(path.Join(folder, file)))
}

// checkSkillGrant warns about scripts that the host does not grant: a call would fail.
func (r *resolver) checkSkillGrant(c tool.SkillConfig, skill tool.Skill, at spec.Text) spec.Diagnostics {
	if !c.RunsScripts() || !skill.HasScripts() {
		return nil
	}
	_, err := r.loader.opts.Policy.GrantSkill(r.src.name, skill.Content().Folder, policy.HashSkill(skill.Content().Files))
	ds := policyDiagnostic(err, at)
	for i := range ds {
		ds[i].Severity = spec.Warning
	}
	return ds
}

// findSkills returns the skill folders at a path: the folder itself, or its subfolders with a file
// by one of the names.
func (s *source) findSkills(given string, fileNames []string) ([]string, error) {
	folder := path.Clean(given)
	switch {
	case given == "" || folder == ".":
		return nil, errors.New("the app folder is not a skill folder")
	case strings.Contains(given, "\\"):
		return nil, errors.New(given + " contains a backslash: " + slashHint)
	case escapesFolder(given):
		return nil, errors.New(given + " is outside of the app folder")
	case slices.ContainsFunc(strings.Split(folder, "/"), isIgnored):
		return nil, errors.New(given + " is in a folder that is not part of the app")
	}
	if s.hasSkillFile(folder, fileNames) {
		return []string{folder}, nil
	}
	entries, err := s.readSkillFolder(folder)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if sub := path.Join(folder, e.name); e.isFolder && s.hasSkillFile(sub, fileNames) {
			found = append(found, sub)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no skill in " + s.displayPath(folder) + ": a skill is a folder with " + fileNames[0])
	}
	return found, nil
}

func (s *source) hasSkillFile(folder string, fileNames []string) bool {
	return slices.ContainsFunc(fileNames, func(name string) bool { return s.fileExists(path.Join(folder, name)) })
}

// A skillWalk reads one skill's files within the limits.
type skillWalk struct {
	src    *source
	folder string
	files  map[string][]byte
	left   int
}

func (w *skillWalk) readFolder(sub string, depth int) error {
	if depth > maxSkillFolder {
		return errors.New("skill " + w.src.displayPath(w.folder) + " has folders more than 8 levels deep")
	}
	entries, err := w.src.readSkillFolder(path.Join(w.folder, sub))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(sub, e.name)
		if e.isFolder {
			err = w.readFolder(name, depth+1)
		} else {
			err = w.readFile(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *skillWalk) readFile(name string) error {
	file := path.Join(w.folder, name)
	shown := w.src.displayPath(file)
	if len(w.files) == maxSkillFiles {
		return errors.New("skill " + w.src.displayPath(w.folder) + " has more than 1000 files")
	}
	b, err := w.src.readWithinBudget(file)
	switch {
	case isLimitError(err):
		return err
	case err != nil:
		return errors.New("cannot read " + shown + ": " + formatOSError(err))
	case len(b) > limit.AppFile.Bytes:
		return errors.New("file " + shown + " exceeds the limit of 4 MiB for skill files")
	}
	if w.left -= len(b); w.left < 0 {
		return errors.New("skill " + w.src.displayPath(w.folder) + " exceeds the limit of 16 MiB")
	}
	w.files[name] = b
	return nil
}

// A skillEntry is a file or folder in a skill.
type skillEntry struct {
	name     string
	isFolder bool
}

// readSkillFolder lists a folder by name, without what does not belong to apps. Links are an error:
// a skill must not reach what its author did not write.
func (s *source) readSkillFolder(folder string) ([]skillEntry, error) {
	if s.storedRevision != nil {
		return listStoredFolder(s.storedRevision.Files, folder), nil
	}
	// The app itself may name a link, such as those in a mounted volume.
	if info, err := s.root.Stat(folder); err != nil || !info.IsDir() {
		return nil, errors.New("folder " + s.displayPath(folder) + " not found in the app")
	}
	f, err := s.root.Open(folder)
	if err != nil {
		return nil, errors.New("cannot read " + s.displayPath(folder) + ": " + formatOSError(err))
	}
	defer f.Close()
	listed, err := f.ReadDir(maxSkillFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New("cannot read " + s.displayPath(folder) + ": " + formatOSError(err))
	}
	if len(listed) > maxSkillFiles {
		return nil, errors.New("folder " + s.displayPath(folder) + " has more than 1000 entries")
	}
	var entries []skillEntry
	for _, e := range listed {
		switch {
		case strings.HasPrefix(e.Name(), ".") || e.IsDir() && isIgnored(e.Name()):
		case e.Type()&fs.ModeSymlink != 0:
			return nil, errors.New(s.displayPath(path.Join(folder, e.Name())) + " is a link, which skills must not have")
		case e.IsDir() || e.Type().IsRegular():
			entries = append(entries, skillEntry{e.Name(), e.IsDir()})
		default:
			return nil, errors.New(s.displayPath(path.Join(folder, e.Name())) + " is not a regular file")
		}
	}
	slices.SortFunc(entries, func(a, b skillEntry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}

// listStoredFolder lists a folder in a stored revision.
func listStoredFolder(files map[string][]byte, folder string) []skillEntry {
	var entries []skillEntry
	for file := range files {
		if rest, ok := strings.CutPrefix(file, folder+"/"); ok {
			name, _, isFolder := strings.Cut(rest, "/")
			if e := (skillEntry{name, isFolder}); !slices.Contains(entries, e) {
				entries = append(entries, e)
			}
		}
	}
	slices.SortFunc(entries, func(a, b skillEntry) int { return strings.Compare(a.name, b.name) })
	return entries
}

// hashSkills returns what identifies the skills' content in a resource key.
func hashSkills(skills []tool.Skill) string {
	var all []string
	for _, s := range skills {
		all = append(all, s.Content().Folder+" "+policy.HashSkill(s.Content().Files))
	}
	return strings.Join(all, "\n")
}

// withAdditionalTools appends the tools that a tool's skills make available.
func (r *resolver) withAdditionalTools(ctx context.Context, found []*resolvedTool, t ancestry) []*resolvedTool {
	if len(found) != 1 {
		return found
	}
	c, ok := found[0].config.(tool.SkillConfig)
	if !ok {
		return found
	}
	gate, ok := found[0].set.(tool.ToolGate)
	if !ok {
		return found
	}
	for _, n := range c.AdditionalTools() {
		var ref agentconfig.ToolRef
		ds := ref.DecodeSpec(n)
		r.report(ds...)
		if ds.HasErrors() {
			continue
		}
		for _, more := range r.resolveTool(ctx, &ref, t) {
			if more.set == nil || isAgentSet(ctx, more.set) {
				r.report(n.Errorf("skill", "an agent cannot be an additional tool: list it in the tools of the agent"))
				continue
			}
			gated := *more // the tool may have other uses
			gated.set = gate.GateTools(more.set)
			found = append(found, &gated)
		}
	}
	return found
}

// isAgentSet reports whether a set has a tool that calls an agent.
func isAgentSet(ctx context.Context, set tool.Set) bool {
	if tool.Dynamic(set) {
		return false
	}
	tools, err := set.Tools(ctx)
	return err == nil && slices.ContainsFunc(tools, func(t tool.Tool) bool {
		_, ok := t.(*runtime.AgentTool)
		return ok
	})
}
